"""The wheel as somebody installs it who has no clone: command, version and data come with it."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from localrag import __version__

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel alone; the packages it needs are ours."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*build, str(folder), str(ROOT)], cwd=folder, check=True)
    (wheel,) = folder.glob("localrag_offline-*.whl")
    environment = folder / "space 目录"
    venv.create(environment)
    python = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    install = [*pip, "--python", str(python), "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run([*install, str(wheel)], cwd=folder, check=True)
    return python


def run(python: Path, *command: str) -> str:
    """A command of that environment. The clone that runs these tests is not on its path."""
    variables = os.environ | {"PYTHONPATH": sysconfig.get_path("purelib")}
    result = subprocess.run(
        [python.with_name(command[0]), *command[1:]],
        cwd=python.parent,
        env=variables,
        capture_output=True,
        text=True,
        check=True,
    )
    return result.stdout


def test_the_command_of_the_wheel_says_its_version(installed: Path) -> None:
    assert __version__ in run(installed, "localrag", "--version")
    assert "add" in run(installed, "localrag", "--help")


def test_the_wheel_brings_its_page_prompts_and_documents(installed: Path) -> None:
    program = (
        "from importlib.resources import files; import localrag; print(localrag.__file__);"
        "print(*(path.is_file() for path in (files('localrag') / name for name in"
        " ('messages_zh.toml', 'server/static/app.js', 'prompts/zh/answer.txt',"
        " 'bundle/docs/README.md', 'bundle/docs/LICENSE'))))"
    )
    file, presence = run(installed, "python", "-c", program).splitlines()
    assert Path(file).is_relative_to(installed.parents[1])
    assert set(presence.split()) == {"True"}
