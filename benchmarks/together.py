"""All retrieval sets in one library: what is found with the indexes as they are, and exactly.

    python benchmarks/together.py DATA [--passages 100000] [--queries 1200] [--save FILE]
        [--against FILE] [--as-large]

DATA holds the folders of the sets. With more passages than they have, changed copies of theirs
fill the library up: two sentences in three of one passage, one word in five from another, and its
vector with jitter. "exact" compares all vectors and counts all terms of a question in full. nDCG@10
with 95% intervals of the differences, paired by question. --save keeps the scores of each question
(.npz), --against compares with such a file, which the code of another checkout in PYTHONPATH may
have written. --as-large searches as beyond 65,536 passages: by codes, of which as large a share is
rescored as of so many, and by three rarer terms. What came of it is in LOG.md.
"""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localrag import factory
from localrag.config.settings import Settings
from localrag.evaluation.retrieval.beir import RetrievalSet, read_retrieval_set
from localrag.evaluation.retrieval.benchmark import CachedQueries, WholePassages, document_vectors
from localrag.evaluation.retrieval.metrics import ndcg
from localrag.evaluation.statistics import bootstrap_interval
from localrag.library.indexes.faiss import EXACT, RESCORED

SETS = ("cmrc2018", "xquad_zh", "xquad_en", "scifact")
RUNS = ("keyword", "dense", "default")
JITTER = 0.35
_SENTENCE = re.compile(r"[^.!?。！？\n]*[.!?。！？\n]*")
_WORD = re.compile(r"[\u4e00-\u9fff]{2}|[^\u4e00-\u9fff\s]+|.", re.DOTALL)

Scores = dict[tuple[str, str], NDArray[np.float64]]
"""By set and run, shape (questions,)."""


def copies(texts: list[str], vectors, count: int) -> Iterator[tuple[str, NDArray[np.float32]]]:
    draw = np.random.default_rng(0)
    sentences = [_SENTENCE.findall(text) for text in texts]
    words = [_WORD.findall(text) for text in texts]
    for number in range(count):
        place, other = number % len(texts), words[int(draw.integers(len(texts)))]
        kept = [one for one in sentences[place] if draw.random() < 2 / 3]
        text = _WORD.findall("".join(kept) or texts[place])
        for at in np.flatnonzero(draw.random(len(text)) < 0.2):
            text[at] = other[int(draw.integers(len(other)))]
        noise = draw.standard_normal(vectors.shape[1]) * JITTER / math.sqrt(vectors.shape[1])
        near = vectors[place] + noise
        yield "".join(text), (near / np.linalg.norm(near)).astype(np.float32)


def measured(sets: list[RetrievalSet], held: WholePassages, queries) -> Scores:
    retrievers = factory.make_retrievers_to_compare(
        Settings(), queries, held.vectors, held.keywords, held.texts
    )
    found: Scores = {}
    for each in sets:
        for run in RUNS:
            scores, started = [], time.perf_counter()
            for query, grades in each.qrels.items():
                hits = retrievers[run].retrieve(each.queries[query], 10)
                names = [held.ids[hit.chunk_id] for hit in hits]
                judged = {f"{each.name} {passage}": grade for passage, grade in grades.items()}
                scores.append(ndcg(names, judged, k=10))
            found[each.name, run] = np.array(scores)
            seconds = time.perf_counter() - started
            print(f"  {each.name}, {run}: {1000 * seconds / len(scores):.1f} ms", flush=True)
    return found


def compare(before: Scores, after: Scores) -> None:
    print("| set, run | questions | before | now | difference | questions that differ |")
    print("|---|---|---|---|---|---|")
    for (name, run), scores in after.items():
        one, difference = before[name, run], scores - before[name, run]
        low, high = bootstrap_interval(difference)
        differ = int(np.count_nonzero(difference))
        print(
            f"| {name}, {run} | {len(one)} | {one.mean():.4f} | {scores.mean():.4f} | "
            f"{difference.mean():+.4f} [{low:+.4f}, {high:+.4f}] | {differ} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--passages", type=int, default=0)
    parser.add_argument("--queries", type=int, default=1200, help="questions a set, at most")
    parser.add_argument("--save", type=Path, help="scores of each question")
    parser.add_argument("--as-large", action="store_true", help="as beyond 65,536 passages")
    parser.add_argument("--against", type=Path, help="scores to compare with")
    chosen = parser.parse_args()
    settings = Settings()
    embedder = factory.make_embedder(settings, factory.make_models())
    sets = [read_retrieval_set(chosen.data / name) for name in SETS]
    cached = factory.cache_folder() / "bench"
    texts = [list(each.corpus.values()) for each in sets]
    vectors = np.concatenate([document_vectors(embedder, one, cached) for one in texts])
    corpus = {f"{each.name} {key}": text for each in sets for key, text in each.corpus.items()}
    more = list(copies(list(corpus.values()), vectors, chosen.passages - len(corpus)))
    corpus |= {f"copy {number}": text for number, (text, _) in enumerate(more)}
    vectors = np.concatenate([vectors, *(vector[None] for _, vector in more)])
    print(f"{len(corpus)} passages, load {os.getloadavg()[0]:.1f}", flush=True)
    sets = [each.sample(min(chosen.queries, len(each.qrels))) for each in sets]
    queries = CachedQueries(embedder)
    held = WholePassages(corpus, vectors, factory.make_indexes(settings))
    now = measured(sets, held, queries)
    if chosen.save:
        np.savez(chosen.save, **{"|".join(key): scores for key, scores in now.items()})
    held.vectors.index._rescored, held.keywords._whole = 0, len(corpus)
    exact = measured(sets, held, queries)
    print("exact, and now")
    compare(exact, now)
    if chosen.as_large:
        held.vectors.index._rescored = RESCORED * len(corpus) // (EXACT + 1)
        held.vectors._exact = held.keywords._whole = 0
        print(f"exact, and with codes and {held.vectors.index._rescored} rescored")
        compare(exact, measured(sets, held, queries))
    if chosen.against:
        print(f"{chosen.against.stem}, and now")
        with np.load(chosen.against) as saved:
            compare({tuple(key.split("|")): saved[key] for key in saved.files}, now)


if __name__ == "__main__":
    main()
