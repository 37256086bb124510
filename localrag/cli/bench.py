"""`localrag bench`: measure how well passages are found, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    RERANKERS,
    any_library_option,
    emit_json,
    file_option,
    json_option,
    note,
    note_tr,
    stdout_console,
    table,
    write_report,
)
from localrag.cli.progress import TimedBar
from localrag.errors import UsageError
from localrag.messages import tr
from localrag.presentation.steps import note_text

if TYPE_CHECKING:
    from localrag.evaluation.retrieval.beir import RetrievalSet
    from localrag.evaluation.retrieval.benchmark import RetrievalRun
    from localrag.library.location import Location

RUNS = ("keyword", "dense", "rrf", "linear", "default")
"""Those of `evaluator.retrieval`; repeated here because that module is heavier."""


_QUESTIONS = 200
"""Passages of one's own library that `--exact` asks for."""


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("Measure quality and speed on data with known answers."),
)
def bench() -> None:
    """Group of the measurements."""


@bench.command(
    help=tr(
        "Measure retrieval on a folder with corpus.jsonl, queries.jsonl and qrels.tsv: nDCG, MRR, "
        "recall with 95% intervals, and milliseconds a question, for each leg and each fusion. "
        "The passages of several folders are searched as one library."
    )
)
@click.argument("folders", metavar=tr("[DIR]..."), nargs=-1, type=click.Path(path_type=Path))
@click.option(
    "--queries-from",
    metavar=tr("DIR"),
    type=click.Path(path_type=Path),
    help=tr("Use the questions of another set, such as the same ones in another language."),
)
@click.option(
    "--run",
    "names",
    multiple=True,
    type=click.Choice(RUNS),
    help=tr("Only this run; may be repeated."),
)
@click.option(
    "--rerank",
    "rerankers",
    multiple=True,
    type=click.Choice(RERANKERS[1:]),
    help=tr("Also the default followed by this reranker; may be repeated."),
)
@click.option(
    "--queries",
    metavar=tr("NUMBER"),
    type=click.IntRange(1),
    help=tr("Use only this many questions, spread evenly over all."),
)
@click.option(
    "--exact",
    is_flag=True,
    help=tr(
        "Measure your own library instead: how much of what comparing all passages finds the "
        "dense search finds, and how fast, by retrieval.rescored."
    ),
)
@any_library_option
@file_option("--plot", text=tr("Save a chart of the results (SVG)."))
@json_option
def retrieval(
    folders: tuple[Path, ...],
    queries_from: Path | None,
    names: tuple[str, ...],
    rerankers: tuple[str, ...],
    queries: int | None,
    exact: bool,
    library: Location,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Measure, then print."""
    if exact == bool(folders) or (queries_from and len(folders) > 1):
        raise UsageError(
            "Name a folder with a retrieval set, or several without --queries-from, or give "
            "--exact for your own library.",
            hint="localrag bench retrieval DIR, or: localrag bench retrieval --exact",
        )
    if not folders:
        _exact(library, queries or _QUESTIONS, as_json=as_json)
        return
    from localrag.config.settings import load_settings
    from localrag.evaluation.retrieval.beir import read_retrieval_set, together
    from localrag.evaluator.retrieval import measure_retrieval
    from localrag.factory import for_new_library, make_models

    settings = for_new_library(load_settings(), make_models())
    sets = [read_retrieval_set(folder, queries_from) for folder in folders]
    if queries is not None:
        sets = [dataset.sample(queries) for dataset in sets]
    dataset = together(sets) if len(sets) > 1 else sets[0]
    counts = {"passages": len(dataset.corpus), "queries": len(dataset.qrels)}
    note_tr(
        "{count} passages, {queries} questions",
        count=counts["passages"],
        queries=counts["queries"],
    )
    with TimedBar() as bar:

        def show(name: str, done: int, total: int) -> None:
            if not done:
                note_tr("measuring {name}", name=name)
            bar.show(name, done, total)

        runs = measure_retrieval(
            settings,
            dataset,
            names or (("default",) if rerankers else RUNS),
            rerankers,
            progress=show,
            tell=lambda fault: note(note_text(fault)),
        )
    parts = [list(part) for part in zip(*(run.by_part(dataset) for run in runs), strict=True)]
    if plot is not None:
        _write_plot(plot, dataset.name, runs)
    if as_json:
        emit_json(
            {
                "set": dataset.name,
                **counts,
                "embedding": settings.embedding.name,
                "runs": [_run_json(run) for run in runs],
                **({"sets": [*map(_set_json, dataset.parts, parts)]} if parts else {}),
            }
        )
        return
    for part, measured in zip(dataset.parts, parts, strict=True):
        _print(part.name, len(dataset.corpus), len(part.qrels), settings.embedding.name, measured)
    _print(dataset.name, counts["passages"], counts["queries"], settings.embedding.name, runs)


def _set_json(part: RetrievalSet, runs: Sequence[RetrievalRun]) -> dict[str, Any]:
    return {"set": part.name, "queries": len(part.qrels), "runs": [*map(_run_json, runs)]}


def _exact(library: Location, queries: int, *, as_json: bool) -> None:
    from localrag.config.settings import load_settings
    from localrag.evaluator.retrieval import measure_approximation

    with TimedBar() as bar:
        measurement = measure_approximation(load_settings(), library, queries, bar.show)
    rows = [
        {
            "rescored": run.rescored,
            "R@10": run.recall_10,
            "R@100": run.recall_100,
            **{f"p{percent}_ms": run.milliseconds(percent) for percent in (50, 95)},
        }
        for run in measurement.runs
    ]
    if as_json:
        emit_json({"passages": measurement.passages, "exact": measurement.exact, "runs": rows})
        return
    if measurement.exact:
        note_tr(
            "{count} passages: all are compared, nothing is approximated",
            count=measurement.passages,
        )
    table_rows = [
        (
            str(row["rescored"] or tr("all")),
            *(f"{row[name]:.4f}" for name in ("R@10", "R@100")),
            *(f"{row[name]:.1f}" for name in ("p50_ms", "p95_ms")),
        )
        for row in rows
    ]
    heads = "retrieval.rescored", "R@10", "R@100", "p50 ms", "p95 ms"
    stdout_console().print(table(heads, table_rows, numbers=range(1, len(heads))))


def _run_json(run: RetrievalRun) -> dict[str, Any]:
    means = {metric: run.mean(metric) for metric in run.scores}
    intervals = {metric: list(run.interval(metric)) for metric in run.scores}
    times = {"p50_ms": run.milliseconds(50), "p95_ms": run.milliseconds(95)}
    return {"name": run.name, **means, "intervals": intervals, **times}


def _print(
    name: str, passages: int, queries: int, model: str, runs: Sequence[RetrievalRun]
) -> None:
    console = stdout_console()
    console.print(
        tr(
            "{name}: {passages} passages, {queries} questions, {model}",
            name=name,
            passages=passages,
            queries=queries,
            model=model,
        )
    )
    rows = []
    for run in runs:
        cells = []
        for metric in run.scores:
            low, high = run.interval(metric)
            mean = f"{run.mean(metric):.4f}"
            # The narrow columns keep to the mean; the intervals of all stand in the JSON.
            cells.append(f"{mean} [{low:.3f}, {high:.3f}]" if metric == "nDCG@10" else mean)
        times = [f"{run.milliseconds(percentile):.1f}" for percentile in (50, 95)]
        rows.append((run.name, *cells, *times))
    heads = tr("Run"), *runs[0].scores, "p50 ms", "p95 ms"
    console.print(table(heads, rows, numbers=range(1, len(heads))))


def _write_plot(path: Path, title: str, runs: list[RetrievalRun]) -> None:
    """nDCG@10 of each run with its 95% interval and p50; ours stand out by their colour."""
    from localrag.presentation.plots import ChartRow, chart

    rows = []
    for run in runs:
        mean, ours = run.mean("nDCG@10"), run.name == "default" or "+" in run.name
        value = f"{mean:.4f}   {run.milliseconds(50):.1f} ms"
        rows.append((run.name, [ChartRow(int(ours), value, mean, run.interval("nDCG@10"))]))
    write_report(path, chart(f"{title}: nDCG@10", rows, font_size=14).text)
