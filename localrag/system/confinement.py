"""Giving up, on Linux, every right that reading a document does not need.

`confine` is for a process of its own, before it has a second thread: it keeps what it has open,
may read installed packages, and nothing else. Landlock forbids opening, writing and running files
and TCP; seccomp forbids sockets of any kind, programs, new processes, signals to others, and what
Landlock does not cover, such as `chmod`. Root gives up its capabilities. None of it can be undone,
and it passes to every thread. Names and sizes of files (`stat`) can still be looked at.

No library on the package index does both for every kernel and is past its first versions.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal, get_args

import localrag
from localrag.system import processes

Held = Literal["files", "system calls"]
"""What a process has given up: the files that it need not read; the network, programs, signals."""

# From the kernel's <linux/landlock.h>
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_RULE_PATH_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 1, 1 << 2, 1 << 3
_WORK = _WRITE_FILE | _READ_FILE | _READ_DIR | 0b11 << 4 | 0b11 << 7 | 1 << 14
"""To read, write, remove, make and cut plain files and folders."""
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15, 5: 16}
"""How many rights about files each version knows; later ones know those of 5."""
_TCP, _SCOPES = 0b11, 0b11

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS = 22, 38
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONE_THREAD = 0x00010000
_NEWEST = 469
"""The last system call that is known here; later ones do not exist for us."""

# The same number everywhere.
_COMMON = (
    *(424, 434, 438, 440, 448),  # pidfd_send_signal, _open, _getfd, process_madvise, _mrelease
    *(425, 426, 427),  # io_uring, which does what it is asked past this filter
    *(428, 429, 430, 431, 432, 433, 442, 467),  # mounting
    *(457, 458, 443),  # statmount, listmount, which tell what is mounted where; quotactl_fd
    *(452, 463, 466, 469),  # fchmodat2, setxattrat, removexattrat, file_setattr
)
_FORBIDDEN = {
    "x86_64": (
        *(41, 42, 43, 49, 50, 53, 288),  # socket, connect, accept, bind, listen, socketpair
        *(44, 46, 307),  # sendto, sendmsg, sendmmsg
        *(57, 58, 59, 322),  # fork, vfork, execve, execveat
        *(101, 310, 311, 312, 298, 321, 323),  # ptrace, process_vm_*, kcmp, perf, bpf, userfault
        *(200, 129, 297, 109, 112, 141),  # tkill, rt_*sigqueueinfo, setpgid, setsid, setpriority
        *(29, 30, 31, 67, 64, 65, 66, 220),  # shared memory, semaphores
        *(68, 69, 70, 71, 240, 241, 242, 243, 244, 245),  # message queues
        *(76, 90, 91, 268, 92, 93, 94, 260),  # truncate, chmod, chown
        *(132, 235, 261, 280, 188, 189, 190, 197, 198, 199),  # times, extended attributes
        *(248, 249, 250, 303, 304),  # the kernel's keys, files by handle
        *(253, 254, 294),  # inotify, which tells the names in folders that cannot be read
        *(142, 144, 203, 314, 251, 256, 279),  # how others run: scheduling, processors, memory
        *(155, 161, 165, 166, 272, 308, 135),  # mount, chroot, namespaces, personality
        *(163, 164, 167, 168, 169, 170, 171, 175, 176, 179, 246, 300, 305, 313, 320),  # the machine
        *(103, 134, 154),  # syslog, which tells the kernel's log; uselib, modify_ldt
    ),
    "aarch64": (
        *(198, 199, 200, 201, 202, 203, 242),
        *(206, 211, 269),
        *(221, 281),
        *(117, 270, 271, 272, 241, 280, 282),
        *(130, 138, 240, 154, 157, 140),
        *(194, 195, 196, 197, 190, 191, 192, 193),
        *(186, 187, 188, 189, 180, 181, 182, 183, 184, 185),
        *(45, 52, 53, 54, 55),
        *(88, 5, 6, 7, 14, 15, 16),
        *(217, 218, 219, 264, 265),
        *(26, 27),
        *(118, 119, 122, 274, 30, 238, 239),
        *(39, 40, 41, 51, 92, 97, 268),
        *(60, 89, 104, 105, 106, 142, 161, 162, 170, 224, 225, 262, 266, 273, 294),
        *(116,),
    ),
}
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_ABOUT_A_PROCESS = {"x86_64": (62, 234, 302), "aarch64": (129, 131, 261)}
"""kill, tgkill and prlimit64, whose first argument is a process: this one only."""

_ORDERS = {
    # fcntl, ioctl
    "x86_64": {72: (8, 10, 15, 1024, 1026), 16: (0x8901, 0x8902, 0x5412, 0x541C)},
    "aarch64": {25: (8, 10, 15, 1024, 1026), 29: (0x8901, 0x8902, 0x5412, 0x541C)},
}
"""Second arguments by which a file signals to others, or types into a terminal: F_SETOWN, F_SETSIG,
F_SETOWN_EX, F_SETLEASE, F_NOTIFY; FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX."""
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITIES = 0x20080522
"""The version of the structures that `capset` takes."""
_READ_ANY = 1 << 2
"""CAP_DAC_READ_SEARCH: root may use packages that another account has installed."""


def confine(*also: Path, work: Path | None = None) -> set[Held]:
    """Give up what the kernel lets this process give up; says what that is, nothing elsewhere.

    `also` are files that it goes on reading, `work` is a folder where it may make and change some.
    """
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return set()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, *map(ctypes.c_ulong, (1, 0, 0, 0))):
        return set()
    _statm()
    held: set[Held] = set()
    _drop_capabilities(libc)
    if _landlock(libc, [*readable(), *also], work):
        held.add("files")
    if _seccomp(libc):
        held.add("system calls")
    return held


def limit_memory(size: int) -> None:
    """Let this process have so many bytes more of address space than now, where the system can."""
    if sys.platform != "linux":
        return  # whoever started it watches what it holds
    import resource

    pages = int(os.pread(_statm(), 100, 0).split()[0])
    now = pages * resource.getpagesize()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + size, hard))


def watch_memory(size: int) -> Callable[[int], None] | None:
    """For `processes.run`: raise MemoryError for a program that holds so many bytes.

    None where a program can limit itself.
    """
    if sys.platform == "linux":
        return None
    import psutil

    def watch(number: int) -> None:
        with suppress(psutil.Error):
            if psutil.Process(number).memory_info().rss > size:
                raise MemoryError

    return watch


def limit_time(seconds: int) -> None:
    """Let this process compute for so many seconds more, where the system can."""
    if sys.platform == "win32":
        return
    import resource
    import time

    end = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (end, end))


def limit_files(size: int) -> None:
    """Let no file that this process writes become larger, where the system can."""
    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def in_force() -> set[Held]:
    """What `confine` can give up on this machine: a process tries."""
    program = (
        "from localrag.egress import network; network.close_doors(); "
        "from localrag.system.confinement import confine; print(*confine(), sep='\\n')"
    )
    keep = (*processes.PLAIN, "LOCALRAG_WATCHED")  # so that a watched run knows whose child it is
    done = processes.run(processes.python(program), keep)
    said = done.stdout.decode("ascii", "replace").splitlines()
    return {kind for kind in get_args(Held) if kind in said}


def readable() -> list[Path]:
    """What may be read: Python, installed packages, and the libraries of the system."""
    package = Path(localrag.__file__).resolve().parent
    home = Path.home()
    found = {package, Path("/etc/ld.so.cache"), Path(os.devnull)}
    folders = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib"]
    folders += ["/usr/local/lib64", "/nix/store", "/gnu/store"]
    folders += [sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), *sys.path]
    folders += [str(Path(prefix, "lib")) for prefix in (sys.prefix, sys.base_prefix)]
    folders += os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for folder in filter(None, folders):
        path = Path(folder).resolve()
        # Where localrag runs from its sources, these lie among other things.
        sources = path == package.parent and not (path / "msgspec").is_dir()
        if not sources and not home.is_relative_to(path):
            found.add(path)
    return sorted(found)


@cache
def _statm() -> int:
    """What the kernel says of this process's memory; to be opened before files are given up."""
    return os.open("/proc/self/statm", os.O_RDONLY)


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Give up what root has beyond other accounts, but for reading, which Landlock bounds."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _CAPSET:
        return
    kept = _READ_ANY if os.geteuid() == 0 else 0
    head = struct.pack("=Ii", _CAPABILITIES, 0)
    for left in (kept, 0):  # in a container root may have been given less than that
        if not libc.syscall(_CAPSET[machine], head, struct.pack("=6I", left, left, 0, 0, 0, 0)):
            return


def _landlock(libc: ctypes.CDLL, paths: list[Path], work: Path | None) -> bool:
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(1))
    if version < 1:
        return False
    rights = (1 << _FS_RIGHTS.get(version, _FS_RIGHTS[5])) - 1
    attributes = struct.pack("=Q", rights)
    if version >= 4:
        attributes += struct.pack("=Q", _TCP)
    if version >= 6:
        attributes += struct.pack("=Q", _SCOPES)
    ruleset = libc.syscall(
        _CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
    )
    if ruleset < 0:
        return False
    try:
        for path in paths:
            if not _allow(libc, ruleset, path):
                return False
        if work is not None and not _allow(libc, ruleset, work, _WORK & rights):
            return False
        return not libc.syscall(_RESTRICT_SELF, ruleset, ctypes.c_uint(0))
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: Path, more: int = 0) -> bool:
    try:
        place = os.open(path, os.O_RDONLY)
    except OSError:
        return True  # not there, so there is nothing to allow
    try:
        allowed = _READ_FILE | _READ_DIR if path.is_dir() else _READ_FILE
        if path == Path(os.devnull):
            allowed |= _WRITE_FILE
        allowed |= more
        rule = struct.pack("=Qi", allowed, place)
        return not libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, ctypes.c_uint(0))
    finally:
        os.close(place)


def _seccomp(libc: ctypes.CDLL) -> bool:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return False
    code = _filter(machine)
    instructions = ctypes.create_string_buffer(b"".join(code))
    program = struct.pack("@HP", len(code), ctypes.addressof(instructions))
    return not libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), program)


def _filter(machine: str) -> list[bytes]:
    """A program of the classic Berkeley packet filter over `struct seccomp_data`."""

    def do(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    load, equal, greater, any_bit, give = 0x20, 0x15, 0x25, 0x45, 0x06
    number, architecture, first, second = 0, 4, 16, 24  # offsets; of arguments, their lower halves
    allow = do(give, 0x7FFF0000)
    forbid, unknown = (
        do(give, 0x00050000 | code_number) for code_number in (errno.EPERM, errno.ENOSYS)
    )

    code = [do(load, architecture), do(equal, _ARCHITECTURES[machine], 1, 0), forbid]
    code += [do(load, number), do(greater, _NEWEST, 0, 1), unknown]
    code += [do(equal, _CLONE3, 0, 1), unknown]  # its flags cannot be seen; libraries use clone
    code += [do(equal, _CLONE[machine], 0, 4), do(load, first)]
    code += [do(any_bit, _CLONE_THREAD, 0, 1), allow, forbid]
    for call in _ABOUT_A_PROCESS[machine]:
        code += [do(equal, call, 0, 5), do(load, first), do(equal, os.getpid(), 1, 0)]
        code += [do(equal, 0, 0, 1), allow, forbid]
    for call, orders in _ORDERS[machine].items():
        count = len(orders)
        code += [do(equal, call, 0, count + 3), do(load, second)]
        code += [do(equal, order, count - done, 0) for done, order in enumerate(orders)]
        code += [allow, forbid]
    forbidden = (*_FORBIDDEN[machine], *_COMMON)
    for done, call in enumerate(forbidden):
        code.append(do(equal, call, len(forbidden) - done, 0))
    return [*code, allow, forbid]
