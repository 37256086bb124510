"""`localrag models calibrate`: measures what a model's grades are worth."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from localrag.cli.output import emit_json, json_option, note_tr, say_tr, stdout_console, table
from localrag.cli.progress import TimedBar
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.rag.calibration import Calibration, Interval

_GRADED = {"relevance": "one passage", "answerable": "several passages"}


def grade_name(kind: str) -> str:
    """What a grade is about."""
    return tr(_GRADED[kind])


@click.command(
    help=tr(
        "Measure with labelled questions what a language model's grades are worth, so that "
        "thresholds mean the same for it as for the starter model; default: the one in the "
        "settings. A stopped run goes on where it was."
    )
)
@click.argument("model", metavar=tr("[MODEL]"), required=False)
@json_option
@click.pass_context
def calibrate(context: click.Context, model: str | None, as_json: bool) -> None:
    """Ask, fit, keep and print; exit code 1 for a model whose grades tell nothing."""
    import msgspec

    from localrag.config.settings import load_settings
    from localrag.evaluator.evaluator import open_cache
    from localrag.evaluator.grades import calibrate_grades

    named = {"llm.backend": "llama.cpp", "llm.model": model} if model else None
    with TimedBar() as bar, open_cache(None) as cache:
        measured, path = calibrate_grades(
            load_settings(named),
            cache,
            lambda done, total, remaining: bar.show(tr("questions"), done, total, remaining),
        )
    note_tr("Saved in {path}.", path=path)
    if as_json:
        emit_json(msgspec.to_builtins(measured) | {"usable": measured.usable})
    else:
        _print(measured)
    if not measured.usable:
        context.exit(1)


def _print(measured: Calibration) -> None:
    heads = (
        tr("read together"),
        tr("language"),
        tr("cases"),
        tr("AUC, 95% interval"),
        tr("ECE before"),
        tr("ECE after"),
    )
    rows = [
        (
            grade_name(measurement.graded),
            measurement.language,
            str(measurement.cases),
            _interval(measurement.auc),
            _interval(measurement.error_before),
            _interval(measurement.error_after),
        )
        for measurement in measured.measured
    ]
    stdout_console().print(table(heads, rows, numbers=range(2, len(heads)), overflow="fold"))
    if measured.usable:
        say_tr("{model} is calibrated.", model=measured.model)
    else:
        say_tr(
            "{model} is not calibrated: its grades hardly tell passages that contain the "
            "answer from others.",
            model=measured.model,
        )


def _interval(figure: Interval) -> str:
    value, low, high = figure
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"
