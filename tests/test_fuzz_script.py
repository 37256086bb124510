"""The fuzzing script finds nothing in a few inputs, and would say so if it did."""

from __future__ import annotations

import importlib.util
import random
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "fuzz.py"


@pytest.fixture
def fuzz() -> ModuleType:
    spec = importlib.util.spec_from_file_location("fuzz", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_short_run_finds_nothing() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--count", "40", "--seed", "5"],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("40 inputs") == 5


def test_the_same_seed_gives_the_same_inputs(fuzz: ModuleType) -> None:
    one, other = (fuzz.mutate(random.Random(3), fuzz.samples("html")) for _ in range(2))
    assert one == other


def test_what_is_wrong_is_counted_and_kept(
    fuzz: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuzz.RUNS["html"] = lambda count, draw: iter(
        [(b"good", "read", 0.1), (b"bad", "WRONG KeyError: 'x'", 0.2)]
    )
    assert fuzz.fuzz("html", 2, 7, tmp_path / "keep") == 1
    assert [path.read_bytes() for path in (tmp_path / "keep").iterdir()] == [b"bad"]
    assert "1 x \"WRONG KeyError: 'x'\"" in capsys.readouterr().out
