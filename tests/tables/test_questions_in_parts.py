"""Questions that ask for several things: each is asked for by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from scripted_llm import ScriptedLLM
from tables.test_answering import TOKENIZER, Filled, access, cite
from tables.test_questions_that_compare import MARSH, replying

from localrag.models.llms.choices import LogitChooser
from localrag.tables import plan
from localrag.tables.answering import LibraryAccess, answered
from localrag.tables.records import Reply
from localrag.types import Answer, Message, Statement, Step

QUESTION = "When does Marsh end, and what notice is due for Marsh?"
PARTS = ("When does Marsh end?", "What notice is due for Marsh?")


class Probing(LogitChooser):
    """A chooser whose model's state gives these probabilities; of what is not named, 0."""

    def __init__(self, llm: ScriptedLLM, **probabilities: float) -> None:
        super().__init__(llm)
        self.probabilities = probabilities

    def probe(
        self, decisions: Sequence[str], messages: Sequence[Message], *, keep: int = 0
    ) -> list[float]:
        return [self.probabilities.get(decision, 0.0) for decision in decisions]


def run(
    llm: ScriptedLLM, library: LibraryAccess, question: str = QUESTION
) -> tuple[str, Answer | None, list[Step]]:
    text, answer, steps = "", None, []
    chooser = Probing(llm, several=0.9)
    for piece in answered(question, library, chooser, llm, TOKENIZER):
        if isinstance(piece, Statement):
            text += piece.written
        elif isinstance(piece, Answer):
            answer = piece
        else:
            steps.append(piece)
    return text, answer, steps


def parts(*questions: str) -> str:
    return json.dumps({"questions": questions})


@pytest.mark.parametrize(
    ("probabilities", "operation"),
    [
        ({"several": 0.9}, "SEVERAL"),
        ({"several": 0.9, "compares": 0.95}, "COMPARE"),
        ({"several": 0.9, "about_all": 0.9, "LIST": 0.5}, "LIST"),
        ({"several": plan.SEVERAL - 0.01}, "LOOKUP"),
    ],
)
def test_what_a_question_needs_is_the_likeliest(
    probabilities: dict[str, float], operation: str
) -> None:
    scope = plan.scope(QUESTION, Probing(ScriptedLLM(), **probabilities))
    assert scope.operation == operation


def test_each_part_is_asked_for_by_itself_and_none_is_taken_apart_again() -> None:
    ask = replying({PARTS[0]: "On 3 May 2026.", PARTS[1]: "Eight weeks."})
    library = access(Filled([]), hits=[], ask=ask)
    text, answer, steps = run(ScriptedLLM([parts(*PARTS)]), library)
    assert text == f"- {PARTS[0]} On 3 May 2026. [1]\n- {PARTS[1]} Eight weeks. [1]\n"
    assert answer is not None
    assert answer.grounded
    assert not answer.not_found
    assert [step.kind for step in steps] == ["parts", "cell", "cell"]
    assert library.parts == {QUESTION: PARTS, PARTS[0]: (), PARTS[1]: ()}


def test_a_part_is_asked_behind_the_story_and_in_the_light_of_the_part_before_it() -> None:
    asked: list[str] = []

    def ask(question: str, document: str) -> Reply:
        asked.append(question)
        return replying({question: f"Reply {len(asked)}."})(question, document)

    question = (
        "Marsh has rung again. How long does Marsh take, and what monthly fee do they charge?"
    )
    proposal = parts("How long does Marsh take?", "What monthly fee do they charge?")
    llm = ScriptedLLM([proposal, "What monthly fee does Marsh charge?"])
    text, _, _ = run(llm, access(Filled([]), hits=[], ask=ask), question)
    assert asked == [
        "Marsh has rung again. How long does Marsh take?",
        "Marsh has rung again. What monthly fee does Marsh charge?",
    ]
    assert text == (
        "- How long does Marsh take? Reply 1. [1]\n"
        "- What monthly fee do they charge? Reply 2. [1]\n"
    )


def test_a_part_that_the_documents_do_not_hold_is_said() -> None:
    library = access(Filled([]), hits=[], ask=replying({PARTS[1]: "Eight weeks."}))
    text, answer, _ = run(ScriptedLLM([parts(*PARTS)]), library)
    assert text == (f"- {PARTS[1]} Eight weeks. [1]\n\n\nThe documents do not say: {PARTS[0]}")
    assert answer is not None
    assert [missing.question for missing in answer.not_found] == [PARTS[0]]


@pytest.mark.parametrize("proposal", [parts(QUESTION), parts("How much is it?", "Why?"), "no JSON"])
def test_a_question_without_parts_is_left_to_others(proposal: str) -> None:
    library = access(Filled([]), hits=[])
    assert run(ScriptedLLM([proposal]), library) == ("", None, [])
    assert library.parts == {QUESTION: ()}


def test_a_question_of_which_no_part_is_held_is_left_to_others() -> None:
    text, answer, steps = run(ScriptedLLM([parts(*PARTS)]), access(Filled([]), hits=[]))
    assert (text, answer) == ("", None)
    assert [step.values.get("state") for step in steps] == [None, "not stated", "not stated"]


def test_a_reply_whose_document_is_removed_meanwhile_is_not_told() -> None:
    ask = replying({PARTS[0]: "On 3 May 2026.", PARTS[1]: "Eight weeks."}, MARSH)
    gone = partial(cite, gone=("d", len(PARTS[0])))
    library = replace(
        access(Filled([]), hits=[], ask=ask),
        cite=gone,
        records=lambda: [SimpleNamespace(sources=(MARSH,), id="d")],  # type: ignore[list-item]
    )
    assert run(ScriptedLLM([parts(*PARTS)]), library)[:2] == ("", None)
