"""Holes made by hand, which a run must find."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import lru_cache
from typing import Any
from unittest.mock import patch

from localrag.engine import Engine
from localrag.library.acting import Role, User
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.library import Library
from localrag.server.libraries import Libraries
from localrag.server.pages import Pages
from localrag.server.views import View
from localrag.text import tokenize
from localrag.text.instructions import may_steer
from localrag.text.tokenize import Tokenizer
from tenants.world import MARKS, Quoting


def leaking(name: str) -> ExitStack:
    """As long as it lasts, the server has this hole."""
    held = ExitStack()
    made = LEAKS[name]()
    for one in made:
        held.enter_context(one)
    return held


def _gate() -> list[Any]:
    return [patch.object(User, "may", lambda *_: True)]


def _policies() -> list[Any]:
    return [patch.object(PostgresCatalogue, "_role", lambda _: None)]


def _names() -> list[Any]:
    return [patch.object(Libraries, "names", property(lambda self: tuple(self._places)))]


def _pages() -> list[Any]:
    whole = Pages.view

    async def view(self: Pages, library: Library, asked: View) -> Any:
        return await whole(self, library, replace(asked, library=""))

    return [patch.object(Pages, "view", view), patch("localrag.server.pages.KEPT", 600.0)]


def _context() -> list[Any]:
    return [patch.object(Quoting, "mixes_up", True)]


def _order() -> list[Any]:
    may = User.may

    def slow(self: User, library: str, role: Role) -> bool:
        if library in MARKS:
            until = time.perf_counter() + 50e-6
            while time.perf_counter() < until:
                pass
        return may(self, library, role)

    return [patch.object(User, "may", slow)]


def _kept() -> list[Any]:
    """The caches as they were: of the whole process."""
    terms, steers = lru_cache(1 << 16)(tokenize._code_terms), lru_cache(512)(may_steer)
    made = Tokenizer.__init__

    def init(self: Tokenizer, *given: Any) -> None:
        made(self, *given)
        self._code_terms = terms

    def compiled(pattern: str) -> Any:
        return re.compile(pattern, re.IGNORECASE)

    return [
        patch.object(Tokenizer, "__init__", init),
        patch.object(Engine, "may_steer", property(lambda _: steers)),
        patch("localrag.indexing.viewing.pattern_of_words", compiled),
    ]


LEAKS: Mapping[str, Callable[[], list[Any]]] = {
    "gate": _gate,
    "policies": _policies,
    "both": lambda: [*_gate(), *_policies()],
    "names": _names,
    "pages": _pages,
    "context": _context,
    "order": _order,
    "kept": _kept,
}
