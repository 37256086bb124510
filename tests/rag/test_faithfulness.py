from __future__ import annotations

from collections.abc import Sequence

import pytest

from localrag.rag.citations import read
from localrag.rag.faithfulness import (
    BoundedAsking,
    Passages,
    checked,
    rating_of,
    statement_of,
)
from localrag.rag.grading import Grade
from localrag.rag.statements import Statements, is_grounded, without_unsupported
from localrag.text.tokenize import Tokenizer
from localrag.types import Chunk, Citation, ScoredChunk, Statement, SupportedSentence

TEXTS = [
    "The garden was founded in 1931 by the orchid collector Ottilie Varga. It covers 48 hectares.",
    "花园由兰花收藏家于1931年建立，占地四十八公顷。花园冬天不开放。",
    "The tea room closes at six. Visitors must not feed the birds.",
]
QUOTES = [
    "The garden was founded in 1931 by the orchid collector Ottilie Varga.",
    "花园由兰花收藏家于1931年建立，占地四十八公顷。",
    "Visitors must not feed the birds.",
]
TERMS = Tokenizer()


def evidence(question: str = "When was the garden founded?") -> Passages:
    chunks = [
        ScoredChunk(Chunk(n, "d", n, text, "", 1, 1, 0, len(text)), 1.0, "g.pdf")
        for n, text in enumerate(TEXTS, start=1)
    ]
    return Passages(question, chunks, TERMS)


CITED = tuple(Citation(n, n, "g.pdf", 1, quote) for n, quote in enumerate(QUOTES, start=1))


@pytest.mark.parametrize(
    ("sentence", "rating"),
    [
        ("The garden was founded in 1931 by Ottilie Varga [1].", "fully supported"),
        ("The garden was founded in 1934 by Ottilie Varga [1].", "no support"),
        ("The garden covers 52 hectares [1].", "no support"),
        ("The garden was founded in 1931 [3].", "partially supported"),  # by another passage
        ("花园于一九三一年由兰花收藏家建立 [2]。", "fully supported"),
        ("花园占地五十二公顷 [2]。", "no support"),
        ("花园占地48公顷 [2]。", "fully supported"),
        ("1. The garden was founded in 1931 by Ottilie Varga [1].", "fully supported"),
        ("Visitors must not feed the birds [3].", "fully supported"),
    ],
)
def test_what_needs_no_model(sentence: str, rating: str) -> None:
    finding = evidence().finding(stated(sentence), CITED)
    assert finding is not None
    assert finding.rating == rating


@pytest.mark.parametrize(
    "sentence",
    [
        "Visitors must feed the birds [3].",  # a negation flipped
        "An admirer of flowers created it [1].",  # in other words
        "There are three reasons for that [1].",  # counted, not quoted
        "花园冬天开放 [2]。",
    ],
)
def test_what_is_left_open(sentence: str) -> None:
    assert evidence().finding(stated(sentence), CITED) is None


@pytest.mark.parametrize(
    ("question", "answer", "marked"),
    [
        ("How many pumps are delivered?", "Two pumps are delivered [1].", True),
        ("How many pumps are delivered?", "12 pumps are delivered [1].", True),  # 12 March
        ("How many pumps are delivered?", "90 pumps are delivered [1].", True),  # 90 euros
        (
            "How many pumps are delivered?",
            "Four pumps were delivered [1].",
            False,
        ),  # four are named
        ("How many valves are delivered?", "Seven valves were delivered [1].", False),
        ("How many valves are delivered?", "7 [1].", False),
        ("How much was the transport?", "It came to 90 euros [1].", False),
        ("How much was the transport?", "90 [1].", False),
        ("运费是多少钱？", "90[1]。", False),
        ("送来了多少台水泵？", "送来了九台水泵[1]。", True),  # 9日
        ("送来了几台水泵？", "两台[1]。", True),
        ("送来了几个阀门？", "三个[1]。", False),
        ("运费是多少？", "运费是90元[1]。", False),
    ],
)
def test_a_count_that_was_asked_for_stands_in_its_passage_as_one(
    question: str, answer: str, marked: bool
) -> None:
    text = (
        "The pumps were delivered on 12 March by truck. Transport came to 90 euros. Seven valves "
        "came. They are named Ada, Bea, Cleo and Dora.\n水泵于7月9日送到，运费90元。另有3个阀门。"
    )
    chunk = ScoredChunk(Chunk(1, "d", 1, text, "", 1, 1, 0, len(text)), 1.0, "g.pdf")
    citations = (Citation(1, 1, "g.pdf", 1, "The pumps were delivered on 12 March by truck."),)
    finding = Passages(question, [chunk], TERMS).finding(stated(answer, citations), citations)
    assert (finding is not None and finding.rating == "no support") == marked


def test_a_small_number_in_words_is_not_quoted_where_it_does_not_stand() -> None:
    passages = evidence("Who founded the garden?")
    statement = stated("The garden was founded by two collectors in 1931 [1].")
    assert passages.finding(statement, CITED) is None


def test_names_that_stand_nowhere() -> None:
    unknown_names = evidence().unknown_names
    assert unknown_names("It was founded by Ottilie Harper [1].") == {"Harper"}
    assert unknown_names("It was founded by Ottilie Varga [1].") == set()
    assert unknown_names("It uses the BX200 pump.") == {"BX200"}
    assert (
        unknown_names("花园由 Harper 建立。") == set()
    )  # names are written otherwise across languages


def stated(text: str, cited: Sequence[Citation] = CITED) -> Statement:
    return read(text, cited)[0]


def rated(text: str, *grades: float) -> tuple[Statements, dict[str, object], list[str]]:
    statements: list[str] = []
    rest = list(grades)

    def ask(sentence: str) -> Grade | None:
        statements.append(statement_of(sentence))
        return Grade(rest.pop(0)) if rest else None

    run = checked(read(text, CITED), evidence(), ask)
    step = next(run)
    try:
        next(run)
    except StopIteration as stop:
        return stop.value, dict(step.values), statements
    raise AssertionError("one step")


@pytest.mark.parametrize("sentence", ["48.0 is not what it covers.", "1. It is no year."])
def test_a_number_with_a_point_is_no_mark_of_a_list(sentence: str) -> None:
    _, _, statements = rated(sentence)
    assert statements == [sentence.removeprefix("1. ")]


def test_only_what_is_open_costs_a_question_to_the_model() -> None:
    text = (
        "The garden was founded in 1931 by Ottilie Varga [1]. It covers 52 hectares [1].\n"
        "Visitors may feed the birds [3]. Dogs stay outside."
    )
    sentences, counts, questions = rated(text, 0.1)
    assert questions == ["Visitors may feed the birds.", "Dogs stay outside."]
    ratings = [(s.written.strip(), s.rating) for s in sentences if s.rating is not None]
    assert ratings == [
        ("The garden was founded in 1931 by Ottilie Varga [1].", "fully supported"),
        ("It covers 52 hectares [1].", "no support"),
        ("Visitors may feed the birds [3].", "no support"),
    ]
    assert counts == {"checked": 3, "unchecked": 1, "asked": 1, "unsupported": 2}
    assert is_grounded(sentences)


def test_an_answer_without_what_nothing_bears_out() -> None:
    text = "The garden covers 52 hectares [1]. It was founded in 1931 by Ottilie Varga [1]."
    sentences, _, _ = rated(text)
    (sentence,) = without_unsupported(sentences)
    assert sentence.written == "It was founded in 1931 by Ottilie Varga [1]."
    assert sentence.rating == "fully supported"
    assert [citation.citation.marker for citation in sentence.citations] == [1]


def test_an_answer_of_which_nothing_is_left() -> None:
    sentences, _, _ = rated("The garden covers 52 hectares [1].")
    assert not is_grounded(sentences)
    assert without_unsupported(sentences) == ()


def test_an_answer_is_not_grounded_without_citations() -> None:
    assert not is_grounded(read("It covers 48 hectares.", ()))
    assert is_grounded(read("It covers 48 hectares [1].", CITED))


def test_asking_ends_where_the_time_does() -> None:
    statements: list[str] = []

    def grade(statement: str) -> Grade:
        statements.append(statement)
        return Grade(0.9)

    ask = BoundedAsking(grade, lambda _: 90, read=1500, written=40)  # .15 x 1620 = 243
    assert [ask(letter) is None for letter in "abc"] == [False, False, True]
    assert statements == ["a", "b"]
    short = BoundedAsking(grade, lambda _: 75, read=90, written=3)
    assert [short(letter) is None for letter in "abc"] == [False, False, True]


@pytest.mark.parametrize(
    ("question", "answer", "quote", "rating"),
    [
        ("超过三十天可以退款吗？", "可以[1]。", "购买后三十天内可以凭收据退款。", "no support"),
        (
            "三十天内可以凭收据退款吗？",
            "可以[1]。",
            "购买后三十天内可以凭收据退款。",
            "fully supported",
        ),
        ("超过三十天可以退款吗？", "不可以[1]。", "购买后三十天内可以凭收据退款。", None),
        ("大型犬可以带入餐厅吗？", "可以[1]。", "小型犬可以带入餐厅。", None),
        ("可以退款吗？", "超过三十天可以退款[1]。", "购买后三十天内可以凭收据退款。", "no support"),
        (
            "Can goods be returned after thirty days?",
            "Yes [1].",
            "Goods can be returned within 30 days.",
            "no support",
        ),
        (
            "Can goods be returned within thirty days?",
            "Yes, they can [1].",
            "Goods can be returned within 30 days.",
            "fully supported",
        ),
        (
            "Can goods be returned in July?",
            "Yes [1].",
            "Goods can be returned within 30 days.",
            None,
        ),
    ],
)
def test_a_bare_yes_is_held_against_its_quotation_with_the_question(
    question: str, answer: str, quote: str, rating: str | None
) -> None:
    text = f"{quote} Else they can be exchanged."
    chunk = ScoredChunk(Chunk(1, "d", 1, text, "", 1, 1, 0, len(text)), 1.0, "g.pdf")
    citations = (Citation(1, 1, "g.pdf", 1, quote),)
    finding = Passages(question, [chunk], TERMS).finding(stated(answer, citations), citations)
    assert (finding and finding.rating) == rating


def test_shares_and_ratings() -> None:
    ratings = [rating_of(share) for share in (1.0, 0.0)]
    assert ratings == ["fully supported", "no support"]


def test_a_difference_that_was_asked_for_is_not_invented() -> None:
    question = "How many more hectares does the garden of Varga cover than the garden of Holm?"
    texts = ["The garden of Varga covers 48 hectares.", "The garden of Holm covers 17 hectares."]
    chunks = [
        ScoredChunk(Chunk(n, "d", n, text, "", 1, 1, 0, len(text)), 1.0, "g.pdf")
        for n, text in enumerate(texts, start=1)
    ]
    passages = Passages(question, chunks, TERMS)
    assert (
        passages.finding(stated("The garden of Varga covers 31 hectares more [1][2]."), ()) is None
    )
    wrong = passages.finding(stated("The garden of Varga covers 36 hectares more [1][2]."), ())
    assert wrong is not None
    assert wrong.rating == "no support"


def test_a_first_sentence_that_is_taken_out_leaves_no_blanks_before_the_next() -> None:
    text = "It has 99 ponds [1].\n\nIt was founded in 1931 [1]."
    start = text.index("It was")
    rated = (
        SupportedSentence(0, 20, "no support", 0.0),
        SupportedSentence(start, len(text), "fully supported", 1.0),
    )
    (sentence,) = without_unsupported(read(text, CITED, rated))
    assert sentence.written == "It was founded in 1931 [1]."


def test_what_is_said_of_somebody_else_is_not_taken_for_quoted() -> None:
    text = "DENDRAL came first. MYCIN worked with about 600 rules."
    chunk = ScoredChunk(Chunk(1, "d", 1, text, "", 1, 1, 0, len(text)), 1.0, "g.pdf")
    citations = (Citation(1, 1, "g.pdf", 1, "MYCIN worked with about 600 rules."),)
    for name, certain in (("MYCIN", True), ("DENDRAL", False)):
        passages = Passages(f"How many rules did {name} work with?", [chunk], TERMS)
        finding = passages.finding(
            stated(f"{name} worked with about 600 rules [1].", citations), citations
        )
        assert (finding is not None) == certain
