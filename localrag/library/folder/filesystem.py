"""What a library's folder lies on: whether it can be written, and whether it is this computer's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from localrag.errors import LibraryError, LocalragError

CATALOGUE = "catalogue.sqlite"

VAULT_HEADER = "vault.json"
"""Where it is, the library is a vault: it holds the wrapped key, and the catalogue is encrypted."""
VAULT_CATALOGUE = "catalogue.vault"

_NETWORK = frozenset(
    (
        *("nfs", "nfs3", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afpfs", "webdav", "davfs"),
        *("9p", "afs", "ncpfs", "ceph", "lustre", "beegfs", "gfs2", "ocfs2", "glusterfs"),
        *("sshfs", "davfs2", "rclone", "s3fs", "gvfsd-fuse", "osxfuse", "macfuse"),
    )
)
"""File systems that other computers may write to at the same time, without "fuse."."""

_NO_MODES = frozenset(("exfat", "vfat", "msdos", "fat", "fat12", "fat16", "fat32"))
"""File systems on which a file belongs to nobody."""


def catalogue_of(directory: Path) -> Path:
    """The file that holds the truth of the library in a folder."""
    is_vault = (directory / VAULT_HEADER).is_file()
    return directory / (VAULT_CATALOGUE if is_vault else CATALOGUE)


def is_read_only(directory: Path) -> bool:
    """Whether nothing can be written there: a read-only medium, or somebody else's folder."""
    if not directory.is_dir():
        return False
    if not os.access(directory, os.W_OK):
        return True
    catalogue = catalogue_of(directory)
    if catalogue.exists() and not os.access(catalogue, os.W_OK):
        return True
    if os.name != "nt":
        return False
    try:  # there, rights on a folder are only known by trying
        tempfile.TemporaryFile(dir=directory).close()
    except OSError:
        return True
    return False


def network_drive(directory: Path) -> str:
    """The kind of network file system that a folder lies on, "" for a disk of this computer."""
    place = directory.expanduser().resolve()
    if str(place).startswith("\\\\"):
        return "UNC"
    name, kind, remote = _mount(place)
    return kind or "remote" if remote or name in _NETWORK else ""


def without_modes(directory: Path) -> str:
    """The kind of file system, where it knows no owners and everybody may read all; else ""."""
    name, kind, _ = _mount(directory.expanduser().resolve())
    return kind if name in _NO_MODES else ""


def _mount(place: Path) -> tuple[str, str, bool]:
    """What the nearest mount is: its plain name, what the system calls it, whether remote."""
    import psutil

    best, nearest = -1, ("", "", False)
    try:
        mounts = psutil.disk_partitions(all=True)
    except OSError:  # kept from /proc: then it cannot be told, and nobody is warned
        return nearest
    for mount in mounts:
        point = Path(mount.mountpoint)
        if len(point.parts) <= best or (place != point and point not in place.parents):
            continue
        best = len(point.parts)
        name = mount.fstype.lower().removeprefix("fuse.")
        nearest = name, mount.fstype, "remote" in mount.opts.split(",")
    return nearest


def not_writable(directory: Path) -> LibraryError:
    """What a caller is told who wants to change a library that can only be read."""
    return LibraryError(
        "The library {directory} is read-only: its medium is write-protected, or you are not "
        "allowed to write to that folder.",
        hint="Searching and asking work there. To change it, copy the folder to a disk of your "
        "own.",
        directory=directory,
    )


@contextmanager
def in_our_words(directory: Path) -> Iterator[None]:
    """Say what the system says of a library's files: a disk that is full, gone, or failing."""
    try:
        yield
    except OSError as error:
        if isinstance(error, LocalragError):
            raise
        raise unusable(directory, error.strerror or error) from error


def unusable(directory: Path, reason: object) -> LibraryError:
    """What a caller is told where disk, rights or other processes are in the way."""
    return LibraryError(
        "The library {directory} cannot be used: {reason}.",
        hint="Check the free disk space and whether you may write to that folder.",
        directory=directory,
        reason=reason,
    )


def in_use(directory: Path) -> LibraryError:
    """What a caller is told where files are open elsewhere that are to go."""
    return LibraryError(
        "The library {directory} is in use: some of its files could not be deleted.",
        hint="End what has it open, such as `localrag serve`, and run this again.",
        directory=directory,
    )
