"""The one way to make, open, replace and delete files: for their owner alone, never over a link.

What is made is 0600, a folder 0700. A folder that its owner has opened to a group on purpose
(group-writable and set-group-id, as `chmod g+ws` leaves it) hands that on to what is made in it.
File systems without modes (exFAT) ignore all of it. Knows nothing of libraries or models.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from filelock import FileLock

_PRIVATE = (0o600, 0o700)
_SHARED = (0o660, 0o2770)
_GROUP = stat.S_ISGID | stat.S_IRWXG

# Windows has neither; there `lstat` alone tells links from files.
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_OPEN = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)  # a FIFO without a writer would block for ever

_MEMORY = Path("/dev/shm")  # noqa: S108 - what lies in it is made by `create_folder`

_ORPHAN = 3600.0
"""Seconds after which a scratch folder that nobody holds a lock for is nobody's."""


class NotPlainError(OSError):
    """What was expected to be a file or a folder is a link, a device, a pipe or a socket."""


def storable_path(path: Path) -> str:
    """The absolute path; bytes of a name that are no UTF-8 are written as hexadecimal escapes."""
    return storable_name(os.path.abspath(path))  # noqa: PTH100 - Path.absolute leaves ".." in


def storable_name(name: str) -> str:
    """A path with bytes that are no UTF-8 written as hexadecimal escapes."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def is_plain_file(path: Path) -> bool:
    """Whether there is a file itself, and not something that leads to one."""
    status = _status(path)
    return status is not None and stat.S_ISREG(status.st_mode) and not _leads_elsewhere(status)


def is_real_folder(path: Path) -> bool:
    """Whether there is a folder itself, and not something that leads to one."""
    status = _status(path)
    return status is not None and stat.S_ISDIR(status.st_mode) and not _leads_elsewhere(status)


def is_mine_alone(path: Path) -> bool:
    """Whether what is there itself is this user's, and nobody else may use it.

    Always on Windows, where a user's folders are closed to others. Raises FileNotFoundError.
    """
    if sys.platform == "win32":
        return True
    status = path.lstat()
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IRWXG | stat.S_IRWXO)


def open_plain(path: Path) -> BufferedReader:
    """Open a file for reading. Raises NotPlainError for anything else, before a byte is read."""
    file: BufferedReader = _opened(path, os.O_RDONLY, "rb")
    return file


def open_in_place(path: Path) -> BinaryIO:
    """Open a file of localrag's own for reading and writing where it stands.

    Raises NotPlainError for anything but a file, and FileNotFoundError.
    """
    file: BinaryIO = _opened(path, os.O_RDWR, "r+b")
    return file


def create_file(path: Path) -> BinaryIO:
    """Make a new file and open it for writing. Raises FileExistsError for whatever is there."""
    mode, _ = _modes(path.parent)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN | _NO_LINK
    descriptor = os.open(path, flags, mode)
    try:
        _open_to_group(path, mode)
        return os.fdopen(descriptor, "wb")
    except BaseException:
        os.close(descriptor)
        raise


def append_file(path: Path) -> BinaryIO:
    """Open a file of localrag's own for writing at its end; made where it is missing.

    Raises NotPlainError for anything but a file, a link too.
    """
    file: BinaryIO = _opened(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, "ab")
    return file


def overwrite_file(path: Path) -> BinaryIO:
    """Open a file of localrag's own for writing from its beginning, empty; otherwise the same."""
    file: BinaryIO = _opened(path, os.O_WRONLY | os.O_CREAT, "wb")
    file.truncate()  # only now that it is known to be a plain file
    return file


def touch_file(path: Path) -> None:
    """Make an empty file of localrag's own, unless there is one. Raises NotPlainError."""
    append_file(path).close()


def copy_file(source: Path, target: Path) -> None:
    """Copy a file's bytes and time to a new file. Raises FileExistsError for whatever is there."""
    with source.open("rb") as read, create_file(target) as written:
        shutil.copyfileobj(read, written, 1 << 20)
    status = source.stat()
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def make_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing. Raises FileExistsError for a file."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for folder in reversed(missing):
        try:
            create_folder(folder)
        except FileExistsError:
            if not folder.is_dir():
                raise


def create_folder(path: Path) -> None:
    """Make one new folder. Raises FileExistsError for whatever is there."""
    _, mode = _modes(path.parent)
    path.mkdir(mode=mode & 0o777)
    _open_to_group(path, mode)


def make_private(path: Path) -> None:
    """Take from others what another program has made at `path` and below."""
    if os.name == "nt":
        return
    for entry in (path, *path.rglob("*")):
        if not entry.is_symlink():
            file, folder = _modes(entry.parent)
            # What may be run by its owner stays so.
            entry.chmod(folder if entry.is_dir() else file | entry.stat().st_mode & stat.S_IXUSR)


def replace_content(path: Path, content: str | bytes) -> None:
    """Write a small file of localrag's own as `replace_file` does; makes its folder."""
    make_folder(path.parent)
    data = content.encode("utf-8") if isinstance(content, str) else content
    replace_file(path, lambda file: file.write(data))


def rewrite(path: Path, content: str) -> None:
    """Replace a file that the user keeps, such as the settings: whole, or not at all.

    It keeps its mode, and stays where the user's link leads.
    """
    place = path.resolve()
    mode = stat.S_IMODE(place.stat().st_mode) if place.exists() else None
    replace_content(place, content)
    if mode is not None and os.name != "nt":
        place.chmod(mode)


def replace_file(path: Path, write: Callable[[BinaryIO], object], *, durable: bool = True) -> None:
    """Let `write` fill a new file beside `path`, force it to disk, and rename it into place.

    A process killed at any moment leaves the old file or the new one, never a mixture. A link at
    `path` is replaced, and what it leads to stays as it is. What need not outlive a power cut is
    not forced to disk (`durable` false).
    """
    part = _part(path)
    try:
        with create_file(part) as file:
            write(file)
            if durable:
                _settle(file)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    if durable:
        sync_directory(path.parent)


def new_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Let `write` fill a new file that is at `path` whole or not at all.

    Raises FileExistsError for whatever is there. Where the system can (Linux), a process that is
    killed leaves nothing; elsewhere a part beside `path`, which the next call for it deletes.
    """
    if _written_unnamed(path, write):
        return
    _sweep_parts(path)
    part = _part(path)
    try:
        with create_file(part) as file:
            write(file)
            _settle(file)
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if os.path.lexists(path):
                raise FileExistsError(str(path)) from None
            part.rename(path)
    finally:
        part.unlink(missing_ok=True)
    sync_directory(path.parent)


def write_output(path: Path, content: str | bytes) -> None:
    """Write what the user asked for at a path that the user named, over what is there.

    A new file is 0600; one that is there keeps its mode, and a link or a device that the user
    named is written to.
    """
    data = content.encode("utf-8") if isinstance(content, str) else content
    with path.open("wb") if os.path.lexists(path) else create_file(path) as file:
        file.write(data)


def check_output(path: Path) -> None:
    """Raise OSError where `write_output` could not write; makes an empty file where none is."""
    (path.open("ab") if os.path.lexists(path) else create_file(path)).close()


def delete_tree(path: Path) -> None:
    """Delete a folder with all that is in it. Of a link only the link goes. Missing: nothing.

    Links below are deleted, not followed. Raises OSError where something cannot be deleted.
    """
    if is_real_folder(path):
        with suppress(FileNotFoundError):
            shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def delete_empty_folders(path: Path) -> None:
    """Delete every folder below `path` that holds nothing but such folders."""
    for folder in sorted(path.rglob("*"), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


def close_to_others(path: Path) -> None:
    """Give a file that a library made the mode that it would have from here.

    Somebody else's file in a group's folder keeps its own, and so does one with another name.
    """
    if path.lstat().st_nlink == 1:
        with suppress(PermissionError):
            path.chmod(_modes(path.parent)[0])


def give_to_owner(file: BinaryIO, folder: Path) -> None:
    """Let a file that root has made in somebody's folder be theirs, who could not open it else."""
    if sys.platform != "win32" and os.geteuid() == 0:
        owner = folder.stat()
        with suppress(OSError):  # a file system without owners
            os.fchown(file.fileno(), owner.st_uid, owner.st_gid)


def sync_directory(path: Path) -> None:
    """Force a rename within `path` to disk, where the system can (Windows cannot)."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock(path: Path, timeout: float = -1) -> FileLock:
    """A lock between processes on a file of localrag's own; `timeout` in seconds, -1 for ever."""
    from filelock import FileLock

    return FileLock(path, timeout=timeout, mode=_modes(path.parent)[0])


class _Scratch:
    """Where scratch folders of this process lie."""

    in_memory = False


def keep_scratch_in_memory() -> None:
    """Have scratch folders of this process lie in memory from now on, where the system has that.

    Linux has it (tmpfs, which may be swapped); elsewhere they stay in the user's cache.
    """
    _Scratch.in_memory = True


@contextmanager
def scratch_folder(*, encrypted: bool = False) -> Iterator[Path]:
    """A new private folder, gone when the block ends; what a killed process left is swept.

    All lie in one place: the user's cache, or memory (`keep_scratch_in_memory`) unless what they
    hold is `encrypted`, which may be large. Each is held by a lock that the system frees with its
    process, so that a sweep deletes what nobody uses any more and nothing else.
    """
    place = _scratch_place(in_memory=_Scratch.in_memory and not encrypted)
    sweep_scratch(place)
    folder = place / secrets.token_hex(8)
    with lock(folder.with_suffix(".lock")):
        create_folder(folder)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        folder.with_suffix(".lock").unlink(missing_ok=True)


def sweep_scratch(place: Path) -> None:
    """Delete the scratch folders whose processes have ended."""
    from filelock import Timeout

    for lock_path in place.glob("*.lock"):
        with suppress(Timeout, OSError), lock(lock_path, timeout=0):
            delete_tree(lock_path.with_suffix(""))
            lock_path.unlink(missing_ok=True)
    # A folder that could not be deleted when its lock was given back (Windows, while it is open).
    for folder in place.iterdir():
        with suppress(OSError):
            alone = folder.suffix != ".lock" and not folder.with_suffix(".lock").exists()
            if alone and time.time() - folder.lstat().st_mtime > _ORPHAN:
                delete_tree(folder)


def _part(path: Path) -> Path:
    """A name beside `path`; cut, so that one which is as long as may be leaves room for it."""
    return path.with_name(f"{_stem(path)}.{secrets.token_hex(4)}.part")


def _stem(path: Path) -> str:
    return os.fsencode(path.name)[:200].decode("utf-8", "ignore")


def _sweep_parts(path: Path) -> None:
    ours = re.compile(re.escape(_stem(path)) + r"\.[0-9a-f]{8}\.part")
    for left in path.parent.iterdir():
        if ours.fullmatch(left.name) and is_plain_file(left):
            left.unlink(missing_ok=True)


def _settle(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _written_unnamed(path: Path, write: Callable[[BinaryIO], object]) -> bool:
    """Fill a file without a name and give it one at the end, where this system can."""
    unnamed = getattr(os, "O_TMPFILE", 0)
    if not unnamed or not Path("/proc/self/fd").is_dir():
        return False
    mode, _ = _modes(path.parent)
    try:
        descriptor = os.open(path.parent, unnamed | os.O_RDWR | _OPEN, mode)
    except OSError:  # this file system cannot; what else is wrong, the other way says better
        return False
    with os.fdopen(descriptor, "w+b") as file:
        if mode in _SHARED:
            os.chmod(descriptor, mode)  # noqa: PTH101 - it has no name
        write(file)
        _settle(file)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            # With a folder given, Python calls linkat, which alone can follow this name.
            os.link(f"/proc/self/fd/{descriptor}", path.name, dst_dir_fd=folder)
            os.fsync(folder)
        except FileExistsError:
            raise
        except OSError:  # kept from /proc, say
            return False
        finally:
            os.close(folder)
    return True


def _user() -> str:
    if sys.platform == "win32":  # where the folder for temporary files is the user's own
        return "user"
    return str(os.getuid())


def _scratch_place(*, in_memory: bool = False) -> Path:
    from platformdirs import user_cache_path

    if in_memory and _MEMORY.is_dir():
        place = _MEMORY / f"localrag-{_user()}"
        with suppress(FileExistsError):
            create_folder(place)
        if is_real_folder(place) and is_mine_alone(place):  # anybody may make that name there
            return place
        return Path(tempfile.mkdtemp(prefix="localrag-", dir=_MEMORY))
    place = user_cache_path("localrag", appauthor=False) / "scratch"
    try:
        make_folder(place)
    except OSError:  # a home that can only be read
        place = Path(tempfile.gettempdir()) / f"localrag-{_user()}"
        with suppress(FileExistsError):
            create_folder(place)
        # Anybody may make a folder of that name there.
        if not (is_real_folder(place) and is_mine_alone(place)):
            return Path(tempfile.mkdtemp(prefix="localrag-"))
    return place


def _opened(path: Path, flags: int, mode: str) -> Any:
    rights, _ = _modes(path.parent)
    new = not os.path.lexists(path)
    if not new and not is_plain_file(path):
        raise _not_plain(path)
    try:
        descriptor = os.open(path, flags | _OPEN | _NO_LINK | _NO_WAIT, rights)
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link since it was looked at
            raise _not_plain(path) from None
        raise
    try:
        _check_regular(descriptor, path)
        if new:
            _open_to_group(path, rights)
        return os.fdopen(descriptor, mode)
    except BaseException:
        os.close(descriptor)
        raise


def _check_regular(descriptor: int, path: Path) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise _not_plain(path)


def _modes(folder: Path) -> tuple[int, int]:
    """What a new file and a new folder within `folder` may be used for, and by whom."""
    if os.name == "nt":
        return _PRIVATE
    try:
        mode = folder.stat().st_mode
    except OSError:
        return _PRIVATE
    return _SHARED if mode & _GROUP == _GROUP else _PRIVATE


def _open_to_group(path: Path, mode: int) -> None:
    if mode in _SHARED:  # the umask has taken the group's bits
        path.chmod(mode)


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _leads_elsewhere(status: os.stat_result) -> bool:
    """Whether it is a link, or a junction on Windows."""
    if stat.S_ISLNK(status.st_mode):
        return True
    if sys.platform != "win32":
        return False
    return bool(status.st_file_attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT)


def _not_plain(path: Path) -> NotPlainError:
    return NotPlainError(f"{path} is no plain file")
