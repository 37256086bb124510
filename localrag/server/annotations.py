"""Citations of an answer as clients of OpenAI's interface know them: markers and annotations.

Clients take [2] for the second source that they were told of, as Open WebUI does. So markers count
sources in the order in which they are cited, whatever the numbers of the passages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from localrag.presentation.markdown import InertStream, inert, inert_answer
from localrag.presentation.places import cited_as
from localrag.rag.citations import MARKER, marked
from localrag.types import Answer, SupportedSentence

_CODE = "```"


class Numbering:
    """Gives the markers of one answer their numbers, in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def piece(self, text: str) -> str:
        """Text with its markers numbered, each of which stands in it whole."""
        parts, end = [], 0
        for marker in _markers(text):
            parts += [text[end : marker.start()], self._written(marker)]
            end = marker.end()
        return "".join([*parts, text[end:]])

    def answer(self, answer: Answer) -> Answer:
        """The answer with the markers numbered that its citations have, too."""
        moved = [
            (marker.end(), len(self._written(marker)) - len(marker.group()))
            for marker in _markers(answer.text)
        ]

        def behind(offset: int) -> int:
            return offset + sum(by for end, by in moved if end <= offset)

        citations = [replace(one, marker=self._number(one.marker)) for one in answer.citations]
        support = [_at(one, behind(one.start), behind(one.end)) for one in answer.support]
        return replace(
            answer,
            text=self.piece(answer.text),
            citations=tuple(sorted(citations, key=lambda one: one.marker)),
            support=tuple(support),
        )

    def _written(self, marker: re.Match[str]) -> str:
        numbers = (self._number(number) for number in marked(marker.group()))
        return marker["blank"] + "".join(f"[{number}]" for number in numbers)

    def _number(self, number: int) -> int:
        return self._numbers.setdefault(number, len(self._numbers) + 1)


class ClientText:
    """What a client gets of one answer: markers as it counts them, and no address but ours."""

    def __init__(self) -> None:
        self.changed = 0
        """Words of the answer that would have been links, pictures or HTML; known at its end."""
        self._numbering = Numbering()
        self._inert = InertStream()

    def piece(self, text: str) -> str:
        """What of it can be given so far."""
        return self._inert.feed(self._numbering.piece(text))

    def rest(self) -> str:
        """What is left of the pieces."""
        return self._inert.finish()

    def answer(self, answer: Answer) -> Answer:
        """The whole, whose text is what the pieces join to."""
        answer, self.changed = inert_answer(self._numbering.answer(answer))
        return answer


def url_citations(answer: Answer, address: Callable[[Answer, int], str]) -> list[dict[str, Any]]:
    """One for each marker that has a citation; `address` gives where that leads.

    `start_index` and `end_index` are the code points of the marker in the text.
    """
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": address(answer, number),
                "title": inert(cited_as(answer.citations[number], "en")).text,
                "start_index": start,
                "end_index": end,
            },
        }
        for start, end, number in _cited(answer)
    ]


def file_citations(answer: Answer, address: Callable[[Answer, int], str]) -> list[dict[str, Any]]:
    """The same as OpenAI's Responses have them; `index` is the end of the marker."""
    documents = {hit.chunk.id: hit.chunk.document_id for hit in answer.contexts}
    found = []
    for _, end, number in _cited(answer):
        citation = answer.citations[number]
        found.append(
            {
                "type": "file_citation",
                "index": end,
                "file_id": documents.get(citation.chunk_id, ""),
                "filename": inert(citation.source).text,
                "url": address(answer, number),
            }
        )
    return found


def _cited(answer: Answer) -> Iterator[tuple[int, int, int]]:
    """Start and end of each marker, and the number of its citation: one for each passage.

    A marker leads to one address wherever it stands, as clients count addresses.
    """
    first = {one.marker: number for number, one in reversed(list(enumerate(answer.citations)))}
    for marker in _markers(answer.text):
        start = marker.start() + len(marker["blank"])
        for number in marked(marker.group()):
            if number in first:
                yield start, marker.end(), first[number]


def _markers(text: str) -> Iterator[re.Match[str]]:
    """Those outside code, where a[0] is none."""
    for marker in MARKER.finditer(text):
        if text.count(_CODE, 0, marker.start()) % 2 == 0:
            yield marker


def _at(sentence: SupportedSentence, start: int, end: int) -> SupportedSentence:
    return replace(sentence, start=start, end=end)
