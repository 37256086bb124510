"""The proof finds nothing where nothing leaks, and names who leaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from localrag.cli.group import cli

LEAKY = """
import sqlite3
import leaky_plugin

connect = sqlite3.connect

def leaking(*arguments, **options):
    leaky_plugin.phone_home()
    return connect(*arguments, **options)

sqlite3.connect = leaking
"""
IN_PYTHON = """
import socket

def phone_home():
    try:
        socket.create_connection(("collector.invalid", 443), timeout=1)
    except OSError:
        pass  # as such code does
"""
IN_A_CHILD = """
import subprocess, sys

CODE = "import socket; socket.socket().connect_ex(('203.0.113.7', 443))"

def phone_home():
    subprocess.run([sys.executable, "-S", "-c", CODE])
"""

Run = Callable[..., tuple[int, dict[str, object]]]


def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with all that is installed here; the folder of its own packages."""
    venv.create(folder, symlinks=os.name != "nt")
    paths = {name: str(folder) for name in ("base", "platbase")}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    here = "\n".join(path for path in sys.path if path.endswith("site-packages"))
    (packages / "here.pth").write_text(here)
    scripts = Path(sysconfig.get_path("scripts", "venv", paths))
    monkeypatch.setattr(sys, "executable", str(scripts / Path(sys.executable).name))
    return packages


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LOCALRAG_LLM_MODEL", str(tmp_path / "none.gguf"))

    def run(plugin: str = "") -> tuple[int, dict[str, object]]:
        if plugin:
            packages = environment(tmp_path / "venv", monkeypatch)
            (packages / "sitecustomize.py").write_text(LEAKY)
            (packages / "leaky_plugin.py").write_text(plugin)
        result = CliRunner().invoke(cli, ["prove-offline", "--json"])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, json.loads(result.output)

    return run


def stages(proof: dict[str, object]) -> dict[str, str]:
    found = proof["stages"]
    assert isinstance(found, list)
    return {stage["name"]: stage["problem"] for stage in found}


@pytest.mark.models
def test_nothing_leaks_and_a_missing_model_is_named(
    prove: Run, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    code, proof = prove()
    assert proof["attempts"] == []
    found = stages(proof)
    runs = ("settings", "add", "search", "check", "doctor", "remove")
    assert [found[name] for name in runs] == [""] * 6
    assert all("localrag models" in found[name] for name in ("ask", "self-rag", "eval"))
    # What could not run has not been proven.
    assert (code, proof["ok"]) == (1, False)


@pytest.mark.models
@pytest.mark.slow
def test_every_stage_runs_where_the_models_are(
    prove: Run, models_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    models_dir("use-multilingual-v3")
    models_dir("smollm2-135m-instruct-q4")
    monkeypatch.setenv("LOCALRAG_LLM_MODEL", "smollm2-135m-instruct-q4")
    code, proof = prove()
    found = stages(proof)
    assert set(found.values()) == {""}
    assert {"ask", "self-rag", "eval", "check", "doctor"} <= set(found)
    assert (code, proof["ok"], proof["attempts"]) == (0, True, [])


@pytest.mark.models
def test_a_leaky_plugin_is_caught_and_named(prove: Run, models_dir: Callable[[str], Path]) -> None:
    models_dir("use-multilingual-v3")
    code, proof = prove(IN_PYTHON)
    assert (code, proof["ok"]) == (1, False)
    attempts = proof["attempts"]
    assert isinstance(attempts, list)
    first = attempts[0]
    assert first["stage"] == "add"
    assert first["host"] == "collector.invalid"
    assert "leaky_plugin" in first["caller"]
    assert first["origin"].startswith("leaky_plugin.phone_home (")


@pytest.mark.models
def test_a_leak_that_python_cannot_see_is_caught_too(
    prove: Run, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    _, proof = prove(IN_A_CHILD)
    if proof["isolation"]:
        pytest.skip("only where the system lets a process have a network of its own")
    attempts = proof["attempts"]
    assert isinstance(attempts, list)
    assert {one["event"] for one in attempts} == {"kernel"}
    assert sys.executable in attempts[0]["origin"]


def test_a_watched_process_that_dies_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = environment(tmp_path / "venv", monkeypatch)
    (packages / "sitecustomize.py").write_text("import os, sys\nos._exit(3)\n")
    result = CliRunner().invoke(cli, ["prove-offline"])
    assert result.exit_code == 1
    assert "exit code 3" in result.output
    assert "not every stage" in result.output


def test_counted_packets_start_at_none() -> None:
    code = (
        "from localrag.cli import namespace\n"
        "try:\n    namespace.enter()\nexcept OSError:\n    print('none')\n"
        "else:\n"
        "    import socket\n"
        "    before = namespace.lost_packets()\n"
        "    socket.socket().connect_ex(('203.0.113.7', 9))\n"
        "    print(before, namespace.lost_packets() - before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    if done.stdout == "none\n":
        pytest.skip("only where the system lets a process have a network of its own")
    assert done.stdout == "0 1\n"
