"""The comparison with other libraries: rounds, clock, results that go on, and the table."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

PEERS = Path(__file__).resolve().parents[2] / "benchmarks" / "peers"

WORKER = """
import json, socket, sys, time
from pathlib import Path

sys.path.insert(0, {peers!r})
from worker import Passage, read_passages, run


class Fake:
    def __init__(self, task):
        self.task = task
        if {refused!r} and Path({refused!r}).exists():
            sys.exit("no such model")
        print("chatter of a library")

    def ingest(self):
        passages = read_passages(self.task)
        Path(self.task.store, "index.json").write_text(json.dumps(passages))
        return len(passages)

    def open(self):
        self.passages = json.loads(Path(self.task.store, "index.json").read_text())
        try:
            socket.create_connection(("models.invalid", 443))
        except OSError:
            pass

    def search(self, question):
        words = set(question.lower().rstrip("?").split())
        ranked = sorted(self.passages, key=lambda p: -len(words & set(p["text"].lower().split())))
        return [Passage(p["document"], p["text"]) for p in ranked[: self.task.k]]

    def answer(self, question, found):
        time.sleep(0.05)
        yield "The "
        time.sleep(0.05)
        yield found[0].text.split()[-1]


run(Fake, "psutil")
"""


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(PEERS))
    import compare

    yield compare
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(PEERS)):
            del sys.modules[name]


def program(folder: Path, name: str, refused: Path | None = None) -> list[str]:
    file = folder / f"{name}.py"
    file.write_text(WORKER.format(peers=str(PEERS), refused=str(refused or "")), encoding="utf-8")
    return [sys.executable, str(file)]


def task(compare: ModuleType, folder: Path) -> Any:
    passages = [
        {"id": "tea#0", "document": "tea", "text": "the kettle was found by Ada"},
        {"id": "rail#0", "document": "rail", "text": "the bridge was built by Brunel"},
    ]
    file = folder / "passages.jsonl"
    file.write_text("".join(json.dumps(passage) + "\n" for passage in passages), encoding="utf-8")
    texts = dict.fromkeys(
        ("files", "cache", "model", "embedding", "embedding_name", "system", "prompt"), ""
    )
    return compare.Task(
        **texts,
        language="en",
        passages=str(file),
        store=str(folder / "store"),
        model_name="made-up",
        threads=1,
        k=1,
        context_window=512,
        max_tokens=8,
    )


def questions(compare: ModuleType) -> tuple[list[Any], list[Any]]:
    items = [
        compare.Question("1", "Who found the kettle?", ("Ada",), "tea"),
        compare.Question("2", "Who built the bridge?", ("Brunel",), "rail"),
        compare.Question("3", "Who found the bridge?", ("Eiffel",), "rail"),
    ]
    return items[:2], items


def test_every_library_stands_as_often_before_another_as_behind_it(compare: ModuleType) -> None:
    names = ["a", "b", "c", "d", "e"]
    runs = [
        [lap.library for lap in compare.rounds(5, names, ["en"]) if lap.run == run]
        for run in range(5)
    ]
    assert all(sorted(run) == names for run in runs)
    before = Counter(pair for run in runs for pair in combinations(run, 2))
    assert all(2 <= before[pair] <= 3 for pair in combinations(names, 2)), before


def test_rounds_are_measured_and_gone_on_with(
    compare: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    marker = tmp_path / "closed"
    marker.touch()
    commands = {"one": program(tmp_path, "one"), "two": program(tmp_path, "two", marker)}
    results = tmp_path / "results.jsonl"

    def measure(runs: int) -> list[dict[str, Any]]:
        compare.measure(
            {"en": task(compare, tmp_path)},
            {"en": questions(compare)},
            commands,
            runs,
            results,
            {"documents": 2},
        )
        return list(compare.read_results(results))

    first = measure(1)
    assert [(record["library"], "error" in record) for record in first] == [
        ("one", False),
        ("two", True),
    ]
    assert "no such model" in first[1]["error"]
    good = first[0]
    assert good["ingest"]["passages"] == 2
    assert good["ingest"]["peak_mb"] > 0
    assert good["network"] == ["models.invalid"]
    assert good["versions"].keys() == {"psutil"}
    assert good["search"]["hits"] == [True, True, False]
    assert len(good["search"]["warm"]) == 2
    cold, warm = good["answer"]["answers"]
    assert (cold["cold"], warm["cold"]) == (True, False)
    assert (cold["text"], cold["exact_match"], cold["f1"]) == ("The Ada", 1.0, 1.0)
    for figures in (cold, warm):
        assert figures["found"] + 0.04 < figures["first"] < figures["full"] - 0.04
    assert cold["found"] > warm["found"]  # Python's own start is in the cold one

    with results.open("a", encoding="utf-8") as file:
        file.write('{"run": 1, "libra')  # killed while it wrote
    marker.unlink()
    capsys.readouterr()
    records = measure(2)
    output = capsys.readouterr().out
    assert "run 0, en: one" not in output
    rounds = [(record["run"], record["library"]) for record in records if "error" not in record]
    assert rounds == [(0, "one"), (0, "two"), (1, "two"), (1, "one")]
    assert records[-1]["answer"]["answers"][0]["question"] == "2"  # another one is cold

    table = "\n".join(compare.table_of(records))
    assert "| | one | two |" in table
    assert "| runs | 2 | 2 |" in table
    assert "| hit@5 | 0.67 | 0.67 |" in table
    assert "| exact match | 1.00 | 1.00 |" in table
    assert "two failed: no such model" in table
    assert "one tried to reach models.invalid" in table


def test_a_library_that_hangs_is_a_failure(
    compare: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import measuring

    monkeypatch.setattr(measuring, "LIMIT", 1.0)
    hanging = [sys.executable, "-c", "import time; time.sleep(600)"]
    with pytest.raises(compare.WorkerFailedError, match="exit code"):
        compare.Runner(hanging, task(compare, tmp_path), tmp_path).versions()


def test_a_cell_is_the_median_with_the_ends(compare: ModuleType) -> None:
    assert compare._cell("time", [3.0, 1.0, 2.0]) == "2.00 (1.00 to 3.00)"
    assert compare._cell("mean", [1.0, 0.0]) == "0.50"
    assert compare._cell("size", []) == "-"
