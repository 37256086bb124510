"""`localrag serve` as a person starts it: who may reach it, and the page that it opens."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import pytest
from click.testing import CliRunner
from waiting import until

from localrag.cli.browser import opened
from localrag.cli.group import cli
from localrag.errors import UsageError
from localrag.messages import spoken

URL = 'http://127.0.0.1:8765/#token=a-token&of=this"test'

OPENER = """#!/bin/sh
cp "$1" "{folder}/seen.html"
stat -c "%a %n" "$1" > "{folder}/mode"
env > "{folder}/environment"
echo "$#" > "{folder}/count"
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="only on Linux: another way to open files")
def test_the_token_is_in_a_file_and_not_among_the_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desktop = tmp_path / "bin" / "xdg-open"
    desktop.parent.mkdir()
    desktop.write_text(OPENER.format(folder=tmp_path))
    desktop.chmod(0o700)
    monkeypatch.setenv("PATH", f"{desktop.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("DISPLAY", ":7")
    monkeypatch.setenv("SECRET_OF_THE_SHELL", "x")
    with opened(URL) as screens:
        assert screens
        count = tmp_path / "count"
        until(lambda: count.exists() and count.read_text().endswith("\n"))
    mode, path = (tmp_path / "mode").read_text().split()
    assert mode == "600"
    assert stat.S_IMODE(Path(path).parent.parent.stat().st_mode) == 0o700
    assert "token" not in path
    assert (tmp_path / "count").read_text().strip() == "1"
    page = (tmp_path / "seen.html").read_text()
    leads = re.search(r'content="0; url=([^"]*)"', page)
    assert leads is not None
    assert leads[1] == "http://127.0.0.1:8765/#token=a-token&amp;of=this&quot;test"
    assert not Path(path).exists(), "gone with the server"
    environment = (tmp_path / "environment").read_text()
    assert "DISPLAY=:7" in environment
    assert "SECRET_OF_THE_SHELL" not in environment


def test_without_a_screen_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with opened(URL) as screens:
        assert not screens


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "--tls-cert"),
        (["--host", "::"], "--behind-proxy"),
        (["--host", "studio"], "is not an IP address"),
        (["--tls-cert", "none.pem"], "belong together"),
        (["--tls-cert", "none.pem", "--tls-key", "none.pem"], "No such file"),
        (["--behind-proxy", "http://studio.example"], "https://NAME"),
    ],
)
def test_what_could_be_read_along_is_refused(
    options: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALRAG_LIBRARY", str(tmp_path / "none"))
    error = CliRunner().invoke(cli, ["serve", *options]).exception
    assert isinstance(error, UsageError)
    assert said in str(error)
    for reader in ("en", "zh"):
        assert "{" not in spoken(error, reader)
    assert spoken(error, "zh") != spoken(error, "en")


def test_a_folder_to_add_from_that_is_not_there_is_said(tmp_path: Path) -> None:
    present, missing = tmp_path / "there", tmp_path / "missing"
    present.mkdir()
    folders = [word for folder in (present, missing) for word in ("--add-from", str(folder))]
    result = CliRunner().invoke(cli, ["serve", "--host", "0.0.0.0", *folders])
    assert isinstance(result.exception, UsageError)
    assert "missing of --add-from is not there" in " ".join(result.stderr.split())
    assert "there of --add-from is" not in " ".join(result.stderr.split())
