"""Encrypted files: authenticated in blocks, so that parts can be read, by `cryptography` alone.

    8 bytes     b"lrvault" and the version of this format, 1
    32 bytes    random; with the data key it makes the key of this file (HKDF-SHA-256)
    blocks      64 KiB of content, the last one fewer or none, each as AES-256-GCM with its tag

A block's nonce is its number and whether it is the last one (STREAM: Hoang, Reyhanitabar, Rogaway
and Vizar 2015), its associated data the header and the file's name. So blocks that are altered,
missing, added, moved, or of a file with another name do not open. What an earlier file of the same
name held does: that is for whoever names files to prevent. Knows nothing of libraries or
passphrases.
"""

from __future__ import annotations

import mmap
import os
import secrets
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, BinaryIO, TypeVar

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_T = TypeVar("_T")

MAGIC = b"lrvault\x01"
KEY_BYTES = 32
BLOCK = 1 << 16
"""Bytes of content in a block."""

_ID = 32
_TAG = 16
_START = len(MAGIC) + _ID
_MOST_BLOCKS = 1 << 32


class AlteredError(Exception):
    """What a file holds was not written with this key under this name."""


class Cipher:
    """Files under one data key of 32 bytes. May be used from several threads."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __reduce__(self) -> str:
        raise TypeError("a key is not handed to another process")

    @staticmethod
    def size_of(length: int) -> int:
        """Bytes of a file with so many of content."""
        return _START + length + _TAG * max(1, -(-length // BLOCK))

    @staticmethod
    def length_of(size: int) -> int:
        """Bytes of content in a file of this size. Raises AlteredError where none has it."""
        body = size - _START
        blocks = max(1, -(-body // (BLOCK + _TAG)))
        length = body - _TAG * blocks
        if length < 0 or Cipher.size_of(length) != size or blocks > _MOST_BLOCKS:
            raise AlteredError("the file is cut short")
        return length

    def encrypted(self, name: str, parts: Iterable[bytes | memoryview]) -> Iterator[bytes]:
        """The file of that name whose content is these parts, one after another."""
        start = MAGIC + secrets.token_bytes(_ID)
        yield start
        aead, bound = self._aead(start), start + name.encode()
        buffer, number = bytearray(), 0
        for part in parts:
            view = memoryview(part).cast("B")
            place = 0
            while place < len(view):
                if len(buffer) == BLOCK:  # more follows: it is not the last one
                    yield aead.encrypt(_nonce(number, last=False), bytes(buffer), bound)
                    buffer.clear()
                    number += 1
                piece = view[place : place + BLOCK - len(buffer)]
                buffer += piece
                place += len(piece)
        yield aead.encrypt(_nonce(number, last=True), bytes(buffer), bound)

    def read(self, name: str, file: BinaryIO, begin: int = 0, count: int | None = None) -> bytes:
        """`count` bytes of the content from `begin` on, all by default; fewer at its end.

        Only the blocks with these are read. Raises AlteredError, and OSError.
        """
        length = self.length_of(file.seek(0, os.SEEK_END))
        end = length if count is None else min(length, begin + count)
        first = begin // BLOCK
        content = b"".join(self._blocks(name, file, begin, end))
        return content[begin - first * BLOCK : max(begin, end) - first * BLOCK]

    def mapped(self, name: str, file: BinaryIO) -> mmap.mmap:
        """The whole content in memory of this process alone, which no core dump takes along.

        For content that is not empty. Raises AlteredError, and OSError.
        """
        length = self.length_of(file.seek(0, os.SEEK_END))
        if not length:
            raise AlteredError("the file is empty")
        memory = mmap.mmap(-1, length)
        if sys.platform == "linux":
            memory.madvise(mmap.MADV_DONTDUMP)
        with memoryview(memory) as whole:
            for number, data, aead, bound, last in self._stored(name, file, 0, length):
                begin = number * BLOCK
                with whole[begin : begin + BLOCK] as block:
                    _opened(aead.decrypt_into, _nonce(number, last=last), data, bound, block)
        return memory

    def _blocks(self, name: str, file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
        """The blocks with the content from `begin` to `end`, as each is found to be whole."""
        for number, data, aead, bound, last in self._stored(name, file, begin, end):
            yield _opened(aead.decrypt, _nonce(number, last=last), data, bound)

    def _stored(
        self, name: str, file: BinaryIO, begin: int, end: int
    ) -> Iterator[tuple[int, bytes, AESGCM, bytes, bool]]:
        """Number and bytes of these blocks, what they are bound to, and which is the last one."""
        length = self.length_of(file.seek(0, os.SEEK_END))
        count = max(1, -(-length // BLOCK))
        file.seek(0)
        start = file.read(_START)
        if not start.startswith(MAGIC):
            raise AlteredError("the file is not encrypted, or by a later version")
        aead, bound, first = self._aead(start), start + name.encode(), begin // BLOCK
        file.seek(_START + first * (BLOCK + _TAG))
        for number in range(first, min(count, max(first + 1, -(-end // BLOCK)))):
            yield number, file.read(BLOCK + _TAG), aead, bound, number == count - 1

    def _aead(self, start: bytes) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        return AESGCM(derived(self._key, "file", salt=start[len(MAGIC) :]))


def derived(key: bytes, purpose: str, *, salt: bytes | None = None) -> bytes:
    """A key of 32 bytes for one purpose, from another (HKDF-SHA-256, RFC 5869).

    Raises ImportError where `cryptography` is not installed.
    """
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    info = f"localrag vault 1: {purpose}".encode()
    return HKDF(hashes.SHA256(), KEY_BYTES, salt, info).derive(key)


def _opened(decrypt: Callable[..., _T], *arguments: object) -> _T:
    from cryptography.exceptions import InvalidTag

    try:
        return decrypt(*arguments)
    except InvalidTag as error:
        raise AlteredError("a block was altered") from error


def _nonce(number: int, *, last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([last])
