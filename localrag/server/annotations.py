"""Citations of an answer as clients of OpenAI's interface know them: annotations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from localrag.messages import SOURCE
from localrag.presentation.answers import Rendering
from localrag.presentation.markdown import inert
from localrag.presentation.places import cited_as
from localrag.types import Answer


def url_citations(
    answer: Answer, shown: Rendering, address: Callable[[Answer, int], str]
) -> list[dict[str, Any]]:
    """One for each marker that has a citation; `address` gives where that leads.

    `start_index` and `end_index` are the code points of the marker in the text.
    """
    return [
        {
            "type": "url_citation",
            "url_citation": {
                "url": address(answer, number),
                "title": inert(cited_as(answer.citations[number], SOURCE)).text,
                "start_index": start,
                "end_index": end,
            },
        }
        for start, end, number in _cited_markers(answer, shown)
    ]


def file_citations(
    answer: Answer, shown: Rendering, address: Callable[[Answer, int], str]
) -> list[dict[str, Any]]:
    """The same as OpenAI's Responses have them; `index` is the end of the marker."""
    documents = {hit.chunk.id: hit.chunk.document_id for hit in answer.contexts}
    citations = []
    for _, end, number in _cited_markers(answer, shown):
        citation = answer.citations[number]
        citations.append(
            {
                "type": "file_citation",
                "index": end,
                "file_id": documents.get(citation.chunk_id, ""),
                "filename": inert(citation.source).text,
                "url": address(answer, number),
            }
        )
    return citations


def _cited_markers(answer: Answer, rendering: Rendering) -> Iterator[tuple[int, int, int]]:
    """Start and end of each marker, and the number of its citation: one for each passage.

    A marker leads to one address wherever it stands, as clients count addresses.
    """
    first: dict[int, int] = {}
    for number, citation in enumerate(answer.citations):
        first.setdefault(citation.marker, number)
    for start, end, listed in rendering.markers:
        if listed is not None:
            yield start, end, first[answer.citations[listed].marker]
