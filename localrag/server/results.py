"""What long work came to, such as a report or a table: in memory, until something is removed.

It holds text of documents. The last few are kept; who wants to keep one saves it as a file.
"""

from __future__ import annotations

import secrets
import threading
from typing import TypeVar

from localrag.errors import LocalragError
from localrag.library.records import Removals
from localrag.server.asker import own_name
from localrag.server.libraries import Libraries

T = TypeVar("T")

_KEPT = 4


class Results:
    """The last results, by a name that nobody guesses. May be used from several threads.

    Each is for whoever asked for it alone.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[object, str, tuple[str, int]]] = {}
        self._lock = threading.Lock()

    def keep(self, result: object, library: str, before: Removals) -> str:
        """Its name from now on; `before` is how far removals were when the work on it began."""
        name = secrets.token_hex(8)
        with self._lock:
            self._kept[own_name(), name] = result, library, (before.epoch, before.generation)
            # Nobody's goes because of what others do.
            mine = [
                key
                for key, (_, of, _) in self._kept.items()
                if (key[0], of) == (own_name(), library)
            ]
            for key in mine[:-_KEPT]:
                del self._kept[key]
        return name

    def get(self, name: str, kind: type[T]) -> tuple[T, str] | None:
        """The result of that name and the library that it is of, if it is here still."""
        with self._lock:
            result, library, _ = self._kept.get((own_name(), name), (None, "", None))
        return (result, library) if isinstance(result, kind) else None

    async def exported(
        self, name: str, kind: type[T], libraries: Libraries, gone: LocalragError
    ) -> T:
        """The result of that name, for who may read its library still. Raises `gone`."""
        entry = self.get(name, kind)
        if entry is None:
            raise gone
        result, library = entry
        # Whoever asks may have lost their role there since.
        await libraries.open_recorded(library, "export")
        return result

    def forget(self, library: str | None = None, removals: Removals | None = None) -> None:
        """Keep none on that library, or none at all; of `removals`, those begun after them."""
        current = removals and (removals.epoch, removals.generation)
        with self._lock:
            for key, (_, of, before) in list(self._kept.items()):
                if library in (None, of) and before != current:
                    del self._kept[key]
