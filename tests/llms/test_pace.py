"""How fast a model is here: learnt from its calls, kept for the next process, never guessed."""

from __future__ import annotations

from pathlib import Path

import pytest

from localrag.models.llms.base import Pace, TokenUse
from localrag.models.llms.llama_cpp.context import BATCH, LlamaContext
from localrag.models.llms.llama_cpp.pace import MOST_READ, USUAL_REPLY, PaceRecord
from localrag.models.llms.llama_cpp.prefix_states import PrefixStates

CALL = TokenUse(read=200, kept=90, written=40, reading=4.0, writing=5.0)


def test_nothing_is_told_before_enough_was_read_and_written() -> None:
    record = PaceRecord()
    assert record.pace is None
    record.add(TokenUse(read=200, reading=4.0))
    assert record.pace is None
    record.add(TokenUse(written=40, writing=5.0))
    assert record.pace == Pace(50.0, 8.0, USUAL_REPLY)


def test_the_next_process_knows_it(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "model.pace"
    record = PaceRecord(path)
    record.save()
    assert not path.exists(), "there is nothing to keep"
    record.add(CALL)
    record.add_reply(30)
    record.add_reply(40)
    record.save()
    assert PaceRecord(path).pace == record.pace == Pace(50.0, 8.0, 32.0)
    assert b"90" not in path.read_bytes()


@pytest.mark.parametrize("content", ["", "{}", "[1]", '[{"read": "x"}, 1.0]', "[{}, 0.0]"])
def test_a_damaged_file_costs_a_forecast_and_nothing_else(tmp_path: Path, content: str) -> None:
    path = tmp_path / "model.pace"
    path.write_text(content)
    record = PaceRecord(path)
    assert record.pace is None
    record.add(CALL)
    record.save()
    assert PaceRecord(path).pace == Pace(50.0, 8.0, USUAL_REPLY)


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    record = PaceRecord(tmp_path / "file" / "model.pace")
    record.add(CALL)
    record.save()
    assert record.pace is not None


def test_a_machine_that_becomes_slower_is_believed_after_a_while() -> None:
    record = PaceRecord()
    record.add(TokenUse(MOST_READ, 0, 4000, 200.0, 400.0))
    assert record.pace == Pace(100.0, 10.0, USUAL_REPLY)
    for _ in range(40):
        record.add(TokenUse(1000, 0, 200, 100.0, 200.0))
    assert record.pace is not None
    assert 10.0 <= record.pace.prefill < 11.0
    assert 1.0 <= record.pace.decode < 1.1


def held(cached: list[int], ends: list[int], states: PrefixStates) -> LlamaContext:
    """A context that holds these tokens, read up to these ends, of no model."""
    context = LlamaContext.__new__(LlamaContext)
    context._batch_size, context._states = BATCH, states
    context._cached, context._ends = cached, ends
    return context


def test_what_would_be_read_is_known_without_reading() -> None:
    prompt, states = list(range(200)), PrefixStates(100)
    assert held([], [], states).unread(prompt, keep=150) == 200
    states.put(prompt[:150], b"abc")
    assert held([], [], states).unread(prompt, keep=150) == 50
    assert held([], [], states).unread(prompt, keep=149) == 200
    assert held([], [], states).unread(prompt) == 200
    # Whole batches of the last prompt; its state where that goes further.
    other = [*range(130), 7, 7]
    assert held(other, [64, 128, 132], states).unread(prompt) == 72
    assert held(other, [64, 128, 132], states).unread(prompt, keep=150) == 50
