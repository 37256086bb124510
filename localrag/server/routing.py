"""Addresses that stand beside the methods which answer them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from starlette.routing import Route

Handler = TypeVar("Handler", bound=Callable[..., Any])


def route(path: str, method: str = "GET") -> Callable[[Handler], Handler]:
    """Have a method of `Routes` answer requests to a path."""

    def add(handler: Handler) -> Handler:
        # Decorators apply from the last to the first.
        handler.__dict__.setdefault("answers", []).insert(0, (path, method))
        return handler

    return add


class Routes:
    """Some of its methods answer requests."""

    __slots__ = ()

    def routes(self) -> list[Route]:
        """Those of this class itself, not of its bases, in the order in which they stand there."""
        return [
            Route(path, getattr(self, name), methods=[method])
            for name, handler in vars(type(self)).items()
            for path, method in getattr(handler, "answers", ())
        ]
