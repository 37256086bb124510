"""Where a key lives: in memory that is not written out, and with the kernel between two commands.

What a system does not do is said by the return value and never passed over. Knows nothing of what
the keys open.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

_PR_SET_DUMPABLE = 4
_MCL_CURRENT, _MCL_FUTURE = 1, 2

# include/uapi/linux/keyctl.h
_USER_KEYRING = -4
_REVOKE, _READ, _LINK, _SEARCH, _SET_TIMEOUT, _SETPERM = 3, 11, 8, 10, 15, 5
_OWNER_ALONE = 0x3F3F0000
"""All rights for who possesses it and for its owner, none for others."""
_CALLS = {"x86_64": (248, 250), "aarch64": (217, 219), "riscv64": (217, 219)}
"""The numbers of add_key and keyctl."""


Ask = Callable[[Path], str | None]
"""A person's passphrase for what is in a folder; None where nobody can be asked."""


class _Person:
    """Who can be asked in this process."""

    ask: Ask = staticmethod(lambda _: None)


def asking(ask: Ask) -> None:
    """Have a person asked from now on, where something closed is to be opened."""
    _Person.ask = staticmethod(ask)


def ask_passphrase(folder: Path) -> str | None:
    """What they say; None where nobody can be asked."""
    return _Person.ask(folder)


class LockedBytes:
    """A secret in a page of its own that is not swapped, where the system allows that.

    `wipe` overwrites it. Copies that libraries make of it are theirs.
    """

    def __init__(self, secret: bytes) -> None:
        self._size = len(secret)
        self._page: mmap.mmap | None = mmap.mmap(-1, mmap.PAGESIZE)
        if sys.platform == "linux":
            self._page.madvise(mmap.MADV_DONTDUMP)
        self.locked = _lock(self._page)
        self._page[: self._size] = secret

    def __bytes__(self) -> bytes:
        """The secret. Raises ValueError once it is wiped."""
        if self._page is None:
            raise ValueError("the key was wiped")
        return self._page[: self._size]

    def wipe(self) -> None:
        """Overwrite it and give the page back."""
        if self._page is not None:
            self._page[: self._size] = bytes(self._size)
            self._page.close()
            self._page = None


def leave_no_dump() -> bool:
    """Have this process leave no core dump, and no other program of its user read its memory.

    False where the system knows no such thing (Windows, whose error reports may hold memory).
    """
    if sys.platform == "win32":
        return False
    import resource

    with suppress(OSError, ValueError):
        _, hard = resource.getrlimit(resource.RLIMIT_CORE)
        resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if sys.platform != "linux":
        return resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    return not ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, *map(ctypes.c_ulong, (0, 0, 0, 0)))


def keep_from_swap() -> bool:
    """Have nothing of this process written to swap from now on, where its limits allow that.

    Most users may lock a few megabytes alone (`ulimit -l`): then it is False and nothing is done.
    """
    if sys.platform == "win32":
        return False
    import resource

    limit = getattr(resource, "RLIMIT_MEMLOCK", None)
    if limit is None or resource.getrlimit(limit)[0] != resource.RLIM_INFINITY:
        return False  # locking would make later requests for memory fail
    return not ctypes.CDLL(None).mlockall(_MCL_CURRENT | _MCL_FUTURE)


def _lock(page: mmap.mmap) -> bool:
    if sys.platform == "win32":
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        lock = ctypes.windll.kernel32.VirtualLock
        return bool(lock(ctypes.c_void_p(address), ctypes.c_size_t(len(page))))
    buffer = ctypes.c_char.from_buffer(page)
    address = ctypes.addressof(buffer)
    del buffer  # it would keep the page from being closed
    return not ctypes.CDLL(None).mlock(ctypes.c_void_p(address), ctypes.c_size_t(len(page)))


class KernelKeys:
    """Secrets that the Linux kernel keeps for this user, in its own memory, for so many seconds.

    Every process of the user can read them until then (keyrings(7)); no file, agent or variable
    holds them. `available` is False on other systems, and where a container forbids the calls.
    """

    @property
    def available(self) -> bool:
        """Whether this kernel keeps keys for this process."""
        return self._call("keyctl", 0, _USER_KEYRING, 1) >= 0  # KEYCTL_GET_KEYRING_ID

    def put(self, name: str, secret: bytes, seconds: int) -> bool:
        """Keep it under that name; whether the kernel does."""
        number = self._call("add_key", b"user", name.encode(), secret, len(secret), _USER_KEYRING)
        if number < 0:
            return False
        if (
            self._call("keyctl", _SET_TIMEOUT, number, seconds) < 0
            or self._call("keyctl", _SETPERM, number, _OWNER_ALONE) < 0
        ):
            self._call("keyctl", _REVOKE, number)
            return False
        return True

    def get(self, name: str, *, seconds: int | None = None) -> bytes | None:
        """The secret, kept for `seconds` from now on where they are given; None for none."""
        number = self._find(name)
        buffer = ctypes.create_string_buffer(256)
        size = self._call("keyctl", _READ, number, buffer, len(buffer)) if number > 0 else -1
        if not 0 < size <= len(buffer):
            return None
        if seconds is not None:
            self._call("keyctl", _SET_TIMEOUT, number, seconds)
        secret = buffer.raw[:size]
        ctypes.memset(buffer, 0, len(buffer))
        return secret

    def drop(self, name: str) -> bool:
        """Have the kernel forget it; whether it had it."""
        number = self._find(name)
        return number > 0 and self._call("keyctl", _REVOKE, number) >= 0

    def _find(self, name: str) -> int:
        return self._call("keyctl", _SEARCH, _USER_KEYRING, b"user", name.encode(), 0)

    @staticmethod
    def _call(call: str, *arguments: object) -> int:
        numbers = _numbers()
        if numbers is None:
            return -1
        passed = [
            ctypes.c_long(argument) if isinstance(argument, int) else argument
            for argument in arguments
        ]
        number = numbers[("add_key", "keyctl").index(call)]
        function = ctypes.CDLL(None, use_errno=True).syscall
        function.restype = ctypes.c_long
        return int(function(ctypes.c_long(number), *passed))


@cache
def _numbers() -> tuple[int, int] | None:
    if sys.platform != "linux":
        return None
    import platform

    return _CALLS.get(platform.machine())
