"""One bit a dimension for each vector: what a large index is scanned by before it looks closer.

RaBitQ (Gao and Long, SIGMOD 2024) of vectors that were rotated at random, as FAISS has it. The
rotation is the same on every machine and there is no centre, so a code follows from its vector
alone: in whatever order and company vectors come, they have the same codes. Knows nothing of ids
or files.
"""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ROUNDS = 3
_BLOCK = 128
"""Vectors that are rotated together: as many as the processor's own memory holds."""

_QUERY_BITS = 8


class OneBitCodes:
    """Codes of vectors of one dimension; get one from `one_bit_codes`."""

    def __init__(self, dimension: int) -> None:
        self._width = 1 << (dimension - 1).bit_length()
        # From a hash and not from a generator, whose numbers may change with its version.
        drawn = hashlib.shake_256(b"localrag: the rotation").digest(_ROUNDS * self._width)
        bits = np.frombuffer(drawn, dtype=np.uint8).reshape(_ROUNDS, self._width, 1) & 1
        self._signs = 1 - 2 * bits.astype(np.float32)
        self._quantizer = self._empty()
        self.size = int(self._quantizer.code_size)
        """Bytes that a vector takes."""

    def encode(self, vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
        """The codes of vectors, shape (n, dimension); shape (n, size)."""
        blocks = [
            self._quantizer.sa_encode(self.rotated(vectors[start : start + _BLOCK]))
            for start in range(0, len(vectors), _BLOCK)
        ]
        return np.concatenate(blocks)

    def rotated(self, vectors: NDArray[np.float32]) -> NDArray[np.float32]:
        """Vectors or queries, shape (n, dimension), as `index` compares them; a wider shape.

        Three times random signs and a Hadamard transform, which spread each dimension over all.
        Only sums: a product of matrices may round a row otherwise in other company.
        """
        turned = np.zeros((self._width, len(vectors)), dtype=np.float32)
        turned[: vectors.shape[1]] = vectors.T
        for signs in self._signs:
            turned *= signs
            step = 1
            while step < self._width:
                pairs = turned.reshape(-1, 2, step, len(vectors))
                first, second = pairs[:, 0], pairs[:, 1]
                both = first + second
                np.subtract(first, second, out=second)
                first[...] = both
                step *= 2
        turned *= np.float32(self._width ** (-_ROUNDS / 2))
        return np.ascontiguousarray(turned.T)

    def index(self, codes: NDArray[np.uint8]) -> Any:
        """A FAISS index over codes of shape (n, size), by inner product as it is estimated."""
        return viewing(self._empty(), codes)

    def _empty(self) -> Any:
        import faiss

        index: Any = faiss.IndexRaBitQ(self._width, faiss.METRIC_INNER_PRODUCT)
        index.center = floats(np.zeros(self._width, dtype=np.float32))
        index.is_trained, index.qb = True, _QUERY_BITS
        return index


def floats(values: NDArray[np.float32]) -> Any:
    """Values of shape (n,) as FAISS takes them for what an index has learnt.

    To be assigned: where PyMuPDF was loaded first, a vector that is read from an index is of its
    class, as both are made with SWIG, and FAISS does not fill that.
    """
    import faiss

    vector = faiss.Float32Vector()
    faiss.copy_array_to_vector(values, vector)
    return vector


def viewing(index: Any, codes: NDArray[np.uint8]) -> Any:
    """Let an empty FAISS index look at codes, shape (n, bytes), where they lie.

    They are not copied; whoever holds the index holds them too.
    """
    import faiss

    wrapped: Any = faiss
    view = wrapped.MaybeOwnedVectorUInt8.create_view
    index.codes = view(wrapped.swig_ptr(codes), codes.nbytes, index.codes.owner)
    index.ntotal = len(codes)
    return index


@cache
def one_bit_codes(dimension: int) -> OneBitCodes:
    """The codes of that dimension."""
    return OneBitCodes(dimension)
