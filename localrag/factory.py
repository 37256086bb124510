"""Settings to objects: the only file that names implementations.

A backend is chosen by the type of its settings record, or by what a model's
folder holds. Imports of heavy libraries happen in the classes built here, so
that a search never loads what only answering needs.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, MutableMapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, assert_never

import msgspec
import numpy as np

from localrag import hosted
from localrag.config.settings import (
    STARTER_EMBEDDING,
    CrossEncoderReranking,
    KeywordReranking,
    LearnedReranking,
    LlamaCppSettings,
    LLMReranking,
    NoReranking,
    OpenAISettings,
    SentenceChunking,
    Settings,
    WindowChunking,
)
from localrag.documents import cards
from localrag.documents.chunking import (
    Chunker,
    SentenceChunker,
    WindowChunker,
    heading_text,
    passage_text,
)
from localrag.errors import LocalragError, ModelNotFoundError, UsageError
from localrag.languages import LANGUAGES
from localrag.library.derived import Indexes, VectorPlacement
from localrag.library.folder.gate import KV_FOLDER
from localrag.library.indexes.base import (
    NAMING,
    KeywordIndex,
    Legs,
    SearchAndStatistics,
    TermStatistics,
    VectorIndex,
    VectorSearch,
    Within,
)
from localrag.library.indexes.comparison import EXACT
from localrag.library.indexes.faiss import RESCORED, FaissVectors
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.indexes.rank_bm25 import RankBm25Keywords
from localrag.library.library import Library
from localrag.library.records import ChunkIds, EmbeddingIdentity
from localrag.models.embeddings.base import Embedder
from localrag.models.embeddings.joined import JoinedEmbedder, general
from localrag.models.llms.base import LLM, AheadReader, ChoiceScorer, CostMeter, Options
from localrag.models.llms.choices import Chooser, make_chooser
from localrag.models.llms.probes import Direction, Probes
from localrag.models.registry.store import ModelStore, default_models_dir
from localrag.prompts.own import Wording, read_wording
from localrag.rag.base import OnStep, Parts, Retrieve, Toolkit
from localrag.rag.calibration import (
    Calibration,
    Scale,
    calibration_key,
    load_calibration,
    load_probes,
    starter_calibration,
)
from localrag.rag.citations import PlaceOf
from localrag.rag.faithfulness import Unsupported
from localrag.rag.grading import Grader
from localrag.rag.pipeline import AnswerStage, Pipeline
from localrag.rag.private import Outgoing, SendableReranker
from localrag.rag.reading import Bounds
from localrag.rag.stages.guard import InstructionGuard
from localrag.rag.standard import standard_rag
from localrag.rag.versions import CardOf
from localrag.rerankers.base import Reranker, Reranking
from localrag.retrieval.base import Retriever
from localrag.retrieval.documents import DocumentsFirst, named_documents, without_terms
from localrag.retrieval.evidence import EvidenceFusion, Texts
from localrag.retrieval.expansion import HydeRetriever, MultiQueryRetriever, rewritings
from localrag.retrieval.fusion import (
    FuseForQuestion,
    alpha_fusion,
    reciprocal_rank_fusion,
    regardless,
)
from localrag.retrieval.hybrid import DenseRetriever, HybridRetriever, KeywordRetriever
from localrag.retrieval.languages import SearchByLanguage
from localrag.system.split_files import parts_of
from localrag.text.language import answer_language, detect, shares
from localrag.text.tokenize import Tokenizer
from localrag.types import Card, Chunk, Hit, ScoredChunk

if TYPE_CHECKING:
    from localrag.documents.worker import ParsingProcess
    from localrag.egress.consent import Consent
    from localrag.indexing.indexer import Indexer
    from localrag.models.llms.llama_cpp.model import LlamaCppModel, StatesOnDisk
    from localrag.models.llms.openai.guard import Guard
    from localrag.models.llms.openai.model import OpenAICompatibleModel
    from localrag.models.registry.advice import Advice
    from localrag.rerankers.routing import Route

SAMPLED = 300
"""Passages whose language is looked at, to tell that of a library."""

PLACEMENT = VectorPlacement()
"""Where the vectors of a library in a database are searched, unless the settings say otherwise."""

EXACT_UP_TO = EXACT
"""Passages of which the dense search compares all."""


@dataclass(frozen=True, slots=True)
class Model:
    """A language model in its two roles; `scorer` is None where a backend has no logits."""

    llm: LLM
    scorer: ChoiceScorer | None
    close: Callable[[], None]
    outgoing: Outgoing | None = None
    """What the model may read, where it runs on another machine."""
    view: Callable[[threading.Event | None, Consent | None], Model] | None = None
    """The same model as it serves one call."""
    forget: Callable[[], None] = lambda: None
    """Keep nothing in memory of what was read."""
    scale: Scale | None = None
    """What its grades are worth, where that was measured."""
    ahead: AheadReader | None = None
    """The model as it reads for questions to come, where it keeps what it has read on disk."""
    probes: Probes | None = None
    """What is read from its states."""
    meter: CostMeter | None = None
    """What tells how long it takes, where it runs in this process."""

    @property
    def chooser(self) -> Chooser:
        """The best way in which this model chooses."""
        return make_chooser(self.llm, self.scorer, self.probes)

    def sendable(self, retrieve: Retrieve) -> Retrieve:
        """A retrieval that brings only what the model may read."""
        outgoing = self.outgoing
        return (lambda text, k: outgoing.sendable(retrieve(text, k))) if outgoing else retrieve

    def for_call(self, stopped: threading.Event | None, consent: Consent | None) -> Model:
        """The model for a call that ends once `stopped` is set, and brings its own consent."""
        return self.view(stopped, consent) if self.view else self


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


def make_indexes(settings: Settings) -> Indexes:
    """What a library is searched with, as yet empty."""
    return indexes_of(
        make_tokenizer(settings),
        settings.keywords.engine,
        settings.retrieval.rescored,
        VectorPlacement(settings.database.vectors, settings.database.vectors_mb),
        settings.vectors.engine,
    )


def indexes_of(
    tokenizer: Tokenizer,
    engine: Literal["inverted-index", "rank-bm25"] = "inverted-index",
    rescored: int = RESCORED,
    placement: VectorPlacement = PLACEMENT,
    vector_engine: Literal["faiss"] = "faiss",
) -> Indexes:
    """The same, of terms that `tokenizer` cuts from passages with the headings above them."""
    vectors: Callable[[], VectorIndex]
    match vector_engine:
        case "faiss":
            vectors = partial(FaissVectors, rescored)
        case _:
            assert_never(vector_engine)
    keywords: Callable[[], KeywordIndex]
    match engine:
        case "inverted-index":
            keywords = partial(InvertedKeywords, lambda: tokenizer.fingerprint)
        case "rank-bm25":
            keywords = RankBm25Keywords
        case _:
            assert_never(engine)
    return Indexes(
        vectors,
        keywords,
        tokenizer,
        heading_text,
        placement,
        _card_text,
        cards.HEAD,
    )


def _card_text(title: str, source: str, head: str) -> str:
    return cards.card_text(cards.card_of(title, source, head))


def make_wording(settings: Settings) -> Wording:
    """The words in which the model is asked for an answer."""
    folder = settings.answer.prompts
    return read_wording(Path(folder).expanduser()) if folder else Wording()


def make_embedder(settings: Settings, models: ModelStore) -> Embedder:
    """The embedding model, or two joined; a model's folder says which kind it is."""
    name = settings.embedding.name
    parts = models.parts(name)
    if len(parts) == 1:
        return _opened(name, settings, models)
    with ThreadPoolExecutor(len(parts)) as pool:  # a search waits for both
        embedders = list(pool.map(lambda part: _opened(part, settings, models), parts))
    return JoinedEmbedder(name, *embedders, languages=languages_served(parts[1], models))


def _opened(name: str, settings: Settings, models: ModelStore) -> Embedder:
    from localrag.models.embeddings.folder import FolderEmbedder, kind_of

    folder = models.path(name)
    kind: type[FolderEmbedder]
    match kind_of(folder):
        case "use":
            from localrag.models.embeddings.use import UniversalSentenceEncoder

            kind = UniversalSentenceEncoder
        case "onnx":
            from localrag.models.embeddings.onnx import OnnxEmbedder

            kind = OnnxEmbedder
        case "sentence-transformers":
            from localrag.models.embeddings.sentence_transformers import SentenceTransformerEmbedder

            kind = SentenceTransformerEmbedder
    return kind(
        folder,
        threads=settings.embedding.threads or None,
        cache_dir=cache_folder(),
        weights_sha256=_weights_sha256(name, models),
    )


def languages_served(name: str, models: ModelStore) -> tuple[str, ...]:
    """The languages that an embedding model was made for; empty where nobody says."""
    name = models.parts(name)[0]  # of two that are joined, that of many languages
    if spec := models.catalogue.find(name):
        return spec.languages
    from localrag.models.embeddings.conventions import languages

    try:
        return languages(models.path(name))
    except ModelNotFoundError:  # a library's, of another machine
        return ()


def embedding_advice(settings: Settings, library: Library, models: ModelStore) -> Advice | None:
    """The embedding model that would serve the library's documents better, if one would."""
    from localrag.models.registry.advice import advise

    sample = library.chunks(library.spread_chunks(SAMPLED))
    name = library.embedding.name
    trusted = models.knows(name) or name == settings.embedding.model
    return advise(
        name,
        languages_served(name, models) if trusted else (),
        shares([chunk.text for chunk in sample.values()]),
        models.catalogue,
        STARTER_EMBEDDING,
        models.is_present,
    )


def for_new_library(settings: Settings, models: ModelStore) -> Settings:
    """The settings with the embedding model of a new library, if they name none.

    It is the starter's and, beside it, one on this machine that finds more in its language. That
    costs time where a text is in that language, and finds what is asked in other words than those
    of the documents: `benchmarks/log/2026-11.md`, 2026-11-28.
    """
    if settings.embedding.model:
        return settings
    better = [name for names in models.catalogue.better.values() for name in names]
    beside = next(filter(models.is_present, better), None)
    if beside is None or not models.is_present(STARTER_EMBEDDING):
        return settings
    own = msgspec.structs.replace(settings.embedding, model=f"{STARTER_EMBEDDING}+{beside}")
    return msgspec.structs.replace(settings, embedding=own)


def as_built(settings: Settings, library: Library) -> Settings:
    """The settings with the embedding model that the library was built with, if they name none.

    A library may come from anybody, so a path in it is opened in no case. Raises
    `ModelNotFoundError` where its model is none that this machine knows by that name.
    """
    if settings.embedding.model:
        return settings
    name = library.embedding.name
    if not make_models().knows(name):
        raise ModelNotFoundError(
            "The library {directory} was built with the embedding model {name}, and this machine "
            "knows no model of that name; a library's word opens no path.",
            hint="If you have that model, give it that name (`localrag models add NAME PATH`) or "
            "set embedding.model to its path; or embed everything with another: "
            "`localrag rebuild --embedding MODEL`.",
            directory=str(library.location),
            name=name,
        )
    own = msgspec.structs.replace(settings.embedding, model=name)
    return msgspec.structs.replace(settings, embedding=own)


def _weights_sha256(name: str, models: ModelStore) -> str | None:
    """The checked hash of a known model's weights, which saves hashing them at every start."""
    spec = models.catalogue.find(name)
    return max(spec.files, key=lambda file: file.size or 0).sha256 if spec else None


def identity_of(embedder: Embedder, settings: Settings) -> EmbeddingIdentity:
    """What a library remembers of the model that it was built with."""
    return EmbeddingIdentity(embedder.fingerprint, settings.embedding.name, embedder.dimension)


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
    from localrag.documents.worker import ParsingProcesses, processes_at_once
    from localrag.indexing.indexer import Indexer

    settings = as_built(settings, library)
    parsers = processes_at_once()
    return Indexer(
        library,
        chunker=make_chunker(settings, embedder),
        chunking=chunking_fingerprint(settings),
        embedder=embedder,
        embedding=identity_of(embedder, settings),
        detect_language=detect,
        parse=ParsingProcesses(make_parse(settings) for _ in range(parsers)),
        parsers=parsers,
    )


def make_parse(settings: Settings) -> ParsingProcess:
    """What reads files, in a process of its own."""
    from localrag.documents.formats.table import ParseOptions
    from localrag.documents.recognition import is_installed
    from localrag.documents.worker import ParsingProcess

    options = ParseOptions(**msgspec.structs.asdict(settings.parsing))
    return ParsingProcess(replace(options, ocr=options.ocr and is_installed()))


def chunking_fingerprint(settings: Settings) -> str:
    """Identifies the chunking settings, for documents to remember how they were cut.

    With the form in which passages are embedded: 2 is with the title of their document.
    """
    return json.dumps(msgspec.to_builtins(settings.chunking) | {"passage": 2}, sort_keys=True)


def make_model(settings: Settings, models: ModelStore, library: Library | None = None) -> Model:
    """The language model; what it has read of the library, if there is one, is kept in there.

    Nothing of the library's private documents goes to a model on another machine.
    """
    match settings.llm:
        case LlamaCppSettings() as local:
            directions = directions_of(settings, models)
            made = make_local_model(local, models, library, shows_states=bool(directions))
            return _in_process(made, _scale(settings, models), directions)
        case OpenAISettings() as server:
            guard, outgoing = hosted.guarded(settings, library)
            salt = library.backend.cache_salt if library else ""
            model = _served_model(server, settings, guard, salt)
            return _behind_server(model, outgoing)


def _served_model(
    server: OpenAISettings, settings: Settings, guard: Guard | None, cache_salt: str = ""
) -> OpenAICompatibleModel:
    from localrag.models.llms.openai.keys import find_key
    from localrag.models.llms.openai.model import OpenAICompatibleModel

    return OpenAICompatibleModel(
        server.base_urls,
        server.model,
        api_key=find_key(server.key_variable, server.key_keyring, os.environ, file=server.key_file),
        context_window=server.context_window,
        timeout_seconds=server.timeout_seconds,
        max_retries=server.max_retries,
        allow_network=settings.allow_network,
        guard=guard,
        cache_salt=cache_salt,
    )


def server_faults(server: OpenAISettings, settings: Settings) -> dict[str, LocalragError | None]:
    """What is wrong with each server of the language model, by its name; None: it is there.

    Nothing is sent but the key. Raises as a call would that may not go there.
    """
    with closing(_served_model(server, settings, hosted.guarded(settings, None)[0])) as model:
        return model.faults()


def make_local_model(
    local: LlamaCppSettings,
    models: ModelStore,
    library: Library | None = None,
    *,
    shows_states: bool = False,
) -> LlamaCppModel:
    """The model of this process; of a `library` it keeps what it has read on disk.

    Raises as `make_model`.
    """
    from localrag.models.embeddings.folder import file_key
    from localrag.models.llms.llama_cpp.model import LlamaCppModel

    path = model_file(local.model, models)
    return LlamaCppModel(
        path,
        context_window=local.context_window,
        threads=local.threads or None,
        gpu_layers=local.gpu_layers,
        kv_type=local.kv_type,
        disk=_states_on_disk(path, library, local.kv_disk_mb),
        pace=cache_folder() / f"{file_key(path)}-{local.gpu_layers}-{local.threads}.pace",
        shows_states=shows_states,
    )


def _in_process(
    model: LlamaCppModel, scale: Scale | None, directions: Mapping[str, Direction]
) -> Model:
    def view(stopped: threading.Event | None, _: Consent | None) -> Model:
        return _in_process(model.for_call(stopped), scale, directions)

    ahead = model if model.keeps_on_disk else None
    probes = Probes(model, directions) if directions else None
    return Model(model, model, model.close, None, view, model.forget, scale, ahead, probes, model)


def _behind_server(model: OpenAICompatibleModel, outgoing: Outgoing | None) -> Model:
    def view(stopped: threading.Event | None, consent: Consent | None) -> Model:
        if stopped is None and consent is None:
            return made
        return _behind_server(model.for_call(stopped, consent), outgoing)

    made = Model(model, None, model.close, outgoing, view)
    return made


def calibration_key_of(settings: Settings, models: ModelStore) -> str | None:
    """What the grades of these settings' model are known by; None for one behind a server."""
    if isinstance(settings.llm, OpenAISettings):
        return None
    return calibration_key(_llm_sha256(settings.llm.model, models), make_wording(settings))


def _llm_sha256(name: str, models: ModelStore) -> str:
    """The SHA-256 of a language model's file, in hexadecimal."""
    from localrag.models.embeddings.folder import weights_sha256

    known = _weights_sha256(name, models)
    return known or weights_sha256(parts_of(models.path(name)), cache_folder())


def directions_of(settings: Settings, models: ModelStore) -> Mapping[str, Direction]:
    """What is read from the states of these settings' model: for the starter there are probes."""
    if isinstance(settings.llm, OpenAISettings):
        return {}
    return load_probes(_llm_sha256(settings.llm.model, models))


def find_calibration(settings: Settings, models: ModelStore) -> Calibration | None:
    """What was measured of the grades of these settings' model, if anything was."""
    key = calibration_key_of(settings, models)
    return None if key is None else load_calibration(key, calibrations_folder())


def calibrations_folder() -> Path:
    """Where `localrag models calibrate` keeps what it measured."""
    from platformdirs import user_data_path

    return user_data_path("localrag", appauthor=False) / "calibrations"


def _scale(settings: Settings, models: ModelStore) -> Scale | None:
    found = find_calibration(settings, models)
    if found is None or not found.usable:
        return None
    return Scale(found.curves, starter_calibration().curves)


def model_file(name: str, models: ModelStore) -> Path:
    """The GGUF file of a model, which may be opened here.

    One that has no published SHA-256 is opened in a process of its own first, once for each
    state of the file. Raises `ModelNotFoundError`, `ModelCorruptError`.
    """
    from localrag.models.llms.llama_cpp.probe import probe_once

    path = models.path(name)
    spec = models.catalogue.find(name)
    if spec is None or not spec.pinned:
        probe_once(path, cache_folder())
    return path


def _states_on_disk(model: Path, library: Library | None, megabytes: int) -> StatesOnDisk | None:
    from localrag.models.embeddings.folder import weights_sha256
    from localrag.models.llms.llama_cpp.model import StatesOnDisk

    if library is None or not megabytes or library.is_of_others:
        return None
    sha256 = weights_sha256(parts_of(model), cache_folder())
    return StatesOnDisk(library.directory / KV_FOLDER, megabytes * 10**6, sha256, library.seal)


Chunks = Callable[[Sequence[int]], Mapping[int, Chunk]]
"""Ids -> the chunks that have them; those that are gone are left out."""


def make_retriever(
    settings: Settings,
    asked: Legs,
    chunks: Chunks,
    embedder: Embedder,
    tokenizer: Tokenizer,
    *,
    allowed: ChunkIds | None,
    model: Callable[[], Model],
    on_step: OnStep,
    chunks_of: Callable[[Sequence[str]], ChunkIds],
) -> Retriever:
    """Dense, keyword, or both, over the chunks that are `allowed`; `chunks` has them by id.

    `chunks_of` gives the ids of the chunks of some documents. The language model helps as
    `retrieval.expansion` says, loaded where it does; `on_step` hears the steps of that.
    """
    expansion, mode = settings.retrieval.expansion, settings.retrieval.mode
    if expansion == "hyde" and mode == "keyword":
        raise UsageError(
            "HyDE writes a passage for the dense search, which retrieval.mode keyword "
            "does not run.",
            hint="Choose --mode hybrid or dense, or --expand multi-query.",
        )

    def search(allowed: ChunkIds | None) -> Retriever:
        vectors = by_language(
            embedder,
            asked.vectors if allowed is None else Within(asked.vectors, allowed),
            _passage_texts(chunks),
        )
        keywords = asked.keywords if allowed is None else Within(asked.keywords, allowed)
        legs: dict[str, Retriever] = {
            "dense": DenseRetriever(embedder, vectors),
            "keyword": KeywordRetriever(tokenizer, keywords),
        }
        if expansion == "hyde":
            legs["dense"] = HydeRetriever(embedder, vectors, model().llm, on_step)
        if mode != "hybrid":
            return HybridRetriever({mode: legs[mode]}, _as_found)
        fuse = _fusion(settings, asked.keywords, _passage_texts(chunks), tokenizer)
        return HybridRetriever(legs, fuse)

    def named(question: str) -> list[ChunkIds]:
        terms = list(dict.fromkeys(tokenizer(question)))
        _, (total, *counts) = asked.keywords.frequencies(
            [NAMING, *(NAMING + term for term in terms)]
        )
        return named_documents(terms, asked.keywords, total, counts)

    def within(documents: Sequence[str]) -> Retriever:
        ids = chunks_of(documents)
        return search(ids if allowed is None else np.intersect1d(ids, allowed))

    def without(question: str, first: Set[int]) -> str:
        spent = frozenset(
            term
            for term in tokenizer(question)
            if not first.isdisjoint(asked.keywords.holders(NAMING + term).tolist())
        )
        return without_terms(question, spent, tokenizer)

    retriever: Retriever = search(allowed)
    if mode == "hybrid":
        retriever = DocumentsFirst(retriever, named, chunks, within, without)
    if expansion == "multi-query":
        return MultiQueryRetriever(retriever, model().llm, on_step)
    return retriever


def _fusion(
    settings: Settings, statistics: TermStatistics, texts: Texts, tokenizer: Tokenizer
) -> FuseForQuestion:
    match settings.retrieval.fusion:
        case "default":
            served = languages_served(settings.embedding.name, make_models())
            return EvidenceFusion(tokenizer, statistics, texts, served)
        case "rrf":
            return regardless(reciprocal_rank_fusion)
        case "linear":
            alpha = settings.retrieval.dense_weight
            return regardless(lambda runs: alpha_fusion(runs[0], runs[1], alpha=alpha))


def by_language(embedder: Embedder, vectors: VectorSearch, texts: Texts) -> VectorSearch:
    """The search that an embedder's vectors need; `texts` are those of the passages."""
    if isinstance(embedder, JoinedEmbedder):
        return SearchByLanguage(embedder, vectors, texts)
    return vectors


def _passage_texts(chunks: Chunks) -> Texts:
    def texts(ids: Sequence[int]) -> dict[int, str]:
        return {number: passage_text(chunk) for number, chunk in chunks(ids).items()}

    return texts


def _as_found(_: str, runs: Sequence[Sequence[Hit]]) -> list[Hit]:
    """One leg needs no fusion; its own scores stay."""
    return list(runs[0])


def make_retrievers_to_compare(
    settings: Settings,
    embedder: Embedder,
    vectors: VectorSearch,
    keywords: SearchAndStatistics,
    texts: Texts,
) -> dict[str, Retriever]:
    """Each leg and each fusion over the same indexes, by the name that `bench` gives it.

    `vectors` are what `by_language` makes of them for the model itself; `embedder` may be cached.
    """
    dense = DenseRetriever(embedder, vectors)
    tokenizer = make_tokenizer(settings)
    keyword = KeywordRetriever(tokenizer, keywords)
    retrievers: dict[str, Retriever] = {"keyword": keyword, "dense": dense}
    for name in ("rrf", "linear", "default"):
        retrieval = msgspec.structs.replace(settings.retrieval, fusion=name)
        chosen = msgspec.structs.replace(settings, retrieval=retrieval)
        fuse = _fusion(chosen, keywords, texts, tokenizer)
        retrievers[name] = HybridRetriever({"dense": dense, "keyword": keyword}, fuse)
    return retrievers


def make_reranking(
    settings: Settings, models: ModelStore, model: Callable[[], Model]
) -> Reranking | None:
    """What puts found passages in a new order, or None where their order stays.

    `model` loads the language model where it is wanted.
    """
    match settings.reranker:
        case NoReranking():
            return None
        case KeywordReranking(candidates=candidates):
            from localrag.rerankers.keyword import KeywordReranker

            return Reranking("keyword", KeywordReranker(), candidates)
        case LearnedReranking(candidates=candidates):
            from localrag.rerankers.learned import LearnedReranker

            return Reranking("learned", LearnedReranker(make_tokenizer(settings)), candidates)
        case CrossEncoderReranking() as chosen:
            from localrag.rerankers.routing import LanguageRouter

            router = LanguageRouter(_cross_encoders(chosen.model, models))
            return Reranking("cross-encoder", router, chosen.candidates)
        case LLMReranking(candidates=candidates):
            from localrag.rerankers.llm import LLMReranker

            grading = model()
            reranker: Reranker = LLMReranker(grading.llm, grading.chooser)
            if grading.outgoing is not None:
                reranker = SendableReranker(reranker, grading.outgoing)
            return Reranking("llm", reranker, candidates)


def _cross_encoders(name: str, models: ModelStore) -> list[Route]:
    """The cross-encoder of that name, or all that are pulled, those of most languages first."""
    from localrag.rerankers.routing import Route

    if name:
        spec = models.catalogue.find(name)
        found = [(name, spec.languages if spec else ())]
    else:
        found = [
            (status.name, status.languages)
            for status in models.statuses()
            if status.task == "reranker" and status.state not in ("missing", "partial")
        ]
        found.sort(key=lambda item: (not item[1], -len(item[1]), item[0]))
    if not found:
        raise ModelNotFoundError(
            "No cross-encoder has been pulled yet.",
            hint="`localrag models pull ms-marco-minilm-l12-v2-int8` downloads a small one "
            "for English, `localrag models pull bge-reranker-v2-m3` a large one for "
            "both languages.",
        )
    return [
        Route(model, frozenset(languages), partial(_cross_encoder, path))
        for model, languages in found
        for path in [models.path(model)]
    ]


def _cross_encoder(folder: Path) -> Reranker:
    if (folder / "model.onnx").is_file() and (folder / "tokenizer.json").is_file():
        from localrag.rerankers.onnx_cross_encoder import OnnxCrossEncoder

        return OnnxCrossEncoder(folder)
    from localrag.rerankers.cross_encoder import SentenceTransformersCrossEncoder

    return SentenceTransformersCrossEncoder(folder)


def _similarity(embedder: Embedder, question: str, found: ScoredChunk) -> float:
    """Cosine of question and passage."""
    asked = embedder.embed_queries([question])[0]
    return float(asked @ embedder.embed_documents([passage_text(found.chunk)])[0])


def _reworded(
    settings: Settings, llm: LLM, question: str, tell: OnStep, *, many: bool
) -> list[str]:
    """Other wordings of a question, unless the search has them already.

    None either where `many` documents are asked the same and nothing could be drafted from what is
    found: each that does not say it would take half a minute more.
    """
    drafts = LANGUAGES[answer_language(question)].said_from < 1
    if settings.retrieval.expansion == "multi-query" or (many and not drafts):
        return []
    return rewritings(question, llm, tell)


def make_grader(model: Model, embedder: Embedder) -> Grader:
    """What grades passages and answers."""
    return Grader(model.chooser, partial(_similarity, general(embedder)), model.scale)


def make_pipeline(
    settings: Settings,
    model: Model,
    embedder: Embedder,
    retrieve: Retrieve,
    place_of: PlaceOf,
    tokenizer: Tokenizer,
    wording: Wording,
    reranking: Reranking | None = None,
    card_of: CardOf = lambda _: Card("", ""),
    after: Sequence[AnswerStage] = (),
    parts: MutableMapping[str, Parts] | None = None,
    *,
    many: bool = False,
    stopped: threading.Event | None = None,
) -> Pipeline:
    """The way a question is answered, with stages `after` all others.

    An answer that did what a document says is written again. `parts` are those of questions that
    were taken apart already, `many` whether several documents are asked the same. Nobody waits for
    the answer once `stopped` is set.
    """
    answer = settings.answer
    tools = Toolkit(
        model.sendable(retrieve),
        model.llm,
        tokenizer,
        general(embedder),
        place_of,
        answer.k,
        Options(max_tokens=answer.max_tokens, temperature=answer.temperature, seed=answer.seed),
        wording,
        reranking,
        card_of,
        partial(_reworded, settings, model.llm, many=many),
        model.meter,
        {} if parts is None else parts,
        stopped or threading.Event(),
    )
    grader = make_grader(model, embedder)
    unsupported: Unsupported = "remove unchecked" if answer.strict else answer.unsupported

    stages: tuple[AnswerStage, ...]
    if answer.mode == "standard":
        least = answer.min_answerable_strict if answer.strict else answer.min_answerable
        stages, budget = standard_rag(Bounds(answer.enough, least)), 0.0
    else:
        from localrag.rag.self_rag import self_rag
        from localrag.rag.stages.grade import SelfRAGOptions

        given = msgspec.structs.asdict(settings.self_rag)
        budget = given.pop("budget_seconds")
        if answer.strict:
            given["min_best_relevance"] = answer.min_answerable_strict
        stages = self_rag(SelfRAGOptions(**given, enough=answer.enough, strict=answer.strict))
    if not answer.read_instructions:
        stages = (InstructionGuard(stages, budget),)
    return Pipeline(tools, grader, (*stages, *after), unsupported, budget)
