"""What the process that reads documents may still do on Linux: nothing but read what it is sent."""

from __future__ import annotations

import errno
import os
import platform
import re
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from localrag.cli import doctor
from localrag.documents.worker import PROGRAM, ParsingProcess
from localrag.errors import ParsingError
from localrag.system import confinement, processes

ATTACKING = """
import ctypes, os, socket, subprocess, sys, threading
import localrag.documents.files as files

STATUS = os.open("/proc/self/status", os.O_RDONLY)  # which cannot be opened any more, later
from localrag.types import Document, Page

def thread(action):
    said = []
    def run():
        try:
            said.append(action())
        except OSError as error:
            said.append(error)
    one = threading.Thread(target=run)
    one.start()
    one.join()
    if isinstance(said[0], OSError):
        raise said[0]
    return said[0]

def call(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return "done"

ON_X86 = os.uname().machine == "x86_64"

def capabilities(name):
    lines = os.pread(STATUS, 10_000, 0).decode().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith(name))

def parse_file(path, data, options, tick, **_):
    target = data.decode()
    try:
        said = repr(eval(path.stem.replace("÷", "/"), globals() | {"target": target}))
    except OSError as error:
        said = "refused" if error.errno in (1, 13, 38) else repr(error)
    return Document("id", str(path), said, (Page(1, "text"),), (), {})

files.parse_file = parse_file
"""


@pytest.fixture(scope="module")
def process() -> Iterator[ParsingProcess]:
    missing = {"files", "system calls"} - confinement.in_force()
    if missing:
        pytest.skip("only where the kernel has Landlock and seccomp")
    worker = ParsingProcess(program=ATTACKING + PROGRAM)
    yield worker
    worker.close()


def attack(process: ParsingProcess, code: str, target: object = "") -> str:
    path = Path(code.replace("/", "÷") + ".txt")
    return process(path, str(target).encode()).title


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / ".ssh" / "id_ed25519"
    path.parent.mkdir()
    path.write_text("a private key")
    return path


@pytest.mark.parametrize(
    "code",
    [
        "open(target).read()",
        "thread(lambda: open(target).read())",
        "os.listdir(os.path.dirname(target))",
        "open(target, 'a')",
        "open(target + '.new', 'w')",
        "os.truncate(target, 0)",
        "os.unlink(target)",
        "os.rename(target, target + '.old')",
        "os.link(target, target + '.link')",
        "os.symlink('x', target + '.link')",
        "os.mkdir(target + '.folder')",
        "os.mkfifo(target + '.fifo')",
        "os.chmod(target, 0o777)",
        "os.utime(target, (1, 1))",
        "os.chown(target, os.getuid(), os.getgid())",
        "os.setxattr(target, 'user.x', b'x')",
    ],
)
def test_other_files_can_be_neither_read_nor_changed(
    process: ParsingProcess, secret: Path, code: str
) -> None:
    before = secret.stat()
    assert attack(process, code, secret) == "refused"
    assert secret.stat() == before  # first: reading it changes when it was read
    assert secret.read_text() == "a private key"
    assert [path.name for path in secret.parent.iterdir()] == ["id_ed25519"]


@pytest.mark.parametrize(
    "code",
    [
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socketpair()",
        "thread(lambda: socket.socket())",
        "call(425, 8, bytes(120))",  # io_uring_setup
    ],
)
def test_there_is_no_network(process: ParsingProcess, code: str) -> None:
    assert attack(process, code) == "refused"


def test_not_even_a_server_beside_it_can_be_reached(process: ParsingProcess) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = "socket.create_connection(('127.0.0.1', int(target)))"
        assert attack(process, code, server.getsockname()[1]) == "refused"


@pytest.mark.parametrize(
    "code",
    [
        "subprocess.run([target])",
        "os.execv(target, [target])",
        "os.posix_spawn(target, [target], {})",
        "os.fork()",
        "os.system(target) and os.fork()",
        "call(435, bytes(88), 88)",  # clone3
        "os.setsid()",
    ],
)
def test_no_program_and_no_process_is_started(process: ParsingProcess, code: str) -> None:
    assert attack(process, code, sys.executable) == "refused"


@pytest.mark.parametrize(
    "code",
    [
        "os.kill(os.getppid(), 0)",
        "os.kill(-1, 0)",
        "open('/proc/' + target + '/environ', 'rb').read()",
        "open('/proc/self/environ', 'rb').read()",
        "call(434, int(target), 0)",  # pidfd_open
        "__import__('resource').prlimit(int(target), 7, (9, 9))",
        "os.sched_setaffinity(int(target), {0})",
        "os.sched_setscheduler(int(target), os.SCHED_IDLE, os.sched_param(0))",
        "call({'x86_64': 294, 'aarch64': 26}[os.uname().machine], 0)",  # inotify_init1
        # A file that signals to others when something comes, or types for them
        "__import__('fcntl').fcntl(0, 8, int(target))",  # F_SETOWN
        "__import__('fcntl').fcntl(0, 10, 9)",  # F_SETSIG
        "__import__('fcntl').fcntl(0, 15, __import__('struct').pack('=ii', 1, int(target)))",
        "__import__('fcntl').fcntl(0, 1026, 1)",  # F_NOTIFY
        "__import__('fcntl').ioctl(0, 0x8901, __import__('struct').pack('=i', int(target)))",
        "__import__('fcntl').ioctl(0, 0x5412, b'x')",  # TIOCSTI
        # What others have made of System V's
        "call(31 if ON_X86 else 195, 0, 0, 0)",  # shmctl
        "call(66 if ON_X86 else 191, 0, 0, 0)",  # semctl
        "call(65 if ON_X86 else 193, 0, bytes(6), 1)",  # semop
        "call(71 if ON_X86 else 187, 0, 0, 0)",  # msgctl
        "call(69 if ON_X86 else 189, 0, bytes(16), 1, 0)",  # msgsnd
        "call(70 if ON_X86 else 188, 0, bytes(16), 1, 0, 0)",  # msgrcv
        # What the kernel tells of the machine
        "call(103 if ON_X86 else 116, 10, 0, 0)",  # syslog: the size of the kernel's log
        "call(458, (ctypes.c_uint64 * 4)(32, 2**64 - 1), bytes(64), 8, 0)",  # listmount
    ],
)
def test_other_processes_are_left_alone(process: ParsingProcess, code: str) -> None:
    assert attack(process, code, os.getpid()) == "refused"


@pytest.mark.parametrize(
    "code",
    [
        "call(425, 8, bytes(120))",  # io_uring_setup
        "call(250 if ON_X86 else 219, 0, -3, 0)",  # keyctl
        "call(321 if ON_X86 else 280, 0, bytes(64), 64)",  # bpf
        "call(323 if ON_X86 else 282, 1)",  # userfaultfd
        "call(298 if ON_X86 else 241, bytes(128), 0, -1, -1, 0)",  # perf_event_open
        "call(101 if ON_X86 else 117, 0, 0, 0, 0)",  # ptrace: PTRACE_TRACEME
        "call(310 if ON_X86 else 270, os.getpid(), 0, 0, 0, 0, 0)",  # process_vm_readv
        "call(311 if ON_X86 else 271, os.getpid(), 0, 0, 0, 0, 0)",  # process_vm_writev
        "call(29 if ON_X86 else 194, 0, 4096, 0o600)",  # shmget
        "call(68 if ON_X86 else 186, 0, 0o600)",  # msgget
        "call(64 if ON_X86 else 190, 0, 1, 0o600)",  # semget
        "call(272 if ON_X86 else 97, 0)",  # unshare
        "call(308 if ON_X86 else 268, 0, 0)",  # setns
        "call(165 if ON_X86 else 40, 0, 0, 0, 0, 0)",  # mount
        "call(161 if ON_X86 else 51, b'/')",  # chroot
        "call(126 if ON_X86 else 91, bytes(8), bytes(24))",  # capset
        "call(105 if ON_X86 else 146, os.getuid())",  # setuid
        "call(86 if ON_X86 else 37, b'a', b'b')",  # link, linkat
        "call(85, b'a', 0) if ON_X86 else call(34, -100, b'a', 0)",  # creat, mkdirat
        "call(191 if ON_X86 else 8, b'/', b'user.x', 0, 0)",  # getxattr
        "call(283 if ON_X86 else 85, 0, 0)",  # timerfd_create
        "call(157 if ON_X86 else 167, 22, 0)",  # prctl: PR_SET_SECCOMP
        "call(157 if ON_X86 else 167, 0x59616D61, -1)",  # PR_SET_PTRACER
        "call(157 if ON_X86 else 167, 4, 1)",  # PR_SET_DUMPABLE
        "call(462, 0, 0, 0)",  # mseal, as an example of what came later
        "call(2**30 + 39)",  # getpid of x32
        "call(400)",  # which nobody has given a meaning
        "call(10_000)",
    ],
)
def test_calls_that_reading_does_not_need_are_refused(process: ParsingProcess, code: str) -> None:
    assert attack(process, code) == "refused"


def test_a_call_that_is_newer_is_not_there_so_that_libraries_make_another(
    process: ParsingProcess,
) -> None:
    code = "ctypes.CDLL(None, use_errno=True).syscall({number}), ctypes.get_errno()"
    for number, error in ((435, errno.ENOSYS), (425, errno.ENOSYS), (41, errno.EPERM)):
        if number == 41 and platform.machine() != "x86_64":
            number = 198
        assert attack(process, code.format(number=number)) == f"(-1, {error})"


def test_root_has_no_more_rights_than_others(process: ParsingProcess) -> None:
    for kind in ("CapPrm", "CapEff", "CapInh", "CapAmb"):
        assert attack(process, f"capabilities({kind!r})") == "0"
    own = Path("/proc/self/status").read_text()
    may_drop = int(own.partition("CapEff:")[2].split()[0], 16) >> 8 & 1  # CAP_SETPCAP
    if may_drop:
        assert attack(process, "capabilities('CapBnd')") == "0"
    assert attack(process, "__import__('fcntl').fcntl(0, 3) >= 0") == "True", "others are let"


@pytest.mark.skipif(sys.platform != "linux" or os.getuid() != 0, reason="only as root, on Linux")
def test_root_reads_packages_of_another_account(tmp_path: Path) -> None:
    """And keeps no other right for that; where all are its own, as above, it keeps none."""
    effective = Path("/proc/self/status").read_text().partition("CapEff:")[2].split()[0]
    if not int(effective, 16) >> 2 & 1:
        pytest.skip("only where root may read any file")
    package = tmp_path / "closed" / "package.py"
    package.parent.mkdir()
    package.write_text("there")
    for path, mode in ((package, 0o600), (package.parent, 0o700)):
        path.chmod(mode)
        os.chown(path, 12345, 12345)
    program = (
        "import os, pathlib, sys\n"
        "from localrag.system.confinement import confine\n"
        "status = os.open('/proc/self/status', os.O_RDONLY)\n"
        "package = pathlib.Path(sys.argv[1])\n"
        "confine(package)\n"
        "print(package.read_text())\n"
        "print(*[line.split()[1] for line in os.pread(status, 10_000, 0).decode().splitlines()\n"
        "        if line.startswith(('CapPrm', 'CapEff', 'CapInh', 'CapAmb'))])\n"
    )
    result = processes.run(processes.python(program, str(package)), processes.PLAIN)
    text, sets = result.stdout.decode().splitlines()
    assert text == "there"
    assert [int(number, 16) for number in sets.split()] == [0, 4, 4, 0]  # CAP_DAC_READ_SEARCH


def test_attacks_that_work_elsewhere_are_not_refused_for_another_reason(
    process: ParsingProcess, secret: Path
) -> None:
    """The harness tells a refusal from a success and from any other error."""
    assert attack(process, "os.getpid() and target", "x") == "'x'"
    assert "FileNotFoundError" in attack(process, "os.stat(target)", secret.parent / "none")
    assert "bin" not in attack(process, "open(os.__file__).read(20)")


def test_this_process_keeps_its_rights(secret: Path) -> None:
    assert secret.read_text() == "a private key"
    thread = threading.Thread(target=secret.read_text)
    thread.start()
    thread.join()


def test_readable_places_are_those_of_programs() -> None:
    places = confinement.readable()
    assert Path(confinement.__file__).parents[1] in places
    for private in (Path.home(), Path.home() / ".ssh", Path("/"), Path("/etc"), Path("/tmp")):
        assert not any(private.is_relative_to(place) for place in places)
    assert Path(__file__).resolve().parents[1] not in places


def test_where_the_kernel_has_neither_reading_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without = (
        "from localrag.system import confinement\n"
        "confinement._landlock = confinement._seccomp = lambda *_, **__: False\n"
    )
    process = ParsingProcess(program=without + PROGRAM)
    assert process(Path("a.txt"), b"some text").text == "some text"
    process.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_numbers_are_those_of_the_kernel(machine: str) -> None:
    header = Path("/usr/include/asm-generic/unistd.h")
    if machine == "x86_64":
        header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.is_file():
        pytest.skip("only where the kernel's headers are installed")
    text = header.read_text()
    # Those of aarch64 that 32 bits name otherwise: #define __NR3264_fcntl 25
    numbers = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", text))
    if machine == "aarch64":
        numbers |= {"newfstatat": "79"}  # there, the name of 64 bits is made by another macro
    newest = max(map(int, numbers.values()))
    lists = [*confinement._ALLOWED.values(), confinement._ALLOWED_AT_WORK, confinement._CLONE]
    lists += [confinement._ABOUT_A_PROCESS, *confinement._BY_ORDER, confinement._CAPSET]
    names = []
    for call in ", ".join(lists).split(", "):
        name, *codes = call.split()
        number = codes[("x86_64", "aarch64").index(machine)]
        names.append(name)
        if number == "-":
            assert name not in numbers
        elif int(number) <= newest:  # the headers may be older
            assert numbers[name] == number, name
    assert len(set(names)) == len(names)
    assert set(confinement._BY_ORDER) == {"fcntl 72 25", "ioctl 16 29", "prctl 157 167"}
    private = "socket connect sendto execve ptrace unshare setns mount io_uring_setup chmod clone3"
    assert set(private.split()).isdisjoint(names)


@pytest.mark.parametrize("works", [False, True])
@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_every_jump_of_the_filter_ends_within_it(machine: str, works: bool) -> None:
    code = [struct.unpack("=HBBI", line) for line in confinement._filter(machine, works=works)]
    for place, (operation, then, otherwise, _) in enumerate(code):
        if operation & 7 == 5:  # a jump
            assert place + 1 + max(then, otherwise) < len(code)
    assert code[-1][0] == code[-2][0] == 6  # they return


def test_errors_of_reading_are_what_they_were(process: ParsingProcess) -> None:
    with pytest.raises(ParsingError, match="ZeroDivisionError"):
        attack(process, "1 // 0")


def test_machine_is_known() -> None:
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        assert "system calls" in confinement.in_force()


def test_doctor_says_whether_it_is_in_force(monkeypatch: pytest.MonkeyPatch) -> None:
    for state, sign in (
        ({"files", "system calls"}, "ok"),
        ({"system calls"}, "warning"),
        (set(), "warning"),
    ):
        monkeypatch.setattr(confinement, "in_force", lambda state=state: state)
        monkeypatch.setattr(sys, "platform", "linux")
        finding = doctor._reading()
        assert finding.state == sign
        assert ("files" in finding.text) or not state
    monkeypatch.setattr(sys, "platform", "darwin")
    assert doctor._reading().state == "ok"


def test_a_folder_for_work_is_the_only_place_to_write(tmp_path: Path) -> None:
    if {"files", "system calls"} - confinement.in_force():
        pytest.skip("only where the kernel has Landlock and seccomp")
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    (other / "secret").write_text("secret")
    program = (
        "import os, pathlib, sys\n"
        "from localrag.system.confinement import confine\n"
        "work, other = map(pathlib.Path, sys.argv[1:])\n"
        "confine(work=work)\n"
        "(work / 'below').mkdir()\n"
        "(work / 'below' / 'a').write_text('made')\n"
        "(work / 'a').write_text('made')\n"
        "(work / 'a').rename(work / 'b')\n"
        "for action in ((other / 'secret').read_text, lambda: (other / 'c').write_text('x'),\n"
        "               (other / 'secret').unlink, lambda: (work / 'b').rename(other / 'b'),\n"
        "               lambda: os.symlink('/', work / 'link'), lambda: os.mkfifo(work / 'p')):\n"
        "    try:\n"
        "        action()\n"
        "    except OSError:\n"
        "        print('refused')\n"
    )
    result = processes.run(processes.python(program, str(work), str(other)), processes.PLAIN)
    assert result.stdout.split() == [b"refused"] * 6
    assert (work / "b").read_text() == "made"
    assert [path.name for path in other.iterdir()] == ["secret"]
