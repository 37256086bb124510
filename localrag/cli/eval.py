"""`localrag eval`: how good the answers are, and how far that judgement can be trusted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import emit_json, json_option, library_option, named_output, note
from localrag.messages import tr
from localrag.printable import as_json

if TYPE_CHECKING:
    from localrag.evaluation.reports.report import Report

METRICS = (
    "faithfulness",
    "answer_relevancy",
    "context_recall",
    "context_precision",
    "citation_precision",
    "citation_recall",
    "exact_match",
    "f1",
    "refusal",
    "page_rank",
)
"""Those of `evaluation.scoring`; repeated here because that module is heavier."""
_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)
judge_option = click.option(
    "--judge",
    metavar=tr("FILE"),
    type=_FILE,
    help=tr("Settings file whose language model judges; otherwise that of your settings."),
)
cache_option = click.option(
    "--cache",
    metavar=tr("DIR"),
    type=_FOLDER,
    help=tr("Folder that remembers answers and verdicts, so that none is paid for twice."),
)


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("Evaluate answers with a local judge: make questions, run, calibrate."),
)
def eval() -> None:  # noqa: A001
    """Group of the evaluation commands."""


@eval.command(
    help=tr(
        "Evaluate the answers to a data set's questions (JSON, JSONL or CSV). What it lacks of "
        "answers and contexts is produced from the library."
    )
)
@click.argument("dataset", metavar=tr("DATASET"), type=_FILE)
@click.option(
    "--config",
    "configs",
    metavar=tr("FILE"),
    type=_FILE,
    multiple=True,
    help=tr("Settings file to evaluate; may be given several times, to compare."),
)
@judge_option
@click.option(
    "--documents",
    metavar=tr("PATH"),
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help=tr("Evaluate on these files in a library of its own for each configuration."),
)
@click.option(
    "--metric",
    "metrics",
    metavar=tr("NAME"),
    type=click.Choice(METRICS),
    multiple=True,
    help=tr("Only this metric; may be given several times: {names}.", names=", ".join(METRICS)),
)
@click.option("--no-judge", is_flag=True, help=tr("Only the metrics that need no judge."))
@click.option("--no-reasons", is_flag=True, help=tr("Verdicts without reasons: faster."))
@click.option(
    "--questions",
    "count",
    metavar=tr("NUMBER"),
    type=click.IntRange(1),
    help=tr("Only so many questions, taken evenly from all."),
)
@click.option(
    "--html",
    "page",
    metavar=tr("FILE"),
    type=_FILE,
    help=tr("Write a page to look at in a browser."),
)
@click.option(
    "--csv",
    "table",
    metavar=tr("FILE"),
    type=_FILE,
    help=tr("Write every question's results as a table for a spreadsheet (CSV)."),
)
@cache_option
@library_option
@json_option
def run(
    dataset: Path,
    configs: tuple[Path, ...],
    judge: Path | None,
    documents: tuple[Path, ...],
    metrics: tuple[str, ...],
    no_judge: bool,
    no_reasons: bool,
    count: int | None,
    page: Path | None,
    table: Path | None,
    cache: Path | None,
    library: Path,
    as_json: bool,
) -> None:
    """Evaluate, then print."""
    from localrag.cli import eval_steps as steps
    from localrag.cli import eval_work as work
    from localrag.errors import UsageError
    from localrag.evaluation.dataset import evenly, read_dataset
    from localrag.evaluation.remembered import CallStore
    from localrag.evaluation.scoring import JUDGED
    from localrag.presentation.reports import report_json

    inputs = [dataset, *configs, *filter(None, [judge]), *_files_of(documents)]
    _check_outputs(inputs, page, table)
    samples = evenly(read_dataset(dataset), count)
    named = work.named_settings(configs)
    wanted = [metric for metric in metrics or METRICS if not (no_judge and metric in JUDGED)]
    if not wanted:
        raise UsageError(
            "Nothing is left to measure: {metrics} need a judge.",
            hint="Leave out --no-judge, or choose other metrics.",
            metrics=", ".join(metrics),
        )
    judged = any(metric in JUDGED for metric in wanted)
    judging = work.settings_of(judge) if judged else None
    folder = cache or work.cache_folder()
    with CallStore(folder / work.CALLS_FILE) as store:
        complete = all(one.answer is not None and one.contexts is not None for one in samples)
        if not complete:
            work.check_library(library, documents, named)
        if judging is not None or not complete:
            steps.say_estimate(samples, named, judging, store, reasons=not no_reasons)
        responses = steps.produce(samples, named, library, documents, folder, store)
        report = steps.score(
            dataset.name,
            samples,
            responses,
            wanted,
            judging,
            store,
            folder,
            reasons=not no_reasons,
            own_work=steps.own_work(named, judging, samples),
            library=library,
        )
    if page is not None:
        _write_page(page, report)
    if table is not None:
        _write_table(table, report)
    if as_json:
        emit_json(report_json(report))
    else:
        from localrag.cli.eval_show import print_report

        print_report(report)


@eval.command(
    help=tr(
        "Measure how far the judge can be trusted: its verdicts on a labelled set in Chinese and "
        "English. Reports made afterwards carry the result."
    )
)
@judge_option
@cache_option
@json_option
def calibrate(judge: Path | None, cache: Path | None, as_json: bool) -> None:
    """Grade the labelled set, keep and print the agreement."""
    from localrag import factory
    from localrag.cli import eval_work as work
    from localrag.evaluation.judging import calibration
    from localrag.evaluation.judging.gold_set import gold_items
    from localrag.evaluation.judging.judge import Judge
    from localrag.evaluation.remembered import CallStore
    from localrag.presentation.reports import trust_json

    settings = work.settings_of(judge)
    folder = cache or work.cache_folder()
    items = gold_items()
    embedder = factory.make_embedder(settings, factory.make_models())
    with CallStore(folder / work.CALLS_FILE) as store, work.open_judge(settings, store) as opened:
        grading = Judge(opened.model, opened.model.chooser, reasons=False)
        with work.Progress(tr("Grading the labelled set")) as progress:
            trust = calibration.calibrate(
                opened.model.name,
                calibration.trust_key(opened.fingerprint, embedder.fingerprint),
                grading,
                embedder,
                items,
                progress.steady,
            )
    path = calibration.save_trust(trust, folder)
    note(tr("Kept in {path}; reports of this judge carry it.", path=path))
    if as_json:
        emit_json(trust_json(trust))
    else:
        from localrag.cli.eval_show import print_trust

        print_trust(trust)


@eval.command(
    help=tr(
        "Draft questions with reference answers from your documents, some of them unanswerable, "
        "for you to edit: JSONL, each with its file and page."
    )
)
@click.argument(
    "documents", metavar=tr("[PATH]..."), nargs=-1, type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--questions",
    "count",
    metavar=tr("NUMBER"),
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help=tr("How many questions."),
)
@click.option(
    "--unanswerable",
    metavar=tr("NUMBER"),
    type=click.IntRange(0),
    help=tr("How many of them without an answer in the documents; otherwise one of five."),
)
@click.option(
    "--output",
    "-o",
    metavar=tr("FILE"),
    type=_FILE,
    help=tr("Write the questions there; otherwise they are printed."),
)
@judge_option
@cache_option
@library_option
def make(
    documents: tuple[Path, ...],
    count: int,
    unanswerable: int | None,
    output: Path | None,
    judge: Path | None,
    cache: Path | None,
    library: Path,
) -> None:
    """Draft, write each question as soon as it stands."""
    from localrag.cli import eval_work as work
    from localrag.errors import UsageError
    from localrag.evaluation.judging.drafting import draft
    from localrag.evaluation.judging.judge import Judge
    from localrag.evaluation.remembered import CallStore

    if output is not None and output.exists():
        raise UsageError(
            "{path} exists already.",
            hint="It may hold your edits: name another file, or remove it first.",
            path=output,
        )
    settings = work.settings_of(judge)
    none = count // 5 if unanswerable is None else min(unanswerable, count)
    folder = cache or work.cache_folder()
    made = Counter[bool]()
    with (
        CallStore(folder / work.CALLS_FILE) as store,
        work.open_pipeline(settings, library, documents, folder, store) as pipeline,
        work.open_judge(settings, store) as opened,
        work.writing(output) as write,
        work.Progress(tr("Drafting questions")) as progress,
    ):
        grading = Judge(opened.model, opened.model.chooser, reasons=False)
        progress(0, count, None)
        for one in draft(
            pipeline.passages(),
            opened.model,
            grading,
            lambda question: [context.text for context in pipeline.find(question)],
            answerable=count - none,
            unanswerable=none,
        ):
            made[one.answerable] += 1
            write(as_json(one.row()))
            progress.steady(made.total(), count)
    if made.total() < count:
        note(
            tr(
                "Fewer drafts passed the check than were wanted: {made} of {wanted} with an answer "
                "in the documents, {without} of {none} without one.",
                made=made[True],
                wanted=count - none,
                without=made[False],
                none=none,
            )
        )
    note(tr("Drafts by a model: read and mend each before you rely on it."))


def _write_page(path: Path, report: Report) -> None:
    from localrag.presentation.reports import render_page
    from localrag.system.files import write_output

    with named_output(path):
        write_output(path, render_page(report))
    note(tr("The page is in {path}.", path=path))


def _files_of(documents: tuple[Path, ...]) -> Iterator[Path]:
    for path in documents:
        yield from path.rglob("*") if path.is_dir() else (path,)


def _check_outputs(inputs: Sequence[Path], page: Path | None, table: Path | None) -> None:
    """Raises `UsageError` for a file that cannot or must not be written, before hours are spent."""
    from localrag.errors import UsageError

    taken = {path.resolve() for path in inputs}
    for path in filter(None, (page, table)):
        if path.resolve() in taken:
            raise UsageError(
                "{path} would be overwritten by the report.",
                hint="Give the report a name of its own.",
                path=path,
            )
        taken.add(path.resolve())
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise UsageError(
                "The report cannot be written to {path}.",
                hint="Give the path of a file in a folder that exists and that you may write to.",
                path=path,
            )


def _write_table(path: Path, report: Report) -> None:
    from localrag.presentation.csv_table import write_csv
    from localrag.system.files import write_output

    table = StringIO(newline="")
    write_csv(report, table)
    with named_output(path):
        # With a mark at the beginning, without which Excel takes Chinese for Latin letters.
        write_output(path, table.getvalue().encode("utf-8-sig"))
    note(tr("The table is in {path}.", path=path))
