"""An answer as text, for every edge alike: its markers, their numbers, and marks of sentences."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from localrag.messages import tr
from localrag.presentation.markdown import InertStream, changed, live_words, moved, words
from localrag.presentation.steps import rating_text
from localrag.types import Answer, Citation, Rating, Statement

_MARKS: dict[Rating, str] = {"fully supported": "✓", "partially supported": "~", "no support": "✗"}
_NOT_CHECKED = "?"
_PAGE_MARKS: dict[Rating, str] = {
    "fully supported": "supported",
    "partially supported": "partly",
    "no support": "not",
}


class Marker(NamedTuple):
    """A marker in a text: code points `start:end`, and the number of its citation from 0.

    None where the answer lists no citation for it.
    """

    start: int
    end: int
    citation: int | None


class Sentence(NamedTuple):
    """The words of a statement in a text: code points `start:end`."""

    start: int
    end: int
    statement: Statement


@dataclass(frozen=True, slots=True)
class Rendering:
    """An answer as text, with its markers and the words of its statements in order.

    `disarmed` is how many of its words would have been links, pictures or HTML.
    """

    text: str
    markers: tuple[Marker, ...]
    sentences: tuple[Sentence, ...]
    disarmed: int = 0

    @property
    def rated(self) -> list[tuple[str, Statement]]:
        """The statements that were checked, as they are written."""
        return [
            (self.text[s:e], sentence)
            for s, e, sentence in self.sentences
            if sentence.rating is not None
        ]

    @property
    def unchecked(self) -> list[str]:
        """The statements that assert something and were not."""
        return [self.text[s:e] for s, e, sentence in self.sentences if is_unchecked(sentence)]


def rendered(answer: Answer) -> Rendering:
    """The answer with its markers as they are."""
    listed: dict[tuple[int, str], int] = {}
    for number, citation in enumerate(answer.citations):
        listed.setdefault((citation.marker, citation.quote), number)
    done, markers = 0, []
    for statement in answer.statements:
        for run, cited in statement.runs():
            if cited is not None:
                place = listed.get((cited.marker, cited.quote))
                markers.append(Marker(done, done + len(run), place))
            done += len(run)
    sentences = tuple(Sentence(*extent) for extent in answer.extents())
    return Rendering(answer.text, tuple(markers), sentences)


def inert_rendering(shown: Rendering) -> Rendering:
    """The same for who renders Markdown: nothing in it is live."""
    changes = live_words(shown.text)

    def at(offset: int) -> int:
        return moved(offset, changes)

    return Rendering(
        changed(shown.text, changes),
        # A bracket that would begin a link is changed behind its marker.
        tuple(Marker(at(start), at(end - 1) + 1, number) for start, end, number in shown.markers),
        tuple(Sentence(at(start), at(end), sentence) for start, end, sentence in shown.sentences),
        words(shown.text, changes),
    )


def is_unchecked(statement: Statement) -> bool:
    """Whether it asserts something, and it was not checked whether the passages support it."""
    return statement.kind == "claim" and statement.has_words and statement.rating is None


class Numbering:
    """Numbers the citations of one answer in the order in which they appear, above `before`."""

    def __init__(self, before: int = 0) -> None:
        self._before = before
        self._numbers: dict[int, int] = {}

    @property
    def last(self) -> int:
        """The highest number so far."""
        return self._before + len(self._numbers)

    def numbered(self, statement: Statement) -> Statement:
        """A statement, or what is new of it, whose markers are numbered."""
        cited = (
            replace(citation, citation=self._citation(citation.citation))
            for citation in statement.citations
        )
        return replace(statement, citations=tuple(cited))

    def answer(self, answer: Answer) -> Answer:
        """The answer with its markers numbered."""
        return replace(answer, statements=tuple(map(self.numbered, answer.statements)))

    def _citation(self, citation: Citation) -> Citation:
        number = self._numbers.setdefault(citation.marker, self.last + 1)
        return replace(citation, marker=number)


class ClientText:
    """What a client of OpenAI's interface gets of one answer.

    Clients take [2] for the second source that they were told of, as Open WebUI does. So markers
    count sources as they are cited; no address leads anywhere but to this server.
    """

    def __init__(self) -> None:
        self._numbering = Numbering()
        self._inert = InertStream()

    def piece(self, statement: Statement) -> str:
        """What of it can be given so far."""
        return self._inert.feed(self._numbering.numbered(statement).written)

    def rest(self) -> str:
        """What is left of the pieces."""
        return self._inert.finish()

    def answer(self, answer: Answer) -> tuple[Answer, Rendering]:
        """The whole with its numbers, and its text, to which the pieces join."""
        numbered = self._numbering.answer(answer)
        return numbered, inert_rendering(rendered(numbered))


def marked_text(answer: Answer) -> str:
    """The answer with a mark behind each sentence, and what the marks mean."""
    meanings = {mark: rating_text(rating) for rating, mark in _MARKS.items()}
    meanings[_NOT_CHECKED] = tr("not checked")
    rendering, text, used, done = rendered(answer), "", set[str](), 0
    for _, end, statement in rendering.sentences:
        if statement.rating is not None or is_unchecked(statement):
            mark = _MARKS[statement.rating] if statement.rating else _NOT_CHECKED
            for marker in rendering.markers:  # a mark stands behind the sources of its sentence
                if marker.start >= end and not rendering.text[end : marker.start].strip(" "):
                    end = marker.end
            text += f"{rendering.text[done:end]} {mark}"
            used.add(mark)
            done = end
    if not used:
        return rendering.text
    legend = "  ".join(f"{mark} {meaning}" for mark, meaning in meanings.items() if mark in used)
    return f"{text}{rendering.text[done:]}\n({legend})"


def doubtful(answer: Answer) -> Iterator[tuple[str, str]]:
    """Words that the passages do not fully support, or that were not checked; and a mark for each.

    What was not checked only where the answer cites passages.
    """
    for statement in answer.statements:
        if statement.rating is not None and statement.rating != "fully supported":
            yield (
                statement.text.strip(),
                f"{_MARKS[statement.rating]} {rating_text(statement.rating)}",
            )
        elif answer.citations and is_unchecked(statement):
            yield statement.text.strip(), f"{_NOT_CHECKED} {tr('not checked')}"


def sentences(answer: Answer) -> list[dict[str, Any]]:
    """The statements of an answer as the page shows them, which joined are the text.

    `mark` is "quoted" where all that is said stands in the quotation, "supported", "partly" or
    "not" where the sentence was checked otherwise. Else it was not: "unchecked" with a quotation,
    which proves nothing by itself, and "none" without; "" in what asserts nothing: a refusal, and
    where only is said what the documents lack or that it is not from them.
    `parts` are texts, and where a marker stood, the numbers of the citations that it stands for,
    from 0.
    """
    markers, records = iter(rendered(answer).markers), []
    for statement in answer.statements:
        parts: list[str | list[int]] = []
        text = ""
        for run, cited in statement.runs():
            number = next(markers).citation if cited is not None else None
            if number is None:
                text += run
            else:
                parts += [text.rstrip(" \t"), [number]]
                text = ""
        records.append({"parts": [*parts, text], "mark": _mark(statement, bool(parts))})
    return records


def _mark(statement: Statement, cites: bool) -> str:
    if not cites and statement.kind != "claim":
        return ""
    if statement.rating is not None:
        return "quoted" if statement.quoted else _PAGE_MARKS[statement.rating]
    return "unchecked" if cites else "none"
