"""What a process keeps of texts in memory, and how it lets go of them."""

from __future__ import annotations

import gc
import os
import re
import secrets
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

_P = ParamSpec("_P")
_R = TypeVar("_R")

_TUNED = "glibc.malloc.perturb=255:glibc.malloc.tcache_count=0:glibc.malloc.arena_max=2"
"""Overwrite what is freed, hand nothing on before that, and keep no store for each thread."""

_kept: WeakSet[Any] = WeakSet()


def kept(most: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A function of texts that keeps its last results, `most` of them, until `forget`.

    Made for each library anew, and never for a module: how quick it is tells what it was asked.
    """

    def wrap(function: Callable[_P, _R]) -> Callable[_P, _R]:
        wrapped = lru_cache(most)(function)
        _kept.add(wrapped)
        return wrapped  # type: ignore[return-value] # it asks for hashable arguments

    return wrap


def pattern_of_words(pattern: str) -> re.Pattern[str]:
    """A pattern with somebody's words in it, compiled anew: `re` keeps patterns for everybody."""
    return re.compile(f"(?#{secrets.token_hex(8)}){pattern}", re.IGNORECASE)


def forget() -> None:
    """Drop what `kept` functions hold, patterns, and what nothing refers to but itself."""
    for function in list(_kept):
        function.cache_clear()
    re.purge()
    gc.collect()


def wipe_what_is_freed() -> None:
    """Have this process overwrite memory as it is freed, with glibc; it starts again for that.

    Both allocators read their settings once, when a program starts. Costs a search no time that
    can be measured. Elsewhere, and where somebody has chosen an allocator, nothing happens.
    """
    chosen = sys.flags.ignore_environment or "PYTHONMALLOC" in os.environ
    if chosen or sys.platform != "linux" or "CS_GNU_LIBC_VERSION" not in os.confstr_names:
        return
    from localrag.system import processes

    tuned = ":".join(filter(None, (os.environ.get("GLIBC_TUNABLES"), _TUNED)))
    processes.begin_again({"PYTHONMALLOC": "malloc", "GLIBC_TUNABLES": tuned})
