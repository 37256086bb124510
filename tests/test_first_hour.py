"""What a developer meets in the first hour: types, hooks, and one test without any model."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
CALLER = """
from localrag import Answer, Filter, LocalRAG, Turn

def ask(folder: str, question: str) -> str:
    with LocalRAG.open(folder) as rag:
        rag.add(["papers"])
        hits = rag.search(question, k=3, filter=Filter(types=("pdf",)))
        answer: Answer = rag.ask(question, k=len(hits), history=[Turn("One?", "One.")])
        return answer.text
"""


@pytest.mark.slow
def test_a_typed_program_passes_strict_checks_against_the_package(tmp_path: Path) -> None:
    caller = tmp_path / "caller.py"
    caller.write_text(CALLER, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), caller.name]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_wheel_says_that_it_is_typed_and_takes_the_documents_along() -> None:
    wheel = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["packages"] == ["localrag"]
    assert "exclude" not in wheel
    assert (ROOT / "localrag" / "py.typed").is_file()
    for source in wheel["force-include"]:
        assert (ROOT / source).exists(), source


def test_the_hooks_are_what_ci_runs_and_fetch_nothing() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    (repository,) = hooks["repos"]
    assert repository["repo"] == "local"
    for hook in repository["hooks"]:
        assert hook["language"] == "system"
        assert f".venv/bin/{hook['entry'].removesuffix(' --force-exclude')}" in ci
    assert [hook["id"] for hook in repository["hooks"]] == ["ruff-check", "ruff-format", "mypy"]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """`scripts/test.py`, which is also the name of a package of Python's own."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    spec = spec_from_file_location("scripts_test", ROOT / "scripts" / "test.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("arguments", "pulled"),
    [
        (["--all"], ["starter", "test"]),
        (["tests/text", "-x"], []),
        (["tests/llms/test_gguf.py"], ["smollm2-135m-instruct-q4"]),
        (["tests/llms/test_gguf.py", "-m", "not models"], []),
    ],
)
def test_only_the_models_are_pulled_that_the_chosen_tests_need(
    script: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    arguments: list[str],
    pulled: list[str],
) -> None:
    # In the place of the environment's Python: writes down what is to run, and runs collections.
    calls = tmp_path / "calls"
    python = tmp_path / "python"
    python.write_text(
        f"#!{sys.executable}\n"
        "import json, subprocess, sys\n"
        'if "--list-models" in sys.argv:\n'
        "    sys.exit(subprocess.call([sys.executable, *sys.argv[1:]]))\n"
        f'with open({str(calls)!r}, "a") as file: print(json.dumps(sys.argv[1:]), file=file)\n'
    )
    python.chmod(0o700)
    if sys.platform == "win32":
        pytest.skip("only on systems that run scripts by their first line")
    monkeypatch.setattr(script, "ready", lambda *_: python)
    monkeypatch.setattr(sys, "argv", ["test.py", *arguments])
    script.main()
    *pulls, ran = [json.loads(line) for line in calls.read_text().splitlines()]
    assert pulls == ([["-m", "localrag", "models", "pull", *pulled]] if pulled else [])
    passed = arguments
    if arguments == ["--all"]:
        passed, (option, folder) = [*script.WORKERS], ran[-2:]
        assert option == "--basetemp"
        assert len(folder) < len("/tmp/pytest-of-root")
        assert not Path(folder).exists()
        del ran[-2:]
    assert ran[-2 - len(passed) :] == ["-m", "pytest", *passed]


def test_models_that_a_test_does_not_name_are_not_given_to_it(tmp_path: Path) -> None:
    for name in ("conftest.py", "choosing.py"):
        (tmp_path / name).write_text((ROOT / "tests" / name).read_text("utf-8"))
    (tmp_path / "test_one.py").write_text(
        "import pytest\n"
        '@pytest.mark.models("named")\n'
        'def test_named(models_dir): models_dir("named")\n'
        'def test_not_named(models_dir): models_dir("named")\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 failed, 1 skipped" in result.stdout, result.stdout + result.stderr
    assert re.search(r'mark it: @pytest\.mark\.models\("named"\)', result.stdout)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_is_skipped_without_need_fails_in_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    for name in ("conftest.py", "choosing.py"):
        (tmp_path / name).write_text((ROOT / "tests" / name).read_text("utf-8"))
    (tmp_path / "test_allowed.py").write_text(
        'import pytest\ndef test_allowed(): pytest.skip("only on Windows")\n'
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", workers]
    monkeypatch.setenv("CI", "true")

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    result = run()
    assert (result.returncode, "1 skipped" in result.stdout) == (0, True), (
        result.stdout + result.stderr
    )
    (tmp_path / "test_refused.py").write_text(
        'import pytest\ndef test_refused(): pytest.skip("no model")\n'
    )
    result = run()
    assert (result.returncode, "2 skipped" in result.stdout) == (1, True), (
        result.stdout + result.stderr
    )
    assert "\ntest_refused.py::test_refused: no model\n" in result.stdout


def test_the_readme_tells_the_two_commands_that_ci_and_the_demo_run() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    for page in ("README.md", "README.zh-CN.md"):
        text = (ROOT / page).read_text("utf-8")
        assert "```\npython3 scripts/demo.py\n```" in text
        assert "```\npython3 scripts/test.py --all " in text
    assert "\npython3 scripts/test.py --all\n" in ci
