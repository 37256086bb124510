from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from localrag.errors import LibraryLockedError
from localrag.library.folder.locking import Holder, WriteLock

HOLD = """
import sys
from pathlib import Path
from localrag.library.folder.locking import WriteLock
with WriteLock(Path(sys.argv[1])).hold(0):
    print("held", flush=True)
    sys.stdin.read()
"""


def other_process(directory: Path) -> subprocess.Popen[str]:
    """Holds it until its input ends."""
    arguments = [sys.executable, "-c", HOLD, str(directory)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(arguments, text=True, **pipes)  # type: ignore[call-overload]
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_second_writer_is_told_who_holds_it(tmp_path: Path) -> None:
    process = other_process(tmp_path)
    lock = WriteLock(tmp_path)
    try:
        with pytest.raises(LibraryLockedError) as error, lock.hold(0.1):
            pass
        assert f"process {process.pid} on" in str(error.value)
        assert "since 20" in str(error.value)
        holder = lock.current_holder()
        assert holder is not None
        assert holder.pid == process.pid
        with lock.try_hold() as held_lock:
            assert not held_lock
    finally:
        process.kill()
        process.communicate()
    # The lock of a killed process is free at once, though its side file is still there.
    assert lock.current_holder() is None
    with lock.hold(0):
        pass
    assert lock.holder() is None


def test_second_writer_waits_and_says_so(tmp_path: Path) -> None:
    process = other_process(tmp_path)
    waited: list[Holder] = []

    def hear(holder: Holder) -> None:
        assert process.stdin is not None
        waited.append(holder)
        process.stdin.close()

    with WriteLock(tmp_path).hold(60, hear):
        assert [holder.pid for holder in waited] == [process.pid]
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def test_lock_within_a_lock(tmp_path: Path) -> None:
    lock = WriteLock(tmp_path)
    with lock.hold(0):
        with lock.hold(0), lock.try_hold() as held_lock:
            assert held_lock
        assert lock.holder() is not None
        result: list[bool] = []

        def other_thread() -> None:
            with lock.try_hold() as inner_lock:
                result.append(inner_lock)

        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        assert result == [False]
    assert lock.current_holder() is None
