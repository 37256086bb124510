"""Questions that ask for several things, where no passage was enough for the whole.

The language model proposes the parts, each with what it is about; they are kept only if they are in
the person's own words. Each is searched and judged for itself, and what the documents do not hold
is said in a sentence of its own, so that half an answer never looks like a whole one.

A question may also tell a story before it asks, with which the grade of the right passage sinks. It
is read without that. Of 12 such questions of others six were answered rightly, five of which had
been refused; three stayed refused and three wrong. The plain way: two, nine and one
(`benchmarks/log/2026-11.md`, 2026-11-29, "questions with a story").
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from localrag.languages import LanguageCode
from localrag.models.llms.base import LLM
from localrag.models.llms.structured import object_schema, proposal
from localrag.prompts import render, with_examples
from localrag.rag.base import Parts, Toolkit, finished, source_documents
from localrag.rag.citations import Tokenize
from localrag.rag.conversation import Turn, standalone
from localrag.rag.reading import Evidence, PassageReader, passage_of
from localrag.text.language import answer_language
from localrag.text.sentences import told_and_asked
from localrag.types import Answer, Citation, LeftOut, NotFound, ScoredChunk, Statement, Step

MOST = 5
"""Parts of a question."""

_MOSTLY = 0.75
"""Share of the terms of what is asked that its parts have, or else something is lost."""

_FEWEST = 2
"""Terms of a part, and of a question without its story: "How much?" is none."""

_MOST_READ = 2
"""Sections that are read for a part."""

_MOST_TOKENS = 160


class _Proposal(msgspec.Struct):
    questions: list[str] = []


_SCHEMA = object_schema(questions={"type": "array", "items": {"type": "string"}, "maxItems": MOST})


def proposed(question: str, llm: LLM, tokenize: Tokenize) -> Parts:
    """The parts of a question as the model tells them, none where it asks for one thing.

    Without what the question tells before it asks, see `in_context`. None either where they leave
    out much of what is asked. Raises `GenerationError` from the model.
    """
    _, asking = told_and_asked(question)
    messages = with_examples("parts", answer_language(question), asking)
    written = proposal(llm, messages, _Proposal, _SCHEMA, _MOST_TOKENS).questions
    terms = frozenset(tokenize(asking))
    parts = tuple(dict.fromkeys(" ".join(part.split()) for part in written))
    own = [frozenset(tokenize(part)) for part in parts]
    # "How much?" alone would be searched for without what it is about.
    are_parts = len(parts) > 1 and all(len(part) >= _FEWEST and part <= terms for part in own)
    are_all = len(frozenset[str]().union(*own) & terms) >= _MOSTLY * len(terms)
    return parts if are_parts and are_all else ()


def in_context(part: str, question: str) -> str:
    """A part of a question behind what that tells before it asks."""
    told, _ = told_and_asked(question)
    return f"{told} {part}".strip()


def read(
    question: str,
    chunks: list[ScoredChunk],
    language: LanguageCode,
    tools: Toolkit,
    reader: PassageReader,
) -> Generator[Step, None, tuple[Evidence | None, list[ScoredChunk], Parts]]:
    """What answers the parts that the documents hold; all passages; the parts that are missing.

    None, the passages as they were and no parts where the question has none, or none is held.
    """
    if question not in tools.parts:  # once for all documents that are asked the same
        tools.parts[question] = proposed(question, tools.llm, tools.tokenize)
    parts = tools.parts[question]
    if not parts:
        return None, chunks, ()
    yield Step("parts", {"parts": parts}, None, 0.0)
    passages, places = list(chunks), dict[str, tuple[int, ...]]()
    for part in parts:
        asked = in_context(part, question)
        hits = yield from tools.find(asked)
        hits = tools.fitting(hits, tools.room(question), passage_of)[:_MOST_READ]
        evidence = yield from reader.read(asked, hits, language)
        if evidence is not None:
            places[part] = tuple(_place(hits[number - 1], passages) for number in evidence.numbers)
    if not places:
        return None, chunks, ()
    missing = tuple(part for part in parts if part not in places)
    if missing:
        yield Step("parts", {"missing": missing}, None, 0.0)
    text = " ".join(places) if missing else question
    numbers = sorted({number for numbers in places.values() for number in numbers})
    return reader.several(text, numbers, passages, language), passages, missing


def read_without_story(
    question: str,
    chunks: Sequence[ScoredChunk],
    language: LanguageCode,
    tools: Toolkit,
    reader: PassageReader,
) -> Generator[Step, None, Evidence | None]:
    """What answers the sentences that ask, of a question that tells something before them.

    Among the passages of the whole question, for it names what is meant. None for another question,
    and for one that has parts.
    """
    told, asking = told_and_asked(question)
    is_short = len(set(tools.tokenize(asking))) < _FEWEST
    if not told or is_short or tools.parts.get(question):
        return None
    yield Step("parts", {"parts": (asking,)}, None, 0.0)
    return (yield from reader.read(asking, chunks, language))


def _place(passage: ScoredChunk, passages: list[ScoredChunk]) -> int:
    """The number of a passage, from 1, among those that there are; it is added where it is new."""
    chunk = passage.chunk
    for number, other in enumerate(passages, start=1):
        if (other.chunk.document_id, other.chunk.start) == (chunk.document_id, chunk.start):
            return number
    passages.append(passage)
    return len(passages)


def resolved(part: str, last: Turn | None, llm: LLM, tokenize: Tokenize) -> str:
    """A part as it can be asked by itself: "they" are whom the part before it is about.

    Raises `GenerationError` from the model.
    """
    text = standalone(part, last, llm, tokenize) if last else part
    # Both in a row would ask again what the first asks.
    return part if last and last.question in text else text


def opening(name: str) -> str:
    """How a line begins that says something of what is named: "Marsh: ", "What does it cost? "."""
    return name if name.endswith("？") else f"{name} " if name.endswith("?") else f"{name}: "


@dataclass(slots=True)
class JoinedAnswer:
    """The answers to the parts of a question as one: a line for each, with its own citations."""

    question: str
    statements: list[Statement] = field(default_factory=list)
    contexts: list[ScoredChunk] = field(default_factory=list)
    missing: list[NotFound] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    documents: set[str] = field(default_factory=set)
    """Those that what is told comes from, whatever it cites."""

    def add(self, part: str, asked: str, answer: Answer) -> list[Statement]:
        """What is told of a part, by the words that it was `asked` in.

        Nothing where the documents do not hold it.
        """

        def numbered(citation: Citation) -> Citation:
            number = _place(answer.contexts[citation.marker - 1], self.contexts)
            return replace(citation, marker=number)

        self.left_out += answer.left_out
        if not answer.grounded:
            reason = next(iter(answer.not_found), NotFound(part))
            closest = numbered(reason.closest) if reason.closest else None
            self.missing.append(replace(reason, question=part, closest=closest))
            return []
        self.documents |= source_documents(answer)
        line = "\n- " if self.statements else "- "
        lead, told = f"{line}{opening(asked)}", list[Statement]()
        for statement in answer.statements:
            text = statement.text.rstrip()
            gap = statement.text[len(text) :]
            marks = tuple(
                replace(mark, at=len(lead) + mark.at, citation=numbered(mark.citation))
                for mark in statement.citations
            )
            gap = "\n  " if "\n" in gap else gap
            told.append(replace(statement, text=f"{lead}{text}{gap}", citations=marks))
            lead = ""
        told[-1] = replace(told[-1], text=told[-1].text.rstrip())
        self.statements += told
        return told

    def finished(self) -> Answer:
        """The whole, behind which stands what is missing."""
        answer = finished(self.question, self.statements, self.contexts, grounded=True)
        return replace(
            answer,
            not_found=tuple(self.missing),
            left_out=tuple(self.left_out),
            documents=tuple(sorted(self.documents)),
        )


def lacking(missing: Collection[str], language: LanguageCode) -> list[Statement]:
    """A statement for each part that is missing."""
    return [
        Statement(
            f"\n\n{render('missing_part', language, part=part)}", "missing", part=part, copied=()
        )
        for part in missing
    ]
