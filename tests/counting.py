"""How much work is done, counted: seconds depend on the machine and on what other tests left."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from types import FrameType

import localrag

_CODE = str(localrag.__path__[0])


def seconds(work: Callable[[], object]) -> float:
    """Processor time of this thread, without the collector walking what other tests left.

    For code in C, where nothing can be counted; a bound is ten times what it takes.
    """
    gc.collect()
    gc.disable()
    try:
        start = time.thread_time()
        work()
        return time.thread_time() - start
    finally:
        gc.enable()


def instructions(work: Callable[[], object]) -> int:
    """Bytecode instructions of localrag that `work` runs in this thread.

    Code in C counts as nothing: this shows loops in Python, not a slow regular expression.
    """
    count = 0

    def call(frame: FrameType, _event: str, _value: object) -> object:
        if not frame.f_code.co_filename.startswith(_CODE):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return add

    def add(_frame: FrameType, event: str, _value: object) -> object:
        nonlocal count
        count += event == "opcode"
        return add

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
