"""A language model in this process: made from settings, once its file has been looked at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localrag.config.settings import LlamaCppSettings
from localrag.library.folder.gate import KV_FOLDER
from localrag.library.library import Library
from localrag.models.registry.store import ModelStore

if TYPE_CHECKING:
    from localrag.models.llms.llama_cpp.model import LlamaCppModel, StatesOnDisk


def make_local_model(
    local: LlamaCppSettings, models: ModelStore, library: Library | None, cache: Path
) -> LlamaCppModel:
    """The model; what it has read of the library, if there is one, is kept in there."""
    from localrag.models.llms.llama_cpp.model import LlamaCppModel

    path = model_file(local.model, models, cache)
    return LlamaCppModel(
        path,
        context_window=local.context_window,
        threads=local.threads or None,
        gpu_layers=local.gpu_layers,
        kv_type=local.kv_type,
        disk=_states_on_disk(path, library, local.kv_disk_mb, cache),
    )


def model_file(name: str, models: ModelStore, cache: Path) -> Path:
    """The GGUF file of a model, which may be opened here.

    One that has no published SHA-256 is opened in a process of its own first, once for each
    state of the file. Raises `ModelNotFoundError`, `ModelCorruptError`.
    """
    from localrag.models.llms.llama_cpp.trial import try_open_once

    path = models.path(name)
    spec = models.catalogue.find(name)
    if spec is None or not spec.pinned:
        try_open_once(path, cache)
    return path


def _states_on_disk(
    model: Path, library: Library | None, megabytes: int, cache: Path
) -> StatesOnDisk | None:
    from localrag.models.embeddings.fingerprint import weights_sha256
    from localrag.models.llms.llama_cpp.model import StatesOnDisk

    if library is None or not megabytes or library.is_of_others:
        return None
    folder = library.directory / KV_FOLDER
    sha256 = weights_sha256([model], cache)
    return StatesOnDisk(folder, megabytes * 10**6, sha256, library.seal)
