"""Opening a path of which no part is a link, so that nobody can lead elsewhere meanwhile.

Whoever has found out where a path really leads, and that this is where it may lead, opens the real
path with `open_unlinked`: what has become a link since then is refused by the system itself. Linux
(5.6) and macOS do this in one call; other systems go from folder to folder. Windows cannot.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from functools import cache
from pathlib import Path

_OPENAT2, _AT_FDCWD = 437, -100
_NO_SYMLINKS = 0x04
"""From the kernel's <linux/openat2.h>."""

_CLOSED = getattr(os, "O_CLOEXEC", 0)


def open_unlinked(real: str, flags: int) -> int:
    """A descriptor of what lies at an absolute path without links and without "..".

    Raises OSError, with ELOOP, ENOTDIR or EMLINK as the system has it, if a part of it is a link.
    On Windows links are followed: whoever calls looks at what was opened. Raises ValueError for
    `flags` that write or make a file.
    """
    if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        raise ValueError("this is for reading")
    flags |= _CLOSED
    if sys.platform == "win32":
        return os.open(real, flags)
    elif sys.platform == "darwin":  # noqa: RET505  # else mypy looks into it on Windows
        return os.open(real, flags | os.O_NOFOLLOW_ANY)
    else:
        return _in_one_call(real, flags) if _has_openat2() else _step_by_step(real, flags)


@cache
def _has_openat2() -> bool:
    """Whether the kernel has it, and lets this process call it: a container may not."""
    if sys.platform != "linux":
        return False
    try:
        os.close(_in_one_call(os.sep, os.O_RDONLY | os.O_DIRECTORY | _CLOSED))
    except OSError:
        return False
    return True


def _in_one_call(real: str, flags: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    how = struct.pack("=QQQ", flags, 0, _NO_SYMLINKS)
    path = os.fsencode(real)
    while True:
        descriptor = libc.syscall(_OPENAT2, _AT_FDCWD, path, how, ctypes.c_size_t(len(how)))
        if descriptor >= 0:
            return int(descriptor)
        number = ctypes.get_errno()
        if number != errno.EINTR:  # a signal came in between
            raise OSError(number, os.strerror(number), real)


if sys.platform != "win32":

    def _step_by_step(real: str, flags: int) -> int:
        """The same with `openat`, one part of the path after the other."""
        # A folder that may be passed through but not listed opens with O_PATH alone.
        way = os.O_DIRECTORY | _CLOSED | getattr(os, "O_PATH", os.O_RDONLY)
        _, *above, name = (*Path(real).parts, os.curdir) if real == os.sep else Path(real).parts
        place = os.open(os.sep, way)
        try:
            for part in above:
                inner = os.open(part, way | os.O_NOFOLLOW, dir_fd=place)
                os.close(place)
                place = inner
            return os.open(name, flags | os.O_NOFOLLOW, dir_fd=place)
        finally:
            os.close(place)
