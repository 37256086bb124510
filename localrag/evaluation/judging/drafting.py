"""Drafts of questions with reference answers from a person's own documents, for them to edit.

A small model writes questions that nobody would ask and answers that the passage does not give.
So every draft is checked: an answerable one must be found in its passage, an unanswerable one in
none of those that the search brings. What fails is dropped and the next passage tried.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from localrag.evaluation.dataset import Context
from localrag.evaluation.judging.judge import Judge
from localrag.evaluation.tokens import tokens
from localrag.languages import LanguageCode
from localrag.models.llms.base import LLM
from localrag.models.llms.structured import (
    object_schema,
    text_schema,
    written_object,
)
from localrag.prompts import render
from localrag.rag.refusals import refuses
from localrag.text.language import main_language
from localrag.types import Message

SHORTEST, LONGEST = 80, 2400
"""Characters of a passage worth asking about."""
TRIES, FEWEST_TRIES = 5, 15
"""Passages tried for each question wanted, and for all of a kind at least."""
IN_PASSAGE = 0.7
"""Of an answer's tokens, so many must stand in the passage (or in the question)."""

_REPLY_TOKENS = 200
_GOLDEN = 0.6180339887498949
_SPEAKS_OF_TEXT = re.compile(
    r"\b(?:this|the|above|given) (?:passage|text|document|excerpt|paragraph|article)\b"
    r"|\baccording to\b|(?:本文|文中|上文|这段|该段|短文|材料|资料中|文章)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile("thorn mill|石桥磨坊", re.IGNORECASE)
_QUESTION = text_schema(4, 160)
_ANSWERABLE_SCHEMA = object_schema(question=_QUESTION, answer=text_schema(1, 300))
_UNANSWERABLE_SCHEMA = object_schema(question=_QUESTION)


@dataclass(frozen=True, slots=True)
class Draft:
    """A question to be edited; `answer` of an unanswerable one is the refusal."""

    question: str
    answer: str
    answerable: bool
    language: LanguageCode
    passage: Context

    def row(self) -> dict[str, object]:
        """A line of a data set, with the passage that it was made from for whoever edits it."""
        return {
            "question": self.question,
            "ideal_answer": self.answer,
            "has_answer": self.answerable,
            "language": self.language,
            "source": self.passage.source,
            "page": self.passage.first_page,
            "passage": self.passage.text,
        }


def draft(
    passages: Sequence[Context],
    llm: LLM,
    judge: Judge,
    find: Callable[[str], Sequence[str]],
    *,
    answerable: int,
    unanswerable: int,
) -> Iterator[Draft]:
    """So many drafts of each kind, or fewer where the passages do not give more.

    `find` brings the passages that a search finds for a question.
    """
    usable = [passage for passage in passages if SHORTEST <= len(passage.text.strip()) <= LONGEST]
    order = spread(usable)
    keys: set[str] = set()
    for kind, count in ((True, answerable), (False, unanswerable)):
        # The unanswerable ones begin elsewhere, so that not both kinds ask about the same.
        start = 0 if kind else min(answerable, len(order) // 2)
        turned = [*order[start:], *order[:start]]
        draft_count = 0
        for place, passage in enumerate(turned[: max(count * TRIES, FEWEST_TRIES)]):
            if draft_count == count:
                break
            candidate = (
                _answerable(passage, llm, judge)
                if kind
                else _unanswerable(passage, place, llm, judge, find)
            )
            key = " ".join(tokens(candidate.question)) if candidate else ""
            if candidate and key not in keys:
                keys.add(key)
                draft_count += 1
                yield candidate


def spread(passages: Sequence[Context]) -> list[Context]:
    """All passages in an order of which every beginning is spread evenly over them."""
    places = sorted(range(len(passages)), key=lambda place: place * _GOLDEN % 1.0)
    return [passages[place] for place in places]


def _answerable(passage: Context, llm: LLM, judge: Judge) -> Draft | None:
    language = main_language(passage.text)
    task = render("eval_draft_passage", language, passage=passage.text)
    value = _write_object("eval_draft", task, language, llm, _ANSWERABLE_SCHEMA)
    question, answer = _text(value, "question"), _text(value, "answer")
    if not _is_question(question) or not answer or refuses(answer):
        return None
    if _copied(question, passage.text):
        return None
    known = set(tokens(passage.text)) | set(tokens(question))
    words = tokens(answer)
    if not words or sum(token in known for token in words) < IN_PASSAGE * len(words):
        return None
    if not judge.answerable(question, passage.text, language).verdict:
        return None
    return Draft(question, answer, True, language, passage)


def _unanswerable(
    passage: Context, number: int, llm: LLM, judge: Judge, find: Callable[[str], Sequence[str]]
) -> Draft | None:
    language = main_language(passage.text)
    # Left to itself a small model asks for what the passage says; told what to ask for, it does.
    details = render("eval_draft_details", language).splitlines()
    task = render(
        "eval_draft_missing", language, passage=passage.text, detail=details[number % len(details)]
    )
    value = _write_object("eval_draft_unanswerable", task, language, llm, _UNANSWERABLE_SCHEMA)
    question = _text(value, "question")
    if not _is_question(question) or _copied(question, passage.text):
        return None
    for text in (passage.text, *find(question)):
        # Only a clear no will do: an answerable question taken for unanswerable is worse than none.
        if judge.answerable(question, text, language).verdict is not False:
            return None
    return Draft(question, render("refusal", language), False, language, passage)


def _write_object(
    name: str, task: str, language: LanguageCode, llm: LLM, schema: Mapping[str, object]
) -> dict[str, object]:
    messages = [
        Message("system", render(f"{name}_system", language)),
        Message("user", task),
    ]
    return written_object(llm, messages, schema, _REPLY_TOKENS)


def _text(value: Mapping[str, object], name: str) -> str:
    text = value.get(name)
    return " ".join(text.split()) if isinstance(text, str) else ""


def _is_question(text: str) -> bool:
    """Whether a person who has not seen the passage could ask this."""
    return text.endswith(("?", "？")) and not _SPEAKS_OF_TEXT.search(text)


def _copied(question: str, passage: str) -> bool:
    """Whether the question is about the prompts' example instead of the passage."""
    match = _EXAMPLE.search(question)
    return match is not None and match[0].lower() not in passage.lower()
