"""`localrag models`: what models there are, pulling, checking, adding and removing them."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.calibration import calibrate
from localrag.cli.output import (
    confirm_licence,
    emit_json,
    json_option,
    note_tr,
    say,
    stdout_console,
    table,
)
from localrag.cli.progress import ProgressBars
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.models.registry.job import Event, Observer
    from localrag.models.registry.store import ModelStore


_TASKS = {"llm": "llm", "embedding": "embedding", "reranker": "reranker"}
_STATES = {
    "installed": "installed",
    "unchecked": "present, unchecked",
    "partial": "incomplete",
    "missing": "not installed",
    "registered": "your own",
}
_DESCRIBED = "research only (model card)"
_EVENTS = {
    "waiting": "{model}: another process is pulling it; waiting",
    "source": "{model}: fetching from {source}",
    "failed": "{model}: {source} failed: {reason}",
    "done": "{model}: complete and verified",
}
_PULLED = ("DownloadColumn", "TransferSpeedColumn", "TimeRemainingColumn")


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("List, pull, verify, calibrate, add and remove the models on this machine."),
)
def models() -> None:
    """Group of the commands about models."""


models.add_command(calibrate)


def _store() -> ModelStore:
    from localrag.models.registry.store import ModelStore, default_models_dir

    return ModelStore(default_models_dir())


@models.command("list", help=tr("List the available models and show which are installed."))
@json_option
def list_models(as_json: bool) -> None:
    """Print all models with task, licence, size and state."""
    store = _store()
    statuses = store.statuses()
    if as_json:
        records = [asdict(status) | {"path": str(status.path)} for status in statuses]
        emit_json({"folder": str(store.folder), "models": records})
        return
    from rich.filesize import decimal

    rows = []
    for status in statuses:
        remarks = [*status.presets]
        if status.licence_kind == "non-commercial":
            remarks.append(tr("non-commercial"))
        if status.hash_from == "hub":
            remarks.append(tr("hash from the hub"))
        languages = tr(", ").join(status.languages[:2]) + " …" * (len(status.languages) > 2)
        place = status.name, tr(_TASKS[status.task]), languages, decimal(status.size)
        rows.append(
            (*place, tr(_STATES[status.state]), _licence(status.licence), tr(", ").join(remarks))
        )
    heads = tr("model"), tr("task"), tr("languages"), tr("size"), tr("state"), tr("licence")
    grid = table((*heads, tr("presets, notes")), rows, numbers=(3,), overflow="fold")
    for never_broken in (0, 2):
        grid.columns[never_broken].no_wrap = True
    stdout_console().print(grid)
    note_tr("Models folder: {folder}", folder=store.folder)


@models.command(
    help=tr(
        "Download models or presets (starter, recommended, english), or use copies that you bring."
    )
)
@click.argument("names", nargs=-1, required=True, metavar=tr("MODEL..."))
@click.option("--accept-licence", is_flag=True, help=tr("Accept a non-commercial licence."))
@click.option(
    "--source",
    type=click.Choice(["package", "huggingface", "modelscope"]),
    help=tr("Download from this source only."),
)
@click.option(
    "--from",
    "folder",
    metavar=tr("DIR"),
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help=tr("Take the files from a folder, such as a USB stick."),
)
@json_option
def pull(
    names: tuple[str, ...],
    accept_licence: bool,
    source: str | None,
    folder: Path | None,
    as_json: bool,
) -> None:
    """Show licence and size, then bring the models with a progress bar."""
    from rich.filesize import decimal

    from localrag.models.registry import pull as pulling

    store = _store()
    plans = pulling.plan(store, names)
    for plan in plans:
        spec = plan.spec
        note_tr(
            "{model}: {title}; licence {licence}; {size}, {missing} to fetch",
            model=spec.id,
            title=spec.title,
            licence=_licence(spec.licence),
            size=decimal(plan.size),
            missing=decimal(plan.missing),
        )
        if pulling.needs_yes(store, spec) and not accept_licence and sys.stdin.isatty():
            confirm_licence(spec.id)
            accept_licence = True
    with ProgressBars(*_PULLED, transient=False) as view:
        paths = pulling.pull(
            store,
            names,
            source=source,
            folder=folder,
            accept_licence=accept_licence,
            observer=_pull_observer(view),
        )
    if as_json:
        pulled = [
            {"name": plan.spec.id, "path": str(path)}
            for plan, path in zip(plans, paths, strict=True)
        ]
        emit_json({"pulled": pulled})
    else:
        for path in paths:
            say(path)


@models.command(help=tr("Recompute the hashes of model files and compare them."))
@click.argument("names", nargs=-1, metavar=tr("[MODEL...]"))
@json_option
@click.pass_context
def verify(context: click.Context, names: tuple[str, ...], as_json: bool) -> None:
    """Exit with code 1 when a file is not what it should be."""
    checks = _store().verify(names)
    if as_json:
        emit_json(
            {
                "files": [
                    {"model": c.model, "file": c.file, "fault": c.fault and spoken(c.fault)}
                    for c in checks
                ]
            }
        )
    else:
        for check in checks:
            verdict = tr("ok") if check.fault is None else spoken(check.fault)
            line = tr("{part}: {text}", part=f"{check.model}/{check.file}", text=verdict)
            say(line)
        if not checks:
            note_tr("There are no models on this machine yet: localrag models pull starter")
    if any(check.fault for check in checks):
        context.exit(1)


@models.command(help=tr("Use a GGUF file or a model folder of your own under a name."))
@click.argument("name", metavar=tr("NAME"))
@click.argument("path", metavar=tr("PATH"), type=click.Path(exists=True, path_type=Path))
@click.option(
    "--task",
    type=click.Choice(["llm", "embedding", "reranker"]),
    help=tr("What the model is for, if its files do not tell."),
)
@json_option
def add(name: str, path: Path, task: str | None, as_json: bool) -> None:
    """Register without copying."""
    own = _store().add(name, path, task)  # type: ignore[arg-type]
    if as_json:
        emit_json({"name": own.name, "task": own.task, "path": own.path})
    else:
        note_tr(
            "{name} is {path} ({task}).",
            name=own.name,
            path=own.path,
            task=tr(_TASKS[own.task]),
        )


@models.command(help=tr("Delete a pulled model, or forget one of your own."))
@click.argument("name", metavar=tr("NAME"))
@json_option
def remove(name: str, as_json: bool) -> None:
    """Files of the user's own are never deleted."""
    from rich.filesize import decimal

    freed = _store().remove(name)
    if as_json:
        emit_json({"name": name, "freed_bytes": freed})
    else:
        note_tr("{name} is removed; {size} freed.", name=name, size=decimal(freed))


@models.command(help=tr("Print where a model is on this machine."))
@click.argument("name", metavar=tr("NAME"))
@json_option
def path(name: str, as_json: bool) -> None:
    """Print the GGUF file of a language model, the folder of another."""
    place = _store().path(name)
    if as_json:
        emit_json({"name": name, "path": str(place)})
    else:
        say(place)


def _licence(licence: str) -> str:
    """Most licences are names; what is a description is translated."""
    return tr("research only (model card)") if licence == _DESCRIBED else licence


def _pull_observer(view: ProgressBars) -> Observer:
    """Shows the events of a pull on standard error: a bar on a terminal, lines elsewhere."""

    def observe(event: Event) -> None:
        if event.kind in ("progress", "done") and view.draw(event.model, event.done, event.total):
            return
        if event.kind == "progress":
            line = tr(
                "{model}: {done} of {total} MB",
                model=event.model,
                done=event.done // 1_000_000,
                total=-(-event.total // 1_000_000),
            )
            view.sometimes(lambda: line)
        elif event.kind in _EVENTS:
            values = {"model": event.model, "source": event.source, "reason": event.fault}
            note_tr(_EVENTS[event.kind], **values)

    return observe
