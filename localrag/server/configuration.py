"""The settings as they count in this server, who gives them, and those that a page may change.

What is changed is written to the user's settings file, as `localrag config set` does, and counts at
once. Whatever opens the network, names a place or takes another model is changed there alone. Where
many people share the server, they see those of asking and searching, and change none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response

from localrag.config.settings import (
    Settings,
    flat,
    given_settings,
    load_settings,
    set_in_file,
    settings_path,
    settings_table,
    unset_in_file,
)
from localrag.errors import ConfigError, UsageError
from localrag.server.asker import asker
from localrag.server.libraries import Libraries
from localrag.server.replies import decoded, reply
from localrag.server.routing import Routes, route

CHANGEABLE = (
    *("answer.mode", "answer.k", "answer.strict"),
    *("retrieval.mode", "retrieval.k", "retrieval.expansion", "reranker.kind"),
)
_PATHS = (
    *("llm.model", "llm.key_file", "embedding.model", "reranker.model"),
    *("keywords.user_dictionary", "answer.prompts"),
)
"""Names of models and files, which may be whole paths of this machine."""


class SettingChange(msgspec.Struct, forbid_unknown_fields=True):
    """A setting and its new value; None for its default."""

    key: str
    value: str | int | bool | None


@dataclass(frozen=True, slots=True)
class Configuration(Routes):
    """The routes below /api/settings."""

    libraries: Libraries

    @route("/api/settings")
    async def shown(self, _: Request) -> Response:
        """Every setting: its value, its default, and what gives it."""
        return reply(await anyio.to_thread.run_sync(self._settings_record))

    @route("/api/settings", "POST")
    async def change(self, request: Request) -> Response:
        """Change a setting that may be changed here, for all libraries of this server."""
        change = await decoded(request, SettingChange)
        return reply(await anyio.to_thread.run_sync(self._change_setting, change))

    @property
    def _running(self) -> Settings:
        return self.libraries.engine("").settings

    def _settings_record(self) -> dict[str, Any]:
        if asker() is not None:  # the rest is of whoever runs the server
            return {
                "settings": [
                    {"key": key, "value": value, "changeable": False}
                    for key, value in flat(settings_table(self._running))
                    if key in CHANGEABLE
                ]
            }
        variables, stored = given_settings(), dict(flat(settings_table(load_settings())))
        defaults = dict(flat(settings_table(Settings())))
        return {
            "settings": [
                {
                    "key": key,
                    "value": _public_value(key, value),
                    "default": _public_value(key, defaults.get(key)),
                    "given": _giver(variables.get(key)),
                    "variable": variables.get(key, ""),
                    "changeable": key in CHANGEABLE,
                    "later": stored.get(key) != value,
                }
                for key, value in flat(settings_table(self._running))
            ]
        }

    def _change_setting(self, change: SettingChange) -> dict[str, Any]:
        key = change.key
        if key not in CHANGEABLE:
            raise UsageError(
                "{key} cannot be changed here.", hint="Use `localrag config set`.", key=key
            )
        if variable := given_settings().get(key):
            raise UsageError(
                "{key} is set by the variable {name}, which counts more than the file.",
                hint="Change it where the server is started.",
                key=key,
                name=variable,
            )
        if key == "reranker.kind" and change.value == "cross-encoder":
            for name in self.libraries.names:
                self.libraries.engine(name).reranking("cross-encoder")  # or none is pulled
        with _writable():
            if change.value is None:
                unset_in_file(key)
            else:
                set_in_file(key, json.dumps(change.value).strip('"'))
        stored = load_settings()
        self.libraries.change(lambda running: _replace_setting(running, key, stored))
        return self._settings_record()


def _giver(variable: str | None) -> str:
    if variable is None:
        return "default"
    return "variable" if variable else "file"


def _public_value(key: str, value: object) -> object:
    """A value as it may leave the server: of a path its last name, of a list its length."""
    if key in _PATHS and isinstance(value, str):
        return re.split(r"[/\\]", value.rstrip("/\\"))[-1]
    return len(value) if isinstance(value, list | tuple) else value


def _replace_setting(running: Settings, key: str, stored: Settings) -> Settings:
    """Settings with that one of the stored ones, of whose section the others stay as they are."""
    section, name = key.split(".")
    new = getattr(stored, section)
    if section != "reranker":  # which is of another kind then, with other settings
        new = msgspec.structs.replace(getattr(running, section), **{name: getattr(new, name)})
    return msgspec.structs.replace(running, **{section: new})


@contextmanager
def _writable() -> Iterator[None]:
    """Say in our words what keeps the settings file from being written."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            "The settings file {path} cannot be written: {reason}.",
            hint="Check the free disk space and whether you may write to that folder.",
            path=settings_path(),
            reason=error.strerror or error,
        ) from error
