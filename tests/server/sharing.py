"""A server that people share, over a double of the users that a database keeps."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import httpx
from library.library_fixtures import EMBEDDER, add, document, open_library
from server.conftest import GARDEN, TEA, Writing

from localrag import factory
from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.errors import ForbiddenError, LibraryUnreachableError
from localrag.library.acting import Role, User
from localrag.library.location import Location, name_of
from localrag.library.records import EmbeddingIdentity
from localrag.server.access import Access
from localrag.server.app import make_app
from localrag.server.asker import UserDirectory
from localrag.server.libraries import Libraries
from localrag.server.listening import bind, in_thread
from localrag.server.people import People, SignOn

TEXTS = {"garden": GARDEN, "tea": TEA, "attic": "The attic holds nine trunks of letters."}


@dataclass
class Kept:
    """Users in memory, with the methods of those in a database."""

    roles: dict[str, dict[str, Role]] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    log: list[tuple[str, str, str, str | None]] = field(default_factory=list)
    looked: int = 0
    down: bool = False
    _tokens: set[str] = field(default_factory=set)
    _count: Iterator[int] = field(default_factory=itertools.count)

    def add(self, name: str, **roles: Role) -> str:
        self.roles[name] = dict(roles)
        self._tokens.add(token := self._secret(name))
        return token

    def remove(self, name: str) -> None:
        del self.roles[name]
        self.secrets = {key: user for key, user in self.secrets.items() if user != name}

    def _answer(self, name: str | None) -> User | None:
        self.looked += 1
        if self.down:
            raise LibraryUnreachableError("The database {name} cannot be reached.", name="docs")
        return None if name not in self.roles else User(name, dict(self.roles[name]))

    def by_token(self, token: str) -> User | None:
        return self._answer(self.secrets.get(token))

    def by_name(self, name: str) -> User | None:
        return self._answer(name)

    def begin_session(self, token: str) -> str:
        if token not in self._tokens:
            raise ForbiddenError("A session does not begin another one.")
        return self._secret(self.secrets[token])

    def _secret(self, user: str) -> str:
        secret = f"secret-{next(self._count)}-of-{user}"
        self.secrets[secret] = user
        return secret

    def end_session(self, secret: str) -> None:
        self.secrets.pop(secret, None)

    def record(self, user: str, library: str, what: str, words: str | None) -> None:
        self._answer(user)
        self.log.append((user, library, what, words))

    def asked(self, library: str) -> Sequence[object]:
        return [entry for entry in self.log if entry[1] == library]


@dataclass
class Node:
    """One server of several libraries."""

    port: int
    access: Access
    users: UserDirectory
    llm: Writing
    engines: dict[str, Engine]

    def client(self, token: str = "", **headers: str) -> httpx.Client:
        """A client of whoever has that token."""
        fields = {"authorization": f"Bearer {token}", **headers} if token else headers
        return httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", headers=fields, timeout=60, trust_env=False
        )


def _identity() -> EmbeddingIdentity:
    return factory.identity_of(EMBEDDER, Settings())


def fill(places: Mapping[str, Location]) -> None:
    """A document in each library, by nobody: as the account that the tables belong to."""
    for name, place in places.items():
        with open_library(place, embedding=_identity()) as library:
            if library.is_empty():
                add(library, document(TEXTS[name], source=f"{name}.txt"), size=200)


@contextmanager
def shared(
    places: Mapping[str, Location],
    users: UserDirectory,
    *,
    sign_on: SignOn | None = None,
    proxy: str = "",
) -> Iterator[Node]:
    """A server of these libraries, for these users."""
    llm, make_model, settings = Writing(), factory.make_model, Settings()
    factory.make_model = lambda *_: factory.Model(
        llm, llm, lambda: None, None, lambda stopped, _: _for_call(llm, stopped)
    )
    engines = {}

    def opened(place: Location) -> Engine:
        tokenize = factory.make_tokenizer(settings)
        library = open_library(
            place, create=False, tokenize=tokenize, embedding=_identity(), serving=True
        )
        engines[name_of(place)] = engine = Engine(library, settings, embedder=EMBEDDER)
        return engine

    try:
        libraries = Libraries(list(places.values()), opened, shared=True)
        libraries.begin()
        listening = bind("127.0.0.1", 0)
        port = listening.getsockname()[1]
        access = Access("", port, proxy=proxy, people=People(users, sign_on))
        with in_thread(make_app(libraries, access), listening):
            yield Node(port, access, users, llm, engines)
    finally:
        factory.make_model = make_model


def _for_call(llm: Writing, stopped: object) -> factory.Model:
    view = llm.for_call(stopped)  # type: ignore[arg-type]
    return factory.Model(view, view, lambda: None)
