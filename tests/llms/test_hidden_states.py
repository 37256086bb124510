"""Hidden states that llama.cpp shows while it computes, with a stand-in for its tensors."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from localrag.errors import BackendError
from localrag.models.llms.base import LAST
from localrag.models.llms.llama_cpp.hidden_states import Heads, HiddenStates
from localrag.models.llms.llama_cpp.native import KVType

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


def hidden(tensors: dict[int, tuple[bytes, Any]], kv_type: KVType = "f16") -> HiddenStates:
    c = SimpleNamespace(llama_cpp=SimpleNamespace(ggml_backend_sched_eval_callback=lambda f: f))
    return HiddenStates(c, tensor_functions(tensors), kv_type)


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


HEADS = Heads(queries=4, keys=2, width=5)


def attention_tensors(queries: Any, keys: Any, layer: int, at: int) -> dict[int, tuple[bytes, Any]]:
    return {
        at: (b"Qcur-%d (view) (permuted)" % layer, queries),
        at + 1: (b"cache_k_l%d (view) (permuted)" % layer, keys),
        at + 2: (b"l_out-%d" % layer, np.ones((len(queries), WIDTH), np.float32)),
    }


def softmax_of(queries: Any, keys: Any, first: int, kept: int) -> Any:
    """Attention to the first kept tokens, head by head and token by token."""
    shares = np.zeros((HEADS.queries, kept))
    for token, query in enumerate(queries):
        for head in range(HEADS.queries):
            scores = keys[: first + token + 1, head // 2] @ query[head] / np.sqrt(len(query[head]))
            exponentials = np.exp(scores - scores.max())
            shares[head] += (exponentials / exponentials.sum())[:kept]
    return shares


def test_attention_is_the_mean_of_the_shares_that_tokens_pay_to_kept_ones() -> None:
    random = np.random.default_rng(4)
    queries = random.normal(size=(5, HEADS.queries, HEADS.width)).astype(np.float32)
    keys = random.normal(size=(2, 32, HEADS.keys, HEADS.width)).astype(np.float16)
    tensors = {
        **attention_tensors(queries[:3], keys[0], 0, 10),
        **attention_tensors(queries[:3], keys[1], 1, 20),
        **attention_tensors(queries[3:], keys[0], 0, 30),
        **attention_tensors(queries[3:], keys[1], 1, 40),
    }
    hidden_states = hidden(tensors)
    hidden_states.begin(1, WIDTH, HEADS, kept=7, layers=range(2))
    hidden_states.watch(collects=False)
    assert computed(hidden_states, 10, 11, 12) == [10, 11, 12]
    for first, batch in ((7, (10, 11, 12, 20, 21, 22)), (10, (30, 31, 32, 40, 41, 42))):
        hidden_states.watch(collects=True, first=first)
        # The layers before the last one are computed to their ends.
        assert computed(hidden_states, *batch[:2]) == list(batch[:2])
        assert computed(hidden_states, *batch[2:]) == list(batch[2:])
    compute = hidden_states.attention()
    assert compute is not None
    attention = compute()
    assert attention.dtype == np.float32
    for layer in range(2):
        numbers = keys[layer].astype(np.float32)
        expected = softmax_of(queries[:3], numbers, 7, 7) + softmax_of(queries[3:], numbers, 10, 7)
        assert attention[layer] == pytest.approx(expected / 5, abs=1e-6)
    assert hidden_states.mean().tolist() == [1.0] * WIDTH


TURNED = b" (reshaped) (view) (permuted)"


def test_keys_of_8_bits_are_read_with_the_queries_that_stand_before_them() -> None:
    """llama.cpp turns both then, and what it makes of the queries has no name of its own."""
    random = np.random.default_rng(4)
    heads = Heads(queries=4, keys=2, width=16)
    queries = random.normal(size=(2, 5, 4, 16)).astype(np.float32)
    blocks = np.zeros((2, 32), [("scale", "<f2"), ("values", "i1", 32)])
    blocks["scale"] = random.uniform(0.01, 0.02, (2, 32))
    blocks["values"] = random.integers(-127, 128, (2, 32, 32))
    assert blocks.itemsize == 34
    stored = [np.frombuffer(layer.tobytes(), "i1") for layer in blocks]
    tensors = {}
    for layer in range(2):
        for start, end, at in ((0, 3, 10), (3, 5, 30)):
            place, part = at + 5 * layer, queries[layer, start:end]
            tensors |= attention_tensors(part, stored[layer], layer, place)
            tensors[place] = (TURNED, part)
    hidden_states = hidden(tensors, "q8_0")
    hidden_states.begin(1, WIDTH, heads, kept=7, layers=range(2))
    for first, at in ((7, 10), (10, 30)):
        hidden_states.watch(collects=True, first=first)
        assert computed(hidden_states, at, at + 1) == [at, at + 1]
        assert computed(hidden_states, at + 2, at + 5, at + 6) == [at + 2, at + 5, at + 6]
        assert computed(hidden_states, at + 7) == [at + 7]
    compute = hidden_states.attention()
    assert compute is not None
    for layer, shares in enumerate(compute()):
        numbers = blocks["values"][layer] * blocks["scale"][layer].astype(np.float32)[:, None]
        numbers = numbers.reshape(32, 2, 16)
        expected = softmax_of(queries[layer, :3], numbers, 7, 7)
        expected += softmax_of(queries[layer, 3:], numbers, 10, 7)
        assert shares == pytest.approx(expected / 5, abs=1e-6)


@pytest.mark.parametrize(
    ("kv_type", "name"),
    [
        ("f16", TURNED),
        ("f16", b"kqv-0 (permuted)"),
        ("q8_0", b"kqv-0 (permuted)"),
        ("q8_0", b"cache_v_l0 (view) (permuted)"),
    ],
)
def test_what_is_no_query_is_not_taken_for_one(kv_type: KVType, name: bytes) -> None:
    queries = np.ones((1, HEADS.queries, HEADS.width), np.float32)
    tensors = attention_tensors(queries, np.ones((4, 2, 5), np.float16), 0, 1)
    tensors[1] = (name, queries)
    hidden_states = hidden(tensors, kv_type)
    hidden_states.begin(0, WIDTH, HEADS, kept=2, layers=range(1))
    hidden_states.watch(collects=True, first=2)
    computed(hidden_states, 1, 2)
    computed(hidden_states, 3)
    assert hidden_states.attention() is None


def test_queries_that_tell_no_layer_serve_the_keys_behind_them_alone() -> None:
    heads = Heads(queries=4, keys=2, width=16)
    queries, stored = np.ones((1, 4, 16), np.float32), np.zeros(4 * 34, "i1")
    tensors = {
        **attention_tensors(queries, stored, 0, 1),
        **attention_tensors(queries, stored, 1, 11),
    }
    tensors[1] = (TURNED, queries)
    hidden_states = hidden(tensors, "q8_0")
    for layers, is_shown in ((range(1), True), (range(2), False), (range(1, 2), False)):
        hidden_states.begin(1, WIDTH, heads, kept=2, layers=layers)
        hidden_states.watch(collects=True, first=2)
        for part in ((1, 2), (3, 12), (13,)):
            computed(hidden_states, *part)
        assert (hidden_states.attention() is not None) == is_shown


@pytest.mark.parametrize("name", [b"kq-0", b"cache_k_l0 (view)"])
def test_attention_that_is_not_shown_is_none(name: bytes) -> None:
    queries = np.ones((1, HEADS.queries, HEADS.width), np.float32)
    tensors = attention_tensors(queries, np.ones((4, 2, 5), np.float16), 0, 1)
    tensors[2] = (name, tensors[2][1])
    hidden_states = hidden(tensors)
    hidden_states.begin(0, WIDTH, HEADS, kept=2, layers=range(1))
    hidden_states.watch(collects=True, first=2)
    computed(hidden_states, 1, 2, 3)
    assert hidden_states.attention() is None
    assert hidden_states.mean().tolist() == [1.0] * WIDTH


@pytest.mark.parametrize("shape", [(7,), (2, 2, 5)])
def test_keys_of_another_shape_are_an_error_and_no_attention(shape: tuple[int, ...]) -> None:
    queries = np.ones((1, HEADS.queries, HEADS.width), np.float32)
    tensors = attention_tensors(queries, np.ones(shape, np.float16), 0, 1)
    hidden_states = hidden(tensors)
    hidden_states.begin(0, WIDTH, HEADS, kept=2, layers=range(1))
    hidden_states.watch(collects=True, first=2)
    computed(hidden_states, 1, 2, 3)
    assert hidden_states.attention() is None


@pytest.mark.parametrize(
    ("queries", "keys", "width", "of_each"),
    [(12, 2, 1536, 128), (4, 4, 20, 5), (0, 0, 64, 0), (0, 2, 64, 0), (3, 2, 6, 0), (12, 2, 64, 0)],
)
def test_heads_are_those_that_a_model_divides_into(
    queries: int, keys: int, width: int, of_each: int
) -> None:
    """A file may say that there are none, or so many that nothing is left for each."""
    assert Heads.of(queries, keys, width) == (Heads(queries, keys, of_each) if of_each else None)
