"""What llama.cpp shows while it computes a batch: hidden states, and where tokens look."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import BackendError
from localrag.models.llms.base import LAST
from localrag.models.llms.llama_cpp.native import KVType

_KEYS = re.compile(rb"cache_k_l(\d+) \(view\) \(permuted\)")
"""The keys of a layer as attention takes them: "cache_k_l3 (view) (permuted)"."""
_QUERIES = re.compile(rb"Qcur-(\d+) \(view\) \(permuted\)")
"""Its queries: "Qcur-3 (view) (permuted)"."""
_TURNED = re.compile(rb"(?:node_\d+)?(?: \((?:reshaped|view)\))+ \(permuted\)")
"""The same where llama.cpp turns queries and keys, so that 8 bits say more of them: " (reshaped)
(view) (permuted)". It tells no layer, but stands right before its keys."""
_Q8_0 = np.dtype([("scale", "<f2"), ("values", "i1", 32)])
"""A block of numbers as ggml's type q8_0 has it."""


@dataclass(frozen=True, slots=True)
class Heads:
    """How attention is divided: heads of queries, those of keys that they share, width of each."""

    queries: int
    keys: int
    width: int

    @classmethod
    def of(cls, queries: int, keys: int, width: int) -> Heads | None:
        """Those of a model of that width, which its file says; None where it is divided otherwise.

        A recurrent model has none.
        """
        if not 0 < keys <= queries or queries % keys or width % queries:
            return None
        return cls(queries, keys, width // queries)


@dataclass(slots=True)
class Layer:
    """The queries of the tokens that look, in a layer, and the keys of all tokens up to the last.

    `queries` are those of each batch, shape (tokens, groups, heads of a group, width) float32,
    `keys` of shape (tokens in all, groups, width) float16 or float32.
    """

    queries: list[NDArray[np.float32]] = field(default_factory=list)
    keys: NDArray[np.floating[Any]] = field(default_factory=lambda: np.zeros((0, 0, 0), np.float16))

    def shares(self, kept: int) -> NDArray[np.float32]:
        """The mean of what the tokens pay to the first `kept`, shape (heads, kept)."""
        queries = np.concatenate(self.queries)
        count, groups, _, width = queries.shape
        # Products of matrices, a group of heads each, shape (groups, heads of it, tokens, keys).
        scores = queries.transpose(1, 2, 0, 3).reshape(groups, -1, width) @ (
            self.keys.astype(np.float32).transpose(1, 2, 0) / np.float32(np.sqrt(width))
        )
        scores = scores.reshape(groups, -1, count, len(self.keys))
        scores[..., -count:][..., ~np.tri(count, dtype=bool)] = -np.inf
        scores -= scores.max(-1, keepdims=True)
        np.exp(scores, out=scores)
        # Of what is kept alone are the shares wanted: a product sums them over the tokens.
        weights = 1 / (count * scores.sum(-1, keepdims=True))
        shares: NDArray[np.float32] = weights.swapaxes(-1, -2) @ scores[..., :kept]
        return shares.reshape(-1, kept)


def _shares(layers: Sequence[Layer], kept: int) -> NDArray[np.float32]:
    return np.stack([layer.shares(kept) for layer in layers])


class HiddenStates:
    """Adds up what all tokens of the batches make of a prompt that are read while it collects.

    Their hidden states behind a layer, and how much attention the heads of some layers up to it pay
    to the tokens before them. What comes behind the layer is not computed for these batches, so
    their tokens must leave the cache afterwards. `ggml` is the library that has llama.cpp's
    tensors, `kv_type` what type keys are kept as. What is read while it `stops` alone is computed
    as far, and adds nothing.
    """

    def __init__(self, c: Any, ggml: Any, kv_type: KVType) -> None:
        self._ggml = ggml
        self._kv_type = kv_type
        ggml.ggml_get_name.argtypes = [ctypes.c_void_p]
        ggml.ggml_get_name.restype = ctypes.c_char_p
        ggml.ggml_nelements.argtypes = [ctypes.c_void_p]
        ggml.ggml_nelements.restype = ctypes.c_int64
        tensor_get = ggml.ggml_backend_tensor_get
        tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        tensor_get.restype = None
        self.callback = c.llama_cpp.ggml_backend_sched_eval_callback(self._look)
        """Asked by llama.cpp about each tensor, and called once one that was wanted is there."""
        self._collects = self._stops = self._ended = self._failed = self._unseen = False
        self._name = b""
        self._width = 0
        self._sum = np.zeros(0)
        self._count = 0
        self._heads: Heads | None = None
        self._layers = range(0)
        self._kept = 0
        self._looks: dict[int, Layer] = {}
        self._queries: dict[int, int] = {}
        self._turned: int | None = None
        self._first = 0

    def begin(
        self,
        layer: int,
        width: int,
        heads: Heads | None = None,
        kept: int = 0,
        layers: range = range(0),
    ) -> None:
        """Begin a new sum of states behind a layer, by its number as `StateReader` has it.

        With `heads` also of their attention, in some `layers` up to it, to the first `kept` tokens.
        """
        self._name = b"result_norm" if layer == LAST else b"l_out-%d" % layer
        self._width, self._sum, self._count, self._failed = width, np.zeros(width), 0, False
        self._heads, self._layers, self._kept = heads, layers, kept
        self._looks, self._unseen = {layer: Layer() for layer in layers}, False

    def watch(self, *, collects: bool, stops: bool = False, first: int = 0) -> None:
        """Before a batch is read: whether its states are added, and how many tokens stand before.

        These have the first places of the cache, in their order. Whether it `stops` behind the
        layer without that.
        """
        self._collects, self._stops = collects, stops or collects
        self._ended, self._first = False, first
        # A graph that was built anew has others.
        self._queries.clear()
        self._turned = None

    def mean(self) -> NDArray[np.float32]:
        """The mean of what was collected, shape (width,). Raises `BackendError` for nothing."""
        if self._failed or not self._count:
            raise BackendError("llama.cpp shows no states of this model.")
        return (self._sum / self._count).astype(np.float32)

    def attention(self) -> Callable[[], NDArray[np.float32]] | None:
        """What computes the mean of what tokens pay to each kept one, shape (layers, heads, kept).

        None where it was not shown. Handed over: a second time there is nothing.
        """
        looks, self._looks = list(self._looks.values()), {}
        # A layer may attend to nothing, or in another way.
        batches = {len(layer.queries) for layer in looks}
        if self._unseen or len(batches) != 1 or 0 in batches:
            return None
        return partial(_shares, looks, self._kept)

    def _look(self, tensor: int, asked: bool, _: object) -> bool:
        if not self._stops:
            return False
        # A batch may be computed in several parts: each that follows ends with its first tensor.
        if asked and self._ended:
            return True
        name = self._ggml.ggml_get_name(tensor)
        is_last = name == self._name
        seen = None if is_last else self._seen(name)
        if asked:
            if self._heads and self._collects:
                self._note_queries(name, tensor)
            return is_last or bool(seen)
        if self._ended:
            return False
        self._ended = seen is None
        try:
            if seen:
                self._attend(int(seen[1]), tensor)
            elif self._collects:
                self._add(tensor)
        except Exception:  # raised here it would be lost; `mean` raises, `attention` gives None
            if seen:
                self._unseen = True
            else:
                self._failed = True
        return not self._ended  # what follows is not needed

    def _note_queries(self, name: bytes, tensor: int) -> None:
        """Keep those that a layer has: by their name, or right before its keys."""
        if named := _QUERIES.fullmatch(name):
            self._queries[int(named[1])] = tensor
        elif self._kv_type != "f16" and _TURNED.fullmatch(name):
            self._turned = tensor
        elif (keys := _KEYS.fullmatch(name)) and self._turned is not None:
            # Also of a layer that is not looked at: they are no other layer's.
            self._queries[int(keys[1])], self._turned = self._turned, None

    def _seen(self, name: bytes) -> re.Match[bytes] | None:
        """The keys of one of the layers whose attention is wanted."""
        seen = _KEYS.fullmatch(name) if self._heads and self._collects else None
        return seen if seen and int(seen[1]) in self._layers else None

    def _add(self, tensor: int) -> None:
        rows = self._numbers(tensor).reshape(-1, self._width)
        self._sum += rows.sum(0, dtype=np.float64)
        self._count += len(rows)

    def _attend(self, layer: int, tensor: int) -> None:
        """Keep the queries of a batch and the keys before and in it: the cache will have others."""
        heads = self._heads
        assert heads is not None  # noqa: S101 - else no layer is looked at
        queries = self._numbers(self._queries[layer])
        queries = queries.reshape(-1, heads.keys, heads.queries // heads.keys, heads.width)
        last = self._first + len(queries)
        keys = self._keys(tensor, last * heads.keys * heads.width)
        self._looks[layer].queries.append(queries)
        # Those of the batches before are among them.
        self._looks[layer].keys = keys.reshape(last, heads.keys, heads.width)

    def _keys(self, tensor: int, count: int) -> NDArray[np.floating[Any]]:
        """The first numbers of a tensor of keys."""
        if count > self._ggml.ggml_nelements(tensor):  # llama.cpp would end the process
            raise ValueError("fewer keys than tokens")
        if self._kv_type == "f16":
            return self._read(tensor, np.empty(count, np.float16))
        blocks = self._read(tensor, np.empty(count // 32, _Q8_0))
        keys: NDArray[np.float32] = blocks["values"] * blocks["scale"].astype(np.float32)[:, None]
        return keys

    def _numbers(self, tensor: int) -> NDArray[np.float32]:
        return self._read(tensor, np.empty(self._ggml.ggml_nelements(tensor), np.float32))

    def _read(self, tensor: int, numbers: NDArray[Any]) -> NDArray[Any]:
        self._ggml.ggml_backend_tensor_get(tensor, numbers.ctypes.data, 0, numbers.nbytes)
        return numbers
