"""Random requests on all routes, of which many name what is foreign."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from random import Random

from tenants.sending import Asked, Json
from tenants.world import BIRCH, BOTH_ID, DOCUMENTS, GRANTS, MARKS, World

Loot = dict[str, list[tuple[str, str]]]
"""What users came by, by kind: whose it is, and what."""


class Asking:
    """Random requests of one user; what they come by, the others try, too (`loot`)."""

    user = ""

    def __init__(self, world: World, random: Random, loot: Loot) -> None:
        self.world = world
        self.random = random
        self._loot = loot
        self._count = 0

    def next(self, user: str) -> Asked:
        """A request of theirs, one in fifty with a token that is none."""
        self.user = user
        one = self.random.choice(COSTLY if self.chance(0.01) else ROUTES)(self)
        if self.random.random() < 0.02:
            wrong = self.random.choice(("x", "Bearer", "a" * 43, self.world.tokens[user][:-1]))
            return replace(one, token=wrong)
        return one

    def library(self) -> tuple[str, str | None, str]:
        """A name to ask for, the library that the response may be about, and what is foreign."""
        mine, kind = [*GRANTS[self.user]], self.random.random()
        if kind < 0.55:
            name = self.random.choice(mine)
            return name, name, ""
        if kind < 0.9:
            name = self.random.choice([one for one in MARKS if one not in mine])
            return name, name, name
        return "", mine[0], ""

    def document(self, library: str) -> tuple[str, str]:
        """The id of a document, and the same where the named library has none of it."""
        kind = self.random.random()
        if kind < 0.5 and self.world.of(library):
            return self.random.choice(self.world.of(library)), ""
        one = BOTH_ID if kind > 0.8 else self.random.choice(sorted(self.world.ids))
        return one, "" if library in self.world.ids[one] else one

    def question(self) -> str:
        """Words of any library, with some that all have."""
        latin, han = MARKS[self.random.choice([*MARKS])]
        letter = chr(ord("a") + self.random.randrange(DOCUMENTS))
        self._count += 1
        return self.random.choice(
            (
                f"When was the {latin}{letter}one mill built?",
                f"Who looks after {latin}{letter}two and how many ships are there?",
                f"{han}{latin}{letter}一号茶园什么时候采摘春茶？",
                "How many tons does the wheel weigh?",
                "When was the lamp lit two hours early?",
                "哪里存放茶叶？价格是多少？",
                f"own{self.user}{self._count}q: how many ships does the harbour hold?",
            )
        )

    def taken(self, kind: str) -> tuple[str, str]:
        """Something of that kind that somebody came by, and the same where it was another."""
        found = self._loot.get(kind, ())
        if not found or self.random.random() < 0.1:
            return f"{self.random.getrandbits(64):016x}", ""
        whose, what = self.random.choice(found[-40:])
        return what, "" if whose == self.user else what

    def chance(self, share: float) -> bool:
        return self.random.random() < share


Make = Callable[[Asking], Asked]


def _of_library(make: Callable[[Asking, str], Asked]) -> Make:
    def made(asking: Asking) -> Asked:
        name, library, about = asking.library()
        return replace(make(asking, name), library=library, about=about)

    return made


def _of_document(make: Callable[[Asking, str, str], Asked]) -> Make:
    def made(asking: Asking) -> Asked:
        name, library, about = asking.library()
        document, foreign = asking.document(library or "")
        return replace(make(asking, name, document), library=library, about=about or foreign)

    return made


def search(asking: Asking, name: str) -> Asked:
    body = {"question": asking.question(), "library": name, "k": 30}
    if asking.chance(0.3):
        body["retrieval"] = "keyword"
    if asking.chance(0.2):
        body["filter"] = {"sources": [f"{MARKS[BIRCH][0]}afile.txt"]}
    return Asked("POST", "/api/search", body=body)


def ask(asking: Asking, name: str) -> Asked:
    question = f"{asking.question()} (own{asking.user}{asking.random.randrange(10**6)}q)"
    body: Json = {"question": question, "library": name}
    if asking.chance(0.2):
        body["mode"] = "self-rag"
    if asking.chance(0.3):
        body["conversation"], _ = asking.taken("conversation")
        body["history"] = [{"question": "How many ships?", "answer": "Seven."}]
    return Asked("POST", "/api/ask", body=body)


def chat(asking: Asking, name: str) -> Asked:
    body = {
        "model": f"localrag/{name}" if name else "localrag",
        "messages": [{"role": "user", "content": asking.question()}],
        "stream": asking.chance(0.5),
    }
    return Asked("POST", "/v1/chat/completions", body=body)


def responses(asking: Asking, name: str) -> Asked:
    model = f"localrag/{name}" if name else "localrag"
    body = {"model": model, "input": asking.question(), "stream": asking.chance(0.5)}
    return Asked("POST", "/v1/responses", body=body)


def store(asking: Asking, name: str) -> Asked:
    body = {"query": asking.question(), "max_num_results": 40}
    return Asked("POST", f"/v1/vector_stores/{name or 'default'}/search", body=body)


def texts_of_a_model(asking: Asking, name: str) -> Asked:
    model = f"localrag/{name}" if name else "localrag"
    if asking.chance(0.5):
        return Asked("POST", "/v1/embeddings", body={"model": model, "input": "harbour"})
    body = {"model": model, "query": "harbour", "documents": ["mill", "ships"]}
    return Asked("POST", "/v1/rerank", body=body)


def model(_: Asking, name: str) -> Asked:
    return Asked("GET", f"/v1/models/localrag/{name}" if name else "/v1/models/localrag")


def listed(asking: Asking, name: str) -> Asked:
    query = {"library": name}
    if asking.chance(0.5):
        query["words"] = asking.random.choice([mark for marks in MARKS.values() for mark in marks])
    return Asked("GET", asking.random.choice(("/api/documents", "/api/unread")), query)


def page_of(library: str, document: str) -> Asked:
    return Asked("GET", "/api/page", {"library": library, "document": document, "number": "1"})


def page(_: Asking, name: str, document: str) -> Asked:
    return page_of(name, document)


def view(asking: Asking, name: str, document: str) -> Asked:
    query = {"library": name, "document": document, "start": "4", "end": "12"}
    if asking.chance(0.2):
        query["key"] = "0" * 64
    path = "/api/view.png" if asking.chance(0.3) else "/api/view"
    return Asked("GET", path, query)


def kept(asking: Asking, name: str) -> Asked:
    if asking.chance(0.5):
        return Asked("GET", "/api/history", {"library": name})
    key, _ = asking.taken("conversation")
    method = "DELETE" if asking.chance(0.1) else "GET"
    return Asked(method, f"/api/history/{key}", {"library": name})


def removed(asking: Asking) -> Asked:
    name, library, about = asking.library()
    here = library or ""
    foreign = [one for one in sorted(asking.world.ids) if here not in asking.world.ids[one]]
    document = asking.random.choice(foreign)
    asked = Asked("DELETE", f"/api/documents/{document}", {"library": name})
    return replace(asked, library=library, about=about or document)


def uploaded(asking: Asking) -> Asked:
    foreign = asking.random.choice([one for one in MARKS if one not in GRANTS[asking.user]])
    headers = {"content-type": "application/octet-stream"}
    query = {"library": foreign, "name": "a.txt"}
    return Asked("POST", "/api/documents", query, "text", headers, "", foreign, foreign)


def report(asking: Asking) -> Asked:
    name, about = asking.taken("report")
    end = asking.random.choice(("html", "json", "csv"))
    return Asked("GET", f"/api/reports/{name}.{end}", about=about)


def evaluated(asking: Asking, name: str) -> Asked:
    row = {"question": asking.question(), "reference": "It was built in 1700."}
    body = {"name": "one.jsonl", "data": json.dumps(row, ensure_ascii=False), "library": name}
    return Asked("POST", "/api/evaluate", body=body)


def compared(asking: Asking, name: str) -> Asked:
    body = {"question": asking.question(), "vary": "modes", "library": name}
    return Asked("POST", "/api/compare", body=body)


def audited(_: Asking, name: str) -> Asked:
    return Asked("GET", "/api/audit", {"library": name})


def of_all(asking: Asking) -> Asked:
    path = asking.random.choice(
        ("/libraries", "/api/status", "/v1/models", "/api/settings", "/api/search", "/metrics")
    )
    return Asked("GET", path)


def open_to_all(asking: Asking) -> Asked:
    path = asking.random.choice(("/", "/view", "/healthz", "/static/app.js", "/nowhere"))
    return Asked("GET", path)


def tool(asking: Asking) -> Asked:
    name, library, about = asking.library()
    document, foreign = asking.document(library or "")
    given = {"library": name} if name else {}
    kind, arguments = asking.random.choice(
        (
            ("search", {"query": asking.question(), "k": 30} | given),
            ("ask", {"question": asking.question()} | given),
            ("get_page", {"document": document} | given),
            ("get_page", {"document": document[:12], "mark": "harbour"} | given),
            ("list_documents", given),
            ("status", {}),
        )
    )
    if kind == "status":
        library = about = ""
    if kind == "get_page":
        about = about or (foreign if foreign in str(arguments) else foreign[:12])
    return replace(
        rpc("tools/call", {"name": kind, "arguments": arguments}, name=kind),
        library=library or None,
        about=about,
    )


def resource(asking: Asking) -> Asked:
    if asking.chance(0.3):
        return rpc("resources/list", {})
    name, library, about = asking.library()
    document, foreign = asking.document(library or "")
    uri = f"localrag://{name or library}/{document}/1"
    return replace(
        rpc("resources/read", {"uri": uri}, name=uri), library=library, about=about or foreign
    )


def in_a_session(asking: Asking) -> Asked:
    """As assistants of last year do it, in a session that may be somebody else's."""
    if asking.chance(0.3):
        client = {"name": "one", "version": "1"}
        asked = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        return rpc("initialize", asked, modern=False)
    session, _ = asking.taken("session")
    call = {"name": "list_documents", "arguments": {}}
    asked = rpc("tools/call", call, modern=False)
    return replace(asked, headers={**asked.headers, "mcp-session-id": session})


def rpc(method: str, params: Json, *, modern: bool = True, name: str = "") -> Asked:
    headers = {"accept": "application/json, text/event-stream"}
    if modern:
        about = "io.modelcontextprotocol/"
        params = params | {
            "_meta": {
                f"{about}protocolVersion": "2026-07-28",
                f"{about}clientInfo": {"name": "one", "version": "1"},
                f"{about}clientCapabilities": {},
            }
        }
        headers |= {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if name:
            headers["mcp-name"] = name
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Asked("POST", "/mcp", body=body, headers=headers)


ROUTES: tuple[Make, ...] = (
    *[_of_library(search)] * 5,
    *[_of_library(ask)] * 4,
    *[_of_library(listed)] * 3,
    *[_of_document(page)] * 4,
    *[_of_document(view)] * 3,
    *[_of_library(kept)] * 6,
    *[_of_library(one) for one in (chat, responses, store, texts_of_a_model, model, audited)],
    *[of_all] * 3,
    *[tool] * 4,
    *[resource] * 2,
    in_a_session,
    removed,
    uploaded,
    report,
    open_to_all,
)
COSTLY: tuple[Make, ...] = (_of_library(evaluated), _of_library(compared))
"""One in a hundred."""
