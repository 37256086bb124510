"""`--embedding`: the embedding model of one library, whatever the others have."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from localrag.errors import UsageError
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.config.settings import Settings


def embedding_option(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option, with what it does in that command."""
    return click.option("--embedding", metavar=tr("MODEL"), help=text)


def settings_with(embedding: str | None) -> Settings:
    """The settings, with the embedding model that an id, a preset or a path names.

    Raises `UsageError` where the settings name another for every library: then this one could not
    be searched.
    """
    from pathlib import Path

    from localrag.config.settings import load_settings
    from localrag.models.registry.spec import catalogue

    settings = load_settings()
    if embedding is None:
        return settings
    name = catalogue().of_task(embedding, "embedding")
    if catalogue().find(name) is None and Path(name).expanduser().exists():
        name = str(Path(name).expanduser().resolve())
    if settings.embedding.model not in ("", name):
        raise UsageError(
            "The settings name the embedding model {model} for every library, so a library built "
            "with {other} could not be searched.",
            hint="Let each library keep its own: localrag config unset embedding.model "
            "(or unset LOCALRAG_EMBEDDING_MODEL).",
            model=settings.embedding.model,
            other=name,
        )
    return load_settings({"embedding.model": name})
