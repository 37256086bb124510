"""Hidden states behind one layer, which llama.cpp shows while it computes a batch."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localrag.errors import BackendError
from localrag.models.llms.base import LAST


class HiddenStates:
    """Adds up the hidden states of all tokens of the batches that are read while it collects.

    What comes behind the layer is not computed for these batches, so their tokens must leave the
    cache afterwards. `ggml` is the library that has llama.cpp's tensors.
    """

    def __init__(self, c: Any, ggml: Any) -> None:
        self._ggml = ggml
        ggml.ggml_get_name.argtypes = [ctypes.c_void_p]
        ggml.ggml_get_name.restype = ctypes.c_char_p
        ggml.ggml_nelements.argtypes = [ctypes.c_void_p]
        ggml.ggml_nelements.restype = ctypes.c_int64
        tensor_get = ggml.ggml_backend_tensor_get
        tensor_get.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t]
        tensor_get.restype = None
        self.callback = c.llama_cpp.ggml_backend_sched_eval_callback(self._look)
        """Asked by llama.cpp about each tensor, and called once one that was wanted is there."""
        self._collects = self._ended = self._failed = False
        self._name = b""
        self._width = 0
        self._sum = np.zeros(0)
        self._count = 0

    def begin(self, layer: int, width: int) -> None:
        """Begin a new sum of states behind a layer, by its number as `StateReader` has it."""
        self._name = b"result_norm" if layer == LAST else b"l_out-%d" % layer
        self._width, self._sum, self._count, self._failed = width, np.zeros(width), 0, False

    def watch(self, *, collects: bool) -> None:
        """Before a batch is read: whether its states are added."""
        self._collects, self._ended = collects, False

    def mean(self) -> NDArray[np.float32]:
        """The mean of what was collected, shape (width,). Raises `BackendError` for nothing."""
        if self._failed or not self._count:
            raise BackendError("llama.cpp shows no states of this model.")
        return (self._sum / self._count).astype(np.float32)

    def _look(self, tensor: int, asked: bool, _: object) -> bool:
        if not self._collects:
            return False
        # A batch may be computed in several parts: each that follows ends with its first tensor.
        if asked:
            return self._ended or bool(self._ggml.ggml_get_name(tensor) == self._name)
        if not self._ended:
            self._ended = True
            try:
                self._add(tensor)
            except Exception:  # raised here it would be printed and lost; `mean` raises
                self._failed = True
        return False  # what follows is not needed

    def _add(self, tensor: int) -> None:
        states = np.empty(self._ggml.ggml_nelements(tensor), np.float32)
        self._ggml.ggml_backend_tensor_get(tensor, states.ctypes.data, 0, states.nbytes)
        rows = states.reshape(-1, self._width)
        self._sum += rows.sum(0, dtype=np.float64)
        self._count += len(rows)
