"""What the user's own pip knows: its indexes, certificate and proxy; and pip as a last resort.

Asks pip as a program, so that its configuration files, environment variables
and credentials count. Never installs anything.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

import msgspec

from localrag.egress import proxies
from localrag.errors import SourceFailedError
from localrag.system import processes
from localrag.system.files import make_private

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
    code, output, _ = _run(processes.python(_ASK, utf8=True))
    lines = output.splitlines()
    if code or not lines:
        return PipSettings()
    return msgspec.json.decode(lines[-1], type=PipSettings)


def download(package: str, folder: Path) -> Path:
    """Let pip fetch the wheel of a `name==version` package; returns the wheel's path.

    Slower to show progress and unable to resume, but pip has ways to credentials
    that we have not (keyring, netrc, client certificates). Raises `SourceFailedError`.
    """
    if find_spec("pip") is None:
        raise SourceFailedError(
            "pip is not installed for {python} (install it with: {python} -m ensurepip)",
            python=sys.executable,
        )
    options = ("--quiet", "--disable-pip-version-check", "--no-input", "--no-deps")
    # The package's code is never run, so the Python it asks for does not matter.
    wheels_only = ("--only-binary=:all:", "--ignore-requires-python")
    where = ("--dest", str(folder.absolute()))
    code, _, errors = _run(
        processes.module("pip", "download", *where, *options, *wheels_only, package)
    )
    if code:
        lines = [line for line in errors.splitlines() if line.startswith("ERROR:")]
        message = (lines or errors.splitlines() or [str(code)])[-1]
        raise SourceFailedError("pip: {said}", said=message.removeprefix("ERROR: ").rstrip("."))
    make_private(folder)
    return next(folder.glob("*.whl"))


def _run(command: list[str]) -> tuple[int, str, str]:
    """The exit code, and what was printed to standard output and error."""
    done = processes.run(
        command,
        processes.PIP,
        variables=proxies.named(),  # as pip connects where the user has configured it
        stderr=processes.PIPE,
    )
    output, errors = (stream.decode("utf-8", "replace") for stream in (done.stdout, done.stderr))
    return done.returncode, output, errors
