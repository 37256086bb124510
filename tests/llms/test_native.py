from __future__ import annotations

import os
import signal
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
    seen: list[object] = []

    def work() -> None:
        with interrupts_wait():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]
