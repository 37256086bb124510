"""What an answer costs is said before it on the command line, and with `--explain` after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from fakes import ConstantMeter
from in_process import Localrag, Model, in_process

from localrag import factory


@pytest.fixture
def localrag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    run = in_process(tmp_path, monkeypatch)
    monkeypatch.setenv("LOCALRAG_LIBRARY", str(tmp_path / "library"))
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    model = factory.Model(Model(), Model(), lambda: None, meter=ConstantMeter())
    monkeypatch.setattr(factory, "make_model", lambda *_: model)
    (tmp_path / "tea.txt").write_text("Tea is picked in spring.")
    assert run("add", str(tmp_path / "tea.txt")).code == 0
    return run


def test_it_is_said_before_the_answer_and_explained_after_it(localrag: Localrag) -> None:
    plain = localrag("ask", "--no-server", "When is tea picked?")
    assert plain.err.splitlines()[0] == "Reading …"
    assert plain.err.splitlines()[1].startswith("cost: 3.0 s read, 5.0 s kept, about ")
    assert "s to come" not in plain.out
    assert "written" not in plain.out
    explained = localrag("ask", "--no-server", "--explain", "When is tea picked?").out
    assert "s to come" in explained
    assert "3.0 s read, 5.0 s kept, 1.0 s written" in explained


def test_a_budget_that_is_too_small_is_seen_before_it_is_spent(localrag: Localrag) -> None:
    command = ("ask", "--no-server", "--mode", "self-rag", "--budget", "20s", "When is tea picked?")
    (line,) = [line for line in localrag(*command).err.splitlines() if "to come" in line]
    assert "the budget leaves 20 s" in line
    (step, _) = [
        step for step in localrag(*command, "--json").json["trace"] if step["name"] == "cost"
    ]
    assert step["values"]["least"] > step["values"]["budget"]
