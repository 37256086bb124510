"""Local-first retrieval-augmented generation for Chinese and English documents.

The names below load on first use, so that importing the package costs nothing.
"""

__version__ = "0.2.0"

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from localrag.api import LocalRAG as LocalRAG
    from localrag.config.settings import Settings as Settings
    from localrag.config.settings import load_settings as load_settings
    from localrag.egress.network import offline as offline
    from localrag.errors import LocalragError as LocalragError
    from localrag.library.catalogue.filters import Filter as Filter
    from localrag.rag.conversation import Turn as Turn
    from localrag.types import Answer as Answer
    from localrag.types import Chunk as Chunk
    from localrag.types import Citation as Citation
    from localrag.types import ScoredChunk as ScoredChunk
    from localrag.types import Step as Step

_HOMES = {
    "LocalRAG": "localrag.api",
    "Settings": "localrag.config.settings",
    "load_settings": "localrag.config.settings",
    "offline": "localrag.egress.network",
    "LocalragError": "localrag.errors",
    "Filter": "localrag.library.catalogue.filters",
    "Answer": "localrag.types",
    "Chunk": "localrag.types",
    "Citation": "localrag.types",
    "ScoredChunk": "localrag.types",
    "Step": "localrag.types",
    "Turn": "localrag.rag.conversation",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        from importlib import import_module

        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
