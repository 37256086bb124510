"""Documents alike: those of one kind below one folder, which a question can be put to one by one.

Folders and kinds are what the cards of documents say (`documents.cards`); nothing is read for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePath, PureWindowsPath

from localrag.documents.cards import card_of
from localrag.library.records import DocumentRecord
from localrag.types import CardKind

FEWEST = 2
"""Documents of a collection: a single document is asked by itself."""


@dataclass(frozen=True, slots=True)
class Collection:
    """Documents below `folder`, a path, of one `kind`; None: of several kinds."""

    folder: str
    kind: CardKind | None
    documents: tuple[DocumentRecord, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The first path of each document."""
        return tuple(record.sources[0] for record in self.documents)


def collections(records: Iterable[DocumentRecord]) -> list[Collection]:
    """The documents of each kind, and of all kinds, below each folder; sheets have rows instead.

    Of several folders with the same documents the innermost counts.
    """
    groups: dict[tuple[str, CardKind | None], list[DocumentRecord]] = {}
    for record in sorted(records, key=lambda record: record.sources[0]):
        source = record.sources[0]
        kind = card_of(record.title, source, "").kind
        if kind == "sheet":
            continue
        for folder in _folders(source):
            groups.setdefault((folder, kind), []).append(record)
            groups.setdefault((folder, None), []).append(record)
    by_documents: dict[tuple[str, ...], Collection] = {}
    for (folder, shared), documents in groups.items():
        if len(documents) < FEWEST:
            continue
        collection = Collection(folder, shared, tuple(documents))
        ids = tuple(record.id for record in documents)
        other = by_documents.get(ids)
        if other is None or (len(folder), shared is not None) > (
            len(other.folder),
            other.kind is not None,
        ):
            by_documents[ids] = collection
    return list(by_documents.values())


def _folders(source: str) -> Iterator[str]:
    """All folders above a file: /home/ann/contracts/a.docx lies in three."""
    path = PureWindowsPath(source) if "\\" in source and "/" not in source else PurePath(source)
    return (str(folder) for folder in path.parents)
