"""Reranking by a linear model of what question and passage have in common, learnt for Chinese.

Ten figures of each passage are weighed and summed; none of them takes a model. The weights were
fitted by `benchmarks/learned_reranker.py` with the listwise softmax loss (Cao et al., "Learning to
Rank: From Pairwise Approach to Listwise Approach", ICML 2007). Where a search sees a bag of words,
this sees whether they stand in one sentence, in long unbroken pieces, and at the beginning, where
a passage says what it is about.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from localrag.documents.chunking import HEADING_SEPARATOR, passage_text
from localrag.languages.zh import CHINESE
from localrag.rerankers.base import Tell, best, search_shares, unheard
from localrag.text.language import detect
from localrag.text.normalize import fold
from localrag.text.sentences import split_sentences
from localrag.types import Note, ScoredChunk

Tokenize = Callable[[str], list[str]]

_SERVED = (CHINESE.code, "mixed")
"""The languages of texts that the weights were fitted on."""

WEIGHTS = {
    "search": 1.7,
    "dense": 1.35,
    "sentence": 3.47,
    "pieces": 3.4,
    "pieces of the sentence": 2.31,
    "opening": 1.37,
    "title": 1.13,
    "kind": 0.78,
    "figures": -0.87,
    "length": 0.18,
}
"""What each figure of `features` counts."""

_OPENING = 40
"""Code points in which a passage says what it is about: its heading, or its first words."""
_LONGEST_TITLE = 20
_LONGEST_QUESTION = 300

_RUN = re.compile(r"[^\W_]{2,}")
_NUMBER = re.compile(r"\d+(?:\.\d+)*")
_TITLE = re.compile(rf"[^\s(,.:。]{{2,{_LONGEST_TITLE}}}(?=[\s(,.:。]|$)")
_ASKING = re.compile(
    "为什么|什么时候|什么样|什么|多少|多大|多长|多高|多久|多远|何时|何地|何处|哪里|哪儿|哪些|哪个|哪位"
    "|哪种|哪年|哪一|哪|怎么样|怎么|怎样|如何|谁|几个|几|吗|呢|请问|是否|是|的|了|在|被|由|于|和|与|有"
    "|为|属于|位于|叫做|叫"
)
"""What asks, and the grammar around it: no passage needs to hold it."""
_KINDS = (
    (
        re.compile("什么时候|何时|哪一?年|几年|哪天|几月|几号|日期|什么时间|哪个世纪"),
        re.compile(r"\d{3,4} *年|\d{1,2} *[月日]|[〇零一二三四五六七八九]{4}年|世纪"),
    ),
    (
        re.compile("多少|几|多大|多长|多高|多远|多久|多重"),
        re.compile(
            r"\d+(?:[.,]\d+)*|[零一二两三四五六七八九十百千万亿]+(?=[个名人年月日次座条种公里米吨元岁倍%])"
        ),
    ),
)
"""What asks for a date or a number, and what those look like."""


class LearnedReranker:
    """Puts the Chinese passages for a Chinese question into the order of a linear model.

    A score is the chance that the passage is the one with the answer, if one of those given is.
    Passages in another language share no words with the question, which says nothing against
    them: they keep their places. Where all are in another language, or the question is, the order
    of the search stays, and `tell` hears so.
    """

    def __init__(self, tokenize: Tokenize) -> None:
        self._tokenize = tokenize

    def rerank(
        self, query: str, chunks: Sequence[ScoredChunk], k: int, tell: Tell = unheard
    ) -> list[ScoredChunk]:
        """At most k of `chunks`, best first; ties by chunk id."""
        query_language, languages = detect(query), [detect(hit.chunk.text) for hit in chunks]
        served = [language in _SERVED for language in languages]
        if chunks and (query_language not in _SERVED or not any(served)):
            unserved = languages[0] if query_language in _SERVED else query_language
            tell(Note("language not served", {"reranker": "learned", "language": unserved}))
            return list(chunks[:k])
        readable = [hit for hit, serves in zip(chunks, served, strict=True) if serves]
        values = features(query, readable, self._tokenize) @ np.array([*WEIGHTS.values()])
        chances = np.exp(values - values.max(initial=0.0))
        ranked = iter(best(readable, chances / chances.sum(), len(readable)))
        order = [next(ranked) if own else hit for hit, own in zip(chunks, served, strict=True)]
        return _keeping_places(order, served)[:k]


def _keeping_places(order: Sequence[ScoredChunk], scored: Sequence[bool]) -> list[ScoredChunk]:
    """The same order; chunks not `scored` get a score between those of their neighbours."""
    result: list[ScoredChunk] = []
    above = 1.0
    for place, hit in enumerate(order):
        if not scored[place]:
            rest = zip(order[place:], scored[place:], strict=True)
            below = next((other.score for other, has_score in rest if has_score), 0.0)
            hit = replace(hit, score=(above + below) / 2)
        above = hit.score
        result.append(hit)
    return result


def features(
    question: str, chunks: Sequence[ScoredChunk], tokenize: Tokenize
) -> NDArray[np.float64]:
    """What a question has in common with each of the passages found for it.

    Shape (chunks, features), in the order of `WEIGHTS`. Words and pairs of characters weigh by
    their idf among these passages.
    """
    folded_question = fold(question[:_LONGEST_QUESTION])
    content = _RUN.findall(_ASKING.sub(" ", folded_question))
    pairs = {run[start : start + 2] for run in content for start in range(len(run) - 1)}
    numbers = set(_NUMBER.findall(folded_question))
    sought = [answer for asks, answer in _KINDS if asks.search(folded_question)]
    passages = [_Passage(passage_text(hit.chunk), tokenize) for hit in chunks]
    words = _idf(set(tokenize(folded_question)), [passage.words for passage in passages])
    rare_pairs = _idf(pairs, [passage.text for passage in passages])
    rows = []
    for passage, share, near in zip(
        passages, search_shares(chunks), _nearness(chunks), strict=True
    ):
        shares = [_weighted_share(words, sentence) for sentence in passage.words_by_sentence]
        place = shares.index(max(shares))
        rows.append(
            (
                math.log(share + 0.01),
                near,
                shares[place],
                _pieces(content, passage.text),
                _pieces(content, passage.sentences[place]),
                _weighted_share(rare_pairs, passage.opening),
                float(passage.title in folded_question),
                _answers(sought, "".join(passage.sentences[place : place + 2]), folded_question),
                float(not numbers <= set(_NUMBER.findall(passage.text))),
                math.log(len(passage.text) + 1),
            )
        )
    return np.array(rows, dtype=np.float64).reshape(len(rows), len(WEIGHTS))


class _Passage:
    """A passage as it is compared: folded, in sentences, in words."""

    def __init__(self, text: str, tokenize: Tokenize) -> None:
        self.text = fold(text)
        self.sentences = [fold(text[start:end]) for start, end in split_sentences(text)] or [""]
        self.words_by_sentence = [frozenset(tokenize(sentence)) for sentence in self.sentences]
        self.words = frozenset().union(*self.words_by_sentence)
        # Of a path of headings the last: those above it stand over other passages, too.
        start = text.split("\n", 1)[0].rfind(HEADING_SEPARATOR)
        beginning = self.text if start < 0 else fold(text[start + len(HEADING_SEPARATOR) :])
        self.opening = beginning[:_OPENING]
        title = _TITLE.match(beginning)
        self.title = title[0] if title else "\0"  # which no question holds


def _idf(parts: Collection[str], passages: Sequence[Container[str]]) -> dict[str, float]:
    """ln(1 + (N - n + 0.5) / (n + 0.5)) for each part that n of the N passages hold."""
    total = len(passages)
    counts = {part: sum(part in passage for passage in passages) for part in parts}
    return {part: math.log(1 + (total - n + 0.5) / (n + 0.5)) for part, n in counts.items()}


def _weighted_share(weights: Mapping[str, float], text: Container[str]) -> float:
    """The share of these parts, by their weights, that the text holds."""
    if not weights:
        return 0.0
    return sum(weight for part, weight in weights.items() if part in text) / sum(weights.values())


def _pieces(runs: Sequence[str], text: str) -> float:
    """How much of the runs stands in the text in long pieces, 0 to 1.

    Each run is cut, from its beginning, into the longest pieces that the text holds; a piece
    counts by its length to the power 1.5, so that one of eight characters outweighs four of two.
    """
    total = 0.0
    for run in runs:
        start = 0
        while start < len(run) - 1:
            end = start + 1
            while end < len(run) and run[start : end + 1] in text:
                end += 1
            if end - start > 1:
                total += (end - start) ** 1.5
            start = end
    whole: float = sum(map(len, runs)) ** 1.5
    return total / whole if whole else 0.0


def _nearness(chunks: Sequence[ScoredChunk]) -> list[float]:
    """Where each passage lies between the least and the most similar one, by the dense leg.

    0 for those that it has not found: neither scale nor offset of its scores matters.
    """
    scores = [{rank.leg: rank.score for rank in hit.ranks}.get("dense") for hit in chunks]
    known = [score for score in scores if score is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [
        0.0 if score is None or high == low else (score - low) / (high - low) for score in scores
    ]


def _answers(sought: Sequence[re.Pattern[str]], text: str, question: str) -> float:
    """1 where the text has a date or number beyond those asked with, 0 where not, else a half."""
    if not sought:
        return 0.5
    return float(all(any(it not in question for it in kind.findall(text)) for kind in sought))
