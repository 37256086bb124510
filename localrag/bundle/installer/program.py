"""`install.py` as a person sees it: options, what is said, what is asked."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from localrag.bundle.installer import pythons
from localrag.bundle.installer.installation import Installer, megabytes
from localrag.bundle.installer.machine import this_machine
from localrag.bundle.installer.verification import CheckedBundle, verify
from localrag.errors import BundleError
from localrag.messages import spoken, tr
from localrag.printable import as_text


def main(arguments: Sequence[str], program: Path) -> int:
    """Run with a command line; the exit code.

    `program` is the `install.py` that another Python can go on with; the bundle is where it lies,
    unless one is named.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="replace")
    options = _options(arguments, program.parent)
    try:
        return _run(options, arguments, program)
    except BundleError as error:
        _complain(error)
    except OSError as error:
        checks = options.verify_only
        _complain(
            BundleError(
                "{path}: {reason}.",
                hint="Check whether you may read it, and the disk that it is on; then run it again."
                if checks
                else "Check the free space, and whether you may read and write there, or name "
                "another folder with --to; then run it again.",
                path=error.filename or (options.bundle if checks else options.to),
                reason=error.strerror or error,
            )
        )
    except (KeyboardInterrupt, EOFError):
        _say(tr("Stopped. Run it again to continue."), error=True)
        return 130
    return 1


def _options(arguments: Sequence[str], here: Path) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="install.py",
        description=tr("Check a localrag bundle and install it, without a network."),
        allow_abbrev=False,
    )

    def add(name: str, text: str, **more: Any) -> None:
        parser.add_argument(name, help=text.replace("%", "%%"), **more)

    place = {"type": _path, "metavar": "PATH"}
    to = Path.home() / "localrag"
    where = tr("the bundle's folder or .zip; default: where this file is")
    add("bundle", where, nargs="?", default=here, type=_path)
    add("--to", tr("where to install; default: {folder}", folder=to), default=to, **place)
    add("--base", tr("the bundle that this one builds on"), **place)
    add("--key", tr("the OpenSSH public key that must have signed the bundle"), **place)
    add("--verify-only", tr("check only, install nothing"), action="store_true")
    add("--older", tr("install it over a newer bundle"), action="store_true")
    add("--yes", tr("install without asking"), action="store_true")
    return parser.parse_args(arguments)


def _path(text: str) -> Path:
    return Path(os.path.expanduser(text))  # noqa: PTH111 - the other way fails for an unknown user


def _run(options: argparse.Namespace, arguments: Sequence[str], program: Path) -> int:
    started = time.monotonic()
    _say(tr("Checking {path} ...", path=options.bundle))
    checked = verify(options.bundle, options.base, options.key)
    _report(checked, time.monotonic() - started)
    if options.verify_only:
        return 0
    version, wanted = checked.manifest.localrag, checked.manifest.target.python
    if this_machine()[2] != wanted and (command := pythons.find([wanted])):
        _say(tr("Continuing with {python}.", python=" ".join(command)))
        return pythons.hand_over(command, str(program), list(arguments))
    to = options.to.resolve()
    installer = Installer(checked, to, _say, older=options.older)
    size = installer.prepare()
    if not options.yes and not _confirm(version, to, size):
        return 1
    started = time.monotonic()
    launcher = installer.run()
    seconds = time.monotonic() - started
    _say(
        tr(
            "Installed localrag {version} in {folder}; {seconds:.0f} s.",
            version=version,
            folder=to,
            seconds=seconds,
        )
    )
    _say(tr("Next:"))
    name = f'"{launcher}"' if os.name == "nt" else shlex.quote(str(launcher))
    for rest in ("doctor", "add " + tr("FOLDER"), f'ask "{tr("QUESTION")}"'):
        _say(f"  {name} {rest}")
    return 0


def _report(checked: CheckedBundle, seconds: float) -> None:
    manifest = checked.manifest
    _say(
        tr(
            "All files are unchanged: {count} files, {size}, localrag {version} for "
            "{target}, Python {python}; {seconds:.1f} s.",
            count=len(checked.looked_at),
            size=megabytes(sum(file.bytes for file in checked.looked_at)),
            version=manifest.localrag,
            target=manifest.target.name,
            python=manifest.target.python,
            seconds=seconds,
        )
    )
    if manifest.extras:
        _say(tr("Extras: {names}", names=tuple(manifest.extras)))
    if left := len(manifest.files) - len(checked.looked_at):
        _say(
            tr(
                "{count} files are in the bundle that this one builds on, and were not checked.",
                count=left,
            )
        )
    if checked.signer:
        _say(tr("Signed: {signer}", signer=checked.signer))
    elif checked.signed:
        _say(tr("It is signed, but the signature was not checked: name the public key with --key."))
    else:
        _say(tr("It is not signed: the hashes show damage, not who made it."))


def _confirm(version: str, folder: Path, size: int) -> bool:
    if not sys.stdin or not sys.stdin.isatty():
        raise BundleError("There is nobody to ask.", hint="Add --yes to install without asking.")
    question = tr(
        "Install localrag {version} into {folder} ({size})? [Y/n] ",
        version=version,
        folder=folder,
        size=megabytes(size),
    )
    if input(question).strip().lower() in ("", "y", "yes", "是", "好"):
        return True
    _say(tr("Nothing was installed."))
    return False


def _complain(error: BundleError) -> None:
    _say(tr("Error: {message}", message=spoken(error)), error=True)


def _say(text: str, *, error: bool = False) -> None:
    print(as_text(text), file=sys.stderr if error else sys.stdout, flush=True)
