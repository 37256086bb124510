"""Seals on what is derived from a library: they tell what this user's localrag has made.

Whoever hands over a folder can write anything into it, checksums included. A seal needs a key that
lies outside every library, in the user's own folder. Without that key nothing is lost: what has no
valid seal is made anew from the catalogue. Knows nothing of libraries, indexes or models.
"""

from __future__ import annotations

import hmac
import os
import secrets
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from localrag.system import files
from localrag.system.ciphers import AlteredError, Cipher, derived

KEY_BYTES = 32
SEAL_BYTES = 32
FILE_SEAL_BYTES = 2 * SEAL_BYTES


class Seal:
    """HMAC-SHA-256 with one key; `name` tells keys apart and betrays nothing of them."""

    cipher: Cipher | None = None
    """What encrypts the files that bear this seal, in a vault."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.name = hmac.digest(key, b"localrag: the name of this key", "sha256").hex()[:32]

    def of(self, *parts: bytes | memoryview) -> bytes:
        """The seal (32 bytes) over these parts, in this order and cut in this way."""
        mac = hmac.new(self._key, digestmod="sha256")
        for part in parts:
            mac.update(memoryview(part).nbytes.to_bytes(8, "big"))
            mac.update(part)
        return mac.digest()

    def of_file(self, name: str, content: memoryview) -> bytes:
        """What a file of this name begins with: seals over its size and over all of it.

        The first is quick to look at, where a file claims to be longer than the disk.
        """
        size = content.nbytes.to_bytes(8, "big")
        return self.of(b"size", name.encode(), size) + self.of(name.encode(), content)

    def size_of(self, length: int) -> int:
        """Bytes of a file with so many of content."""
        return FILE_SEAL_BYTES + length

    def file(self, name: str, content: memoryview) -> Iterable[bytes | memoryview]:
        """What a small file of this name holds, from its first byte."""
        return self.of_file(name, content), content

    def content(self, path: Path, limit: int) -> bytes | None:
        """The content of such a file of up to `limit` bytes; None where the seal does not fit.

        Raises OSError.
        """
        with files.open_plain(path) as file:
            whole = os.fstat(file.fileno()).st_size <= limit
            seal = file.read(FILE_SEAL_BYTES)
            content = file.read() if whole else b""
        fits = hmac.compare_digest(seal, self.of_file(path.name, memoryview(content)))
        return content if fits else None

    def fits_file(self, path: Path) -> bool:
        """Whether a file begins with the seals over its own name and the rest of it."""
        try:
            with files.open_plain(path) as file:
                left = os.fstat(file.fileno()).st_size - FILE_SEAL_BYTES
                name = path.name.encode()
                if left < 0:
                    return False
                size = left.to_bytes(8, "big")
                if not self.fits(file.read(SEAL_BYTES), b"size", name, size):
                    return False
                seal = file.read(SEAL_BYTES)
                mac = hmac.new(self._key, digestmod="sha256")
                mac.update(len(name).to_bytes(8, "big") + name + left.to_bytes(8, "big"))
                while block := file.read(1 << 20):
                    mac.update(block)
        except OSError:
            return False
        return hmac.compare_digest(seal, mac.digest())

    def fits(self, seal: bytes, *parts: bytes | memoryview) -> bool:
        """Whether `seal` was made with this key over just these parts."""
        return hmac.compare_digest(seal, self.of(*parts))


class VaultSeal(Seal):
    """The seal of a vault: its files are encrypted, which is to say authenticated as well."""

    def __init__(self, key: bytes) -> None:
        """`key` is the data key. Raises ImportError where `cryptography` is not installed."""
        super().__init__(derived(key, "seal"))
        self.cipher: Cipher = Cipher(derived(key, "files"))

    def size_of(self, length: int) -> int:
        """Bytes of a file with so many of content."""
        return self.cipher.size_of(length)

    def file(self, name: str, content: memoryview) -> Iterable[bytes | memoryview]:
        """What a small file of this name holds, from its first byte."""
        return self.cipher.encrypted(name, [content])

    def content(self, path: Path, limit: int) -> bytes | None:
        """The content of such a file; None where it is too large, altered, or another vault's."""
        with files.open_plain(path) as file:
            if os.fstat(file.fileno()).st_size > limit:
                return None
            try:
                return self.cipher.read(path.name, file)
            except AlteredError:
                return None

    def fits_file(self, path: Path) -> bool:
        """Whether a file is encrypted with this key under its own name, in every block."""
        try:
            return self.content(path, path.stat().st_size) is not None
        except OSError:
            return False


def keys_folder() -> Path:
    """Where the user's key lies, and which keys of groups the user has accepted.

    LOCALRAG_KEYS names another folder, for containers whose home goes with them.
    """
    if chosen := os.environ.get("LOCALRAG_KEYS"):
        return Path(chosen).expanduser()
    from platformdirs import user_data_path

    return user_data_path("localrag", appauthor=False) / "keys"


def own_seal() -> Seal:
    """The seal of this user. Where no key can be kept, one that ends with the process."""
    return _own(keys_folder() / "seal.key")


def read_key(path: Path) -> bytes | None:
    """A key from its file; None where there is no plain file of the right size."""
    try:
        with files.open_plain(path) as file:
            key = file.read(KEY_BYTES + 1)
    except OSError:
        return None
    return key if len(key) == KEY_BYTES else None


def accept(key: bytes) -> None:
    """Take what is sealed with a group's key for what this user has made. Raises OSError."""
    name = Seal(key).name
    if not is_accepted(key):
        files.make_folder(keys_folder())
        names = "".join(f"{accepted}\n" for accepted in [*_accepted(), name])
        files.replace_file(_list(), lambda file: file.write(names.encode("ascii")))


def is_accepted(key: bytes) -> bool:
    """Whether this user has accepted this very key."""
    return Seal(key).name in _accepted()


def _list() -> Path:
    return keys_folder() / "accepted"


def _accepted() -> list[str]:
    try:
        with files.open_plain(_list()) as file:
            return file.read().decode("ascii", "replace").split()
    except OSError:
        return []


@cache
def _own(path: Path) -> Seal:
    key = read_key(path)
    if key is None:
        with suppress(OSError):
            _make(path)
        key = read_key(path) or secrets.token_bytes(KEY_BYTES)
    elif os.name != "nt" and path.stat().st_mode & 0o077:  # copied back from a backup, say
        with suppress(OSError):
            path.chmod(0o600)
    return Seal(key)


def _make(path: Path) -> None:
    files.make_folder(path.parent)
    if os.path.lexists(path):  # cut short, or no plain file
        path.unlink()
    with suppress(FileExistsError):  # another process was quicker
        files.new_file(path, lambda file: file.write(secrets.token_bytes(KEY_BYTES)))
