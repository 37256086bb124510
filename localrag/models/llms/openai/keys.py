"""The key of a hosted model: from the environment, a file, or the system's keyring alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from localrag.egress import network
from localrag.egress.addresses import ANY_UNIX_SOCKET
from localrag.errors import ConfigError

_LONGEST = 4096
"""Bytes of a file that holds a key."""


class Secret:
    """A text that shows itself only where it is asked to."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """The text itself."""
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret(***)" if self._text else "Secret()"

    def __reduce__(self) -> tuple[type[Secret], tuple[str]]:
        raise TypeError("a secret is not written anywhere")


def find_key(
    variable: str, entry: str, environment: Mapping[str, str], *, file: str = ""
) -> Secret:
    """The key that the environment holds, else a file, else the keyring's `entry`; may be empty.

    `entry` is "service/user" or "". Raises `ConfigError` where a file or the keyring is wanted
    and does not have it.
    """
    if value := environment.get(variable, "").strip():
        return Secret(value)
    if file:
        return _from_file(Path(file).expanduser())
    return _from_keyring(entry) if entry else Secret("")


def _from_file(path: Path) -> Secret:
    try:
        with path.open("rb") as file:
            return Secret(file.read(_LONGEST).decode("utf-8", "replace").strip())
    except OSError as error:
        raise ConfigError(
            "The key of the language model in {path} cannot be read: {reason}.",
            hint="Check `llm.key_file`, and whether you may read that file.",
            path=path,
            reason=error.strerror or error,
        ) from error


def _from_keyring(entry: str) -> Secret:
    service, slash, user = entry.rpartition("/")
    if not (slash and service and user):
        raise ConfigError(
            "llm.key_keyring must look like service/user, was: {entry}.",
            hint="Store a key with `keyring set SERVICE USER` and name both here.",
            entry=entry,
        )
    try:
        import keyring
        import keyring.errors
    except ImportError as error:
        raise ConfigError(
            "llm.key_keyring names an entry of the system's keyring, and the package keyring is "
            "not installed.",
            hint="Install it with `pip install keyring`, or put the key into the environment.",
        ) from error
    try:
        # On Linux it is asked over the bus of the desktop session.
        with network.allow([ANY_UNIX_SOCKET]):
            password = keyring.get_password(service, user)
    except keyring.errors.KeyringError as error:
        raise ConfigError(
            "The system's keyring cannot be read: {reason}.",
            hint="Unlock it, or put the key into the environment.",
            reason=error,
        ) from error
    if not password:
        raise ConfigError(
            "The system's keyring has no entry {entry}.",
            hint="Store the key with `keyring set SERVICE USER`, or put it into the environment.",
            entry=entry,
        )
    return Secret(password.strip())
