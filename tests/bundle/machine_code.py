"""Libraries of a few hundred bytes for three systems, which load others and do nothing."""

from __future__ import annotations

import struct


def elf(*libraries: str) -> bytes:
    """A shared object for Linux."""
    names = b"\0" + b"".join(name.encode() + b"\0" for name in libraries)
    entries, at = b"", 1
    for name in libraries:
        entries += struct.pack("<qQ", 1, at)  # DT_NEEDED
        at += len(name) + 1
    dynamic = entries + struct.pack("<qQ", 0, 0)
    titles = b"\0.dynstr\0.dynamic\0.shstrtab\0"
    start = 64
    places = (start, start + len(names), start + len(names) + len(dynamic))
    table = places[2] + len(titles)
    head = b"\x7fELF\x02\x01\x01" + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 4, 3)
    sections = bytes(64)
    for title, kind, place, size, link, step in (
        (1, 3, places[0], len(names), 0, 0),
        (9, 6, places[1], len(dynamic), 1, 16),
        (18, 3, places[2], len(titles), 0, 0),
    ):
        sections += struct.pack("<IIQQQQIIQQ", title, kind, 0, 0, place, size, link, 0, 1, step)
    return head + names + dynamic + titles + sections


def mach_o(*libraries: str) -> bytes:
    """A shared library for macOS on arm64."""
    commands = b""
    for name in libraries:
        text = name.encode() + bytes(8 - len(name) % 8)
        commands += struct.pack("<IIIIII", 0xC, 24 + len(text), 24, 2, 1 << 16, 1 << 16) + text
    head = struct.pack(
        "<IIIIIIII", 0xFEEDFACF, 0x0100000C, 0, 6, len(libraries), len(commands), 0x85, 0
    )
    return head + commands


def pe(*libraries: str) -> bytes:
    """A library for Windows on x86-64."""
    base, start = 0x1000, 0x200
    size = 20 * (len(libraries) + 1)
    entries, names = b"", b""
    for name in libraries:
        thunks = base + size + len(names) + len(name) + 1
        entries += struct.pack("<IIIII", thunks, 0, 0, base + size + len(names), thunks)
        names += name.encode() + b"\0" + struct.pack("<QQ", 1 << 63 | 1, 0)
    content = entries + bytes(20) + names
    content += bytes(-len(content) % 0x200)
    head = b"MZ" + bytes(58) + struct.pack("<I", 64) + b"PE\0\0"
    head += struct.pack("<HHIIIHH", 0x8664, 1, 0, 0, 0, 240, 0x2022)
    head += struct.pack("<HBBIIIII", 0x20B, 14, 0, 0, len(content), 0, 0, base)
    head += struct.pack(
        "<QIIHHHHHHIIIIHH", 1 << 32, base, 0x200, 6, 0, 0, 0, 6, 0, 0, 0x2000, start, 0, 2, 0
    )
    head += struct.pack("<QQQQII", 1 << 20, 1 << 12, 1 << 20, 1 << 12, 0, 16)
    head += bytes(8) + struct.pack("<II", base, size) + bytes(14 * 8)
    head += b".rdata\0\0" + struct.pack(
        "<IIIIIIHHI", len(content), base, len(content), start, 0, 0, 0, 0, 0x40000040
    )
    return head + bytes(start - len(head)) + content
