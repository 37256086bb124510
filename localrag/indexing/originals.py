"""The files that documents were read from, as they are now."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path, PurePath, PureWindowsPath

from localrag.documents.files import Parse, Read, read_bytes
from localrag.documents.formats.table import Attachment, attaches
from localrag.errors import ParsingError
from localrag.library.library import Library


def existing(library: Library, path: Path) -> Path:
    """The source, or the file that it lies in, such as a mail; `path` where neither is there.

    No share on another machine is asked: a library may come from somebody else, and Windows would
    tell the machine that it names who is asking.
    """
    if is_elsewhere(path):
        return path
    folders = (folder for folder in (path, *path.parents) if _is_there(library, str(folder)))
    return next(folders, path)


def _is_there(library: Library, source: str) -> bool:
    return library.uploads.is_kept(source) or os.path.lexists(library.file_of(source))


def is_elsewhere(path: PurePath) -> bool:
    r"""Whether a path names another machine, such as \\server\share or \??\UNC\server\share.

    The second form, which Windows hands to its kernel as it is, has no drive for Python; no path
    of a file that a person has named begins like that.
    """
    text = str(path)
    return path.drive.startswith("\\\\") or (
        isinstance(path, PureWindowsPath) and text.startswith("\\??\\")
    )


def original(
    library: Library, source: str, document_id: str, parse: Parse, read: Read = read_bytes
) -> bytes | None:
    """The bytes that a document was read from, if its file, or the one it lies in, has them."""
    path = Path(source)
    there = existing(library, path)
    if is_elsewhere(path) or (there != path and not attaches(there)):
        return None
    try:
        upload = library.uploads.kept(str(there))
        whole = read(library.file_of(str(there))) if upload is None else upload
        files = [Attachment(there.name, whole)]
        for _ in path.relative_to(there).parts:
            inside: list[Attachment] = []
            for file in filter(lambda file_name: attaches(file_name.name), files):
                parse(there.with_name(file.name), file.data, attach=inside.append)
            files = inside
    except (OSError, ParsingError):  # nothing there that can be read
        return None
    data = (file.data for file in files)
    return next(
        (content for content in data if hashlib.sha256(content).hexdigest() == document_id), None
    )
