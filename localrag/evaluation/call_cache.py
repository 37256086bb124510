"""Calls that were paid for once: every prompt's outcome, by its content, in one SQLite file.

A run that is killed has every finished call on disk and continues from there with the same
numbers. The key is a hash of the model's fingerprint and of the prompt itself, so that changed
prompts, passages or models are never answered with something old.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from localrag.errors import UsageError
from localrag.library.catalogue.guarded import database_errors, open_database
from localrag.models.llms.base import (
    LLM,
    Activations,
    ChoiceScorer,
    Completion,
    Options,
    StateReader,
)
from localrag.models.llms.choices import Chooser, make_chooser
from localrag.system import files
from localrag.types import Message

_TABLE = (
    "CREATE TABLE IF NOT EXISTS calls "
    "(key TEXT PRIMARY KEY, value TEXT NOT NULL, seconds REAL NOT NULL)"
)
_WAIT = 30.0
"""Seconds that a call waits while another process writes."""


class CallCache:
    """Outcomes by key, each with the seconds that it took. Several threads may use it."""

    def __init__(self, path: Path, folder: Path | None = None, *, key: str = "") -> None:
        """Open or make the file. Raises `UsageError` where that cannot be, or it is not ours.

        `folder` is for what else is kept of models, where that is not the file's own. With a
        key, 64 hexadecimal digits, the file is encrypted.
        """
        self.folder = folder or path.parent
        self._lock = threading.Lock()
        failures: tuple[type[Exception], ...] = (OSError, *database_errors(encrypted=bool(key)))
        try:
            files.make_folder(path.parent)
            files.touch_file(path)  # SQLite gives the files beside it the same mode
            self._connection = open_database(path, timeout=_WAIT, key=key)
            with ExitStack() as stack:
                stack.callback(self._connection.close)
                self._connection.execute("PRAGMA journal_mode = WAL")
                self._connection.execute(_TABLE)
                stack.pop_all()
        except failures as error:
            raise UsageError(
                "{path} cannot be used to cache the judge's verdicts: {reason}.",
                hint="Remove the file, or name another folder with --cache.",
                path=path,
                reason=error,
            ) from error

    def get(self, key: str) -> tuple[Any, float] | None:
        """The value and the seconds it took, or None."""
        with self._lock:
            row = self._connection.execute(
                "SELECT value, seconds FROM calls WHERE key = ?", (key,)
            ).fetchone()
        return (json.loads(row[0]), float(row[1])) if row else None

    def put(self, key: str, value: object, seconds: float) -> None:
        """Keep a value; on disk when this returns."""
        text = json.dumps(value, ensure_ascii=False)
        with self._lock:
            self._connection.execute(
                "INSERT OR REPLACE INTO calls VALUES (?, ?, ?)", (key, text, seconds)
            )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def key_of(*parts: object) -> str:
    """SHA-256 (hex) of JSON values."""
    text = json.dumps(parts, ensure_ascii=False, sort_keys=True)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


class CachedModel:
    """A language model whose every outcome is kept.

    An `LLM`, a `ChoiceScorer` of `scorer`, and a `StateReader` of `reader`.

    `seconds` counts what all outcomes cost when they were computed, whether now or earlier;
    `saved` is the part of it that was computed before this model was opened, and `computed` how
    many calls the model was really asked. `fingerprint` identifies the weights and whatever else
    changes their outcomes.
    """

    def __init__(
        self,
        llm: LLM,
        scorer: ChoiceScorer | None,
        fingerprint: str,
        cache: CallCache,
        reader: StateReader | None = None,
    ) -> None:
        self._llm = llm
        self._scorer = scorer
        self._reader = reader
        self.fingerprint = fingerprint
        self._cache = cache
        self._lock = threading.Lock()
        self._met: set[str] = set()
        self.seconds = 0.0
        self.saved = 0.0
        self.computed = 0

    @property
    def chooser(self) -> Chooser:
        """The best way in which the model chooses, remembered too."""
        return make_chooser(self, self if self._scorer is not None else None)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._llm.name

    @property
    def context_window(self) -> int:
        """Tokens that prompt and answer may take together."""
        return self._llm.context_window

    def count_tokens(self, text: str) -> int:
        """As the model counts."""
        return self._llm.count_tokens(text)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """As the model counts."""
        return self._llm.count_prompt_tokens(messages)

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        """A whole reply, from the cache where the same was asked before."""
        value = self._cached_or_computed(
            self._key("complete", messages, _options_key(options)),
            lambda: asdict(self._llm.complete(messages, options)),
        )
        return Completion(**value)

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        """The reply as it is written, or in one piece where the same was asked before.

        One that is not read to its end is not kept.
        """
        key = self._key("stream", messages, _options_key(options))
        if (known := self._look_up(key)) is not None:
            yield known[0]
            return
        pieces: list[str] = []
        seconds = 0.0
        with closing(self._llm.stream(messages, options)) as stream:  # type: ignore[type-var]
            while True:
                # Without what the reader of the pieces does in between.
                started = time.perf_counter()
                piece = next(stream, None)
                seconds += time.perf_counter() - started
                if piece is None:
                    break
                pieces.append(piece)
                yield piece
        self._keep(key, "".join(pieces), seconds)

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """Probabilities, from the cache where the same was asked before."""
        scorer = self._scorer
        assert scorer is not None, "a judge is given this only with a scorer"  # noqa: S101
        value = self._cached_or_computed(
            self._key("choices", messages, list(choices)),
            lambda: scorer.score_choices(messages, choices, keep=keep).tolist(),
        )
        return np.asarray(value, dtype=np.float64)

    def activations(
        self,
        messages: Sequence[Message],
        layer: int,
        *,
        keep: int = 0,
        attending: range = range(0),  # noqa: ARG002 - a judge points to nothing
        shallow: bool = False,
    ) -> Activations:
        """States, from the cache where the same was read before."""
        reader = self._reader
        assert reader is not None, "its probes are read with a reader"  # noqa: S101
        value = self._cached_or_computed(
            self._key("state", messages, [layer, keep]),
            lambda: base64.b64encode(
                reader.activations(messages, layer, keep=keep, shallow=shallow).state.tobytes()
            ).decode(),
        )
        return Activations(np.frombuffer(base64.b64decode(value), np.float32))

    def _key(self, kind: str, messages: Sequence[Message], parameters: Sequence[object]) -> str:
        plain = [[message.role, message.content] for message in messages]
        return key_of(kind, self.fingerprint, plain, parameters)

    def _cached_or_computed(self, key: str, compute: Callable[[], Any]) -> Any:
        """The value of a key; computed and kept where it is not known."""
        if (known := self._look_up(key)) is not None:
            return known[0]
        started = time.perf_counter()
        value = compute()
        self._keep(key, value, time.perf_counter() - started)
        return value

    def _look_up(self, key: str) -> tuple[Any, float] | None:
        known = self._cache.get(key)
        if known is not None:
            with self._lock:
                self.seconds += known[1]
                # Asked a second time, a model that keeps what it read needs hardly any time.
                self.saved += 0.0 if key in self._met else known[1]
                self._met.add(key)
        return known

    def _keep(self, key: str, value: object, seconds: float) -> None:
        self._cache.put(key, value, seconds)
        with self._lock:
            self.seconds += seconds
            self.computed += 1
            self._met.add(key)


def _options_key(options: Options) -> list[object]:
    """What of the options a reply depends on."""
    # The empty list keeps what older versions have cached, which had stop strings there.
    return [options.max_tokens, options.temperature, options.seed, [], options.schema]
