"""Where the commands of a user reach their running servers: a folder that nobody else may open.

Each server has a Unix socket there; or, where there are none (Windows, a path that is too long), a
file with the number of a port on loopback. Imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from localrag.egress import network
from localrag.system.files import is_mine_alone, is_real_folder, make_folder, new_file, open_plain

LOOPBACK = "127.0.0.1"
Kind = Literal[".sock", ".port"]
_KINDS: dict[str, int] = {".sock": stat.S_IFSOCK, ".port": stat.S_IFREG}


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One server's entry in the folder. Its name is made anew at every start."""

    path: Path

    def connect(self, seconds: float) -> socket.socket:
        """A connection; `seconds` is the longest silence. Raises OSError, ValueError."""
        if self.path.suffix == ".port":
            with open_plain(self.path) as file:
                port = int(file.read(6))
            return _connect(socket.AF_INET, (LOOPBACK, port), f"http://{LOOPBACK}:{port}", seconds)
        return _connect(_unix(), str(self.path), f"unix:{self.path}", seconds)

    def proof(self, token: str, nonce: str, version: str) -> str:
        """What only who knows the token can say, for this nonce, of this endpoint alone."""
        message = "\n".join(("server", self.path.name, version, nonce))
        return hmac.new(token.encode(), message.encode(), hashlib.sha256).hexdigest()


def endpoints(folder: Path) -> list[ServerEntry]:
    """What may be servers of this user: entries that, like their folder, only they can use.

    Raises PermissionError where their folder is somebody else's, or others may use it.
    """
    if not is_real_folder(folder):
        return []
    if not is_mine_alone(folder) and any(path.suffix in _KINDS for path in folder.iterdir()):
        raise PermissionError(f"others may use {folder}")
    return [ServerEntry(path) for path in sorted(folder.iterdir()) if _is_entry(path)]


@contextmanager
def listening(
    folder: Path, kind: Kind | None = None
) -> Iterator[tuple[ServerEntry, socket.socket] | None]:
    """An endpoint of one's own, as long as the block lasts; None where none can be made.

    What servers that were killed have left is deleted. `kind` None takes a Unix socket where
    there are such.
    """
    pair = None
    with suppress(OSError):
        pair = _open_listener(folder, kind)
    try:
        yield pair
    finally:
        if pair is not None:
            endpoint, listener = pair
            listener.close()
            endpoint.path.unlink(missing_ok=True)


def _open_listener(folder: Path, kind: Kind | None) -> tuple[ServerEntry, socket.socket]:
    make_folder(folder)
    if sys.platform != "win32":
        folder.chmod(0o700)
    for left in endpoints(folder):
        try:
            left.connect(1).close()
        except ConnectionRefusedError:
            left.path.unlink(missing_ok=True)
        except (OSError, ValueError):
            pass  # perhaps it is starting, or busy
    path = folder / secrets.token_hex(4)
    if kind != ".port":
        with suppress(OSError):
            entry = ServerEntry(path.with_suffix(".sock"))
            return entry, unix_listener(entry.path, 0o600)
    return _on_port(path.with_suffix(".port"))


def unix_listener(path: Path, mode: int) -> socket.socket:
    """A new Unix socket that listens, for whom `mode` lets in. Raises OSError."""
    listener = socket.socket(_unix(), socket.SOCK_STREAM)
    try:
        listener.bind(str(path))
        path.chmod(mode)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def _on_port(path: Path) -> tuple[ServerEntry, socket.socket]:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        if sys.platform == "win32":  # nobody else listens on the same port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        listener.bind((LOOPBACK, 0))
        listener.listen(128)
        port = str(listener.getsockname()[1])
        new_file(path, lambda file: file.write(port.encode()))
    except OSError:
        listener.close()
        raise
    return ServerEntry(path), listener


def _connect(
    family: int, address: tuple[str, int] | str, door: str, seconds: float
) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        with network.allow([door]):
            connection.connect(address)
    except BaseException:
        connection.close()
        raise
    return connection


def _unix() -> int:
    """Raises OSError where there are no such sockets."""
    family = getattr(socket, "AF_UNIX", None)
    if family is None:
        raise OSError("no Unix sockets")
    return int(family)


def _is_entry(path: Path) -> bool:
    try:
        kind = stat.S_IFMT(os.lstat(path).st_mode)
        return _KINDS.get(path.suffix) == kind and is_mine_alone(path)
    except OSError:  # gone meanwhile
        return False
