"""Comparing two ways to answer: questions read, pairs judged in both orders, facts, analysis."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from mode_answers import MODES, REFUSAL, compared, comparison, self_rag, standard, way
from scripted_llm import ScriptedLLM

from localrag.errors import BackendError, UsageError
from localrag.evaluation.comparisons.base import (
    Compared,
    ComparedQuestion,
    Comparison,
    Stage,
    asked_with,
    compare,
    read_questions,
)
from localrag.evaluation.comparisons.modes import better_way, gather, in_mode, kind_of
from localrag.evaluation.comparisons.pairs import CRITERIA, PairJudge, Verdict
from localrag.models.llms.choices import ATTEMPTS, LogitChooser, WrittenChooser
from localrag.presentation.comparisons import Section, decisions_line, of_modes
from localrag.types import Answer

ROOT = Path(__file__).resolve().parents[2]
QUESTION = "How many floors does the mill have?"

# -- questions ------------------------------------------------------------------------


def judge_of(llm: ScriptedLLM) -> PairJudge:
    return PairJudge(llm, LogitChooser(llm))


def test_questions_of_every_kind_of_file(tmp_path: Path) -> None:
    rows = [
        {"question": "One?", "ideal_answer": "Two.", "reference": "Chapter 1", "has_answer": True},
        {"question": "Two?", "reference": "Three."},
        {"question": "Three?", "answer": "Four."},
        {"question": "Four?", "ideal_answer": "The documents do not contain this information."},
        {"question": "Five?"},
    ]
    expected = [
        ComparedQuestion("One?", "Two.", True),
        ComparedQuestion("Two?", "Three.", True),
        ComparedQuestion("Three?", "Four.", True),
        ComparedQuestion("Four?", "The documents do not contain this information.", False),
        ComparedQuestion("Five?", "", None),
    ]
    as_json, as_lines = tmp_path / "q.json", tmp_path / "q.jsonl"
    as_json.write_text(json.dumps(rows), encoding="utf-8")
    as_lines.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    assert read_questions(as_json) == read_questions(as_lines) == expected
    text = tmp_path / "q.txt"
    text.write_text("\ufeffOne?\r\n\n  谁？ \n", encoding="utf-8")
    assert read_questions(text) == [ComparedQuestion("One?"), ComparedQuestion("谁？")]


def test_the_questions_of_this_project_can_be_read() -> None:
    questions = read_questions(ROOT / "data" / "val.json")
    assert all(question.reference for question in questions)
    assert {question.answerable for question in questions} == {True, False}
    assert "Chapter" not in questions[0].reference


@pytest.mark.parametrize("content", [b"", b"\n \n", b"\xff\xfe\xff"])
def test_a_file_without_questions_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "q.txt"
    path.write_bytes(content)
    with pytest.raises(UsageError):
        read_questions(path)
    with pytest.raises(UsageError):
        read_questions(tmp_path / "absent.txt")


# -- the judge ------------------------------------------------------------------------


def scores(*first: float) -> list[dict[str, float]]:
    return [{"Answer A": probability, "Answer B": 1 - probability} for probability in first]


def judged(
    judge: PairJudge,
    first: str,
    second: str,
    reference: str = "",
    answerable: bool | None = None,
) -> tuple[Verdict, ...]:
    ways = [way(standard(text)) for text in (first, second)]
    return judge(ComparedQuestion(QUESTION, reference, answerable), "en", ways)


def test_a_preference_for_a_place_cancels() -> None:
    # Always A, by 9 to 1: whoever stands there.
    llm = ScriptedLLM(scores=scores(*[0.9] * 8))
    verdicts = judged(judge_of(llm), "Two. [1]", "Three. [2]")
    assert [verdict.probability for verdict in verdicts] == pytest.approx([0.5] * 4)
    assert [verdict.better for verdict in verdicts] == [None] * 4
    assert [verdict.criterion for verdict in verdicts] == list(CRITERIA)
    # The same log-odds for the place, and half as much for the first answer itself.
    bias, quality = 2.0, 1.0
    shown_first = 1 / (1 + 2.718281828 ** -(bias + quality))
    shown_second = 1 / (1 + 2.718281828 ** -(bias - quality))
    llm = ScriptedLLM(scores=scores(*[shown_first] * 4, *[shown_second] * 4))
    verdicts = judged(judge_of(llm), "Two.", "Three.")
    expected = 1 / (1 + 2.718281828**-quality)
    assert [verdict.probability for verdict in verdicts] == pytest.approx([expected] * 4)
    assert [verdict.better for verdict in verdicts] == [0] * 4


def test_both_orders_are_asked_one_after_the_other() -> None:
    llm = ScriptedLLM(scores=scores(*[0.1] * 4, *[0.9] * 4))
    verdicts = judged(judge_of(llm), "Two. [1]", "Three. [2]", reference="It has three.")
    assert [verdict.better for verdict in verdicts] == [1] * 4
    systems = [messages[0].content for messages, _ in llm.scored]
    assert len(set(systems)) == 2
    assert "Answer A: Two.\n\nAnswer B: Three." in systems[0]
    assert "Answer A: Three.\n\nAnswer B: Two." in systems[-1]
    assert "It has three." in systems[0]
    assert systems == sorted(systems, key=systems.index), "one order after the other"
    assert set(llm.kept) == {0}, "kept states are for passages"
    tasks = [messages[1].content for messages, _ in llm.scored]
    assert len(set(tasks)) == 4


def test_answers_that_say_the_same_need_no_judge() -> None:
    llm = ScriptedLLM()
    for pair in (("Two. [1]", "Two. [2]"), (REFUSAL, "文档中没有这个问题的答案。")):
        verdicts = judged(judge_of(llm), *pair)
        assert [(verdict.better, verdict.basis) for verdict in verdicts] == [
            (None, "same answer")
        ] * 4


def test_who_refuses_rightly_is_known_without_a_judge() -> None:
    llm = ScriptedLLM(scores=scores(0.5, 0.5))
    verdicts = judged(judge_of(llm), REFUSAL, "It has two floors.", answerable=False)
    assert [verdict.basis for verdict in verdicts] == ["known"] * 3 + ["judge"]
    assert [verdict.better for verdict in verdicts] == [0, 0, 0, None]
    llm = ScriptedLLM(scores=scores(0.5, 0.5, 0.5, 0.5))
    verdicts = judged(judge_of(llm), REFUSAL, "It has two floors.", answerable=True)
    assert [verdict.basis for verdict in verdicts] == ["known", "judge", "known", "judge"]
    assert [verdict.better for verdict in verdicts] == [1, None, 1, None]


def test_without_logits_two_orders_that_agree_make_a_verdict() -> None:
    as_given = ['{"answer": "Answer A"}', "Answer A is better.", *["both"] * ATTEMPTS]
    as_given.append('{"answer": "Answer B"}')
    swapped = ['{"answer": "Answer B"}', "I choose answer a", "Answer B", "Answer A"]
    llm = ScriptedLLM([*as_given, *swapped])
    verdicts = judged(PairJudge(llm, WrittenChooser(llm)), "Two.", "Three.")
    assert [verdict.better for verdict in verdicts] == [0, None, None, 1]
    assert [verdict.basis for verdict in verdicts] == ["judge", "judge", "unreadable", "judge"]
    assert verdicts[1].probability == pytest.approx(0.5)
    assert verdicts[2].probability is None


def test_what_does_not_fit_is_said() -> None:
    llm = ScriptedLLM(context_window=200)
    verdicts = judged(judge_of(llm), "Two. " * 400, "Three.")
    assert {verdict.basis for verdict in verdicts} == {"too long"}
    assert {verdict.probability for verdict in verdicts} == {None}


# -- the run --------------------------------------------------------------------------


def test_each_question_is_answered_in_both_modes_and_comes_when_it_is_done() -> None:
    calls: list[tuple[str, str]] = []
    stages: list[Stage] = []

    def write(mode: str, question: str) -> Answer:
        calls.append((mode, question))
        return standard("Two.") if mode == "standard" else self_rag("Two.")

    judge = PairJudge(ScriptedLLM(), WrittenChooser(ScriptedLLM()))
    questions = [asked_with("One?", ""), asked_with("二？", "Two.")]
    variants = [in_mode(mode, write) for mode in MODES]
    run = compare(questions, variants, judge, on_stage=stages.append)
    first = next(run)
    assert calls == [("standard", "One?"), ("self-rag", "One?")]
    second = next(run)
    assert (first.language, second.language) == ("en", "zh")
    assert second.asked.answerable is True
    assert [(stage.number, stage.name) for stage in stages[:3]] == [
        (1, "standard"),
        (1, "self-rag"),
        (1, "judge"),
    ]


def test_what_was_done_before_a_failure_has_come_out() -> None:
    answers = iter([standard("Two."), self_rag("Two.")])

    def write(mode: str, question: str) -> Answer:
        for answer in answers:
            return answer
        raise BackendError("The server went away.")

    judge = PairJudge(ScriptedLLM(), WrittenChooser(ScriptedLLM()))
    variants = [in_mode(mode, write) for mode in MODES]
    run = compare([ComparedQuestion("One?"), ComparedQuestion("Two?")], variants, judge)
    assert next(run).asked.question == "One?"
    with pytest.raises(BackendError):
        next(run)


# -- facts ----------------------------------------------------------------------------


def analysis(comparison: Comparison[Verdict]) -> tuple[Section, ...]:
    return of_modes(comparison).sections


def four_questions() -> list[Compared[Verdict]]:
    return [
        compared(
            standard("Two floors."),
            self_rag("Three floors, and a cellar."),
            *(0.3, 0.2, 0.1, 0.9),
            reference="Three floors and a cellar.",
            answerable=True,
        ),
        compared(
            standard("It cost 300 crowns."),
            self_rag(REFUSAL, relevant=0, used=False),
            *(0.9, 0.9, 0.9, 0.9),
            reference="The documents do not contain this information.",
            answerable=False,
        ),
        compared(
            standard("Roses are red.", grounded=False),
            self_rag("The wheel goes round.", needed=False, used=False, seconds=2.0),
            *(0.8, 0.5, 0.5, None),
            question="Write a poem about a mill.",
        ),
        compared(
            standard("In 1820."),
            self_rag("Nobody knows.", ratings=("no support",), used=False),
            *(0.9, 0.9, 0.9, 0.9),
            reference="In 1820.",
            answerable=True,
        ),
    ]


def test_the_better_way_counts_honesty_first_and_criteria_then() -> None:
    questions = four_questions()
    assert [better_way(question) for question in questions] == [1, 1, 0, 0]
    assert [kind_of(question, 1) for question in questions] == [
        "factual",
        "no answer",
        "creative",
        "factual",
    ]
    self_rag_answer = self_rag("About 300 crowns.", relevant=0, used=False)
    invented = compared(
        standard("300 crowns."), self_rag_answer, 0.9, 0.9, 0.9, 0.9, answerable=False
    )
    assert better_way(invented) == 1, "what is marked as not from the documents misleads less"
    assert better_way(compared(standard("a"), self_rag("b"), 0.9, 0.1, 0.5, None)) is None


def test_facts_add_up() -> None:
    facts = gather(comparison(*four_questions()))
    assert facts.overall.wins == (2, 2)
    assert facts.criteria["relevance"].wins == (3, 1)
    assert facts.criteria["concision"].count == 3
    assert facts.unread == 1
    assert facts.kinds["factual"].wins == (1, 1)
    assert facts.kinds["creative"].wins == (1, 0)
    assert facts.better == ((3, 4), (1, 2))
    assert facts.reasons[1] == {
        "honest": 1,
        "found": 0,
        "relevance": 1,
        "accuracy": 1,
        "completeness": 1,
        "concision": 0,
    }
    assert facts.reasons[0]["found"] == 1
    plain, self_rag_way = facts.ways
    assert (plain.seconds, self_rag_way.seconds) == (2.0, 5.0)
    assert plain.unanswerable == {"refused": 0, "without documents": 0, "from documents": 1}
    assert self_rag_way.unanswerable["refused"] == 1
    assert self_rag_way.f1 is not None
    assert plain.f1 is not None
    decisions = facts.decisions
    assert (decisions.not_needed, decisions.not_needed_wrongly) == (1, 0)
    assert (decisions.passages, decisions.relevant) == (15, 4)
    assert (decisions.none_relevant, decisions.none_relevant_rightly) == (1, 1)
    assert (decisions.candidates, decisions.rejected) == (2, 1)
    assert decisions.check_share == pytest.approx(12 / 20)
    assert json.loads(json.dumps(asdict(facts)))["unread"] == 1


# -- analysis -------------------------------------------------------------------------


def test_the_analysis_says_what_was_measured() -> None:
    sections = analysis(comparison(*four_questions()))
    assert len(sections) == 5
    result, better, worse, contributed, advice = ("\n".join(section.lines) for section in sections)
    assert "Better answer, by question: Self-RAG 2, the standard way 2, equal 0." in result
    assert "Self-RAG took 2.5 times as long" in result
    assert "do not answer: 1. Said so: Self-RAG 1, the standard way 0." in result
    assert "could not be read, or did not fit: 1." in result
    assert "tendency" in result
    assert "On 2 of 4 questions (number 1, 2)." in better
    assert "the documents lack the answer" in better
    assert "completeness (1)" in better
    assert "On 2 of 4 questions (number 3, 4)." in worse
    assert "documents not needed for 1 of 4" in contributed
    assert "4 of 15 passages were kept" in contributed
    assert "60%" in contributed
    assert "Factual questions: the standard way: no difference over 2" in advice
    assert "do not answer: Self-RAG (better at 1 of 1, worse at 0)." in advice
    assert "Creative requests and opinions: the standard way (better at 1 of 1" in advice


def test_the_analysis_speaks_the_language_of_the_questions() -> None:
    question = compared(standard("两层。"), self_rag("三层。"), question="几层？", language="zh")
    text = "\n".join(line for section in analysis(comparison(question)) for line in section.lines)
    assert "按问题计，更好的回答：Self-RAG 0，标准方式 0，相当 1。" in text
    assert "没有问到" in text
    assert "the standard way" not in text


def test_the_ways_may_come_in_the_other_order() -> None:
    question = compared(self_rag("Three."), standard("Two."), 0.9, 0.9, 0.9, 0.9)
    swapped = comparison(question)
    assert swapped.variants == ("self-rag", "standard")
    text = "\n".join(line for section in analysis(swapped) for line in section.lines)
    assert "Better answer, by question: Self-RAG 1, the standard way 0, equal 0." in text
    assert "Self-RAG took 3.0 times as long" in text


def test_decisions_in_one_line() -> None:
    assert decisions_line(standard("Two.")) == ""
    assert decisions_line(self_rag("Poem.", needed=False, used=False)) == (
        "documents not needed, none read"
    )
    assert decisions_line(self_rag("Two.")) == (
        "documents needed; 2 of 5 passages relevant; answers graded: 1, best score 19.0; "
        "1 of 1 sentences fully supported"
    )
    unsupported_answer = self_rag("Two.", ratings=("no support",), used=False)
    assert decisions_line(unsupported_answer).endswith(
        "none was supported, so not from the documents"
    )
