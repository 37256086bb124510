"""The metrics that rest on a judge's verdicts, as pure functions over them.

A verdict is True or False; None is one that could not be read. Where nothing is defined, or a
verdict that the value depends on could not be read, a metric is None: never 0 and never NaN.
The first four are those of Es et al., "RAGAS: Automated Evaluation of Retrieval Augmented
Generation", EACL 2024, with context precision and recall as the library of that name has them.
"""

from __future__ import annotations

from collections.abc import Sequence

Verdict = bool | None


def faithfulness(supported: Sequence[Verdict]) -> float | None:
    """Statements of the answer that the contexts bear out / all statements of the answer.

    F = |S supported| / |S|. None without statements or with an unread verdict.
    """
    return _share(supported)


def context_recall(attributable: Sequence[Verdict]) -> float | None:
    """Statements of the reference that the contexts bear out / all statements of the reference.

    None without statements or with an unread verdict.
    """
    return _share(attributable)


def context_precision(useful: Sequence[Verdict]) -> float | None:
    """Mean over the useful contexts of the precision at their rank; the best context is first.

    CP@K = sum over k of (precision@k x v_k) / sum over k of v_k, with precision@k the share of
    useful contexts among the first k, and v_k 1 for a useful context at rank k, else 0. No useful
    context among some is 0. None without contexts or with an unread verdict: every later rank
    depends on it.
    """
    if not useful or None in useful:
        return None
    precisions: list[float] = []
    for rank, verdict in enumerate(useful, start=1):
        if verdict:
            precisions.append((len(precisions) + 1) / rank)
    return sum(precisions) / len(precisions) if precisions else 0.0


def answer_relevancy(cosines: Sequence[float], noncommittal: Sequence[Verdict]) -> float | None:
    """Mean cosine of the question with n questions that the answer would answer.

    AR = 1/n x sum over i of cos(q, q_i) x (1 - noncommittal_i): an answer that evades the i-th
    question does not count as relevant to it. None without questions or with an unread flag.
    """
    if not cosines or None in noncommittal:
        return None
    counted = [
        0.0 if evasive else cosine for cosine, evasive in zip(cosines, noncommittal, strict=True)
    ]
    return sum(counted) / len(counted)


def citation_precision(citations: Sequence[Verdict]) -> float | None:
    """Citations whose passage, by itself, bears out the sentence they stand at / all citations.

    None without citations or with an unread verdict. After Gao et al., "Enabling Large Language
    Models to Generate Text with Citations", EMNLP 2023, without their allowance for passages
    that only together bear a sentence out.
    """
    return _share(citations)


def citation_recall(sentences: Sequence[Verdict]) -> float | None:
    """Sentences borne out by the passages that they cite, taken together / all sentences.

    A sentence without a citation is False. None without sentences or with an unread verdict.
    Gao et al., EMNLP 2023.
    """
    return _share(sentences)


def _share(verdicts: Sequence[Verdict]) -> float | None:
    if not verdicts or None in verdicts:
        return None
    return sum(1 for verdict in verdicts if verdict) / len(verdicts)
