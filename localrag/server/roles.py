"""The least role that each route takes, in one place; a test holds it against the routes there are.

A library that a request names must be one in which its user has that role. Which library that is,
`Libraries` hears wherever the name came from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal

from starlette.routing import BaseRoute, Match, Mount, Route
from starlette.types import Scope

from localrag.library.acting import Role

Least = Role | Literal["anybody", "signed in", "nobody"]
"""Or whoever asks, whoever has signed in, and none of those who sign in."""

LEAST: Final[Mapping[tuple[str, str], Least]] = {
    # Before anybody has signed in; `Access` knows these, too
    ("GET", "/"): "anybody",
    ("GET", "/view"): "anybody",
    ("GET", "/source"): "anybody",
    ("GET", "/static"): "anybody",
    ("GET", "/healthz"): "anybody",
    # Of no library, or of all that one may read
    ("GET", "/metrics"): "signed in",
    ("POST", "/session"): "signed in",
    ("DELETE", "/session"): "signed in",
    ("GET", "/libraries"): "signed in",
    ("GET", "/api/status"): "signed in",
    ("GET", "/api/settings"): "signed in",
    ("POST", "/api/settings"): "nobody",
    ("GET", "/api/search"): "signed in",
    ("GET", "/v1/models"): "signed in",
    # Of one library
    ("GET", "/api/documents"): "reader",
    ("GET", "/api/unread"): "reader",
    ("GET", "/api/page"): "reader",
    ("GET", "/api/view"): "reader",
    ("GET", "/api/view.png"): "reader",
    ("POST", "/api/search"): "reader",
    ("POST", "/api/ask"): "reader",
    ("POST", "/api/compare"): "reader",
    ("GET", "/api/tables"): "reader",
    ("POST", "/api/tables"): "reader",
    ("POST", "/api/tables/documents"): "reader",
    ("GET", "/api/tables/{name}"): "reader",
    ("POST", "/api/summaries"): "reader",
    ("GET", "/api/history"): "reader",
    ("DELETE", "/api/history"): "reader",
    ("GET", "/api/history/{conversation}"): "reader",
    ("DELETE", "/api/history/{conversation}"): "reader",
    ("GET", "/api/jobs"): "reader",
    ("GET", "/mcp"): "reader",
    ("POST", "/mcp"): "reader",
    ("DELETE", "/mcp"): "reader",
    ("GET", "/v1/models/{name:path}"): "reader",
    ("POST", "/v1/chat/completions"): "reader",
    ("POST", "/v1/responses"): "reader",
    ("POST", "/v1/embeddings"): "reader",
    ("POST", "/v1/rerank"): "reader",
    ("POST", "/v1/vector_stores/{name}/search"): "reader",
    ("POST", "/api/documents"): "editor",
    ("DELETE", "/api/documents/{document}"): "editor",
    ("POST", "/api/tables/saved/{name}"): "editor",
    ("DELETE", "/api/tables/saved/{name}"): "editor",
    ("POST", "/api/jobs/{number}/cancel"): "editor",
    ("POST", "/api/history"): "owner",
    ("POST", "/api/evaluate"): "owner",
    ("GET", "/api/reports/{name}"): "owner",
    ("GET", "/api/audit"): "owner",
}


def least_for(routes: Iterable[BaseRoute], scope: Scope) -> Least:
    """The least role for a request; "nobody" for a route that says none, so that none is forgotten.

    What no route answers is for the application to say.
    """
    for route in routes:
        if isinstance(route, Route | Mount):
            match, _ = route.matches(scope)
            if match is Match.FULL:
                method = "GET" if scope["method"] == "HEAD" else scope["method"]
                return LEAST.get((method, route.path), "nobody")
    return "signed in"
