"""Mails as Outlook saves them, for tests: as little of an OLE file as its readers ask for."""

from __future__ import annotations

import struct
from collections.abc import Mapping

Tree = Mapping[str, "bytes | Tree"]

_SECTOR, _SMALLEST = 512, 4096
_NONE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD


def ole(tree: Tree) -> bytes:
    """An OLE file; streams are filled up with zeros to the size that needs no second table."""
    entries: list[tuple[str, int, int, int, int, int]] = []
    sectors: list[bytes] = []
    chain: list[int] = []

    def add(name: str, content: bytes | Tree, following: int) -> int:
        place = len(entries)
        entries.append(("", 0, 0, 0, 0, 0))
        if isinstance(content, bytes):
            data = content.ljust(_SMALLEST, b"\0")
            start, count = len(sectors), -(-len(data) // _SECTOR)
            sectors.extend(
                data[at : at + _SECTOR].ljust(_SECTOR, b"\0") for at in range(0, len(data), _SECTOR)
            )
            chain.extend([*range(start + 1, start + count), _END])
            entries[place] = (name, 2, following, _NONE, start, len(data))
        else:
            child = _NONE
            for inner, value in reversed(list(content.items())):
                child = add(inner, value, child)
            kind = 5 if not name else 1
            entries[place] = (name or "Root Entry", kind, following, child, _END, 0)
        return place

    add("", tree, _NONE)
    directory = b"".join(
        (name.encode("utf-16-le") + b"\0\0").ljust(64, b"\0")
        + struct.pack("<HBBIII36xIQ", 2 * len(name) + 2, kind, 1, _NONE, right, child, start, size)
        for name, kind, right, child, start, size in entries
    )
    first = len(sectors)
    directory = directory.ljust(-(-len(directory) // _SECTOR) * _SECTOR, b"\0")
    count = len(directory) // _SECTOR
    chain.extend([*range(first + 1, first + count), _END])
    tables = 1
    while (len(chain) + tables) > tables * 128:
        tables += 1
    table = struct.pack(f"<{len(chain)}I", *chain) + struct.pack("<I", _FAT) * tables
    table = table.ljust(tables * _SECTOR, b"\xff")
    head = struct.pack(
        "<8s16xHHHHH6xIIIIIIIII",
        *(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0x3E, 3, 0xFFFE, 9, 6),
        *(0, tables, first, 0, _SMALLEST, _END, 0, _END, 0),
    )
    places = [*range(len(chain), len(chain) + tables)]
    head += struct.pack("<109I", *places, *[_NONE] * (109 - tables))
    return head + b"".join(sectors) + directory + table


def properties(before: int, numbers: Mapping[int, int]) -> bytes:
    """The stream of the properties of fixed size, behind its head."""
    rows = (struct.pack("<HHIQ", 3, name, 6, value) for name, value in numbers.items())
    return bytes(before) + b"".join(rows)


def texts(code_page: str = "", /, **values: str) -> dict[str, bytes]:
    """Streams of text by their hexadecimal names (`x0037`), in Unicode or in a code page."""
    kind, encoding = ("001E", code_page) if code_page else ("001F", "utf-16-le")
    return {f"__substg1.0_{name[1:]}{kind}": text.encode(encoding) for name, text in values.items()}
