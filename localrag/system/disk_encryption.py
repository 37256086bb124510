"""Whether what lies on the disk is encrypted there: yes, no, or it cannot be told.

A drive that encrypts itself, and the disk of whoever runs a virtual machine, are not seen: the
answer is what this operating system does.
"""

from __future__ import annotations

import os
import plistlib
import re
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePosixPath

from localrag.system import processes

_SECONDS = 10.0

_STACKED = {
    "ecryptfs": "eCryptfs",
    "fuse.gocryptfs": "gocryptfs",
    "fuse.encfs": "EncFS",
    "fuse.cryfs": "CryFS",
    "fuse.securefs": "securefs",
    "fuse.sirikali": "SiriKali",
}
"""File systems of Linux that encrypt whatever lies below them."""
_MEMORY = frozenset({"tmpfs", "ramfs"})
_FSCRYPT = frozenset({"ext4", "f2fs", "ubifs", "ceph"})
_GET_POLICY_EX = 0xC0096616  # FS_IOC_GET_ENCRYPTION_POLICY_EX
# dm-verity and dm-integrity carry the prefix CRYPT- as well, and encrypt nothing.
_CRYPT = re.compile(r"CRYPT-(LUKS|PLAIN|TCRYPT|BITLK|LOOPAES|FVAULT2)")
_NAMES = {"LUKS": "LUKS", "TCRYPT": "VeraCrypt", "BITLK": "BitLocker", "FVAULT2": "FileVault"}
_HANDED_ON = re.compile(r"(LVM|mpath|part\d*|DMRAID)-")
"""Device-mapper volumes that hold what lies below them as it is."""
_ELSEWHERE = re.compile(r"(nbd|rbd|drbd|zd)\d")
"""Devices that other computers or ZFS serve, by means that are not seen here."""
_DEPTH = 16


@dataclass(frozen=True, slots=True)
class Protection:
    """`encrypted` is None where it cannot be told; `by` names what encrypts, or what it lies on."""

    encrypted: bool | None
    by: str = ""


UNKNOWN = Protection(None)


def of_path(path: Path, *, ask: bool = True) -> Protection:
    """Of the volume that a path lies on, or will lie on when it is made.

    Without `ask` no program of the system is started; only Linux can tell most of it then.
    """
    place = path.expanduser().absolute()
    place = next(each for each in (place, *place.parents) if each.exists()).resolve()
    if sys.platform == "linux":
        return Linux(ask=ask).of_path(place)
    if sys.platform == "darwin" and ask:
        return _filevault(place)
    if sys.platform == "win32" and ask:
        return _bitlocker(place)
    return UNKNOWN


def of_swap(*, ask: bool = True) -> Protection:
    """Of where the system puts memory that it needs for others; `ask` as above."""
    if sys.platform == "linux":
        return Linux(ask=ask).of_swap()
    if sys.platform == "darwin" and ask:
        return _mac_swap(_output("/usr/sbin/sysctl", "-n", "vm.swapusage").decode("utf-8"))
    if sys.platform == "win32" and ask:
        return _all(_bitlocker(Path(each)) for each in _page_files())
    return UNKNOWN


def _all(found: Iterable[Protection]) -> Protection:
    """Of several that hold one thing: encrypted where each is, not where one is not."""
    each = list(found)
    names = ", ".join(dict.fromkeys(one.by for one in each if one.by))
    for answer in (False, None):
        if some := [one for one in each if one.encrypted is answer]:
            return Protection(answer, some[0].by)
    return Protection(True, names) if each else UNKNOWN


def _output(program: str, *arguments: str, **variables: str) -> bytes:
    """What a program of the system prints; b"" where it is missing, fails or does not end."""
    try:
        done = processes.run(
            [program, *arguments],
            processes.PLAIN,
            variables=variables,
            seconds=_SECONDS,
        )
    except (OSError, processes.TimedOutError):
        return b""
    return b"" if done.returncode else done.stdout


# Linux: /proc and /sys


@dataclass(frozen=True, slots=True)
class _Mount:
    point: PurePosixPath
    device: str
    kind: str
    source: str


class Linux:
    """What the kernel says of mounts and devices; `root` is where /proc, /sys and /dev lie."""

    def __init__(self, root: Path = Path("/"), *, ask: bool = True) -> None:
        self._root = root
        self._ask = ask

    def of_path(self, place: Path, depth: int = _DEPTH) -> Protection:
        """Of the volume that a path without links lies on."""
        mount = self._mount(place)
        if mount is None or not depth:
            return UNKNOWN
        if name := _STACKED.get(mount.kind):
            return Protection(True, name)
        if mount.kind in _MEMORY:
            swap = self.of_swap()
            return Protection(swap.encrypted, mount.kind)
        if mount.kind == "zfs":
            return _zfs(mount.source) if self._ask else Protection(None, "ZFS")
        if mount.kind in _FSCRYPT and _has_fscrypt_policy(place):
            return Protection(True, "fscrypt")
        if mount.kind == "btrfs":
            return self._btrfs(mount.source, depth)
        if not mount.device.startswith("0:"):
            return self._device(self._named(f"sys/dev/block/{mount.device}"), depth)
        return Protection(None, mount.kind)  # of another computer, or made of several

    def of_swap(self) -> Protection:
        """Of all swap together; without any, nothing is written out."""
        try:
            lines = (self._root / "proc/swaps").read_text("utf-8").splitlines()[1:]
        except OSError:
            return UNKNOWN
        found = []
        for line in lines:
            path, kind = line.split()[:2]
            path = _unescaped(path)
            if kind == "partition":
                found.append(self._device(self._named(path.lstrip("/")), _DEPTH))
            else:
                found.append(self.of_path(Path(path)))
        return _all(found) if found else Protection(True, "none")

    def _mount(self, place: Path) -> _Mount | None:
        """The mount that holds a path: the deepest, and of several in one place the last."""
        try:
            text = (self._root / "proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        except OSError:
            return None
        held = PurePosixPath(place)
        found: _Mount | None = None
        for line in text.splitlines():
            front, _, back = line.partition(" - ")
            words, (kind, source, *_) = front.split(), back.split()
            mount = _Mount(PurePosixPath(_unescaped(words[4])), words[2], kind, _unescaped(source))
            inside = mount.point in (held, *held.parents)
            if inside and (found is None or len(mount.point.parts) >= len(found.point.parts)):
                found = mount
        return found

    def _btrfs(self, source: str, depth: int) -> Protection:
        """Of all devices of a file system that may have several."""
        first = self._named(source.lstrip("/"))
        for folder in (self._root / "sys/fs/btrfs").glob("*/devices"):
            names = [each.resolve().name for each in folder.iterdir()]
            if first in names:
                return _all(self._device(name, depth) for name in names)
        return UNKNOWN

    def _named(self, path: str) -> str:
        """The kernel's name of a device, from a link to it."""
        return (self._root / path).resolve().name

    def _device(self, name: str, depth: int) -> Protection:
        folder = self._root / "sys/class/block" / name
        if not depth or not folder.exists():
            return UNKNOWN
        uuid = _line(folder / "dm/uuid")
        if found := _CRYPT.match(uuid):
            return Protection(True, _NAMES.get(found[1], "dm-crypt"))
        below = sorted(each.name for each in (folder / "slaves").glob("*"))
        if below:
            held = _all(self._device(each, depth - 1) for each in below)
            # A kind that is not known may be what encrypts: only "yes" below it is an answer then.
            known = not (folder / "dm").exists() or _HANDED_ON.match(uuid)
            return held if known or held.encrypted else Protection(None, name)
        if (folder / "partition").exists():
            return self._device(folder.resolve().parent.name, depth - 1)
        if name.startswith("zram"):
            kept = _line(folder / "backing_dev")
            if kept in ("", "none"):
                return Protection(True, "zram")
            return self._device(self._named(kept.lstrip("/")), depth - 1)
        if name.startswith("loop"):
            file = Path(_line(folder / "loop/backing_file"))
            return self.of_path(file, depth - 1) if file.is_absolute() else UNKNOWN
        if (folder / "dm").exists() or _ELSEWHERE.match(name):
            return Protection(None, name)
        return Protection(False, name)


def _line(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def _unescaped(text: str) -> str:
    r"""Spaces and the like stand as \040 in what the kernel lists."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def _has_fscrypt_policy(place: Path) -> bool:
    if sys.platform == "win32":
        return False
    import fcntl

    folder = place if place.is_dir() else place.parent
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return False
    try:
        # The size of a policy, and room for one.
        answer = bytearray((24).to_bytes(8, sys.byteorder) + bytes(24))
        fcntl.ioctl(descriptor, _GET_POLICY_EX, answer)
    except OSError:
        return False  # ENODATA: none; ENOTTY, EOPNOTSUPP: the file system knows no such thing
    finally:
        os.close(descriptor)
    return True


def _zfs(dataset: str) -> Protection:
    program = processes.find("zfs")
    said = _output(program, "get", "-H", "-o", "value", "encryption", dataset) if program else b""
    word = said.decode("utf-8", "replace").strip()
    return Protection(word != "off", "ZFS") if word not in ("", "-") else Protection(None, "ZFS")


# macOS


def _filevault(place: Path) -> Protection:
    data = Path("/System/Volumes/Data")  # holds what seems to lie on /
    volume = next(each for each in (place, *place.parents) if os.path.ismount(each))
    if data.exists() and data.stat().st_dev == place.stat().st_dev:
        volume = data
    return _filevault_of(str(volume))


@cache
def _filevault_of(volume: str) -> Protection:
    return _said_by_diskutil(_output("/usr/sbin/diskutil", "info", "-plist", volume))


def _said_by_diskutil(said: bytes) -> Protection:
    try:
        found = plistlib.loads(said).get("FileVault") if said else None
    except (plistlib.InvalidFileException, ValueError):
        return UNKNOWN
    return Protection(found, "FileVault" if found else "") if isinstance(found, bool) else UNKNOWN


def _mac_swap(said: str) -> Protection:
    if not said:
        return UNKNOWN
    if "(encrypted)" in said:
        return Protection(True, "macOS")
    return Protection(True, "none") if re.search(r"total = 0(\.0+)?M", said) else UNKNOWN


# Windows

_ASK = (
    "(New-Object -ComObject Shell.Application).NameSpace($env:LOCALRAG_DRIVE).Self"
    ".ExtendedProperty('System.Volume.BitLockerProtection')"
)
_ANSWERS = {"1": True, "2": False, "3": False, "4": False, "5": False}
"""On; off; being encrypted; being decrypted; suspended: the key lies beside it."""


def _bitlocker(place: Path) -> Protection:
    attributes = getattr(place.stat(), "st_file_attributes", 0)
    if attributes & stat.FILE_ATTRIBUTE_ENCRYPTED:
        return Protection(True, "EFS")
    return _bitlocker_of(place.anchor)


@cache
def _bitlocker_of(drive: str) -> Protection:
    folder = Path(os.environ.get("SYSTEMROOT", "C:\\Windows"), "System32", "WindowsPowerShell")
    program = str(folder / "v1.0" / "powershell.exe")
    asked = ("-NoProfile", "-NonInteractive", "-Command", _ASK)
    said = _output(program, *asked, LOCALRAG_DRIVE=drive)
    answer = _ANSWERS.get(said.decode("ascii", "replace").strip())
    return Protection(answer, "BitLocker" if answer else "")


def _page_files() -> list[str]:
    """The files that Windows pages to."""
    if sys.platform != "win32":
        return []
    import winreg

    name = r"SYSTEM\CurrentControlSet\Control\Session Manager\Memory Management"
    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, name) as key:
            found, _ = winreg.QueryValueEx(key, "ExistingPageFiles")
    except OSError:
        return []
    drives = (str(each).removeprefix("\\??\\")[:2] for each in found)
    return [f"{each}\\" for each in drives]
