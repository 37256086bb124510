"""What a library holds and what was read of it, as much at a time as a page can show.

`GET /api/documents` takes `library`, `words` (in a title or name), `problems=1` (only documents
with some) and `before`, and gives at most `MOST` `documents`, the newest first, with `next`: what
`before` is for those that follow, null at the end. `GET /api/unread` takes `library`, `words` and
`after`, and gives files that were not read in the same way. `GET /api/page` takes
`library`, `document`, and `number` or `offset`: a page as it was read; `before` and `behind` are
offsets of what stands next to it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import anyio
from starlette.requests import Request
from starlette.responses import Response

from localrag.errors import LibraryNotFoundError
from localrag.indexing.reading import read_part
from localrag.indexing.viewing import is_drawn, state_of
from localrag.library.library import Library
from localrag.library.records import Problem
from localrag.messages import InterfaceLanguage
from localrag.presentation.places import place_text
from localrag.presentation.reading import (
    advice_text,
    how_text,
    note_text,
    page_ranges,
    reason_text,
)
from localrag.presentation.records import picked, plain
from localrag.server.asker import preferred, recorded
from localrag.server.libraries import Libraries
from localrag.server.naming import Naming
from localrag.server.replies import number, reply
from localrag.server.routing import Routes, route

MOST = 50
"""Documents of one reply."""
_PROBLEMS, _PAGES = 20, 50
"""Problems of one document that are told, and pages of one problem that can be gone to."""


@dataclass(frozen=True, slots=True)
class DocumentRoutes(Routes):
    """The routes that list and read."""

    libraries: Libraries

    def _context(self, request: Request) -> tuple[Library, Naming, InterfaceLanguage]:
        name = request.query_params.get("library", "")
        library = self.libraries.engine(name).library
        return library, self.libraries.naming(name), preferred(request)

    @route("/api/documents")
    async def documents(self, request: Request) -> Response:
        """Documents without their text, the state of their files, and what there is to say."""
        (library, naming, language), query = self._context(request), request.query_params
        await self.libraries.listed(query.get("library", ""))
        before = number(query, "before") if "before" in query else None

        def gathered() -> dict[str, Any]:
            among = _with_problems(library) if query.get("problems") else None
            words = query.get("words", "").strip()
            paths = naming.containing(words) if words else ()
            records, following = library.listed(
                MOST, before=before, words=words, paths=paths, among=among
            )
            noted = defaultdict(list)
            for problem in library.problems([record.id for record in records]):
                noted[problem.document_id].append(_problem_texts(naming.problem(problem), language))
            documents = [
                plain(naming.document(record))
                | {
                    "state": state_of(library, record.sources),
                    "problems": noted[record.id][:_PROBLEMS],
                    "more_problems": max(0, len(noted[record.id]) - _PROBLEMS),
                }
                for record in records
            ]
            return {"documents": documents, "next": following}

        return reply(await anyio.to_thread.run_sync(gathered))

    @route("/api/unread")
    async def unread(self, request: Request) -> Response:
        """Files that could not be read, and why."""
        (library, naming, language), query = self._context(request), request.query_params
        await self.libraries.listed(query.get("library", ""))
        words = query.get("words", "").strip().lower()
        start = number(query, "after") if "after" in query else 0

        def gathered() -> dict[str, Any]:
            there = [
                file for file in library.unread() if words in naming.of(file.state.path).lower()
            ]
            entries = [
                Problem(file.state.path, error=file.error) for file in there[start : start + MOST]
            ]
            following = start + MOST if len(there) > start + MOST else None
            problems = [
                _problem_texts(problem, language) | {"source": problem.source}
                for problem in map(naming.problem, entries)
            ]
            return {"unread": problems, "next": following}

        return reply(await anyio.to_thread.run_sync(gathered))

    @route("/api/page")
    async def page(self, request: Request) -> Response:
        """A page as it was read: its text, how, and what was noted."""
        (library, naming, language), query = self._context(request), request.query_params
        document = query.get("document", "")
        await recorded(self.libraries.named(query.get("library", "")), "page", document)
        at = {name: number(query, name) for name in ("number", "offset") if name in query}

        def gathered() -> dict[str, Any] | None:
            about, part = library.document_record(document), read_part(library, document, **at)
            if about is None or part is None:
                return None
            page, span = part.page, {"start": part.start, "end": part.start}
            state, image = state_of(library, about.sources), None
            if state == "same" and any(map(is_drawn, about.sources)):
                named = {"library": query.get("library", ""), "document": document}
                image = f"/api/view.png?{urlencode(named | span)}"
            return {
                "title": about.title,
                "number": page.number,
                "pages": part.pages,
                "place": place_text(part.place, language=language),
                "text": page.text,
                **picked(part, "start", "before", "behind"),
                "how": how_text(page, part.place.unit, language),
                "confidence": page.confidence,
                "tables": part.tables,
                "notes": [
                    {"text": note_text(note, language), "problem": note.problem}
                    for note_read in page.notes
                    if (note := naming.problem(Problem("", note=note_read)).note)
                ],
                "state": state,
                "image": image,
            }

        content = await anyio.to_thread.run_sync(gathered)
        if content is None:
            raise LibraryNotFoundError(
                "There is no such page of {name}.", hint="See /api/documents.", name=document
            )
        return reply(content)


def _with_problems(library: Library) -> Collection[str]:
    return {problem.document_id for problem in library.problems() if problem.document_id}


def _problem_texts(problem: Problem, language: InterfaceLanguage) -> dict[str, Any]:
    """What is wrong and what to do; `numbers` are pages that can be gone to."""
    return {
        "pages": page_ranges(problem.pages),
        "numbers": list(problem.pages[:_PAGES]),
        "reason": reason_text(problem, language),
        "advice": advice_text(problem, language),
    }
