"""The libraries that a server serves, by the names of their folders; each engine is opened once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext

from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.errors import ForbiddenError, LibraryNotFoundError, UsageError
from localrag.library.acting import Action, Role, acting_as_server
from localrag.library.backends.opening import backend_of, is_there
from localrag.library.folder import vaults
from localrag.library.location import Location, name_of
from localrag.server.asker import asker, own_name, recorded
from localrag.server.naming import Naming
from localrag.server.replies import no_library
from localrag.server.setups import Difference, Setup, setup_of

LISTED = 60.0
"""Seconds for which it is written down that somebody lists a library: a page asks all the time."""


class Libraries:
    """Engines by name, opened when they are first asked for. May be used from several threads."""

    def __init__(
        self,
        places: Sequence[Location],
        opened: Callable[[Location], Engine],
        *,
        shared: bool = False,
    ) -> None:
        """The first folder is the default. Raises `UsageError` for two of one name.

        Where many people share them, each is there only for who may read it.
        """
        self._shared = shared
        self._places: dict[str, Location] = {}
        self._open = opened
        self._engines: dict[str, Engine] = {}
        self._naming: dict[str, Naming] = {}
        self._setups: dict[str, Setup] = {}
        self._lock = threading.Lock()
        self._listed: dict[tuple[str, str], float] = {}
        for place in places:
            name = name_of(place)
            if name in self._places:
                raise UsageError(
                    "Two libraries have the name {name}: {one} and {other}.",
                    hint="Rename the folder of one of them.",
                    name=name,
                    one=str(self._places[name]),
                    other=str(place),
                )
            self._places[name] = place

    @property
    def names(self) -> tuple[str, ...]:
        """The names of those that who asks may read, the default first."""
        return tuple(name for name in self._places if self._may(name, "reader"))

    def named(self, name: str) -> str:
        """The library of that name, the default for "". Raises `LibraryNotFoundError`."""
        if name:
            return name
        default = next(iter(self.names), None)
        if default is None:
            raise LibraryNotFoundError(
                "There is no library that you may read.", hint="Ask its owner for access."
            )
        return default

    @property
    def have_nodes(self) -> bool:
        """Whether one of them is in a database, where other servers may serve it, too."""
        return bool(self.of_nodes)

    @property
    def of_nodes(self) -> list[str]:
        """The names of those in a database."""
        return [name for name, place in self._places.items() if backend_of(place).has_nodes]

    def engine(self, name: str) -> Engine:
        """The engine over a library, which names files as all do here; "" is the default.

        Raises `LibraryNotFoundError`, also for one that who asks may not read, and
        `ForbiddenError` where what they ask takes another role in it than they have.
        """
        name = self.named(name)
        if not (self._may(name, "reader") and name in self._places):
            raise no_library(name)
        person = asker()
        if person is not None and not self._may(name, person.least):
            raise ForbiddenError(
                "In the library {name} this takes the role {role}.",
                hint="Ask an owner of it, who can change yours.",
                name=name,
                role=person.least,
            )
        if opened := self.opened().get(name):  # before it may be closed for having been idle
            _prolong(opened)
        engine = self._engine(name)
        _prolong(engine)
        return engine

    async def open_recorded(
        self, name: str, action: Action, words: str | None = None
    ) -> tuple[str, Engine]:
        """A library's name and engine, once it is written down what is done there.

        Whoever has to refuse for another reason first, or opens it in a thread, does the parts.
        Raises as `engine` does.
        """
        name = self.named(name)
        engine = self.engine(name)
        await recorded(name, action, words)
        return name, engine

    async def listed(self, name: str) -> None:
        """Write down that who asks is told what is in a library, where that is not yet."""
        who, now = (own_name(), self.named(name)), time.monotonic()
        self._listed = {reader: at for reader, at in self._listed.items() if now - at < LISTED}
        if who not in self._listed:
            await recorded(who[1], "list")
            self._listed[who] = now

    def role(self, name: str) -> Role | None:
        """The role that who asks has in a library; None in a server of one user."""
        person = asker()
        return None if person is None else person.user.roles.get(name)

    def begin(self) -> list[str]:
        """Open all of them, for the server itself; which are empty.

        What is no library is said before one is made.
        """
        with self._by_itself():
            return [
                name for name in reversed(self._places) if self._engine(name).library.is_empty()
            ]

    def engine_if_there(self, name: str) -> Engine | None:
        """The engine over a library, for the server itself; None where it was deleted.

        One that was made again is opened, also where nobody asks for it yet.
        """
        engine = self.opened().get(name)
        if engine is not None:
            return engine
        with self._by_itself():  # asked without the lock: a database that is away takes its time
            there = is_there(self._places[name])
        return self._engine(name) if there else None

    @property
    def answers_nobody(self) -> bool:
        """Whether a database has users that it had not when this server began."""
        return not self._shared and any(
            engine.library.tells_apart for engine in self.opened().values()
        )

    def _by_itself(self) -> AbstractContextManager[None]:
        """A block in which the server acts, and nobody who asks."""
        return acting_as_server() if self._shared else nullcontext()

    def _may(self, name: str, role: Role) -> bool:
        if not self._shared:
            return True
        person = asker()
        return person is not None and person.user.may(name, role)

    def _engine(self, name: str) -> Engine:
        place = self._places[name]
        with self._lock:
            if name not in self._engines:
                with self._by_itself():
                    engine = self._open(place)
                naming = self._naming[name] = Naming(engine.library)
                engine.display_name, engine.located = naming.of, naming.located
                self._setups[name] = setup_of(engine.settings, place)
                self._engines[name] = engine
            return self._engines[name]

    def naming(self, name: str) -> Naming:
        """What the files of a library are called. Raises as `engine` does."""
        name = self.named(name)
        self.engine(name)
        return self._naming[name]

    def match(self, setup: Setup) -> Engine | Difference:
        """The engine that gives the results which a process with that setup would, or why none."""
        reason: Difference = "library"
        for name in self.names:
            engine = self.engine(name)
            difference = self._setups[name].difference(setup)
            if difference is None:
                return engine
            reason = difference if difference != "library" else reason
        return reason

    def change(self, changed: Callable[[Settings], Settings]) -> None:
        """Use other settings from the next question on, in all libraries."""
        for name in self.names:
            engine = self.engine(name)
            with self._lock:
                engine.settings = changed(engine.settings)
                self._setups[name] = self._setups[name].with_settings(engine.settings)

    def opened(self) -> dict[str, Engine]:
        """The engines that are open, by name."""
        with self._lock:
            return dict(self._engines)

    def in_use(self) -> list[Engine]:
        """The engines whose models are in memory; that of the default where none is."""
        engines = self.opened()
        default = [engines[name] for name in [*self._places][:1] if name in engines]
        return [engine for engine in engines.values() if engine.is_ready] or default

    def forget(self, name: str) -> None:
        """Keep nothing of a library's texts and names in memory."""
        with self._lock:
            engine, naming = self._engines.get(name), self._naming.get(name)
        if engine is not None and naming is not None:
            naming.forget()
            engine.forget()

    def close_vaults(self) -> list[str]:
        """Close vaults that nobody has used for long, or that their user has closed; their names.

        Who asks next is told how to open them.
        """
        due = []
        for name, engine in self.opened().items():
            if (vault := engine.library.backend.vault) and vaults.is_due(vault.id):
                self.forget(name)
                self.drop(name)
                vaults.close_here(vault.id)
                due.append(name)
        return due

    def drop(self, name: str) -> None:
        """Let go of an engine; who asks next opens what is there then."""
        with self._lock:
            engine = self._engines.pop(name, None)
            self._naming.pop(name, None)
            self._setups.pop(name, None)
        if engine is not None:
            engine.close()

    def close(self) -> None:
        """Close all engines."""
        with self._lock:
            for engine in self._engines.values():
                engine.close()
            self._engines.clear()
            self._naming.clear()


def _prolong(engine: Engine) -> None:
    """Have a vault stay open for as long again; of other libraries nothing."""
    if vault := engine.library.backend.vault:
        vaults.prolong(vault.id)
