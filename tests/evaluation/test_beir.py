from __future__ import annotations

import json
from pathlib import Path

import pytest

from localrag.errors import UsageError
from localrag.evaluation.retrieval.beir import read_retrieval_set


def write_set(folder: Path, *, key: str = "id", qrels: str = "q1\tp1\t1\nq2\tp2\t2\n") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    corpus = [
        {key: "p1", "title": "Tides", "text": "The moon pulls\u2028the sea."},
        {key: "p2", "text": "潮汐"},
    ]
    queries = [{key: "q1", "text": "why tides?"}, {key: "q2", "text": "潮汐？"}]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "qrels.tsv").write_text(qrels, encoding="utf-8")
    return folder


@pytest.mark.parametrize("key", ["id", "_id"])
def test_a_set_is_read(tmp_path: Path, key: str) -> None:
    retrieval_set = read_retrieval_set(write_set(tmp_path / "sea", key=key))
    assert retrieval_set.name == "sea"
    assert retrieval_set.corpus == {"p1": "Tides\nThe moon pulls\u2028the sea.", "p2": "潮汐"}
    assert retrieval_set.queries == {"q1": "why tides?", "q2": "潮汐？"}
    assert retrieval_set.qrels == {"q1": {"p1": 1}, "q2": {"p2": 2}}


def test_the_layout_of_beir_itself(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "sea", key="_id")
    (folder / "qrels").mkdir()
    (folder / "qrels.tsv").unlink()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tp1\t1\n")
    assert read_retrieval_set(folder).qrels == {"q1": {"p1": 1}}


def test_questions_of_another_set(tmp_path: Path) -> None:
    passages, questions = write_set(tmp_path / "zh"), write_set(tmp_path / "en")
    (questions / "corpus.jsonl").unlink()
    (questions / "qrels.tsv").unlink()
    crossed = read_retrieval_set(passages, questions)
    assert crossed.name == "en over zh"
    assert set(crossed.qrels) == {"q1", "q2"}


def test_a_question_without_a_relevant_passage_is_not_scored(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "sea", qrels="q1\tp1\t1\nq2\tp1\t0\nq3\tp2\t1\n")
    assert set(read_retrieval_set(folder).qrels) == {"q1"}


def test_a_sample_is_spread_over_all_questions(tmp_path: Path) -> None:
    folder = write_set(tmp_path / "sea")
    rows = [json.dumps({"id": f"q{number}", "text": "tides"}) for number in range(10)]
    (folder / "queries.jsonl").write_text("\n".join(rows))
    (folder / "qrels.tsv").write_text("".join(f"q{n}\tp1\t1\n" for n in range(10)))
    retrieval_set = read_retrieval_set(folder)
    assert list(retrieval_set.sample(4).qrels) == ["q0", "q2", "q5", "q7"]
    assert retrieval_set.sample(99).qrels == retrieval_set.qrels


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("corpus.jsonl", None, r"corpus\.jsonl cannot be read: No such file"),
        ("corpus.jsonl", b"\xff\xfe\x00", r"corpus\.jsonl cannot be read"),
        ("corpus.jsonl", b'{"id": "p1", "text": "a"}\nnot json\n', r"Line 2 of .*corpus\.jsonl"),
        ("corpus.jsonl", b'{"id": "p1"}\n', r"Line 1 of .*corpus\.jsonl is not a JSON object"),
        ("corpus.jsonl", b'["p1"]\n', r"Line 1 of .*corpus\.jsonl is not a JSON object"),
        ("queries.jsonl", b'{"id": "q", "text": "a"}\n' * 2, r'Line 2 .* repeats the id "q"'),
        ("qrels.tsv", None, r"qrels\.tsv cannot be read"),
        ("qrels.tsv", b"q1\tp1\t1\nq2 p2 1\n", r"Line 2 of .*qrels\.tsv is not query id"),
        ("qrels.tsv", b"q1\tp9\t1\n", r"No question of .* has a relevant passage"),
    ],
)
def test_what_is_wrong_is_named(
    tmp_path: Path, file: str, content: bytes | None, message: str
) -> None:
    folder = write_set(tmp_path / "sea")
    if content is None:
        (folder / file).unlink()
    else:
        (folder / file).write_bytes(content)
    with pytest.raises(UsageError, match=message) as error:
        read_retrieval_set(folder)
    assert error.value.hint
