"""What a library says of pages and files that were not read well, also where it is hostile."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from library_fixtures import add, document, open_library

from localrag.errors import ParsingError, parsing_error
from localrag.library.records import FileState, UnreadFile
from localrag.types import Page, PageNote


def noted(*notes: tuple[PageNote, ...]) -> tuple[Page, ...]:
    return tuple(
        Page(number, f"page {number}", notes=page_notes)
        for number, page_notes in enumerate(notes, start=1)
    )


def test_pages_with_the_same_to_say_are_one_problem(tmp_path: Path) -> None:
    blank, turned = PageNote("no text"), PageNote("turned", {"degrees": 90})
    pages = noted(
        (blank,),
        (turned,),
        (blank, PageNote("doubtful", {"confidence": 0.7})),
        (PageNote("left out", {"what": "charts", "count": 2}),),
        (PageNote("left out", {"what": "charts", "count": 1}),),
        (PageNote("left out", {"what": "pictures", "count": 1}),),
        (PageNote("doubtful", {"confidence": 0.5}),),
    )
    with open_library(tmp_path) as library:
        add(library, replace(document("words"), pages=pages))
        problems = [(problem.pages, problem.note) for problem in library.problems()]
    assert problems == [
        ((1, 3), blank),
        ((3, 7), PageNote("doubtful", {"confidence": 0.5})),
        ((4, 5), PageNote("left out", {"what": "charts", "count": 3})),
        ((6,), PageNote("left out", {"what": "pictures", "count": 1})),
    ]


def test_a_file_without_pages_has_none_in_its_problem(tmp_path: Path) -> None:
    pages = noted((PageNote("cut short", {"limit": 9}),))
    with open_library(tmp_path) as library:
        add(library, replace(document("words"), pages=pages, unit="text"))
        assert [problem.pages for problem in library.problems()] == [()]


def test_what_older_versions_wrote_into_the_metadata_are_notes(tmp_path: Path) -> None:
    older = {"pages_without_text": "1, 2", "hidden_text_pages": "2", "damaged_pages": "\x1b7 no"}
    with open_library(tmp_path) as library:
        older_document = replace(document("words", "more"), metadata=older)
        add(library, older_document)
        problems = [(problem.pages, problem.note) for problem in library.problems()]
        record = library.document(older_document.id)
    assert problems == [
        ((1, 2), PageNote("no text")),
        ((2,), PageNote("hidden text")),
        ((7,), PageNote("damaged")),
    ]
    assert record is not None
    assert [[note.kind for note in page.notes] for page in record.pages] == [
        ["no text"],
        ["no text", "hidden text"],
    ]


def unread(path: str, message: str, **values: object) -> UnreadFile:
    return UnreadFile(FileState(path, 1, 2, 3), ParsingError(message, **values), 1)


def test_errors_come_back_as_they_were(tmp_path: Path) -> None:
    errors = [
        unread("/a.pdf", "{source}: {reason}", source="/a.pdf", reason="why", count=3, share=0.5),
        unread("/b.pdf", "{source}", source="/caf\udce9.pdf"),
    ]
    with open_library(tmp_path) as library:
        library.set_unread(errors)
        first, second = library.unread()
    assert first.state == errors[0].state
    assert (first.reader, str(first.error)) == (1, "/a.pdf: why")
    assert first.error.values == errors[0].error.values
    assert str(second.error) == r"/caf\xe9.pdf" or "\\udce9" in str(second.error)


@pytest.mark.parametrize(
    ("message", "values"),
    [
        ("{a:999999999999}", {"a": 1}),
        ("{a.__class__.__init__}", {"a": 1}),
        ("{a[0]}", {"a": "x"}),
        ("{missing}", {}),
        ("{", {}),
        ("{0}", {}),
        ("x" * 70_000, {}),
        ("{a}", {"a": float("nan"), "b": 10**30, "c": True}),
        ("{a}", {"a": "x" * 10**6}),
        ("{a}", {f"n{n}": "x" * 4000 for n in range(50)} | {"a": 1}),
    ],
)
def test_an_error_that_is_no_template_of_ours_is_kept_harmlessly(
    tmp_path: Path, message: str, values: dict[str, object]
) -> None:
    """The process that reads a hostile file may say anything."""
    with open_library(tmp_path) as library:
        error = ParsingError(message)
        error.values = values
        try:
            library.set_unread([UnreadFile(FileState("/a.pdf", 1, 2, 3), error, 1)])
        except (KeyError, ValueError, IndexError):
            pytest.fail("it must be kept")
        (source,) = library.unread()
        assert len(str(source.error)) < 100_000


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("message", "{source:999999999999}"),
        ("message", "{source.__class__}"),
        ("message", "{nothing}"),
        ("message", "x" * 100_000),
        ("hint", "{"),
        ('"values"', "no JSON"),
        ('"values"', json.dumps(["a"])),
        ('"values"', json.dumps({"source": {"a": 1}})),
        ('"values"', "[" * 100_000),
        ("kind", "LocalragError"),
        ("kind", "os.system"),
    ],
)
def test_a_hostile_catalogue_says_nothing_but_an_error_of_ours(
    tmp_path: Path, column: str, value: str
) -> None:
    with open_library(tmp_path) as library:
        library.set_unread([unread("/a.pdf", "{source} is bad.", source="/a.pdf")])
    with closing(sqlite3.connect(tmp_path / "catalogue.sqlite", isolation_level=None)) as sql:
        sql.execute(f"UPDATE unread SET {column} = ?", (value,))
    with open_library(tmp_path) as library:
        (source,) = library.unread()
    assert type(source.error) is ParsingError
    if column == "kind":
        assert str(source.error) == "/a.pdf is bad."
    else:
        assert (source.reader, str(source.error)) == (
            0,
            "/a.pdf cannot be read: the entry in the library is damaged.",
        )


def test_only_plain_fields_make_an_error() -> None:
    assert str(parsing_error("EmptyFileError", "{a}!", "", {"a": 1})) == "1!"
    assert str(parsing_error("", "{a:.1f} {hint}", "", {"a": 1.25, "hint": "b"})) == "1.2 b"
    for values in ({"a": "x"}, {"b": 1.0}):
        with pytest.raises(ValueError, match="not a template"):
            parsing_error("", "{a:.1f}", "", values)
    assert type(parsing_error("EmptyFileError", "", "", {})).__name__ == "EmptyFileError"
    for name in ("UsageError", "Exception", "string", "parsing_error", ""):
        assert type(parsing_error(name, "", "", {})) is ParsingError
