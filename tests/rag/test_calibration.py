from __future__ import annotations

from pathlib import Path

import pytest
from scripted_llm import ScriptedLLM

from localrag.errors import UsageError
from localrag.languages import CODES
from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.models.registry.spec import catalogue
from localrag.prompts.own import Wording
from localrag.rag.calibration import (
    GRADED,
    Calibration,
    Curve,
    Measured,
    Scale,
    calibration_key,
    load_calibration,
    save_calibration,
    starter_calibration,
)
from localrag.rag.grading import Grader, Reading
from localrag.types import Chunk, Message, ScoredChunk

SHY = Curve(1.0, 2.0)
"""Of a model whose even odds mean e^2 to 1."""
PLAIN = Curve(1.0, 0.0)


def curves(curve: Curve) -> dict[object, Curve]:
    return {(kind, lang): curve for kind in GRADED for lang in CODES}


def measured(auc: float = 0.9, low: float = 0.8, slope: float = 1.0) -> Measured:
    return Measured(
        "relevance",
        "en",
        100,
        50,
        (auc, low, 1.0),
        (0.2, 0.1, 0.3),
        (0.1, 0.0, 0.2),
        Curve(slope, 0.5),
    )


READING = Reading("en", (ScoredChunk(Chunk(1, "d", 0, "A", "", 1, 1, 0, 1), 0.5, "s"),))


@pytest.mark.parametrize("grade", [0.0, 1e-9, 0.2, 0.5, 0.93, 1.0])
def test_a_curve_has_an_inverse(grade: float) -> None:
    curve = Curve(1.7, -0.4)
    assert curve.grade(curve.probability(grade)) == pytest.approx(grade, abs=1e-6)


def test_a_curve_is_the_logistic_function_of_log_odds() -> None:
    assert SHY.probability(0.5) == pytest.approx(0.880797)
    assert PLAIN.probability(0.3) == pytest.approx(0.3)


def test_grades_come_to_the_scale_of_the_starter() -> None:
    """What thresholds are compared with means the same for both models."""
    scale = Scale(curves(SHY), curves(PLAIN))  # type: ignore[arg-type]
    llm = ScriptedLLM([], [{"Yes": 1, "No": 1}] * 2)
    grader = Grader(LogitChooser(llm), scale=scale)
    alone = grader.relevance("?", READING)
    together = grader.answerable([Message("user", "?")], "en")
    for grade in (alone, together):
        assert grade.value == pytest.approx(0.880797)
        assert grade.probability == pytest.approx(0.880797)
        assert grade.told() == {"calibrated": True, "probability": 0.8808}


def test_the_starters_own_grades_stay_as_they_are() -> None:
    """To the last bit: its decisions are those of before."""
    own = starter_calibration().curves
    scale = Scale(own, starter_calibration().curves)
    for grade in (0.1, 0.4999999, 0.8, 0.85):
        for (kind, language), curve in own.items():
            assert scale.read(kind, language, grade) == (grade, curve.probability(grade))


@pytest.mark.parametrize("missing", ["own", "reference"])
def test_a_grade_that_was_not_measured_stays_and_says_so(missing: str) -> None:
    sides = {"own": curves(SHY), "reference": curves(PLAIN)}
    del sides[missing]["relevance", "en"]
    grader = Grader(
        LogitChooser(ScriptedLLM([], [{"Yes": 3, "No": 1}])),
        scale=Scale(**sides),  # type: ignore[arg-type]
    )
    grade = grader.relevance("?", READING)
    assert (grade.value, grade.told()) == (0.75, {"calibrated": False})


def test_without_a_calibration_grades_say_so() -> None:
    grader = Grader(LogitChooser(ScriptedLLM([], [{"Yes": 3, "No": 1}])))
    grade = grader.relevance("?", READING)
    assert (grade.value, grade.probability) == (0.75, None)
    assert grade.told() == {"calibrated": False}


def test_an_unread_reply_is_not_called_calibrated() -> None:
    grader = Grader(WrittenChooser(ScriptedLLM(["hm"] * 3)))
    grade = grader.answerable([Message("user", "?")], "en")
    assert (grade.value, grade.told()) == (1.0, {"unread": True})


@pytest.mark.parametrize(
    ("one", "usable"),
    [
        (measured(), True),
        (measured(auc=0.7, low=0.6), False),  # it may be hardly better than guessing
        (measured(slope=-1.0), False),
    ],
)
def test_a_model_without_signal_is_not_usable(one: Measured, usable: bool) -> None:
    assert Calibration("m", "k", (measured(), one)).usable is usable


def test_a_calibration_is_kept_by_what_it_was_measured_with(tmp_path: Path) -> None:
    key = calibration_key("abc", Wording())
    original = Calibration("model", key, (measured(),))
    assert load_calibration(key, tmp_path) is None
    save_calibration(original, tmp_path / "new")
    assert load_calibration(key, tmp_path / "new") == original
    own = Wording({("system", "zh"): "别的话"})
    keys = {calibration_key("abd", Wording()), calibration_key("abc", own)}
    assert all(load_calibration(other, tmp_path / "new") is None for other in keys)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"model": "m"}', "\x00"])
def test_a_damaged_calibration_is_named(tmp_path: Path, content: str) -> None:
    path = save_calibration(Calibration("m", "k" * 64, (measured(),)), tmp_path)
    path.write_text(content, "utf-8")
    with pytest.raises(UsageError, match="cannot be read"):
        load_calibration("k" * 64, tmp_path)


def test_the_starter_is_calibrated_with_the_prompts_of_this_version() -> None:
    """Where this fails, a prompt that asks for a grade was changed: measure the starter anew."""
    shipped = starter_calibration()
    spec = catalogue().find(shipped.model)
    assert spec is not None
    weights = max(spec.files, key=lambda file: file.size or 0).sha256
    assert weights is not None
    assert shipped.key == calibration_key(weights, Wording())
    assert load_calibration(shipped.key, Path("nowhere")) == shipped
    assert set(shipped.curves) <= set(curves(PLAIN))
    assert shipped.usable
    assert all(measurement.cases >= 40 for measurement in shipped.measured)
