"""Data sets in the formats and with the column names of several tools."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from localrag.errors import UsageError
from localrag.evaluation.dataset import Context, Sample, evenly, read_dataset

ROOT = Path(__file__).resolve().parents[2]
OLD = {"question": "q", "answer": "a", "contexts": ["c", "d"], "ground_truth": "r"}
NEW = {"user_input": "q", "response": "a", "retrieved_contexts": ["c", "d"], "reference": "r"}


@pytest.mark.parametrize("row", [OLD, NEW])
@pytest.mark.parametrize("shape", ["json", "jsonl"])
def test_names_of_old_and_new_ragas(row: dict[str, object], shape: str, tmp_path: Path) -> None:
    path = tmp_path / f"set.{shape}"
    path.write_text(json.dumps([row]) if shape == "json" else json.dumps(row) + "\n\n", "utf-8")
    (sample,) = read_dataset(path)
    assert (sample.id, sample.question, sample.answer, sample.reference) == ("1", "q", "a", "r")
    assert sample.contexts == (Context("c"), Context("d"))
    assert sample.answerable is None


def test_the_projects_own_questions() -> None:
    samples = read_dataset(ROOT / "data" / "val.json")
    assert len(samples) == 12
    first, unanswerable = samples[0], samples[5]
    assert first.reference.startswith("MYCIN worked with about 600 rules")
    assert (first.source, first.page, first.answerable) == ("ai-overview.en.pdf", 3, True)
    assert first.answer is None
    assert first.contexts is None
    assert unanswerable.answerable is False
    assert unanswerable.page is None


def test_csv_with_lists_as_json_and_as_python_writes_them(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text(
        "\ufeffid,question,answer,contexts,ground_truths,has_answer\n"
        'x,"多少, 几个？",,"[""一"", ""二""]","[""甲""]",\n'
        "y,q,a,\"['one', 'it''s']\",r,False\n"
        "z,q,a,one passage,r,true\n",
        encoding="utf-8",
    )
    first, second, third = read_dataset(path)
    assert (first.id, first.question, first.answer) == ("x", "多少, 几个？", None)
    assert first.contexts == (Context("一"), Context("二"))
    assert first.references == ("甲",)
    assert second.answerable is False
    assert second.contexts == (Context("one"), Context("its"))
    assert third.contexts == (Context("one passage"),)
    assert third.answerable is True


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("r", ("r",)),
        (["r", "s", " r "], ("r", "s")),
        ([], ()),
        ("", ()),
        ("[1] of the list", ("[1] of the list",)),
        (1820, ("1820",)),
    ],
)
def test_several_reference_answers(given: object, read: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "set.json"
    path.write_text(json.dumps([{"question": "q", "references": given}]), "utf-8")
    (sample,) = read_dataset(path)
    assert sample.references == read
    assert sample.reference == (read[0] if read else "")


def test_contexts_may_say_where_they_come_from(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    row = {"question": "q", "contexts": [{"text": "c", "source": "a.pdf", "page": 3}]}
    path.write_text(json.dumps(row), "utf-8")
    assert read_dataset(path)[0].contexts == (Context("c", "a.pdf", 3, 3),)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.jsonl", '{"question": "q"}\n{"answer": "a"}', "Row 2"),
        ("a.json", '[{"question": "q"}, 3]', "Row 2"),
        ("a.json", "[", "not valid JSON"),
        ("a.jsonl", "", "no question"),
        ("a.csv", "question\n", "no question"),
        ("a.jsonl", '{"id": 1, "question": "q"}\n{"id": 1, "question": "r"}', "repeats the id"),
    ],
)
def test_what_is_wrong_is_named(name: str, text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=said):
        read_dataset(path)
    with pytest.raises(UsageError, match="cannot be read"):
        read_dataset(tmp_path / "missing.json")


def test_a_part_is_taken_evenly(tmp_path: Path) -> None:
    path = tmp_path / "set.jsonl"
    path.write_text("\n".join(json.dumps({"question": str(n)}) for n in range(10)), "utf-8")
    samples = read_dataset(path)
    assert [sample.question for sample in evenly(samples, 5)] == ["0", "2", "4", "6", "8"]
    assert evenly(samples, None) == evenly(samples, 10) == samples


def rows_of(folder: Path, *rows: str) -> list[Sample]:
    path = folder / "set.jsonl"
    path.write_text("\n".join(rows), "utf-8")
    return read_dataset(path)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"question": "q", "contexts": 5}', "not a list"),
        ('{"question": "q", "contexts": {"a": "b"}}', "not a list"),
        ('{"question": "q\\ud83d"}', "not valid Unicode"),
    ],
)
def test_a_row_that_cannot_be_is_named(row: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"ow 2 of .*set.jsonl .*{said}"):
        rows_of(tmp_path, '{"question": "first"}', row)


@pytest.mark.parametrize(
    ("page", "read"),
    [
        ("3", 3),
        ("3.0", 3),
        (3.0, 3),
        ("iv", None),
        ("²", None),
        (float("nan"), None),
        (-1, None),
        (10**400, None),
    ],
)
def test_pages_as_several_tools_write_them(page: object, read: int | None, tmp_path: Path) -> None:
    context = {"text": "t", "page": page}
    (sample,) = rows_of(
        tmp_path, json.dumps({"question": "q", "page": page, "contexts": [context]})
    )
    assert sample.page == read
    assert sample.contexts == (Context("t", "", read or 0, read or 0),)


def test_nan_is_what_is_missing(tmp_path: Path) -> None:
    (sample,) = rows_of(
        tmp_path, '{"question": "q", "answer": NaN, "reference": NaN, "has_answer": NaN}'
    )
    assert (sample.answer, sample.references, sample.answerable) == (None, (), None)


def test_a_line_separator_ends_no_row_of_csv(tmp_path: Path) -> None:
    path = tmp_path / "set.csv"
    path.write_text("question,answer\none\u2028two,three\n", "utf-8")
    (sample,) = read_dataset(path)
    assert (sample.question, sample.answer) == ("one\u2028two", "three")
