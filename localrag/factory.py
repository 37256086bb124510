"""Settings to objects: the only file that names implementations.

A backend is chosen by the type of its settings record, or by what a model's
folder holds. Imports of heavy libraries happen in the classes built here, so
that a search never loads what only answering needs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from localrag.chunking import Chunker, SentenceChunker, WindowChunker
from localrag.config import (
    LlamaCppSettings,
    OpenAISettings,
    SentenceChunking,
    Settings,
    WindowChunking,
)
from localrag.embeddings.base import Embedder
from localrag.llms.base import LLM, ChoiceScorer, Options
from localrag.rag.citations import PageOf
from localrag.rag.standard import Retrieve, StandardOptions, StandardRAG
from localrag.registry.store import ModelStore, default_models_dir
from localrag.retrieval.base import Retriever
from localrag.retrieval.dense import DenseRetriever
from localrag.retrieval.fusion import weighted_linear_fusion
from localrag.retrieval.hybrid import HybridRetriever
from localrag.retrieval.keyword import KeywordRetriever
from localrag.stores.library import Library
from localrag.stores.records import EmbeddingIdentity
from localrag.text.tokenize import Tokenizer
from localrag.types import Hit

if TYPE_CHECKING:
    from localrag.indexing.indexer import Indexer


@dataclass(frozen=True, slots=True)
class Model:
    """A language model in its two roles; `scorer` is None where a backend has no logits."""

    llm: LLM
    scorer: ChoiceScorer | None
    close: Callable[[], None]


def make_models() -> ModelStore:
    """The models folder of this machine."""
    return ModelStore(default_models_dir())


def cache_folder() -> Path:
    """Where prepared copies of model files go: quick to open, and safe to delete."""
    from platformdirs import user_cache_path

    return user_cache_path("localrag", appauthor=False)


def make_tokenizer(settings: Settings) -> Tokenizer:
    """The way texts are cut into terms."""
    dictionary = settings.keywords.user_dictionary
    return Tokenizer(Path(dictionary).expanduser() if dictionary else None)


def make_embedder(settings: Settings, models: ModelStore) -> Embedder:
    """The embedding model; its folder says which kind it is."""
    from localrag.embeddings.detect import kind_of

    name = settings.embedding.model
    folder = models.path(name)
    threads = settings.embedding.threads or None
    weights = _weights_sha256(name, models)
    match kind_of(folder):
        case "use":
            from localrag.embeddings.use import UniversalSentenceEncoder

            return UniversalSentenceEncoder(
                folder, threads=threads, cache_dir=cache_folder(), weights_sha256=weights
            )
        case "onnx":
            from localrag.embeddings.onnx import OnnxEmbedder

            return OnnxEmbedder(
                folder, threads=threads, cache_dir=cache_folder(), weights_sha256=weights
            )
        case "sentence-transformers":
            from localrag.embeddings.sentence_transformers import SentenceTransformerEmbedder

            return SentenceTransformerEmbedder(
                folder, threads=threads, cache_dir=cache_folder(), weights_sha256=weights
            )


def _weights_sha256(name: str, models: ModelStore) -> str | None:
    """The checked hash of a known model's weights, which saves hashing them at every start."""
    spec = models.catalogue.find(name)
    return max(spec.files, key=lambda file: file.size or 0).sha256 if spec else None


def identity_of(embedder: Embedder, settings: Settings) -> EmbeddingIdentity:
    """What a library remembers of the model that it was built with."""
    return EmbeddingIdentity(embedder.fingerprint, settings.embedding.model, embedder.dimension)


def make_chunker(settings: Settings, embedder: Embedder) -> Chunker:
    """The way documents are cut into passages."""
    match settings.chunking:
        case SentenceChunking() as sentences:
            return SentenceChunker(
                embedder.count_tokens,
                embedder.max_tokens,
                target_tokens=min(sentences.target_tokens, embedder.max_tokens),
                overlap_sentences=sentences.overlap_sentences,
            )
        case WindowChunking() as windows:
            return WindowChunker(windows.size, windows.overlap)


def make_indexer(settings: Settings, library: Library, embedder: Embedder) -> Indexer:
    """What adds files to the library."""
    from localrag.indexing.indexer import Indexer
    from localrag.text.language import detect

    return Indexer(
        library,
        chunker=make_chunker(settings, embedder),
        chunking=chunking_fingerprint(settings),
        embedder=embedder,
        embedding=identity_of(embedder, settings),
        detect_language=detect,
    )


def chunking_fingerprint(settings: Settings) -> str:
    """Identifies the chunking settings, for documents to remember how they were cut."""
    import msgspec

    return json.dumps(msgspec.to_builtins(settings.chunking), sort_keys=True)


def make_model(settings: Settings, models: ModelStore) -> Model:
    """The language model."""
    match settings.llm:
        case LlamaCppSettings() as local:
            from localrag.llms.llama_cpp import LlamaCppModel

            model = LlamaCppModel(
                models.path(local.model),
                context_window=local.context_window,
                threads=local.threads or None,
                gpu_layers=local.gpu_layers,
            )
            return Model(model, model, model.close)
        case OpenAISettings() as hosted:
            from localrag.llms.openai_compatible import OpenAICompatibleModel

            return Model(
                OpenAICompatibleModel(
                    hosted.base_url,
                    hosted.model,
                    api_key=os.environ.get(hosted.key_variable),
                    context_window=hosted.context_window,
                    timeout_seconds=hosted.timeout_seconds,
                    max_retries=hosted.max_retries,
                    allow_network=settings.allow_network,
                ),
                None,
                lambda: None,
            )


def make_retriever(settings: Settings, library: Library, embedder: Embedder) -> Retriever:
    """Dense, keyword, or both."""
    tokenizer = make_tokenizer(settings)
    dense = DenseRetriever(embedder, library.vectors)
    keyword = KeywordRetriever(tokenizer, library.keywords)
    match settings.retrieval.mode:
        case "dense":
            return HybridRetriever({"dense": dense}, _as_found)
        case "keyword":
            return HybridRetriever({"keyword": keyword}, _as_found)
        case "hybrid":
            weight = settings.retrieval.dense_weight
            fuse = partial(weighted_linear_fusion, weights=(weight, 1.0 - weight))
            return HybridRetriever({"dense": dense, "keyword": keyword}, fuse)


def _as_found(runs: Sequence[Sequence[Hit]]) -> list[Hit]:
    """One leg needs no fusion; its own scores stay."""
    return list(runs[0])


def make_pipeline(
    settings: Settings,
    model: Model,
    embedder: Embedder,
    retrieve: Retrieve,
    page_of: PageOf,
) -> StandardRAG:
    """The way a question is answered."""
    answer = settings.answer
    return StandardRAG(
        retrieve=retrieve,
        llm=model.llm,
        scorer=model.scorer,
        tokenize=make_tokenizer(settings),
        embedder=embedder,
        page_of=page_of,
        options=StandardOptions(
            k=answer.k,
            min_answerable=answer.min_answerable,
            generation=Options(
                max_tokens=answer.max_tokens, temperature=answer.temperature, seed=answer.seed
            ),
        ),
    )
