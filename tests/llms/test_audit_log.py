from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO

import pytest

from localrag.egress.audit import AuditLog
from localrag.errors import BackendError
from localrag.system import files


def send(log: AuditLog, host: str = "models.example") -> str:
    return log.sending(host=host, model="m", command="ask", bytes_out=10, passages=2, redactions=1)


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_call_is_two_lines_that_belong_together(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "state" / "log.jsonl")
    call = send(log)
    log.received(call, bytes_in=99, status=200)
    outgoing, incoming = records(log.path)
    assert outgoing.pop("time") <= incoming.pop("time")
    assert outgoing == {
        "event": "sent",
        "call": call,
        "host": "models.example",
        "model": "m",
        "command": "ask",
        "bytes_out": 10,
        "passages": 2,
        "redactions": 1,
    }
    assert incoming == {"event": "received", "call": call, "bytes_in": 99, "status": 200}


@pytest.mark.skipif(os.name == "nt", reason="only where files have POSIX permissions")
def test_nobody_else_reads_it(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.jsonl")
    send(log)
    assert log.path.stat().st_mode & 0o077 == 0


def test_a_new_file_is_begun_by_size_and_old_ones_are_kept(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "log.jsonl", limit=400, kept=2)
    for number in range(12):
        send(log, f"host-{number}")
    names = sorted(path.name for path in tmp_path.glob("log.jsonl*") if path.suffix != ".lock")
    assert names == ["log.jsonl", "log.jsonl.1", "log.jsonl.2"]
    hosts = [
        record["host"]
        for name in ("log.jsonl.2", "log.jsonl.1", "log.jsonl")
        for record in records(tmp_path / name)
    ]
    assert hosts == [f"host-{number}" for number in range(12 - len(hosts), 12)]


def test_where_it_cannot_be_written_an_error_says_so(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file, no folder")
    log = AuditLog(tmp_path / "state" / "log.jsonl")
    with pytest.raises(BackendError, match="nothing is sent"):
        send(log)
    with pytest.raises(BackendError, match="cannot be written"):
        log.check()


def test_a_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "log.jsonl")
    send(log)
    write = os.write
    log_handles: list[int] = []
    append_file = files.append_file

    def open_log(path: Path) -> BinaryIO:
        file = append_file(path)
        log_handles.append(file.fileno())
        return file

    def full(handle: int, data: bytes) -> int:
        return write(handle, data[:20]) if handle in log_handles else write(handle, data)

    monkeypatch.setattr(files, "append_file", open_log)
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(BackendError, match="disk is full"):
        send(log)
    monkeypatch.undo()

    def no_space(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(BackendError, match="No space left"):
        send(log)
    monkeypatch.undo()
    send(log)
    assert len(records(log.path)) == 2


def test_several_processes_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    code = (
        "import sys; from pathlib import Path; from localrag.egress.audit import AuditLog\n"
        "log = AuditLog(Path(sys.argv[1]), limit=3000, kept=50)\n"
        "for n in range(20):\n"
        "    log.sending(host=sys.argv[2], model='m', command='ask', bytes_out=n, passages=0,"
        " redactions=0)\n"
    )
    workers = [
        subprocess.Popen([sys.executable, "-c", code, str(path), f"host-{n}"]) for n in range(3)
    ]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0, 0]
    entries = [
        record
        for file in tmp_path.glob("log.jsonl*")
        if file.suffix != ".lock"
        for record in records(file)
    ]
    assert sorted((str(r["host"]), r["bytes_out"]) for r in entries) == sorted(
        (f"host-{n}", m) for n in range(3) for m in range(20)
    )
