from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import (
    EMBEDDER,
    EMBEDDING,
    Where,
    Words,
    add,
    bytes_on_disk,
    document,
    found,
    indexes,
)
from library_fixtures import open_library as opened

from localrag.documents.chunking import WindowChunker
from localrag.errors import (
    LibraryDamagedError,
    LibraryError,
    LibraryMismatchError,
    LibraryNotFoundError,
    UsageError,
)
from localrag.library import derived
from localrag.library.catalogue.guarded import log_of
from localrag.library.catalogue.reads import Snapshot
from localrag.library.check import check_library
from localrag.library.indexes.comparison import compared
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import EmbeddingIdentity, FileState, NewDocument
from localrag.library.transfer import export_library
from localrag.types import Chunk, Document, Heading, Hit, Page, Place

TEXTS = {
    "ships.txt": "the old harbour holds many ships and one lighthouse by the sea",
    "tea.txt": "green tea is picked in spring and dried over a slow fire",
    "stars.txt": "a telescope gathers light of distant stars and planets",
    "zh.txt": "茶 在 春天 采摘 然后 慢火 烘干 味道 清香",
}


def filled(directory: Location, *, leave_out: str = "", **changes: object) -> Library:
    library = opened(directory, **changes)
    for name, text in TEXTS.items():
        if name != leave_out:
            add(library, document(text, source=name))
    return library


@pytest.mark.parametrize("engine", ["inverted-index", "rank-bm25"])
def test_what_was_added_is_found_now_and_after_reopening(where: Where, engine: str) -> None:
    with filled(where(), keyword_engine=engine) as library:
        first = found(library, "green tea")
        dense, keyword = first
        assert len(dense) == library.counts().chunks
        assert library.chunks([keyword[0][0]])[keyword[0][0]].text.startswith("green tea")
    with opened(where(), create=False, keyword_engine=engine) as library:
        assert found(library, "green tea") == first


def test_titles_are_found_whatever_their_case_in_any_script(where: Where) -> None:
    names = ("ÄRZTE.txt", "Ёлка.txt", "elm.txt", "ärzte 2.txt", "报告.txt")

    def titles(words: str, most: int = 5, **more: Any) -> list[str]:
        entries, _ = library.listed(most, words=words, **more)
        return [entry.title for entry in entries]

    with opened(where()) as library:
        for name in names:
            add(library, document(f"of {name}", source=name))
        assert titles("ärzte") == titles("Ärzte") == ["ärzte 2.txt", "ÄRZTE.txt"]
        assert titles("ёлКА") == ["Ёлка.txt"]
        assert titles("报告") == ["报告.txt"]
        assert titles("ELM", paths=["Ёлка.txt"]) == ["elm.txt", "Ёлка.txt"]
        assert titles("") == list(reversed(names))
        (first,), following = library.listed(1, words="ÄRZTE")
        assert first.title == "ärzte 2.txt"
        assert following is not None
        assert titles("ÄRZTE", before=following) == ["ÄRZTE.txt"]


def test_text_pages_and_spans_come_back_exactly(where: Where) -> None:
    long_page = "".join(chr(0x4E00 + n % 5000) for n in range(40_000))
    original = Document(
        "ab" * 32,
        "book.pdf",
        "书",
        (Page(3, "first 𠀀 page"), Page(4, ""), Page(7, long_page), Page(8, "bell \a end")),
        (Heading(0, 1, "first"), Heading(15, 2, "第二")),
        {"author": "某人"},
    )
    with opened(where()) as library:
        add(library, original, size=1000)
        assert library.document(original.id) == original
        start = 0
        for page in original.pages:
            for offset in {start, start + len(page.text) // 2, start + len(page.text)}:
                assert library.place(original.id, offset) == Place(offset, number=page.number)
            start += len(page.text) + 1
        for start, end in ((0, 5), (16_380, 16_390), (16_384, 32_768), (100, 40_010), (3, 3)):
            assert library.text(original.id, start, end) == original.text[start:end]
        chunks = WindowChunker(1000, 0).chunk(original)
        assert library.document_chunks(original.id) == chunks
        assert list(library.chunks([c.id for c in reversed(chunks)]).values()) == chunks[::-1]
        record = library.document_record(original.id)
        assert record is not None
        assert (record.title, record.sources, record.pages) == ("书", ("book.pdf",), 4)
        assert (record.language, record.metadata, record.chunks) == (
            "en",
            original.metadata,
            len(chunks),
        )


def test_unknown_ids_are_left_out(where: Where) -> None:
    with filled(where()) as library:
        assert library.chunks([1, 2]) == {}
        assert library.document("x") is None
        assert library.text("x", 0, 5) == ""
        assert library.sources_of(["x"]) == {}


def test_same_bytes_under_two_names_are_stored_once(where: Where) -> None:
    with opened(where()) as library:
        original = document("the same words in both files")
        add(library, original, "a.txt")
        add(library, original, "b.txt")
        assert library.counts().documents == 1
        assert library.sources_of([original.id]) == {original.id: "a.txt"}
        assert library.remove(sources=["a.txt"]).documents == ()
        assert found(library, "words")[1]
        assert library.remove(sources=["b.txt"]).documents == (original.id,)
        assert found(library, "words") == ([], [])


def test_changed_file_replaces_its_old_version(where: Where) -> None:
    with opened(where()) as library:
        add(library, document("the first version says apple"), "a.txt")
        assert found(library, "apple")[1]
        add(library, document("the second version says pear"), "a.txt")
        assert library.counts().documents == 1
        assert found(library, "apple")[1] == []
        assert found(library, "pear")[1]
        assert len(found(library, "pear")[0]) == 1


@pytest.mark.parametrize("engine", ["inverted-index", "rank-bm25"])
def test_after_removal_answers_are_those_of_never_having_added_it(
    where: Where, engine: str
) -> None:
    with (
        filled(where("one"), keyword_engine=engine) as library,
        filled(where("other"), leave_out="tea.txt", keyword_engine=engine) as never,
    ):
        found(library, "tea")  # the indexes have seen it
        removal = library.remove(sources=["tea.txt"])
        assert removal.chunks == 2
        assert removal.purged
        for question in ("green tea in spring", "the stars and the sea", "茶 味道"):
            assert found(library, question) == found(never, question)
        assert found(library, "the stars and the sea") != ([], [])


def test_nothing_of_a_removed_document_stays_on_disk(tmp_path: Path) -> None:
    secret = "unmistakablesecret " * 600
    with filled(tmp_path) as library:
        add(library, document(secret, source="/home/someone/secretname.txt"), size=900)
        library.sync()
        assert b"unmistakablesecret" in bytes_on_disk(tmp_path)
        assert library.remove(documents=[document(secret).id]).purged
        content = bytes_on_disk(tmp_path)
        assert b"unmistakablesecret" not in content
        assert b"secretname" not in content
        vectors = EMBEDDER.embed_documents([secret[:900]]).astype("<f2")
        assert vectors.tobytes()[:32] not in content


def test_space_of_a_removed_document_is_given_back(tmp_path: Path) -> None:
    with filled(tmp_path) as library:
        library.purge()
        before = (tmp_path / "catalogue.sqlite").stat().st_size
        add(library, document("long " * 100_000, source="long.txt"), size=10_000)
        library.remove(sources=["long.txt"])
        assert (tmp_path / "catalogue.sqlite").stat().st_size <= before + 8192


def test_removing_something_unknown_removes_nothing(where: Where) -> None:
    with filled(where()) as library:
        with pytest.raises(UsageError, match=r"nowhere.txt is not in the library"):
            library.remove(sources=["tea.txt", "nowhere.txt"])
        assert library.counts().documents == 4


def test_half_added_document_is_not_there(where: Where) -> None:
    with opened(where()) as library:
        texts = ["short", "twelve words that are cut into several chunks of forty code points each"]
        new = [
            NewDocument(
                document=document(text),
                states=[FileState(text, 1, 1, 1)],
                size=1,
                language="en",
                chunking="",
                chunks=WindowChunker(40, 0).chunk(document(text)),
                vectors=np.zeros((1, 64), dtype=np.float32),
            )
            for text in texts
        ]
        with pytest.raises(ValueError, match="zip"):
            library.add(new)
        assert library.counts().documents == library.counts().chunks == 0
        assert library.status().generation == 0


def test_indexes_that_are_behind_catch_up_and_cut_only_what_is_new(where: Where) -> None:
    words = Words()
    with filled(where(), tokenize=words) as library:
        library.sync()
        cut = words.calls
        counts = library.counts()
        assert cut == counts.chunks + counts.documents  # each with its card
        add(library, document("one more", source="more.txt"))
        library.sync()
        assert words.calls == cut + 2
        assert all(part.behind == 0 for part in library.status().derived)


def test_reader_sees_what_a_writer_commits_without_reopening(where: Where) -> None:
    with filled(where()) as writer, opened(where(), create=False) as reader:
        assert found(reader, "zebra")[1] == []
        with writer.writing():  # the reader cannot save what it catches up
            add(writer, document("a zebra arrives", source="z.txt"))
            from_thread: list[object] = []

            def read() -> None:
                from_thread.append(found(reader, "zebra"))

            thread = threading.Thread(target=read)
            thread.start()
            thread.join()
            assert from_thread == [found(writer, "zebra")]
            writer.remove(sources=["z.txt"])
        assert found(reader, "zebra")[1] == []


def test_what_goes_during_a_search_leaves_no_gap(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates are named first and their vectors looked up then."""
    with filled(where()) as library:
        query_vector = EMBEDDER.embed_queries(["green tea"])[0]
        before = library.vectors.search(query_vector, 3)
        best = library.chunks([before[0].chunk_id])[before[0].chunk_id]
        candidates = FaissVectors.candidates

        def gone_meanwhile(index: FaissVectors, query: Any, k: int, allowed: Any = None) -> Any:
            ids = candidates(index, query, k, allowed)
            if library.has_document(best.document_id):
                library.remove(documents=[best.document_id])
            return ids

        monkeypatch.setattr(FaissVectors, "candidates", gone_meanwhile)
        hits = library.vectors.search(query_vector, 3)
        monkeypatch.undo()
        assert hits == library.vectors.search(query_vector, 3)
        assert len(hits) == 3
        assert best.id not in {hit.chunk_id for hit in hits}


def test_vectors_of_another_model_are_never_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where it is changed between the index and the catalogue: the ids can be the same."""
    with filled(tmp_path) as library, opened(tmp_path, create=False, embedding=None) as other:
        query_vector = EMBEDDER.embed_queries(["green tea"])[0]
        library.vectors.current()
        candidates = FaissVectors.candidates

        def changed_meanwhile(index: FaissVectors, query: Any, k: int, allowed: Any = None) -> Any:
            ids = candidates(index, query, k, allowed)
            other.begin_rebuild("another")
            for entry in other.documents():
                chunks = other.document_chunks(entry.id)
                other.stage([(entry.id, chunks, np.eye(len(chunks), 96, dtype=np.float32))])
            other.finish_rebuild(EmbeddingIdentity("wide", "wide", 96), "window")
            return ids

        monkeypatch.setattr(FaissVectors, "candidates", changed_meanwhile)
        with pytest.raises(LibraryMismatchError):
            library.vectors.search(query_vector, 3)


def test_vectors_are_looked_up_by_id(where: Where) -> None:
    with filled(where()) as library, library._catalogue.read() as snapshot:
        vectors_by_id = dict(snapshot.embeddings_since(-1))
        ids = np.array(sorted([*vectors_by_id, 5, (1 << 63) - 1]), dtype=np.int64)
        numbers, vectors = snapshot.vectors_by_id(ids)
        assert numbers.tolist() == sorted(vectors_by_id)
        assert vectors.dtype == np.float16
        for number, vector in zip(numbers.tolist(), vectors, strict=True):
            assert np.array_equal(vector, vectors_by_id[number])
        none, empty = snapshot.vectors_by_id(ids[:0])
        assert (len(none), empty.shape) == (0, (0, EMBEDDER.dimension))


def searched_three_times(library: Library) -> list[Hit]:
    """As a search asks, and without its transaction; all three find the same, to the digit."""
    query = EMBEDDER.embed_queries(["green tea"])[0]
    hits = []
    for _ in range(2):
        with library.one_state():
            library.vectors.current()
            library.keywords.current()
            legs = library.legs_at_hand()
            assert legs is not None
            hits.append(legs.vectors.search(query, 5))
    hits.append(library.vectors.search(query, 5))
    assert hits[0] == hits[1] == hits[2]
    return hits[0]


def test_vectors_of_a_small_library_are_read_once(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = EMBEDDER.embed_queries(["green tea"])[0]
    with filled(where()) as library:
        first = library.vectors.search(query, 5)
        assert library.vectors._all is None, "a process that searches once reads no more than that"
        assert searched_three_times(library) == first
        subset = np.array(sorted(hit.chunk_id for hit in first[1:4]), dtype=np.int64)
        with library._catalogue.read() as snapshot:
            expected = compared(*snapshot.vectors_by_id(subset), query, 5)
        monkeypatch.setattr(Snapshot, "vectors_by_id", None)  # as nothing is looked up from here
        monkeypatch.setattr(Snapshot, "all_vectors", None)
        assert searched_three_times(library) == first
        assert library.vectors.search(query, 5, subset) == expected
        assert (
            library.vectors.search(query, 0) == library.vectors.search(query, 5, subset[:0]) == []
        )


def test_no_vector_of_what_was_removed_is_kept(where: Where) -> None:
    with filled(where()) as library, opened(where(), create=False) as other:
        searched_three_times(library)
        assert library.vectors._all is not None
        best = library.chunks([hit.chunk_id for hit in searched_three_times(library)])
        library.remove(documents=[next(iter(best.values())).document_id])
        assert library.vectors._all is None, "not even until the next search"
        hits = searched_three_times(library)
        assert library.vectors._all is not None
        assert next(iter(best)) not in {hit.chunk_id for hit in hits}
        library.forget()
        assert library.vectors._all is None
        searched_three_times(library)
        add(other, document("green tea", source="more.txt"))
        assert searched_three_times(library) != hits
        assert {hit.chunk_id for hit in hits} & {
            hit.chunk_id for hit in searched_three_times(library)
        }


def test_vectors_of_an_older_state_take_no_place(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The index may be brought to a later state while those of the one before are read."""
    all_vectors = Snapshot.all_vectors

    def changed_meanwhile(snapshot: Snapshot) -> Any:
        entries = all_vectors(snapshot)
        add(other, document("green tea", source="more.txt"))
        thread = threading.Thread(target=library.vectors.current)
        thread.start()
        thread.join()
        monkeypatch.undo()
        return entries

    query = EMBEDDER.embed_queries(["green tea"])[0]
    with filled(where()) as library, opened(where(), create=False) as other:
        for _ in range(2):
            before = library.vectors.search(query, 5)
            monkeypatch.setattr(Snapshot, "all_vectors", changed_meanwhile)
        assert library.vectors._all is None
        assert searched_three_times(library) != before


def test_vectors_of_a_larger_library_are_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(tmp_path) as library:
        chunks = library.counts().chunks
        for bound, most in (("SMALL", 2 * EMBEDDER.dimension * chunks), ("EXACT", chunks)):
            library.forget()
            monkeypatch.setattr(derived, bound, most - 1)
            searched_three_times(library)
            assert library.vectors._all is None
            monkeypatch.setattr(derived, bound, most)
            searched_three_times(library)
            assert library.vectors._all is not None


@pytest.mark.parametrize("damage", ["vectors", "keywords", "pointer", "gone"])
def test_damaged_index_is_built_anew_from_the_catalogue(tmp_path: Path, damage: str) -> None:
    with filled(tmp_path) as library:
        library.sync()
        before = found(library, "green tea")
    noted: list[Path] = []
    if damage in ("vectors", "keywords"):
        (path,) = tmp_path.glob(f"{damage}/*.segment")
        path.write_bytes(path.read_bytes()[:-30] + bytes(30))
    elif damage == "pointer":
        (tmp_path / "keywords" / "index.json").write_text("[]")
    else:
        shutil.rmtree(tmp_path / "vectors")
        shutil.rmtree(tmp_path / "keywords")
    with opened(tmp_path, create=False, note=noted.append) as library:
        assert found(library, "green tea") == before
    assert [path.name for path in noted] == {
        "vectors": ["vectors"],
        "keywords": ["keywords"],
        "pointer": ["keywords"],
        "gone": [],
    }[damage]
    with opened(tmp_path, create=False, note=noted.append) as library:
        assert found(library, "green tea") == before
        assert len(noted) <= 1


def test_catalogue_from_a_backup_beside_newer_indexes(tmp_path: Path) -> None:
    with filled(tmp_path) as library:
        library.purge()
        old = (tmp_path / "catalogue.sqlite").read_bytes()
        add(library, document("later words", source="later.txt"))
        library.sync()
    (tmp_path / "catalogue.sqlite").write_bytes(old)
    with opened(tmp_path, create=False) as library:
        assert found(library, "later") == (found(library, "later")[0], [])
        assert len(found(library, "x")[0]) == library.counts().chunks


def test_terms_cut_otherwise_are_indexed_anew(where: Where) -> None:
    with filled(where()) as library:
        library.sync()
    words = Words("other words")
    with opened(where(), create=False, tokenize=words) as library:
        assert found(library, "tea")[1]
        assert words.calls == library.counts().chunks + library.counts().documents


def test_another_model_is_refused_by_name(where: Where) -> None:
    filled(where()).close()
    other = EmbeddingIdentity("fingerprint", "bge-m3", 1024)
    with pytest.raises(LibraryMismatchError) as error:
        opened(where(), embedding=other)
    for word in ("hash", "bge-m3", "localrag rebuild"):
        assert word in str(error.value)
    same_name = EmbeddingIdentity("0123456789abcdef", "hash", 64)
    with pytest.raises(LibraryMismatchError, match=r"hash \[0123456789ab\]"):
        opened(where(), embedding=same_name)
    with opened(where(), embedding=None) as library:
        assert library.status().embedding == EMBEDDING
        with pytest.raises(LibraryMismatchError):
            library.expect(other)


def test_status_opens_no_index(where: Where) -> None:
    words = Words()
    filled(where()).close()
    with opened(where(), create=False, embedding=None, tokenize=words) as library:
        status = library.status()
        assert (status.counts.documents, status.counts.sources) == (4, 4)
        assert [(d.name, d.present, d.behind) for d in status.derived] == [
            ("vectors", False, 4),
            ("keywords", False, 4),
        ]
        assert status.chunkings == {"window 40": 4}
        assert status.writer == ""
        assert status.size_on_disk > 0
        with library.writing():
            thread_saw: list[str] = []
            thread = threading.Thread(target=lambda: thread_saw.append(library.status().writer))
            thread.start()
            thread.join()
        assert thread_saw[0]
    assert words.calls == 0


def rechunked(library: Library, size: int) -> list[Chunk]:
    return [
        chunk
        for record in library.documents()
        for chunk in WindowChunker(size, 0).chunk(library.document(record.id))  # type: ignore[arg-type]
    ]


def test_rebuild_shows_old_answers_until_it_is_complete(where: Where) -> None:
    other = EmbeddingIdentity("other", "other", 8)
    with filled(where()) as library, opened(where(), create=False) as reader:
        before = found(library, "green tea")
        todo = library.begin_rebuild("plan")
        for document_id in todo[:2]:
            chunks = WindowChunker(20, 0).chunk(library.document(document_id))  # type: ignore[arg-type]
            library.stage([(document_id, chunks, np.eye(8, dtype=np.float32)[[0] * len(chunks)])])
        assert found(library, "green tea") == before
        with pytest.raises(ValueError, match="not been staged"):
            library.finish_rebuild(other, "window 20")
        assert library.begin_rebuild("plan") == todo[2:]  # goes on where it was cut off
        add(library, document("added meanwhile", source="new.txt"))
        for document_id in library.begin_rebuild("plan"):
            chunks = WindowChunker(20, 0).chunk(library.document(document_id))  # type: ignore[arg-type]
            library.stage([(document_id, chunks, np.eye(8, dtype=np.float32)[[0] * len(chunks)])])
        library.finish_rebuild(other, "window 20")
        assert library.embedding == other
        assert library.counts().chunks == len(rechunked(library, 20))
        assert (
            len(library.vectors.search(np.eye(8, dtype=np.float32)[0], 99))
            == library.keywords.current().chunk_set().size
        )
        assert library.begin_rebuild("another plan") != []
        with pytest.raises(LibraryMismatchError):
            found(reader, "green tea")


def test_another_plan_begins_the_rebuild_afresh(where: Where) -> None:
    with filled(where()) as library:
        todo = library.begin_rebuild("one")
        library.stage([(todo[0], [], np.zeros((0, 8), dtype=np.float32))])
        assert library.begin_rebuild("two") == todo


def test_rebuilding_indexes_changes_no_answer(where: Where) -> None:
    with filled(where()) as library:
        before = found(library, "green tea")
        library.rebuild_indexes()
        assert found(library, "green tea") == before


def test_no_library_there(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFoundError, match="localrag add"):
        opened(tmp_path / "nowhere", create=False)
    assert list(tmp_path.iterdir()) == []


def test_foreign_folders_and_files_are_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "me.jpg").write_bytes(b"x")
    with pytest.raises(LibraryError, match="contains other files"):
        opened(folder)
    assert [p.name for p in folder.iterdir()] == ["me.jpg"]
    with pytest.raises(LibraryError, match="is a file"):
        opened(folder / "me.jpg")
    other = tmp_path / "database"
    other.mkdir()
    connection = sqlite3.connect(other / "catalogue.sqlite")
    connection.execute("CREATE TABLE theirs(a)")
    connection.close()
    with pytest.raises(LibraryDamagedError, match="another program"):
        opened(other)
    (other / "catalogue.sqlite").write_bytes(b"no database at all" * 100)
    with pytest.raises(LibraryDamagedError, match="damaged"):
        opened(other)


def test_newer_schema_is_refused(tmp_path: Path) -> None:
    filled(tmp_path).close()
    connection = sqlite3.connect(tmp_path / "catalogue.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(LibraryMismatchError, match="schema version 99"):
        opened(tmp_path)


def test_creation_that_was_cut_off(tmp_path: Path) -> None:
    (tmp_path / "catalogue.sqlite").touch()
    with pytest.raises(LibraryNotFoundError):
        opened(tmp_path, create=False, embedding=None)
    with opened(tmp_path) as library:
        assert library.counts().documents == 0


def test_empty_library_answers_nothing(where: Where) -> None:
    with opened(where()) as library:
        assert found(library, "anything") == ([], [])
    with opened(where(), create=False) as library:
        assert found(library, "anything") == ([], [])


def test_many_threads_search_while_one_adds(where: Where) -> None:
    failures: list[BaseException] = []
    with filled(where()) as library:
        end = threading.Event()

        def search() -> None:
            try:
                while not end.is_set():
                    dense, keyword = found(library, "number")
                    ids = {chunk_id for chunk_id, _ in dense + keyword}
                    assert set(library.chunks(ids)) == ids
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=search) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(15):
            add(library, document(f"number {number}", source=f"{number}.txt"))
        end.set()
        for thread in threads:
            thread.join()
        assert failures == []
        assert len(found(library, "number")[1]) == 15


CLOSES = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("SELECT count(*) FROM meta").fetchone()
connection.close()
"""


@pytest.mark.skipif(os.name == "nt", reason="locks there belong to a handle")
@pytest.mark.parametrize("again", ["open", "check", "export"])
def test_opening_a_library_twice_in_a_process_keeps_its_locks(tmp_path: Path, again: str) -> None:
    directory = tmp_path / "library"
    with opened(directory) as library:
        add(library, document("green tea"))
        if again == "open":
            opened(directory).close()
        elif again == "check":
            check_library(directory, indexes())
        else:
            export_library(directory, tmp_path / "export.zip", "0")
        catalogue = directory / "catalogue.sqlite"
        subprocess.run([sys.executable, "-c", CLOSES, str(catalogue)], check=True)
        # Who closes last deletes the log; what is written to a deleted one is lost with us.
        assert log_of(catalogue).exists()
        add(library, document("the harbour", source="b.txt"))
        count = "SELECT count(*) FROM documents"
        with closing(sqlite3.connect(catalogue)) as other:
            assert other.execute(count).fetchone() == (2,)


def both(library: Library, question: str) -> list[list[str]]:
    return [
        [chunk.text for chunk in library.chunks(chunk for chunk, _ in leg).values()]
        for leg in found(library, question)
    ]


def test_indexes_of_another_line_of_changes_with_the_same_stamp(tmp_path: Path) -> None:
    directory, backup = tmp_path / "library", tmp_path / "backup.sqlite"
    with opened(directory) as library:
        add(library, document("green tea", source="tea.txt"))
        library.sync()
    shutil.copy(directory / "catalogue.sqlite", backup)
    with opened(directory) as library:
        add(library, document("many ships", source="ships.txt"))
        library.sync()
    shutil.copy(backup, directory / "catalogue.sqlite")
    with opened(directory) as library:
        add(library, document("sweet pears", source="pears.txt"))
    for _ in range(2):
        with opened(directory) as library:
            dense, keyword = both(library, "pears")
            assert sorted(dense) == ["green tea", "sweet pears"]
            assert keyword == ["sweet pears"]
        # And what is on disk is mended, too.
        assert not check_library(directory, indexes()).findings
