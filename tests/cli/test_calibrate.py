"""`localrag models calibrate` on models that know the labels, or nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_process import Localrag, in_process
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.config.settings import Settings
from localrag.evaluation.grades import questions
from localrag.evaluation.grades.questions import cases
from localrag.rag.calibration import starter_calibration
from localrag.text.figures import with_digits
from localrag.types import Message

NAME = Settings().llm.model


class Asked(ScriptedLLM):
    """Answers by the labels, with noise; from call `fails` on it is interrupted."""

    def __init__(self, signal: float, fails: int | None = None) -> None:
        super().__init__()
        self.calls = 0
        self._signal, self._fails = signal, fails
        self._cases: Mapping[tuple[bool, str], list[questions.GradingCase]] = _by_question()

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """P(Yes), P(No)."""
        assert len(choices) == 2
        self.calls += 1
        if self.calls == self._fails:
            raise KeyboardInterrupt
        text = "\n".join(message.content for message in messages)
        question = next(
            line.partition("Question: ")[2] or line.partition("问题：")[2]
            for line in text.splitlines()
            if line.startswith(("Question: ", "问题："))
        )
        case = next(
            candidate
            for candidate in self._cases[keep == 1, question]
            if all(
                passage in text or with_digits(passage) in text for passage in candidate.passages
            )
        )
        noise = random.Random(text).gauss(0, 1)
        yes = 1 / (1 + np.exp(-(2.0 + self._signal * case.holds + noise)))
        return np.array([yes, 1 - yes])


def _by_question() -> Mapping[tuple[bool, str], list[questions.GradingCase]]:
    groups: dict[tuple[bool, str], list[questions.GradingCase]] = {}
    for case in cases():
        groups.setdefault((case.graded == "relevance", case.question), []).append(case)
    return groups


Use = Callable[[Asked], Asked]


@pytest.fixture
def localrag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    run = in_process(tmp_path, monkeypatch)
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / "config.toml"))
    return run


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Let the commands have this model."""

    def chosen(llm: Asked) -> Asked:
        monkeypatch.setattr(factory, "make_model", lambda *_: factory.Model(llm, llm, lambda: None))
        return llm

    return chosen


def by_kind(report: Any) -> dict[tuple[str, str], Any]:
    return {
        (measurement["graded"], measurement["language"]): measurement
        for measurement in report["measured"]
    }


def test_a_model_is_calibrated_and_later_commands_know(
    localrag: Localrag, use: Use, tmp_path: Path
) -> None:
    use(Asked(signal=3.0))
    result = localrag("models", "calibrate", "--json")
    assert result.code == 0, result.err
    assert result.json["usable"]
    assert result.json["model"] == NAME
    measured = by_kind(result.json)
    assert len(measured) == 4
    for measurement in measured.values():
        assert measurement["auc"][0] > 0.9
        assert measurement["error_after"][0] < measurement["error_before"][0]
    (grades,) = (tmp_path / "xdg_data_home").rglob("grades-*.json")
    assert str(grades) in result.err
    # What was measured here comes before what localrag brings.
    calibration = factory.find_calibration(Settings(), factory.make_models())
    assert calibration is not None
    assert calibration != starter_calibration()
    assert calibration.curves["answerable", "zh"].slope > 0


def test_a_stopped_run_goes_on_where_it_was(localrag: Localrag, use: Use) -> None:
    use(Asked(signal=3.0, fails=300))
    assert localrag("models", "calibrate").code != 0
    again = use(Asked(signal=3.0))
    assert localrag("models", "calibrate").code == 0
    assert again.calls == len(cases()) - 299


def test_a_model_that_guesses_is_not_called_calibrated(localrag: Localrag, use: Use) -> None:
    use(Asked(signal=0.0))
    result = localrag("models", "calibrate")
    assert result.code == 1
    assert "is not calibrated" in result.out
    calibration = factory.find_calibration(Settings(), factory.make_models())
    assert calibration is not None
    assert not calibration.usable
    assert factory._scale(Settings(), factory.make_models()) is None


def test_a_model_behind_a_server_is_refused(localrag: Localrag) -> None:
    assert localrag("config", "set", "llm.backend", "openai").code == 0
    result = localrag("models", "calibrate")
    assert result.code == 2
    assert "shows no probabilities" in result.err


def test_a_model_that_is_not_there_is_named(localrag: Localrag) -> None:
    result = localrag("models", "calibrate", "no-such-model")
    assert result.code == 1
    assert "no-such-model" in result.err
