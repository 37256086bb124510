"""Questions with several parts: what is searched, judged, written, and said to be missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest
from fakes import HashEmbedder
from scripted_llm import ScriptedLLM
from test_self_rag import OPTIONS

from localrag.cli.ask import print_answer
from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.rag.base import OnStep, Piece, Pipeline, Toolkit
from localrag.rag.grading import Grader
from localrag.rag.parts import Found, asked_in, interleaved
from localrag.rag.reading import Bounds
from localrag.rag.refusals import refuses, tells_missing
from localrag.rag.self_rag import SelfRAG
from localrag.rag.standard import StandardRAG
from localrag.server.answers import sentences
from localrag.text.questions import parts_of
from localrag.text.tokenize import Tokenizer
from localrag.types import Answer, Chunk, NotFound, Place, ScoredChunk, Step

BOUGHT = "Lorne Castle was bought by Hamish Druce in 1884."
FEE = "At Lorne Castle, adults pay 17 pounds today."
SHIP = "The Oda Solberg has a crew of 21."
ASKED = "Who bought Lorne Castle in 1884, and how much do adults pay at Lorne Castle?"
FIRST, SECOND = "Who bought Lorne Castle in 1884?", "How much do adults pay at Lorne Castle?"

PRICE_7, PRICE_9 = "行者X7的售价是1899元。", "行者X9在门店的售价是3299元。"
ZH_ASKED = "行者X7和X9的售价分别是多少？"
ZH_FIRST, ZH_SECOND = "行者X7的售价是多少？", "行者X9的售价是多少？"

Scores = Mapping[str, float]


def passage(number: int, text: str) -> ScoredChunk:
    chunk = Chunk(number, "d", number, text, "", 1, 1, 0, len(text))
    return ScoredChunk(chunk, 1 - number / 100, "castle.pdf")


PASSAGES = {
    text: passage(number, text)
    for number, text in enumerate((BOUGHT, FEE, SHIP, PRICE_7, PRICE_9), start=1)
}
FOUND = {
    FIRST: (BOUGHT, SHIP),
    SECOND: (FEE, BOUGHT),
    ASKED: (BOUGHT, FEE, SHIP),
    ZH_FIRST: (PRICE_7, SHIP),
    ZH_SECOND: (PRICE_9, PRICE_7),
    ZH_ASKED: (PRICE_7, PRICE_9),
}


def yes(value: float) -> Scores:
    return {"Yes": value, "No": 1 - value}


def ja(value: float) -> Scores:
    return {"是": value, "否": 1 - value}


def tools(llm: ScriptedLLM, searched: list[str], k: int) -> Toolkit:
    def retrieve(question: str, depth: int) -> list[ScoredChunk]:
        searched.append(question)
        return [PASSAGES[text] for text in FOUND[question]][:depth]

    return Toolkit(
        retrieve=retrieve,
        llm=llm,
        tokenize=Tokenizer(None),
        embedder=HashEmbedder(),
        place_of=lambda chunk, offset: Place(0, number=5),
        k=k,
        generation=Options(max_tokens=100),
    )


def standard(llm: ScriptedLLM, searched: list[str], k: int = 3, *, logits: bool = True) -> Pipeline:
    bounds = Bounds(enough=0.8, min_answerable=0.5)
    chooser = LogitChooser(llm) if logits else WrittenChooser(llm)
    return StandardRAG(tools(llm, searched, k), Grader(chooser), bounds)


def self_rag(llm: ScriptedLLM, searched: list[str], k: int = 3) -> Pipeline:
    return SelfRAG(tools(llm, searched, k), Grader(LogitChooser(llm)), OPTIONS)


def run(rag: Pipeline, question: str) -> Answer:
    *pieces, answer = rag.stream(question)
    assert isinstance(answer, Answer)
    assert "".join(piece for piece in pieces if isinstance(piece, str)).strip() == answer.text
    return answer


def steps(answer: Answer, kind: str) -> list[Mapping[str, object]]:
    return [step.values for step in answer.trace if step.kind == kind]


def texts(found: Sequence[ScoredChunk]) -> list[str]:
    return [each.chunk.text for each in found]


def test_each_part_is_searched_judged_and_named_to_the_model() -> None:
    searched: list[str] = []
    llm = ScriptedLLM([f"{BOUGHT} {FEE}"], [yes(0.99), yes(0.99)])
    answer = run(standard(llm, searched), ASKED)
    assert searched == [ASKED, FIRST, SECOND]
    assert texts(answer.contexts) == [BOUGHT, FEE, SHIP], "the best of each part first"
    graded = [(given["passage"], given["part"]) for given in steps(answer, "relevance")]
    assert graded == [(1, 1), (2, 2)], "each part's own passage first"
    assert steps(answer, "parts") == [{"parts": (FIRST, SECOND)}]
    judged = [messages[1].content for messages, _ in llm.scored]
    assert [text.split("Question: ")[1].split("\n")[0] for text in judged] == [FIRST, SECOND]
    passages, task = (message.content for message in llm.history[0][0])
    assert BOUGHT in passages
    assert FEE in task
    assert SHIP not in passages + task, "what holds no part is not read again"
    assert f"Question: {ASKED}\n" in task
    assert task.endswith(f"Give the answer to each of these:\n1. {FIRST}\n2. {SECOND}")
    assert [citation.marker for citation in answer.citations] == [1, 2]
    assert answer.grounded


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How large are Antigua and Barbuda?", "Antigua and Barbuda has 442 square kilometres."),
        ("Who founded Marks and Spencer and when did it open?", "Marks & Spencer opened in 1884."),
        ("How long are terms and conditions kept?", "Terms and conditions are kept for a year."),
        ("罗密欧与朱丽叶分别是什么时候上演的？", "《罗密欧与朱丽叶》于1597年上演。"),
    ],
)
def test_a_name_with_an_and_in_it_is_one(question: str, text: str) -> None:
    assert parts_of(question), "by its words alone it asks for two things"
    PASSAGES[text] = passage(6, text)
    FOUND[question] = (text, SHIP)
    searched: list[str] = []
    llm = ScriptedLLM([text], [ja(0.99) if "？" in question else yes(0.99)])
    answer = run(standard(llm, searched, k=2), question)
    assert searched == [question]
    assert not steps(answer, "parts")
    assert answer.grounded


def test_what_the_documents_lack_is_said_beside_what_they_hold() -> None:
    llm = ScriptedLLM([BOUGHT], [yes(0.99), yes(0.1), yes(0.2), yes(0.1)])
    answer = run(standard(llm, []), ASKED)
    assert answer.text == f"{BOUGHT[:-1]} [1].\n\nThe documents do not say: {SECOND}"
    assert steps(answer, "parts")[1] == {"missing": (SECOND,)}
    assert answer.not_found == (NotFound(SECOND),), "what there is to say of it comes later"
    graded = [(given["passage"], given["part"]) for given in steps(answer, "relevance")]
    assert graded == [(1, 1), (2, 2), (1, 2), (3, 2)]
    assert answer.grounded
    assert not refuses(answer.text), "half an answer is one"
    assert SECOND not in llm.history[0][0][1].content, "only what is there is asked for"
    held, missing = sentences(answer)
    assert (held["mark"], missing["mark"]) == ("quoted", ""), "it claims nothing"
    assert [tells_missing(str(each["parts"][0])) for each in (held, missing)] == [False, True]


def test_in_chinese() -> None:
    searched: list[str] = []
    llm = ScriptedLLM([PRICE_9], [ja(0.1), ja(0.1), ja(0.99)])
    answer = run(standard(llm, searched, k=2), ZH_ASKED)
    assert searched == [ZH_ASKED, ZH_FIRST, ZH_SECOND]
    assert texts(answer.contexts) == [PRICE_7, PRICE_9]
    assert answer.text == f"{PRICE_9[:-1]}[2]。\n\n文档中查不到：{ZH_FIRST}"
    assert not refuses(answer.text)
    assert [each["mark"] for each in sentences(answer)] == ["quoted", ""]
    assert answer.not_found == (NotFound(ZH_FIRST),)
    llm = ScriptedLLM([f"{PRICE_7}{PRICE_9}"], [ja(0.99), ja(0.99)])
    answer = run(standard(llm, [], k=2), ZH_ASKED)
    assert llm.history[0][0][1].content.endswith(f"请逐一回答：\n1. {ZH_FIRST}\n2. {ZH_SECOND}")
    assert [citation.marker for citation in answer.citations] == [1, 2]


def test_a_comparison_is_answered_as_one_question() -> None:
    question = "Which is older, Lorne Castle or the Oda Solberg?"
    ask = "When was {} built or opened?".format
    parts = (ask("Lorne Castle"), ask("the Oda Solberg"))
    FOUND.update({parts[0]: (BOUGHT,), parts[1]: (SHIP,), question: (BOUGHT, SHIP)})
    llm = ScriptedLLM(["The castle surely predates it."], [yes(0.99), yes(0.99)])
    answer = run(standard(llm, []), question)
    assert steps(answer, "parts") == [{"parts": parts}]
    assert "each of these" not in llm.history[0][0][1].content
    assert answer.text == "The castle surely predates it. [1][2]"
    assert [one.quote for one in answer.citations] == [BOUGHT, SHIP], "what it rests on"
    assert answer.grounded
    llm = ScriptedLLM([BOUGHT], [yes(0.99), yes(0.1), yes(0.1)])
    answer = run(standard(llm, []), question)
    assert f"Question: {parts[0]}\n" in llm.history[0][0][1].content, "nothing to compare with"
    assert answer.text.endswith(f"The documents do not say: {parts[1]}")


def test_no_part_is_a_refusal_as_of_any_question() -> None:
    llm = ScriptedLLM([], [yes(0.1)] * 9)
    answer = run(standard(llm, []), ASKED)
    assert answer.text == "The documents do not contain the answer to this question."
    assert not answer.grounded
    assert steps(answer, "parts") == [{"parts": (FIRST, SECOND)}]


def test_a_question_that_is_taken_apart_wrongly_is_answered_as_a_whole() -> None:
    llm = ScriptedLLM([BOUGHT], [*[yes(0.1)] * 6, yes(0.99)])
    answer = run(standard(llm, []), ASKED)
    assert answer.text == f"{BOUGHT[:-1]} [1]."
    assert "each of these" not in llm.history[0][0][1].content
    assert "part" not in steps(answer, "relevance")[-1]


def test_where_no_part_is_held_the_whole_is_asked_of_the_two_best_passages() -> None:
    grades = [yes(value) for value in (0.1, 0.4, 0.4, 0.1, 0.1, 0.1, 0.1, 0.99)]
    llm = ScriptedLLM([SHIP], grades)
    answer = run(standard(llm, []), ASKED)
    assert not llm.scores
    told = [(step["passage"], step.get("part")) for step in steps(answer, "relevance")]
    assert told[-2:] == [(2, None), (3, None)]
    assert [one.marker for one in answer.citations] == [3]


def test_a_model_that_refuses_lacks_no_part() -> None:
    refusal = "The documents do not contain the answer to this question."
    scores = [yes(0.99), yes(0.1), yes(0.1), yes(0.1)]
    answer = run(standard(ScriptedLLM([refusal], scores), []), ASKED)
    assert answer.text == refusal
    assert answer.not_found == ()


def test_a_question_for_one_thing_costs_nothing_more() -> None:
    searched: list[str] = []
    llm = ScriptedLLM([BOUGHT], [yes(0.99)])
    answer = run(standard(llm, searched), FIRST)
    assert searched == [FIRST]
    assert not steps(answer, "parts")
    assert llm.history[0][0][1].content.endswith("completely and concisely.")


@pytest.mark.parametrize(
    ("question", "written", "yes"),
    [(ASKED, f"{BOUGHT} {FEE}", "Yes"), (ZH_ASKED, f"{PRICE_7}{PRICE_9}", "是")],
)
def test_a_model_without_logits_is_asked_once_for_the_whole(
    question: str, written: str, yes: str
) -> None:
    searched: list[str] = []
    llm = ScriptedLLM([f'{{"answer": "{yes}"}}', written])
    answer = run(standard(llm, searched, logits=False), question)
    assert searched == [question]
    assert len(llm.history) == 2, "whether it is there, and what it is"
    assert [citation.marker for citation in answer.citations] == [1, 2]


def test_self_rag_grades_passages_for_their_part() -> None:
    # Both sentences stand so in their passages: the model is not asked about them.
    needed, useful = {"information": 1.0}, {"5": 1.0}
    scores = [needed, yes(0.99), yes(0.8), yes(0.1), useful]
    llm = ScriptedLLM([f"{BOUGHT} {FEE}"], scores)
    answer = run(self_rag(llm, []), ASKED)
    graded = [(values["passage"], values["part"]) for values in steps(answer, "relevance")]
    assert graded == [(1, 1), (2, 2), (3, 1)]
    assert texts(answer.contexts) == [BOUGHT, FEE]
    asked = llm.history[0][0][1].content
    assert f"1. {FIRST}\n2. {SECOND}" in asked
    assert FEE in asked, "both passages are read at once"
    assert [citation.marker for citation in answer.citations] == [1, 2]
    assert not llm.scores


def test_self_rag_looks_for_a_part_in_the_other_passages_and_says_what_is_missing() -> None:
    graded = [yes(0.99), yes(0.2), yes(0.1), yes(0.2), yes(0.1)]
    scores = [{"information": 1.0}, *graded, {"5": 1.0}]
    answer = run(self_rag(ScriptedLLM([BOUGHT], scores), []), ASKED)
    told = [(values["passage"], values["part"]) for values in steps(answer, "relevance")]
    assert told == [(1, 1), (2, 2), (3, 1), (1, 2), (3, 2)]
    assert answer.text.endswith(f"\n\nThe documents do not say: {SECOND}")
    assert steps(answer, "parts")[1] == {"missing": (SECOND,)}
    assert answer.not_found == (NotFound(SECOND),)
    assert texts(answer.contexts) == [BOUGHT, FEE, SHIP], "all that was looked through for it"
    assert answer.grounded
    (sentence,) = answer.support
    assert answer.text[sentence.start : sentence.end] == f"{BOUGHT[:-1]} [1]."


@pytest.mark.parametrize(
    ("question", "text", "scores"),
    [
        (ASKED, f"{BOUGHT[:-1]} [1]. ✓\n\nThe documents do not say: {SECOND}\n", [yes(0.99)]),
        (ZH_ASKED, f"{PRICE_7[:-1]}[1]。 ✓\n\n文档中查不到：{ZH_SECOND}\n", [ja(0.99)]),
    ],
)
def test_the_terminal_shows_an_answer_of_self_rag_once(
    question: str, text: str, scores: list[Scores], capsys: pytest.CaptureFixture[str]
) -> None:
    scores = [{"information": 1.0, "信息": 1.0}, *scores, *[yes(0.1) | ja(0.1)] * 4]
    scores += [{"5": 1.0}]
    wrote = [BOUGHT if question == ASKED else PRICE_7]
    k = 3 if question == ASKED else 2
    scores = scores if k == 3 else [*scores[:4], scores[-1]]
    pieces: list[Piece] = []

    def stream(asked: str, on_step: OnStep, **_: object) -> Iterator[str | Answer]:
        for piece in self_rag(ScriptedLLM(wrote, scores), [], k).stream(asked):
            pieces.append(piece)
            if isinstance(piece, Step):
                on_step(piece)
            else:
                yield piece

    settings = SimpleNamespace(answer=SimpleNamespace(mode="self-rag"))
    rag = SimpleNamespace(stream=stream, settings=settings)
    print_answer(rag, question, {}, explain=False)  # type: ignore[arg-type]
    assert capsys.readouterr().out.startswith(text)
    assert len([piece for piece in pieces if isinstance(piece, str)]) == 1


def test_self_rag_grades_for_the_whole_where_no_part_is_held() -> None:
    scores = [{"information": 1.0}, *map(yes, (0.1, 0.2, 0.3, 0.1, 0.1, 0.1)), yes(0.1), yes(0.1)]
    llm = ScriptedLLM(["I do not know."], scores)
    answer = run(self_rag(llm, []), ASKED)
    assert not answer.grounded
    assert not llm.scores
    told = steps(answer, "relevance")
    assert ["part" in values for values in told] == [True] * 6 + [False] * 2
    assert [values["passage"] for values in told[-2:]] == [2, 3], "the two best for a part"


@pytest.mark.parametrize(
    ("sentence", "asked"),
    [
        ("2. 17 pounds", SECOND),
        ("1、1884年", FIRST),
        ("3. Never.", ASKED),
        ("17 pounds", ASKED),
        ("2.5 pounds", ASKED),
    ],
)
def test_what_a_sentence_is_to_answer(sentence: str, asked: str) -> None:
    assert asked_in(sentence, ASKED, (FIRST, SECOND)) == asked
    assert asked_in(sentence, ASKED, (SECOND,)) == ASKED


@pytest.mark.parametrize("graded", [False, True])
def test_the_bare_answer_to_a_part_is_held_against_that_part(graded: bool) -> None:
    reply = f"1. {BOUGHT}\n2. A handful of coins"
    full, useful = {"Fully supported": 1.0}, {"5": 1.0}
    if graded:
        llm = ScriptedLLM([reply], [{"information": 1.0}, *[yes(0.9)] * 2, yes(0), full, useful])
        answer = run(self_rag(llm, []), ASKED)
    else:
        llm = ScriptedLLM([reply], [yes(0.9), yes(0.9), full])
        bounds = Bounds(enough=0.8, min_answerable=0.5)
        rag = StandardRAG(tools(llm, [], 3), Grader(LogitChooser(llm)), bounds, "remove")
        answer = run(rag, ASKED)
        assert [one.marker for one in answer.citations] == [1, 2], "the bare one, too"
    assert not llm.scores
    (question,) = [m[1].content for m, choices in llm.scored if "Fully supported" in choices]
    assert f"Question: {SECOND}\nAnswer: A handful of coins\n" in question
    assert [each.rating for each in answer.support] == ["fully supported"] * 2


@pytest.mark.parametrize("graded", [False, True])
def test_a_part_of_whose_answer_nothing_is_left_is_missing(graded: bool) -> None:
    reply = f"1. {BOUGHT}\n2. Adults pay 99 pounds."
    if graded:
        scores = [{"information": 1.0}, *[yes(0.9)] * 2, yes(0), {"5": 1.0}]
        llm = ScriptedLLM([reply], scores)
        options = replace(OPTIONS, unsupported="remove")
        rag: Pipeline = SelfRAG(tools(llm, [], 3), Grader(LogitChooser(llm)), options)
    else:
        llm = ScriptedLLM([reply], [yes(0.9), yes(0.9)])
        bounds = Bounds(enough=0.8, min_answerable=0.5)
        rag = StandardRAG(tools(llm, [], 3), Grader(LogitChooser(llm)), bounds, "remove")
    answer = run(rag, ASKED)
    assert answer.text == f"1. {BOUGHT[:-1]} [1].\n\nThe documents do not say: {SECOND}"
    assert [one.marker for one in answer.citations] == [1]
    assert [each.question for each in answer.not_found] == [SECOND]


def test_the_best_of_each_come_first_and_none_twice() -> None:
    def found(asked: str, *numbers: int) -> list[Found]:
        return [Found(passage(number, "x"), asked) for number in numbers]

    both = interleaved([found("a", 1, 2, 3), found("b", 2, 4), found("c")])
    assert [(each.passage.chunk.id, each.asked) for each in both] == [
        (1, "a"), (2, "b"), (4, "b"), (3, "a"),
    ]  # fmt: skip
    assert interleaved([]) == []


@pytest.mark.parametrize("text", ["", "Druce did.", "The documents say: yes.", "文档中有。"])
def test_other_sentences_tell_nothing_missing(text: str) -> None:
    assert not tells_missing(text)
