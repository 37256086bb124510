"""A look at the head of a GGUF file before llama.cpp maps it.

Layout: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The metadata
and the tensor table are walked with every length checked against the file, so
that a page of HTML, half a download or a forged count is named as such instead
of being met by native code. What the metadata mean is left to llama.cpp.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

from localrag.errors import ModelCorruptError, ModelNotFoundError
from localrag.system.split_files import parts_of

_SCALAR_BYTES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_STRING, _ARRAY = 8, 9
_SMALLEST_ENTRY = 13
"""Bytes of a metadata entry with a one-letter key and a one-byte value, rounded down."""

_LONGEST_KEY = 65_535
_PARTS = b"split.count"
_U16 = 2
_U64 = struct.Struct("<Q")


class _Malformed(Exception):  # noqa: N818 - private, always turned into ModelCorruptError
    pass


class _Reader:
    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.size = len(data)
        self.position = 0

    def skip(self, count: int) -> None:
        if count > self.size - self.position:
            raise _Malformed
        self.position += count

    def number(self, size: int) -> int:
        self.skip(size)
        return int.from_bytes(self.data[self.position - size : self.position], "little")

    def strings(self, count: int) -> None:
        # The vocabulary has hundreds of thousands of strings: keep this loop bare.
        data, position, size, unpack = self.data, self.position, self.size, _U64.unpack_from
        for _ in range(count):
            if position + 8 > size:
                raise _Malformed
            position += 8 + unpack(data, position)[0]
        if position > size:
            raise _Malformed
        self.position = position

    def value(self, kind: int) -> None:
        count = 1
        if kind == _ARRAY:
            kind, count = self.number(4), self.number(8)
            if count > self.size - self.position:
                raise _Malformed
        if kind == _STRING:
            self.strings(count)
        elif kind in _SCALAR_BYTES:
            self.skip(count * _SCALAR_BYTES[kind])
        else:  # also an array of arrays
            raise _Malformed


def _walk(reader: _Reader) -> int:
    """Go through the header; in how many files the model is."""
    parts = 1
    tensors, entries = reader.number(8), reader.number(8)
    if (tensors + entries) * _SMALLEST_ENTRY > reader.size:
        raise _Malformed
    for _ in range(entries):
        length = reader.number(8)
        if not 0 < length <= _LONGEST_KEY:
            raise _Malformed
        reader.skip(length)
        key = reader.data[reader.position - length : reader.position]
        kind = reader.number(4)
        if key == _PARTS and kind == _U16:  # llama.cpp takes no other
            parts = max(parts, reader.number(2))
        else:
            reader.value(kind)
    furthest = 0
    for _ in range(tensors):
        reader.strings(1)
        dimensions = reader.number(4)
        if dimensions > 4:
            raise _Malformed
        reader.skip(8 * dimensions + 4)
        furthest = max(furthest, reader.number(8))
    # The last tensor begins at `furthest` behind the header, so the file ends later. The first part
    # of a model may have none.
    if reader.position + furthest + bool(tensors) > reader.size:
        raise _Malformed
    return parts


def check_gguf(path: Path) -> None:
    """Make sure that `path` is a whole GGUF file (version 2 or 3, little endian), in all its parts.

    Raises `ModelNotFoundError` where there is no file and `ModelCorruptError`
    where it is something else, cut short, or holds impossible counts.
    """
    count = _check_file(path)
    if count == 1:
        return
    parts = parts_of(path)
    if len(parts) != count:
        raise ModelNotFoundError(
            "{path} belongs to a model in {count} files, of which {found} are there.",
            hint="Put them all into one folder under the names that they were published with, "
            "and name the first one: it ends in -00001-of-{count:05d}.gguf.",
            path=path,
            count=count,
            found=len(parts),
        )
    for part in parts[1:]:
        _check_file(part)


def _check_file(path: Path) -> int:
    """Check one file; in how many files its model is."""
    if not path.is_file():
        raise ModelNotFoundError(
            "There is no language model file at {path}.",
            hint="Run `localrag models list` to see what is installed, or check the path.",
            path=path,
        )
    with path.open("rb") as file:
        head = file.read(24)
        if head[:4] != b"GGUF":
            raise ModelCorruptError(
                "{path} is not a GGUF model: it begins with {start}.",
                hint="Choose a file that ends in .gguf, or download the model again.",
                path=path,
                start=repr(head[:4].decode("latin-1")),
            )
        version = int.from_bytes(head[4:8], "little")
        if version not in (2, 3):
            raise ModelCorruptError(
                "{path} is a GGUF version {version} file; versions 2 and 3 are supported.",
                hint="Download a newer conversion of this model.",
                path=path,
                version=version,
            )
        try:
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                reader = _Reader(data)
                reader.skip(8)
                return _walk(reader)
        except _Malformed as error:
            raise ModelCorruptError(
                "{path} is damaged or incomplete: its header points outside the file.",
                hint=(
                    "Download the model again; `localrag models verify` checks the files you have."
                ),
                path=path,
            ) from error
