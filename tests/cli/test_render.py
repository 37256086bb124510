"""How answers and traces look to a person who reads Chinese, and that JSON stays as it is."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from localrag.cli.render import answer_json, print_evidence, print_hits, print_trace
from localrag.types import Answer, Chunk, Citation, LegRank, ScoredChunk, Step

CHUNK = Chunk(1, "d", 0, "山羊在夏天上山。", "", 2, 2, 0, 8)
HIT = ScoredChunk(
    CHUNK, 0.9, "/a/b.md", (LegRank("dense", 1, 0.5), LegRank("rewriting 2", 3, 0.25))
)
ANSWER = Answer(
    question="?",
    text="山羊 [1]",
    language="zh",
    grounded=True,
    citations=(Citation(1, 1, "/a/b.md", 2, "山羊在夏天上山。"),),
    contexts=(HIT,),
    trace=(),
    seconds=1.0,
)


@pytest.fixture
def chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrag.messages.interface_language", lambda: "zh")


def console() -> Console:
    return Console(file=io.StringIO(), width=200, highlight=False, markup=False)


def shown(printed: Console) -> str:
    assert isinstance(printed.file, io.StringIO)
    return printed.file.getvalue()


@pytest.mark.usefixtures("chinese")
@pytest.mark.parametrize(
    ("name", "decision", "said"),
    [
        ("retrieve", "5 passages", "检索|5 个段落"),
        ("answerable", "no", "能否回答|否"),
        ("write", "done", "撰写|完成"),
        (
            "check citations",
            "2 cited, 1 markers removed, 0 added",
            "核对引用|引用 2 处，删除标记 1 个，补充 0 个",
        ),
        ("rerank", "some: model: 5 of 20 passages", "重排序|some: model：读 20 个段落，选出 5 个"),
        ("expand", "what is it? | who?", "查询扩展|what is it? | who?"),
        ("later", "a thing {nobody} knew", "later|a thing {nobody} knew"),
    ],
)
def test_a_trace_is_chinese_for_a_person_and_english_in_json(
    name: str, decision: str, said: str
) -> None:
    answer = replace(ANSWER, trace=(Step(name, decision, None, 0.5),))
    printed = console()
    print_trace(printed, answer)
    step, text = said.split("|", 1)
    line = shown(printed).splitlines()[1]
    assert line.startswith(step)
    assert text in line
    assert answer_json(answer)["trace"][0]["name"] == name
    assert answer_json(answer)["trace"][0]["decision"] == decision


def test_a_trace_in_english_is_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrag.messages.interface_language", lambda: "en")
    decisions = ["5 passages", "2 cited, 1 markers removed, 0 added", "m: 5 of 20 passages. Slow."]
    printed = console()
    print_trace(printed, replace(ANSWER, trace=tuple(Step("x", d, None, 0) for d in decisions)))
    assert all(decision in shown(printed) for decision in decisions)


def test_what_a_model_wrote_cannot_drive_the_terminal() -> None:
    printed = console()
    print_trace(printed, replace(ANSWER, trace=(Step("expand", "a\x1b[2Jb", None, 0),)))
    assert "\x1b" not in shown(printed)


@pytest.mark.usefixtures("chinese")
def test_citations_and_legs_are_chinese() -> None:
    printed = console()
    print_evidence(printed, ANSWER)
    print_hits(printed, [HIT], explain=True)
    assert "b.md，第 2 页：“山羊在夏天上山。”" in shown(printed)
    assert "向量第 1 名（0.500）、改写 2 第 3 名（0.250）" in shown(printed)
