"""Tables that are kept by a name: what they hold, what goes, and where they do not go along."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from library_fixtures import Where, add, bytes_on_disk, document, indexes, open_library

from localrag.errors import UsageError
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.library.transfer import export_library
from localrag.tables.documents import select
from localrag.tables.records import Column, SavedTable, column_of
from localrag.tables.saved import forget_table, save_table, saved_table, saved_tables

ELM = document("The harbour of Elm was dug in 1732.", source="/ports/elm.txt")
OAK = document("The harbour of Oak was dug in 1740.", source="/ports/oak.txt")
COLUMNS = (Column("When?", "date"), Column("Which?", "one of", ("HOLLYx", "b")))


@pytest.fixture
def library(where: Where) -> Iterator[Library]:
    with open_library(where("library")) as new_library:
        add(new_library, ELM)
        add(new_library, OAK)
        yield new_library


def test_a_table_comes_back_as_it_was_saved_and_is_replaced(library: Library) -> None:
    harbour_table = SavedTable("Häfen", ("ports", "*.txt"), COLUMNS, "harbour", ("text",))
    save_table(library, harbour_table)
    assert saved_table(library, "Häfen") == harbour_table
    newer = SavedTable("Häfen", (), COLUMNS[:1])
    save_table(library, newer)
    save_table(library, SavedTable("a", (), COLUMNS))
    save_table(library, SavedTable("b", (), COLUMNS))
    names = [table.name for table in saved_tables(library)]
    assert sorted(names) == ["Häfen", "a", "b"]  # where ä stands, the database knows
    assert names.index("a") < names.index("b")
    assert saved_table(library, "Häfen") == newer


def test_a_table_that_is_forgotten_leaves_nothing(library: Library) -> None:
    save_table(library, SavedTable("x", ("PATTERNx",), COLUMNS))
    forget_table(library, "x")
    with pytest.raises(UsageError, match="no saved table x"):
        saved_table(library, "x")
    with pytest.raises(UsageError, match="no saved table x"):
        forget_table(library, "x")
    content = bytes_on_disk(library.directory)
    assert b"HOLLYx" not in content
    assert b"PATTERNx" not in content


@pytest.mark.parametrize("how", ["source", "document", "gone"])
def test_the_name_of_a_file_goes_with_it(library: Library, how: str) -> None:
    save_table(library, SavedTable("elm", ("ports/elm.txt",), COLUMNS))
    save_table(library, SavedTable("both", ("elm.txt", "oak.txt"), COLUMNS))
    save_table(library, SavedTable("folder", ("ports", "*/elm*"), COLUMNS))
    save_table(library, SavedTable("all", (), COLUMNS))
    if how == "source":
        library.remove(sources=["/ports/elm.txt"])
    elif how == "document":
        library.remove(documents=[ELM.id])
    else:
        library.add([], gone=["/ports/elm.txt"])
        library.purge_if_due()
    tables = {table.name: table.patterns for table in saved_tables(library)}
    assert tables == {"both": ("oak.txt",), "folder": ("ports", "*/elm*"), "all": ()}
    forget_table(library, "folder")  # which names no file alone
    assert b"elm.txt" not in bytes_on_disk(library.directory)


def test_a_name_that_another_file_has_stays(library: Library) -> None:
    add(library, document("A list of elms.", source="/trees/elm.txt"))
    save_table(library, SavedTable("elm", ("elm.txt", "ports/elm.txt"), COLUMNS))
    library.remove(sources=["/ports/elm.txt"])
    assert saved_table(library, "elm").patterns == ("elm.txt",)


def test_saved_tables_are_no_part_of_an_export(library: Library, tmp_path: Path) -> None:
    save_table(library, SavedTable("PRIVATEx", ("ports",), COLUMNS))
    library.sync()
    assert check_library(library.location, indexes()).findings == []
    export_library(library.location, tmp_path / "x.zip", "0")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        for name in archive.namelist():
            assert b"PRIVATEx" not in archive.read(name)
            assert b"HOLLYx" not in archive.read(name)


@pytest.mark.parametrize("name", ["", "  ", "x" * 101, "a\nb", "\x1b[2J"])
def test_names_that_cannot_be_shown_are_refused(library: Library, name: str) -> None:
    with pytest.raises(UsageError, match="cannot be saved as"):
        save_table(library, SavedTable(name, (), COLUMNS))


@pytest.mark.parametrize(
    ("given", "column"),
    [
        ("When does it end?", Column("When does it end?")),
        ("Date: When does it end?", Column("When does it end?", "date")),
        ("money：多少钱？", Column("多少钱？", "money")),
        ("monthly | yearly: How often?", Column("How often?", "one of", ("monthly", "yearly"))),
        ("按月｜按年：多久：付一次？", Column("多久：付一次？", "one of", ("按月", "按年"))),
        ("What is 3:1?", Column("What is 3:1?")),
        ("one of: what?", Column("one of: what?")),
    ],
)
def test_a_column_is_read_as_it_is_typed(given: str, column: Column) -> None:
    assert column_of(given) == column


@pytest.mark.parametrize("pattern", ["./ports/elm.txt", "ports/elm.txt/", "ports\\elm.txt"])
def test_the_name_of_a_file_goes_however_it_was_written(library: Library, pattern: str) -> None:
    assert select(library, [pattern]).documents
    save_table(library, SavedTable("elm", (pattern,), COLUMNS))
    library.remove(sources=["/ports/elm.txt"])
    assert saved_tables(library) == []


@pytest.mark.parametrize("name", ["What is HOLLYx?.txt", "*HOLLYx*.txt", "[HOLLYx].txt"])
def test_a_name_with_signs_of_a_pattern_goes_with_its_file(library: Library, name: str) -> None:
    add(library, document("A list of hollies.", source=f"/trees/{name}"))
    patterns = (name, f"trees/{name}", f"/trees/{name}", "*.txt", "trees?*")
    save_table(library, SavedTable("holly", patterns, COLUMNS[:1]))
    save_table(library, SavedTable("name", (name,), COLUMNS[:1]))
    library.remove(sources=["/ports/elm.txt"])
    assert saved_table(library, "holly").patterns == patterns
    library.remove(sources=[f"/trees/{name}"])
    assert [(table.name, table.patterns) for table in saved_tables(library)] == [
        ("holly", ("*.txt", "trees?*"))
    ]
    assert b"HOLLYx" not in bytes_on_disk(library.directory)


def test_files_of_a_kind_that_are_forgotten_take_no_pattern_along(library: Library) -> None:
    patterns = ("*.txt", "ports/*.txt", "*")
    save_table(library, SavedTable("all", patterns, COLUMNS))
    library.remove(unread=["/ports/*.txt", "/ports/*"])
    assert saved_table(library, "all").patterns == patterns
