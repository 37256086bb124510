"""What two processes must have in common to give the same results. Imports nothing heavy."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, get_args

import msgspec

from localrag import __version__
from localrag.config.settings import (
    AheadSettings,
    CrossEncoderReranking,
    LlamaCppSettings,
    Settings,
)
from localrag.errors import ModelError
from localrag.library.folder.filesystem import catalogue_of
from localrag.library.location import Location
from localrag.models.registry.manifest import read_registered
from localrag.models.registry.store import ModelStore, default_models_dir

Difference = Literal["library", "version", "installation", "settings", "models"]


class Setup(msgspec.Struct, frozen=True):
    """The version, and digests of all else that results hang on."""

    library: str
    version: str
    installation: str
    settings: str
    models: str

    def difference(self, other: Setup) -> Difference | None:
        """The first thing in which the two differ, if any."""
        names = get_args(Difference)
        return next((n for n in names if getattr(self, n) != getattr(other, n)), None)

    def with_settings(self, settings: Settings) -> Setup:
        """The same installation and models, used otherwise."""
        return msgspec.structs.replace(self, settings=_of_settings(settings))


def setup_of(settings: Settings, library: Location) -> Setup:
    """As things are now: a library, a package or a model that is replaced is another one."""
    return Setup(
        library=_of_library(library),
        version=__version__,
        installation=_digest(sys.version, sys.prefix, Path(__file__).resolve()),
        settings=_of_settings(settings),
        models=_digest(*_stamps(settings)),
    )


def _of_library(library: Location) -> str:
    if isinstance(library, Path):
        return _digest(library.resolve(), _identity(catalogue_of(library)))
    return _digest(str(library))


def _of_settings(settings: Settings) -> str:
    return _digest(msgspec.json.encode(msgspec.structs.replace(settings, ahead=AheadSettings())))


def _digest(*values: object) -> str:
    return hashlib.sha256("\0".join(map(str, values)).encode("utf-8", "replace")).hexdigest()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _stamps(settings: Settings) -> Iterator[object]:
    """Of all files that the settings name; and the models that may be chosen from."""
    store = ModelStore(default_models_dir())
    yield store.folder.resolve()
    yield sorted(path.name for path in store.folder.glob("*"))
    # Where no model is set, each library has its own: all of them count.
    embedding = settings.embedding.model
    models = list(store.parts(embedding) if embedding else _embeddings(store))
    if isinstance(settings.llm, LlamaCppSettings):
        models.append(settings.llm.model)
    if isinstance(settings.reranker, CrossEncoderReranking) and settings.reranker.model:
        models.append(settings.reranker.model)
    places = [settings.keywords.user_dictionary, settings.answer.prompts]
    named = [Path(place).expanduser() for place in places if place]
    for place in [*named, *(_place(store, model) for model in models)]:
        yield place.resolve()
        for path in [place, *sorted(place.rglob("*"))]:
            if path.is_file():
                status = path.stat()
                yield path.name, status.st_size, status.st_mtime_ns


def _embeddings(store: ModelStore) -> Iterator[str]:
    known = [(spec.id, spec.task) for spec in store.catalogue.models]
    with suppress(ModelError):
        known += [(own.name, own.task) for own in read_registered(store.folder).values()]
    yield from (name for name, task in known if task == "embedding")


def _place(store: ModelStore, name: str) -> Path:
    """Where a model is, or would be; whoever loads it checks it."""
    if spec := store.catalogue.find(name):
        return store.folder_of(spec)
    with suppress(ModelError, KeyError):
        name = read_registered(store.folder)[name].path
    return Path(name).expanduser()
