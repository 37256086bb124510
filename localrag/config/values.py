"""Putting single values into a table of settings, by dotted keys."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

_LISTS = frozenset({"hosted.private", "hosted.redact"})
"""Lists, which a variable or a command gives as `["one", "two"]`, or as one text alone."""


def set_value(table: dict[str, Any], key: str, value: object) -> None:
    """Put a value into the table, in place; a list may be given as text."""
    if key in _LISTS and isinstance(value, str):
        value = _listed(value)
    *sections, last = key.split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            return
    table[last] = value


def _listed(text: str) -> list[Any]:
    try:
        found = tomllib.loads(f"value = {text}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError):
        found = None
    return found if isinstance(found, list) else [text]


def with_values(table: dict[str, Any], given: Iterable[tuple[str, object]]) -> dict[str, Any]:
    """A copy of the table with the values of (key, value) pairs."""
    complete = deepcopy(table)
    for key, value in given:
        set_value(complete, key, value)
    return complete
