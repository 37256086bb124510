"""What `--library` names: a folder, or a library in a database."""

from __future__ import annotations

import os
from pathlib import Path

from localrag.egress.databases import Database, is_database, read_url

Location = Path | Database
"""What `--library` names."""


def location_of(given: str | os.PathLike[str] | Database) -> Location:
    """A folder, or a database where it is written as a URL. Raises UsageError."""
    if isinstance(given, Database):
        return given
    if isinstance(given, str) and is_database(given):
        return read_url(given)
    return Path(given).expanduser()


def name_of(location: Location) -> str:
    """What a server calls it: the name of its folder, or in its database."""
    return location.library if isinstance(location, Database) else location.resolve().name
