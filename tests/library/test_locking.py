from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from localrag.errors import LibraryLockedError
from localrag.library.folder.locking import Holder, WriteLock

HOLD = """
import sys, time
from pathlib import Path
from localrag.library.folder.locking import WriteLock
with WriteLock(Path(sys.argv[1])).hold(0):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def other_process(directory: Path, seconds: float) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", HOLD, str(directory), str(seconds)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_second_writer_is_told_who_holds_it(tmp_path: Path) -> None:
    process = other_process(tmp_path, 60)
    lock = WriteLock(tmp_path)
    try:
        with pytest.raises(LibraryLockedError) as caught, lock.hold(0.1):
            pass
        assert f"process {process.pid} on" in str(caught.value)
        assert "since 20" in str(caught.value)
        holder = lock.current_holder()
        assert holder is not None
        assert holder.pid == process.pid
        with lock.try_hold() as mine:
            assert not mine
    finally:
        process.kill()
        process.communicate()
    # The lock of a killed process is free at once, though its side file is still there.
    assert lock.current_holder() is None
    with lock.hold(0):
        pass
    assert lock.holder() is None


def test_second_writer_waits_and_says_so(tmp_path: Path) -> None:
    process = other_process(tmp_path, 1.5)
    waited: list[Holder] = []
    started = time.monotonic()
    with WriteLock(tmp_path).hold(30, waited.append):
        assert time.monotonic() - started > 0.5
    assert [holder.pid for holder in waited] == [process.pid]
    process.communicate()


def test_lock_within_a_lock(tmp_path: Path) -> None:
    lock = WriteLock(tmp_path)
    with lock.hold(0):
        with lock.hold(0), lock.try_hold() as mine:
            assert mine
        assert lock.holder() is not None
        result: list[bool] = []

        def other_thread() -> None:
            with lock.try_hold() as mine:
                result.append(mine)

        thread = threading.Thread(target=other_thread)
        thread.start()
        thread.join()
        assert result == [False]
    assert lock.current_holder() is None
