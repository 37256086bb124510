"""`localrag bench retrieval` from end to end, with a stand-in for the embedding model."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from fakes import HashEmbedder
from library.library_fixtures import add, document, open_library

from localrag import factory
from localrag.cli.group import cli
from localrag.config.settings import Settings
from localrag.errors import UsageError
from localrag.library.indexes.faiss import FaissVectors

METRICS = ["nDCG@10", "MRR@10", "R@1", "R@5", "R@10", "R@100"]


@pytest.fixture
def sea(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(factory, "make_embedder", lambda settings, models: HashEmbedder())
    monkeypatch.setattr(factory, "cache_folder", lambda: tmp_path / "cache")
    folder = tmp_path / "sea"
    folder.mkdir()
    texts = [
        "the moon pulls the sea",
        "ships carry grain and salt",
        "涨潮与落潮的时刻表",
        "灯塔看守人",
    ]
    questions = ["what pulls the sea?", "which ships carry salt?", "涨潮的时刻", "谁看守灯塔？"]
    for name, rows in (("corpus", texts), ("queries", questions)):
        lines = [json.dumps({"id": f"{n}", "text": text}) for n, text in enumerate(rows)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    (folder / "qrels.tsv").write_text("".join(f"{n}\t{n}\t1\n" for n in range(4)))
    return folder


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(cli, ["bench", "retrieval", *map(str, arguments)])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_json_has_every_run_with_every_number(sea: Path) -> None:
    report = json.loads(run(sea, "--json").stdout)
    assert (report["passages"], report["queries"]) == (4, 4)
    assert [record["name"] for record in report["runs"]] == [
        "keyword",
        "dense",
        "rrf",
        "linear",
        "default",
    ]
    for entry in report["runs"]:
        assert set(entry) == {"name", *METRICS, "intervals", "p50_ms", "p95_ms"}
        assert 0 < entry["p50_ms"] <= entry["p95_ms"]
        for metric in METRICS:
            low, high = entry["intervals"][metric]
            assert 0 <= low <= entry[metric] <= high <= 1
    assert report["runs"][-1]["nDCG@10"] == 1


def test_the_table_and_the_picture(sea: Path, tmp_path: Path) -> None:
    result = run(sea, "--run", "default", "--rerank", "keyword", "--plot", tmp_path / "sea.svg")
    assert "default+keyword" in result.stdout
    assert "dense" not in result.stdout
    assert (tmp_path / "sea.svg").read_text("utf-8").startswith("<svg")


def test_a_reranker_stands_beside_what_it_reranked(sea: Path) -> None:
    report = json.loads(run(sea, "--rerank", "keyword", "--json").stdout)
    assert [record["name"] for record in report["runs"]] == ["default", "default+keyword"]


def test_fewer_questions_and_those_of_another_set(sea: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "queries.jsonl").write_text('{"id": "2", "text": "tide table"}')
    report = json.loads(run(sea, "--queries-from", other, "--run", "keyword", "--json").stdout)
    assert report["set"] == "other over sea"
    assert report["queries"] == 1
    assert report["runs"][0]["nDCG@10"] == 0
    assert json.loads(run(sea, "--queries", 2, "--run", "dense", "--json").stdout)["queries"] == 2


def test_several_sets_are_one_library(sea: Path, tmp_path: Path) -> None:
    land = tmp_path / "land"
    land.mkdir()
    (land / "corpus.jsonl").write_text('{"id": "0", "text": "ships carry salt"}')
    (land / "queries.jsonl").write_text('{"id": "0", "text": "carry salt"}')
    (land / "qrels.tsv").write_text("0\t0\t1\n")
    report = json.loads(run(sea, land, "--run", "keyword", "--json").stdout)
    assert (report["set"], report["passages"], report["queries"]) == ("sea + land", 5, 5)
    alone = json.loads(run(sea, "--run", "keyword", "--json").stdout)["runs"][0]
    first, second = report["sets"]
    assert [(table["set"], table["queries"]) for table in (first, second)] == [
        ("sea", 4),
        ("land", 1),
    ]
    # A passage of the other set takes the first place for one of the four.
    assert first["runs"][0]["R@1"] == alone["R@1"] - 1 / 4
    assert second["runs"][0]["nDCG@10"] == 1
    total = 4 * first["runs"][0]["nDCG@10"] + second["runs"][0]["nDCG@10"]
    assert report["runs"][0]["nDCG@10"] == pytest.approx(total / 5)
    output = run(sea, land, "--run", "keyword").stdout
    assert "land: 5 passages, 1 questions" in output
    with pytest.raises(UsageError, match="several without --queries-from"):
        run(sea, land, "--queries-from", sea)


def test_the_second_time_passages_are_not_embedded(
    sea: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    embedder = HashEmbedder()
    monkeypatch.setattr(factory, "make_embedder", lambda settings, models: embedder)
    first, second = (json.loads(run(sea, "--json").stdout)["runs"] for _ in range(2))
    assert len(embedder.calls) == 1
    assert [r["nDCG@10"] for r in first] == [r["nDCG@10"] for r in second]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(factory, "make_embedder", lambda settings, models: HashEmbedder())
    folder = tmp_path / "own"
    embedding = factory.identity_of(HashEmbedder(), Settings())
    with open_library(folder, embedding=embedding) as library:
        text = " ".join(f"{number:03} word{number * number % 97:03}" for number in range(400))
        add(library, document(text), size=24)
        library.sync()
    return folder


def test_a_small_library_is_exact(own: Path) -> None:
    report = json.loads(run("--exact", "--library", own, "--json").stdout)
    assert (report["passages"], report["exact"]) == (200, True)
    (only,) = report["runs"]
    assert (only["rescored"], only["R@10"], only["R@100"]) == (0, 1, 1)
    assert "200 passages: all are compared" in run("--exact", "--library", own).output


def test_what_a_large_library_loses_is_shown(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factory, "EXACT_UP_TO", 10)
    monkeypatch.setattr(factory, "FaissVectors", partial(FaissVectors, exact=10))
    monkeypatch.setenv("LOCALRAG_RETRIEVAL_RESCORED", "100")
    monkeypatch.setattr("localrag.evaluator.retrieval.RESCORED", (150, 250))
    report = json.loads(run("--exact", "--library", own, "--queries", 20, "--json").stdout)
    assert not report["exact"]
    assert [record["rescored"] for record in report["runs"]] == [0, 100, 150, 250]
    shares = [record["R@100"] for record in report["runs"]]
    assert shares[0] == shares[3] == 1
    assert 0 < shares[1] < 1
    assert all(0 < record["p50_ms"] <= record["p95_ms"] for record in report["runs"])
    assert "retrieval.rescored" in run("--exact", "--library", own, "--queries", 5).output


def test_exact_is_of_ones_own_library(sea: Path) -> None:
    for arguments in ((), (sea, "--exact")):
        with pytest.raises(UsageError, match="for your own library"):
            run(*arguments)
