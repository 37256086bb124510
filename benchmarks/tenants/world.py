"""Three libraries with marks of their own, their users, and the server over them."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from fakes import HashEmbedder
from numpy.typing import NDArray

from localrag import factory
from localrag.config.settings import Settings
from localrag.documents.chunking import WindowChunker, passage_text
from localrag.egress.databases import read_url
from localrag.engine import Engine
from localrag.library.acting import Role
from localrag.library.backends.postgres.users import Users
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.library.records import FileState, NewDocument
from localrag.models.llms.base import Completion, Options, check_stopped
from localrag.server.access import Access
from localrag.server.app import make_app
from localrag.server.libraries import Libraries
from localrag.server.people import People
from localrag.types import Document, Message, Page
from tenants.sending import Asked, Reply, alive, sent

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
    return [stored(name, text, language) for name, language, text in found]


def stored(name: str, text: str, language: str = "en") -> NewDocument:
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
            found += [stored(f"common{n}.txt", text) for n, text in enumerate(common)]
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
        await held.enter_async_context(alive(app))
        libraries.begin()
        yield World(app, libraries, tokens, ids, chunks)
