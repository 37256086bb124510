"""A filter equals searching everything and throwing away the rest, only quicker."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import EMBEDDER, SearchedVectors, Where, add, document, open_library

from localrag.errors import UsageError
from localrag.library.catalogue.filters import Filter
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.library.library import Library

COUNT = 3000
SHARES = [0, 1, 2, 30, 300, 1500, 2990, 3000]


def chunk_ids(count: int = COUNT) -> list[int]:
    return [(1 << 62) + 7 * n for n in range(count)]


def allowed_of(size: int, seed: int) -> np.ndarray:
    return np.array(sorted(random.Random(seed).sample(chunk_ids(), size)), dtype=np.int64)


@pytest.fixture(scope="module", params=["inverted", "rank_bm25"])
def keywords(request: pytest.FixtureRequest) -> InvertedKeywords | RankBm25Keywords:
    draw = random.Random(4)
    words = [f"word{n}" for n in range(60)]
    weights = [1 / (n + 1) for n in range(60)]
    engine = InvertedKeywords() if request.param == "inverted" else RankBm25Keywords()
    texts = [draw.choices(words, weights, k=draw.randint(3, 30)) for _ in range(COUNT)]
    for start in range(0, COUNT, 1000):  # several segments
        batch = zip(chunk_ids()[start : start + 1000], texts[start : start + 1000], strict=True)
        engine.apply((), batch, ("epoch", start))
    return engine


@pytest.fixture(scope="module")
def vectors() -> SearchedVectors:
    values = np.random.default_rng(3).standard_normal((COUNT, 16)).astype(np.float32)
    values[100:400] = values[100]  # many ties
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    store = SearchedVectors()
    shuffled = random.Random(1).sample(range(COUNT), COUNT)
    store.apply((), ((chunk_ids()[n], values[n]) for n in shuffled), ("epoch", 1))
    return store


@pytest.mark.parametrize("size", SHARES)
@pytest.mark.parametrize("k", [1, 10, 50])
def test_keyword_search_equals_brute_force(keywords: Any, size: int, k: int) -> None:
    for seed, query in enumerate((["word0"], ["word3", "word50"], ["word7", "word9", "word59"])):
        allowed_ids = allowed_of(size, seed)
        ids = set(allowed_ids.tolist())
        full_ranking = keywords.search(query, COUNT)
        assert len(full_ranking) > 100
        expected = [hit for hit in full_ranking if hit.chunk_id in ids][:k]
        assert keywords.search(query, k, allowed_ids) == expected


def test_keyword_search_reads_on_past_what_is_not_allowed(keywords: Any) -> None:
    full_ranking = keywords.search(["word0", "word1"], COUNT)
    worst = full_ranking[-1500:]
    ids = np.array(sorted(hit.chunk_id for hit in worst), dtype=np.int64)
    assert keywords.search(["word0", "word1"], 10, ids) == worst[:10]


@pytest.mark.parametrize("size", SHARES)
@pytest.mark.parametrize("k", [1, 10, 350])
def test_dense_search_equals_brute_force(vectors: SearchedVectors, size: int, k: int) -> None:
    for seed in range(3):
        allowed_ids = allowed_of(size, seed)
        ids = set(allowed_ids.tolist())
        query = np.random.default_rng(seed).standard_normal(16).astype(np.float32)
        full_ranking = vectors.search(query, COUNT)
        expected = [hit for hit in full_ranking if hit.chunk_id in ids][:k]
        hits = vectors.search(query, k, allowed_ids)
        assert [hit.chunk_id for hit in hits] == [hit.chunk_id for hit in expected]
        assert [h.score for h in hits] == pytest.approx([h.score for h in expected], abs=1e-6)


def test_ids_that_are_not_there_are_passed_over(keywords: Any, vectors: SearchedVectors) -> None:
    ids = np.array([1, 2, 3, *chunk_ids(5)], dtype=np.int64)
    assert {h.chunk_id for h in keywords.search(["word0"], 50, ids)} <= set(chunk_ids(5))
    query = np.ones(16, dtype=np.float32)
    assert {h.chunk_id for h in vectors.search(query, 50, ids)} == set(chunk_ids(5))


@pytest.fixture
def library(where: Where) -> Iterator[Library]:
    new_library = open_library(where("library"))
    pages = [f"page {n} speaks about tea and gardens at length" for n in range(1, 13)]
    add(new_library, document(*pages, source="a"), "/home/me/tea/2024/long report.pdf")
    add(new_library, document("tea in a markdown file"), "/home/me/tea/notes.md")
    add(new_library, document("tea on a web page"), "/home/me/web/PAGE.HTM")
    add(new_library, document("tea in plain text, with ü and 茶"), "/home/me/tea/2023/笔记.txt")
    add(new_library, document("tea on windows"), r"C:\Users\me\tea\win.md")
    with new_library:
        yield new_library


def names(library: Library, condition: Filter) -> set[str]:
    ids = library.chunk_ids(condition)
    assert ids.dtype == np.int64
    assert ids.tolist() == sorted(set(ids.tolist()))
    chunks = library.chunks(ids.tolist())
    sources = library.sources_of({chunk.document_id for chunk in chunks.values()}, condition)
    return {path.replace("\\", "/").rsplit("/", 1)[1] for path in sources.values()}


ALL = {"long report.pdf", "notes.md", "PAGE.HTM", "笔记.txt", "win.md"}


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Filter(), ALL),
        (Filter(types=("pdf",)), {"long report.pdf"}),
        (Filter(types=("markdown",)), {"notes.md", "win.md"}),
        (Filter(types=("html", "text")), {"PAGE.HTM", "笔记.txt"}),
        (Filter(sources=("notes.md",)), {"notes.md"}),
        (Filter(sources=("otes.md",)), set()),
        (Filter(sources=("*.md",)), set()),
        (Filter(sources=("/home/me/tea/notes.md", "2023/笔记.txt")), {"notes.md", "笔记.txt"}),
        (Filter(sources=(r"tea\win.md",)), {"win.md"}),
        (Filter(sources=("notes.md",), types=("pdf",)), set()),
        (Filter(path="/home/me/tea/*"), {"long report.pdf", "notes.md", "笔记.txt"}),
        (Filter(path="tea/*.md"), {"notes.md", "win.md"}),
        (Filter(path="ea/*.md"), set()),
        (Filter(path="202[34]/*"), {"long report.pdf", "笔记.txt"}),
        (Filter(path="*.pdf"), {"long report.pdf"}),
        (Filter(path="笔?.txt"), {"笔记.txt"}),
        (Filter(path="[z-a]*"), set()),
        (Filter(path="[n-a]otes.md"), {"notes.md"}),  # a range begins with a sign
        (Filter(path="[a-[]*"), set()),
        (Filter(path="[\0-z]otes.md"), set()),  # nothing is read behind it
        (Filter(path="%.md"), set()),
        (Filter(path="'; DROP TABLE chunks; --"), set()),
        (Filter(pages=(2, 3)), {"long report.pdf"}),
        (Filter(pages=(1, 1)), ALL),
        (Filter(pages=(13, None)), set()),
        (Filter(language="zh"), set()),
        (Filter(language="en", types=("pdf",)), {"long report.pdf"}),
    ],
)
def test_which_documents_a_filter_allows(
    library: Library, wanted: Filter, expected: set[str]
) -> None:
    assert names(library, wanted) == expected


def test_a_path_from_here_or_from_home_is_understood(
    library: Library, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    add(library, document("here"), str(tmp_path / "sub" / "here.txt"))
    home = os.path.expanduser("~")  # noqa: PTH111
    add(library, document("at home"), os.path.join(home, "home.txt"))  # noqa: PTH118
    assert names(library, Filter(sources=("sub/../sub/here.txt",))) == {"here.txt"}
    assert names(library, Filter(sources=("./sub/here.txt",))) == {"here.txt"}
    assert names(library, Filter(path="./sub/*")) == {"here.txt"}
    assert names(library, Filter(path="~/ho*.txt")) == {"home.txt"}


def test_pages_are_those_that_a_passage_touches(library: Library) -> None:
    for first, last in ((1, 1), (3, 10), (12, None), (2, 2)):
        ids = library.chunk_ids(Filter(types=("pdf",), pages=(first, last)))
        expected = {
            chunk.id
            for record in library.documents()
            for chunk in library.document_chunks(record.id)
            if record.pages == 12
            and chunk.last_page >= first
            and (last is None or chunk.first_page <= last)
        }
        assert set(ids.tolist()) == expected != set()


def test_a_document_with_both_languages_is_in_each(where: Where) -> None:
    with open_library(where("languages")) as library:
        for language in ("zh", "en", "mixed"):
            add(library, document(language), f"/{language}.txt", language=language)
        assert names(library, Filter(language="zh")) == {"zh.txt", "mixed.txt"}
        assert names(library, Filter(language="en")) == {"en.txt", "mixed.txt"}


def test_days_are_local_and_whole_moments_exact(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    (moment,) = {record.added_at for record in library.documents()[:1]}
    addition = datetime.fromisoformat(moment)
    second = timedelta(seconds=1)
    today = addition.astimezone().date()
    far = timedelta(days=1)
    assert "notes.md" in names(library, Filter(since=today, until=today + far))
    assert names(library, Filter(since=today + 2 * far)) == set()
    assert names(library, Filter(until=today - far)) == set()
    assert "long report.pdf" in names(library, Filter(since=addition, until=addition))
    assert "long report.pdf" not in names(library, Filter(until=addition - second))
    everywhere = addition.astimezone(UTC).replace(microsecond=900_000)
    assert "long report.pdf" in names(library, Filter(since=everywhere))
    assert "long report.pdf" in names(library, Filter(until=everywhere))


def test_the_same_bytes_elsewhere_are_named_as_the_filter_wants(library: Library) -> None:
    copy = document("tea in a markdown file")
    add(library, copy, "/another/copy.txt")
    assert names(library, Filter(sources=("notes.md",))) == {"notes.md"}
    assert names(library, Filter(path="/another/*")) == {"copy.txt"}
    assert names(library, Filter(path="/another/*", types=("markdown",))) == set()


NAMES = {
    "/home/ada/2024/report.pdf": "2024/report.pdf",
    "/home/ada/report.pdf": "report.pdf",
    "/home/ada/[1].md": "[1].md",
}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (Filter(path="*"), set(NAMES.values())),
        (Filter(path="report*"), {"2024/report.pdf", "report.pdf"}),
        (Filter(path="2024/*"), {"2024/report.pdf"}),
        (Filter(path="port.pdf"), set()),
        (Filter(path="*[^1].pdf"), {"2024/report.pdf", "report.pdf"}),
        (Filter(path="[[]1].md"), {"[1].md"}),
        (Filter(path="*/home/*"), set()),
        (Filter(path="/home/ada/*"), set()),
        (Filter(path="ada/*"), set()),
        (Filter(sources=("/home/ada/report.pdf",)), set()),
        (Filter(sources=("ada/report.pdf",)), set()),
        (Filter(sources=("report.pdf",)), {"2024/report.pdf", "report.pdf"}),
        (Filter(sources=("2024/report.pdf", "[1].md"), path="*.md"), {"[1].md"}),
        (Filter(path="*.md", within=frozenset(NAMES)), {"[1].md"}),
    ],
)
def test_who_knows_files_by_names_asks_by_names(wanted: Filter, found: set[str]) -> None:
    meant = wanted.by_names(NAMES)
    assert meant.within is not None
    assert {NAMES[path] for path in meant.within} == found
    assert (meant.path, meant.sources) == ("", ())


def test_what_a_client_says_of_paths_does_not_count() -> None:
    condition = Filter(types=("pdf",), within=frozenset(NAMES))
    assert condition.by_names(NAMES) == Filter(types=("pdf",))


def test_a_filter_stays_within_paths(library: Library) -> None:
    paths = library.paths()
    subset = frozenset(path for path in paths if path.endswith(".md"))
    assert names(library, Filter(within=subset)) == {"notes.md", "win.md"}
    assert names(library, Filter(within=frozenset())) == set()
    assert names(library, Filter(within=frozenset(paths))) == names(library, Filter())


def test_within_searches_only_what_is_allowed(library: Library) -> None:
    ids = library.chunk_ids(Filter(types=("markdown",)))
    query = EMBEDDER.embed_queries(["tea"])[0]
    for hits in (
        library.vectors.within(ids).search(query, 10),
        library.keywords.within(ids).search(["tea"], 10),
    ):
        assert {hit.chunk_id for hit in hits} == set(ids.tolist()) != set()
    everywhere = {hit.chunk_id: hit.score for hit in library.keywords.search(["tea"], 100)}
    for hit in library.keywords.within(ids).search(["tea"], 10):
        assert hit.score == everywhere[hit.chunk_id], "statistics are those of the whole library"


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Filter(types=("docx",)), "docx"),  # type: ignore[arg-type]
        (lambda: Filter(language="fr"), "fr"),  # type: ignore[arg-type]
        (lambda: Filter(sources=("",)), "tuple"),
        (lambda: Filter(sources="a.pdf"), "tuple"),  # type: ignore[arg-type]
        (lambda: Filter(pages=(0, 3)), "0 to 3"),
        (lambda: Filter(pages=(9, 3)), "9 to 3"),
        (lambda: Filter(sources=("a.pdf",) * 2000), "2000 files are too many"),
        (lambda: Filter(path="*a" * 10_000), "20000"),
        (lambda: Filter(pages=(1, 2**53)), "1 to 9007199254740992"),
        (lambda: Filter(pages=(2**63, None)), "9223372036854775808"),
        (lambda: Filter(since=date(2026, 2, 1), until=date(2026, 1, 1)), "2026-02-01"),
        (lambda: Filter(since=date.min), "0001-01-01"),
        (lambda: Filter(until=date.max), "9999-12-31"),
        (lambda: Filter(without=frozenset({"a\0"})), "no document"),
    ],
)
def test_what_makes_no_sense_is_said(make: Callable[[], Filter], said: str) -> None:
    with pytest.raises(UsageError) as error:
        make()
    assert said in str(error.value)
    assert error.value.hint
