"""Decisions that are read from a model's hidden states."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.config.settings import AnswerSettings
from localrag.errors import BackendError, StoppedError
from localrag.models.llms.base import LAST, Activations, Attention
from localrag.models.llms.choices import LogitChooser, WrittenChooser
from localrag.models.llms.llama_cpp.context import BATCH
from localrag.models.llms.llama_cpp.model import LlamaCppModel, StatesOnDisk
from localrag.models.llms.probes import (
    POINTING_LAYERS,
    POINTS,
    Direction,
    Pointer,
    Probes,
    loaded,
    saved,
)
from localrag.models.registry.spec import catalogue
from localrag.rag.calibration import PROBE_CURVE, load_probes, starter_calibration
from localrag.rag.grading import Grader, Reading, likelihoods, relevance_prompt
from localrag.tables.membership import LISTS_DOCUMENTS
from localrag.tables.plan import FITS, Scope, scope
from localrag.types import Chunk, Message, ScoredChunk


class States:
    """A model whose states are given, and what it pays to the tokens of the kept messages."""

    def __init__(self, *states: Sequence[float], paid: Attention | None = None) -> None:
        self.states = [np.array(state, np.float32) for state in states]
        self.read: list[tuple[Sequence[Message], int, int]] = []
        self.paid = paid

    def activations(
        self,
        messages: Sequence[Message],
        layer: int,
        *,
        keep: int = 0,
        attending: range = range(0),
        shallow: bool = False,
    ) -> Activations:
        self.read.append((messages, layer, keep))
        return Activations(self.states.pop(0), self.paid if attending else None)


def along(*weights: float, bias: float = 0.0, layer: int = 4) -> Direction:
    return Direction(np.array(weights, np.float32), bias, layer)


SCOPES = {
    "about_all": along(1, 0, 0),
    "compares": along(0, 1, 0),
    "several": along(0, -1, 0),
    **{name: along(0, 0, 0) for name in ("LIST", "COUNT", "MAX")},
    "SUM": along(0, 0, 1),
}


def test_a_probability_is_read_along_a_direction() -> None:
    assert along(2, -1, bias=0.5).probability(np.array([1, 2.5], np.float32)) == 0.5
    assert along(1).probability(np.array([np.log(3)], np.float32)) == pytest.approx(0.75)
    assert 0.0 < along(1e6).probability(np.array([-1e6], np.float32)) < 1e-12


def test_one_state_decides_several_things() -> None:
    reader = States([2, -2, 0])
    probes = Probes(reader, SCOPES)
    messages = [Message("system", "s"), Message("user", "q")]
    yes, no = probes.probabilities(("about_all", "compares"), messages, keep=1) or ()
    assert yes + no == pytest.approx(1)
    assert reader.read == [(messages, 4, 1)]
    assert probes.probabilities(("about_all", "other"), messages) is None
    assert LogitChooser(ScriptedLLM(), probes).probe(("other",), messages) is None
    assert LogitChooser(ScriptedLLM(), probes).look("other", messages, keep=1) is None
    assert LogitChooser(ScriptedLLM()).probe(("about_all",), messages) is None
    assert WrittenChooser(ScriptedLLM()).probe(("about_all",), messages) is None


PASSAGE = "钟六点响。The bell."
PAID = Attention(
    # Two layers of a head each, to 钟, 六点, 响。T, he and " bell.".
    lambda: np.array([[[0.1, 0.2, 0.1, 0.0, 0.3]], [[0.0, 0.5, 0.0, 0.1, 0.1]]], np.float32),
    np.array([3, 9, 16, 18, 24]),
    PASSAGE.encode(),
)


def test_attention_to_a_part_is_that_to_its_tokens() -> None:
    (paid,) = (PAID.to("钟六点响。"),)
    assert paid is not None
    assert paid.tolist() == [[pytest.approx(0.4)], [pytest.approx(0.5)]], "half a token counts"
    whole, last = PAID.to(PASSAGE), PAID.to("bell.")
    assert whole is not None
    assert last is not None
    assert whole.sum(1).tolist() == pytest.approx([0.7, 0.7])
    assert last.sum(1).tolist() == pytest.approx([0.3, 0.1])
    assert PAID.to("") is None
    assert PAID.to("The clock.") is None
    twice = Attention(PAID.compute, np.array([1, 2, 3, 4, 5]), b"ababa")
    second = twice.to("ba")
    assert second is not None
    assert second.sum(1).tolist() == pytest.approx([0.3, 0.2]), "where it stands last"


def test_sentences_are_weighed_by_what_is_paid_to_them() -> None:
    pointer = Pointer(along(1, 1), PAID)
    first, second, absent = pointer.log_odds(["钟六点响。", "The bell.", "?"])
    assert first > second > absent == -np.inf
    assert first == pytest.approx(np.log(0.4) + np.log(0.5), abs=1e-3)


def test_one_reading_grades_a_passage_and_points() -> None:
    messages = [Message("system", PASSAGE), Message("user", "q")]
    relevance, points = along(1), along(1, 1)
    reader = States([0.0], paid=PAID)
    probability, pointer = looked(Probes(reader, {"relevance": relevance, POINTS: points}))
    assert (probability, pointer) == (0.5, Pointer(points, PAID))
    assert len(reader.read) == 1
    unfit = {"no such direction": {}, "of a layer behind": {POINTS: along(1, layer=5)}}
    for others in unfit.values():
        read = looked(Probes(States([0.0], paid=PAID), {"relevance": relevance, **others}))
        assert read == (0.5, None)
    of_last = {"relevance": along(1, layer=LAST), POINTS: points}
    assert looked(Probes(States([0.0], paid=PAID), of_last))[1] is not None
    nothing_shown = Probes(States([0.0]), {"relevance": relevance, POINTS: points})
    assert looked(nothing_shown) == (0.5, None)
    assert LogitChooser(ScriptedLLM()).look("relevance", messages, keep=1) is None
    assert WrittenChooser(ScriptedLLM()).look("relevance", messages, keep=1) is None


def looked(probes: Probes) -> tuple[float, Pointer | None]:
    read = probes.look("relevance", [Message("system", PASSAGE)], keep=1)
    assert read is not None
    return read


def test_how_likely_sentences_answer_sums_to_one_and_knows_how_a_prompt_writes_them() -> None:
    text = "共一百八十万元 [1]。钟六点响。"
    shown = "共一百八十万 (1,800,000)元 (1)。钟六点响。"
    tokens = np.arange(1, 1 + len(shown.encode()))
    paid = np.full((1, 1, len(tokens)), 0.01, np.float32)
    pointer = Pointer(along(1), Attention(lambda: paid, tokens, shown.encode()))
    passage = ScoredChunk(Chunk(1, "d", 0, text, "", 1, 1, 0, len(text)), 0.5, "s")
    sentences = ["共一百八十万元 [1]。", "钟六点响。"]
    likely = likelihoods(pointer, passage, "en", sentences)
    assert sum(likely) == pytest.approx(1)
    assert likely[0] > likely[1] > 0
    assert likelihoods(pointer, passage, "en", ["not there"]) == []
    assert likelihoods(pointer, passage, "en", []) == []


def test_what_is_saved_is_loaded() -> None:
    directions_made = {"a": replace(along(0.5, -2, bias=-1.25, layer=7), key="k"), "b": along(3)}
    directions = loaded(saved(directions_made))
    assert [directions[name].key for name in "ab"] == ["k", ""]
    assert sorted(directions) == ["a", "b"]
    assert directions["a"].weights.tolist() == [0.5, -2]
    assert directions["a"].weights.dtype == np.float32
    assert (directions["a"].bias, directions["a"].layer) == (-1.25, 7)


probed = partial(Scope, is_probed=True)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ((3, -3, 1), probed("SUM", pytest.approx(0.9526, abs=1e-4), ("sum", "average"))),
        ((3, 3, 1), probed("SUM", pytest.approx(0.9526, abs=1e-4), ("sum", "average"))),
        ((0, 3, 1), probed("COMPARE", 0.5, asks_one=True)),
        ((0, -0.5, 1), probed("COMPARE", 0.5)),
        ((0, -3, 1), probed("SEVERAL", 0.5)),
    ],
)
def test_states_say_whether_a_question_is_about_all(
    state: tuple[float, ...], expected: Scope
) -> None:
    llm = ScriptedLLM()
    chooser = LogitChooser(llm, Probes(States(state), SCOPES))
    assert scope("How much is it in all?", chooser) == expected
    assert not llm.scored


def test_a_passage_is_graded_by_the_models_state() -> None:
    """On the scale of the settings: their bound is the probability that was chosen for it."""
    passage = ScoredChunk(Chunk(1, "d", 0, "A", "", 1, 1, 0, 1), 0.5, "s")
    reader = States([0.0], [-9.0])
    grader = Grader(LogitChooser(ScriptedLLM(), Probes(reader, {"relevance": along(1)})))
    reading = Reading("en", (passage,))
    likely, unlikely = (grader.relevance("q", reading) for _ in range(2))
    assert likely.probability == 0.5
    assert likely.value > AnswerSettings().min_answerable > unlikely.value
    assert PROBE_CURVE.probability(AnswerSettings().min_answerable) == pytest.approx(0.35, abs=0.01)
    kept, task = reader.read[0][0]
    assert task.content == "Question: q", "nothing is asked of a model whose state is read"
    assert kept == relevance_prompt("q", reading)[0], "what is kept serves both"


def test_what_is_foreseen_is_what_a_grade_reads() -> None:
    passage = ScoredChunk(Chunk(1, "d", 0, "A", "", 1, 1, 0, 1), 0.5, "s")
    one, two = (Reading("zh", (passage,) * count) for count in (1, 2))
    probed, asked = (
        Grader(LogitChooser(ScriptedLLM(), probes))
        for probes in (Probes(States(), {"relevance": along(1)}), None)
    )
    assert probed.relevance_messages("谁？", one)[1].content == "问题：谁？"
    for grader, reading in ((probed, two), (asked, one)):
        expected = relevance_prompt("谁？", reading)
        assert grader.relevance_messages("谁？", reading) == expected


def test_the_model_itself_is_asked_of_several_passages_and_of_orders() -> None:
    """What was not among the cases that directions were fitted on."""
    passage = ScoredChunk(Chunk(1, "d", 0, "A", "", 1, 1, 0, 1), 0.5, "s")
    llm = ScriptedLLM(scores=[{"Yes": 0.9, "No": 0.1}, {"Yes": 0.3, "No": 0.7}])
    grader = Grader(LogitChooser(llm, Probes(States(), {"relevance": along(1)})))
    assert grader.relevance("q", Reading("en", (passage, passage))).value == pytest.approx(0.9)
    assert grader.own_relevance("q", Reading("en", (passage,))).value == pytest.approx(0.3)


def test_the_starters_directions_hold_for_the_prompts_of_this_version() -> None:
    """Where this fails, a prompt was changed: `benchmarks/probes.py` fits them anew."""
    spec = catalogue().find(starter_calibration().model)
    assert spec is not None
    weights = max(spec.files, key=lambda file: file.size or 0).sha256
    assert weights is not None
    directions = load_probes(weights)
    assert directions.keys() == {*SCOPES, "relevance", FITS, LISTS_DOCUMENTS, POINTS}
    shapes = {name: direction.weights.shape for name, direction in directions.items()}
    assert shapes.pop(POINTS) == (POINTING_LAYERS * 12,)
    assert set(shapes.values()) == {(1536,)}
    assert all(np.isfinite(direction.weights).all() for direction in directions.values())
    assert load_probes("0" * 64) == {}


def test_a_model_without_directions_counts_as_one_without_probes() -> None:
    def nothing(*_: object) -> None: ...

    local: Any = SimpleNamespace(
        close=nothing, forget=nothing, keeps_on_disk=False, for_call=lambda _: local
    )
    for directions, probed in (({}, False), ({"relevance": along(1)}, True)):
        assert factory._in_process(local, None, directions).chooser.is_probed == probed


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_state_does_not_hang_on_what_was_read_before(
    models_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    prompt = [Message("system", "The bell rings at noon."), Message("user", "When does it ring?")]
    other = [Message("system", "The bell rings at noon."), Message("user", "What rings?")]
    with LlamaCppModel(path, context_window=512, shows_states=True) as model:
        before = model.score_choices(prompt, ["Yes", "No"], keep=1)
        state = model.activations(prompt, 9, keep=1).state
        assert state.shape == (576,)
        assert state.dtype == np.float32
        assert not np.array_equal(state, model.activations(other, 9, keep=1).state)
        assert not np.array_equal(state, model.activations(prompt, 10, keep=1).state)
        assert np.array_equal(state, model.activations(prompt, 9, keep=1).state)
        assert np.array_equal(before, model.score_choices(prompt, ["Yes", "No"], keep=1))
        assert np.array_equal(state, model.activations(prompt, 9, keep=1).state)
        stop = threading.Event()
        stop.set()
        with pytest.raises(StoppedError):
            model.for_call(stop).activations(other, 9, keep=1)
        with pytest.raises(BackendError, match="shows no states"):
            model.activations(prompt, 30, keep=1)
        monkeypatch.setattr(model._context, "_remember", interrupted)
        model.forget()
        with pytest.raises(KeyboardInterrupt):
            model.activations(other, 9, keep=1)
        monkeypatch.undo()
        assert np.array_equal(before, model.score_choices(prompt, ["Yes", "No"], keep=1))
        assert np.array_equal(state, model.activations(prompt, 9, keep=1).state)
    with (
        LlamaCppModel(path, context_window=512) as model,
        pytest.raises(BackendError, match="shows no states"),
    ):
        model.activations(prompt, 9, keep=1)


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_what_is_read_up_to_a_layer_is_graded_alike_and_never_written_from(
    models_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    passage = Message("system", "The bell rings at noon, and in winter an hour later. " * 12)
    prompt = [passage, Message("user", "When does it ring in winter?")]
    disk = StatesOnDisk(tmp_path / "kv", 10**8, "0" * 64)

    def opened() -> LlamaCppModel:
        return LlamaCppModel(path, context_window=1024, shows_states=True, disk=disk)

    with opened() as model:
        tokens = model._prompt(prompt, thoughts=False).tokens
        prefix = tokens[: model._prefix_length(prompt, 1, tokens)]
        graded = model.activations(prompt, 9, keep=1, shallow=True, attending=range(4, 8))
        assert model._context.states.get(prefix) is None
        assert model._context.states.get(prefix, 8) is None, "another layer is another state"
        fork = model.for_call(None)
        again = fork.activations(prompt, 9, keep=1, shallow=True, attending=range(4, 8))
        assert fork.use.read < BATCH
        deeper = model.activations(prompt, 12, keep=1, shallow=True).state
        chosen = model.score_choices(prompt, ["Yes", "No"], keep=1)
    with opened() as model:  # both are on disk
        fork = model.for_call(None)
        whole = fork.activations(prompt, 9, keep=1, attending=range(4, 8))
        assert fork.use.read < BATCH
    (tmp_path / "kv").rename(tmp_path / "gone")
    with opened() as model:
        assert np.array_equal(chosen, model.score_choices(prompt, ["Yes", "No"], keep=1))
        assert np.array_equal(deeper, model.activations(prompt, 12, keep=1).state)
        first = model.activations(prompt, 9, keep=1, attending=range(4, 8))
    for other in (again, whole, first):
        assert np.array_equal(graded.state, other.state)
        assert graded.attention is not None
        assert other.attention is not None
        assert np.array_equal(graded.attention.shares, other.attention.shares)


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_mean_is_that_of_what_follows_the_kept_messages(
    models_dir: Callable[[str], Path],
) -> None:
    """However long it is, and whatever of it was read before; nothing of it stays in the cache."""
    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    message = Message("system", "The bell rings at noon.")
    long = [message, Message("user", "When does the bell ring? " * 30)]
    with LlamaCppModel(path, context_window=1024, shows_states=True) as model:
        whole, task = model.activations(long, 9).state, model.activations(long, 9, keep=1).state
        tokens = model._prompt(long, thoughts=False).tokens
        prefix = model._prefix_length(long, 1, tokens)
        assert len(tokens) - prefix > 2 * BATCH
        alone, _ = model._context.activations(tokens[:prefix], 9)
        weighted_mean = (alone * prefix + task * (len(tokens) - prefix)) / len(tokens)
        assert weighted_mean == pytest.approx(whole, rel=0.02, abs=0.05)
        model.score_choices(long, ["Yes", "No"], keep=1)
        assert np.array_equal(task, model.activations(long, 9, keep=1).state)
        assert len(model._context._cached) == prefix


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_attention_does_not_hang_on_what_was_read_before(
    models_dir: Callable[[str], Path],
) -> None:
    path = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    filler = "Nobody says who repaired the roof of the mill. " * 12
    system = Message("system", f"The bell rings at noon. {filler}")
    prompt, other = ([system, Message("user", text)] for text in ("When does it ring?", "Who?"))
    with LlamaCppModel(path, context_window=512, shows_states=True) as model:
        before = model.score_choices(prompt, ["Yes", "No"], keep=1)
        attention = model.activations(prompt, 9, keep=1, attending=range(10)).attention
        assert attention is not None
        assert attention.shares.shape == (10, 9, len(attention.ends))
        assert len(attention.ends) > BATCH, "read in several batches"
        assert system.content in attention.text.decode()
        assert (attention.shares >= 0).all()
        # Tokens pay to each other, too.
        assert (attention.shares.sum(-1) > 0.1).all()
        assert (attention.shares.sum(-1) < 1).all()
        behind_last = model.activations(prompt, LAST, keep=1, attending=range(10)).attention
        assert behind_last is not None
        assert behind_last.shares == pytest.approx(attention.shares, abs=1e-4)
        read = model.activations(other, 9, keep=1, attending=range(10))
        state, asked = read.state, read.attention
        assert np.array_equal(before, model.score_choices(prompt, ["Yes", "No"], keep=1))
        again = model.activations(prompt, 9, keep=1, attending=range(10)).attention
        assert again is not None
        assert np.array_equal(attention.shares, again.shares)
        model.forget()
        anew = model.activations(prompt, 9, keep=1, attending=range(10)).attention
        assert anew is not None
        assert np.array_equal(attention.shares, anew.shares)
        assert np.array_equal(state, model.activations(other, 9, keep=1).state)
        assert asked is not None
        assert not np.array_equal(attention.shares, asked.shares)
    with LlamaCppModel(path, context_window=512, kv_type="q8_0", shows_states=True) as model:
        of_8_bits = model.activations(prompt, 9, keep=1, attending=range(10)).attention
        assert of_8_bits is not None
        assert of_8_bits.shares == pytest.approx(attention.shares, abs=0.03)
    with (
        LlamaCppModel(path, context_window=512) as model,
        pytest.raises(BackendError, match="shows no states"),
    ):
        model.activations(prompt, 9, keep=1, attending=range(10))
