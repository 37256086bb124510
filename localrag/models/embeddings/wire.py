"""Reading and writing the protobuf wire format, as far as a model file needs it.

Knows no schema. Parsing a 72 MB model with a protobuf library copies all of it;
walking its fields touches a few kilobytes and tells where in the file a weight lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from mmap import mmap
from typing import Literal, NamedTuple

from localrag.messages import tr

Buffer = bytes | mmap

VARINT: Literal[0] = 0
LENGTH_DELIMITED: Literal[2] = 2


class Field(NamedTuple):
    """One field of a message.

    `record_start:end` are its bytes with the key, `start:end` those of its value;
    `integer` is the value of a varint field, else 0.
    """

    number: int
    record_start: int
    start: int
    end: int
    integer: int


def _varint(buffer: Buffer, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(buffer: Buffer, start: int, end: int) -> Iterator[Field]:
    """The fields of the message in `buffer[start:end]`, in order.

    Raises ValueError or IndexError where the bytes are not a protobuf message.
    """
    at = start
    while at < end:
        record = at
        key, at = _varint(buffer, at)
        number, kind = key >> 3, key & 7
        integer = 0
        if kind == VARINT:
            value = at
            integer, at = _varint(buffer, at)
        elif kind == LENGTH_DELIMITED:
            size, value = _varint(buffer, at)
            at = value + size
        elif kind in (1, 5):
            value = at
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(tr("unknown protobuf wire type {kind}", kind=kind))
        if at > end or number == 0:
            raise ValueError(tr("a field reaches over the end of its message"))
        yield Field(number, record, value, at, integer)


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field_bytes(number: int, value: bytes) -> bytes:
    """A length-delimited field: a string, bytes or a message."""
    return _encode_varint(number << 3 | LENGTH_DELIMITED) + _encode_varint(len(value)) + value


def field_integer(number: int, value: int) -> bytes:
    """A varint field."""
    return _encode_varint(number << 3) + _encode_varint(value)
