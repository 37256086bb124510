"""A fact that leads to the other: asked for first, then both passages are answered from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from fakes import HashEmbedder
from scripted_llm import ScriptedLLM
from test_self_rag import OPTIONS

from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.presentation.steps import decision
from localrag.rag.base import Pipeline, Toolkit
from localrag.rag.grading import Grader
from localrag.rag.reading import Bounds
from localrag.rag.self_rag import SelfRAG
from localrag.rag.standard import StandardRAG
from localrag.text.tokenize import Tokenizer
from localrag.types import Answer, Chunk, Place, ScoredChunk

HARROW = "The Harrow Bridge was designed by the engineer Ida Kvistgaard."
IDA = "Ida Kvistgaard was born in the fishing village of Runmark."
TOLLS = "On the Harrow Bridge a cart paid four pence."
ASKED = "Where was the engineer who designed the Harrow Bridge born?"
INNER = "Who designed the Harrow Bridge?"
OUTER = "Where was Ida Kvistgaard born?"
WROTE = f"1. {HARROW}\n2. {IDA}"

Scores = Mapping[str, float]
YES: Scores = {"Yes": 0.99, "No": 0.01}
NO: Scores = {"Yes": 0.1, "No": 0.9}


def passage(number: int, text: str) -> ScoredChunk:
    chunk = Chunk(number, "d", number, text, "", 1, 1, 0, len(text))
    return ScoredChunk(chunk, 1 - number / 100, "bridges.pdf")


PASSAGES = {text: passage(number, text) for number, text in enumerate((HARROW, IDA, TOLLS), 1)}
FOUND = {ASKED: (TOLLS, HARROW), OUTER: (IDA, HARROW)}


def run(
    llm: ScriptedLLM,
    question: str = ASKED,
    found: Mapping[str, Sequence[str]] = FOUND,
    *,
    logits: bool = True,
    self_rag: bool = False,
    budget: float = 0.0,
) -> Answer:
    tools = Toolkit(
        retrieve=lambda asked, k: [PASSAGES[text] for text in found[asked]][:k],
        llm=llm,
        tokenize=Tokenizer(None),
        embedder=HashEmbedder(),
        place_of=lambda chunk, offset: Place(0, number=5),
        k=2,
        generation=Options(max_tokens=100),
    )
    chooser = LogitChooser(llm) if logits else WrittenChooser(llm)
    rag: Pipeline = StandardRAG(tools, Grader(chooser), Bounds(enough=0.8, min_answerable=0.5))
    if self_rag:
        options = replace(OPTIONS, enough=0.8, strict=True, budget_seconds=budget)
        rag = SelfRAG(tools, Grader(chooser), options)
    *pieces, answer = rag.stream(question)
    assert isinstance(answer, Answer)
    assert "".join(piece for piece in pieces if isinstance(piece, str)).strip() == answer.text
    return answer


def asked(llm: ScriptedLLM) -> list[str]:
    """The questions that passages were graded for, in their order."""
    prompts = [messages[1].content for messages, _ in llm.scored]
    return [text.split("Question: ")[1].split("\n")[0] for text in prompts]


def test_the_fact_that_leads_to_the_other_is_found_first_and_both_are_cited() -> None:
    llm = ScriptedLLM(["Ida Kvistgaard", WROTE], [NO, YES, NO, YES])
    answer = run(llm)
    assert asked(llm) == [INNER, INNER, ASKED, OUTER]
    assert [each.chunk.text for each in answer.contexts] == [TOLLS, HARROW, IDA]
    assert [(each.marker, each.quote) for each in answer.citations] == [(2, HARROW), (3, IDA)]
    assert answer.grounded
    told = [decision(step, "en") for step in answer.trace]
    assert f"{INNER} → Ida Kvistgaard" in told
    graded = [step.values for step in answer.trace if step.kind == "relevance"]
    assert [(step["passage"], step.get("part")) for step in graded] == [
        (1, 1), (2, 1), (2, None), (3, 2),
    ]  # fmt: skip
    (first, options), (written, _) = llm.history
    assert (options.max_tokens, options.keep) == (40, 1)
    assert INNER in first[1].content
    read = f"{written[0].content}\n{written[1].content}"
    assert HARROW in read
    assert IDA in read
    assert TOLLS not in read
    assert f"1. {INNER}\n2. {OUTER}" in written[1].content


def test_where_one_passage_is_enough_for_the_whole_it_is_answered_from() -> None:
    llm = ScriptedLLM([HARROW], [NO, YES, YES, NO, YES])
    answer = run(llm)
    assert asked(llm) == [INNER, INNER, ASKED, ASKED, ASKED]
    assert answer.grounded
    assert not llm.replies


@pytest.mark.parametrize(
    ("replies", "grades"),
    [
        ([], [NO, NO, NO, NO]),  # nobody knows who designed it
        (["An engineer."], [NO, YES, NO, NO, NO]),  # that is no name
        (["Ola Nordmann"], [NO, YES, NO, NO, NO]),  # the passage does not have it
    ],
)
def test_otherwise_the_question_is_asked_as_it_stands(
    replies: list[str], grades: list[Scores]
) -> None:
    llm = ScriptedLLM(replies, grades)
    answer = run(llm)
    assert answer.text == "The documents do not contain the answer to this question."
    assert not llm.scores
    assert asked(llm)[-2:] == [ASKED, ASKED]
    assert [each.chunk.text for each in answer.contexts] == [TOLLS, HARROW]


def test_another_passage_may_be_enough_for_the_whole() -> None:
    llm = ScriptedLLM(["Ida Kvistgaard", TOLLS], [NO, YES, NO, NO, NO, YES, YES])
    answer = run(llm)
    assert asked(llm) == [INNER, INNER, ASKED, OUTER, OUTER, ASKED, ASKED]
    assert [each.quote for each in answer.citations] == [TOLLS]


@pytest.mark.parametrize("self_rag", [False, True])
def test_what_is_known_is_said_where_the_rest_is_not(self_rag: bool) -> None:
    scores: list[Scores] = [NO, YES, NO, NO, NO, NO, {"5": 1.0}]
    llm = ScriptedLLM(["Ida Kvistgaard", HARROW], scores if self_rag else scores[:-1])
    answer = run(llm, self_rag=self_rag)
    assert not llm.scores
    assert answer.text.endswith(f"].\n\nThe documents do not say: {OUTER}")
    assert [each.quote for each in answer.citations] == [HARROW]
    assert [each.question for each in answer.not_found] == [OUTER]
    assert {"missing": (OUTER,)} in [step.values for step in answer.trace]
    assert f"Question: {INNER}\n" in llm.history[-1][0][1].content


def test_self_rag_does_the_same() -> None:
    llm = ScriptedLLM(["Ida Kvistgaard", WROTE], [NO, YES, NO, YES, {"5": 1.0}])
    answer = run(llm, self_rag=True)
    assert not llm.scores
    assert [(each.marker, each.quote) for each in answer.citations] == [(1, HARROW), (2, IDA)]
    assert answer.grounded
    written = llm.history[-1][0][1].content
    assert f"1. {INNER}\n2. {OUTER}" in written


def test_where_time_is_short_it_does_not() -> None:
    llm = ScriptedLLM([], [NO, NO])
    assert not run(llm, self_rag=True, budget=1000.0).grounded
    assert asked(llm) == [ASKED, ASKED]


def test_a_model_without_logits_is_not_asked_more() -> None:
    llm = ScriptedLLM(['{"answer": "No"}'])
    assert not run(llm, logits=False).grounded
    assert len(llm.history) == 1
