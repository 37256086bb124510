"""What a library has to say of files and pages that were not read, or not read well."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from localrag.library.catalogue.reads import Snapshot
from localrag.library.records import PageReading, Problem
from localrag.types import PageNote, Plain


def problems(snapshot: Snapshot, among: Collection[str] | None = None) -> list[Problem]:
    """By path, those of some documents or all; pages of one file with the same to say are one.

    Files that were not read are no documents: they are named where all are asked for.
    """
    known = snapshot.readings(among)
    readings = [reading for reading in known if any(note.problem for note in reading.notes)]
    documents = {reading.document_id for reading in readings}
    units = snapshot.units(documents)
    sources = snapshot.sources_of(documents)
    grouped: dict[tuple[object, ...], list[tuple[int, PageNote]]] = {}
    for document_id, number, note in _notes(readings):
        grouped.setdefault((document_id, *_alike(note)), []).append((number, note))
    entries = []
    for key, noted in grouped.items():
        name = str(key[0])
        pages = tuple(sorted({number for number, _ in noted}))
        if units.get(name) == "text":
            pages = ()
        entries.append(
            Problem(sources.get(name, name), pages, _merged([n for _, n in noted]), None, name)
        )
    if among is None:
        entries += (Problem(file.state.path, error=file.error) for file in snapshot.unread())
    return sorted(entries, key=lambda problem: (problem.source, problem.pages))


def _notes(readings: list[PageReading]) -> Iterator[tuple[str, int, PageNote]]:
    for reading in readings:
        for note in reading.notes:
            if note.problem:
                yield reading.document_id, reading.number, note


def _alike(note: PageNote) -> tuple[object, ...]:
    """What two notes share that can be told in one sentence: all but their numbers."""
    words = ((name, value) for name, value in note.values.items() if _is_word(value))
    return note.kind, *sorted(words, key=lambda word: word[0])


def _is_word(value: Plain) -> bool:
    return not isinstance(value, int | float)


def _merged(notes: list[PageNote]) -> PageNote:
    """One note for several pages: counts are added up, of all else the least is told."""
    values: dict[str, Plain] = dict(notes[0].values)
    for name, value in values.items():
        if not _is_word(value):
            numbers = [
                number
                for note in notes
                if isinstance(number := note.values.get(name, value), int | float)
            ]
            values[name] = sum(numbers) if name == "count" else min(numbers)
    return PageNote(notes[0].kind, values)
