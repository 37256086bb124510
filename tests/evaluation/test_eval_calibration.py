"""The labelled set, and what a judge's verdicts on it come to."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fakes import HashEmbedder
from judging_llm import JudgingLLM

from localrag import factory
from localrag.config.settings import Settings
from localrag.errors import UsageError
from localrag.evaluation.judging import calibration
from localrag.evaluation.judging.gold_set import METRICS, GoldItem, gold_items
from localrag.evaluation.judging.judge import Judge
from localrag.evaluator.pipeline import model_fingerprint
from localrag.models.llms.choices import LogitChooser, WrittenChooser


def judge_of(model: JudgingLLM) -> Judge:
    return Judge(model, LogitChooser(model), reasons=False)


def test_the_labelled_set_is_large_balanced_and_in_both_languages() -> None:
    items = gold_items()
    assert len(items) >= 60
    counts = Counter((item.metric, item.language, item.kind) for item in items)
    assert len(counts) == len(METRICS) * 2 * 3
    assert min(counts.values()) >= 5
    assert len({(i.contexts, i.statement, i.question, i.answer) for i in items}) == len(items)
    for item in items:
        if item.metric == "answer_relevancy":
            assert item.question
            assert item.answer
        elif item.metric == "context_precision":
            assert item.question
            assert item.reference
            assert len(item.contexts) == 1
        else:
            assert item.statement
            assert item.contexts


def _asked(item: GoldItem) -> str:
    return item.statement or item.reference or item.question


class Right(JudgingLLM):
    """Knows the labels, errs with probability `wrong`, and is never quite certain."""

    def __init__(self, wrong: float = 0.0) -> None:
        super().__init__()
        self.wrong = wrong
        self.generator = random.Random(11)
        self.known = [
            (item.task, item.answer or "\n\n".join(item.contexts), _asked(item), item.label)
            for item in gold_items()
        ]

    def score_choices(self, messages, choices, *, keep=0):  # type: ignore[no-untyped-def]
        system, task = messages[0].content, messages[1].content
        label = next(
            label
            for kind, text, mark, label in self.known
            if system.endswith("\n" + text)
            and (kind == "evasive") == (choices == ("B", "A"))
            and (kind == "evasive" or mark in task)
        )
        if self.generator.random() < self.wrong:
            label = not label
        probability = 0.8 if label else 0.2
        return np.array([probability, 1 - probability])


def graded(judge: Judge) -> calibration.Trust:
    return calibration.calibrate("judge", "key" * 8, judge, HashEmbedder(), gold_items())


def test_a_good_judge_is_trusted_and_a_coin_is_not() -> None:
    model = Right()
    trust = graded(judge_of(model))
    for metric in trust.metrics:
        assert (metric.accuracy, metric.kappa, metric.unreadable) == (1.0, 1.0, 0)
        assert metric.calibration_error == pytest.approx(0.2)
        assert set(metric.by_kind.values()) == {1.0}
        assert metric.trusted or metric.metric == "answer_relevancy"
    coin = Right(wrong=0.5)
    for metric in graded(judge_of(coin)).metrics:
        assert metric.kappa < 0.4
        assert not metric.trusted
        assert metric.kappa_interval[0] <= metric.kappa <= metric.kappa_interval[1]


def test_the_order_of_answers_is_measured_for_relevancy_alone() -> None:
    model = Right()
    by_name = {metric.metric: metric for metric in graded(judge_of(model)).metrics}
    relevancy = by_name["answer_relevancy"]
    assert relevancy.ordering is not None
    assert relevancy.ordering > 0.5
    assert by_name["faithfulness"].ordering is None


def test_unreadable_verdicts_count_against_the_judge() -> None:
    model = JudgingLLM(unreadable="")  # no verdict can be read
    trust = graded(Judge(model, WrittenChooser(model), reasons=False))
    for metric in trust.metrics:
        assert metric.unreadable == metric.items
        assert metric.accuracy == 0.0
        assert metric.calibration_error is None
        assert not metric.trusted


def test_a_calibration_is_kept_for_its_judge(tmp_path: Path) -> None:
    model = Right(wrong=0.2)
    trust = graded(judge_of(model))
    calibration.save_trust(trust, tmp_path)
    assert calibration.load_trust(trust.key, tmp_path) == trust
    assert calibration.load_trust("other", tmp_path) is None
    assert trust.of("citation_recall") == trust.of("faithfulness")
    assert trust.of("f1") is None
    key, other = calibration.trust_key("a", "e"), calibration.trust_key("b", "e")
    assert key != other


@pytest.mark.models("use-multilingual-v3")
def test_the_starter_judge_comes_calibrated(
    models_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    """Fails when prompts or labelled set have changed: then calibrate anew and ship the file."""
    models_dir("use-multilingual-v3")
    embedder = factory.make_embedder(Settings(), factory.make_models())
    fingerprint = model_fingerprint(Settings())
    trust = calibration.load_trust(
        calibration.trust_key(fingerprint, embedder.fingerprint), tmp_path
    )
    assert trust is not None
    files = list((Path(calibration.__file__).parent / "gold").glob("trust-*.json"))
    assert len(files) == 1, "an old one is of no use"
    assert [metric.metric for metric in trust.metrics if not metric.trusted] == ["faithfulness"]
    assert all(metric.unreadable == 0 for metric in trust.metrics)


def test_a_damaged_calibration_is_named(tmp_path: Path) -> None:
    model = Right()
    path = calibration.save_trust(graded(judge_of(model)), tmp_path)
    for text in ("{", "[]", '{"judge": "j", "key": "k", "metrics": [{}]}'):
        path.write_text(text)
        with pytest.raises(UsageError, match=path.name):
            calibration.load_trust("key" * 8, tmp_path)
