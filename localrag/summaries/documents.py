"""Summaries of documents: their outline, the sentences that are chosen, and what is written.

What the model writes of a section is kept in the library with its document, before the next one is
begun: a run that was killed goes on where it was.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from localrag.documents.cards import HEAD, card_of
from localrag.errors import GenerationError, StoppedError
from localrag.languages import CODES, LANGUAGES, is_code
from localrag.library.kept import Keeper, key_of, record_of
from localrag.library.library import Library
from localrag.library.records import DocumentRecord
from localrag.models.embeddings.base import Embedder
from localrag.models.llms.base import check_stopped
from localrag.prompts import template
from localrag.rag.budget import Budget
from localrag.rag.statements import tidy
from localrag.retrieval.sections import PassageSpan
from localrag.summaries.choosing import (
    MOST_SENTENCES,
    Sentence,
    Steers,
    SummaryTopic,
    Tokenize,
    best,
    centrality,
    diverse,
    sentences,
    shares,
    telling,
)
from localrag.summaries.outline import Part, parts
from localrag.summaries.records import (
    DocumentSummary,
    Event,
    Reason,
    SectionDone,
    Summary,
    SummaryBegun,
    SummarySection,
    Written,
)
from localrag.summaries.writing import Attribute, joined, quoted
from localrag.types import Chunk, Citation, ScoredChunk, Unit

SECONDS_A_SECTION = 12.0
"""Taken for a section until some were written: the starter model on two cores."""
LEAST_WRITTEN = 3
"""Sentences from which on a section is written about; fewer are quoted."""
MOST_DOCUMENTS = 200
"""Of a folder that are told, each in a sentence."""
READ_MORE = 2
"""For each sentence, so many passages are looked through."""
TOPIC_HITS, TOPIC_PASSAGES = 60, 20
"""Hits of a topic that are searched for, and passages whose sentences are looked through."""
BESIDE = 0.5
"""What a hit beside a passage counts for it: what is said on a topic stands together."""
_PASSAGES_EACH = 3
"""Of each of several documents that are looked through for its sentence."""
_LEAST_GAP, _GAPS = 2, 30
"""Pages without a sentence from which on a run is told: so many, or a share of 1 in `_GAPS`."""
_VERSION = 1
"""Of what is kept: a higher number writes all again."""
_PROMPTS = ("summary_question", "summary_section", "support", "relevance_system")

Pages = tuple[int, int | None]
"""First and last page; None: to the end."""
Search = Callable[[str, Sequence[str], Pages | None, int], Sequence[ScoredChunk]]
"""The passages about a topic in the documents at these paths, on these pages, at most so many."""
Write = Callable[[Sequence[ScoredChunk], str], Written]
"""What a model writes of sentences, about a topic or ""."""


@dataclass(frozen=True, slots=True)
class Tools:
    """What sentences are chosen with; no language model."""

    library: Library
    embedder: Embedder
    tokenize: Tokenize
    steers: Steers
    search: Search
    attribute: Attribute
    within: tuple[int, int | None] = (0, None)
    """Code points of the document from which sentences are taken; None: to the end."""

    def candidates(
        self, numbers: Sequence[int], passages: Sequence[PassageSpan], chunks: Mapping[int, Chunk]
    ) -> tuple[list[Sentence], int]:
        """The sentences of passages by their numbers, and how many could steer a model.

        `chunks` are those of the passages that are still there, by their ids.
        """
        first, last = self.within
        inside: list[Sentence] = []
        left_out = 0
        for rank, at in enumerate(numbers):
            if chunk := chunks.get(passages[at].id):
                quotable, steering = sentences(at, chunk, self.tokenize, self.steers, rank)
                left_out += steering
                for sentence in quotable:
                    start = sentence.chunk.start
                    if start >= first and (last is None or start < last):
                        inside.append(sentence)
        return inside, left_out


@dataclass(frozen=True, slots=True)
class SummaryDraft:
    """A document in its own words, and the sentences of each section as passages."""

    summary: DocumentSummary
    sources: tuple[tuple[ScoredChunk, ...], ...] = ()


def draft_one(
    record: DocumentRecord, about: str, pages: Pages | None, tools: Tools
) -> SummaryDraft:
    """A document section by section, in sentences of its own."""
    library = tools.library
    with library.one_state():
        language, rows = library.outline(record.id)
        spans = library.page_spans(record.id)
        vectors = library.document_vectors(record.id)
    passages = [PassageSpan(*row) for row in rows if row[0] in vectors]
    numbers = [number for number, _, _ in spans]
    starts = [start for _, start, _ in spans]

    def page(offset: int) -> int:
        return numbers[max(0, bisect_right(starts, offset) - 1)] if numbers else 1

    if pages is not None:
        first, last = pages
        passages = [
            passage
            for passage in passages
            if page(passage.end - 1) >= first and (last is None or page(passage.start) <= last)
        ]
        here = [
            (start, end)
            for number, start, end in spans
            if number >= first and (last is None or number <= last)
        ]
        tools = replace(tools, within=(here[0][0], here[-1][1]) if here else (0, 0))
    cuts = parts(passages, LANGUAGES[language].density if is_code(language) else 1.0)
    if about:
        hits = tools.search(about, record.sources[:1], pages, TOPIC_HITS)
        chosen, left_out = _about(about, hits, passages, tools, MOST_SENTENCES)
    else:
        chosen, left_out = _central(passages, vectors, cuts, tools, READ_MORE, MOST_SENTENCES)
    sections: list[SummarySection] = []
    sources: list[tuple[ScoredChunk, ...]] = []
    for part in cuts:
        own = [sentence for sentence in chosen if part.first <= sentence.passage <= part.last]
        if about and not own:
            continue
        scored = _scored(own, record.sources[0])
        start, end = passages[part.first].start, passages[part.last].end
        if tools.within[1] is not None:  # a passage may begin on the page before
            start, end = max(start, tools.within[0]), min(end, tools.within[1])
        section = SummarySection(
            part.heading,
            page(start),
            page(max(start, end - 1)),
            part.last - part.first + 1,
            len({sentence.passage for sentence in own}),
            "not written" if len(own) >= LEAST_WRITTEN else "quoted",
            quoted(scored, tools.attribute(scored)) if scored else (),
        )
        sections.append(section)
        sources.append(scored)
    skipped = () if about else _skipped(sections, numbers, pages)
    return SummaryDraft(_document(record, library, sections, left_out, skipped), tuple(sources))


def draft_several(
    records: Sequence[DocumentRecord], about: str, tools: Tools, stopped: threading.Event
) -> list[SummaryDraft]:
    """Each document with the sentence that tells most of it, or most of the topic.

    Of a topic, only documents with a sentence about it, the best first. Once `stopped` is set, no
    more than those that there are by then; raises `StoppedError` for a topic, as the others may
    have a sentence about it, too.
    """
    by_document: dict[str, list[ScoredChunk]] = {}
    if about:
        paths = [record.sources[0] for record in records]
        for hit in tools.search(about, paths, None, TOPIC_HITS * _PASSAGES_EACH):
            by_document.setdefault(hit.chunk.document_id, []).append(hit)
        known = {record.id: record for record in records}
        records = [known[document] for document in by_document if document in known]
    drafts = []
    for place, record in enumerate(records[:MOST_DOCUMENTS]):
        if place and stopped.is_set():
            if about:
                check_stopped(stopped)
            break
        _, rows = tools.library.outline(record.id)
        passages = [PassageSpan(*row) for row in rows]
        if about:
            hits = by_document[record.id][:_PASSAGES_EACH]
            chosen, left_out = _about(about, hits, passages, tools, 1)
            if not chosen:
                continue
        else:
            vectors = tools.library.document_vectors(record.id)
            passages = [passage for passage in passages if passage.id in vectors]
            whole = [Part("", 0, len(passages) - 1)] if passages else []
            chosen, left_out = _central(passages, vectors, whole, tools, _PASSAGES_EACH, 1)
        scored = _scored(chosen, record.sources[0])
        section = SummarySection(
            "",
            1,
            max(1, record.pages),
            len(passages),
            len(scored),
            "quoted",
            quoted(scored, tools.attribute(scored)) if scored else (),
        )
        drafts.append(
            SummaryDraft(_document(record, tools.library, [section], left_out), (scored,))
        )
    return drafts


def _document(
    record: DocumentRecord,
    library: Library,
    sections: Sequence[SummarySection],
    left_out: int,
    skipped: tuple[tuple[int, int], ...] = (),
) -> DocumentSummary:
    head = library.text(record.id, 0, HEAD)
    return DocumentSummary(
        record.id,
        record.sources[0],
        record.title,
        card_of(record.title, record.sources[0], head),
        _unit(sections),
        record.pages,
        tuple(sections),
        skipped,
        left_out,
    )


def _central(
    passages: Sequence[PassageSpan],
    vectors: Mapping[int, NDArray[np.float32]],
    cuts: Sequence[Part],
    tools: Tools,
    more: int,
    count: int,
) -> tuple[list[Sentence], int]:
    """The sentences that carry what each part says, and how many could steer a model."""
    lengths = [passages[part.last].end - passages[part.first].start for part in cuts]
    selections: list[tuple[int, list[int], NDArray[np.float32]]] = []
    for part, share in zip(cuts, shares(lengths, count, min(count, LEAST_WRITTEN)), strict=True):
        rows = np.array([vectors[passage.id] for passage in passages[part.first : part.last + 1]])
        indices = diverse(rows, centrality(rows), more * share)
        selections.append((share, sorted(part.first + at for at in indices), rows.mean(axis=0)))
    ids = [passages[at].id for _, numbers, _ in selections for at in numbers]
    chunks = tools.library.chunks(ids)
    chosen: list[Sentence] = []
    left_out = 0
    for share, numbers, centre in selections:
        candidates, steering = tools.candidates(numbers, passages, chunks)
        left_out += steering
        chosen += best(telling(candidates), share, tools.embedder, centre=centre)
    return chosen, left_out


def _about(
    about: str,
    hits: Sequence[ScoredChunk],
    passages: Sequence[PassageSpan],
    tools: Tools,
    count: int,
) -> tuple[list[Sentence], int]:
    """The sentences on a topic at and beside the hits, and how many could steer a model."""
    places = {passage.id: at for at, passage in enumerate(passages)}
    scores = np.zeros(len(passages) + 2)
    for rank, hit in enumerate(hits):
        if (at := places.get(hit.chunk.id)) is not None:
            scores[at + 1] = 1.0 / (10 + rank)
    beside = scores[1:-1] + BESIDE * (scores[:-2] + scores[2:])
    order = [int(at) for at in np.argsort(-beside, kind="stable")[:TOPIC_PASSAGES] if beside[at]]
    chunks = tools.library.chunks([passages[at].id for at in order])
    candidates, left_out = tools.candidates(order, passages, chunks)
    topic = SummaryTopic.of(about, tools.embedder, tools.tokenize)
    chosen = best(telling(candidates), count, tools.embedder, topic)
    return sorted(chosen, key=lambda sentence: sentence.chunk.start), left_out


def _scored(chosen: Sequence[Sentence], source: str) -> tuple[ScoredChunk, ...]:
    return tuple(ScoredChunk(sentence.chunk, 0.0, source) for sentence in chosen)


def _unit(sections: Sequence[SummarySection]) -> Unit:
    places = (citation.place for citation in _citations(sections))
    return next((place.unit for place in places if place), "page")


def _citations(sections: Sequence[SummarySection]) -> Iterator[Citation]:
    for section in sections:
        for statement in section.statements:
            yield from (mark.citation for mark in statement.citations)


def _skipped(
    sections: Sequence[SummarySection], numbers: Sequence[int], pages: Pages | None
) -> tuple[tuple[int, int], ...]:
    """First and last of the runs of pages that no sentence is from."""
    cited = {citation.page for citation in _citations(sections)}
    first, last = pages or (1, None)
    there = [number for number in numbers if number >= first and (last is None or number <= last)]
    least = max(_LEAST_GAP, -(-len(there) // _GAPS))
    runs: list[list[int]] = []
    for number in there:
        if number in cited:
            runs.append([])
        elif runs and runs[-1]:
            runs[-1].append(number)
        else:
            runs.append([number])
    return tuple((run[0], run[-1]) for run in runs if len(run) >= least)


def section_key(sentences: Sequence[ScoredChunk], about: str, model: str, wording: str) -> str:
    """What is kept of a section is found by this, beside its document.

    A hash of all that the model is given: it says neither topic nor text.
    """
    prompts = [template(name, language) for name in _PROMPTS for language in CODES]
    passage = joined(sentences).chunk
    read = [passage.title, passage.heading, passage.text]
    return key_of("summary", _VERSION, about, model, wording, prompts, read)


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be written: drafts, the topic, and by which model in which words.

    `private` are ids of documents that the model is not to read; `seconds` may be taken, 0 means as
    many as it takes.
    """

    drafts: Sequence[SummaryDraft]
    about: str
    total: int
    model: str
    wording: str = ""
    private: frozenset[str] = frozenset()
    seconds: float = 0.0


@dataclass(slots=True)
class _Run:
    """The sections of all documents as they are by now."""

    work: Work
    documents: list[DocumentSummary] = field(default_factory=list)

    def put(self, document: int, number: int, section: SummarySection) -> None:
        sections = list(self.documents[document].sections)
        sections[number] = section
        self.documents[document] = replace(self.documents[document], sections=tuple(sections))

    def summary(self, seconds: float = 0.0) -> Summary:
        return Summary(self.work.about, tuple(self.documents), self.work.total, seconds)


def summarise(
    library: Library, work: Work, write: Write, stopped: Callable[[], bool]
) -> Iterator[Event]:
    """The documents in their own words, then sections as they are written, and last the summary.

    Once `stopped` says so, or the time is over, what is left stays in the document's own words.
    Raises what `write` raises but for failures of the model in one section, which leave it so.
    """
    began = time.perf_counter()
    run = _Run(work, [draft.summary for draft in work.drafts])
    keys = {
        (document, number): section_key(sources, work.about, work.model, work.wording)
        for document, draft in enumerate(work.drafts)
        for number, sources in enumerate(draft.sources)
        if draft.summary.sections[number].state == "not written"
    }
    saved_sections = _kept(library, run, keys)
    private = [at for at in keys if run.documents[at[0]].document_id in work.private]
    to_write = [at for at in keys if at not in saved_sections and at not in private]
    seconds = [entry.seconds for entry in saved_sections.values() if entry.seconds > 0]
    pace = sum(seconds) / len(seconds) if seconds else SECONDS_A_SECTION
    for at in private:
        run.put(*at, replace(run.documents[at[0]].sections[at[1]], reason="private"))
    yield SummaryBegun(run.summary(), len(saved_sections), len(to_write), pace * len(to_write))
    for at, written in saved_sections.items():
        section = _written(run.documents[at[0]].sections[at[1]], written)
        run.put(*at, section)
        yield SectionDone(*at, section, kept=True, left=len(to_write))
    budget = Budget(work.seconds)
    keeper = Keeper(library)
    reason: Reason = ""  # why nothing more is written
    for place, at in enumerate(to_write):
        document, number = at
        section = run.documents[document].sections[number]
        reason = reason or _halted(stopped, budget)
        if not reason:
            try:
                done = time.perf_counter()
                written = write(work.drafts[document].sources[number], work.about)
                budget.took("section", time.perf_counter() - done)
                section = _written(section, written)
                keeper.add((run.documents[document].document_id, keys[at]), _of(written, ""))
            except StoppedError:
                reason = "stopped"
            except GenerationError:
                section = replace(section, reason="failed")
        if reason:
            section = replace(section, reason=reason)
        run.put(document, number, section)
        remaining = len(to_write) - place - 1
        yield SectionDone(document, number, section, kept=False, left=remaining)
        yield from keeper.keep()
    yield from keeper.finish()
    yield run.summary(time.perf_counter() - began)


def _halted(stopped: Callable[[], bool], budget: Budget) -> Reason:
    if stopped():
        return "stopped"
    return "" if budget.allows("section") else "budget"


def _kept(
    library: Library, run: _Run, keys: dict[tuple[int, int], str]
) -> dict[tuple[int, int], Written]:
    private = run.work.private
    documents = {run.documents[at[0]].document_id for at in keys} - private
    records = library.kept_cells(documents, keys.values())
    result = {}
    for at, key in keys.items():
        document = run.documents[at[0]]
        record = records.get((document.document_id, key))
        if record and (written := record_of(record, Written)):
            result[at] = _of(written, document.source)
    return result


def _of(written: Written, source: str) -> Written:
    """What was written of the document at a path; kept without one, since paths come and go."""
    statements = tuple(
        replace(
            statement,
            citations=tuple(
                replace(mark, citation=replace(mark.citation, source=source))
                for mark in statement.citations
            ),
        )
        for statement in written.statements
    )
    return replace(written, statements=statements)


def _written(section: SummarySection, written: Written) -> SummarySection:
    """The section as it was written; in the document's own words where nothing was."""
    if not written.statements:
        return replace(section, state="quoted")
    return replace(
        section, state="written", statements=tidy(written.statements), replaced=written.replaced
    )
