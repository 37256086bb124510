"""A library and its language model as they are evaluated; what the model says is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import msgspec

from localrag import __version__, factory
from localrag.config.settings import OpenAISettings, Settings, settings_table
from localrag.documents.chunking import passage_text
from localrag.documents.tables import shown_text
from localrag.engine import AskOptions, Engine
from localrag.evaluation import events
from localrag.evaluation.call_cache import CachedModel, CallCache, key_of
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.metric import Response
from localrag.hosted import private_sources, sendable
from localrag.models.llms.openai.server_info import served_model
from localrag.models.llms.probes import Direction, saved
from localrag.prompts import all_prompts
from localrag.rag.base import answer_of
from localrag.types import ScoredChunk, Step

if TYPE_CHECKING:
    from localrag.models.embeddings.base import Embedder

_SAMPLE_BYTES = 1 << 20


class EvaluatedEngine(Engine):
    """An engine under test: what its language model says is kept. `tell` hears its notes.

    Configurations that ask it the same, such as one passage graded for relevance by a reranker
    and by Self-RAG, pay for that once, and so does a run that was killed amid an answer.
    """

    def __init__(self, engine: Engine, cache: CallCache, tell: events.Tell) -> None:
        super().__init__(engine.library, engine.settings)
        self._engine = engine
        self._cache = cache
        self._tell = tell
        self._cached: CachedModel | None = None

    @property
    def embedder(self) -> Embedder:
        """The engine's."""
        return self._engine.embedder

    @property
    def model(self) -> factory.Model:
        """The engine's, with a memory around it."""
        model, settings = self._engine.model, self.settings
        if settings.answer.mode == "self-rag" and settings.self_rag.budget_seconds:
            return model  # what fits into a budget would be more, were some of it remembered
        if self._cached is None:
            fingerprint = model_fingerprint(settings)
            reader = model.probes.reader if model.probes else None
            self._cached = CachedModel(model.llm, model.scorer, fingerprint, self._cache, reader)
        cached = self._cached
        probes = model.probes and replace(model.probes, reader=cached)
        scorer = cached if model.scorer else None
        # What is remembered costs nothing, so there is no telling how long the model would take.
        return replace(model, llm=cached, scorer=scorer, probes=probes, view=None, meter=None)

    @property
    def saved(self) -> float:
        """Seconds that the outcomes taken from the cache once cost."""
        return self._cached.saved if self._cached else 0.0

    def produce(self, sample: Sample) -> Response:
        """The answer, the contexts that it was written from, and the seconds it took.

        What an earlier answer has asked the model word for word counts as long as it took then.
        Of a sample that has an answer, the contexts that one would be written from.
        """
        if sample.answer is not None:
            return Response(sample.answer, self.contexts(sample.question))
        before = self.saved
        answer = answer_of(self.stream(sample.question), self._hear)
        contexts = tuple(map(_context, answer.contexts))
        return Response(answer.text, contexts, answer.seconds + self.saved - before)

    def contexts(self, question: str) -> tuple[Context, ...]:
        """What an answer would be written from, and the settings' language model may read."""
        allowed = sendable(self.settings, self.library)
        options = AskOptions(k=self.settings.answer.k, filter=allowed)
        return tuple(map(_context, self.search(question, options, self._hear)))

    def passages(self) -> list[Context]:
        """All passages of the library that the settings' language model may read."""
        private = private_sources(self.settings).documents(self.library)
        return [
            Context(shown_text(chunk), name, chunk.first_page, chunk.last_page)
            for record in self.library.documents()
            if record.id not in private
            for name in [PurePath(record.sources[0]).name]
            for chunk in self.library.document_chunks(record.id)
        ]

    def identity(self) -> str:
        """Stands for settings, prompts, weights and documents.

        The weights of a reranker in a folder of one's own are known by its path alone.
        """
        settings, library = self.settings, self.library
        wording = factory.make_wording(settings)
        dictionary = settings.keywords.user_dictionary
        words = Path(dictionary).expanduser().read_bytes() if dictionary else b""
        documents = sorted(
            (record.id, record.chunking, list(record.sources)) for record in library.documents()
        )
        return key_of(
            __version__,
            settings_table(settings),
            sorted([*key, text] for key, text in wording.own.items()),
            all_prompts(),
            hashlib.sha256(words).hexdigest(),
            model_fingerprint(settings),
            msgspec.to_builtins(factory.find_calibration(settings, factory.make_models())),
            _digest(factory.directions_of(settings, factory.make_models())),
            library.embedding.fingerprint,
            documents,
        )

    def _hear(self, step: Step) -> None:
        for note in step.notes:
            self._tell(note)


def _digest(directions: Mapping[str, Direction]) -> str:
    return hashlib.sha256(saved(directions)).hexdigest() if directions else ""


def model_fingerprint(settings: Settings) -> str:
    """Identifies the language model: the published hash, or size and both ends of the file.

    With the way its state is stored, where that changes outcomes. Of a server: its address, the
    model's name, and what a local one tells of its weights.
    """
    llm = settings.llm
    if isinstance(llm, OpenAISettings):
        served = (f"{url} {llm.model} {served_model(url, llm.model)}" for url in llm.base_urls)
        return " ".join(served).rstrip()
    stored = "" if llm.kv_type == "f16" else f" {llm.kv_type}"
    models = factory.make_models()
    spec = models.catalogue.find(llm.model)
    known = max(spec.files, key=lambda file: file.size or 0).sha256 if spec else None
    if known:
        return known + stored
    path = models.path(llm.model)
    digest = hashlib.sha256(str(path.stat().st_size).encode())
    with path.open("rb") as file:
        digest.update(file.read(_SAMPLE_BYTES))
        file.seek(max(0, path.stat().st_size - _SAMPLE_BYTES))
        digest.update(file.read())
    return digest.hexdigest() + stored


def _context(hit: ScoredChunk) -> Context:
    chunk = hit.chunk
    return Context(passage_text(chunk), hit.source, chunk.first_page, chunk.last_page)
