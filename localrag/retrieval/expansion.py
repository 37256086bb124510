"""Retrieval helped by a language model: other wordings of a question, or a made-up answer.

Both cost a call of the model before anything is searched, so both are off by default.
Where the model fails or writes nothing of use, the plain question is searched and the
step that is told says so: an answer must not fail because a help did.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from localrag.errors import GenerationError
from localrag.languages import LANGUAGES, LanguageCode
from localrag.library.indexes.base import VectorSearch
from localrag.models.embeddings.base import Embedder
from localrag.models.llms.base import LLM, Options
from localrag.models.llms.structured import object_schema
from localrag.prompts import render
from localrag.retrieval.base import Retriever
from localrag.retrieval.fusion import reciprocal_rank_fusion
from localrag.text.language import answer_language
from localrag.types import Hit, LegRank, Message, Plain, Step

Tell = Callable[[Step], None]
"""Told what was searched instead of the question, and what it cost."""

OVERFETCH = 3
"""Each query is asked for so many times k: fusion can only lift what was found."""

ORIGINAL_WEIGHT = 2.0
"""The person's own words count as much as two of the model's."""

RRF_K = 60
MOST_REWRITINGS = 3
LONGEST_QUESTION = 300
"""Code points of a rewriting: what is longer is an answer or a runaway."""

_BULLET = re.compile(r"^\s*(?:[-*•]|\(?\d+[.)、：:]|（\d+）)\s*")
_QUOTES = "\"'“”‘’「」` ,\t"


class MultiQueryRetriever:
    """Searches for the question and three rewritings of it, and fuses what they find.

    The question in other words, its keywords, and the question in the other language.
    Reciprocal rank fusion, the question itself with double weight. Scores are scaled so
    that a chunk that is first for every query has 1.
    """

    def __init__(self, retriever: Retriever, llm: LLM, tell: Tell) -> None:
        self._retriever = retriever
        self._llm = llm
        self._tell = tell

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k fused hits; `ranks` has the legs of the question, then each rewriting."""
        others = rewritings(query, self._llm, self._tell)
        if not others:
            return self._retriever.retrieve(query, k)
        runs = [self._retriever.retrieve(variant, OVERFETCH * k) for variant in (query, *others)]
        weights = [ORIGINAL_WEIGHT] + [1.0] * len(others)
        ranks: dict[int, tuple[LegRank, ...]] = {hit.chunk_id: hit.ranks for hit in runs[0]}
        for number, run in enumerate(runs[1:], start=1):
            for rank, hit in enumerate(run, start=1):
                leg_rank = LegRank(f"rewriting {number}", rank, hit.score)
                ranks[hit.chunk_id] = (*ranks.get(hit.chunk_id, ()), leg_rank)
        fused = reciprocal_rank_fusion(runs, k=RRF_K, weights=weights)
        scale = (RRF_K + 1) / sum(weights)
        return [
            replace(hit, score=hit.score * scale, ranks=ranks[hit.chunk_id]) for hit in fused[:k]
        ]


def rewritings(question: str, llm: LLM, tell: Tell) -> list[str]:
    """The question in other words, its keywords, and the question in the other language.

    None where the model fails, which is told.
    """
    language = answer_language(question)
    # Asked for three wordings of one kind, small models write one three times.
    kinds = LANGUAGES[language].words.rewritings
    schema = object_schema(**{kind: {"type": "string"} for kind in kinds})
    prompt = render("multi_query", language, question=question)
    options = Options(max_tokens=80 * len(kinds), schema=schema)
    with _expand_step(tell) as values:
        reply = llm.complete([Message("user", prompt)], options).text
        others = read_queries(reply, question)
        values["queries"] = tuple(others)
        return others
    return []


class HydeRetriever:
    """Dense retrieval by a passage that the model makes up to answer the question.

    Gao, Ma, Lin and Callan, "Precise Zero-Shot Dense Retrieval without Relevance
    Labels", ACL 2023: the passage is embedded as a document, and the mean of its vector
    and the question's is searched. What it claims does not matter, only its neighbours.
    """

    def __init__(self, embedder: Embedder, vectors: VectorSearch, llm: LLM, tell: Tell) -> None:
        self._embedder = embedder
        self._vectors = vectors
        self._llm = llm
        self._tell = tell

    def retrieve(self, query: str, k: int) -> list[Hit]:
        """At most k hits by cosine with the mean vector, best first."""
        vector = self._embedder.embed_queries([query])[0]
        if passage := self._passage(query):
            vector = vector + self._embedder.embed_documents([passage])[0]
            vector = vector / np.linalg.norm(vector)
        return self._vectors.search(vector, k)

    def _passage(self, question: str) -> str:
        language: LanguageCode = answer_language(question)
        prompt = render("hyde", language, question=question)
        with _expand_step(self._tell) as values:
            reply = self._llm.complete([Message("user", prompt)], Options(max_tokens=120)).text
            passage = values["passage"] = " ".join(reply.split())
            return passage
        return ""


@contextmanager
def _expand_step(tell: Tell) -> Iterator[dict[str, Plain]]:
    """Tell what the block puts into the values, or why the model failed, which ends the block."""
    values: dict[str, Plain] = {}
    started = time.perf_counter()
    try:
        yield values
    except GenerationError as error:
        values["failed"] = str(error)
    tell(Step("expand", values, None, time.perf_counter() - started))


def read_queries(reply: str, question: str) -> list[str]:
    """The queries in a model's reply, at most three, as JSON or as lines.

    Left out: repetitions, the question itself, and what is too long to be a query.
    """
    seen = {_key(question)}
    queries: list[str] = []
    for line in _query_lines(reply):
        text = " ".join(_BULLET.sub("", line).strip(_QUOTES).split())
        if text and len(text) <= LONGEST_QUESTION and _key(text) not in seen:
            seen.add(_key(text))
            queries.append(text)
    return queries[:MOST_REWRITINGS]


def _query_lines(reply: str) -> Sequence[str]:
    start, end = reply.find("{"), reply.rfind("}")
    if start < 0:
        return [line for line in reply.splitlines() if "?" in line or "？" in line]
    try:
        fields = json.loads(reply[start : end + 1])
    except (ValueError, RecursionError):  # cut off, or too deep: what stands whole is of use
        return re.findall(r':\s*"([^"\\]+)"', reply)
    values: list[object] = list(fields.values())
    return [
        entry
        for value in values
        for entry in (value if isinstance(value, list) else [value])
        if isinstance(entry, str)
    ]


def _key(text: str) -> str:
    return re.sub(r"\W+", "", text).casefold()
