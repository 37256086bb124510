"""A section in a few sentences that the language model writes from chosen ones, and their check.

Each sentence has to be supported by what was chosen, and gets its citation. One that is not is
replaced by the sentence of the document that is closest to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localrag.documents.tables import named_rows
from localrag.languages import CODES, LANGUAGES, LanguageCode, is_code
from localrag.models.llms.base import LLM, Options
from localrag.prompts import render
from localrag.rag.citations import Attributor, CitedStream, Tokenize
from localrag.rag.faithfulness import Passages, checked
from localrag.rag.grading import Grade, Grader, Reading
from localrag.rag.refusals import refuses
from localrag.rag.statements import Statements, words
from localrag.summaries.records import Written
from localrag.text.language import detect
from localrag.types import Cited, ScoredChunk, Statement

_MOST_TOKENS = 200
"""Of what is written about a section."""
_SENTENCES_EACH = 2
"""How many chosen sentences a written one stands for, about."""

Attribute = Callable[[Sequence[ScoredChunk]], Attributor]


def language_of(sentences: Sequence[ScoredChunk]) -> LanguageCode:
    """The language in which a section is summed up: its own."""
    language = detect("\n".join(sentence.chunk.text for sentence in sentences))
    return language if is_code(language) else CODES[0]


def _space(text: str) -> str:
    """What stands behind a sentence in the language of a text."""
    language = detect(text)
    return LANGUAGES[language if is_code(language) else CODES[0]].space


def quoted(sentences: Sequence[ScoredChunk], attributor: Attributor) -> Statements:
    """The sentences themselves as statements, each with its citation."""
    return tuple(_own(number, sentences, attributor) for number in range(1, len(sentences) + 1))


def _own(number: int, sentences: Sequence[ScoredChunk], attributor: Attributor) -> Statement:
    text = sentences[number - 1].chunk.text.strip()
    gap = _space(text)
    mark = Cited(len(text), attributor.cite(number, text), gap, behind=True)
    return Statement(
        f"{text}{gap}", citations=(mark,), rating="fully supported", share=1.0, quoted=True
    )


def joined(sentences: Sequence[ScoredChunk]) -> ScoredChunk:
    """The sentences as one passage, as the model reads them; rows have the names of columns."""
    first = sentences[0]
    lines = [
        next((text for _, _, text in named_rows(sentence.chunk)), sentence.chunk.text).strip()
        for sentence in sentences
    ]
    return replace(first, chunk=replace(first.chunk, text="\n".join(lines), columns=()))


@dataclass(frozen=True, slots=True)
class Writer:
    """Writes about sections."""

    llm: LLM
    grader: Grader
    attribute: Attribute
    tokenize: Tokenize
    sendable: Callable[[Sequence[ScoredChunk]], Sequence[ScoredChunk]] = tuple
    """Those of some passages that the model may read."""

    def write(self, sentences: Sequence[ScoredChunk], about: str) -> Written:
        """What the model says of these, sentence by sentence, checked. Raises `GenerationError`.

        Nothing where it wrote nothing, or that there is nothing to say.
        """
        started = time.perf_counter()
        language = language_of(sentences)
        question = about or render("summary_question", language)
        task = render(
            "summary_section",
            language,
            question=question,
            count=str(max(1, round(len(sentences) / _SENTENCES_EACH))),
        )
        passages = tuple(self.sendable([joined(sentences)]))
        if not passages:
            return Written((), 0)
        reading = Reading(language, passages)
        options = Options(max_tokens=_MOST_TOKENS, keep=1)
        attributor = self.attribute(sentences)
        numbers = range(1, len(sentences) + 1)
        stream = CitedStream(
            attributor.only(numbers, alone=True), question, render("refusal", language)
        )
        for _ in stream.checked(self.llm.stream(reading.messages(task), options)):
            pass
        statements = stream.statements
        if not words(statements).strip() or refuses(words(statements)):
            return Written((), 0, time.perf_counter() - started)

        def ask(sentence: str) -> Grade:
            return self.grader.support(question, sentence, reading)

        checking = checked(statements, Passages(question, sentences, self.tokenize), ask)
        try:
            while True:
                next(checking)
        except StopIteration as stop:
            rated: Statements = stop.value
        supported_statements, replaced = self._supported(rated, sentences, attributor)
        return Written(supported_statements, replaced, time.perf_counter() - started)

    def _supported(
        self, rated: Statements, sentences: Sequence[ScoredChunk], attributor: Attributor
    ) -> tuple[Statements, int]:
        """The supported statements, each with a citation; for others, the document's own."""
        numbers = range(1, len(sentences) + 1)
        result: list[Statement] = []
        used: set[int] = set()
        replaced = 0
        for statement in rated:
            if not statement.has_words:
                continue
            number = attributor.closest(numbers, statement.text)
            if statement.rating == "fully supported":
                result.append(_cited(statement, number, attributor))
                used.update(mark.citation.marker for mark in result[-1].citations)
                continue
            replaced += 1
            if number not in used:  # else it is told already
                used.add(number)
                result.append(_own(number, sentences, attributor))
        return tuple(result), replaced


def _cited(statement: Statement, number: int, attributor: Attributor) -> Statement:
    """The statement with the closest sentence as its citation, if it has none; on one line."""
    body = statement.text.rstrip()
    gap = _space(body)
    marks = statement.citations or (
        Cited(len(body), attributor.cite(number, body), gap, behind=True),
    )
    marks = tuple(replace(mark, at=min(mark.at, len(body))) for mark in marks)
    return replace(statement, text=f"{body}{gap}", citations=marks)
