"""Run a command with the network taken away: a namespace with loopback only.

    python3 scripts/offline.py COMMAND [ARGUMENTS]

Linux only (unshare(2) with CLONE_NEWNET, and CLONE_NEWUSER for who is not root).
Elsewhere, or where the system forbids it, says so and runs the command as it is.
"""

from __future__ import annotations

import ctypes
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


def main() -> None:
    """Take the network away, then become the command."""
    try:
        take_network_away()
        print("offline: loopback only", file=sys.stderr, flush=True)
    except OSError as error:
        print(
            f"offline: not possible here ({error}); the network stays", file=sys.stderr, flush=True
        )
    os.execvp(sys.argv[1], sys.argv[1:])


def take_network_away() -> None:
    """Move this process into a new network namespace and bring its loopback up."""
    if not sys.platform.startswith("linux"):
        raise OSError("this is not Linux")
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


if __name__ == "__main__":
    main()
