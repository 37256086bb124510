"""What a small collection cannot know of its words: how common they are in texts at large.

A question in spoken words says "look", "quick" or 怎么办 where the documents of a firm hardly do,
so that by their own counts these words tell as much as the name of a contract. A count among N
passages is therefore smoothed by those that were to be expected of passages from anywhere, as with
a Dirichlet prior (Zhai and Lafferty, "A study of smoothing methods for language models", TOIS
2004): among a million passages it changes nothing.
"""

from __future__ import annotations

import math
from functools import cache
from importlib.resources import files

PASSAGES = 300
"""How many passages from anywhere count beside those that there are. 200 to 10,000 find about the
same on spoken questions; from 500 on questions in the words of their passages lose .002."""
LENGTH = 60
"""Terms of a passage."""


def smoothed(term: str, count: int, total: int) -> tuple[float, float]:
    """Of how many passages how many have a term, where `count` of `total` have it here."""
    share = 1.0 - (1.0 - _frequencies().get(term, 0.0)) ** LENGTH
    return count + PASSAGES * share, float(total + PASSAGES)


def idf(term: str, count: int, total: int) -> float:
    """The information of a term, in nats, 0 or more: ln(1 + (N - n + 0.5) / (n + 0.5)).

    As Lucene has it, of the smoothed counts.
    """
    smooth, every = smoothed(term, count, total)
    return math.log(1 + (every - smooth + 0.5) / (smooth + 0.5))


@cache
def _frequencies() -> dict[str, float]:
    """The share that a common term has of all words; made by `scripts/word_frequencies.py`."""
    lines = files("localrag.text").joinpath("word_frequencies.txt").read_text("utf-8").splitlines()
    listed = (line.split() for line in lines if not line.startswith("#"))
    return {term: 10 ** (float(value) - 9) for value, *terms in listed for term in terms}
