"""One question, its answer and its contexts -> every metric that is defined for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from localrag.evaluation import answer_metrics
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.judging import metrics as judge_metrics
from localrag.evaluation.judging.judge import Finding, Judge, Judged
from localrag.models.embeddings.base import Embedder
from localrag.rag.refusals import refuses
from localrag.text.language import answer_language
from localrag.text.sentences import split_sentences

State = Literal["scored", "undefined", "unreadable"]

JUDGED = (
    "faithfulness",
    "answer_relevancy",
    "context_recall",
    "context_precision",
    "citation_precision",
    "citation_recall",
)
UNJUDGED = ("exact_match", "f1", "refusal", "page_rank")
METRICS = (*JUDGED, *UNJUDGED)
"""In the order of reports."""


@dataclass(frozen=True, slots=True)
class Score:
    """The value of a metric for one question.

    None where the metric is undefined there (no statement, no reference) or where the judge's
    verdicts could not be read.
    """

    value: float | None
    state: State


UNDEFINED = Score(None, "undefined")


@dataclass(frozen=True, slots=True)
class Response:
    """What a pipeline gave for a question; `seconds` is what that took, None where not known."""

    answer: str
    contexts: tuple[Context, ...] | None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the judge found on the way; `asked` are the questions made from the answer."""

    statements: tuple[Judged, ...] = ()
    reference: tuple[Judged, ...] = ()
    contexts: tuple[Judged, ...] = ()
    citations: tuple[Judged, ...] = ()
    asked: tuple[tuple[str, float], ...] = ()
    evasive: Finding | None = None


@dataclass(frozen=True, slots=True)
class Scored:
    """One question with everything that is known about it; `judge_seconds` is wall time."""

    sample: Sample
    response: Response
    scores: Mapping[str, Score]
    evidence: Evidence
    judge_seconds: float
    refused: bool


@dataclass(slots=True)
class _Found:
    scores: dict[str, Score] = field(default_factory=dict)
    statements: tuple[Judged, ...] = ()
    reference: tuple[Judged, ...] = ()
    contexts: tuple[Judged, ...] = ()
    citations: tuple[Judged, ...] = ()
    asked: tuple[tuple[str, float], ...] = ()
    evasive: Finding | None = None


class Scorer:
    """Scores samples with a judge, or without one where it is None.

    `embedder` compares questions for answer relevancy. `metrics` are those wanted.
    What is `withheld` the judge does not see: its metrics are undefined there.
    """

    def __init__(
        self,
        judge: Judge | None,
        embedder: Embedder | None,
        metrics: Sequence[str] = METRICS,
        withheld: Callable[[Sample, Response], bool] = lambda *_: False,
    ) -> None:
        self._withheld = withheld
        self._judge = judge
        self._embedder = embedder
        self._metrics = tuple(metrics)

    def score(
        self, sample: Sample, response: Response, clock: Callable[[], float] = time.perf_counter
    ) -> Scored:
        """All wanted metrics of one response. Raises `GenerationError` from the judge."""
        started = clock()
        found = _Found()
        # An answer without a word is none.
        refused = refuses(response.answer) or not response.answer.strip()
        self._unjudged(sample, response, refused, found)
        if self._judge is not None and not self._withheld(sample, response):
            self._judged(self._judge, sample, response, refused, found)
        return Scored(
            sample=sample,
            response=response,
            scores={
                metric: found.scores.get(metric, UNDEFINED)
                for metric in METRICS
                if metric in self._metrics
            },
            evidence=Evidence(
                found.statements,
                found.reference,
                found.contexts,
                found.citations,
                found.asked,
                found.evasive,
            ),
            judge_seconds=clock() - started,
            refused=refused,
        )

    def _unjudged(self, sample: Sample, response: Response, refused: bool, found: _Found) -> None:
        scores = found.scores
        if sample.reference and sample.answerable is not False:
            # The best over all reference answers, as SQuAD and CMRC 2018 have it.
            scores["exact_match"] = _best(answer_metrics.exact_match, response.answer, sample)
            scores["f1"] = _best(answer_metrics.f1, response.answer, sample)
        if sample.answerable is not None:
            scores["refusal"] = _scored(float(refused != sample.answerable))
        if response.contexts is not None and sample.answerable is not False:
            rank = answer_metrics.page_reciprocal_rank(
                response.contexts, sample.source, sample.page
            )
            if rank is not None:
                scores["page_rank"] = _scored(rank)

    def _judged(
        self, judge: Judge, sample: Sample, response: Response, refused: bool, found: _Found
    ) -> None:
        texts = [context.text for context in response.contexts or ()]
        if response.contexts is not None and not refused:
            if "faithfulness" in self._metrics:
                self._faithfulness(judge, sample, response.answer, texts, found)
            if {"citation_precision", "citation_recall"} & set(self._metrics):
                self._citations(judge, sample, response.answer, texts, found)
        if sample.answerable is False:
            return
        if response.contexts is not None and sample.reference:
            if "context_recall" in self._metrics:
                self._recall(judge, sample, texts, found)
            if "context_precision" in self._metrics:
                self._precision(judge, sample, texts, found)
        if "answer_relevancy" in self._metrics and self._embedder is not None:
            self._relevancy(judge, self._embedder, sample, response.answer, refused, found)

    def _faithfulness(
        self, judge: Judge, sample: Sample, answer: str, texts: Sequence[str], found: _Found
    ) -> None:
        language = answer_language(sample.question)
        statements = judge.statements(sample.question, answer, language)
        findings = judge.supported(texts, statements, language)
        found.statements = _paired(statements, findings)
        found.scores["faithfulness"] = _of(judge_metrics.faithfulness, findings)

    def _recall(self, judge: Judge, sample: Sample, texts: Sequence[str], found: _Found) -> None:
        language = answer_language(sample.question)
        statements = judge.statements(sample.question, sample.reference, language)
        findings = judge.supported(texts, statements, language)
        found.reference = _paired(statements, findings)
        found.scores["context_recall"] = _of(judge_metrics.context_recall, findings)

    def _precision(self, judge: Judge, sample: Sample, texts: Sequence[str], found: _Found) -> None:
        language = answer_language(sample.question)
        findings = [judge.useful(sample.reference, text, language) for text in texts]
        found.contexts = _paired(texts, findings)
        found.scores["context_precision"] = _of(judge_metrics.context_precision, findings)

    def _citations(
        self, judge: Judge, sample: Sample, answer: str, texts: Sequence[str], found: _Found
    ) -> None:
        """The judge's verdict, not that of the check that put the marker there."""
        language = answer_language(sample.question)
        cited = _cited_sentences(answer, len(texts))
        if not any(markers for _, markers in cited):
            return
        citations: list[Judged] = []
        sentences: list[judge_metrics.Verdict] = []
        for sentence, markers in cited:
            single = [judge.supported([texts[m - 1]], [sentence], language)[0] for m in markers]
            citations += [
                Judged(f"{sentence} [{marker}]", finding)
                for marker, finding in zip(markers, single, strict=True)
            ]
            verdicts = [finding.verdict for finding in single]
            together: judge_metrics.Verdict = any(verdicts)
            if not together and len(markers) > 1:
                several = [texts[marker - 1] for marker in markers]
                together = judge.supported(several, [sentence], language)[0].verdict
            elif not together and None in verdicts:
                together = None
            sentences.append(together)
        found.citations = tuple(citations)
        found.scores["citation_precision"] = _of(
            judge_metrics.citation_precision, [one.finding for one in citations]
        )
        found.scores["citation_recall"] = _score(
            judge_metrics.citation_recall(sentences), readable=None not in sentences
        )

    def _relevancy(
        self,
        judge: Judge,
        embedder: Embedder,
        sample: Sample,
        answer: str,
        refused: bool,
        found: _Found,
    ) -> None:
        if refused:
            # It says itself that it does not answer; nothing needs to be asked.
            found.evasive = Finding(True)
            found.scores["answer_relevancy"] = _scored(0.0)
            return
        language = answer_language(sample.question)
        plain = answer_metrics.MARKER.sub("", answer).strip()
        found.evasive = judge.evasive(plain, language)
        questions = judge.questions(plain, language)
        if questions is None:
            found.scores["answer_relevancy"] = Score(None, "unreadable")
            return
        vectors = embedder.embed_queries([sample.question, *questions])
        cosines = [float(cosine) for cosine in vectors[1:] @ vectors[0]]
        found.asked = tuple(zip(questions, cosines, strict=True))
        # Whether an answer commits itself is a property of the answer: one flag for all.
        flags = [found.evasive.verdict] * len(questions)
        found.scores["answer_relevancy"] = _score(
            judge_metrics.answer_relevancy(cosines, flags), readable=None not in flags
        )


def _cited_sentences(answer: str, contexts: int) -> list[tuple[str, list[int]]]:
    """Each sentence of an answer without its markers, and the contexts that they point to.

    A marker that stands after a sentence's stop belongs to that sentence.
    """
    found: list[tuple[str, list[int]]] = []
    for start, end in split_sentences(answer):
        piece = answer[start:end]
        while (leading := answer_metrics.MARKER.match(piece)) and found:
            found[-1][1].append(int(leading[1]))
            piece = piece[leading.end() :].lstrip()
        markers = [int(number) for number in answer_metrics.MARKER.findall(piece)]
        sentence = answer_metrics.MARKER.sub("", piece).strip()
        if any(character.isalnum() for character in sentence):
            found.append((sentence, markers))
    return [
        (sentence, [m for m in dict.fromkeys(markers) if 1 <= m <= contexts])
        for sentence, markers in found
    ]


def _best(metric: Callable[[str, str], float], answer: str, sample: Sample) -> Score:
    return _scored(max(metric(answer, reference) for reference in sample.references))


def _paired(texts: Sequence[str], findings: Sequence[Finding]) -> tuple[Judged, ...]:
    return tuple(Judged(text, finding) for text, finding in zip(texts, findings, strict=True))


def _of(
    metric: Callable[[Sequence[judge_metrics.Verdict]], float | None], findings: Sequence[Finding]
) -> Score:
    verdicts = [finding.verdict for finding in findings]
    return _score(metric(verdicts), readable=None not in verdicts)


def _score(value: float | None, *, readable: bool) -> Score:
    if value is None:
        return UNDEFINED if readable else Score(None, "unreadable")
    return Score(value, "scored")


def _scored(value: float) -> Score:
    return Score(value, "scored")
