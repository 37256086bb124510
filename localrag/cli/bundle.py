"""`localrag bundle`: everything for a machine without a network, in one folder."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.bundle_use import install, sign, verify
from localrag.cli.output import emit_json, json_option, note, say
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.bundle.creating import Request
    from localrag.models.registry.store import ModelStore

# Those of `bundle.targets`, repeated here because that module is heavier.
TARGETS = ("linux-x86_64", "linux-arm64", "macos-arm64", "macos-x86_64", "windows-x86_64")
ACCELERATORS = ("cpu", "cuda", "metal")


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("Make, check and install bundles for machines without a network."),
)
def bundle() -> None:
    """Group of the commands about bundles."""


@bundle.command(
    help=tr(
        "Put localrag, all it needs, its documents and models into a folder from which a machine "
        "without a network can install them. Downloads through your own pip."
    )
)
@click.argument(
    "place", metavar=tr("[DIR]"), required=False, type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "--preset",
    type=click.Choice(["starter", "recommended", "none"]),
    default="starter",
    help=tr("The models to put in, from this machine; without this, starter."),
)
@click.option("--model", "models", multiple=True, metavar=tr("MODEL"), help=tr("One more model."))
@click.option("--accept-licence", is_flag=True, help=tr("Say yes to a non-commercial licence."))
@click.option(
    "--target", type=click.Choice(TARGETS), help=tr("The machine that it is for; else this one.")
)
@click.option(
    "--python", metavar=tr("VERSION"), help=tr("The Python there, such as 3.12; else this one.")
)
@click.option(
    "--accelerator",
    type=click.Choice(ACCELERATORS),
    help=tr("What computes there; else cpu, and metal on Apple silicon."),
)
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    metavar=tr("PATH"),
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=tr("A ready wheel to put in, such as llama-cpp-python for another system."),
)
@click.option(
    "--since",
    metavar=tr("BUNDLE"),
    type=click.Path(exists=True, path_type=Path),
    help=tr("Leave out what this earlier bundle (or its manifest.json) holds."),
)
@click.option("--archive", is_flag=True, help=tr("Make a .zip instead of a folder."))
@json_option
def create(
    place: Path | None,
    preset: str,
    models: tuple[str, ...],
    accept_licence: bool,
    target: str | None,
    python: str | None,
    accelerator: str | None,
    wheels: tuple[Path, ...],
    since: Path | None,
    archive: bool,
    as_json: bool,
) -> None:
    """Show the licences, gather everything, and print where it lies."""
    from localrag.bundle import creating, targets
    from localrag.factory import cache_folder, make_models

    started = time.monotonic()
    creating.need_extra()
    store = make_models()
    request = creating.Request(
        target=targets.chosen(target, python, accelerator),
        preset=None if preset == "none" else preset,
        models=models,
        wheels=wheels,
        since=since,
        archive=archive,
        accept_licence=accept_licence,
    )
    request = _licences(request, store)
    # A trailing .zip names the archive, not the folder in it.
    chosen = place or Path(creating.default_name(request))
    if archive and chosen.suffix == ".zip":
        chosen = chosen.with_suffix("")
    made = creating.create(chosen.absolute(), request, store, cache_folder(), note)
    if made.without_licence:
        names = ", ".join(made.without_licence)
        note(tr("These wheels hold no licence file; licences/INDEX.txt: {names}", names=names))
    seconds = time.monotonic() - started
    if as_json:
        emit_json(
            {
                "path": str(made.path),
                "bytes": made.bytes,
                "files": made.files,
                "seconds": round(seconds, 1),
                "target": request.target.name,
                "python": request.target.python,
                "accelerator": request.target.accelerator,
                "wheels": made.wheels,
                "models": list(made.models),
                "without_licence": list(made.without_licence),
                "delta": since is not None,
            }
        )
        return
    note(
        tr(
            "{files} files, {size:.0f} MB, {wheels} wheels, {models} models; {seconds:.0f} s.",
            files=made.files,
            size=made.bytes / 1e6,
            wheels=made.wheels,
            models=len(made.models),
            seconds=seconds,
        )
    )
    say(made.path)


def _licences(request: Request, store: ModelStore) -> Request:
    """Show each model's licence; on a terminal ask about one that forbids commercial use."""
    from dataclasses import replace

    from localrag.bundle import creating

    for spec in creating.specs_of(request, store):
        note(tr("{model}: licence {licence}", model=spec.id, licence=spec.licence))
        forbids = spec.licence_kind == "non-commercial" and not request.accept_licence
        if forbids and sys.stdin.isatty():
            question = tr(
                "{model} may not be used commercially. Do you accept its licence?", model=spec.id
            )
            click.confirm(question, abort=True, err=True)
            request = replace(request, accept_licence=True)
    return request


for _command in (verify, install, sign):
    bundle.add_command(_command)
