"""Questions that ask for several things are taken apart; others are left alone."""

from __future__ import annotations

import time

import pytest

from localrag.text.questions import LONGEST_APART, MOST_PARTS, compares, parts_of
from localrag.text.tokenize import Tokenizer


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        # one after the other
        (
            "When was the mill built? And who owns the Kestrel yard?",
            ("When was the mill built?", "Who owns the Kestrel yard?"),
        ),
        # with "and" between them, and what they are about carried over
        (
            "Who bought Lorne Castle in 1884, and how much do adults pay to visit it today?",
            (
                "Who bought Lorne Castle in 1884?",
                "How much do adults pay to visit Lorne Castle today?",
            ),
        ),
        (
            "When was the Oda Solberg launched and who is her captain?",
            ("When was the Oda Solberg launched?", "Who is the Oda Solberg's captain?"),
        ),
        (
            "How long are files kept by Nimbus, and how many digits has the code?",
            ("How long are files kept by Nimbus?", "How many digits has the code (Nimbus)?"),
        ),
        # the second without its verb or its noun
        (
            "How many rooms does Lorne Castle have, and how many does Wickmore House have?",
            (
                "How many rooms does Lorne Castle have?",
                "How many rooms does Wickmore House have?",
            ),
        ),
        (
            "When does the first boat to Halse leave in summer, and when in winter?",
            (
                "When does the first boat to Halse leave in summer?",
                "When does the first boat to Halse leave in winter?",
            ),
        ),
        (
            "Who heads the northern region and who the southern one?",
            ("Who heads the northern region?", "Who heads the southern region?"),
        ),
        (
            "How many days could be carried over in the 2022 edition, and how many in the "
            "2025 edition?",
            (
                "How many days could be carried over in the 2022 edition?",
                "How many days could be carried over in the 2025 edition?",
            ),
        ),
        # two question words
        (
            "When do adults take Tersilan? What dose of Lumocaine do they take?",
            ("When do adults take Tersilan?", "What dose of Lumocaine do they take?"),
        ),
        ("How and when did he die?", ("How did he die?", "When did he die?")),
        # the same of several
        (
            "What do the Vireo M60 and the M40 cost?",
            ("What does the Vireo M60 cost?", "What does the Vireo M40 cost?"),
        ),
        (
            "How much is the entry at Lorne Castle and at Wickmore House?",
            ("How much is the entry at Lorne Castle?", "How much is the entry at Wickmore House?"),
        ),
        (
            "How many days of holiday do full-time and part-time employees have?",
            (
                "How many days of holiday do full-time employees have?",
                "How many days of holiday do part-time employees have?",
            ),
        ),
        # comparisons
        (
            "Which is older, the Harrow Bridge or the Pellan Bridge?",
            (
                "When was the Harrow Bridge built or opened?",
                "When was the Pellan Bridge built or opened?",
            ),
        ),
        (
            "Which telescope has the larger mirror, the Corvid 3 or the Sorrel?",
            ("How large is the mirror of the Corvid 3?", "How large is the mirror of the Sorrel?"),
        ),
        (
            "Which has more rooms, Lorne Castle or Wickmore House?",
            ("How many rooms does Lorne Castle have?", "How many rooms does Wickmore House have?"),
        ),
        (
            "Which was opened earlier, the Harrow Bridge or the Pellan Bridge?",
            ("When was the Harrow Bridge opened?", "When was the Pellan Bridge opened?"),
        ),
        (
            "Is the Corvid 3 older than the Sorrel?",
            ("How old is the Corvid 3?", "How old is the Sorrel?"),
        ),
        (
            "How many more containers does the Oda carry than the Mira?",
            ("How many containers does the Oda carry?", "How many containers does the Mira carry?"),
        ),
        (
            "Does the battery of the Vireo M40 or that of the M60 last longer?",
            (
                "How long does the battery of the Vireo M40 last?",
                "How long does the battery of the M60 last?",
            ),
        ),
        # Chinese
        ("试用期多久，工资多少？", ("试用期多久？", "工资多少？")),
        ("谁发明了灯泡，谁发明了电话？", ("谁发明了灯泡？", "谁发明了电话？")),
        (
            "云帆地铁二号线有多少座车站？总监理又是谁？",
            ("云帆地铁二号线有多少座车站？", "云帆地铁二号线总监理又是谁？"),
        ),
        (
            "去海门岛的末班船几点开，望潮塔的门票多少钱？",
            ("去海门岛的末班船几点开？", "望潮塔的门票多少钱？"),
        ),
        (
            "岚图扫地机器人的电池保修多久，以及滤网多长时间换一次？",
            ("岚图扫地机器人的电池保修多久？", "岚图扫地机器人滤网多长时间换一次？"),
        ),
        ("白石水库在哪里，它有多深？", ("白石水库在哪里？", "白石水库有多深？")),
        ("行者X7和X9的售价分别是多少？", ("行者X7的售价是多少？", "行者X9的售价是多少？")),
        (
            "云津学院的本科生和行政人员各能借多少册？",
            ("云津学院的本科生能借多少册？", "云津学院的行政人员能借多少册？"),
        ),
        (
            "合同里，甲方逾期和乙方延期的违约金分别怎么算？",
            ("合同里，甲方逾期的违约金怎么算？", "合同里，乙方延期的违约金怎么算？"),
        ),
        ("清禾厂和朔源厂哪个建得更早？", ("清禾厂是什么时候建的？", "朔源厂是什么时候建的？")),
        (
            "行者X7和行者X9哪个续航更长，各是多少分钟？",
            ("行者X7的续航有多长？", "行者X9的续航有多长？"),
        ),
        ("云帆地铁一号线和二号线哪条更长？", ("云帆地铁一号线有多长？", "云帆地铁二号线有多长？")),
        (
            "白石水库的大坝比罗子水库的高多少米？",
            ("白石水库的大坝有多高？", "罗子水库的大坝有多高？"),
        ),
        ("禾丰6号比禾丰9号亩产高多少？", ("禾丰6号的亩产有多高？", "禾丰9号的亩产有多高？")),
        ("清禾厂与朔源厂的补贴相差多少元？", ("清禾厂的补贴是多少？", "朔源厂的补贴是多少？")),
        ("清禾厂和朔源厂谁的职工更多？", ("清禾厂有多少职工？", "朔源厂有多少职工？")),
    ],
)  # fmt: skip
def test_parts_stand_alone(question: str, parts: tuple[str, ...]) -> None:
    assert parts_of(question) == parts


@pytest.mark.parametrize(
    "question",
    [
        "Who built the mill?",
        "",
        "?",
        "Tell me about A and B.",
        "Who founded Smith and Wesson?",
        "When did France and Prussia go to war?",
        "What is the difference between Lumocaine and Tersilan?",
        "How are Ida and Thomas related?",
        "What is the name of the man who built it and who sold it?",
        "What flows between Bingen and Bonn?",
        "Did it sell more in the northern or in the southern region, and how much in each?",
        "In what year was a drought worse than in 2005?",
        "谁建了这座桥？",
        "相关组织在什么情况下，会正式判断该物种应归入哪一个风险组别？",
        "印度野驴与非洲野驴的分别是什么？",
        "在这次选举中处于领先地位的两位候选人分别是谁？",
        "1965年几内亚和法国断交后，采用新的货币叫什么？",
        "无论谁来，都要登记什么？",
        "索尼的父亲和叔父受谁重用过？",
        # "it" would stand in a part that does not say what it is
        "How much is the deposit and when is it due?",
        "Who invented the lamp, and how much does it cost?",
        "How long is the warranty and who pays for it?",
        "Who built the Mill and when did the Crown sell it?",
        "When was the mill built? Who are its owners?",
        # nor what it asks of
        "Who repaired the tank, and for how much?",
        "Who wrote ELIZA, and in which year?",
        "How many guests come and what do they pay?",
        "押金是多少，什么时候退？",
        "合同总价是多少，它包括税吗？",
        "合同总价是多少，由谁支付？",
    ],
)
def test_a_question_for_one_thing_is_left_alone(question: str) -> None:
    assert parts_of(question) == ()


def test_a_list_of_questions_is_one() -> None:
    asked = [f"Who built tower {number}?" for number in range(MOST_PARTS + 1)]
    assert len(parts_of(" ".join(asked[:-1]))) == MOST_PARTS
    assert parts_of(" ".join(asked)) == ()


@pytest.mark.parametrize(
    "text",
    [
        "and what " * 40,
        "和" * 300,
        "甲和乙，" * 80,
        "A 1 and " * 40,
        "which is " + "older, a or " * 30,
        "is a " + "or b older " * 30,
        "how much more " + "is than a " * 30,
        "的比" * 140 + "高多少",
        "A, " * 90 + "and B",
        "what " * 2000,
    ],
)
def test_no_question_takes_long(text: str) -> None:
    started = time.process_time()
    parts_of(text[:LONGEST_APART])
    parts_of(text)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "甲合同和乙合同的违约金分别是多少？",
            ("甲合同的违约金是多少？", "乙合同的违约金是多少？"),
        ),
        (
            "中华人民共和国和日本的面积分别是多少？",
            ("中华人民共和国的面积是多少？", "日本的面积是多少？"),
        ),
        ("胡同和大院分别是什么时候建的？", ("胡同是什么时候建的？", "大院是什么时候建的？")),
        (
            "《战争与和平》和《百年孤独》的作者分别是谁？",
            ("《战争与和平》的作者是谁？", "《百年孤独》的作者是谁？"),
        ),
        ("总和和均值分别是多少？", ("总和是多少？", "均值是多少？")),
        (
            "饱和溶液与不饱和溶液的浓度分别是多少？",
            ("饱和溶液的浓度是多少？", "不饱和溶液的浓度是多少？"),
        ),
        ("呼和浩特和包头哪个更大？", ("呼和浩特有多大？", "包头有多大？")),
        ("同事和同学分别有多少人？", ("同事有多少人？", "同学有多少人？")),
    ],
)
def test_chinese_words_are_not_cut(question: str, parts: tuple[str, ...]) -> None:
    assert parts_of(question, Tokenizer(None)) == parts


def test_pieces_of_names_are_no_parts() -> None:
    assert parts_of("供求总和和均值分别是多少？") == (), "words are not known"
    assert parts_of("《战争与的和平分别是多少？") == ()
    assert parts_of("甲乙公司和的分别是多少？") == ()


def test_what_is_there_to_be_compared() -> None:
    assert compares("Which is older, the Mill or the Forge?")
    assert compares("清禾厂和朔源厂哪个建得更早？")
    assert not compares("How long are the Rhine and the Elbe?")
    assert not compares("行者X7和X9的售价分别是多少？")
