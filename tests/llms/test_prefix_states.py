"""Prefixes that come back: never a stale state, never more memory than allowed, same scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localrag.models.llms.base import Options
from localrag.models.llms.llama_cpp.chat_template import CHATML, ChatTemplate
from localrag.models.llms.llama_cpp.context import BATCH, _batch_ends
from localrag.models.llms.llama_cpp.model import LlamaCppModel
from localrag.models.llms.llama_cpp.prefix_states import PrefixStates
from localrag.types import Message


def test_only_exactly_the_same_tokens_have_a_state() -> None:
    states = PrefixStates(100)
    states.put([1, 2, 3], b"abc")
    assert states.get([1, 2, 3]) == b"abc"
    assert states.get([1, 2]) is None
    assert states.get([1, 2, 4]) is None
    assert states.get([1, 2, 3, 4]) is None


def test_the_longest_unused_go_first_and_the_bound_holds() -> None:
    states = PrefixStates(10)
    states.put([1], b"1234")
    states.put([2], b"1234")
    states.get([1])
    states.put([3], b"12345")
    assert states.get([2]) is None
    assert states.get([1]) == b"1234"
    assert states.size == 9
    states.put([1], b"12345")
    assert states.size == 10
    states.put([4], b"x" * 11)
    assert states.size <= 10


def test_batches_end_at_the_kept_prefix() -> None:
    assert _batch_ends(200, 0, 64) == [64, 128, 192, 200]
    assert _batch_ends(200, 100, 64) == [64, 100, 164, 200]
    assert _batch_ends(200, 128, 64) == [64, 128, 192, 200]
    assert _batch_ends(50, 49, 64) == [49, 50]
    assert _batch_ends(64, 0, 64) == [64]


@pytest.fixture(scope="module")
def model(models_dir: Callable[[str], Path]) -> Iterator[LlamaCppModel]:
    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    with LlamaCppModel(
        path, context_window=2048, kept_bytes=40 * 2**20, shows_states=True
    ) as model:
        yield model


def chat(passage: str, question: str) -> list[Message]:
    return [
        Message("system", f"You judge passages.\n\n{passage}"),
        Message("user", f"{question}\nReply only Yes or No."),
    ]


PASSAGES = [
    f"Passage {n}: " + f"the lamp of house {n} is lit at dusk. " * (10 + n) for n in range(4)
]
CHOICES = ("Yes", "No")


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_restored_prefix_gives_the_same_probabilities_bit_by_bit(model: LlamaCppModel) -> None:
    questions = ("Is it lit?", "Who lives there, and since when exactly?", "1 or 2?", "\n\nOdd?")
    fresh = {}
    for passage in PASSAGES:
        for question in questions:
            model._context.reset()
            model._context._states.clear()
            fresh[passage, question] = model.score_choices(
                chat(passage, question), CHOICES, keep=1
            ).tolist()
    reads: list[int] = []
    read_tokens = model._context.read
    model._context.read = lambda tokens, *, keep=0: reads.append(read_tokens(tokens, keep=keep))  # type: ignore[method-assign,assignment,return-value]
    try:
        for question in (*questions, *reversed(questions)):
            for passage in PASSAGES:
                again = model.score_choices(chat(passage, question), CHOICES, keep=1)
                assert again.tolist() == fresh[passage, question]
    finally:
        model._context.read = read_tokens  # type: ignore[method-assign]
    # The odd question melts into the seam, so its prefix is another one, one token shorter.
    usual = [*reads[4:12], *reads[20:]]
    assert max(usual) < BATCH, "from the second round on only question and task are read"


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_what_a_prompt_takes_is_known_before_it_is_read(model: LlamaCppModel) -> None:
    model._context.reset()
    model._context._states.clear()
    for again in (False, True):
        for passage in PASSAGES:
            caller, messages = model.for_call(None), chat(passage, "Is it lit?")
            before = caller.prompt_use(messages, keep=1)
            caller.score_choices(messages, CHOICES, keep=1)
            assert (caller.use.read, caller.use.kept) == (before.read, before.kept)
            assert caller.use.reading > 0
            assert before.read < BATCH or not again
            caller.activations(messages, 3, keep=1)
            assert caller.use.kept == before.kept, "what it has read itself was not kept before"


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_other_calls_in_between_and_calls_without_keep_agree_with_themselves(
    model: LlamaCppModel,
) -> None:
    plain = [model.score_choices(chat(p, "Is it lit?"), CHOICES).tolist() for p in PASSAGES]
    for passage in PASSAGES:
        model.score_choices(chat(passage, "Is it lit?"), CHOICES, keep=1)
    again = [model.score_choices(chat(p, "Is it lit?"), CHOICES).tolist() for p in PASSAGES]
    assert again == plain


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_another_passage_or_rule_is_never_served_a_state_of_this_one(model: LlamaCppModel) -> None:
    before = model.score_choices(chat("The lamp is lit.", "Lit?"), CHOICES, keep=1)
    other = model.score_choices(chat("The lamp is out.", "Lit?"), CHOICES, keep=1)
    model._context.reset()
    model._context._states.clear()
    fresh = model.score_choices(chat("The lamp is out.", "Lit?"), CHOICES, keep=1)
    assert other.tolist() == fresh.tolist()
    assert other.tolist() != before.tolist()


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_memory_stays_within_its_bound(model: LlamaCppModel) -> None:
    states = model._context._states
    states.clear()
    for number in range(12):
        model.score_choices(chat(f"{number} " + "tea " * 400, "Tea?"), CHOICES, keep=1)
        assert states.size <= 40 * 2**20
    assert 0 < len(states) < 12


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("keep", [-1, 2, 5])
def test_what_cannot_be_kept(model: LlamaCppModel, keep: int) -> None:
    with pytest.raises(ValueError, match="can be kept"):
        model.score_choices(chat("x", "y"), CHOICES, keep=keep)


TEMPLATES = {
    "ChatML": CHATML,
    "Llama 3": (
        "{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>"
        "\n\n{{ message['content'] | trim }}<|eot_id|>{% endfor %}"
        "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
    ),
    "Gemma, no system role": (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role') }}{% endif %}"
        "{% for message in messages %}<start_of_turn>"
        "{{ 'model' if message['role'] == 'assistant' else message['role'] }}\n"
        "{{ message['content'] | trim }}<end_of_turn>\n{% endfor %}"
        "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
    ),
    "opens a thought": CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif"),
}


@pytest.fixture
def with_template(model: LlamaCppModel) -> Iterator[Callable[[str], LlamaCppModel]]:
    """The small model under another template: what it says is nonsense, what it reads is not."""
    own = model._template

    def choose(text: str) -> LlamaCppModel:
        model._template = ChatTemplate(text, model._context, bos_text="", eos_text="")
        return model

    yield choose
    model._template = own


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_passage_is_kept_under_any_template(
    with_template: Callable[[str], LlamaCppModel], name: str
) -> None:
    model = with_template(TEMPLATES[name])
    model._context.reset()
    model._context._states.clear()
    passage = PASSAGES[0].strip()
    questions = ["Is it lit?", "1 or 2?", "Who lives there?", "是谁点的灯？"]
    lengths = []
    for question in questions:
        messages = chat(passage, question)
        tokens = model._prompt(messages, thoughts=False).tokens
        length = model._prefix_length(messages, 1, tokens)
        prefix_bytes = b"".join(
            model._context.piece(token, special=True) for token in tokens[:length]
        )
        assert passage[:-1].encode() in prefix_bytes
        assert question.encode() not in prefix_bytes
        # What is kept is the same for every question, or it could not be found again.
        prefixes = [
            model._prompt(chat(passage, other), thoughts=False).tokens[:length]
            for other in questions
        ]
        assert set(prefixes) == {tokens[:length]}
        lengths.append(length)
    assert len(set(lengths)) == 1
    fresh = model.score_choices(chat(passage, questions[0]), CHOICES, keep=1)
    model.score_choices(chat("Another passage.", questions[0]), CHOICES, keep=1)
    again = model.score_choices(chat(passage, questions[0]), CHOICES, keep=1)
    assert again.tolist() == fresh.tolist()
    options = Options(max_tokens=3, keep=1)
    text = model.complete(chat(passage, questions[1]), options).text
    assert "<think>" not in text
    model._context.reset()
    model._context._states.clear()
    assert model.complete(chat(passage, questions[1]), options).text == text


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_thought_that_the_template_opens_is_closed_before_a_choice(
    with_template: Callable[[str], LlamaCppModel],
) -> None:
    model = with_template(TEMPLATES["opens a thought"])
    messages = chat(PASSAGES[0], "Lit?")
    closed_prompt, thought = (
        model._prompt(messages, thoughts=thoughts) for thoughts in (False, True)
    )
    ending = b"".join(
        model._context.piece(token, special=True) for token in closed_prompt.tokens[-12:]
    )
    assert ending.endswith(b"<think>\n\n</think>\n\n")
    assert thought.thinking
    assert not closed_prompt.thinking
    assert closed_prompt.tokens[: len(thought.tokens)] == thought.tokens
