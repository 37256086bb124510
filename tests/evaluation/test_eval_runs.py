"""Scoring, runs, what is remembered of them, and what is reported."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from fakes import HashEmbedder
from judging_llm import JudgingLLM, Killed
from scripted_llm import ScriptedLLM

from localrag.cli.evaluation_tables import print_report
from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.errors import UsageError
from localrag.evaluation.advice import bad_cases, cause_of
from localrag.evaluation.call_cache import CachedModel, CallCache, key_of
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.estimate import JudgeSpeed, estimate_seconds
from localrag.evaluation.events import unheard
from localrag.evaluation.judging.judge import Judge
from localrag.evaluation.metric import Response, Score
from localrag.evaluation.results import EvaluatedRun, Report, differences
from localrag.evaluation.runner import TimeLeft, produce_answers, score_answers
from localrag.evaluation.scoring import METRICS, Scored, Scorer
from localrag.evaluator import pipeline as evaluated
from localrag.evaluator.evaluator import graded_passages
from localrag.factory import Model
from localrag.library.acting import acting, acting_as
from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.presentation.reports import remarks, render_page, report_json
from localrag.types import Message

FRANCE = Sample(
    "1",
    "法国在哪里？首都是什么？",
    "法国位于西欧，法国的首都是巴黎。[1]",
    (Context("法国位于西欧。"), Context("长城很长。")),
    ("法国位于西欧，法国的首都是巴黎。",),
)
MILL = Sample(
    "2",
    "When was the Thorn mill built?",
    "The Thorn mill was built in 1820. [1] The Thorn mill has three floors.",
    (Context("The Thorn mill was built in 1820 and has two floors."),),
    ("The Thorn mill was built in 1820.",),
    True,
)
MOON = Sample(
    "3",
    "Who owns the moon?",
    "The documents do not contain the answer to this question.",
    (Context("The moon is round."),),
    (),
    False,
)
SAMPLES = [FRANCE, MILL, MOON]


def quiet(done: int, total: int, left: float | None) -> None:
    pass


def given(sample: Sample) -> Response:
    return Response(sample.answer or "", sample.contexts)


def scorer(model: JudgingLLM, *, reasons: bool = True) -> Scorer:
    return Scorer(Judge(model, LogitChooser(model), reasons=reasons), HashEmbedder())


def values(scored_answer: Scored) -> dict[str, float | None]:
    return {name: score.value for name, score in scored_answer.scores.items()}


def test_the_worked_example_end_to_end() -> None:
    scored_answer = scorer(JudgingLLM()).score(FRANCE, given(FRANCE))
    scores = values(scored_answer)
    assert scores["faithfulness"] == 0.5
    assert scores["context_recall"] == 0.5
    assert scores["context_precision"] == 0.0  # no context alone holds the whole answer
    assert scores["exact_match"] == 1.0
    assert scores["refusal"] is None
    assert [statement.judgement.reason for statement in scored_answer.evidence.statements] == [
        "",
        "not there",
    ]
    assert (scores["citation_precision"], scores["citation_recall"]) == (0.0, 0.0)


def test_citations_are_judged_against_the_passages_they_name() -> None:
    scored_answer = scorer(JudgingLLM()).score(MILL, given(MILL))
    scores = values(scored_answer)
    assert scores["citation_precision"] == 1.0  # [1] bears out its sentence
    assert scores["citation_recall"] == 0.5  # the second sentence cites nothing
    assert scores["refusal"] == 1.0
    assert [citation.text for citation in scored_answer.evidence.citations] == [
        "The Thorn mill was built in 1820. [1]"
    ]


def test_a_refusal_is_no_statement_and_needs_no_judge() -> None:
    model = JudgingLLM(lives=0)
    scored_answer = scorer(model).score(MOON, given(MOON))
    assert {name for name, score in scored_answer.scores.items() if score.state == "scored"} == {
        "refusal"
    }
    assert scored_answer.scores["refusal"].value == 1.0
    answerable = Sample("4", "q", MOON.answer, MOON.contexts, (), True)
    scored_answer = scorer(model).score(answerable, given(answerable))
    assert scored_answer.scores["refusal"].value == 0.0
    assert scored_answer.scores["answer_relevancy"].value == 0.0


def test_an_evasive_answer_is_not_relevant() -> None:
    sample = Sample("1", "How many?", "I am not sure how many.", (), ("Two.",))
    scored_answer = scorer(JudgingLLM()).score(sample, given(sample))
    assert scored_answer.scores["answer_relevancy"].value == 0.0
    assert len(scored_answer.evidence.asked) == 3
    assert scored_answer.evidence.asked[0][1] > 0


def test_the_best_of_several_references_counts() -> None:
    sample = Sample("1", "When?", references=("In the spring of 1820", "1820", "Never"))
    scores = values(Scorer(None, None).score(sample, Response("1820.", ())))
    assert (scores["exact_match"], scores["f1"]) == (1.0, 1.0)
    scores = values(Scorer(None, None).score(sample, Response("In 1820", ())))
    assert scores["exact_match"] == 0.0
    assert scores["f1"] == pytest.approx(2 / 3)  # with "1820"; with the first one 4 / 7


def test_unreadable_is_counted_and_never_averaged() -> None:
    model = JudgingLLM(unreadable="巴黎")
    scorer_ = Scorer(Judge(model, WrittenChooser(model), reasons=False), HashEmbedder())
    run = score_answers(
        "a", SAMPLES, [given(sample) for sample in SAMPLES], scorer_, quiet, workers=3
    )
    summaries = {entry.name: entry for entry in run.summaries()}
    assert summaries["faithfulness"].unreadable == 1
    assert summaries["faithfulness"].undefined == 1
    assert summaries["faithfulness"].mean == 0.5
    assert [result.sample.id for result in run.scored] == ["1", "2", "3"]
    table = json.dumps(report_json(Report("d", "j", None, (run,))), allow_nan=False)
    assert "NaN" not in table


@pytest.mark.parametrize("workers", [1, 3])
def test_each_sample_is_scored_for_who_asked(workers: int) -> None:
    users = []

    def noting(*_: object) -> bool:
        users.append(acting.get())
        return False

    noting_scorer = Scorer(None, None, withheld=noting)
    with acting_as("ada"):
        score_answers(
            "a",
            SAMPLES,
            [given(sample) for sample in SAMPLES],
            noting_scorer,
            quiet,
            workers=workers,
        )
    assert users == ["ada"] * len(SAMPLES)


def test_nothing_scored_is_none_and_not_nan() -> None:
    run = score_answers("a", [MOON], [given(MOON)], scorer(JudgingLLM()), quiet)
    summary = next(entry for entry in run.summaries() if entry.name == "faithfulness")
    assert (summary.mean, summary.interval, summary.undefined) == (None, None, 1)


def test_only_wanted_metrics_and_no_judge() -> None:
    without = Scorer(None, None, ["f1", "refusal"]).score(MILL, given(MILL))
    assert list(without.scores) == ["f1", "refusal"]


def everything(store: CallCache, model: JudgingLLM) -> dict[str, Any]:
    remembered = CachedModel(model, model, "weights", store)
    judging = Scorer(Judge(remembered, remembered.chooser), HashEmbedder())
    run = score_answers("a", SAMPLES, [given(sample) for sample in SAMPLES], judging, quiet)
    return report_json(Report("d", "j", None, (run,)))


def test_a_killed_run_goes_on_with_the_same_numbers_and_pays_nothing_twice(tmp_path: Path) -> None:
    whole = JudgingLLM()
    with CallCache(tmp_path / "whole.sqlite") as store:
        uninterrupted = everything(store, whole)
    assert whole.calls > 12
    generator = random.Random(4)
    paid = 0
    kills = 0
    for _ in range(50):
        model = JudgingLLM(lives=generator.randint(1, 4))
        with CallCache(tmp_path / "killed.sqlite") as store:
            try:
                resumed = everything(store, model)
            except Killed:
                paid += model.calls
                kills += 1
                continue
        paid += model.calls
        break
    assert kills > 2
    assert resumed == uninterrupted
    assert paid == whole.calls


def test_other_weights_or_words_are_asked_anew(tmp_path: Path) -> None:
    with CallCache(tmp_path / "calls.sqlite") as store:
        first, second, third = JudgingLLM(), JudgingLLM(), JudgingLLM()
        everything(store, first)
        everything(store, second)
        assert second.calls == 0
        remembered = CachedModel(third, third, "other weights", store)
        Judge(remembered, remembered.chooser).supported(["text"], ["text"], "en")
        assert third.calls == 1
        assert remembered.computed == 1
    assert key_of("a", ["b"]) != key_of("a", "b")


def asks(text: str) -> tuple[list[Message], Options]:
    return [Message("user", text)], Options(max_tokens=9)


def test_a_stream_is_paid_for_once_and_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    model = ScriptedLLM(replies=["a whole reply", "a whole reply"])
    with CallCache(tmp_path / "calls.sqlite") as store:
        first = CachedModel(model, model, "weights", store)
        broken = first.stream(*asks("q"))
        assert next(broken) == "a w"
        broken.close()  # type: ignore[attr-defined]
        assert first.computed == 0
        assert list(first.stream(*asks("q"))) == ["a w", "hol", "e r", "epl", "y"]
        assert (first.computed, first.saved) == (1, 0.0)
        again = CachedModel(model, model, "weights", store)
        assert list(again.stream(*asks("q"))) == ["a whole reply"]
        assert again.computed == 0
        assert 0 < again.saved == again.seconds == first.seconds
    assert not model.replies


def under_test(settings: Settings, model: Model, cache: CallCache) -> evaluated.EvaluatedEngine:
    class Loaded(Engine):
        @property
        def model(self) -> Model:
            return model

    engine = Loaded(None, settings)  # type: ignore[arg-type]
    return evaluated.EvaluatedEngine(engine, cache, unheard)


def test_a_pipeline_pays_once_and_tells_what_it_took_at_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluated, "model_fingerprint", lambda settings: settings.llm.kv_type)
    model = ScriptedLLM(replies=["1820", "1821"])
    closings: list[bool] = []
    q8 = msgspec.convert({"llm": {"backend": "llama.cpp", "kv_type": "q8_0"}}, Settings)
    with CallCache(tmp_path / "calls.sqlite") as store:
        replies = []
        for settings in (Settings(), Settings(), q8):
            pipeline = under_test(
                settings, Model(model, model, lambda: closings.append(True)), store
            )
            assert pipeline.saved == 0.0
            wrapped = pipeline.model
            replies.append(("".join(wrapped.llm.stream(*asks("q"))), pipeline.saved > 0))
            wrapped.close()
            assert wrapped.scorer is wrapped.llm
    assert replies == [("1820", False), ("1820", True), ("1821", False)]
    assert closings == [True] * 3


def test_what_is_asked_twice_is_saved_once_and_only_if_it_was_computed_before(
    tmp_path: Path,
) -> None:
    messages, _ = asks("q")
    with CallCache(tmp_path / "calls.sqlite") as store:
        model = ScriptedLLM(scores=[{"Yes": 1}])
        first = CachedModel(model, model, "weights", store)
        for _ in range(2):
            first.score_choices(messages, ("Yes", "No"))
        assert (first.saved, first.computed) == (0.0, 1)
        again = CachedModel(model, model, "weights", store)
        for _ in range(2):
            again.score_choices(messages, ("Yes", "No"))
        assert 0 < again.saved == again.seconds / 2


def test_the_reader_of_a_stream_takes_no_time_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    clock.perf_counter = lambda: clock.now
    monkeypatch.setattr("localrag.evaluation.call_cache.time", clock)
    with CallCache(tmp_path / "calls.sqlite") as store:
        model = ScriptedLLM(replies=["six letters"])
        remembered = CachedModel(model, None, "weights", store)
        for _ in remembered.stream(*asks("q")):
            clock.now += 60
        assert remembered.seconds == 0


def test_a_budget_is_not_spent_on_what_is_remembered(tmp_path: Path) -> None:
    table = {"answer": {"mode": "self-rag"}, "self_rag": {"budget_seconds": 9}}
    with CallCache(tmp_path / "calls.sqlite") as store:
        model = Model(ScriptedLLM(), None, lambda: None)
        pipeline = under_test(msgspec.convert(table, Settings), model, store)
        assert pipeline.model is model
        assert pipeline.saved == 0.0


def test_a_file_that_is_no_store_is_named(tmp_path: Path) -> None:
    path = tmp_path / "calls.sqlite"
    path.write_bytes(b"not a database at all, but long enough to be looked at" * 40)
    with pytest.raises(UsageError, match=r"calls\.sqlite"):
        CallCache(path)


def test_a_place_where_nothing_can_be_kept_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path, tmp_path / "file" / "calls.sqlite"):
        with pytest.raises(UsageError, match="cannot be used to cache"):
            CallCache(path)


def test_what_is_on_disk_survives_without_closing(tmp_path: Path) -> None:
    store = CallCache(tmp_path / "calls.sqlite")
    store.put("k", {"甲": 1}, 2.0)
    with sqlite3.connect(tmp_path / "calls.sqlite") as other:
        assert other.execute("SELECT count(*) FROM calls").fetchone() == (1,)
    assert store.get("k") == ({"甲": 1}, 2.0)
    assert store.get("l") is None
    store.close()


class Asked:
    """A pipeline that counts."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def produce(self, sample: Sample) -> Response:
        self.asked.append(sample.question)
        if sample.answer is not None:
            return Response(sample.answer, (Context("found"),))
        return Response("It was 1820. [1]", (Context("text", "a.pdf", 2, 2),), 1.5)


def test_answers_come_from_the_data_set_the_store_or_the_pipeline(tmp_path: Path) -> None:
    pipeline = Asked()
    samples = [
        MILL,
        Sample("b", "new?", source="a.pdf", page=2),
        Sample("c", "half?", answer="An answer."),
    ]
    with CallCache(tmp_path / "calls.sqlite") as store:
        first = produce_answers(samples, pipeline.produce, store, "A", quiet)
        again = produce_answers(samples, pipeline.produce, store, "A", quiet)
        assert pipeline.asked == ["new?", "half?"]
        assert first == again
        assert first[1] == Response("It was 1820. [1]", (Context("text", "a.pdf", 2, 2),), 1.5)
        assert first[2] == Response("An answer.", (Context("found"),))
        produce_answers(samples, pipeline.produce, store, "B", quiet)
        assert len(pipeline.asked) == 4
    scored_answer = Scorer(None, None).score(samples[1], first[1])
    assert scored_answer.scores["page_reciprocal_rank"].value == 1.0


def test_progress_tells_the_time_left() -> None:
    calls: list[tuple[int, int, float | None]] = []
    now = iter([0.0, 4.0, 4.0, 9.0, 9.0])
    steps = TimeLeft(4, lambda *step: calls.append(step), lambda: next(now))
    steps.done()
    steps.done()  # from the cache: says nothing about the rest
    steps.done(2.0)
    steps.done()
    assert calls == [(0, 4, None), (1, 4, 12.0), (2, 4, 8.0), (3, 4, 3.0), (4, 4, 0.0)]


def made(name: str, scores: Sequence[float | None], metric: str = "faithfulness") -> EvaluatedRun:
    results = tuple(
        Scored(
            Sample(str(number), f"question {number}", answerable=True),
            Response("answer", (), 1.0 + number),
            {metric: Score(value, "undefined" if value is None else "scored")},
            scorer(JudgingLLM()).score(MOON, given(MOON)).evidence,
            False,
        )
        for number, value in enumerate(scores)
    )
    return EvaluatedRun(name, results)


def test_runs_within_chance_are_not_ranked() -> None:
    noisy = [0.1, 0.9, 0.4, 0.6, 0.5, 0.2, 0.8, 0.3]
    runs = made("a", noisy), made("b", [*noisy[1:], noisy[0]])
    (difference,) = differences(runs)
    assert not difference.ranked
    better = made("b", [value + 0.1 for value in noisy])
    (difference,) = differences([made("a", noisy), better])
    assert difference.ranked
    assert (difference.better, difference.worse) == ("b", "a")
    assert difference.mean == pytest.approx(0.1)
    (difference,) = differences([made("a", [0.5, None, 0.5]), made("b", [0.4, 0.9, 0.4])])
    assert difference.questions == 2


def test_of_several_runs_those_within_chance_are_named_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    noisy = [0.1, 0.9, 0.4, 0.6, 0.5, 0.2, 0.8, 0.3]
    runs = [
        made("a", noisy),
        made("b", [*noisy[1:], noisy[0]]),
        made("c", noisy[::-1]),
        made("best", [1.0] * 8),
    ]
    better, worse, also, unranked, widened = remarks(Report("d", "", None, tuple(runs)))
    assert {text.split(" by ")[0] for text in (better, worse, also)} == {
        f"faithfulness: best is better than {name}" for name in "abc"
    }
    assert unranked == (
        "Not ranked by faithfulness, because the differences are within chance: "
        "a and b; a and c; b and c."
    )
    assert "Bonferroni" in widened
    assert not any("Bonferroni" in text for text in remarks(Report("d", "", None, tuple(runs[:2]))))


@pytest.mark.parametrize(("questions", "ranked"), [(1, False), (5, False), (6, True)])
def test_a_few_questions_rank_nothing_even_where_all_agree(questions: int, ranked: bool) -> None:
    (difference,) = differences([made("a", [0.2] * questions), made("b", [0.9] * questions)])
    assert difference.interval[0] > 0
    assert difference.ranked == ranked


@pytest.mark.parametrize("answer", ["", " \n"])
def test_an_empty_answer_is_a_refusal_and_no_invention(answer: str) -> None:
    scored_answer = scorer(JudgingLLM()).score(MILL, Response(answer, MILL.contexts))
    assert (values(scored_answer)["answer_relevancy"], values(scored_answer)["refusal"]) == (
        0.0,
        0.0,
    )
    assert scored_answer.scores["faithfulness"].state == "undefined"
    assert cause_of(scored_answer) == "refused"
    scored_answer = scorer(JudgingLLM()).score(MOON, Response(answer, MOON.contexts))
    assert values(scored_answer)["refusal"] == 1.0
    assert cause_of(scored_answer) is None


@pytest.mark.parametrize(
    ("scores", "answerable", "refused", "cause"),
    [
        ({"context_recall": 0.2, "faithfulness": 0.1}, True, False, "retrieval missed"),
        ({"context_recall": 1.0, "context_precision": 0.2}, True, False, "retrieval noisy"),
        (
            {"context_recall": 1.0, "context_precision": 1.0, "faithfulness": 0.5},
            True,
            False,
            "unfaithful",
        ),
        ({"context_recall": 1.0, "answer_relevancy": 0.1}, True, False, "irrelevant"),
        ({"context_recall": 1.0}, True, True, "refused"),
        ({"page_reciprocal_rank": 0.0}, True, True, "retrieval missed"),
        ({}, False, False, "invented"),
        ({}, False, True, None),
        ({"context_recall": 1.0, "faithfulness": 1.0}, True, False, None),
    ],
)
def test_likely_causes(
    scores: dict[str, float], answerable: bool, refused: bool, cause: str | None
) -> None:
    scored_answer = Scored(
        Sample("1", "q", answerable=answerable),
        Response("a", ()),
        {name: Score(value, "scored") for name, value in scores.items()},
        scorer(JudgingLLM()).score(MOON, given(MOON)).evidence,
        refused,
    )
    assert cause_of(scored_answer) == cause


def test_bad_cases_are_worst_first_with_what_was_tried() -> None:
    run = made("a", [0.7, 0.0, 1.0, 0.4])
    cases = bad_cases(run, [made("b", [0.7, 0.9, 1.0, None])])
    assert [case.scored.sample.id for case in cases] == ["1", "3", "0"]
    (trial,) = cases[0].trials
    assert (trial.run, trial.before, trial.after) == ("b", 0.0, 0.9)
    assert cases[1].trials == ()


class Page(HTMLParser):
    """Collects what a page would load or run."""

    def __init__(self) -> None:
        super().__init__()
        self.outside: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.outside += [str(value) for name, value in attrs if name in ("src", "href")]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_is_one_file_with_everything_in_it(
    language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("localrag.messages", "localrag.presentation.pages"):
        monkeypatch.setattr(f"{module}.interface_language", lambda: language)
    wicked = Sample(
        "4",
        "<script>alert(1)</script>?",
        "x & y <b>",
        (Context("<img src=x>", "a<i>.pdf", 1, 1),),
        "z",
    )
    samples = [*SAMPLES, wicked]
    judging = scorer(JudgingLLM())
    runs = tuple(
        score_answers(name, samples, [given(sample) for sample in samples], judging, quiet)
        for name in ("one <A>", "two")
    )
    text = render_page(Report("<set>", "judge", None, runs, ("two",), 3.0))
    page = Page()
    page.feed(text)
    assert page.outside == []
    assert "script" not in page.tags
    assert "img" not in page.tags
    assert page.tags.count("svg") == 2  # no seconds are known, so no plot of them
    assert text.count("<details") == 8 + len(bad_cases(runs[0]))
    assert "$" not in text
    assert ("Worst cases first" if language == "en" else "先看差的") in text
    assert ("not supported" if language == "en" else "没有依据") in text


def test_time_is_plotted_where_it_is_known() -> None:
    page = Page()
    page.feed(render_page(Report("d", "", None, (made("a", [0.5, 0.6]),))))
    assert page.tags.count("svg") == 3


def test_an_estimate_grows_with_what_there_is_to_read() -> None:
    speed = JudgeSpeed(reading=50.0, writing=10.0)
    estimates = [
        estimate_seconds(
            samples,
            speed,
            passages=5,
            metrics=METRICS if judge else ["f1"],
            reasons=False,
        )
        for samples in ([MILL], [MILL, FRANCE], [Sample("1", "q")])
        for judge in (False, True)
    ]
    mill, mill_judged, _, two_judged, question_seconds, asked_judged = estimates
    assert mill == 0.0
    assert 0 < mill_judged < two_judged
    assert question_seconds == pytest.approx((5 * 190 + 150) / 50 + 80 / 10)
    assert question_seconds < asked_judged
    new = [Sample("1", "q")]
    graded_seconds = estimate_seconds(new, speed, passages=5, graded=10, metrics=[], reasons=False)
    assert graded_seconds == pytest.approx(question_seconds + 10 * (190 + 90) / 50)
    assert math.isfinite(asked_judged)


@pytest.mark.parametrize(
    ("table", "graded"),
    [
        ({}, 0),
        ({"reranker": {"kind": "llm", "candidates": 8}}, 8),
        ({"reranker": {"kind": "keyword"}}, 0),
        ({"answer": {"mode": "self-rag", "k": 4}}, 4),
        ({"answer": {"mode": "self-rag"}, "reranker": {"kind": "llm"}}, 10),
    ],
)
def test_an_estimate_knows_what_the_model_grades(table: dict[str, Any], graded: int) -> None:
    assert graded_passages(msgspec.convert(table, Settings)) == graded


@pytest.mark.parametrize("names", [("a", "b"), ("none", "keyword", "crossencoder", "llm", "self")])
def test_a_report_in_a_terminal_of_80_columns(
    names: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    monkeypatch.setenv("COLUMNS", "80")
    runs = tuple(made(name, [0.25, 0.75, 0.5]) for name in names)
    print_report(Report("d", "", None, runs))
    output = capsys.readouterr().out
    table = output.split("Not ranked")[0]
    assert all(len(line) <= 80 for line in table.splitlines())
    assert all(name in table for name in names)
    assert table.count("0.500 [0.25, 0.75] n=3") == len(names)
    assert table.count("2.0 s (median)") == len(names)


def test_a_refusal_that_may_be_right_is_no_bad_case() -> None:
    unknown = Sample("1", "Who owns the moon?")
    refusing = Response("The documents do not contain the answer to this question.", ())
    assert cause_of(Scorer(None, None).score(unknown, refusing)) is None
    answerable_sample = Sample("1", "Who owns the mill?", answerable=True)
    assert cause_of(Scorer(None, None).score(answerable_sample, refusing)) == "refused"


def test_without_a_judge_the_page_tells_whether_another_search_helped() -> None:
    sample = Sample("1", "When?", references=("1820",), source="a.md", page=1)
    runs = [
        EvaluatedRun(
            name, (Scorer(None, None).score(sample, Response("1", (Context("t", file, 1, 1),))),)
        )
        for name, file in (("before", "b.md"), ("after", "a.md"))
    ]
    (case,) = bad_cases(runs[0], runs[1:])
    assert case.cause == "retrieval missed"
    (trial,) = case.trials
    assert (trial.metric, trial.before, trial.after) == ("page_reciprocal_rank", 0.0, 1.0)


def test_a_context_without_a_page_has_none_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    contexts = (Context("one", "notes.txt"), Context("two", "a.pdf", 7, 7))
    scored_answer = Scorer(None, None).score(Sample("1", "q"), Response("a", contexts))
    page = render_page(Report("d", "", None, (EvaluatedRun("r", (scored_answer,)),)))
    assert "notes.txt<" in page
    assert "a.pdf, p. 7<" in page
