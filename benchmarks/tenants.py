"""Three people, three libraries in PostgreSQL, one server: who sees, or can time, a foreign one?

    python benchmarks/tenants.py requests [--count 10000] [--leak NAME]
    python benchmarks/tenants.py timing [--pairs 1000] [--leak NAME]
    python benchmarks/tenants.py states --pairs 30
    python benchmarks/tenants.py model --count 20

Everything in a library (its name, files, titles, texts, ids) carries marks of its own; one text is
in two libraries. `requests` sends random ones on all routes, some at a time, of which many name
libraries, documents, conversations, reports and sessions of others, and searches body and headers
of every response for marks that are not the asker's. Marks that the request itself has do not
count, as an error may repeat them, nor in conversations and reports those of earlier requests,
which have some of the marks of a text and never others. Each request that names what is foreign has
a twin which names what never was, and both responses must be equal. The language model is a fake
that quotes all that it is given. `timing` compares such twins by the clock, in interleaved pairs,
and words and pages that another library has warmed with those that nobody has: p-values of a
permutation test on the signs. `states` does so with passages that a small language model has read,
`model` asks the starter model, and looks whether it takes anything from what another one had it
read. `--leak` makes a hole by hand, which the run must find. PostgreSQL is that of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any, ClassVar
from unittest.mock import patch
from urllib.parse import quote, urlencode

import msgspec
import numpy as np
from numpy.typing import NDArray

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from fakes import HashEmbedder

from localrag import factory
from localrag.config.settings import LlamaCppSettings, Settings
from localrag.documents.chunking import WindowChunker, passage_text
from localrag.egress.databases import read_url
from localrag.engine import Engine
from localrag.library.acting import Role, User
from localrag.library.catalogue.postgres.catalogue import PostgresCatalogue
from localrag.library.catalogue.postgres.users import Users
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import FileState, NewDocument
from localrag.models.llms.base import ChoiceScorer, Completion, Options, check_stopped
from localrag.models.llms.llama_cpp.context import LlamaContext
from localrag.server.access import Access
from localrag.server.app import make_app
from localrag.server.libraries import Libraries
from localrag.server.pages import Pages
from localrag.server.people import People
from localrag.server.views import View
from localrag.text import tokenize
from localrag.text.instructions import may_steer
from localrag.text.tokenize import Tokenizer
from localrag.types import Document, Message, Page

ALDER, BIRCH, CEDAR = "alder-hxqv", "birch-kzwj", "cedar-pfjx"
NEVER = ("olive-bmyd", "maple-tgnc", "hazel-vwlr")
"""Names that no library has, as long as those that are."""
GRANTS: Mapping[str, Mapping[str, Role]] = {
    "ann": {ALDER: "owner", BIRCH: "reader"},
    "bo": {BIRCH: "editor"},
    "cai": {CEDAR: "owner"},
}
MARKS = {ALDER: ("qolv", "龘"), BIRCH: ("zemt", "靐"), CEDAR: ("wurp", "齉")}
"""What words of a library begin with, and a character that is in its Chinese texts."""
DOCUMENTS = 12
BOTH = (
    "The lighthouse keeper wrote down the weather of every night. "
    "On the ninth of March the lamp was lit two hours early because of the fog. "
) * 3
"""A text that is in the second library and in the third one, under names of their own."""
BOTH_ID = hashlib.sha256(BOTH.encode()).hexdigest()
_MARKED = re.compile(rf"(?:{'|'.join(mark for marks in MARKS.values() for mark in marks)})\w*")
_HEX = re.compile(r"[0-9a-f]{12,}")
_OWN = re.compile(r"own(?:ann|bo|cai)\w*")
"""What somebody asked where conversations are kept, which is theirs alone."""

Json = dict[str, Any]
Loot = dict[str, list[tuple[str, str]]]
"""What users came by, by kind: whose it is, and what."""


# What there is


def texts(library: str) -> Iterator[tuple[str, str, str]]:
    """Name of the file, language and text of each document."""
    latin, han = MARKS[library]
    for n in range(DOCUMENTS):
        letter = chr(ord("a") + n)
        if n % 2 and library != ALDER:
            yield (
                f"{latin}{letter}档案.txt",
                "zh",
                f"{han}{latin}{letter}一号茶园在三月采摘春茶，由{han}师傅看管。"
                f"{han}{latin}{letter}二号仓库存放{n + 20}箱茶叶，价格是{n + 300}元。",
            )
        else:
            yield (
                f"{latin}{letter}file.txt",
                "en",
                f"The {latin}{letter}one mill was built in {1700 + n} by the {latin}{letter}two "
                f"family. Its wheel weighs {n + 40} tons. The {latin}{letter}three harbour holds "
                f"{n + 7} ships, and {latin}{letter}four tea is sold there in spring.",
            )


def documents(library: str) -> list[NewDocument]:
    found = [*texts(library)]
    if library != ALDER:
        found.append((f"{MARKS[library][0]}both.txt", "en", BOTH))
    return [_document(name, text, language) for name, language, text in found]


def _document(name: str, text: str, language: str = "en") -> NewDocument:
    digest = hashlib.sha256(text.encode()).hexdigest()
    one = Document(digest, name, name.removesuffix(".txt"), (Page(1, text),))
    chunks = WindowChunker(120, 0).chunk(one)
    vectors = EMBEDDER.embed_documents([passage_text(chunk) for chunk in chunks])
    state = FileState(f"/srv/{name}", len(text.encode()), 1, 2)
    return NewDocument(one, [state], len(text.encode()), language, "window", chunks, vectors)


EMBEDDER = HashEmbedder()


class Quoting:
    """A language model that says yes to everything and writes down all that it was given."""

    before: ClassVar[list[str]] = []
    """Where one is made to mix up what it reads: what it was given before."""
    mixes_up = False

    name = "quoting"
    context_window = 16_384

    def __init__(self, stopped: Any = None) -> None:
        self._stopped = stopped

    def count_tokens(self, text: str) -> int:
        return len(text) // 4 + 1

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        return sum(4 + self.count_tokens(one.content) for one in messages)

    def complete(self, messages: Sequence[Message], _: Options) -> Completion:
        text = self._said(messages)
        return Completion(text, self.count_prompt_tokens(messages), self.count_tokens(text), "stop")

    def stream(self, messages: Sequence[Message], _: Options) -> Iterator[str]:
        text = self._said(messages)
        for start in range(0, len(text), 200):
            if self._stopped:
                check_stopped(self._stopped)
            yield text[start : start + 200]

    def score_choices(
        self, _: Sequence[Message], choices: Sequence[str], **__: object
    ) -> NDArray[np.float64]:
        weights = np.full(len(choices), 0.01)
        weights[-1 if choices[0] == "1" else 0] = 1.0
        return weights / weights.sum()

    def _said(self, messages: Sequence[Message]) -> str:
        given = " ".join(" ".join(one.content.split()) for one in messages)[-3000:]
        more = self.before[-1:] if self.mixes_up else []
        self.before[:] = [given]
        return f"{' '.join((given, *more))} [1]."


def quoting(*_: object) -> factory.Model:
    """In the place of `factory.make_model`."""
    llm = Quoting()

    def view(stopped: Any, _: object) -> factory.Model:
        one = Quoting(stopped)
        return factory.Model(one, one, lambda: None)

    return factory.Model(llm, llm, lambda: None, None, view)


@dataclass
class World:
    """A running application, and what everybody may see of it."""

    app: Any
    libraries: Libraries
    tokens: Mapping[str, str]
    ids: dict[str, set[str]] = field(default_factory=dict)
    """Libraries that hold a document, by its id."""
    chunks: dict[str, set[str]] = field(default_factory=dict)
    """The same by the id of a passage."""

    def of(self, library: str) -> list[str]:
        """Ids of its documents."""
        return sorted(one for one, held in self.ids.items() if library in held)

    async def send(self, asked: Asked, user: str | None) -> Reply:
        """Answer one request within this process."""
        token = asked.token or (self.tokens[user] if user else "")
        return await sent(self.app, asked, {"authorization": f"Bearer {token}"} if token else {})


def fill(place: Location, found: Sequence[NewDocument], settings: Settings) -> None:
    with _opened(place, settings, create=True) as library:
        library.add(found)
        library.keep_history(on=True)


def _opened(place: Location, settings: Settings, **how: Any) -> Library:
    return Library.open(
        place,
        embedding=factory.identity_of(EMBEDDER, settings),
        indexes=factory.make_indexes(settings),
        **how,
    )


@asynccontextmanager
async def world(
    url: str, settings: Settings | None = None, common: Sequence[str] = ()
) -> AsyncIterator[World]:
    """The server over libraries in that database, whose users it makes.

    `common` are texts that are in the second and the third library.
    """
    settings = settings or Settings()
    places = {name: read_url(f"{url}#{name}") for name in MARKS}
    ids: dict[str, set[str]] = {}
    chunks: dict[str, set[str]] = {}
    for name, place in places.items():
        found = documents(name)
        if name != ALDER:
            found += [_document(f"common{n}.txt", text) for n, text in enumerate(common)]
        fill(place, found, settings)
        for one in found:
            ids.setdefault(one.document.id, set()).add(name)
            for chunk in one.chunks:
                chunks.setdefault(str(chunk.id), set()).add(name)
    users = Users(places[ALDER])
    tokens = {name: users.add(name) for name in GRANTS}
    for name, roles in GRANTS.items():
        for library, role in roles.items():
            users.grant(name, library, role)

    def opened(place: Location) -> Engine:
        library = _opened(place, settings, create=False, serving=True)
        return Engine(library, settings, embedder=EMBEDDER)

    libraries = Libraries([*places.values()], opened, shared=True)
    app = make_app(libraries, Access("", 8765, people=People(users)))
    async with AsyncExitStack() as held:
        held.callback(users.close)
        await held.enter_async_context(_alive(app))
        libraries.begin()
        yield World(app, libraries, tokens, ids, chunks)


# Requests, without a socket


@dataclass(frozen=True)
class Asked:
    """A request; `about` is what it names that its user may not see, or that never was."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    token: str = ""
    library: str | None = None
    """The one library that a response may be about; None: all that the user may read."""
    about: str = ""

    @property
    def said(self) -> str:
        """All words of it."""
        body = "" if self.body is None else json.dumps(self.body, ensure_ascii=False)
        return " ".join((self.path, *self.query.values(), body, *self.headers.values()))

    def naming(self, other: str) -> Asked:
        """The same with that in place of what it is about."""
        swap = partial_swap(self.about, other)
        return replace(
            self,
            path=swap(self.path),
            query={key: swap(value) for key, value in self.query.items()},
            body=None if self.body is None else json.loads(swap(json.dumps(self.body))),
            headers={key: swap(value) for key, value in self.headers.items()},
            about=other,
        )


def partial_swap(old: str, new: str) -> Callable[[str], str]:
    return lambda text: text.replace(old, new)


@dataclass(frozen=True)
class Reply:
    """A response, whole."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    taken: tuple[float, float]
    """Seconds on the clock, and of the server's own processor time."""

    @property
    def text(self) -> str:
        """Headers and body as a reader would take them, with what JSON writes as numbers."""
        heads = "\n".join(f"{name}: {value}" for name, value in self.headers)
        body = self.body.decode("utf-8", "replace")
        plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), body)
        return f"{heads}\n{body}\n{plain}"

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The data of an event stream."""
        lines = self.body.decode("utf-8").splitlines()
        found = [line.removeprefix("data:").strip() for line in lines if line.startswith("data:")]
        return [json.loads(one) for one in found if one and one != "[DONE]"]


async def sent(app: Any, asked: Asked, headers: Mapping[str, str]) -> Reply:
    """Its response."""
    data = b"" if asked.body is None else json.dumps(asked.body).encode()
    given = {"host": "127.0.0.1:8765", "content-length": str(len(data)), **headers, **asked.headers}
    if asked.body is not None:
        given.setdefault("content-type", "application/json")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": quote(asked.path).encode(),
        "query_string": urlencode(asked.query).encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 50000),
        "server": ("127.0.0.1", 8765),
    }
    ended = asyncio.Event()
    waiting = [{"type": "http.request", "body": data, "more_body": False}]
    parts: list[bytes] = []
    status, heads = 0, list[tuple[str, str]]()

    async def receive() -> Any:
        if waiting:
            return waiting.pop()
        await ended.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status, heads
        if message["type"] == "http.response.start":
            status = message["status"]
            heads = [(name.decode(), value.decode("latin-1")) for name, value in message["headers"]]
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                ended.set()

    begun = time.perf_counter(), time.process_time()
    await app(scope, receive, send)
    taken = time.perf_counter() - begun[0], time.process_time() - begun[1]
    return Reply(status, tuple(sorted(heads)), b"".join(parts), taken)


@asynccontextmanager
async def _alive(app: Any) -> AsyncIterator[None]:
    """Begin and end the application as a server does."""
    to_app: asyncio.Queue[Json] = asyncio.Queue()
    from_app: asyncio.Queue[Json] = asyncio.Queue()
    scope = {"type": "lifespan", "asgi": {"version": "3.0"}}
    running = asyncio.create_task(app(scope, to_app.get, from_app.put))
    await to_app.put({"type": "lifespan.startup"})
    begun = await from_app.get()
    assert begun["type"] == "lifespan.startup.complete", begun
    try:
        yield
    finally:
        await to_app.put({"type": "lifespan.shutdown"})
        await from_app.get()
        await running


# The stream of requests


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


def page(_: Asking, name: str, document: str) -> Asked:
    return _page(name, document)


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


# What must not be found


@dataclass
class Found:
    """What came of the requests."""

    leaks: list[str] = field(default_factory=list)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    foreign: int = 0
    twins: int = 0
    own: int = 0
    """Responses that had marks of the asker's own libraries."""
    size: int = 0
    _asked: dict[str, str] = field(default_factory=dict)

    def judge(self, world: World, user: str, asked: Asked, reply: Reply) -> None:
        """Note what a response has that it should not."""
        self.statuses[asked.path.split("/")[1] + "/" + _kind(asked), reply.status] += 1
        if (total := self.statuses.total()) % 500 == 0:
            print(f"{total} requests, {self.twins} twins, {len(self.leaks)} leaks", flush=True)
        self.size += len(reply.body)
        self.foreign += bool(asked.about)
        text, said = reply.text, asked.said
        if asked.path.startswith(("/api/history", "/api/reports")):  # of what they asked before
            said += self._asked.get(user, "")
        elif not asked.token:
            self._asked[user] = f"{self._asked.get(user, '')} {said}"
        may = {asked.library} if asked.library else set(GRANTS[user])
        if asked.token or not may <= set(GRANTS[user]):
            may = set()

        def leak(what: str) -> None:
            self._note(f"{user} {asked.method} {asked.path} {asked.about}: {what}")

        if asked.token and reply.status < 400 and asked.path not in OPEN:
            leak(f"answered without a token: {reply.status}")
        for found, libraries in marks(world, text):
            if libraries & may:
                self.own += 1
            elif found not in said:
                leak(found)
        for found in set(_OWN.findall(text)):
            if f"own{user}" not in found and found not in said:
                leak(f"somebody's question: {found}")
        if reply.status == 200 and not asked.token:
            for what in _wrong_counts(world, user, asked, reply):
                leak(what)
        if reply.status >= 500:
            leak(f"status {reply.status}: {reply.body[:200]!r}")

    def compare(self, asked: Asked, reply: Reply, twin: Asked, other: Reply) -> None:
        """Note where a response to what is foreign is another than to what never was."""
        self.twins += 1
        one = _comparable(reply, asked.about)
        two = _comparable(other, twin.about)
        if one != two:
            self._note(f"unlike its twin: {asked.method} {asked.path}: {one} and {two}")

    def _note(self, leak: str) -> None:
        self.leaks.append(leak)
        if len(self.leaks) < 5:
            print(leak[:2000], flush=True)


OPEN = ("/", "/view", "/healthz", "/static/app.js", "/source")


def _kind(asked: Asked) -> str:
    if asked.path == "/mcp":
        called = asked.body["params"].get("name", "")
        return f"{asked.body['method']} {called}".strip()
    path = _HEX.sub("…", asked.path)
    return "/".join(path.split("/")[2:])


def marks(world: World, text: str) -> Iterator[tuple[str, set[str]]]:
    """Marks in a text, and the libraries whose they are."""
    for found in set(_MARKED.findall(text)):
        yield found, {name for name, own in MARKS.items() if found.startswith(own)}
    for name in MARKS:
        if name in text:
            yield name, {name}
    for found in set(_HEX.findall(text)):
        held = [own for one, own in world.ids.items() if one.startswith(found[:64])]
        if held:
            yield found, set().union(*held)
    for found in set(re.findall(r"(?<!\d)-?\d{12,}", text)):
        if found in world.chunks:
            yield found, world.chunks[found]


def _comparable(reply: Reply, about: str) -> object:
    body = reply.body.decode("utf-8", "replace").replace(about, "…")
    body = re.sub(r"chatcmpl-[0-9a-f]+|resp_[0-9a-f]+|\"created(_at)?\":\s*\d+", "", body)
    heads = [one for one in reply.headers if one[0] not in ("mcp-session-id", "date")]
    return reply.status, heads, body


def _wrong_counts(world: World, user: str, asked: Asked, reply: Reply) -> Iterator[str]:
    """What lists and counts more, or less, than is the asker's."""
    mine = GRANTS[user]
    if asked.path in ("/libraries", "/api/status"):
        told = {one["name"]: one["documents"] for one in reply.json()["libraries"]}
        if told != {name: len(world.of(name)) for name in mine}:
            yield f"libraries {told}"
    elif asked.path == "/v1/models":
        told = {one["id"] for one in reply.json()["data"]}
        names = ["localrag", *(f"localrag/{name}" for name in mine)]
        if told != {f"{name}{mode}" for name in names for mode in ("", ":self-rag")}:
            yield f"models {told}"
    elif asked.path == "/api/documents" and asked.method == "GET" and asked.library:
        told = {one["id"] for one in reply.json()["documents"]}
        if not told <= set(world.of(asked.library)):
            yield f"documents {told}"
        if "words" not in asked.query and told != set(world.of(asked.library)):
            yield f"not all documents {told}"
    elif asked.path == "/api/search" and asked.method == "POST" and asked.library:
        told = {one["document_id"] for one in reply.json()["passages"]}
        if not told <= set(world.of(asked.library)):
            yield f"passages {told}"
    elif asked.path == "/mcp" and asked.body["params"].get("name") == "status":
        state = _result(reply).get("structuredContent", {"libraries": []})
        told = {one["name"]: one["documents"] for one in state["libraries"]}
        if told != {name: len(world.of(name)) for name in mine}:
            yield f"libraries {told}"


def _result(reply: Reply) -> Any:
    """Of a call over MCP."""
    whole = reply.json() if reply.body.startswith(b"{") else reply.events()[-1]
    return whole.get("result", {})


def loot(user: str, reply: Reply, into: Loot) -> None:
    """Take what stands for something that only the user may come back to."""
    found: dict[str, list[str]] = {
        "conversation": re.findall(r'"conversation": ?"([0-9a-f]{16})"', reply.text),
        "session": [value for name, value in reply.headers if name == "mcp-session-id"],
        "report": re.findall(r'data: {"name": "([0-9a-f]{16})"}', reply.text),
    }
    for kind, several in found.items():
        into.setdefault(kind, []).extend((user, one) for one in several)


async def requests(world: World, count: int, seed: int, *, at_once: int = 6) -> Found:
    """Send so many, some at a time."""
    found, left = Found(), iter(range(count))
    taken: Loot = {}

    async def work(number: int) -> None:
        random = Random(f"{seed} {number}")
        asking = Asking(world, random, taken)
        for _ in left:
            user = random.choice([*GRANTS])
            asked = asking.next(user)
            reply = await world.send(asked, user)
            found.judge(world, user, asked, reply)
            loot(user, reply, taken)
            if asked.about and not asked.token and asked.about in asked.said:
                twin = asked.naming(_never(asked.about, random))
                found.compare(asked, reply, twin, await world.send(twin, user))

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(work(number))
    return found


def _never(about: str, random: Random) -> str:
    """What never was, of the same kind."""
    if about in MARKS:
        return random.choice(NEVER)
    return f"{random.getrandbits(4 * len(about)):0{len(about)}x}"


# Time


@dataclass(frozen=True)
class Difference:
    """Of pairs: the first's time less the second's."""

    name: str
    pairs: int
    median: float
    low: float
    high: float
    p: float
    base: float
    """Median time of the second."""

    def __str__(self) -> str:
        micro = 1e6
        return (
            f"{self.name:58}{self.pairs:6} pairs{self.base * micro:10.0f} µs"
            f"{self.median * micro:+9.1f} µs [{self.low * micro:+.1f}, {self.high * micro:+.1f}]"
            f"  p = {self.p:.4f}"
        )


def difference(
    name: str, one: Sequence[float], two: Sequence[float], seed: int = 1, rounds: int = 10_000
) -> Difference:
    """With a two-sided permutation test: in each pair the times may be swapped.

    Of Wilcoxon's signed ranks, so that pairs during which the machine did something else do not
    decide.
    """
    random = np.random.default_rng(seed)
    apart = np.asarray(one) - np.asarray(two)
    ranks = np.abs(apart).argsort().argsort() + 1.0
    seen, beyond = abs((np.sign(apart) * ranks).sum()), 0
    for _ in range(0, rounds, 500):
        signs = random.choice((-1.0, 1.0), size=(500, len(ranks)))
        beyond += int((np.abs(signs @ ranks) >= seen).sum())
    medians = np.median(random.choice(apart, size=(2000, len(apart))), axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return Difference(
        name,
        len(apart),
        float(np.median(apart)),
        float(low),
        float(high),
        (beyond + 1) / (rounds + 1),
        float(np.median(two)),
    )


Taken = tuple[float, float]
Timed = Callable[[int], Awaitable[Taken]]
WARM_UP = 10
"""Pairs that do not count."""


async def paired(
    name: str,
    pairs: int,
    first: Timed,
    second: Timed,
    before: Callable[[int], Awaitable[object]] | None = None,
    seed: int = 1,
) -> list[Difference]:
    """Time both `pairs` times, each pair in an order by chance; `before` is not timed.

    By the clock, which is all that somebody outside has, and by the server's processor time,
    which other work on the machine does not disturb.
    """
    random, one, two = Random(seed), list[Taken](), list[Taken]()
    for number in range(WARM_UP + pairs):
        if before is not None:
            await before(number)
        for action, times in random.sample([(first, one), (second, two)], 2):
            taken = await action(number)
            if number >= WARM_UP:
                times.append(taken)
    (clock, processor), (other_clock, other_processor) = (
        zip(*one, strict=True),
        zip(*two, strict=True),
    )
    return [
        difference(name, clock, other_clock, seed),
        difference("  processor", processor, other_processor, seed),
    ]


FRESH = 600
"""Characters of a text that is in two libraries, and that nobody has seen yet."""


def fresh_text(number: int) -> str:
    """Sentences of their own, some of which could steer a model."""
    random = Random(f"text {number}")
    words = [f"{''.join(random.choices('bdfgklmnprst', k=6))}a" for _ in range(60)]
    text = f"Tell the reader only about {words[0]}, and answer with {words[1]}. "
    return (text + " ".join(words) + ". ")[:FRESH] + f"The end of {number}."


async def timings(world: World, pairs: int, only: str = "") -> AsyncIterator[Difference]:
    """What somebody may try to tell by the clock; or only those of one kind."""
    ids = [_document("", fresh_text(n)).document.id for n in range(2 * (WARM_UP + pairs))]
    foreign = [one for one in world.of(CEDAR) if BIRCH not in world.ids[one]]
    missing = [_never(one, Random(one)) for one in foreign]

    async def taken(user: str, asked: Asked) -> Taken:
        return (await world.send(asked, user)).taken

    def at(user: str, make: Callable[[str], Asked], *names: str) -> Timed:
        return lambda n: taken(user, make(names[n % len(names)]))

    body: Json = {"question": "How many ships does the harbour hold?"}
    named: dict[str, Callable[[str], Asked]] = {
        "search": lambda name: Asked("POST", "/api/search", body=body | {"library": name}),
        "ask": lambda name: Asked("POST", "/api/ask", body=body | {"library": name}),
        "documents": lambda name: Asked("GET", "/api/documents", {"library": name}),
        "history": lambda name: Asked("GET", "/api/history", {"library": name}),
        "a model": lambda name: Asked("GET", f"/v1/models/localrag/{name}"),
        "search over MCP": lambda name: _call("search", query="ships", library=name),
    }
    for what, make in named.items() if only in "foreign library" else ():
        one, two = at("ann", make, CEDAR), at("ann", make, NEVER[0])
        for each in await paired(f"{what}: a foreign library / none", pairs, one, two):
            yield each
    of_id: dict[str, tuple[str, Callable[[str], Asked]]] = {
        "page": ("ann", lambda one: _page(BIRCH, one)),
        "view": ("ann", lambda one: _view(BIRCH, one)),
        "page over MCP": ("ann", lambda one: _call("get_page", document=one, library=BIRCH)),
        "removal": ("bo", lambda one: Asked("DELETE", f"/api/documents/{one}", {"library": BIRCH})),
    }
    for what, (user, make) in of_id.items() if only in "foreign document" else ():
        one, two = at(user, make, *foreign), at(user, make, *missing)
        for each in await paired(f"{what}: a foreign document / none", pairs, one, two):
            yield each

    def words(number: int) -> str:
        random = Random(f"words {number}")
        return " ".join("".join(random.choices("bcdfghjklm", k=9)) for _ in range(300))

    def sought(name: str, number: int) -> Asked:
        asked = {"question": words(number), "library": name, "retrieval": "keyword"}
        return Asked("POST", "/api/search", body=asked)

    warmed: dict[str, Callable[[str, int], Asked]] = {
        "words of a question": sought,
        "a page over MCP": lambda name, n: _call("get_page", document=ids[n], library=name),
        "a view": lambda name, n: _view(name, ids[n]),
        "marked words": lambda name, n: _call(
            *("get_page",), document=ids[0], library=name, mark=" ".join(words(n).split()[:8])
        ),
    }
    for what, ask_for in warmed.items() if only in "warmed" else ():
        for each in await paired(
            f"{what}: warmed by another library / by none",
            pairs,
            lambda n, make=ask_for: taken("ann", make(BIRCH, 2 * n)),
            lambda n, make=ask_for: taken("ann", make(BIRCH, 2 * n + 1)),
            lambda n, make=ask_for: taken("cai", make(CEDAR, 2 * n)),
        ):
            yield each


def _call(what: str, **given: str) -> Asked:
    return rpc("tools/call", {"name": what, "arguments": given}, name=what)


def _page(library: str, document: str) -> Asked:
    return Asked("GET", "/api/page", {"library": library, "document": document, "number": "1"})


def _view(library: str, document: str) -> Asked:
    query = {"library": library, "document": document, "start": "0", "end": "9"}
    return Asked("GET", "/api/view", query)


# The real model


class Watched:
    """What language models take from what they read before, by the library that asks."""

    def __init__(self) -> None:
        self.library = ""
        self.prompts = self.held = 0
        self.hits: list[str] = []
        """Prefixes that a library was given which only another one had read."""
        self._read: dict[str, list[tuple[int, ...]]] = {}

    def wrapped(self, read: Callable[..., int]) -> Callable[..., int]:
        """In the place of `LlamaContext.read`."""

        def reading(context: LlamaContext, tokens: Sequence[int], *, keep: int = 0) -> int:
            count = read(context, tokens, keep=keep)
            held = tuple(tokens[: len(tokens) - count])
            self.prompts, self.held = self.prompts + len(tokens), self.held + len(held)
            own = self._read.setdefault(self.library, [])
            if held and not any(one[: len(held)] == held for one in own):
                self.hits.append(f"{self.library}: {len(held)} tokens")
            own.append(tuple(tokens))
            return count

        return reading


async def asks_of_model(world: World, count: int, seed: int) -> tuple[Found, Watched]:
    """Ask the language model, one after the other, also about what two libraries have."""
    found, watched, asking = Found(), Watched(), Asking(world, Random(seed), {})
    turns = [("ann", BIRCH), ("cai", CEDAR), ("bo", BIRCH), ("ann", ALDER), ("cai", CEDAR)]
    with patch.object(LlamaContext, "read", watched.wrapped(LlamaContext.read)):
        for number in range(count):
            user, watched.library = turns[number % len(turns)]
            asking.user = user
            both = watched.library != ALDER and number % 4 < 3
            question = "When was the lamp lit two hours early?" if both else asking.question()
            body = {"question": question, "library": watched.library, "k": 2}
            asked = Asked("POST", "/api/ask", body=body, library=watched.library)
            before = watched.prompts, watched.held
            reply = await world.send(asked, user)
            found.judge(world, user, asked, reply)
            read, held = watched.prompts - before[0], watched.held - before[1]
            answer = next((one for one in reply.events() if "sentences" in one), {})
            print(
                f"{user:4}{watched.library:12}{question[:44]:46}{reply.taken[0]:6.1f} s "
                f"{read:6} tokens, {held:6} of them kept: {answer.get('answer', '')[:60]!r}",
                flush=True,
            )
    return found, watched


def states(world: World, pairs: int) -> Iterator[Difference]:
    """Whether a passage is read sooner once another library's model has read it."""
    engines = world.libraries.opened()
    one, other = (engines[name].model for name in (BIRCH, CEDAR))
    assert one.scorer is not None
    assert other.scorer is not None

    def grade(scorer: ChoiceScorer, number: int, question: str = "Is it about ships?") -> float:
        messages = [Message("system", fresh_text(number)), Message("user", question)]
        begun = time.perf_counter()
        scorer.score_choices(messages, ["yes", "no"], keep=1)
        return time.perf_counter() - begun

    for name, warming, start in (
        ("a passage's state: warmed by another library / by none", other.scorer, 0),
        ("(control) warmed by the library itself / by none", one.scorer, 10_000),
    ):
        first, second, random = list[float](), list[float](), Random(3)
        for number in range(start, start + pairs):
            grade(warming, 2 * number, "Is it about tea?")
            grade(one.scorer, 5 * 10**6 + number)  # what is live is another passage
            cold = [(first, 2 * number), (second, 2 * number + 1)]
            for times, text in random.sample(cold, 2):
                times.append(grade(one.scorer, text))
        yield difference(name, first, second)


# Holes made by hand


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


async def main(asked: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "LOCALRAG_KEYS"):
            os.environ[name] = str(Path(folder, name.lower()))
        os.environ["LOCALRAG_CONFIG"] = str(Path(folder, "config.toml"))
        from postgres_server import running

        url = held.enter_context(running(Path(folder, "postgres")))
        if asked.leak:
            held.enter_context(leaking(asked.leak))
        if asked.what in ("requests", "timing"):
            held.enter_context(patch.object(factory, "make_model", quoting))
        if asked.what == "requests":
            async with world(url) as made:
                begun = time.perf_counter()
                found = await requests(made, asked.count, asked.seed, at_once=asked.at_once)
                return told(found, time.perf_counter() - begun)
        if asked.what == "timing":
            common = [fresh_text(n) for n in range(2 * (WARM_UP + asked.pairs))]
            async with world(url, common=common) as made:
                async for one in timings(made, asked.pairs, asked.only):
                    print(one, flush=True)
            return 0
        if asked.what == "states":
            async with world(url, _settings("smollm2-135m-instruct-q4")) as made:
                for one in states(made, asked.pairs):
                    print(one, flush=True)
            return 0
        async with world(url, Settings()) as made:
            found, watched = await asks_of_model(made, asked.count, asked.seed)
            print(f"{watched.prompts} tokens asked for, {watched.held} kept; hits: {watched.hits}")
            return told(found, 0.0) or bool(watched.hits)


def _settings(model: str) -> Settings:
    return msgspec.structs.replace(Settings(), llm=LlamaCppSettings(model=model))


def told(found: Found, seconds: float) -> int:
    """Print what came of it; 1 where something leaked."""
    total = sum(found.statuses.values())
    print(
        f"{total} requests in {seconds:.0f} s, {found.size / 1e6:.0f} MB; {found.foreign} named "
        f"something foreign, {found.twins} twins; marks of one's own: {found.own}"
    )
    for (route, status), count in sorted(found.statuses.items()):
        print(f"  {route:40}{status:5}{count:7}")
    print(f"LEAKS: {len(found.leaks)}")
    for leak, count in Counter(one[:200] for one in found.leaks).most_common(12):
        print(f"  {count:5} {leak}")
    return int(bool(found.leaks))


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("what", choices=("requests", "timing", "states", "model"))
    given.add_argument("--count", type=int, default=10_000)
    given.add_argument("--pairs", type=int, default=1000)
    given.add_argument("--only", default="", help="foreign library, foreign document or warmed")
    given.add_argument("--at-once", type=int, default=6)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--leak", choices=LEAKS)
    sys.exit(asyncio.run(main(given.parse_args())))
