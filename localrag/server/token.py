"""The token of this user's servers. Imports nothing heavy: commands read it, too."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Final

from localrag.errors import ConfigError
from localrag.system.files import NotPlainError, make_folder, make_private, new_file, open_plain

TOKEN_VARIABLE: Final = "LOCALRAG_TOKEN"  # noqa: S105 - the name of one
SHORTEST_TOKEN = 16
"""Characters of a token that somebody chose; those made here have 43."""
LONGEST_TOKEN = 1024


def server_folder() -> Path:
    """Where the token lies, and where servers say that they are running."""
    from platformdirs import user_state_path

    return user_state_path("localrag", appauthor=False) / "server"


def known_token(path: Path) -> str | None:
    """The token of the environment, else of a file that only this user reads, if there is one.

    Raises `ConfigError` for one that is too short or cannot stand in a header.
    """
    value = os.environ.get(TOKEN_VARIABLE)
    if value is not None:
        return _check(value, TOKEN_VARIABLE)
    try:
        with open_plain(path) as file:
            return _check(file.read(LONGEST_TOKEN + 1).decode("ascii", "replace"), str(path))
    except FileNotFoundError:
        return None
    except (NotPlainError, OSError) as error:
        raise ConfigError(
            "The server's token {path} cannot be read: {reason}.",
            hint="Delete it; another one is made at the next start.",
            path=path,
            reason=error,
        ) from error


def own_token(path: Path) -> str:
    """The same, made where there is none."""
    if known := known_token(path):
        return known
    token = secrets.token_urlsafe(32)
    make_folder(path.parent)
    make_private(path.parent)
    try:
        new_file(path, lambda file: file.write(token.encode()))
    except FileExistsError:  # another server starts at the same time
        return own_token(path)
    return token


def given_secret(variable: str, path: Path | None) -> str | None:
    """What a variable of the environment holds, else a file, as a token has to be; None for none.

    Raises `ConfigError`.
    """
    value = os.environ.get(variable)
    if value is not None:
        return _check(value, variable)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            return _check(file.read(LONGEST_TOKEN + 1).decode("ascii", "replace"), str(path))
    except OSError as error:
        raise ConfigError(
            "The secret {path} cannot be read: {reason}.",
            hint="Check the path, and whether you may read it.",
            path=path,
            reason=error.strerror or error,
        ) from error


def _check(token: str, place: str) -> str:
    token = token.strip()
    visible = token.isascii() and token.isprintable() and " " not in token
    if not (SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN and visible):
        raise ConfigError(
            "The token in {place} is not one: it must have {least} to {most} visible ASCII "
            "characters.",
            hint="Choose a long random one, or leave it out.",
            place=place,
            least=SHORTEST_TOKEN,
            most=LONGEST_TOKEN,
        )
    return token
