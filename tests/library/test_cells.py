"""Cells of tables: kept by document and question, and gone with the document."""

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
from localrag.library.transfer import export_library

ELM = document("The harbour of Elm was dug in 1732.", source="/elm.txt")
TEA = document("云溪茶园在三月采摘春茶。", source="/tea.txt")


@pytest.fixture
def library(where: Where) -> Iterator[Library]:
    with open_library(where("library")) as new_library:
        add(new_library, ELM)
        add(new_library, TEA)
        yield new_library


def test_a_cell_is_found_by_document_and_key_and_replaced(library: Library) -> None:
    library.keep_cells({(ELM.id, "k"): "older", (TEA.id, "k"): "tea", (ELM.id, "other"): "x"})
    library.keep_cells({(ELM.id, "k"): "newer"})
    assert library.kept_cells([ELM.id, TEA.id], ["k"]) == {
        (ELM.id, "k"): "newer",
        (TEA.id, "k"): "tea",
    }
    assert library.kept_cells([TEA.id], ["k", "other"]) == {(TEA.id, "k"): "tea"}


def test_a_cell_of_a_document_that_has_gone_is_not_kept(library: Library) -> None:
    library.remove(documents=[ELM.id])
    library.keep_cells({(ELM.id, "k"): "LATEx"})
    assert library.kept_cells([ELM.id], ["k"]) == {}
    assert b"LATEx" not in bytes_on_disk(library.directory)


@pytest.mark.parametrize("how", ["source", "document", "newer version", "read anew"])
def test_cells_go_with_their_document_to_the_last_byte(library: Library, how: str) -> None:
    library.keep_cells({(ELM.id, "k"): "GOESx", (TEA.id, "k"): "STAYSx"})
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
    assert library.kept_cells([ELM.id, TEA.id], ["k"]) == {(TEA.id, "k"): "STAYSx"}
    content = bytes_on_disk(library.directory)
    assert b"GOESx" not in content
    assert (b"STAYSx" in content) == isinstance(library.location, Path)


def test_cells_are_no_part_of_an_export(library: Library, tmp_path: Path) -> None:
    library.keep_cells({(ELM.id, "k"): "PRIVATEx"})
    library.sync()
    assert check_library(library.location, indexes()).findings == []
    export_library(library.location, tmp_path / "x.zip", "0")
    with zipfile.ZipFile(tmp_path / "x.zip") as archive:
        assert all(b"PRIVATEx" not in archive.read(name) for name in archive.namelist())
