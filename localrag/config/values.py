"""Putting single values into a table of settings, by dotted keys."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
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


def without(given: dict[str, tuple[str, object]], name: str) -> dict[str, tuple[str, object]]:
    """All but one of the values that were given."""
    return {other: value for other, value in given.items() if other != name}


def with_values(table: dict[str, Any], given: Mapping[str, tuple[str, object]]) -> dict[str, Any]:
    """A copy of the table with the values of (key, value) pairs."""
    complete = deepcopy(table)
    for key, value in given.values():
        set_value(complete, key, value)
    return complete
