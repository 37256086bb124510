"""Hidden states that llama.cpp shows while it computes, with a stand-in for its tensors."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrag.errors import BackendError
from localrag.models.llms.base import LAST
from localrag.models.llms.llama_cpp.hidden_states import HiddenStates

WIDTH = 3


def tensor_functions(tensors: dict[int, tuple[bytes, Any]]) -> Any:
    """ggml's, for tensors that are known by a number."""

    def tensor_get(tensor: int, where: int, _: int, size: int) -> None:
        ctypes.memmove(where, tensors[tensor][1].ctypes.data, size)

    def get_name(tensor: int) -> bytes:
        return tensors[tensor][0]

    def nelements(tensor: int) -> int:
        return int(tensors[tensor][1].size)

    return SimpleNamespace(
        ggml_get_name=get_name, ggml_nelements=nelements, ggml_backend_tensor_get=tensor_get
    )


def states(*rows: float) -> Any:
    return np.repeat(np.array(rows, np.float32)[:, None], WIDTH, 1)


def hidden(tensors: dict[int, tuple[bytes, Any]]) -> HiddenStates:
    c = SimpleNamespace(llama_cpp=SimpleNamespace(ggml_backend_sched_eval_callback=lambda f: f))
    return HiddenStates(c, tensor_functions(tensors))


TENSORS = {
    1: (b"l_out-4", states(1, 2)),
    2: (b"l_out-5", states(7, 9)),
    3: (b"result_norm", states(4)),
    4: (b"l_out-5", states(5)),
    5: (b"l_out-6", np.zeros(4, np.float32)),
}


def computed(hidden_states: HiddenStates, *tensors: int) -> list[int]:
    """A part of a batch as llama.cpp computes it: which tensors it gets to."""
    for place, tensor in enumerate(tensors):
        if hidden_states.callback(tensor, True, None) and not hidden_states.callback(
            tensor, False, None
        ):
            return list(tensors[: place + 1])
    return list(tensors)


def test_the_states_of_all_batches_are_averaged_and_what_follows_is_left_out() -> None:
    hidden_states = hidden(TENSORS)
    hidden_states.begin(5, WIDTH)
    hidden_states.watch(collects=True)
    assert computed(hidden_states, 1, 2, 3) == [1, 2]
    assert computed(hidden_states, 3, 1) == [3], "another part of the batch ends at once"
    hidden_states.watch(collects=True)
    assert computed(hidden_states, 1, 4, 3) == [1, 4]
    hidden_states.watch(collects=False)
    assert computed(hidden_states, 1, 2, 3) == [1, 2, 3]
    assert hidden_states.mean().tolist() == [7.0] * WIDTH
    hidden_states.begin(LAST, WIDTH)
    hidden_states.watch(collects=True)
    computed(hidden_states, 1, 2, 3)
    assert hidden_states.mean().tolist() == [4.0] * WIDTH


def test_what_cannot_be_read_is_no_part_of_a_mean() -> None:
    hidden_states = hidden(TENSORS)
    hidden_states.begin(9, WIDTH)
    hidden_states.watch(collects=True)
    computed(hidden_states, 1, 2, 3)
    with pytest.raises(BackendError, match="shows no states"):
        hidden_states.mean()
    hidden_states.begin(6, WIDTH)
    hidden_states.watch(collects=True)
    computed(hidden_states, 5)  # four numbers are no rows of three
    with pytest.raises(BackendError, match="shows no states"):
        hidden_states.mean()
