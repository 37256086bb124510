"""`localrag vault`: a library that is encrypted at rest."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli import passphrases
from localrag.cli.output import library_option, note, note_tr, say, say_tr
from localrag.errors import UsageError
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.conversion import Stage


@click.group(
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    help=tr(
        "Encrypt a library at rest: text, vectors, words and everything else that localrag "
        "stores. A passphrase opens it. If the passphrase and the recovery key are both lost, so "
        "is the library."
    ),
)
def vault() -> None:
    """Commands of a vault."""


@vault.command(
    help=tr(
        "Make a new, empty vault, or encrypt the library that is there. Shows the recovery key "
        "once."
    )
)
@click.option("--yes", is_flag=True, help=tr("Encrypt an existing library without asking."))
@library_option
def create(yes: bool, library: Path) -> None:
    """Make it, or convert what is there."""
    make(library, yes=yes)


def make(library: Path, *, yes: bool) -> None:
    """Make a vault with a passphrase that is asked for, and show its recovery key."""
    from localrag.library.conversion import encrypt_library
    from localrag.library.folder import vaults
    from localrag.library.folder.filesystem import CATALOGUE

    if vaults.is_vault(library):
        raise UsageError(
            "The library {directory} is a vault already.",
            hint="Change its passphrase with: localrag vault passphrase",
            directory=library,
        )
    is_there = (library / CATALOGUE).is_file()
    if is_there and not yes:
        question = tr(
            "Encrypt the library {directory}? The unencrypted files are deleted afterwards, but "
            "drives and backups may keep deleted data.",
            directory=str(library),
        )
        click.confirm(question, abort=True, err=True)
    passphrase = passphrases.new(tr("New passphrase"))
    if is_there:
        from localrag.cli.progress import say_waiting

        header, key, recovery = vaults.new_header(passphrase)
        counts = encrypt_library(library, header, key, on_wait=say_waiting, tell=_tell)
        say_tr(
            "Encrypted: {documents} documents, {chunks} passages.",
            documents=counts.documents,
            chunks=counts.chunks,
        )
    else:
        recovery = vaults.create(library, passphrase)
        vaults.open_here(library, passphrase)
        say_tr("The vault {directory} is ready.", directory=str(library))
    _show(recovery)


@vault.command(
    "open",
    help=tr(
        "Open the vault for the following commands, until it is not used for some minutes. Until "
        "then Linux keeps the key in kernel memory; on other systems each command asks for the "
        "passphrase."
    ),
)
@click.option(
    "--minutes",
    type=click.IntRange(1, 1440),
    default=15,
    show_default=True,
    help=tr("Minutes without use after which it closes."),
)
@library_option
def open_vault(minutes: int, library: Path) -> None:
    """Have the kernel keep the key."""
    from localrag.library.folder import vaults

    _expect_vault(library)
    vaults.open_here(library, passphrases.existing(tr("Passphrase")))
    if not vaults.keep_open(library, minutes):
        raise UsageError(
            "This system cannot keep a key between commands.",
            hint="Each command asks for the passphrase; `localrag serve`, `watch` and `chat` ask "
            "once.",
        )
    say_tr("The vault is open. It closes after {minutes} minutes without use.", minutes=minutes)


@vault.command(
    "close",
    help=tr(
        "Close the vault, also in servers that took the key from `localrag vault open`. End a "
        "server that asked for the passphrase itself."
    ),
)
@library_option
def close_vault(library: Path) -> None:
    """Have the kernel forget the key."""
    from localrag.library.folder import vaults

    _expect_vault(library)
    was_open = vaults.close(library)
    say(tr("The vault is closed.") if was_open else tr("The vault was closed already."))


@vault.command(
    help=tr(
        "Choose another passphrase. The data is not encrypted anew: older copies of the folder "
        "still open with the old passphrase."
    )
)
@click.option("--recovery", is_flag=True, help=tr("Make another recovery key as well."))
@library_option
def passphrase(recovery: bool, library: Path) -> None:
    """Replace one slot, or both."""
    from localrag.library.folder import vaults

    _expect_vault(library)
    before = passphrases.existing(tr("Current passphrase"))
    key = vaults.key_by_passphrase(vaults.header_of(library), before)
    _change_passphrase(library, key, recovery=recovery)


@vault.command(
    help=tr("Choose a new passphrase, using the recovery key; a new recovery key replaces it.")
)
@library_option
def recover(library: Path) -> None:
    """Replace both slots."""
    from localrag.library.folder import vaults

    _expect_vault(library)
    recovery_key = passphrases.existing(tr("Recovery key"))
    key = vaults.key_by_recovery(vaults.header_of(library), recovery_key)
    _change_passphrase(library, key, recovery=True)


@vault.command(help=tr("Decrypt the vault: it becomes an ordinary library, unencrypted on disk."))
@click.option("--yes", is_flag=True, help=tr("Do not ask."))
@library_option
def decrypt(yes: bool, library: Path) -> None:
    """Convert back."""
    from localrag.cli.progress import say_waiting
    from localrag.library.conversion import decrypt_library
    from localrag.library.folder import vaults

    _expect_vault(library)
    if not yes:
        question = tr("Decrypt the library {directory}?", directory=str(library))
        click.confirm(question, abort=True, err=True)
    vaults.open_here(library, passphrases.existing(tr("Passphrase")))
    counts = decrypt_library(library, on_wait=say_waiting, tell=_tell)
    say_tr(
        "Decrypted: {documents} documents, {chunks} passages.",
        documents=counts.documents,
        chunks=counts.chunks,
    )


def _change_passphrase(library: Path, key: bytes, *, recovery: bool) -> None:
    from localrag.library.folder import vaults

    vaults.change_passphrase(library, key, passphrases.new(tr("New passphrase")))
    say_tr("The passphrase has been changed.")
    if recovery:
        _show(vaults.change_recovery(library, key))


def _expect_vault(library: Path) -> None:
    from localrag.library.folder import vaults

    if not vaults.is_vault(library):
        raise UsageError(
            "The library {directory} is not a vault.",
            hint="Encrypt it with: localrag vault create",
            directory=library,
        )


def _show(recovery: str) -> None:
    note_tr(
        "This recovery key is shown only once. Write it down and keep it away from this "
        "computer: without the passphrase and the recovery key, the library cannot be "
        "recovered."
    )
    say(recovery)


def _tell(stage: Stage) -> None:
    note(tr("Copying ...") if stage == "copying" else tr("Checking the copy ..."))
