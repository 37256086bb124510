"""Rerankers on retrieval sets, passage by passage, so that ways to score can be compared later.

    python benchmarks/reranking.py cross-encoder SET OUT.jsonl --questions 300 --half even
    python benchmarks/reranking.py llm SET OUT.jsonl --questions 30 --grades --warm
    python benchmarks/reranking.py keyword SET OUT.jsonl
    python benchmarks/reranking.py learned SET OUT.jsonl
    python benchmarks/reranking.py summary OUT.jsonl [...]

SET is a folder with corpus.jsonl, queries.jsonl and qrels.tsv. The first passages of the
default search (20; 10 for the language model) are scored; each question is a line of OUT
as soon as it is done, and a run that was stopped goes on where it was. `--half` takes only
every other question, so that what is picked on one half can be reported on the other. Of a
cross-encoder the logit of each window is kept. `--grades` also asks the language model for
a grade from 0 to 10, behind the same prefix state: as the expected value over the grades
and as the whole number that it would write. `--hard` takes only questions whose passage the
search found but did not put first. `--warm` scores every question a second time, when the
states of its passages are kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from localrag import factory
from localrag.config.settings import EmbeddingSettings, Settings, with_reranker
from localrag.documents.chunking import passage_text
from localrag.evaluation.retrieval.beir import RetrievalSet, read_retrieval_set
from localrag.evaluation.retrieval.benchmark import CachedQueries, WholePassages, document_vectors
from localrag.evaluation.retrieval.metrics import ndcg
from localrag.evaluation.statistics import bootstrap_interval
from localrag.prompts import YES_NO
from localrag.rerankers.llm import GRADES, LLMReranker
from localrag.rerankers.maxp import windows
from localrag.rerankers.onnx_cross_encoder import OnnxCrossEncoder
from localrag.rerankers.routing import SEARCH_LOGITS
from localrag.text.language import answer_language
from localrag.types import ScoredChunk

CROSS_ENCODER = "ms-marco-minilm-l12-v2-int8"
CANDIDATES = {"keyword": 20, "learned": 20, "cross-encoder": 20, "llm": 10}


def main() -> None:
    """Run one reranker over one set, or summarise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=[*CANDIDATES, "summary"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--half", choices=["even", "odd"])
    parser.add_argument("--embedding", default="", help="of the search: the starter's")
    for switch in ("--grades", "--hard", "--warm"):
        parser.add_argument(switch, action="store_true")
    arguments = parser.parse_args()
    if arguments.what == "summary":
        for path in arguments.paths:
            summarise(path)
        return
    folder, out = arguments.paths
    done = {row["query"] for row in rows(out)} if out.exists() else set()
    with out.open("a", encoding="utf-8") as file:
        for row in measure(folder, arguments, done):
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
    summarise(out)


def candidates(
    dataset: RetrievalSet, settings: Settings, depth: int, *, hard: bool
) -> Iterator[tuple[str, list[ScoredChunk]]]:
    """Each judged question with its first passages as the default search ranks them."""
    embedder = factory.make_embedder(settings, factory.make_models())
    vectors = document_vectors(
        embedder, list(dataset.corpus.values()), factory.cache_folder() / "bench"
    )
    passages = WholePassages(dataset.corpus, vectors, factory.make_indexes(settings))
    search = factory.make_retrievers_to_compare(
        settings,
        CachedQueries(embedder),
        factory.by_language(embedder, passages.vectors, passages.texts),
        passages.keywords,
        passages.texts,
    )["default"]
    for query, relevance in dataset.qrels.items():
        found = [passages.scored(hit) for hit in search.retrieve(dataset.queries[query], depth)]
        relevant = [relevance.get(each.source, 0) > 0 for each in found]
        if not hard or (any(relevant) and not relevant[0]):
            yield query, found


def measure(
    folder: Path, arguments: argparse.Namespace, done: set[str]
) -> Iterator[dict[str, Any]]:
    """One row a question: rank, relevance and scores of every passage, and seconds."""
    settings = Settings(embedding=EmbeddingSettings(model=arguments.embedding))
    dataset = read_retrieval_set(folder)
    if not arguments.hard:
        dataset = dataset.sample(arguments.questions)
    if arguments.half:
        chosen = list(dataset.qrels)[("even", "odd").index(arguments.half) :: 2]
        dataset = replace(dataset, qrels={query: dataset.qrels[query] for query in chosen})
    depth = CANDIDATES[arguments.what]
    reranking, model, cross_encoder = None, None, None
    models = factory.make_models()
    if arguments.what == "llm":
        model = factory.make_model(settings, models)
    elif arguments.what == "cross-encoder":
        cross_encoder = OnnxCrossEncoder(models.path(CROSS_ENCODER))
    else:
        settings = with_reranker(settings, arguments.what)
        reranking = factory.make_reranking(settings, models, no_model)
    asked = 0
    for query, found in candidates(dataset, settings, depth, hard=arguments.hard):
        asked += 1
        if asked > arguments.questions:
            return
        if query in done:
            continue
        text = dataset.queries[query]
        scores: dict[str, dict[int, Any]] = {}
        seconds: dict[str, float] = {}
        if cross_encoder:
            started = time.perf_counter()
            scores["windows"] = window_logits(cross_encoder, text, found)
            seconds[arguments.what] = time.perf_counter() - started
        if reranking:
            ranked, step = reranking.apply(text, found, depth)
            scores[arguments.what] = {each.chunk.id: each.score for each in ranked}
            seconds[arguments.what] = step.seconds
        if model:
            scores, seconds = graded(model, text, found, arguments)
        relevance = dataset.qrels[query]
        yield {
            "set": dataset.name,
            "query": query,
            "relevant": sorted((g for g in relevance.values() if g > 0), reverse=True),
            "passages": [
                {"search": each.score, "relevance": relevance.get(each.source, 0)}
                | {name: values[each.chunk.id] for name, values in scores.items()}
                for each in found
            ],
            "seconds": seconds,
        }


def window_logits(
    model: OnnxCrossEncoder, question: str, found: list[ScoredChunk]
) -> dict[int, list[float]]:
    """The logits of the windows of each passage."""
    pieces = [windows(passage_text(each.chunk), model.count_tokens) for each in found]
    logits = iter(model.scores(question, [piece for each in pieces for piece in each]).tolist())
    return {
        each.chunk.id: [next(logits) for _ in its] for each, its in zip(found, pieces, strict=True)
    }


def no_model() -> factory.Model:
    """These want no language model."""
    raise AssertionError


def graded(
    model: factory.Model, text: str, found: list[ScoredChunk], arguments: argparse.Namespace
) -> tuple[dict[str, dict[int, float]], dict[str, float]]:
    """The language model's grades of each passage, and the seconds of each way."""
    scorer = model.scorer
    assert scorer is not None
    reranker = LLMReranker(model.llm, model.chooser)
    language = answer_language(text)
    scores: dict[str, dict[int, float]] = {"answerable": {}}
    seconds: dict[str, float] = {}

    def timed(name: str, started: float) -> None:
        seconds[name] = seconds.get(name, 0.0) + time.perf_counter() - started

    for each in found:
        started = time.perf_counter()
        messages = reranker.messages(text, each, "relevance")
        probability = scorer.score_choices(messages, YES_NO[language], keep=1)[0]
        scores["answerable"][each.chunk.id] = float(probability)
        timed("cold", started)
        if arguments.grades:
            messages = reranker.messages(text, each, "relevance_grade")
            started = time.perf_counter()
            weights = scorer.score_choices(messages, GRADES, keep=1)
            expected = float(weights @ np.arange(len(GRADES)))
            scores.setdefault("expected", {})[each.chunk.id] = expected
            timed("expected", started)
            # The likeliest grade is what greedy decoding writes (benchmarks/reranking.md).
            scores.setdefault("written", {})[each.chunk.id] = int(weights.argmax())
    if arguments.warm:
        for each in found:
            started = time.perf_counter()
            messages = reranker.messages(text, each, "relevance")
            probability = scorer.score_choices(messages, YES_NO[language], keep=1)[0]
            timed("warm", started)
            assert float(probability) == scores["answerable"][each.chunk.id]
    return scores, seconds


# -- summary ------------------------------------------------------------------------

WAYS: dict[str, Callable[[dict[str, Any], dict[str, Any]], float]] = {
    "search": lambda row, each: -row["passages"].index(each),
    "keyword": lambda _, each: each["keyword"],
    "learned": lambda _, each: each["learned"],
    "cross-encoder, first window": lambda _, each: each["windows"][0],
    "cross-encoder, best window": lambda _, each: max(each["windows"]),
    "the same + 6 x search": lambda row, each: (
        max(each["windows"]) + SEARCH_LOGITS * share(row, each)
    ),
    "answerable (P(Yes) x 10)": lambda _, each: 10 * each["answerable"],
    "expected 0..10": lambda _, each: each["expected"],
    "written 0..10": lambda _, each: each["written"],
    "answerable + expected": lambda _, each: 10 * each["answerable"] + each["expected"],
    "answerable + 2 x search": lambda row, each: 10 * each["answerable"] + 2 * share(row, each),
    # This is what the reranker does: two thirds and one third.
    "answerable + 5 x search": lambda row, each: 10 * each["answerable"] + 5 * share(row, each),
    "expected + 5 x search": lambda row, each: each["expected"] + 5 * share(row, each),
    "written + 5 x search": lambda row, each: each["written"] + 5 * share(row, each),
}


def rows(path: Path) -> list[dict[str, Any]]:
    """What a run has written so far."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def share(row: dict[str, Any], each: dict[str, Any]) -> float:
    """The score of the search as a share of the best one."""
    best = max(other["search"] for other in row["passages"])
    return float(each["search"] / best) if best > 0 else 0.0


def summarise(path: Path) -> None:
    """nDCG@10, its difference to the search with a paired interval, AUC of passages, seconds."""
    results = rows(path)
    print(f"{path.name}: {len(results)} questions")
    base = np.array([value(row, WAYS["search"]) for row in results])
    for name, way in WAYS.items():
        try:
            each = np.array([value(row, way) for row in results])
        except KeyError:
            continue
        low, high = bootstrap_interval(each - base)
        better, worse = int((each > base + 1e-9).sum()), int((each < base - 1e-9).sum())
        print(
            f"  {name:27} nDCG@10 {each.mean():.4f}"
            f"  {(each - base).mean():+.4f} [{low:+.3f}, {high:+.3f}]"
            f"  better {better} worse {worse}  AUC {auc(results, way):.3f}"
        )
    for name in results[0]["seconds"]:
        seconds = [row["seconds"][name] for row in results if name in row["seconds"]]
        print(f"  seconds a question, {name}: median {np.median(seconds):.2f}")


def value(row: dict[str, Any], way: Any) -> float:
    """nDCG@10 of one question; ties stay in the order of the search."""
    order = sorted(row["passages"], key=lambda each: -way(row, each))
    judged = {str(i): grade for i, grade in enumerate(row["relevant"])}
    found = [each["relevance"] for each in order]
    # Passages by their grades: those judged that were not found stay in the ideal ranking.
    ranking = []
    left = {grade: [key for key, g in judged.items() if g == grade] for grade in set(found)}
    for place, grade in enumerate(found):
        ranking.append(left[grade].pop() if grade > 0 else f"irrelevant {place}")
    return ndcg(ranking, judged, k=10)


def auc(results: list[dict[str, Any]], way: Any) -> float:
    """Share of pairs of a relevant and another passage, of any questions, in the right order."""
    relevant, others = [], []
    for row in results:
        for each in row["passages"]:
            (relevant if each["relevance"] > 0 else others).append(way(row, each))
    difference = np.subtract.outer(relevant, others)
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


if __name__ == "__main__":
    main()
