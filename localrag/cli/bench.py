"""`localrag bench`: measure how well passages are found, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    RERANKERS,
    emit_json,
    json_option,
    named_output,
    note,
    stdout_console,
    table,
)
from localrag.messages import tr
from localrag.presentation.steps import note_text

if TYPE_CHECKING:
    from localrag.config.settings import Settings
    from localrag.evaluation.retrieval.beir import RetrievalSet
    from localrag.evaluation.retrieval.runs import Run

RUNS = ("keyword", "dense", "rrf", "linear", "default")


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("Measure quality and speed on data with known answers."),
)
def bench() -> None:
    """Group of the measurements."""


@bench.command(
    help=tr(
        "Measure retrieval on a folder with corpus.jsonl, queries.jsonl and qrels.tsv: nDCG, MRR, "
        "recall with 95% intervals, and milliseconds a question, for each leg and each fusion."
    )
)
@click.argument("folder", metavar=tr("DIR"), type=click.Path(path_type=Path))
@click.option(
    "--queries-from",
    metavar=tr("DIR"),
    type=click.Path(path_type=Path),
    help=tr("Take the questions of another set, such as the same ones in another language."),
)
@click.option(
    "--run",
    "names",
    multiple=True,
    type=click.Choice(RUNS),
    help=tr("Only this run; may be given several times."),
)
@click.option(
    "--rerank",
    "rerankers",
    multiple=True,
    type=click.Choice(RERANKERS[1:]),
    help=tr("Also the default with this reranker behind it; may be given several times."),
)
@click.option(
    "--queries",
    metavar=tr("NUMBER"),
    type=click.IntRange(1),
    help=tr("Only so many questions, taken evenly from all."),
)
@click.option(
    "--plot",
    metavar=tr("FILE"),
    type=click.Path(path_type=Path, dir_okay=False),
    help=tr("Write a picture of the result (SVG)."),
)
@json_option
def retrieval(
    folder: Path,
    queries_from: Path | None,
    names: tuple[str, ...],
    rerankers: tuple[str, ...],
    queries: int | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure, then print."""
    from localrag.config.settings import load_settings
    from localrag.evaluation.retrieval.beir import read_retrieval_set

    settings = load_settings()
    dataset = read_retrieval_set(folder, queries_from)
    if queries is not None:
        dataset = dataset.sample(queries)
    wanted = names or (("default",) if rerankers else RUNS)
    runs = _measure(settings, dataset, wanted, rerankers)
    if plot is not None:
        _write_plot(plot, dataset.name, runs)
    if as_json:
        emit_json(
            {
                "set": dataset.name,
                "passages": len(dataset.corpus),
                "queries": len(dataset.qrels),
                "embedding": settings.embedding.model,
                "runs": [_run_json(run) for run in runs],
            }
        )
    else:
        _print(dataset, settings.embedding.model, runs)


def _measure(
    settings: Settings,
    dataset: RetrievalSet,
    names: tuple[str, ...],
    rerankers: tuple[str, ...],
) -> list[Run]:
    from localrag import factory
    from localrag.config.settings import with_reranker
    from localrag.evaluation.retrieval.runs import (
        RememberedQueries,
        RerankedRetriever,
        WholePassages,
        run_retriever,
    )
    from localrag.evaluation.retrieval.vector_cache import document_vectors

    models = factory.make_models()
    embedder = factory.make_embedder(settings, models)
    texts = list(dataset.corpus.values())
    note(tr("{count} passages, {queries} questions", count=len(texts), queries=len(dataset.qrels)))
    cache = factory.cache_folder() / "bench"
    vectors = document_vectors(embedder, texts, cache)
    passages = WholePassages(dataset.corpus, vectors, factory.make_tokenizer(settings))
    queries = RememberedQueries(embedder)
    retrievers = factory.make_retrievers_to_compare(
        settings, queries, passages.vectors, passages.keywords, passages.texts
    )
    # What is loaded at the first use is no question's time.
    retrievers["default"].retrieve("warm-up 热身", 1)
    runs: list[Run] = []
    for name in names:
        note(tr("measuring {name}", name=name))
        runs.append(
            run_retriever(name, retrievers[name], dataset, passages.ids, queries, _every_so_often())
        )
    language_model: list[factory.Model] = []

    def load() -> factory.Model:
        if not language_model:
            language_model.append(factory.make_model(settings, models))
        return language_model[0]

    try:
        for kind in rerankers:
            name = f"default+{kind}"
            note(tr("measuring {name}", name=name))
            reranking = factory.make_reranking(with_reranker(settings, kind), models, load)
            assert reranking is not None  # noqa: S101 - "none" is not among the choices
            # Nor is a reranker's loading.
            question = dataset.queries[next(iter(dataset.qrels))]
            one = [passages.scored(hit) for hit in retrievers["default"].retrieve(question, 1)]
            for told in reranking.apply(question, one, 1)[1].notes:
                note(note_text(told))
            reranked = RerankedRetriever(retrievers["default"], reranking, passages.scored)
            runs.append(
                run_retriever(name, reranked, dataset, passages.ids, queries, _every_so_often())
            )
    finally:
        for model in language_model:
            model.close()
    return runs


def _every_so_often() -> Callable[[int, int], None]:
    """Says how many questions are done where a run takes long."""
    from localrag.cli.progress import PLAIN_EVERY

    said = time.monotonic()

    def tell(done: int, asked: int) -> None:
        nonlocal said
        if time.monotonic() - said >= PLAIN_EVERY:
            said = time.monotonic()
            note(tr("{done} of {asked} questions", done=done, asked=asked))

    return tell


def _run_json(run: Run) -> dict[str, Any]:
    means = {metric: run.mean(metric) for metric in run.scores}
    intervals = {metric: list(run.interval(metric)) for metric in run.scores}
    times = {"p50_ms": run.milliseconds(50), "p95_ms": run.milliseconds(95)}
    return {"name": run.name, **means, "intervals": intervals, **times}


def _print(dataset: RetrievalSet, model: str, runs: list[Run]) -> None:
    console = stdout_console()
    console.print(
        tr(
            "{name}: {passages} passages, {queries} questions, {model}",
            name=dataset.name,
            passages=len(dataset.corpus),
            queries=len(dataset.qrels),
            model=model,
        )
    )
    rows = []
    for run in runs:
        cells = []
        for metric in run.scores:
            low, high = run.interval(metric)
            shown = f"{run.mean(metric):.4f}"
            # The narrow columns keep to the mean; the intervals of all stand in the JSON.
            cells.append(f"{shown} [{low:.3f}, {high:.3f}]" if metric == "nDCG@10" else shown)
        times = [f"{run.milliseconds(percentile):.1f}" for percentile in (50, 95)]
        rows.append((run.name, *cells, *times))
    heads = tr("Run"), *runs[0].scores, "p50 ms", "p95 ms"
    console.print(table(heads, rows, numbers=range(1, len(heads))))


def _write_plot(path: Path, title: str, runs: list[Run]) -> None:
    """nDCG@10 of each run with its 95% interval and p50; ours stand out by their colour."""
    from localrag.presentation.plots import Row, chart
    from localrag.system.files import write_output

    rows = []
    for run in runs:
        mean, ours = run.mean("nDCG@10"), run.name == "default" or "+" in run.name
        value = f"{mean:.4f}   {run.milliseconds(50):.1f} ms"
        rows.append((run.name, [Row(int(ours), value, mean, run.interval("nDCG@10"))]))
    with named_output(path):
        write_output(path, chart(f"{title}: nDCG@10", rows, font_size=14).text)
