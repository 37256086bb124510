"""Answers that do what a document says, in place of answering the question.

A document is read as it stands: an honest form says "answer only section B", and what it says
may be what was asked. So nothing is taken out beforehand. The finished answer is checked
against passages and question: where words of it stand nowhere but in sentences that could steer
a model and do not touch the question, it is written again without those sentences, and the
reader is told before the answer. The same is tried where nothing was answered and a passage that
was read has such a sentence, for documents can ask for that too. Where no such sentence is among
the passages, pieces of the answer go through as they are written. The first prompts are always as
they would be without this module.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from localrag.documents.tables import shown_text
from localrag.rag.base import Toolkit
from localrag.rag.grading import Grader, Reading
from localrag.rag.statements import words
from localrag.text.instructions import left, may_steer
from localrag.text.language import answer_language, detect
from localrag.text.sentences import Span
from localrag.types import Answer, Chunk, Columns, LeftOut, Place, ScoredChunk

SHARED = 0.2
"""A sentence with this share of the question's terms touches it."""
ANSWERS = 0.6
"""So do sentences from which alone the model would answer with this probability: "押金" is asked
for where a contract says "保证金". Orders came to .58 at most (`benchmarks/injections.md`)."""


GAP = "[…]"
"""Where a `Screen` took something out."""


class UntrustedPassages:
    """The passages of one question, and the sentences in them that could steer a model."""

    def __init__(self, tools: Toolkit, grader: Grader) -> None:
        self._tools = tools
        self._grader = grader
        self._found: dict[tuple[str, int], list[ScoredChunk]] = {}
        self._originals: dict[int, ScoredChunk] = {}
        self._stays: dict[int, tuple[Span, ...]] = {}
        self._steering: dict[LeftOut, list[Span]] = {}
        self._without: dict[int, Chunk] = {}
        self.left_out: tuple[LeftOut, ...] = ()

    @property
    def suspicious(self) -> bool:
        """Whether a sentence was found that could steer a model and does not touch the question."""
        return bool(self._steering)

    def steer(self, seen: Collection[int] | None) -> bool:
        """Whether such a sentence is in one of these chunks, by their ids; None: in any."""
        return any(seen is None or sentence.chunk_id in seen for sentence in self._steering)

    def retrieve(self, question: str, k: int) -> list[ScoredChunk]:
        """What is found, as it stands; after `leave_out` without what was left out."""
        if (question, k) not in self._found:
            self._found[question, k] = self._tools.retrieve(question, k)
            for hit in self._found[question, k]:
                self._look(question, hit)
        read = (
            replace(hit, chunk=self._without.get(hit.chunk.id, hit.chunk))
            for hit in self._found[question, k]
        )
        return [hit for hit in read if hit.chunk.text]

    def place_of(self, chunk: Chunk, offset: int) -> Place:
        """Where a code point of a passage as it was read stands."""
        if chunk.id not in self._without:
            return self._tools.place_of(chunk, offset)
        original = self._originals[chunk.id].chunk
        for start, end in self._stays[chunk.id]:
            if offset < end - start:
                return self._tools.place_of(original, start + offset)
            offset -= end - start
        return self._tools.place_of(original, len(original.text))

    def followed(self, answer: Answer) -> tuple[LeftOut, ...]:
        """The sentences that steer in which alone some words of the answer stand."""
        read = [replace(hit, chunk=self._read(hit.chunk.id)[0]) for hit in answer.contexts]
        written = self._terms(_by_model(answer)) - self._terms(answer.question)
        for hit in read:
            context = f"{hit.chunk.title}\n{hit.chunk.heading}\n{shown_text(hit.chunk)}"
            written -= self._terms(context)
        return tuple(
            sentence for sentence in self._steering if written & self._terms(sentence.text)
        )

    def leave_out(self, question: str, followed: tuple[LeftOut, ...] = ()) -> bool:
        """Read no more what steers in the passages of those that were followed, or in all.

        False, and nothing is left out, where they may hold the answer themselves.
        """
        suspects = followed or tuple(self._steering)
        text = "\n".join(dict.fromkeys(sentence.text for sentence in suspects))
        chunk = replace(
            self._originals[suspects[0].chunk_id].chunk, text=text, heading="", columns=()
        )
        reading = Reading(answer_language(question), (ScoredChunk(chunk, 0.0, ""),))
        # The probe of the model's state has seen no orders.
        if self._grader.own_relevance(question, reading).value >= ANSWERS:
            return False
        chunks = {sentence.chunk_id for sentence in suspects}
        sentences = [sentence for sentence in self._steering if sentence.chunk_id in chunks]
        for number in chunks:
            self._without[number], self._stays[number] = self._read(number)
        # Neighbours share sentences.
        once: dict[tuple[str, int, str], LeftOut] = {}
        for sentence in sentences:
            once.setdefault((sentence.source, sentence.page, sentence.text), sentence)
        self.left_out = tuple(once.values())
        return True

    def finished(self, answer: Answer) -> Answer:
        """The answer with passages as they stand in their documents, and what was left out.

        It is not grounded where a sentence that was left out stands beside its quotation and
        speaks of what was asked: the document may mean the two together.
        """
        question_terms = self._terms(answer.question)
        doubtful = any(
            citation.chunk_id == sentence.chunk_id
            and question_terms & self._terms(sentence.text)
            and self._adjoin(sentence, citation.quote)
            for citation in answer.citations
            for sentence in self._steering
            if sentence.chunk_id in self._without
        )
        return replace(
            answer,
            contexts=tuple(
                replace(hit, chunk=self._originals[hit.chunk.id].chunk) for hit in answer.contexts
            ),
            left_out=self.left_out,
            grounded=answer.grounded and not doubtful,
        )

    def _look(self, question: str, hit: ScoredChunk) -> None:
        """Note what steers in a passage and shares too few terms with the question."""
        chunk, question_terms = hit.chunk, self._terms(question)
        if self._originals.setdefault(chunk.id, hit) is not hit:
            return

        def note(place: Place, text: str, *spans: Span) -> None:
            if not _touches(question_terms, self._terms(text)):
                sentence = LeftOut(chunk.id, hit.source, place.number, text, place)
                self._steering.setdefault(sentence, []).extend(spans)

        names = (name for header in chunk.columns for name in header.names)
        for context in dict.fromkeys((chunk.title, chunk.heading, *names)):
            if may_steer(context):
                note(self._tools.place_of(chunk, 0), context)
        for span in may_steer(chunk.text):
            place = self._tools.place_of(chunk, span.start)
            note(place, chunk.text[span.start : span.end], span)

    def _read(self, number: int) -> tuple[Chunk, tuple[Span, ...]]:
        """A passage without what steers, and what of it that is."""
        chunk = self._originals[number].chunk
        own = [
            (sentence, spans)
            for sentence, spans in self._steering.items()
            if sentence.chunk_id == number
        ]
        stays = left(chunk.text, sorted(span for _, spans in own for span in spans))
        text = "".join(chunk.text[start:end] for start, end in stays)
        gone = {sentence.text for sentence, _ in own}
        heading = "" if chunk.heading in gone else chunk.heading
        title = "" if chunk.title in gone else chunk.title
        columns = tuple(
            Columns(start, end, tuple("" if name in gone else name for name in header.names))
            for header in chunk.columns
            for start, end in [(_moved(header.start, stays), _moved(header.end, stays))]
            if start < end
        )
        return replace(chunk, text=text, heading=heading, columns=columns, title=title), stays

    def _adjoin(self, sentence: LeftOut, quote: str) -> bool:
        text = "".join(self._originals[sentence.chunk_id].chunk.text.split())
        first, second = "".join(sentence.text.split()), "".join(quote.split())
        return first + second in text or second + first in text

    def _terms(self, text: str) -> frozenset[str]:
        return frozenset(self._tools.tokenize(text))


class Screen:
    """Takes what could steer a model out of texts whose reader is not checked: another's model.

    A sentence that touches the question stays, as it does for the model of this machine; without
    a question, none does. Knows no model: what may hold the answer in other words goes, too.
    """

    def __init__(
        self,
        question: str,
        tokenize: Callable[[str], Sequence[str]],
        may_steer: Callable[[str], tuple[Span, ...]] = may_steer,
    ) -> None:
        self._tokenize = tokenize
        self._may_steer = may_steer
        self._asked = frozenset(tokenize(question))
        self._out: set[str] = set()

    @property
    def left_out(self) -> int:
        """How many sentences were taken out, of all texts."""
        return len(self._out)

    def shown(self, text: str, start: int = 0, end: int | None = None) -> str:
        """Code points `start:end`, judged in their sentences, with `GAP` for what goes."""
        begin, end = start, len(text) if end is None else end
        parts: list[str] = []
        for first, last in self._may_steer(text):
            sentence = text[first:last]
            if last <= start or end <= first:
                continue
            if _touches(self._asked, frozenset(self._tokenize(sentence))):
                continue
            self._out.add(sentence)
            if text[begin:first].strip() or not parts:
                parts += [text[begin:first], GAP]
            begin = last
        return "".join([*parts, text[begin:end]])


def _touches(question_terms: frozenset[str], terms: frozenset[str]) -> bool:
    return len(question_terms & terms) >= SHARED * max(1, len(question_terms))


def _moved(offset: int, stays: Sequence[Span]) -> int:
    """Where a code point of a passage stands once only these parts of it are left."""
    return sum(min(end, offset) - start for start, end in stays if start < offset)


def _by_model(answer: Answer) -> str:
    """The text of an answer without what localrag itself has added to it."""
    return words(statement for statement in answer.statements if not statement.part)


def refused(answer: Answer) -> bool:
    """Whether nothing was answered from the documents, or not in the language that was asked for.

    A name alone is in no language.
    """
    text = words(answer.statements)
    other = len(text.split()) > 3 and detect(text) not in (answer.language, "mixed")
    return other or not answer.grounded or answer.refuses
