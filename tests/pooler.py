"""PgBouncer for the tests, in the mode in which each transaction gets any connection."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from postgres_server import is_root

from localrag.egress.databases import read_url

PROGRAM = "PGBOUNCER"
"""Names the program where it is not on the path."""


@contextmanager
def pooled(postgres: str, *, connections: int = 20) -> Iterator[str]:
    """The URL of the same databases behind a pooler with so many connections to each of them."""
    program = os.environ.get(PROGRAM) or shutil.which("pgbouncer")
    if program is None:
        pytest.skip("only where PgBouncer is installed")
    server = read_url(f"{postgres}#x")
    folder = Path(tempfile.mkdtemp(prefix="lr-"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "pgbouncer.ini").write_text(
        f"""[databases]
* = host={server.host} port={server.port}
[pgbouncer]
listen_addr =
listen_port = {port}
unix_socket_dir = {folder}
auth_type = trust
auth_file = {folder}/users
auth_user = postgres
auth_query = SELECT rolname, NULL FROM pg_authid WHERE rolname = $1
pool_mode = transaction
default_pool_size = {connections}
max_client_conn = 500
logfile = {folder}/log
"""
    )
    (folder / "users").write_text('"postgres" ""\n')
    account: dict[str, object] = {}
    if is_root():  # as which it does not run
        import pwd

        nobody = pwd.getpwnam("nobody")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        for path in (folder, *folder.iterdir()):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
    process = subprocess.Popen(
        [program, "-q", str(folder / "pgbouncer.ini")],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **account,  # type: ignore[call-overload]
    )
    try:
        deadline = time.monotonic() + 10
        while not (folder / f".s.PGSQL.{port}").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                log = folder / "log"
                pytest.fail(log.read_text() if log.exists() else "PgBouncer does not start")
            time.sleep(0.02)
        yield str(replace(server, host=str(folder), port=port)).partition("#")[0]
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)
