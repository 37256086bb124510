"""The judge's steps with a scripted model."""

from __future__ import annotations

import json

import pytest
from scripted_llm import ScriptedLLM

from localrag.evaluation.judging.judge import Judge
from localrag.evaluation.judging.passages import pack
from localrag.evaluation.judging.statements import accepted, needs_rewriting, sentences
from localrag.models.llms.choices import ATTEMPTS, LogitChooser, WrittenChooser
from localrag.presentation.reports import reason

YES, NO = {"Yes": 0.9, "No": 0.1}, {"Yes": 0.2, "No": 0.8}


def said(*texts: str) -> str:
    return json.dumps({"statements": texts}, ensure_ascii=False)


def reading(model: ScriptedLLM, *, reasons: bool = False) -> Judge:
    return Judge(model, LogitChooser(model), reasons=reasons)


def test_a_sentence_of_several_claims_is_split() -> None:
    model = ScriptedLLM([said("法国位于西欧。", "法国的首都是巴黎。")])
    statements = reading(model).statements("法国在哪里？", "法国位于西欧，首都是巴黎。[1]", "zh")
    assert statements == ["法国位于西欧。", "法国的首都是巴黎。"]
    messages, options = model.history[0]
    assert options.schema is not None
    assert "[1]" not in messages[-1].content


def test_a_plain_sentence_needs_no_model() -> None:
    model = ScriptedLLM()
    text = (
        "- **The Thorn mill** was built in 1820. [2]\n- The Thorn mill burned down in 1902 [1].\n"
    )
    assert reading(model).statements("q", text, "en") == [
        "The Thorn mill was built in 1820.",
        "The Thorn mill burned down in 1902.",
    ]


@pytest.mark.parametrize(
    "reply",
    [
        said("The Thorn mill is the oldest of its kind in Europe."),
        said("The mill has two floors."),
        '{"statements": ["The mill has',
        "[]",
        "[" * 100_000 + "]" * 100_000,
    ],
    ids=["invents", "leaves out", "cut off", "other shape", "too deep"],
)
def test_a_model_that_is_not_faithful_leaves_the_sentence(reply: str) -> None:
    sentence = "The mill has two floors and belonged to a monastery."
    assert reading(ScriptedLLM([reply])).statements("q", sentence, "en") == [sentence]


def test_only_what_fits_is_shown_before_a_sentence() -> None:
    model = ScriptedLLM([said("The mill has two floors.")], context_window=480)
    answer = "The mill stands by the river. " * 60 + "It has two floors."
    assert reading(model).statements("Which mill has floors?", answer, "en")[-1] == (
        "The mill has two floors."
    )
    prompt = model.history[-1][0][-1].content
    assert "It has two floors." in prompt
    assert model.count_prompt_tokens(model.history[-1][0]) < 480


def test_verdicts_come_from_the_logits_behind_one_prefix() -> None:
    model = ScriptedLLM(scores=[YES, NO])
    findings = reading(model).supported(["the text"], ["one", "two"], "en")
    assert [finding.verdict for finding in findings] == [True, False]
    assert findings[0].probability == pytest.approx(0.9)
    assert model.kept == [1, 1]
    assert model.scored[0][0][0] == model.scored[1][0][0]
    assert "the text" in model.scored[0][0][0].content


def test_braces_in_a_document_mean_nothing() -> None:
    model = ScriptedLLM(scores=[YES])
    reading(model).supported(["{statement} {0}"], ["{text}"], "en")
    assert "{statement} {0}" in model.scored[0][0][0].content


def test_nothing_is_supported_by_nothing() -> None:
    model = ScriptedLLM()
    assert [f.verdict for f in reading(model).supported([], ["one"], "en")] == [False]
    assert reading(model).supported(["text"], [], "en") == []


def test_a_long_context_is_judged_in_parts_and_nothing_is_left_out() -> None:
    sentence_count = 120
    text = " ".join(f"Sentence number {n} stands here." for n in range(sentence_count))
    model = ScriptedLLM(scores=[NO, NO, YES] + [NO] * 40, context_window=512)
    finding = reading(model).supported([text], ["one"], "en")[0]
    assert finding.verdict is True
    assert len(model.scored) == 3
    model = ScriptedLLM(scores=[NO] * 60, context_window=512)
    assert reading(model).supported([text], ["one"], "en")[0].verdict is False
    prompt = " ".join(messages[0].content for messages, _ in model.scored)
    assert all(f"Sentence number {n} stands" in prompt for n in range(sentence_count))
    for messages, _ in model.scored:
        assert model.count_prompt_tokens(messages) <= 512


def test_what_leaves_no_room_is_unreadable_and_says_so() -> None:
    finding = reading(ScriptedLLM(context_window=256)).supported(["text"], ["x" * 2000], "en")[0]
    assert finding.verdict is None
    assert finding.unread == "too long"
    assert "Too long" in reason(finding)


def test_reasons_are_asked_for_negative_verdicts_only() -> None:
    model = ScriptedLLM(['{"reason": "It says two."}'], [YES, NO])
    findings = reading(model, reasons=True).supported(["text"], ["one", "two"], "en")
    assert [finding.reason for finding in findings] == ["", "It says two."]
    assert findings[1].probability == pytest.approx(0.2)
    assert len(model.history) == 1


def test_without_logits_a_verdict_is_written_and_asked_again() -> None:
    model = ScriptedLLM(["maybe", '{"verdict": "yes"}', '{"verdict": "no"}'])
    findings = Judge(model, WrittenChooser(model), reasons=False).supported(
        ["text"], ["one", "two"], "en"
    )
    assert [finding.verdict for finding in findings] == [True, False]
    assert findings[0].probability is None
    assert [options.seed for _, options in model.history] == [0, 1, 0]
    assert all(options.schema for _, options in model.history)


def test_what_stays_unreadable_is_neither_yes_nor_no() -> None:
    model = ScriptedLLM(["hm"] * ATTEMPTS)
    finding = Judge(model, WrittenChooser(model), reasons=True).supported(["text"], ["one"], "en")[
        0
    ]
    assert finding.verdict is None
    assert len(model.history) == ATTEMPTS


def test_useful_and_evasive() -> None:
    model = ScriptedLLM(scores=[YES, {"A": 0.7, "B": 0.3}])
    assert reading(model).useful("the reference", "the context", "en").verdict is True
    assert reading(model).evasive("一个回答", "zh").verdict is False
    useful, evasive = (messages for messages, _ in model.scored)
    assert "the context" in useful[0].content
    assert "the reference" in useful[1].content
    assert "一个回答" in evasive[0].content


@pytest.mark.parametrize(
    ("scores", "verdict", "asked"),
    [([YES], True, 1), ([NO, YES], True, 2), ([NO, NO], False, 2)],
)
def test_a_context_is_useful_for_a_sentence_of_the_reference(
    scores: list[dict[str, float]], verdict: bool, asked: int
) -> None:
    model = ScriptedLLM(scores=scores)
    judgement = reading(model).useful("Yes. It has two floors. It was built in 1820.", "text", "en")
    assert judgement.verdict is verdict
    assert len(model.scored) == asked
    assert "It has two floors." in model.scored[0][0][1].content
    assert "1820" not in model.scored[0][0][1].content


@pytest.mark.parametrize("reference", ["Yes.", "1820", "**"])
def test_a_reference_of_a_word_is_asked_about_as_it_is(reference: str) -> None:
    model = ScriptedLLM(scores=[NO])
    assert reading(model).useful(reference, "text", "en").verdict is False
    assert reference.strip(".") in model.scored[0][0][1].content


def test_three_questions_or_none() -> None:
    reply = json.dumps({"questions": ["a?", "b?", "c?"]})
    assert reading(ScriptedLLM([reply])).questions("an answer", "en") == ["a?", "b?", "c?"]
    assert reading(ScriptedLLM(["{", reply])).questions("an answer", "en") == ["a?", "b?", "c?"]
    assert reading(ScriptedLLM(["{"] * ATTEMPTS)).questions("an answer", "en") is None
    assert reading(ScriptedLLM(context_window=64)).questions("an answer", "en") is None


def test_packing_keeps_order_and_every_character() -> None:
    def count(text: str) -> int:
        return len(text)

    texts = ["short", "One sentence. " * 10, "无" * 100, "end"]
    parts = pack(texts, 40, count)
    assert all(sum(len(piece) + 4 for piece in part) <= 40 for part in parts)
    content = "".join(piece for part in parts for piece in part)
    assert content.replace(" ", "") == "".join(texts).replace(" ", "")
    with pytest.raises(ValueError, match="does not fit"):
        pack(["ab"], 4, count)


@pytest.mark.parametrize(
    ("sentence", "needed"),
    [
        ("The mill was built in 1820.", False),
        ("It was built in 1820.", True),
        ("The mill, built in 1820, burned.", True),
        ("磨坊建于1820年。", False),
        ("它建于1820年。", True),
        ("磨坊建于1820年，有两层。", True),
        ("其他磨坊没有地窖。", False),
    ],
)
def test_which_sentences_need_the_model(sentence: str, needed: bool) -> None:
    assert needs_rewriting(sentence) is needed


def test_sentences_leave_out_what_claims_nothing() -> None:
    assert sentences("1. 磨坊有两层。\n---\n2. ok\n[1]") == ["磨坊有两层。", "ok"]
    assert accepted(["甲有两层。"], "它有两层。", "甲怎样？它有两层。") == ["甲有两层。"]
