"""Files into a library, only what has changed, and nothing half."""

from localrag.indexing.events import (
    AddReport,
    Committed,
    Embedded,
    Event,
    Failed,
    Found,
    Linked,
    Parsed,
    Removed,
    Synced,
    Unchanged,
    Vanished,
)
from localrag.indexing.indexer import Indexer

__all__ = [
    "AddReport",
    "Committed",
    "Embedded",
    "Event",
    "Failed",
    "Found",
    "Indexer",
    "Linked",
    "Parsed",
    "Removed",
    "Synced",
    "Unchanged",
    "Vanished",
]
