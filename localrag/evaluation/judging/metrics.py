"""The metrics that rest on a judge's verdicts.

A verdict is True or False; None is one that could not be read. Where nothing is defined, or a
verdict that the value depends on could not be read, a metric has no value: never 0 and never NaN.
The first four are those of Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented
Generation", EACL 2024, with context precision and recall as the library of that name has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from localrag.evaluation.judging.judgements import Judged, Judgement, Verdict
from localrag.evaluation.metric import Case, Missing, Need, Workload, metric
from localrag.rag.citations import cited_sentences as sentences_with_markers
from localrag.rag.citations import without_markers

if TYPE_CHECKING:
    from localrag.evaluation.judging.judge import Judge
    from localrag.languages import LanguageCode
    from localrag.models.embeddings.base import Embedder


def share(verdicts: Sequence[Verdict]) -> float | Missing:
    """How many of the verdicts are yes: |yes| / |all|."""
    return _defined(verdicts) or sum(map(bool, verdicts)) / len(verdicts)


def average_precision(useful: Sequence[Verdict]) -> float | Missing:
    """Mean over the useful contexts of the precision at their rank; the best context is first.

    CP@K = sum over k of (precision@k x v_k) / sum over k of v_k, with precision@k the share of
    useful contexts among the first k, and v_k 1 for a useful context at rank k, else 0. No useful
    context among some is 0.
    """
    precisions: list[float] = []
    for rank, verdict in enumerate(useful, start=1):
        if verdict:
            precisions.append((len(precisions) + 1) / rank)
    return _defined(useful) or (sum(precisions) / len(precisions) if precisions else 0.0)


def mean_relevancy(cosines: Sequence[float], noncommittal: Verdict) -> float | Missing:
    """Mean cosine of the question with n questions that the answer would answer.

    AR = 1/n x sum over i of cos(q, q_i); 0 for an answer that evades. Whether it does is a
    property of the answer: one flag for all questions.
    """
    if missing := _defined(cosines, noncommittal):
        return missing
    return 0.0 if noncommittal else sum(cosines) / len(cosines)


# Tokens of the judge's prompts beside the text they are about, counted with the starter model.
_STATEMENT, _REWRITE, _USEFUL, _EVASIVE, _ASKED = 80, 260, 190, 170, 210
# Tokens that it writes.
_REWRITTEN, _QUESTIONS, _REASON = 45, 70, 30
_REWRITE_SHARE, _AGAINST_SHARE = 0.6, 0.3
"""Of all statements: made by the model rather than taken as they are; found not supported."""


def _judging(statements: int, work: Workload) -> tuple[float, float]:
    """Making statements and asking about each; that the passages are read is paid elsewhere."""
    against = statements * _AGAINST_SHARE if work.reasons else 0.0
    rewritten = statements * _REWRITE_SHARE
    read = (statements + against) * _STATEMENT + rewritten * _REWRITE
    return read, rewritten * _REWRITTEN + against * _REASON


def _of_answer(work: Workload) -> tuple[float, float]:
    read, written = _judging(work.statements, work)
    return work.tokens + read, written


def _of_contexts(work: Workload) -> tuple[float, float]:
    prompt_tokens = work.passages * work.references * _USEFUL
    return (work.tokens + prompt_tokens if work.references else 0.0), 0.0


def _of_citations(work: Workload) -> tuple[float, float]:
    return work.statements * (_STATEMENT + work.tokens / max(work.passages, 1)), 0.0


_ANSWER: tuple[Need, ...] = ("judge", "contexts", "answer")
_REFERENCE: tuple[Need, ...] = ("judge", "contexts", "reference", "answerable")


@metric(*_ANSWER, cost=_of_answer, trusted_as="faithfulness")
def faithfulness(case: Case) -> float | Missing:
    """Statements of the answer that the contexts bear out / all statements of the answer."""
    case.evidence.statements = _statements(case, case.response.answer)
    return share(_verdicts(case.evidence.statements))


@metric(*_REFERENCE, cost=lambda work: _judging(work.references, work), trusted_as="context_recall")
def context_recall(case: Case) -> float | Missing:
    """Statements of the reference that the contexts bear out / all statements of the reference."""
    case.evidence.reference = _statements(case, case.sample.reference)
    return share(_verdicts(case.evidence.reference))


@metric(*_REFERENCE, cost=_of_contexts, trusted_as="context_precision")
def context_precision(case: Case) -> float | Missing:
    """Average precision of the contexts' order: the useful ones should come first."""
    reference, language = case.sample.reference, case.language
    case.evidence.contexts = tuple(
        Judged(text, case.judge.useful(reference, text, language)) for text in case.texts
    )
    return average_precision(_verdicts(case.evidence.contexts))


@metric(
    "judge",
    "embedder",
    "answerable",
    cost=lambda _: (_EVASIVE + _ASKED, _QUESTIONS),
    trusted_as="answer_relevancy",
)
def answer_relevancy(case: Case) -> float | Missing:
    """How near the question is to those that the answer would answer."""
    evidence, language = case.evidence, case.language
    if case.refused:
        # It says itself that it does not answer; nothing needs to be asked.
        evidence.evasive = Judgement(True)
        return 0.0
    plain = without_markers(case.response.answer).strip()
    evidence.evasive = case.judge.evasive(plain, language)
    questions = asked_back(case.judge, case.embedder, case.sample.question, plain, language)
    if questions is None:
        return "unreadable"
    evidence.asked = questions
    return mean_relevancy([cosine for _, cosine in questions], evidence.evasive.verdict)


def asked_back(
    judge: Judge, embedder: Embedder, question: str, answer: str, language: LanguageCode
) -> tuple[tuple[str, float], ...] | None:
    """Questions that the answer would answer, each with its cosine to the one that was asked.

    None where they could not be read.
    """
    questions = judge.questions(answer, language)
    if questions is None:
        return None
    vectors = embedder.embed_queries([question, *questions])
    return tuple(zip(questions, (vectors[1:] @ vectors[0]).tolist(), strict=True))


@metric(*_ANSWER, cost=_of_citations, trusted_as="faithfulness")
def citation_precision(case: Case) -> float | Missing:
    """Citations whose passage, by itself, bears out the sentence they stand at / all citations.

    After Gao et al., "Enabling Large Language Models to Generate Text with Citations", EMNLP
    2023, without their allowance for passages that only together bear a sentence out.
    """
    _judge_citations(case)
    return share(_verdicts(case.evidence.citations))


@metric(*_ANSWER, cost=_of_citations, trusted_as="faithfulness")
def citation_recall(case: Case) -> float | Missing:
    """Sentences borne out by the passages that they cite, taken together / all sentences.

    A sentence without a citation is not. Undefined for an answer that cites nothing. Gao et al.,
    EMNLP 2023.
    """
    return share(_judge_citations(case))


def cited_sentences(answer: str, contexts: int) -> list[tuple[str, list[int]]]:
    """Each sentence of an answer without its markers, and the contexts that they point to."""
    return [
        (sentence, [m for m in dict.fromkeys(markers) if 1 <= m <= contexts])
        for sentence, markers in sentences_with_markers(answer)
    ]


def _judge_citations(case: Case) -> Sequence[Verdict]:
    """Whether each sentence is borne out: the judge's verdict, not that of the citation check."""
    evidence, judge, texts, language = case.evidence, case.judge, case.texts, case.language
    if evidence.cited is not None:
        return evidence.cited
    cited = cited_sentences(case.response.answer, len(texts))
    if not any(markers for _, markers in cited):
        cited = []
    citations: list[Judged] = []
    sentences: list[Verdict] = []
    for sentence, markers in cited:
        single = [judge.supported([texts[m - 1]], [sentence], language)[0] for m in markers]
        citations += [
            Judged(f"{sentence} [{marker}]", judgement)
            for marker, judgement in zip(markers, single, strict=True)
        ]
        verdicts = [judgement.verdict for judgement in single]
        together: Verdict = any(verdicts)
        if not together and len(markers) > 1:
            several = [texts[marker - 1] for marker in markers]
            together = judge.supported(several, [sentence], language)[0].verdict
        elif not together and None in verdicts:
            together = None
        sentences.append(together)
    evidence.citations, evidence.cited = tuple(citations), tuple(sentences)
    return sentences


def _statements(case: Case, text: str) -> tuple[Judged, ...]:
    """The statements of a text, and whether the contexts bear them out."""
    statements = case.judge.statements(case.sample.question, text, case.language)
    judgements = case.judge.supported(case.texts, statements, case.language)
    return tuple(map(Judged, statements, judgements))


def _verdicts(judged: Sequence[Judged]) -> list[Verdict]:
    return [statement.judgement.verdict for statement in judged]


def _defined(values: Sequence[object], *others: object) -> Missing | None:
    """Why a value over these cannot be had, if so."""
    if not values:
        return "undefined"
    return "unreadable" if None in (*values, *others) else None


METRICS = (
    *(faithfulness, answer_relevancy, context_recall),
    *(context_precision, citation_precision, citation_recall),
)
