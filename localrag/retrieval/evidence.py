"""The default fusion: each leg's vote is worth what its own scores say, and what the words say.

Three pieces of evidence, all there at query time, none trained:

- Scores. A leg's score becomes its surprisal: how far it stands out from the leg's own list.
- Words. The more of the question the best keyword passage holds, the less is left for the dense
  leg to decide.
- Language. Keywords know nothing about passages in another language than the question's, and an
  embedding model knows little about questions in a language that it was not made for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

from localrag.library.indexes.base import TermStatistics
from localrag.text.background import PASSAGES, idf
from localrag.text.language import detect
from localrag.types import Hit

WINDOW = 100
"""Hits of a leg that are its background. Each leg fetches at least as many, so that the first
results do not depend on how many were asked for."""

LANGUAGE_DEPTH = 30
"""Hits of each leg whose language is looked at: below them surprisals are near 0 anyway."""

LANGUAGE_SAMPLE = 300
"""Code points of a passage that tell its language."""

UNSERVED_TRUST = 0.1
"""What the dense leg's vote is worth in a language that its model was not made for: enough to
order passages about which the keyword leg says nothing."""

Texts = Callable[[Sequence[int]], Mapping[int, str]]
"""Chunk ids -> their texts as they were indexed; those that are gone are left out."""


def surprisals(run: Sequence[Hit], *, unseen: float | None = None) -> dict[int, float]:
    """How unlikely each score would be for a background passage: -ln p, in nats, 0 or more.

    High scores of passages that have nothing to do with the question fall off about
    exponentially (Manmatha, Rath and Feng, "Modeling score distributions for combining the
    outputs of search engines", SIGIR 2001). For such a tail, p(score > s) = exp(-(s - reference)
    / mean excess), both taken from the first `WINDOW` hits themselves: the reference is the last
    of them, or `unseen`, the score of whatever a shorter list does not hold. So the mean is 1
    by construction, and neither scale nor offset of the scores matters. Hits that all score the
    same have 1 each; hits below the window have 0.
    """
    window = [hit.score for hit in run[:WINDOW]]
    if not window:
        return {}
    reference = window[-1] if unseen is None or len(window) == WINDOW else unseen
    excess = sum(window) / len(window) - reference
    if excess <= 0:
        return {hit.chunk_id: 1.0 for hit in run[:WINDOW]}
    return {hit.chunk_id: max(hit.score - reference, 0.0) / excess for hit in run}


def keyword_confidence(
    terms: Collection[str], words: Collection[str], passages: int, frequencies: Mapping[str, int]
) -> float:
    """How much a passage's words settle a question by themselves, in [0, 1].

    The geometric mean of two shares. One is the share of the question's information that the
    passage holds, the information of a term being its idf (`text.background`).
    The other is I / (I + ln N) for the information I that it holds: it takes ln N to single out
    one of N passages, those from anywhere that count among them, so the best of N holds about that
    by chance. `frequencies` says in how many of the `passages` each of `terms` occurs.
    """
    information = {term: idf(term, frequencies[term], passages) for term in terms}
    shared = sum(information[term] for term in terms if term in words)
    if shared <= 0:
        return 0.0
    coverage = shared / sum(information.values())
    beyond_chance = shared / (shared + math.log(passages + PASSAGES))
    return math.sqrt(coverage * beyond_chance)


def evidence_fusion(
    dense: Sequence[Hit],
    keyword: Sequence[Hit],
    *,
    confidence: float,
    beyond_words: Collection[int] = (),
    trust: float = 1.0,
) -> list[Hit]:
    """Sum of surprisals: the keyword leg's, and the dense leg's as far as words leave it open.

    Adding -ln p is Fisher's way of combining independent tests ("Statistical Methods for
    Research Workers", 1932, section 21.1). The dense leg's part is multiplied by 1 - `confidence`
    and by `trust`.

    About the chunks `beyond_words` the keyword leg has no opinion, which is not a low one, so
    theirs is filled in. Their keyword surprisal rises towards that of the best passage it could
    read, by s / best s for their own dense surprisal s, times 1 - `confidence` x ln `WINDOW` / (s
    + ln `WINDOW`): the more the words settle, the further must a chunk stand out beyond what the
    best of a background does by chance.

    Scores are divided by the best. A leg that found nothing adds nothing; all-equal and negative
    scores need no care. Hits below both windows follow in the order of their best rank.
    """
    scores = surprisals(keyword, unseen=0.0)
    read = [hit.chunk_id for hit in keyword[:LANGUAGE_DEPTH] if hit.chunk_id not in beyond_words]
    best_words = max((scores[chunk_id] for chunk_id in read), default=0.0)
    outstanding = surprisals(dense)
    best_dense = max(outstanding.values(), default=0.0)
    for chunk_id, surprisal in outstanding.items():
        words = scores.get(chunk_id, 0.0)
        if chunk_id in beyond_words and words < best_words and best_dense:
            chance = math.log(WINDOW) / (surprisal + math.log(WINDOW))
            share = surprisal / best_dense * (1 - confidence * chance)
            words += trust * share * (best_words - words)
        scores[chunk_id] = words + trust * (1 - confidence) * surprisal
    ranks: dict[int, int] = {}
    for run in (dense, keyword):
        for rank, hit in enumerate(run):
            ranks[hit.chunk_id] = min(rank, ranks.get(hit.chunk_id, rank))
    best = max(scores.values(), default=0.0) or 1.0
    order = sorted(
        scores.items(), key=lambda item: (-item[1], 0 if item[1] else ranks[item[0]], item[0])
    )
    return [Hit(chunk_id, score / best) for chunk_id, score in order]


class EvidenceFusion:
    """Gathers the evidence about a question, then fuses: runs are (dense, keyword).

    `served` are the languages that the embedding model was made for; empty where nobody knows.
    """

    def __init__(
        self,
        tokenize: Callable[[str], list[str]],
        statistics: TermStatistics,
        texts: Texts,
        served: Collection[str] = (),
    ) -> None:
        self._tokenize = tokenize
        self._statistics = statistics
        self._texts = texts
        self._served = frozenset(served)

    def __call__(self, question: str, runs: Sequence[Sequence[Hit]]) -> list[Hit]:
        """One ranked list, best first."""
        dense, keyword = runs
        language = detect(question)
        # All at once: a server takes its time by how often it is asked.
        first = _first_ids(dense) if language != "mixed" else []
        texts = self._texts([keyword[0].chunk_id, *first]) if keyword else {}
        confidence = self._confidence(question, keyword, texts)
        beyond = frozenset[int]()
        if confidence:
            beyond = _in_other_languages(language, first, texts)
        if beyond:  # else there is nothing to fill in, and telling a language takes its time
            words = _first_ids(keyword)
            beyond |= _in_other_languages(language, words, self._texts(words))
        served = not self._served or language == "mixed" or language in self._served
        return evidence_fusion(
            dense,
            keyword,
            confidence=confidence,
            beyond_words=beyond,
            trust=1.0 if served else UNSERVED_TRUST,
        )

    def _confidence(self, question: str, keyword: Sequence[Hit], texts: Mapping[int, str]) -> float:
        if not keyword:
            return 0.0
        text = texts.get(keyword[0].chunk_id, "")
        terms = sorted(set(self._tokenize(question)))
        passages, counts = self._statistics.frequencies(terms)
        frequencies = dict(zip(terms, counts, strict=True))
        return keyword_confidence(terms, set(self._tokenize(text)), passages, frequencies)


def _first_ids(run: Sequence[Hit]) -> list[int]:
    return [hit.chunk_id for hit in run[:LANGUAGE_DEPTH]]


def _in_other_languages(
    language: str, ids: Sequence[int], texts: Mapping[int, str]
) -> frozenset[int]:
    return frozenset(
        id_
        for id_ in ids
        if id_ in texts and detect(texts[id_][:LANGUAGE_SAMPLE]) not in (language, "mixed")
    )
