"""What the user's own pip knows: its indexes, certificate and proxy; and pip as a last resort.

Asks pip as a program, so that its configuration files, environment variables
and credentials count. Never installs anything.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from localrag.messages import tr
from localrag.registry.download import SourceFailedError

# pip has no command that prints its settings with the defaults filled in. If a
# later pip changes inside, nothing is found this way, and `download` still works.
_ASK = """
import json
from pip._internal.commands import create_command
options, _ = create_command("download").parse_args([])
index = [] if options.no_index else [options.index_url, *options.extra_index_urls]
print(json.dumps({"certificate": options.cert, "proxy": options.proxy or None,
                  "indexes": index, "find_links": options.find_links}))
"""


class PipSettings(msgspec.Struct, frozen=True):
    """pip's `cert`, `proxy`, `index-url` with `extra-index-url`, and `find-links`."""

    certificate: str | None = None
    proxy: str | None = None
    indexes: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()


def settings() -> PipSettings:
    """The settings that pip would download with; empty where pip is missing."""
    if find_spec("pip") is None:
        return PipSettings()
    done = _python("-c", _ASK)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return PipSettings()
    return msgspec.json.decode(lines[-1], type=PipSettings)


def download(package: str, folder: Path) -> Path:
    """Let pip fetch the wheel of a `name==version` package; returns the wheel's path.

    Slower to show progress and unable to resume, but pip has ways to credentials
    that we have not (keyring, netrc, client certificates). Raises `SourceFailedError`.
    """
    if find_spec("pip") is None:
        raise SourceFailedError(
            tr(
                "pip is not installed for {python} (install it with: {python} -m ensurepip)",
                python=sys.executable,
            )
        )
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps")
    # The package's code is never run, so the Python it asks for does not matter.
    wheels_only = ("--only-binary=:all:", "--ignore-requires-python")
    done = _python("-m", "pip", "download", "--dest", str(folder), *options, *wheels_only, package)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        said = (lines or done.stderr.splitlines() or [str(done.returncode)])[-1]
        raise SourceFailedError(tr("pip: {said}", said=said.removeprefix("ERROR: ").rstrip(".")))
    return next(folder.glob("*.whl"))


def _python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # noqa: S603 - no shell; the packages come from our own list
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )
