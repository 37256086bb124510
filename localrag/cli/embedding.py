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
    """The settings, with the embedding model that a name or a preset stands for.

    Raises `UsageError` for a path, which a library is not believed (`factory.as_built`), and where
    the settings name another model for every library: then this one could not be searched.
    """
    from pathlib import Path

    from localrag.config.settings import load_settings
    from localrag.models.registry.store import ModelStore, default_models_dir

    settings = load_settings()
    if embedding is None:
        return settings
    models = ModelStore(default_models_dir())
    name = models.catalogue.of_task(embedding, "embedding")
    if name != settings.embedding.model and not models.knows(name):
        path = Path(name).expanduser()
        if path.exists():
            raise UsageError(
                "A library does not keep the path of its embedding model: whoever hands one over "
                "would choose what is opened here.",
                hint="Give the model a name first (`localrag models add NAME {path}`) and name "
                "that, or use it for every library: localrag config set embedding.model {path}",
                path=path.resolve(),
            )
        models.catalogue.get(name)
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
