"""Encryption at rest: the kernel's trees are made here, and what other systems say is written."""

from __future__ import annotations

import os
import plistlib
import sys
from pathlib import Path

import pytest

from localrag.cli import at_rest
from localrag.system import disk_encryption
from localrag.system.disk_encryption import Linux, Protection

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="only on systems with real links")

HOME = Path("/home/ann/library")


class Machine:
    """A tree of /proc, /sys and /dev."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mounts: list[str] = []
        (root / "proc/self").mkdir(parents=True)
        self.swaps()

    def block(self, name: str, *below: str, number: str = "", **files: str) -> None:
        """A device; `dm_uuid="x"` writes its file dm/uuid."""
        folder = self.root / "sys/devices" / name
        (folder / "slaves").mkdir(parents=True)
        for each in below:
            (folder / "slaves" / each).symlink_to(f"../../{each}")
        for path, text in files.items():
            file = folder / path.replace("__", "/")
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n")
        self._link(f"sys/class/block/{name}", folder)
        if number:
            self._link(f"sys/dev/block/{number}", folder)
        self._file(f"dev/{name}")

    def partition(self, disk: str, name: str, number: str = "") -> None:
        folder = self.root / "sys/devices" / disk / name
        folder.mkdir()
        (folder / "partition").write_text("1\n")
        self._link(f"sys/class/block/{name}", folder)
        if number:
            self._link(f"sys/dev/block/{number}", folder)
        self._file(f"dev/{name}")

    def mount(self, point: str, kind: str, number: str = "0:50", source: str = "none") -> None:
        self.mounts.append(f"30 1 {number} / {point} rw,relatime shared:1 - {kind} {source} rw")
        (self.root / "proc/self/mountinfo").write_text("\n".join(self.mounts) + "\n")

    def swaps(self, *lines: str) -> None:
        head = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
        (self.root / "proc/swaps").write_text(head + "".join(f"{line}\n" for line in lines))

    def link(self, path: str, to: str) -> None:
        self._link(path, self.root / to)

    def _link(self, path: str, to: Path) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.path.relpath(to, place.parent))

    def _file(self, path: str) -> None:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch()

    def of(self, path: Path = HOME) -> Protection:
        return Linux(self.root, ask=False).of_path(path)

    def swap(self) -> Protection:
        return Linux(self.root, ask=False).of_swap()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    made = Machine(tmp_path)
    made.block("sda", number="8:0")
    made.partition("sda", "sda2", "8:2")
    return made


def test_a_plain_partition_is_not_encrypted(machine: Machine) -> None:
    machine.mount("/", "ext4", "8:2")
    assert machine.of() == Protection(False, "sda")


@pytest.mark.parametrize(
    ("uuid", "name"),
    [
        ("CRYPT-LUKS2-0123-root", "LUKS"),
        ("CRYPT-PLAIN-swap", "dm-crypt"),
        ("CRYPT-BITLK-0123-usb", "BitLocker"),
        ("CRYPT-TCRYPT-usb", "VeraCrypt"),
    ],
)
def test_lvm_upon_dm_crypt(machine: Machine, uuid: str, name: str) -> None:
    machine.block("dm-0", "sda2", dm__uuid=uuid)
    machine.block("dm-1", "dm-0", number="253:1", dm__uuid="LVM-abc")
    machine.mount("/", "ext4", "8:2")
    machine.mount("/home", "xfs", "253:1")
    assert machine.of() == Protection(True, name)
    assert machine.of(Path("/etc")) == Protection(False, "sda")


@pytest.mark.parametrize("uuid", ["CRYPT-VERITY-0123-root", "CRYPT-INTEGRITY-x", "", "stratis-1-x"])
def test_what_checks_or_is_not_known_is_no_encryption(machine: Machine, uuid: str) -> None:
    machine.block("dm-0", "sda2", number="253:0", dm__uuid=uuid)
    machine.mount("/", "ext4", "253:0")
    assert machine.of().encrypted is None
    machine.block("dm-7", "sda2", dm__uuid="CRYPT-LUKS1-x")
    machine.block("dm-8", "dm-7", number="253:8", dm__uuid=uuid)
    machine.mount("/home", "ext4", "253:8")
    assert machine.of() == Protection(True, "LUKS")


def test_a_raid_is_as_safe_as_its_worst_disk(machine: Machine) -> None:
    machine.block("dm-0", "sda2", dm__uuid="CRYPT-LUKS2-x")
    machine.block("md0", "dm-0", number="9:0")
    machine.mount("/", "ext4", "9:0")
    assert machine.of() == Protection(True, "LUKS")
    machine.block("sdb")
    machine.block("md1", "dm-0", "sdb", number="9:1")
    machine.mount("/home", "ext4", "9:1")
    assert machine.of() == Protection(False, "sdb")


@pytest.mark.parametrize("kind", ["fuse.gocryptfs", "fuse.encfs", "ecryptfs", "fuse.cryfs"])
def test_a_folder_of_its_own_within_a_plain_disk(machine: Machine, kind: str) -> None:
    machine.mount("/", "ext4", "8:2")
    machine.mount("/home/ann", kind, source="/home/.ann")
    assert machine.of().encrypted is True
    assert machine.of(Path("/home/ann2")) == Protection(False, "sda")


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "overlay", "fuse.sshfs", "zfs", "bcachefs"])
def test_what_lies_elsewhere_cannot_be_told(machine: Machine, kind: str) -> None:
    machine.mount("/", "ext4", "8:2")
    machine.mount("/home", kind, source="somewhere")
    assert machine.of().encrypted is None


@pytest.mark.parametrize("name", ["nbd0", "rbd1", "zd16"])
def test_a_served_device_cannot_be_told(machine: Machine, name: str) -> None:
    machine.block(name, number="43:0")
    machine.mount("/", "ext4", "43:0")
    assert machine.of() == Protection(None, name)


def test_btrfs_of_two_devices(machine: Machine) -> None:
    machine.block("dm-0", "sda2", dm__uuid="CRYPT-LUKS2-x")
    machine.link("dev/mapper/home", "dev/dm-0")
    machine.link("sys/fs/btrfs/some-id/devices/dm-0", "sys/devices/dm-0")
    machine.mount("/", "btrfs", "0:31", "/dev/mapper/home")
    assert machine.of() == Protection(True, "LUKS")
    machine.block("sdb")
    machine.link("sys/fs/btrfs/some-id/devices/sdb", "sys/devices/sdb")
    assert machine.of() == Protection(False, "sdb")


def test_a_file_as_a_disk(machine: Machine) -> None:
    machine.block("loop3", number="7:3", loop__backing_file="/safe/disk.img")
    machine.block("dm-0", "sda2", number="253:0", dm__uuid="CRYPT-LUKS2-x")
    machine.mount("/", "ext4", "8:2")
    machine.mount("/home", "ext4", "7:3")
    assert machine.of() == Protection(False, "sda")
    machine.mount("/safe", "ext4", "253:0")
    assert machine.of() == Protection(True, "LUKS")


def test_a_file_that_lies_on_itself_ends(machine: Machine) -> None:
    machine.block("loop3", number="7:3", loop__backing_file="/home/disk.img")
    machine.mount("/home", "ext4", "7:3")
    assert machine.of().encrypted is None


def test_the_deepest_and_the_last_mount_counts(machine: Machine) -> None:
    machine.block("dm-0", "sda2", number="253:0", dm__uuid="CRYPT-LUKS2-x")
    machine.mount("/home/ann/my\\040papers", "ext4", "253:0")
    machine.mount("/", "ext4", "253:0")
    machine.mount("/", "ext4", "8:2")
    assert machine.of(Path("/home/ann/my papers/x")) == Protection(True, "LUKS")
    assert machine.of() == Protection(False, "sda")


def test_swap(machine: Machine) -> None:
    assert machine.swap() == Protection(True, "none")
    machine.block("dm-0", "sda2", dm__uuid="CRYPT-PLAIN-swap")
    machine.link("dev/mapper/swap", "dev/dm-0")
    machine.swaps("/dev/mapper/swap  partition\t8388604\t0\t-2")
    assert machine.swap() == Protection(True, "dm-crypt")
    machine.mount("/", "ext4", "8:2")
    machine.swaps("/dev/mapper/swap partition 8 0 -2", "/swap\\040file file 8 0 -3")
    assert machine.swap() == Protection(False, "sda")
    machine.block("zram0", backing_dev="none")
    machine.swaps("/dev/zram0 partition 8 0 100")
    assert machine.swap() == Protection(True, "zram")
    machine.block("zram1", backing_dev="/dev/sda2")
    machine.swaps("/dev/zram0 partition 8 0 100", "/dev/zram1 partition 8 0 100")
    assert machine.swap() == Protection(False, "sda")


def test_memory_is_as_safe_as_swap(machine: Machine) -> None:
    machine.mount("/tmp", "tmpfs")
    assert machine.of(Path("/tmp/x")) == Protection(True, "tmpfs")
    machine.swaps("/dev/sda2 partition 8 0 -2")
    assert machine.of(Path("/tmp/x")) == Protection(False, "tmpfs")


def test_without_the_kernels_lists_nothing_is_guessed(tmp_path: Path) -> None:
    assert Linux(tmp_path).of_path(HOME) == Protection(None)
    assert Linux(tmp_path).of_swap() == Protection(None)


def test_this_machine_answers_without_starting_a_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("localrag.system.processes.run", run)
    disk_encryption.of_path(tmp_path / "not" / "yet", ask=False)
    disk_encryption.of_swap(ask=False)


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        (plistlib.dumps({"FileVault": True}), Protection(True, "FileVault")),
        (plistlib.dumps({"FileVault": False, "Encryption": True}), Protection(False)),
        (plistlib.dumps({"Encryption": True}), Protection(None)),
        (b"", Protection(None)),
        (b"no plist", Protection(None)),
    ],
)
def test_what_diskutil_says(said: bytes, answer: Protection) -> None:
    assert disk_encryption._said_by_diskutil(said) == answer


@pytest.mark.parametrize(
    ("said", "answer"),
    [
        ("total = 2048.00M  used = 3.00M  free = 1.00M  (encrypted)", Protection(True, "macOS")),
        ("total = 0.00M  used = 0.00M  free = 0.00M", Protection(True, "none")),
        ("total = 20.00M  used = 0.00M  free = 0.00M", Protection(None)),
        ("", Protection(None)),
    ],
)
def test_what_sysctl_says(said: str, answer: Protection) -> None:
    assert disk_encryption._mac_swap(said) == answer


def test_doctor_and_status_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from localrag.cli.doctor import _encryption

    answers = {"library": True, "models": False}

    def of_path(path: Path, *, ask: bool) -> Protection:
        return Protection(answers.get(path.name), "LUKS" if answers.get(path.name) else "")

    monkeypatch.setattr(at_rest, "of_path", of_path)
    monkeypatch.setattr(at_rest, "of_swap", lambda *, ask: Protection(True, "none"))
    monkeypatch.setenv("LOCALRAG_MODELS", str(tmp_path / "models"))
    monkeypatch.setattr("localrag.factory.cache_folder", lambda: tmp_path / "cache")
    found = at_rest.protections(tmp_path / "library", ask=False)
    told = at_rest.as_json(found)
    assert {name: each["encrypted"] for name, each in told.items()} == {
        "library": True,
        "models": False,
        "cache": None,
        "temporary": None,
        "swap": True,
    }
    assert told["library"] == {
        "path": str(tmp_path / "library"),
        "encrypted": True,
        "by": "LUKS",
    }
    finding = _encryption(tmp_path / "library")
    assert finding.state == "warning"
    assert (
        "library: encrypted (LUKS); models: not encrypted; cache: cannot be determined"
        in finding.text
    )
    assert at_rest.advice() in finding.text
    answers["models"] = answers["cache"] = answers[Path(at_rest.tempfile.gettempdir()).name] = True
    finding = _encryption(tmp_path / "library")
    assert (finding.state, at_rest.advice() in finding.text) == ("ok", False)
