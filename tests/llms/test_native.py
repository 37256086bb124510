from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

from localrag.models.llms.llama_cpp.native import interrupts_wait


@pytest.mark.skipif(os.name == "nt", reason="only on systems where a process can interrupt itself")
def test_ctrl_c_waits_until_the_block_ends_and_is_not_lost() -> None:
    before = signal.getsignal(signal.SIGINT)
    finished = False
    with pytest.raises(KeyboardInterrupt), interrupts_wait():  # noqa: PT012
        os.kill(os.getpid(), signal.SIGINT)
        finished = True
    assert finished
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_leave_the_handler_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    handlers: list[object] = []

    def work() -> None:
        with interrupts_wait():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [before]


@pytest.mark.skipif(sys.platform != "linux", reason="only on systems where OpenMP is GNU's")
@pytest.mark.parametrize(
    ("given", "found"),
    [({}, "500"), ({"GOMP_SPINCOUNT": "7"}, "7")],
)
def test_threads_wait_for_a_moment_and_then_sleep(given: dict[str, str], found: str) -> None:
    """Unless the user has said how; and no program that is started later is told."""
    program = "import os; from localrag.models.llms.llama_cpp import native; native.load();"
    program += "print(*(name for name in os.environ if name.startswith(('OMP_', 'GOMP_'))))"
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_"))}
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=plain | {"OMP_DISPLAY_ENV": "VERBOSE"} | given,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{found}'" in result.stderr
    assert set(result.stdout.split()) == {"OMP_DISPLAY_ENV", *given}
