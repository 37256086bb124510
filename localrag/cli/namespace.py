"""A network of this process alone, with loopback only, where Linux allows it.

What reaches for a host in it fails in the kernel, whoever tries: C code and child processes too.
The kernel counts such tries.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCGIFFLAGS = 0x8913
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1

_COUNTERS = {"Ip:OutNoRoutes", "Ip6OutNoRoutes", "Udp:NoPorts", "Udp6NoPorts"}
"""Packets that had nowhere to go; the last two also see a name server on loopback asked."""


def enter() -> None:
    """Move this process, which must have one thread, into a network with loopback only.

    Raises OSError where the system has no such thing or forbids it.
    """
    if sys.platform != "linux":
        raise OSError("Linux only")
    import ctypes
    import fcntl

    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        answer = fcntl.ioctl(control, SIOCGIFFLAGS, request)
        (now,) = struct.unpack_from("H", answer, 16)
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", now | IFF_UP, b""))


def lost_packets() -> int:
    """How many packets have found no way out of this network since it was made."""
    lines = Path("/proc/self/net/snmp").read_text(encoding="ascii").splitlines()
    counted: dict[str, str] = {}
    for names, values in zip(lines[::2], lines[1::2], strict=True):
        kind, *fields = names.split()
        counted |= zip((kind + field for field in fields), values.split()[1:], strict=True)
    v6 = Path("/proc/self/net/snmp6")
    if v6.exists():
        for line in v6.read_text(encoding="ascii").splitlines():
            name, value = line.split()
            counted[name] = value
    return sum(int(value) for name, value in counted.items() if name in _COUNTERS)
