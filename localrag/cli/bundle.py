"""`localrag bundle`: everything for a machine without a network, in one folder.

Verifying and installing is the work of `install.py`, which every bundle holds: the same code.
"""

from __future__ import annotations

import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from localrag.bundle.installer.manifest import EXTRAS
from localrag.cli.output import confirm_licence, emit_json, json_option, note_tr, say, say_tr
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.bundle.creation import BundleRequest
    from localrag.models.registry.store import ModelStore

TARGETS = ("linux-x86_64", "linux-arm64", "macos-arm64", "macos-x86_64", "windows-x86_64")
ACCELERATORS = ("cpu", "cuda", "metal")

_PATH = click.Path(path_type=Path)
_bundle = click.argument("place", metavar=tr("BUNDLE"), type=_PATH)
_base = click.option(
    "--base", type=_PATH, metavar=tr("BUNDLE"), help=tr("The bundle that this one builds on.")
)
_key = click.option(
    "--key",
    type=_PATH,
    metavar=tr("FILE"),
    help=tr("The OpenSSH public key that must have signed the bundle."),
)


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr("Create, check and install bundles for machines without a network."),
)
def bundle() -> None:
    """Group of the commands about bundles."""


@bundle.command(
    help=tr(
        "Put localrag, everything it needs, its documentation and models into a folder from "
        "which a machine without a network can install them. Downloads go through your own "
        "pip."
    )
)
@click.argument(
    "place", metavar=tr("[DIR]"), required=False, type=click.Path(path_type=Path, file_okay=False)
)
@click.option(
    "--preset",
    type=click.Choice(["starter", "recommended", "none"]),
    default="starter",
    help=tr("The models to include, from this machine; default: starter."),
)
@click.option(
    "--model", "models", multiple=True, metavar=tr("MODEL"), help=tr("An additional model.")
)
@click.option(
    "--extra",
    "extras",
    multiple=True,
    type=click.Choice(tuple(EXTRAS)),
    help=tr(
        "An optional part to include: postgres for libraries in a database, keyring for keys in "
        "the system's keyring, vault for encrypted libraries."
    ),
)
@click.option("--accept-licence", is_flag=True, help=tr("Accept a non-commercial licence."))
@click.option(
    "--target", type=click.Choice(TARGETS), help=tr("The target machine; default: this one.")
)
@click.option(
    "--python",
    metavar=tr("VERSION"),
    help=tr("The Python version there, such as 3.12; default: the one here."),
)
@click.option(
    "--accelerator",
    type=click.Choice(ACCELERATORS),
    help=tr("What computes there; default: cpu, and metal on Apple silicon."),
)
@click.option(
    "--wheel",
    "wheels",
    multiple=True,
    metavar=tr("PATH"),
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=tr("An existing wheel to include, such as llama-cpp-python for another system."),
)
@click.option(
    "--since",
    metavar=tr("BUNDLE"),
    type=click.Path(exists=True, path_type=Path),
    help=tr("Leave out what this earlier bundle (or its manifest.json) contains."),
)
@click.option("--archive", is_flag=True, help=tr("Create a .zip instead of a folder."))
@click.option(
    "--lean",
    is_flag=True,
    help=tr("Leave out text recognition, and PyTorch, which the starter models do not need."),
)
@click.option(
    "--compile",
    "compiled",
    is_flag=True,
    help=tr(
        "Compile llama.cpp for every kind of processor instead of including a prebuilt one; only "
        "for a machine like this one."
    ),
)
@json_option
def create(
    place: Path | None,
    preset: str,
    target: str | None,
    python: str | None,
    accelerator: str | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Show the licences, gather everything, and print where it lies."""
    from localrag.bundle import creation, targets
    from localrag.factory import cache_folder, make_models

    started = time.monotonic()
    creation.need_extra()
    store = make_models()
    request = creation.BundleRequest(
        target=targets.chosen(target, python, accelerator),
        preset=None if preset == "none" else preset,
        **options,
    )
    request = _licences(request, store)
    # A trailing .zip names the archive, not the folder in it.
    chosen = place or Path(creation.default_name(request))
    if request.archive and chosen.suffix == ".zip":
        chosen = chosen.with_suffix("")
    result = creation.create(chosen.absolute(), request, store, cache_folder(), note_tr)
    if result.without_licence:
        names = ", ".join(result.without_licence)
        note_tr(
            "These wheels contain no licence file (see licences/INDEX.txt): {names}",
            names=names,
        )
    for name, libraries in result.without_library.items():
        note_tr(
            "{name} needs libraries that are neither in the bundle nor part of {system}: "
            "{libraries}",
            name=name,
            system=request.target.system,
            libraries=", ".join(libraries),
        )
    seconds = time.monotonic() - started
    if as_json:
        emit_json(
            asdict(result)
            | {
                "path": str(result.path),
                "seconds": round(seconds, 1),
                "target": request.target.name,
                "python": request.target.python,
                "accelerator": request.target.accelerator,
                "extras": sorted(set(request.extras)),
                "delta": request.since is not None,
            }
        )
        return
    note_tr(
        "{files} files, {size:.0f} MB, {wheels} wheels, {models} models; {seconds:.0f} s.",
        files=result.files,
        size=result.bytes / 1e6,
        wheels=result.wheels,
        models=len(result.models),
        seconds=seconds,
    )
    say(result.path)


def _licences(request: BundleRequest, store: ModelStore) -> BundleRequest:
    """Show each model's licence; on a terminal ask about one that forbids commercial use."""
    from localrag.bundle import creation

    for spec in creation.specs_of(request, store):
        note_tr("{model}: licence {licence}", model=spec.id, licence=spec.licence)
        forbids = spec.licence_kind == "non-commercial" and not request.accept_licence
        if forbids and sys.stdin.isatty():
            confirm_licence(spec.id)
            request = replace(request, accept_licence=True)
    return request


@bundle.command(
    help=tr("Check every file of a bundle (a folder or a .zip) and its signature, on any system.")
)
@_bundle
@_base
@_key
@json_option
def verify(place: Path, base: Path | None, key: Path | None, as_json: bool) -> None:
    """Check; changes nothing."""
    from localrag.bundle.installer import program, verification
    from localrag.errors import BundleError

    if not as_json:
        words = [*_words(place, base, key), "--verify-only"]
        raise click.exceptions.Exit(program.main(words, Path()))
    try:
        checked = verification.verify(place, base, key)
    except (BundleError, OSError) as error:
        values = error.values if isinstance(error, BundleError) else {}
        faults = cast(list[tuple[str, str]], values.get("faults", []))
        emit_json(
            {
                "ok": False,
                "problem": spoken(error) if isinstance(error, BundleError) else str(error),
                "faults": [{"path": path, "fault": fault} for path, fault in faults],
            }
        )
        raise click.exceptions.Exit(1) from None
    manifest = checked.manifest
    emit_json(
        {
            "ok": True,
            "localrag": manifest.localrag,
            "system": manifest.target.system,
            "machine": manifest.target.machine,
            "python": manifest.target.python,
            "extras": manifest.extras,
            "files": len(manifest.files),
            "checked": len(checked.looked_at),
            "bytes": sum(file.bytes for file in checked.looked_at),
            "delta": manifest.base is not None,
            "signed": checked.signed,
            "signer": checked.signer,
        }
    )


@bundle.command(
    help=tr(
        "Install localrag from a bundle into a folder of its own, without a network, as the "
        "bundle's install.py does."
    )
)
@_bundle
@click.option("--to", type=_PATH, metavar=tr("DIR"), help=tr("The folder to install into."))
@_base
@_key
@click.option("--older", is_flag=True, help=tr("Install it over a newer bundle."))
@click.option("--yes", is_flag=True, help=tr("Install without asking."))
def install(
    place: Path, to: Path | None, base: Path | None, key: Path | None, older: bool, yes: bool
) -> None:
    """Check, ask, install."""
    from localrag.bundle import packing
    from localrag.bundle.installer import program
    from localrag.system.files import scratch_folder

    words = _words(place, base, key)
    words += [f"--to={to}"] if to is not None else []
    words += ["--older"] if older else []
    words += ["--yes"] if yes else []
    with scratch_folder() as scratch:  # another Python may have to go on
        code = program.main(words, packing.pack(scratch / packing.PROGRAM))
    raise click.exceptions.Exit(code)


@bundle.command(
    help=tr(
        "Sign a bundle (a folder or a .zip) with your own OpenSSH key. Anyone who has the "
        "public key can then use --key to check that it comes from you."
    )
)
@_bundle
@click.option(
    "--key",
    type=_PATH,
    required=True,
    metavar=tr("FILE"),
    help=tr("An OpenSSH private key, such as ~/.ssh/id_ed25519."),
)
def sign(place: Path, key: Path) -> None:
    """Check, then sign."""
    from localrag.bundle import signing

    say_tr("Signed: {signer}", signer=signing.sign(place, key))


def _words(place: Path, base: Path | None, key: Path | None) -> list[str]:
    # An option's value may begin with a dash only behind "=".
    words = [f"--base={base}"] if base is not None else []
    words += [f"--key={key}"] if key is not None else []
    return [str(place.absolute()), *words]
