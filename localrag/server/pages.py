"""Pages of documents for the viewer: drawn one after the other, and kept for a moment.

So that an image and what is said of it are made together, though a browser asks for one after the
other. What is removed from a library is gone from here before its removal has to be through.
"""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

import anyio

from localrag.documents.worker import ParsingProcess
from localrag.indexing.viewing import WIDTH, PageView, view_span, with_image
from localrag.library.library import Library
from localrag.server.views import View

SMALL = 512 * 2**10
"""Bytes of an image for a model: some clients give up at 1 MB of a reply in Base64."""
_SMALL_WIDTHS = 1000, 700, 500, 350
KEPT = 6.0
"""Seconds that a drawn page is kept."""
_MOST_KEPT = 16
_MOST_PROCESSES = 4
"""Libraries whose drawing processes wait for the next page."""


class Pages:
    """Views of pages, with their images."""

    def __init__(self) -> None:
        self._drawing: dict[str, ParsingProcess] = {}
        """Of each library that was asked for last: a document that takes one over sees no other."""
        self._lock = threading.Lock()
        self._one_at_a_time = anyio.CapacityLimiter(1)
        self._kept: dict[View, PageView] = {}

    async def view(self, library: Library, asked: View) -> PageView | None:
        """The page on which a view begins; None where there is no such document."""
        page = self._kept.get(asked)
        if page is not None and await anyio.to_thread.run_sync(
            library.has_document, asked.document
        ):
            return page
        page = await anyio.to_thread.run_sync(
            self._draw, library, asked, limiter=self._one_at_a_time
        )
        if page is not None:
            while len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[asked] = page
            asyncio.get_running_loop().call_later(KEPT, self._kept.pop, asked, None)
        return page

    async def small(self, library: Library, asked: View) -> PageView | None:
        """As `view`, with an image of at most `SMALL` bytes, or none."""

        def drawn() -> PageView | None:
            for width in _SMALL_WIDTHS:
                page = self._draw(library, asked, width)
                if page is None or page.image is None or len(page.image) <= SMALL:
                    return page
            return page and replace(page, image=None)

        return await anyio.to_thread.run_sync(drawn, limiter=self._one_at_a_time)

    def forget(self, name: str | None = None) -> None:
        """Keep nothing of a library, or of any, neither here nor in the process that draws."""
        for key in list(self._kept):
            if name in (None, key.library):
                self._kept.pop(key, None)
        with self._lock:
            gone = [library for library in self._drawing if name in (None, library)]
            processes = [self._drawing.pop(library) for library in gone]
        for process in processes:
            process.close()

    def _draw(self, library: Library, target: View, width: int = WIDTH) -> PageView | None:
        view = view_span(library, target.document, target.start, target.end)
        if view is None or not view.is_drawn:
            return view
        return with_image(library, view, self._process(target.library), width)

    def _process(self, library: str) -> ParsingProcess:
        """What draws the pages of a library; the one that was asked for longest ago ends."""
        oldest = None
        with self._lock:
            process = self._drawing.pop(library, None) or ParsingProcess()
            self._drawing[library] = process
            if len(self._drawing) > _MOST_PROCESSES:
                oldest = self._drawing.pop(next(iter(self._drawing)))
        if oldest is not None:
            oldest.close()
        return process
