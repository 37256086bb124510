"""A format is one entry in one table: what it takes to add one."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from fakes import HashEmbedder
from library.library_fixtures import EMBEDDING, open_library

from localrag.config.settings import ParsingSettings
from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file, walk
from localrag.documents.formats import table
from localrag.documents.formats.table import FileFormat
from localrag.documents.worker import PROGRAM, ParsingProcess
from localrag.errors import CorruptFileError, EmptyFileError, ParsingError
from localrag.indexing.indexer import Indexer
from localrag.library.catalogue.filters import Filter

READER = '''
from localrag.documents.lines import Line, build, empty

def read(file):
    """A shopping list: a magic word and a title, then pages with an item a line."""
    head, *pages = file.data.decode().split("\\f")
    if not pages:
        raise empty(file.source)
    lines = []
    for page in pages:
        lines.append([Line("buy " + item) for item in page.split()])
        file.page_done()
    return build(file, lines, head.removeprefix("BUY "))
'''
ENTRY = FileFormat("shopping", (".buy",), "shopping_reader", re.compile(rb"BUY "))
"""The one line of code that a format takes outside of its module."""

IN_THE_OTHER_PROCESS = """
import re, sys
sys.path.insert(0, {folder!r})
import shopping_reader  # before the process may read no more files
from localrag.documents.formats import table
from localrag.documents.formats.table import FileFormat, Limits
table.FORMATS += ({entry!r},)
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with shopping lists, which can be read in this process."""
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "shopping_reader.py").write_text(READER)
    monkeypatch.syspath_prepend(tmp_path / "code")
    monkeypatch.setattr(table, "FORMATS", (*table.FORMATS, ENTRY))
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "week.buy").write_bytes(b"BUY for the week\fplums lamp\fnails")
    (folder / "none.buy").write_bytes(b"BUY nothing")
    (folder / "week.sell").write_bytes(b"BUY for the week\fplums")
    (folder / "disguised.txt").write_bytes(b"BUY for the week\fplums")
    return folder


def test_an_added_format_is_walked_recognised_read_elsewhere_and_found(
    files: Path, tmp_path: Path
) -> None:
    assert len(READER.strip().splitlines()) <= 20
    skipped: list[ParsingError] = []
    names = [path.name for path in walk([files], skipped)]
    assert names == ["disguised.txt", "none.buy", "week.buy"]
    assert [error.values["source"] for error in skipped] == [str(files / "week.sell")]
    assert "week.sell" in str(skipped[0])

    program = IN_THE_OTHER_PROCESS.format(folder=str(tmp_path / "code"), entry=ENTRY)
    process = ParsingProcess(program=program + PROGRAM)
    library = open_library(tmp_path / "library")
    indexer = Indexer(
        library,
        chunker=WindowChunker(40, 0),
        chunking="window",
        embedder=HashEmbedder(),
        embedding=EMBEDDING,
        detect_language=lambda _: "en",
        parse=process,
    )
    try:
        report = indexer.add([files])
        assert {Path(failure.source).name: type(failure.error) for failure in report.failed} == {
            "disguised.txt": CorruptFileError,
            "none.buy": EmptyFileError,
        }
        assert "but its content is SHOPPING" in str(report.failed[0].error)
        assert [Path(file.source).name for file in report.committed] == ["week.buy"]
        hits = library.keywords.search(["nails"], 9)
        chunk = library.chunks(hit.chunk_id for hit in hits)[hits[0].chunk_id]
        assert (chunk.text, chunk.last_page) == ("buy plums\nbuy lamp\nbuy nails", 2)
        assert library.chunk_ids(Filter(types=("shopping",)))
    finally:
        process.close()
        library.close()


def test_a_signature_is_its_own_formats(files: Path) -> None:
    assert parse_file(files / "week.buy").title == "for the week"
    with pytest.raises(CorruptFileError, match="SHOPPING"):
        parse_file(files / "disguised.txt")


def test_a_format_brings_its_own_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    text = table.format_of(Path("a.txt"))
    assert text is not None
    hasty = replace(text, limits=table.Limits(longest=0.0))
    monkeypatch.setattr(table, "FORMATS", (hasty,))
    process = ParsingProcess(program="import time; time.sleep(600)\n" + PROGRAM)
    with pytest.raises(ParsingError, match=r"Gave up on .*a\.txt"):
        process(Path("a.txt"), b"text")
    process.close()


def test_what_can_be_set_about_reading_reaches_the_readers() -> None:
    assert set(ParsingSettings.__struct_fields__) == {
        field.name for field in fields(table.ParseOptions)
    }


def test_errors_of_readers_keep_their_class_and_the_kinds_of_their_values() -> None:
    program = (
        "from localrag.documents import files, worker\n"
        "from localrag.errors import CorruptFileError\n"
        "def refuse(*_, **__):\n"
        "    raise CorruptFileError('{source}: {size:.1f} MB', hint='', source='a', size=1.25)\n"
        "files.parse_file = refuse\nworker.main()\n"
    )
    process = ParsingProcess(program=program)
    with pytest.raises(CorruptFileError, match=r"a: 1\.2 MB"):
        process(Path("a.txt"), b"text")
    process.close()
