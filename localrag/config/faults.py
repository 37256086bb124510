"""What is wrong with a setting, said for a person: which one, what it may be, what it was.

msgspec says it in English only, and without what is allowed; that is read off the types.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from localrag.errors import ConfigError

_HINT = "`localrag config` lists every setting with its value."
_ALLOWED = {
    "LiteralType": "{key} must be one of {names}, but {origin} says {given}.",
    "BoolType": "{key} must be true or false, but {origin} says {given}.",
    "StrType": "{key} must be text in quotes, but {origin} says {given}.",
    "IntType ge": "{key} must be a whole number of at least {ge}, but {origin} says {given}.",
    "IntType ge le": "{key} must be a whole number from {ge} to {le}, but {origin} says {given}.",
    "FloatType ge": "{key} must be a number of at least {ge:g}, but {origin} says {given}.",
    "FloatType ge le": "{key} must be a number from {ge:g} to {le:g}, but {origin} says {given}.",
    "FloatType gt": "{key} must be a number above {gt:g}, but {origin} says {given}.",
    "VarTupleType": (
        '{key} must be a list of strings such as ["one", "two"], but {origin} says {given}.'
    ),
    "text or list": '{key} must be text in quotes or a list such as ["one", "two"], but {origin} '
    "says {given}.",
    "StructType": "{key} is a section with settings of its own, but {origin} says {given}.",
    "UnionType": "{key} is a section with settings of its own, but {origin} says {given}.",
}
"""By msgspec's name for the type, and the bounds that it has."""


def explain(
    error: msgspec.ValidationError, table: Mapping[str, Any], settings: type, origin: str
) -> ConfigError:
    """The fault that `error` reports of `table`, which does not fit the struct `settings`.

    `origin` is the file, the variables or the command that the table came from. A fault
    of a kind that is not known here stays in msgspec's words.
    """
    text = str(error)
    unknown = re.match(r"Object contains unknown field `(.+?)`", text)
    place = re.search(r" - at `\$\.([\w.]+)(?:\[(?:\d+|\.\.\.)\])?`$", text)
    path = place[1].split(".") if place else []
    kind, value = _at(path, table, inspect.type_info(settings))
    if unknown:
        struct = _chosen(kind, value)
        tag = [struct.tag_field] if struct and struct.tag_field else []
        known = tag + [field.encode_name for field in struct.fields] if struct else []
        return ConfigError(
            "{origin} names the setting {key}, which does not exist.",
            hint="Valid names here: {names}.",
            origin=origin,
            key=".".join([*path, unknown[1]]),
            names=tuple(known),
        )
    bounds = {name: getattr(kind, name, None) for name in ("gt", "ge", "le")}
    bounds = {name: bound for name, bound in bounds.items() if bound is not None}
    allowed = " ".join([type(kind).__name__, *bounds])
    of_text = any(isinstance(option, inspect.StrType) for option in _options(kind))
    if of_text and isinstance(kind, inspect.UnionType):
        allowed = "text or list"
    if allowed not in _ALLOWED:
        return ConfigError(
            "A setting from {origin} is wrong: {reason}.", hint=_HINT, origin=origin, reason=text
        )
    return ConfigError(
        _ALLOWED[allowed],
        hint=_HINT,
        key=".".join(path),
        origin=origin,
        given=json.dumps(value, ensure_ascii=False, default=str),
        names=tuple(getattr(kind, "values", ())),
        **bounds,
    )


def _at(path: list[str], table: Any, kind: inspect.Type | None) -> tuple[inspect.Type | None, Any]:
    """The type and the value at a path; the type is None where the settings know none."""
    for name in path:
        structs = [option for option in _options(kind) if isinstance(option, inspect.StructType)]
        struct = _chosen(kind, table)
        if any(option.tag_field == name for option in structs):
            kind = inspect.LiteralType(tuple(str(option.tag) for option in structs))
        else:
            fields = struct.fields if struct else ()
            kind = next((field.type for field in fields if field.encode_name == name), None)
        table = table.get(name) if isinstance(table, Mapping) else None
    return kind, table


def _options(kind: inspect.Type | None) -> tuple[inspect.Type | None, ...]:
    return kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _chosen(kind: inspect.Type | None, table: Any) -> inspect.StructType | None:
    """The struct that the table means, by its tag where there are several."""
    for option in _options(kind):
        if isinstance(option, inspect.StructType) and (
            option.tag_field is None
            or (isinstance(table, Mapping) and table.get(option.tag_field) == option.tag)
        ):
            return option
    return None


def check_patterns(key: str, patterns: Sequence[str]) -> None:
    """Raises `ConfigError` for the first that is no regular expression."""
    import regex  # type: ignore[import-untyped]

    for pattern in patterns:
        try:
            regex.compile(pattern)
        except (regex.error, OverflowError, RecursionError) as error:
            raise ConfigError(
                "{key} contains {pattern}, which is not a valid regular expression: {reason}.",
                hint="Write it as Python does, and in TOML between single quotes, so that "
                "backslashes stay as they are.",
                key=key,
                pattern=pattern,
                reason=error,
            ) from error


def check_paths(key: str, patterns: Sequence[str]) -> None:
    """Raises `ConfigError` for the first that can match no path: better said than trusted."""
    for pattern in patterns:
        if re.search(r"://|(?:^|[/\\])\$|(?:^|[/\\])\.\.(?:[/\\]|$)", pattern):
            raise ConfigError(
                "{key} contains {pattern}, which cannot match any document.",
                hint="Name a folder or a file, such as contracts/* or /home/ada/contracts; "
                "variables, addresses and .. are not followed.",
                key=key,
                pattern=pattern,
            )
