"""`localrag eval`: how good the answers are, and how far that judgement can be trusted."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    any_library_option,
    common_options,
    emit_json,
    file_option,
    json_option,
    note,
    note_tr,
    page_option,
    say,
    write_report,
)
from localrag.cli.progress import TimedBar
from localrag.messages import tr
from localrag.printable import as_json

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from localrag.evaluation.events import Tell
    from localrag.evaluation.metric import Metric
    from localrag.library.location import Location

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


def _metrics() -> dict[str, Metric]:
    """All of them: loaded only for who evaluates, as it takes longer than all of `--help`."""
    from localrag.evaluation.scoring import METRICS

    return METRICS


class MetricName(click.ParamType[str]):
    """The name of a metric; a former one is understood, and said to be one."""

    name = "metric"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """As `Choice`."""
        for name, metric in _metrics().items():
            if value == metric.formerly:
                note_tr(
                    "The metric {old} is now called {new}; the old name will be removed in 0.3.",
                    old=value,
                    new=name,
                )
                value = name
        return click.Choice(list(_metrics())).convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """As `Choice`."""
        return click.Choice(list(_metrics())).shell_complete(ctx, param, incomplete)


class MetricOption(click.Option):
    """An option whose help names all metrics."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """As of any option."""
        names = ", ".join(_metrics())
        self.help = tr("Only this metric; may be repeated: {names}.", names=names)
        return super().get_help_record(ctx)


judge_option = file_option(
    "--judge",
    text=tr("Settings file whose language model acts as the judge; default: your own settings."),
)
cache_option = click.option(
    "--cache",
    metavar=tr("DIR"),
    type=_FOLDER,
    help=tr("Folder that caches answers and verdicts, so that nothing is computed twice."),
)


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("Evaluate answers with a local judge: make questions, run, calibrate."),
)
def eval() -> None:  # noqa: A001
    """Group of the evaluation commands."""


@eval.command(
    help=tr(
        "Evaluate the answers to the questions in a data set (JSON, JSONL or CSV). Missing "
        "answers and contexts are produced from the library."
    )
)
@click.argument("dataset", metavar=tr("DATASET"), type=_FILE)
@click.option(
    "--config",
    "configs",
    metavar=tr("FILE"),
    type=_FILE,
    multiple=True,
    help=tr("Settings file to evaluate; may be repeated, to compare configurations."),
)
@judge_option
@click.option(
    "--documents",
    metavar=tr("PATH"),
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help=tr("Evaluate on these files, with a separate library for each configuration."),
)
@click.option(
    "--metric",
    "metrics",
    metavar=tr("NAME"),
    type=MetricName(),
    multiple=True,
    cls=MetricOption,
)
@click.option("--no-judge", is_flag=True, help=tr("Only the metrics that need no judge."))
@click.option("--no-reasons", is_flag=True, help=tr("Verdicts without reasons: faster."))
@click.option(
    "--questions",
    "count",
    metavar=tr("NUMBER"),
    type=click.IntRange(1),
    help=tr("Use only this many questions, spread evenly over all."),
)
@page_option
@file_option(
    "--csv",
    "table",
    text=tr("Save every question's results as a table for spreadsheets (CSV)."),
)
@cache_option
@common_options
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
    library: Location,
    as_json: bool,
) -> None:
    """Evaluate, then print."""
    from localrag.cli.evaluation_tables import print_report
    from localrag.evaluation.dataset import evenly, read_dataset
    from localrag.evaluator.evaluator import Evaluator, named_settings, open_cache, settings_of
    from localrag.presentation.csv_table import csv_table
    from localrag.presentation.reports import render_page, report_json

    inputs = [dataset, *configs, *filter(None, [judge])]
    for path in documents:
        inputs += path.rglob("*") if path.is_dir() else (path,)
    _check_outputs(inputs, page, table)
    samples = evenly(read_dataset(dataset), count)
    configurations = named_settings(configs)
    judging = None if no_judge else settings_of(judge)
    with TimedBar() as bar, open_cache(cache, library) as call_cache:
        evaluator = Evaluator(library, call_cache, documents=documents, tell=_event_printer(bar))
        report = evaluator.evaluate(
            dataset.name, samples, configurations, judging, metrics, reasons=not no_reasons
        )
    if page is not None:
        write_report(page, render_page(report))
        note_tr("The page is in {path}.", path=page)
    if table is not None:
        write_report(table, csv_table(report))
        note_tr("The table is in {path}.", path=table)
    if as_json:
        emit_json(report_json(report))
    else:
        print_report(report)


@eval.command(
    help=tr(
        "Measure how far the judge can be trusted, from its verdicts on a labelled set in "
        "Chinese and English. Later reports include the result."
    )
)
@judge_option
@cache_option
@json_option
def calibrate(judge: Path | None, cache: Path | None, as_json: bool) -> None:
    """Grade the labelled set, keep and print the agreement."""
    from localrag.cli.evaluation_tables import print_trust
    from localrag.evaluator.evaluator import Evaluator, open_cache, settings_of
    from localrag.presentation.reports import trust_json

    settings = settings_of(judge)
    with TimedBar() as bar, open_cache(cache) as call_cache:
        trust, path = Evaluator(Path(), call_cache, tell=_event_printer(bar)).calibrate(settings)
    note_tr("Saved in {path}; reports by this judge include it.", path=path)
    if as_json:
        emit_json(trust_json(trust))
    else:
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
    help=tr("How many of them have no answer in the documents; default: one in five."),
)
@file_option("--output", "-o", text=tr("Write the questions to this file; default: print them."))
@judge_option
@cache_option
@any_library_option
def make(
    documents: tuple[Path, ...],
    count: int,
    unanswerable: int | None,
    output: Path | None,
    judge: Path | None,
    cache: Path | None,
    library: Location,
) -> None:
    """Draft, write each question as soon as it stands."""
    from localrag.errors import UsageError
    from localrag.evaluator.evaluator import Evaluator, open_cache, settings_of
    from localrag.system.files import create_file

    if output is not None and output.exists():
        raise UsageError(
            "{path} already exists.",
            hint="It may contain your edits: name another file, or remove it first.",
            path=output,
        )
    _check_outputs((), output)
    settings = settings_of(judge)
    none = count // 5 if unanswerable is None else min(unanswerable, count)
    counts = Counter[bool]()
    with TimedBar() as bar, open_cache(cache, library) as call_cache, ExitStack() as stack:
        evaluator = Evaluator(library, call_cache, documents=documents, tell=_event_printer(bar))
        file = None
        if output is not None:
            opened = TextIOWrapper(create_file(output), encoding="utf-8", newline="\n")
            file = stack.enter_context(opened)
        for sample in evaluator.draft(settings, answerable=count - none, unanswerable=none):
            counts[sample.answerable] += 1
            line = as_json(sample.row())
            if file is None:
                say(line)
            else:
                file.write(line + "\n")
                file.flush()
    if counts.total() < count:
        note_tr(
            "Fewer drafts than requested passed the check: {made} of {wanted} with an "
            "answer in the documents, {without} of {none} without one.",
            made=counts[True],
            wanted=count - none,
            without=counts[False],
            none=none,
        )
    note_tr("Drafted by a model: check and correct each one before you rely on it.")


def _event_printer(bar: TimedBar) -> Tell:
    """Shows how an evaluation goes on; what it has to say it says once."""
    from localrag.evaluation.events import Event, Progressed
    from localrag.presentation.reports import event_text

    texts: set[str] = set()

    def tell(event: Event) -> None:
        text = event_text(event)
        if isinstance(event, Progressed):
            bar.show(text, event.done, event.total, event.left)
        elif text not in texts:
            texts.add(text)
            note(text)

    return tell


def _check_outputs(inputs: Iterable[Path], *outputs: Path | None) -> None:
    """Raises `UsageError` for a file that cannot or must not be written, before hours are spent."""
    from localrag.errors import UsageError

    used_paths = {path.resolve() for path in inputs}
    for path in filter(None, outputs):
        if path.resolve() in used_paths:
            raise UsageError(
                "{path} would be overwritten by the report.",
                hint="Give the report a name of its own.",
                path=path,
            )
        used_paths.add(path.resolve())
        if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
            raise UsageError(
                "The report cannot be written to {path}.",
                hint="Give the path of a file in a folder that exists and that you may write to.",
                path=path,
            )
