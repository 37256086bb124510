"""Files inside files, such as those attached to a mail: each as if it lay in a folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from localrag.documents.files import SIZE_LIMIT
from localrag.documents.formats.table import Attachment
from localrag.errors import ParsingError
from localrag.library.records import FileState

MOST_ATTACHED = 1000
"""Files inside one, and inside those: as many are read as a person attaches, and a bomb is not."""

DEEPEST = 5
"""Mails within mails."""

MOST_SLOW = 3
"""Files inside one whose reading was given up for its time: a mail that was made to hang a reader
holds hundreds, and each may take a minute."""


@dataclass(slots=True)
class NestedFileBudget:
    """What one file may still hold inside it, at whatever depth."""

    again: bool = False
    """Whether what could not be read of it is tried again, though the file is as it was."""
    files: int = MOST_ATTACHED
    bytes: int = SIZE_LIMIT
    slow: int = MOST_SLOW

    def admit(self, attachment: Attachment) -> bool:
        """Whether it is within the bounds; then it counts."""
        if not self.files or len(attachment.data) > self.bytes:
            return False
        self.files -= 1
        self.bytes -= len(attachment.data)
        return True


def inside_of(state: FileState, name: str, size: int) -> FileState:
    """The state of a file inside another; `name` begins with the separator of paths."""
    return replace(
        state,
        path=state.path + name,
        size=size,
        origins=tuple(origin + name for origin in state.origins),
    )


def too_many(path: Path, count: int) -> ParsingError:
    """What is said of files that were left out."""
    return ParsingError(
        "{source} holds {count} files that were left out: localrag reads up to {files} of them, "
        "{size} MB in all, and mails within mails up to {depth} deep.",
        hint="Save them to a folder, and add that folder.",
        source=str(path),
        count=count,
        files=MOST_ATTACHED,
        size=SIZE_LIMIT // 2**20,
        depth=DEEPEST,
    )


def too_slow(path: Path, count: int) -> ParsingError:
    """What is said of files that were left out since others before them hung the reader."""
    return ParsingError(
        "{source} holds {count} files that were left out: reading {slow} others inside it was "
        "given up for the time it took.",
        hint="Save them to a folder, and add that folder.",
        source=str(path),
        count=count,
        slow=MOST_SLOW,
    )
