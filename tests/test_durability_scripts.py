"""The scripts that kill, disturb and trace: a few rounds of each, and what they would say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture
def durability(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import durability

    return durability


@pytest.fixture
def tracing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import trace_tests

    return trace_tests


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def need_strace() -> None:
    sys.path.insert(0, str(SCRIPTS))
    try:
        from injecting import reason_not
    finally:
        sys.path.remove(str(SCRIPTS))
    if reason := reason_not():
        pytest.skip(reason)


def test_a_few_kills_lose_nothing() -> None:
    result = run("kill_test.py", "--kills", "4", "--seed", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4/4" in result.stdout


@pytest.mark.parametrize("what", ["add", "remove", "rebuild", "pull"])
def test_faults_at_a_few_writes(what: str) -> None:
    need_strace()
    result = run("fault_test.py", "--only", what, "--every", "80" if what != "pull" else "8")
    assert result.returncode == 0, result.stdout + result.stderr
    for fault in ("full disk", "read-only"):
        assert f"{what}, {fault} at 1: " in result.stdout
    for fault in ("failing disk", "kill"):
        for call in ("write", "rename", "fsync"):
            assert f"{what}, {fault} at {call} 1: " in result.stdout


def test_what_is_lost_is_said(durability: ModuleType, tmp_path: Path) -> None:
    durability.begin(durability.Journal(), tmp_path / "base", 3)
    directory, files = tmp_path / "base" / "library", tmp_path / "base" / "files"
    assert durability.check(directory, {}, complete=files) == []
    lost = durability.check(directory, {"a.txt": "0"}, complete=None)
    assert lost == ["lost: a.txt was reported as 0"]
    (directory / "catalogue.sqlite").unlink()
    (wrong,) = durability.check(directory, {}, complete=None)
    assert wrong.startswith("unopenable: ")


def test_a_journal_outlives_its_process(durability: ModuleType) -> None:
    journal = durability.Journal()
    process = durability.fork(_say_and_die, journal)
    process.join()
    assert process.exitcode == -9
    assert journal.lines() == [["said", "港口 a b"]]


def _say_and_die(journal: object) -> None:
    import os

    journal.say("said", "港口 a\tb")  # type: ignore[attr-defined]
    os.kill(os.getpid(), 9)


STRACE = """\
10 connect(3, {sa_family=AF_UNIX, sun_path="/var/run/nscd/socket"}, 110) = -1 ENOENT (No such)
10 connect(3, {sa_family=AF_INET, sin_port=htons(8080), sin_addr=inet_addr("127.0.0.1")}, 16) = 0
10 connect(3, {sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("127.0.0.53")}, 16) = 0
10 sendto(4, "x", 1, 0, NULL, 0) = 1
10 clone3({flags=CLONE_VM}, 88 <unfinished ...>
11 unshare(CLONE_NEWUSER|CLONE_NEWNET) = 0
10 <... clone3 resumed>) = 11
11 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID) = 12
12 connect(3, {sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("8.8.8.8")}, 16) = -1
11 connect(3, {sa_family=AF_INET6, sin6_port=htons(1), sin6_flowinfo=htonl(0), \
inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}, 28) = 0
10 connect(5, {sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("9.9.9.9")}, 16 \
<unfinished ...>
10 <... connect resumed>) = -1 EINPROGRESS (Operation now in progress)
10 sendto(5, "q", 1, 0, {sa_family=AF_INET, sin_port=htons(9), sin_addr=inet_addr("192.0.2.7")}, \
16) = 1
"""


def test_addresses_are_told_apart(tracing: ModuleType) -> None:
    report = tracing.examine(STRACE)
    assert dict(report.counts) == {
        "unix": 1,
        "loopback": 2,
        "in a namespace": 1,
        "kept for examples": 1,
    }
    assert dict(report.outside) == {"127.0.0.53 port 53": 1, "9.9.9.9 port 443": 1}


def test_a_test_that_reaches_out_is_traced(tracing: ModuleType, tmp_path: Path) -> None:
    need_strace()
    leak = tmp_path / "test_leak.py"
    leak.write_text(
        "import socket\n"
        "def test_leak():\n"
        "    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:\n"
        "        one.connect(('127.0.0.1', 53))\n",
        encoding="utf-8",
    )
    report, last = tracing.trace(str(leak), tmp_path)
    assert "1 passed" in last
    assert dict(report.outside) == {"127.0.0.1 port 53": 1}
