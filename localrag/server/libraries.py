"""The libraries that a server serves, by the names of their folders; each engine is opened once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.errors import LibraryNotFoundError, UsageError
from localrag.library.location import Location, name_of
from localrag.server.naming import Naming
from localrag.server.setups import Difference, Setup, setup_of


class Libraries:
    """Engines by name, opened when they are first asked for. May be used from several threads."""

    def __init__(self, places: Sequence[Location], opened: Callable[[Location], Engine]) -> None:
        """The first folder is the default. Raises `UsageError` for two of one name."""
        self._places: dict[str, Location] = {}
        self._open = opened
        self._engines: dict[str, Engine] = {}
        self._naming: dict[str, Naming] = {}
        self._setups: dict[str, Setup] = {}
        self._lock = threading.Lock()
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
        """Their names, the default first."""
        return tuple(self._places)

    def engine(self, name: str) -> Engine:
        """The engine over a library, which names files as all do here.

        Raises `LibraryNotFoundError`.
        """
        place = self._places.get(name)
        if place is None:
            raise LibraryNotFoundError(
                "There is no library {name}.", hint="See /v1/models.", name=name
            )
        with self._lock:
            if name not in self._engines:
                engine = self._open(place)
                naming = self._naming[name] = Naming(engine.library)
                engine.called = naming.of
                self._setups[name] = setup_of(engine.settings, place)
                self._engines[name] = engine
            return self._engines[name]

    def naming(self, name: str) -> Naming:
        """What the files of a library are called. Raises `LibraryNotFoundError`."""
        self.engine(name)
        return self._naming[name]

    def match(self, setup: Setup) -> Engine | Difference:
        """The engine that gives the results which a process with that setup would, or why none."""
        found: Difference = "library"
        for name in self.names:
            engine = self.engine(name)
            difference = self._setups[name].difference(setup)
            if difference is None:
                return engine
            found = difference if difference != "library" else found
        return found

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

    def forget(self, name: str) -> None:
        """Keep nothing of a library's texts and names in memory."""
        with self._lock:
            engine, naming = self._engines.get(name), self._naming.get(name)
        if engine is not None and naming is not None:
            naming.forget()
            engine.forget()

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
