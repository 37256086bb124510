"""Kept answers: only where somebody wants them, and no longer than what they were written from."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from library_fixtures import EMBEDDER, Where, add, bytes_on_disk, document, indexes, open_library

from localrag.documents.chunking import WindowChunker, passage_text
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.library.records import NewDocument
from localrag.library.transfer import export_library, import_library
from localrag.types import Document

ELM = document("The harbour of Elm was dug in 1732.", source="/elm.txt")
TEA = document("云溪茶园在三月采摘春茶。", source="/tea.txt")


@pytest.fixture
def library(where: Where) -> Iterator[Library]:
    with open_library(where("library")) as new_library:
        add(new_library, ELM)
        add(new_library, TEA)
        new_library.keep_history(on=True)
        yield new_library


def keep(library: Library, talk: str, text: str, *of: Document, after: int = 0) -> bool:
    ids = [original.id for original in of]
    return library.keep_answer(talk, f"question {text}", f'"answer {text}"', ids, after=after)


def kept(library: Library) -> dict[str, list[str]]:
    return {
        conversation.key: [answer.record for answer in library.kept_answers(conversation.key)]
        for conversation in library.conversations()
    }


def test_nothing_is_kept_until_somebody_wants_it(tmp_path: Path) -> None:
    with open_library(tmp_path) as library:
        add(library, ELM)
        assert not library.keeps_history
        assert not keep(library, "a", "unwanted", ELM)
        assert b"unwanted" not in bytes_on_disk(tmp_path)
        library.keep_history(on=True)
        assert keep(library, "a", "wanted", ELM)
        library.keep_history(on=False)
        assert not keep(library, "a", "unwanted", ELM, after=1)
        assert kept(library) == {"a": ['"answer wanted"']}


def test_conversations_are_listed_by_their_first_question_the_newest_first(
    library: Library,
) -> None:
    assert keep(library, "a", "one", ELM)
    assert keep(library, "b", "two" * 200, TEA)
    assert keep(library, "a", "three", after=1)
    first, second = library.conversations()
    assert (first.key, first.title, first.answers) == ("a", "question one", 2)
    assert (second.key, len(second.title)) == ("b", 300)
    assert [answer.question for answer in library.kept_answers("a")] == [
        "question one",
        "question three",
    ]
    assert library.kept_answers("nothing") == []


def test_an_answer_whose_ground_is_gone_is_not_kept(library: Library) -> None:
    assert keep(library, "a", "one", ELM)
    library.remove(sources=["/elm.txt"])  # while the next one was being written
    assert not keep(library, "a", "two", TEA, after=1)
    assert not keep(library, "b", "three", TEA, ELM)
    assert kept(library) == {}


@pytest.mark.parametrize("how", ["source", "document", "newer version", "read anew"])
def test_answers_go_with_their_document_to_the_last_byte(library: Library, how: str) -> None:
    assert keep(library, "a", "STAYSx", TEA)
    assert keep(library, "a", "GOESx", TEA, ELM, after=1)
    assert keep(library, "a", "AFTERx", TEA, after=2)
    assert keep(library, "b", "OTHERx", TEA)
    if how == "source":
        assert library.remove(sources=["/elm.txt"]).purged
    elif how == "document":
        assert library.remove(documents=[ELM.id]).purged
    elif how == "newer version":
        add(library, document("The harbour was filled in.", source="/elm.txt"))
        library.purge_if_due()
    else:
        chunks = WindowChunker(20, 0).chunk(ELM)
        vectors = EMBEDDER.embed_documents([passage_text(chunk) for chunk in chunks])
        library.replace([NewDocument(ELM, [], 30, "en", "window 20", chunks, vectors)])
        library.purge_if_due()
    assert kept(library) == {"b": ['"answer OTHERx"'], "a": ['"answer STAYSx"']}
    content = bytes_on_disk(library.directory)
    # Beside a database lies what is derived alone.
    assert (b"STAYSx" in content) == isinstance(library.location, Path)
    for trace in (b"GOESx", b"AFTERx"):
        assert trace not in content


def test_what_is_deleted_leaves_no_byte(library: Library) -> None:
    assert keep(library, "a", "FIRSTx", ELM)
    assert keep(library, "b", "SECONDx")
    assert library.forget_conversations("a")
    assert b"FIRSTx" not in bytes_on_disk(library.directory)
    assert library.forget_conversations()
    assert b"SECONDx" not in bytes_on_disk(library.directory)
    assert library.conversations() == []
    assert library.keeps_history


def test_it_is_no_part_of_an_export(library: Library, tmp_path: Path) -> None:
    assert keep(library, "a", "PRIVATEx", ELM)
    library.sync()
    assert check_library(library.location, indexes()).findings == []
    export_library(library.location, tmp_path / "x.zip", "0")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert b"PRIVATEx" not in archive.read("catalogue.sqlite")
    import_library(tmp_path / "x.zip", tmp_path / "there", indexes=indexes(), describe=str)
    with open_library(tmp_path / "there") as copy:
        assert not copy.keeps_history
        assert copy.conversations() == []
        assert copy.counts().documents == 2
    assert library.keeps_history
