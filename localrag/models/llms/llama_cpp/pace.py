"""How fast a model reads and writes on this machine, kept from one process to the next."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import astuple
from pathlib import Path

import msgspec

from localrag.models.llms.base import Pace, TokenUse
from localrag.system.files import replace_content

LEAST_READ, LEAST_WRITTEN = 64, 8
"""Tokens from which on a speed is told."""
MOST_READ = 20_000
"""Tokens from which on older ones count half: a machine may become busier, or less so."""
USUAL_REPLY = 80.0
"""Tokens of a reply, before there was one."""
_MOST = 1e6
"""What no figure of a file reaches: tokens and seconds are halved long before."""
_WEIGHT = 0.2
"""How much the newest reply counts in the mean."""


class PaceRecord:
    """Adds up what calls took; kept at `path`, where there is one.

    A file that cannot be read or written, or holds what cannot be, costs a forecast and no more.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._use, self._reply = TokenUse(), 0.0
        self._changed = False
        if path is not None:
            with suppress(OSError, msgspec.MsgspecError):
                use, reply = msgspec.json.decode(path.read_bytes(), type=tuple[TokenUse, float])
                if all(0 <= figure < _MOST for figure in (*astuple(use), reply)):
                    self._use, self._reply = use, reply

    @property
    def pace(self) -> Pace | None:
        """The speeds; None while there is too little to tell them from."""
        use = self._use
        if min(use.read - LEAST_READ, use.written - LEAST_WRITTEN, use.reading, use.writing) < 0:
            return None
        prefill, decode = use.read / max(use.reading, 1e-6), use.written / max(use.writing, 1e-6)
        return Pace(prefill, decode, self._reply or USUAL_REPLY)

    def add(self, use: TokenUse) -> None:
        """What a call took."""
        if not (use.read or use.written):
            return
        total = self._use + use
        if total.read > MOST_READ:
            total = TokenUse(
                total.read // 2, 0, total.written // 2, total.reading / 2, total.writing / 2
            )
        self._use, self._changed = total, True

    def add_reply(self, tokens: int) -> None:
        """A reply of so many tokens was written to its end."""
        self._reply += (tokens - self._reply) * (_WEIGHT if self._reply else 1.0)

    def save(self) -> None:
        """Write the file, if there is anything new."""
        if self._path is None or not self._changed:
            return
        with suppress(OSError):
            kept = TokenUse(
                self._use.read, 0, self._use.written, self._use.reading, self._use.writing
            )
            replace_content(self._path, msgspec.json.encode((kept, self._reply)))
            self._changed = False
