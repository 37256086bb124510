"""Giving up, on Linux, every right that reading a document does not need.

`confine` is for a process of its own, before it has a second thread: it keeps what it has open,
may read installed packages, and nothing else. Landlock forbids opening, writing and running files
and TCP; seccomp allows the system calls that readers need, and no other: no socket of any kind, no
program, no new process, no signal to others, nothing that Landlock does not cover, such as `chmod`.
Root gives up its capabilities. None of it can be undone, and it passes to every thread. Names and
sizes of files (`stat`) can still be looked at.

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

_ALLOWED = {
    "files that are open, and those that Landlock lets it open": (
        "read 0 63, write 1 64, readv 19 65, writev 20 66, pread64 17 67, pwrite64 18 68, "
        "preadv 295 69, pwritev 296 70, preadv2 327 286, pwritev2 328 287, lseek 8 62, "
        "fadvise64 221 223, readahead 187 213, open 2 -, openat 257 56, openat2 437 437, "
        "close 3 57, close_range 436 436, dup 32 23, dup2 33 -, dup3 292 24, pipe 22 -, "
        "pipe2 293 59, poll 7 -, ppoll 271 73, select 23 -, pselect6 270 72"
    ),
    "what is known of files": (
        "stat 4 -, fstat 5 80, lstat 6 -, newfstatat 262 79, statx 332 291, statfs 137 43, "
        "fstatfs 138 44, access 21 -, faccessat 269 48, faccessat2 439 439, readlink 89 -, "
        "readlinkat 267 78, getdents 78 -, getdents64 217 61, getcwd 79 17"
    ),
    "memory; libffi makes functions by memfd_create, OpenBLAS calls mbind": (
        "mmap 9 222, munmap 11 215, mprotect 10 226, mremap 25 216, madvise 28 233, brk 12 214, "
        "mincore 27 232, msync 26 227, mbind 237 235, get_mempolicy 239 236, "
        "memfd_create 319 279, membarrier 324 283"
    ),
    "its threads": (
        "futex 202 98, futex_waitv 449 449, futex_wake 454 454, futex_wait 455 455, "
        "futex_requeue 456 456, set_robust_list 273 99, rseq 334 293, "
        "set_tid_address 218 96, arch_prctl 158 -, gettid 186 178, getcpu 309 168, "
        "sched_yield 24 124, sched_getaffinity 204 123, sched_getparam 143 121, "
        "sched_getscheduler 145 120, sched_get_priority_max 146 125, "
        "sched_get_priority_min 147 126, exit 60 93, exit_group 231 94"
    ),
    "signals that it gets": (
        "rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139, rt_sigpending 127 136, "
        "sigaltstack 131 132, restart_syscall 219 128"
    ),
    "time": (
        "clock_gettime 228 113, clock_getres 229 114, gettimeofday 96 169, time 201 -, "
        "nanosleep 35 101, clock_nanosleep 230 115, times 100 153, getrusage 98 165"
    ),
    "what it is itself": (
        "getpid 39 172, getppid 110 173, getuid 102 174, geteuid 107 175, getgid 104 176, "
        "getegid 108 177, uname 63 160, sysinfo 99 179, getrandom 318 278, getrlimit 97 163, "
        "setrlimit 160 164"
    ),
}
"""System calls by name, with their numbers on x86_64 and aarch64. What readers call was taken down
with `strace -ff` (Linux 6.18, glibc 2.36, x86_64) over files of all formats, with text recognition
and LibreOffice. The others are what older or newer versions of glibc, musl, Rust's library and
OpenBLAS call in place of those. Of another process they tell how it is scheduled, and no more; what
they open is Landlock's to refuse. On aarch64 and with musl nothing was run: the numbers of aarch64
are those of the same names in the kernel's <asm-generic/unistd.h>."""

_ALLOWED_AT_WORK = (
    "mkdir 83 -, mkdirat 258 34, rmdir 84 -, unlink 87 -, unlinkat 263 35, rename 82 -, "
    "renameat 264 38, renameat2 316 276, creat 85 -, ftruncate 77 46, fallocate 285 47, "
    "fsync 74 82, fdatasync 75 83, flock 73 32, umask 95 166, chdir 80 49, fchdir 81 50, "
    "sendfile 40 71, copy_file_range 326 285, eventfd2 290 19, epoll_create1 291 20, "
    "epoll_ctl 233 21, epoll_wait 232 -, epoll_pwait 281 22"
)
"""In addition where there is a folder to work in: what LibreOffice calls there."""

_NEWER = 424
"""The first call of those that have the same number everywhere, all newer than Linux 5.0. Libraries
expect that a kernel lacks them, and call others in their place: clone for clone3, whose flags no
filter sees. So they do not exist here; what is older and not allowed is refused (EPERM)."""

_CLONE = "clone 56 220"
_ABOUT_A_PROCESS = "kill 62 129, tgkill 234 131, prlimit64 302 261"
"""Their first argument is a process: this one only."""

_BY_ORDER = {
    # F_DUPFD, _GETFD, _SETFD, _GETFL, _SETFL, _GETLK, _SETLK, _SETLKW, _OFD_GETLK, _OFD_SETLK,
    # _OFD_SETLKW, _DUPFD_CLOEXEC, _SETPIPE_SZ, _GETPIPE_SZ, _ADD_SEALS, _GET_SEALS. Not F_SETOWN,
    # F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY, by which a file signals to others.
    "fcntl 72 25": (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032, 1033, 1034),
    # TCGETS, TCGETS2, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX. Not FIOSETOWN, SIOCSPGRP,
    # nor TIOCSTI and TIOCLINUX, which type into a terminal.
    "ioctl 16 29": (0x5401, 0x802C542A, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451),
    # PR_SET_PDEATHSIG, PR_GET_PDEATHSIG, _GET_DUMPABLE, _SET_NAME, _GET_NAME, _GET_SECCOMP,
    # _CAPBSET_READ, _GET_NO_NEW_PRIVS, _SVE_GET_VL, and PR_SET_VMA, which names memory.
    "prctl 157 167": (1, 2, 3, 15, 16, 21, 23, 39, 51, 0x53564D41),
}
"""Calls that do many things, and the orders that are allowed: the first argument of prctl, and the
second of the others."""

_CAPSET = "capset 126 91"
_PR_CAPBSET_DROP, _PR_CAP_AMBIENT, _CLEAR_ALL = 24, 47, 4
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
    restrictions: set[Held] = set()
    paths = [*readable(), *also]
    _drop_capabilities(libc, paths)
    if _landlock(libc, paths, work):
        restrictions.add("files")
    if _seccomp(libc, works=work is not None):
        restrictions.add("system calls")
    return restrictions


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
    lines = done.stdout.decode("ascii", "replace").splitlines()
    return {kind for kind in get_args(Held) if kind in lines}


def readable() -> list[Path]:
    """What may be read: Python, installed packages, and the libraries of the system."""
    package = Path(localrag.__file__).resolve().parent
    home = Path.home()
    paths = {package, Path("/etc/ld.so.cache"), Path(os.devnull)}
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
            paths.add(path)
    return sorted(paths)


@cache
def _statm() -> int:
    """What the kernel says of this process's memory; to be opened before files are given up."""
    return os.open("/proc/self/statm", os.O_RDONLY)


def _drop_capabilities(libc: ctypes.CDLL, paths: list[Path]) -> None:
    """Give up what root has beyond other accounts.

    But for reading any file, which Landlock bounds, where these paths are of another account's and
    closed to this one.
    """
    machine = platform.machine()
    if sys.platform != "linux" or machine not in _ARCHITECTURES:
        return
    (capset,) = _numbers(_CAPSET, machine)
    head = struct.pack("=Ii", _CAPABILITIES, 0)

    def keep(permitted: int, effective: int) -> bool:
        sets = struct.pack("=6I", effective, permitted, 0, 0, 0, 0)
        return not libc.syscall(capset, head, sets)

    for number in range(64):  # for root alone; there are 41 of them as yet
        libc.prctl(_PR_CAPBSET_DROP, *map(ctypes.c_ulong, (number, 0, 0, 0)))
    libc.prctl(_PR_CAP_AMBIENT, *map(ctypes.c_ulong, (_CLEAR_ALL, 0, 0, 0)))
    if os.geteuid() == 0 and keep(_READ_ANY, 0) and not all(map(_opens, paths)):
        keep(_READ_ANY, _READ_ANY)
    else:
        keep(0, 0)


def _opens(path: Path) -> bool:
    """Whether a path can be opened, or is not there."""
    try:
        os.close(os.open(path, os.O_RDONLY))
    except PermissionError:
        return False
    except OSError:
        return True
    return True


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


def _seccomp(libc: ctypes.CDLL, *, works: bool) -> bool:
    machine = platform.machine()
    if machine not in _ARCHITECTURES:
        return False
    code = _filter(machine, works=works)
    instructions = ctypes.create_string_buffer(b"".join(code))
    program = struct.pack("@HP", len(code), ctypes.addressof(instructions))
    return not libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(2), program)


def _numbers(calls: str, machine: str) -> list[int]:
    """The numbers of some calls, "open 2 -, read 0 63", that a processor has."""
    column = 1 + list(_ARCHITECTURES).index(machine)
    numbers = [call.split()[column] for call in calls.split(", ")]
    return [int(number) for number in numbers if number != "-"]


def _filter(machine: str, *, works: bool) -> list[bytes]:
    """A program of the classic Berkeley packet filter over `struct seccomp_data`."""

    def do(code: int, value: int, then: int = 0, otherwise: int = 0) -> bytes:
        return struct.pack("=HBBI", code, then, otherwise, value)

    load, equal, from_on, any_bit, give = 0x20, 0x15, 0x35, 0x45, 0x06
    number, architecture, first, second = 0, 4, 16, 24  # offsets; of arguments, their lower halves
    allow = do(give, 0x7FFF0000)
    forbid, unknown = (
        do(give, 0x00050000 | code_number) for code_number in (errno.EPERM, errno.ENOSYS)
    )

    code = [do(load, architecture), do(equal, _ARCHITECTURES[machine], 1, 0), forbid]
    code += [do(load, number)]
    for call in _numbers(_CLONE, machine):
        code += [do(equal, call, 0, 4), do(load, first)]
        code += [do(any_bit, _CLONE_THREAD, 0, 1), allow, forbid]
    for call in _numbers(_ABOUT_A_PROCESS, machine):
        code += [do(equal, call, 0, 5), do(load, first), do(equal, os.getpid(), 1, 0)]
        code += [do(equal, 0, 0, 1), allow, forbid]
    for calls, orders in _BY_ORDER.items():
        (call,), count = _numbers(calls, machine), len(orders)
        argument = first if calls.startswith("prctl") else second
        code += [do(equal, call, 0, count + 3), do(load, argument)]
        code += [do(equal, order, count - done) for done, order in enumerate(orders)]
        code += [forbid, allow]
    groups = [*_ALLOWED.values(), *([_ALLOWED_AT_WORK] if works else [])]
    allowed = [call for calls in groups for call in _numbers(calls, machine)]
    code += [do(equal, call, len(allowed) - done + 2) for done, call in enumerate(allowed)]
    return [*code, do(from_on, _NEWER, 1, 0), forbid, unknown, allow]
