"""`localrag export`, `import` and `migrate`: a library as one file, from one, or elsewhere."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import (
    common_options,
    emit_json,
    json_option,
    library_option,
    note,
    note_tr,
    say_tr,
)
from localrag.errors import UsageError
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.folder.vaults import Header
    from localrag.library.location import Location
    from localrag.library.transfer import ImportStage, TransferManifest


def named(_context: click.Context, _parameter: click.Parameter, text: str) -> Path:
    """The path that was given; an empty one, from a variable that is not set, is refused."""
    if not text:
        raise UsageError("The name of the file is empty.", hint="Name a file.")
    return Path(text)


archive_argument = click.argument("archive", metavar=tr("FILE"), type=click.Path(), callback=named)


def _counts_and_time(manifest: TransferManifest, started: float) -> dict[str, Any]:
    """What both say of the library and of the work."""
    return {
        "documents": manifest.documents,
        "chunks": manifest.chunks,
        "embedding": manifest.embedding_name,
        "seconds": round(time.monotonic() - started, 3),
    }


@click.command(
    "export",
    help=tr(
        "Save a library, with all its text and vectors, to one new file. "
        "`localrag import` recreates it on another machine without embedding "
        "anything again. Kept conversations stay here."
    ),
)
@archive_argument
@click.option("--encrypt", is_flag=True, help=tr("Encrypt the file with a passphrase of its own."))
@click.option(
    "--recipient",
    "recipients",
    multiple=True,
    metavar="age1...",
    help=tr("Encrypt the file for this age recipient; may be given several times."),
)
@click.option("--in-clear", is_flag=True, help=tr("Leave the export of a vault unencrypted."))
@common_options
def export_library(
    archive: Path,
    encrypt: bool,
    recipients: tuple[str, ...],
    in_clear: bool,
    library: Location,
    as_json: bool,
) -> None:
    """Export and report."""
    from localrag import __version__, hosted
    from localrag.config.settings import load_settings
    from localrag.library.transfer import export_library as export

    protection = None
    if encrypt or recipients:
        from localrag.cli import passphrases
        from localrag.library.folder.vaults import new_header

        chosen = passphrases.new(tr("Passphrase of the export")) if encrypt else ""
        header, key, _ = new_header(chosen, recipients, recovery=False)
        protection = header, key
    started = time.monotonic()
    manifest = export(
        hosted.reachable(library, load_settings()),
        archive,
        __version__,
        protection=protection,
        in_clear=in_clear,
    )
    values, size = _counts_and_time(manifest, started), archive.stat().st_size
    if as_json:
        emit_json({"file": str(archive), "bytes": size} | values)
        return
    say_tr(
        "{documents} documents, {chunks} passages: {size:.1f} MB in {path}; {seconds:.1f} s.",
        size=size / 1e6,
        path=archive,
        **values,
    )
    say_tr("To ask it there you need the embedding model {name}.", name=manifest.embedding_name)


@click.command(
    "import",
    help=tr(
        "Recreate a library from a file that `localrag export` wrote, in a folder"
        " that has none. Nothing is embedded again."
    ),
)
@archive_argument
@click.option(
    "--identity",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar=tr("FILE"),
    help=tr("Open an encrypted export with the age identity in this file."),
)
@library_option
@json_option
def import_library(archive: Path, identity: Path | None, library: Path, as_json: bool) -> None:
    """Import and report; says which embedding model the library needs, if it is not here."""
    from localrag import factory
    from localrag.cli.progress import say_waiting
    from localrag.config.settings import load_settings
    from localrag.library.transfer import import_library as bring
    from localrag.presentation.check import finding_text

    def tell(stage: ImportStage) -> None:
        if as_json:
            return
        if stage == "checking":
            note_tr("Checking {name} ...", name=archive.name)
        else:
            note_tr("Building the search indexes ...")

    def unlock(header: Header) -> bytes:
        from localrag.cli import passphrases
        from localrag.library.folder import vaults

        if identity is not None:
            return vaults.key_by_identity(header, identity.read_text("utf-8", "replace"))
        question = tr("Passphrase of the export")
        return vaults.key_by_passphrase(header, passphrases.existing(question))

    settings = load_settings()
    started = time.monotonic()
    manifest = bring(
        archive,
        library,
        indexes=factory.make_indexes(settings),
        on_wait=say_waiting,
        tell=tell,
        describe=finding_text,
        unlock=unlock,
    )
    values, model_name = _counts_and_time(manifest, started), manifest.embedding_name
    models = factory.make_models()
    specs = [spec for part in models.parts(model_name) if (spec := models.catalogue.find(part))]
    missing = [spec.id for spec in specs if models.status(spec).state in ("missing", "partial")]
    if as_json:
        installed = {"embedding_installed": bool(specs) and not missing}
        emit_json({"library": str(library)} | values | installed)
        return
    say_tr(
        "{documents} documents, {chunks} passages in {directory}; {seconds:.1f} s.",
        directory=library,
        **values,
    )
    if missing:
        names = " ".join(missing)
        note_tr("To ask it you need its embedding model: localrag models pull {name}", name=names)
    if settings.embedding.model not in ("", model_name):
        note_tr(
            "It was built with the embedding model {model}, and the settings name {expected}: "
            "set embedding.model to {model}, or unset it.",
            model=model_name,
            expected=settings.embedding.model,
        )


def _read_location(_context: click.Context, _parameter: click.Parameter, text: str) -> Location:
    from localrag.library.location import location_of

    if not text:
        raise UsageError("The name of the library is empty.", hint="Name a folder or a database.")
    return location_of(text)


@click.command(
    "migrate",
    help=tr(
        "Copy a library from a folder to PostgreSQL, or back: SRC and DST are folders or "
        "postgresql://HOST/DATABASE#NAME. Nothing is embedded again, the copy is checked, and the "
        "source stays."
    ),
)
@click.argument("source", metavar=tr("SRC"), callback=_read_location)
@click.argument("target", metavar=tr("DST"), callback=_read_location)
@json_option
def migrate(source: Location, target: Location, as_json: bool) -> None:
    """Copy and report."""
    from localrag import factory, hosted
    from localrag.cli.progress import say_waiting
    from localrag.config.settings import load_settings
    from localrag.library.transfer import migrate_library
    from localrag.presentation.check import finding_text
    from localrag.presentation.records import picked

    def tell(stage: ImportStage) -> None:
        if not as_json:
            copying = stage == "checking"
            note(tr("Copying ...") if copying else tr("Building the search indexes ..."))

    settings = load_settings()
    started = time.monotonic()
    moved = migrate_library(
        hosted.reachable(source, settings),
        hosted.reachable(target, settings),
        indexes=factory.make_indexes(settings),
        on_wait=say_waiting,
        tell=tell,
        describe=finding_text,
    )
    seconds = round(time.monotonic() - started, 3)
    if as_json:
        values = {"library": str(target), "seconds": seconds}
        emit_json(values | picked(moved.counts, "documents", "chunks"))
        return
    say_tr(
        "{documents} documents, {chunks} passages in {directory}; {seconds:.1f} s.",
        documents=moved.counts.documents,
        chunks=moved.counts.chunks,
        directory=str(target),
        seconds=seconds,
    )
