"""Metrics of an answer that need no judge: exact match, F1, refusals, pages found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher
from functools import partial
from pathlib import PurePath

from localrag.evaluation.metric import Case, Metric, Missing, metric
from localrag.evaluation.tokens import tokens
from localrag.languages import is_spaced
from localrag.text.language import detect


def exact_match(answer: str, reference: str) -> float:
    """1.0 where both have the same tokens in the same order, else 0.0.

    Rajpurkar et al., "SQuAD", EMNLP 2016; Chinese as in Cui et al., "A Span-Extraction Dataset
    for Chinese Machine Reading Comprehension" (CMRC 2018), EMNLP 2019.
    """
    return float(tokens(answer) == tokens(reference))


def f1(answer: str, reference: str) -> float:
    """Harmonic mean of precision and recall over tokens: 2PR / (P + R).

    English by words (SQuAD). Chinese by character and by the longest common run, as CMRC 2018
    has it: P and R are its length over the answer's and the reference's.
    """
    answer_tokens, reference_tokens = tokens(answer), tokens(reference)
    if not answer_tokens or not reference_tokens:
        return float(answer_tokens == reference_tokens)
    if is_spaced(detect(reference)):
        common = sum((Counter(answer_tokens) & Counter(reference_tokens)).values())
    else:
        common = (
            SequenceMatcher(None, answer_tokens, reference_tokens, autojunk=False)
            .find_longest_match()
            .size
        )
    return 2 * common / (len(answer_tokens) + len(reference_tokens))


def _name(source: str) -> str:
    return PurePath(source.replace("\\", "/")).name


def _best(compare: Callable[[str, str], float], case: Case) -> float:
    """Over all reference answers, as SQuAD and CMRC 2018 have it."""
    return max(compare(case.response.answer, reference) for reference in case.sample.references)


@metric("answerability")
def refusal(case: Case) -> float:
    """Whether an answer was given where there is one, and refused where there is none."""
    return float(case.refused != case.sample.answerable)


@metric("contexts", "answerable", formerly="page_rank")
def page_reciprocal_rank(case: Case) -> float | Missing:
    """1 / rank of the first context from the page that holds the answer, 0 where none is.

    Files are compared by name. Where no page is known any page of the file will do. Undefined
    where the contexts do not say where they come from.
    """
    contexts, sample = case.response.contexts or (), case.sample
    if not sample.source or not any(context.source for context in contexts):
        return "undefined"
    for rank, context in enumerate(contexts, start=1):
        same = _name(context.source) == _name(sample.source)
        if same and (sample.page is None or context.first_page <= sample.page <= context.last_page):
            return 1.0 / rank
    return 0.0


METRICS = (
    Metric("exact_match", ("reference", "answerable"), partial(_best, exact_match)),
    Metric("f1", ("reference", "answerable"), partial(_best, f1)),
    *(refusal, page_reciprocal_rank),
)
