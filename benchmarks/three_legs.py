"""A second embedding model as a third leg, measured against each of the two alone.

    python benchmarks/three_legs.py DATA

The multilingual starter embeds all passages, bge-small-en-v1.5 those in English, and is asked
English questions only, so nothing changes for Chinese ones. Four ways to make one dense vote of
two surprisals: their sum, their mean or the larger, each where a passage has both, and the second
model's `instead` of the first's. Differences with paired 95% bootstrap intervals.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np

from localrag import factory
from localrag.config.settings import STARTER_EMBEDDING, EmbeddingSettings, Settings
from localrag.evaluation.retrieval.beir import RetrievalSet, read_retrieval_set
from localrag.evaluation.retrieval.benchmark import NEVER, WholePassages, document_vectors
from localrag.evaluation.retrieval.metrics import ndcg
from localrag.library.indexes.faiss import FaissVectors, WithVectors
from localrag.models.registry.spec import catalogue
from localrag.retrieval.evidence import LANGUAGE_DEPTH, LANGUAGE_SAMPLE, WINDOW, EvidenceFusion
from localrag.retrieval.evidence import surprisals as surprisals_of
from localrag.retrieval.hybrid import KeywordRetriever
from localrag.text.language import detect
from localrag.text.tokenize import Tokenizer
from localrag.types import Hit

SECOND = "bge-small-en-v1.5-int8"
NAMES = ("xquad_en", "xquad_zh", "scifact")
HOW: dict[str, Callable[[float, float], float]] = {
    "sum": lambda first, second: first + second,
    "mean": lambda first, second: (first + second) / 2,
    "larger": max,
    "instead": lambda _, second: second,
}

tokenizer = Tokenizer()


@cache
def embedder(model: str):
    settings = Settings(embedding=EmbeddingSettings(model=model))
    return factory.make_embedder(settings, factory.make_models())


def three_legs(
    dense: Mapping[int, float],
    keyword: Sequence[Hit],
    confidence: float,
    beyond: Collection[int],
) -> list[int]:
    """`evidence_fusion`, with the surprisals of a dense vote made of two."""
    scores = surprisals_of(keyword, unseen=0.0)
    read = [hit.chunk_id for hit in keyword[:LANGUAGE_DEPTH] if hit.chunk_id not in beyond]
    best_words = max((scores[chunk] for chunk in read), default=0.0)
    best = max(dense.values(), default=0.0)
    for chunk, surprisal in dense.items():
        words = scores.get(chunk, 0.0)
        if chunk in beyond and words < best_words and best:
            chance = math.log(WINDOW) / (surprisal + math.log(WINDOW))
            words += surprisal / best * (1 - confidence * chance) * (best_words - words)
        scores[chunk] = words + (1 - confidence) * surprisal
    return sorted(scores, key=lambda chunk: (-scores[chunk], chunk))


def measure(dataset: RetrievalSet, vectors: Mapping[str, Mapping[str, np.ndarray]]) -> None:
    texts = list(dataset.corpus.values())
    rows = {model: np.array([known[text] for text in texts]) for model, known in vectors.items()}
    passages = WholePassages(dataset.corpus, rows[STARTER_EMBEDDING], factory.indexes_of(tokenizer))
    english = {n for n, text in enumerate(texts) if detect(text[:LANGUAGE_SAMPLE]) != "zh"}
    held = rows[SECOND].astype(np.float16).__getitem__
    everything, only_english = (WithVectors(FaissVectors(), held) for _ in range(2))
    everything.index.apply((), enumerate(rows[SECOND]), NEVER)
    only_english.index.apply((), [(n, rows[SECOND][n]) for n in sorted(english)], NEVER)
    keywords = KeywordRetriever(tokenizer, passages.keywords)

    def fusion(model: str) -> EvidenceFusion:
        served = catalogue().get(model).languages
        return EvidenceFusion(tokenizer, passages.keywords, passages.texts, served)

    first, second = fusion(STARTER_EMBEDDING), fusion(SECOND)
    asked = list(dataset.qrels)
    questions = [dataset.queries[query] for query in asked]
    queries = {model: embedder(model).embed_queries(questions) for model in rows}
    scores: dict[str, list[float]] = {}
    for place, (query, text) in enumerate(zip(asked, questions, strict=True)):
        run = keywords.retrieve(text, WINDOW)
        dense = passages.vectors.search(queries[STARTER_EMBEDDING][place], WINDOW)
        other = everything.search(queries[SECOND][place], WINDOW)
        ranked = {
            "starter": [hit.chunk_id for hit in first(text, (dense, run))],
            "bge": [hit.chunk_id for hit in second(text, (other, run))],
        }
        confidence = first._confidence(text, run)
        beyond = first._in_other_languages(detect(text), (dense, run)) if confidence else ()
        one = surprisals_of(dense)
        two = surprisals_of(only_english.search(queries[SECOND][place], WINDOW)) if english else {}
        for name, together in HOW.items():
            vote = {
                chunk: together(one.get(chunk, 0.0), two.get(chunk, 0.0))
                if chunk in english
                else one[chunk]
                for chunk in {*one, *two}
            }
            ranked[name] = three_legs(vote, run, confidence, beyond)
        for name, order in ranked.items():
            found = [passages.ids[chunk] for chunk in order[:10]]
            scores.setdefault(name, []).append(ndcg(found, dataset.qrels[query], k=10))
    print(f"\n{dataset.name} ({len(asked)} questions)")
    pick = np.random.default_rng(0).integers(len(asked), size=(2000, len(asked)))
    for name, values in scores.items():
        line = f"{name:8} {np.mean(values):.4f}"
        for base in ("starter", "bge"):
            gain = np.array(values) - np.array(scores[base])
            low, high = np.percentile(gain[pick].mean(axis=1), (2.5, 97.5))
            line += f"  to {base} {gain.mean():+.4f} [{low:+.4f}, {high:+.4f}]"
        print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    data: Path = parser.parse_args().data
    sets = {name: read_retrieval_set(data / name) for name in NAMES}
    vectors: dict[str, dict[str, np.ndarray]] = {STARTER_EMBEDDING: {}, SECOND: {}}
    for model, known in vectors.items():
        for dataset in sets.values():
            texts = list(dataset.corpus.values())
            folder = factory.cache_folder() / "bench"
            known.update(zip(texts, document_vectors(embedder(model), texts, folder), strict=True))
    for name in ("xquad_en", "scifact"):
        measure(sets[name], vectors)
    english = sets["xquad_en"]
    for which in ("both", "own", "half"):
        corpus = {
            f"{name} {key}": text
            for name in ("xquad_en", "xquad_zh")
            for place, (key, text) in enumerate(sets[name].corpus.items())
            if which != "half" or ("xquad_en", "xquad_zh")[place % 2] == name
        }
        languages = ("xquad_en",) if which == "own" else ("xquad_en", "xquad_zh")
        qrels = {
            query: {
                name: 1 for key in grades for of in languages if (name := f"{of} {key}") in corpus
            }
            for query, grades in english.qrels.items()
        }
        title = f"English questions over both languages, {which}"
        measure(RetrievalSet(title, corpus, english.queries, qrels), vectors)


if __name__ == "__main__":
    main()
