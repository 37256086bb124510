"""Descriptions in questions, and the names that take their place."""

from __future__ import annotations

import time
import tomllib
from pathlib import Path

import pytest

from localrag.text.bridges import bridge_of, name_in


@pytest.mark.parametrize(
    ("question", "inner", "outer"),
    [
        (
            "In which town was the engineer who built the Harrow Bridge born?",
            "Who built the Harrow Bridge?",
            "In which town was X born?",
        ),
        (
            "How many people work at the company that makes the Vireo M40?",
            "Which company makes the Vireo M40?",
            "How many people work at X?",
        ),
        (
            "How many workers did the yard where the Mira Solberg was launched have?",
            "Where was the Mira Solberg launched?",
            "How many workers did X have?",
        ),
        (
            "Which instrument does the director of the Corvid 3 telescope play?",
            "Who is the director of the Corvid 3 telescope?",
            "Which instrument does X play?",
        ),
        (
            "Where did the head of Pellworth Energy's northern region work before?",
            "Who is the head of Pellworth Energy's northern region?",
            "Where did X work before?",
        ),
        (
            "Who was the wife of the man who bought Lorne Castle?",
            "Who bought Lorne Castle?",
            "Who was the wife of X?",
        ),
        ("白石水库总设计师的祖籍是哪里？", "白石水库总设计师是谁？", "X的祖籍是哪里？"),
        ("清禾仪表厂的现任厂长毕业于哪里？", "清禾仪表厂的现任厂长是谁？", "X毕业于哪里？"),
        ("捐建白螺塔的商人晚年办了什么？", "捐建白螺塔的商人是谁？", "X晚年办了什么？"),
        (
            "存放旧铜铃的那所小学，校长是谁？",
            "存放旧铜铃的那所小学是哪一个？",
            "X，校长是谁？",
        ),
    ],
)
def test_the_description_is_asked_for_first(question: str, inner: str, outer: str) -> None:
    bridge = bridge_of(question)
    assert bridge is not None
    assert bridge.inner == inner
    assert bridge.outer("X") == outer


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Who built the Harrow Bridge?",
        "Who is the man who bought Lorne Castle?",
        "What is the name of the man who bought Lorne Castle?",
        "When was the Harrow Bridge built?",
        "What is the capital of France?",
        "白石水库的总设计师是谁？",
        "四通控股的创办人兼总裁是谁？",
        "谁设计的水库最大？",
        "他是作者的哪一位朋友？",
        "Where was the engineer who built the Harrow Bridge born? " * 5,
    ],
)
def test_questions_for_one_thing(question: str) -> None:
    assert bridge_of(question) is None


@pytest.mark.parametrize(
    "question",
    [
        "生产汽车的厂房面积是多少？",
        "负责项目的人力成本是多少？",
        "获得金牌的运动员人数是多少？",
        "学校的主任医师有几位？",
        "设计大桥的工程师们住在哪里？",
        "收藏这幅画的医院长是谁？",
        "设计大桥的工程师团队有多少人？",
        "出版这本书的作家协会在哪里？",
        "Where was the director of the company that operates the Kestrel reservoir born?",
        "What does Omar get for the hours that he works at Tarrant Foods?",
        "Where did the director of the company that operates the Kestrel reservoir study?",
        "How many people work at the company that makes the Vireo sensor?",
        "Where is the company that makes the Vireo sensor?",
        "What did the firm that runs the Kestrel reservoir near Ostmere build?",
        "What did the firm that runs the Kestrel reservoir in Ostmere build?",
        "Where was the man who bought Lorne Castle's garden born?",
        "Which school did the author of The Ford at Evening attend?",
        "Who was the leader of the Northern League movement in Ostmere?",
    ],
)
def test_no_word_and_no_name_is_cut_in_two(question: str) -> None:
    assert bridge_of(question) is None


@pytest.mark.parametrize(
    ("question", "inner", "outer"),
    [
        ("捐建图书馆的人民医院在哪里？", "捐建图书馆的人民医院是哪一个？", "X在哪里？"),
        ("设计大桥的工程师长期住在哪里？", "设计大桥的工程师是谁？", "X长期住在哪里？"),
        (
            "What did the wife of the man who bought Lorne Castle write?",
            "Who bought Lorne Castle?",
            "What did the wife of X write?",
        ),
        (
            "Where is the company that makes the Vireo M40 based today?",
            "Which company makes the Vireo M40?",
            "Where is X based today?",
        ),
    ],
)
def test_a_description_ends_with_a_word(question: str, inner: str, outer: str) -> None:
    test_the_description_is_asked_for_first(question, inner, outer)


def test_of_our_questions_the_bridges_are_taken_for_bridges() -> None:
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "two_facts.toml"
    topics = tomllib.loads(path.read_text(encoding="utf-8"))["topic"]
    questions = [question for topic in topics for question in topic["questions"]]
    bridges = [question["ask"] for question in questions if question["kind"] == "bridge"]
    assert len(bridges) == 11
    assert [each["ask"] for each in questions if bridge_of(each["ask"])] == bridges


EN = "Where was the engineer who designed the Harrow Bridge born?"
ZH = "存放旧铜铃的那所小学，校长是谁？"


@pytest.mark.parametrize(
    ("question", "answer", "name"),
    [
        (EN, "Ida Kvistgaard", "Ida Kvistgaard"),
        (EN, "The Harrow Bridge was designed by Ida van der Kvist in 1907.", "Ida van der Kvist"),
        (EN, "It was J. R. Smith's work.", "J. R. Smith"),
        (EN, "The Harrow Bridge was designed by an engineer.", ""),
        (EN, "", ""),
        (EN, "Ida " * 30, ""),
        ("白石水库总设计师的祖籍是哪里？", "白石水库的总设计师是潘启明。", "潘启明"),
        ("白石水库总设计师的祖籍是哪里？", "潘启明", "潘启明"),
        ("白石水库总设计师的祖籍是哪里？", "总设计师是白石水库的总设计师。", ""),
        (ZH, "旧铜铃存放在岛上的小学。", "岛上的小学"),
    ],
)
def test_the_name_is_what_an_answer_adds(question: str, answer: str, name: str) -> None:
    bridge = bridge_of(question)
    assert bridge is not None
    assert name_in(answer, bridge) == name


@pytest.mark.parametrize("piece", ["the a who b ", "The A of B ", "设计的人", "的", "A", "，"])
def test_no_question_takes_long(piece: str) -> None:
    started = time.process_time()
    bridge_of((piece * 200)[:199])
    assert time.process_time() - started < 1
