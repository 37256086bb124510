"""`localrag bundle verify`, `install` and `sign`: using a bundle that lies there.

Verifying and installing is the work of `install.py`, which every bundle holds: the same code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from localrag.cli.output import emit_json, json_option, say
from localrag.messages import tr

_PATH = click.Path(path_type=Path)


_base = click.option(
    "--base", type=_PATH, metavar=tr("BUNDLE"), help=tr("The bundle that this one builds upon.")
)
_key = click.option(
    "--key",
    type=_PATH,
    metavar=tr("FILE"),
    help=tr("A public key of OpenSSH that must have signed the bundle."),
)


@click.command(
    help=tr("Check every file of a bundle, a folder or a .zip, and its signature; on any system.")
)
@click.argument("bundle", metavar=tr("BUNDLE"), type=_PATH)
@_base
@_key
@json_option
def verify(bundle: Path, base: Path | None, key: Path | None, as_json: bool) -> None:
    """Check; changes nothing."""
    from localrag.bundle import installer

    if not as_json:
        raise click.exceptions.Exit(installer.main([*_words(bundle, base, key), "--verify-only"]))
    try:
        checked = installer.verify(bundle, base, key)
    except (installer.Problem, OSError) as error:
        faults = error.faults if isinstance(error, installer.Problem) else []
        emit_json(
            {
                "ok": False,
                "problem": str(error),
                "faults": [{"path": path, "fault": fault} for path, fault in faults],
            }
        )
        raise click.exceptions.Exit(1) from None
    manifest = checked.manifest
    looked_at = [one for one in manifest.entries if not one.in_base or checked.base is not None]
    emit_json(
        {
            "ok": True,
            "localrag": manifest.localrag,
            "system": manifest.system,
            "machine": manifest.machine,
            "python": manifest.python,
            "files": len(manifest.entries),
            "checked": len(looked_at),
            "bytes": sum(one.bytes for one in looked_at),
            "delta": manifest.base is not None,
            "signed": checked.signed,
            "signer": checked.signer,
        }
    )


@click.command(
    help=tr(
        "Install localrag from a bundle into a folder of its own, as the bundle's install.py does: "
        "without a network."
    )
)
@click.argument("bundle", metavar=tr("BUNDLE"), type=_PATH)
@click.option("--to", type=_PATH, metavar=tr("DIR"), help=tr("The folder to install into."))
@_base
@_key
@click.option("--yes", is_flag=True, help=tr("Install without being asked."))
def install(bundle: Path, to: Path | None, base: Path | None, key: Path | None, yes: bool) -> None:
    """Check, ask, install."""
    from localrag.bundle import installer

    words = _words(bundle, base, key)
    words += [f"--to={to}"] if to is not None else []
    words += ["--yes"] if yes else []
    raise click.exceptions.Exit(installer.main(words))


@click.command(
    help=tr(
        "Sign a bundle, a folder or a .zip, with your own OpenSSH key. Who has the public key can "
        "then check with --key that it comes from you."
    )
)
@click.argument("bundle", metavar=tr("BUNDLE"), type=_PATH)
@click.option(
    "--key",
    type=_PATH,
    required=True,
    metavar=tr("FILE"),
    help=tr("A private key of OpenSSH, such as ~/.ssh/id_ed25519."),
)
def sign(bundle: Path, key: Path) -> None:
    """Check, then sign."""
    from localrag.bundle.signing import sign as sign_bundle

    with _as_errors():
        said = sign_bundle(bundle, key)
    say(tr("Signed: {signer}", signer=said))


def _words(bundle: Path, base: Path | None, key: Path | None) -> list[str]:
    # An option's value may begin with a dash only behind "=".
    words = [f"--base={base}"] if base is not None else []
    words += [f"--key={key}"] if key is not None else []
    return [str(bundle.absolute()), *words]


@contextmanager
def _as_errors() -> Iterator[None]:
    """What the installer raises, as an error of localrag."""
    from localrag.bundle.installer import Problem
    from localrag.errors import BundleError

    try:
        yield
    except Problem as problem:
        raise BundleError("{problem}", problem=problem) from None
