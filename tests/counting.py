"""How much work is done, counted: seconds depend on the machine and on what other tests left."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import localrag

_CODE = str(localrag.__path__[0])


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
