"""SentencePiece's unigram segmentation for short texts, without loading SentencePiece.

Loading the starter model's 128,000 pieces builds a trie and takes 0.2 to 0.4 s (`tokenizers`:
0.7 s), more than all else that a search does. A question needs a few hundred look-ups in
sorted pieces. The result is that of the SentencePiece operator, which passages go through; a
test compares them on real text.

Viterbi over unigram scores: Kudo 2018, https://arxiv.org/abs/1804.10959.
The character map is a Darts-clone double array, https://github.com/s-yata/darts-clone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SPACE = "▁"
_UNKNOWN_PENALTY = 10.0
_NORMAL, _UNKNOWN, _USER_DEFINED = 1, 2, 4
_UNIGRAM = 1


class UnigramTokenizer:
    """Over the arrays that `tables` makes."""

    def __init__(self, tables: Mapping[str, NDArray[Any]]) -> None:
        self._pieces = tables["pieces"]
        self._longest = self._pieces.dtype.itemsize // np.dtype("U1").itemsize
        self._ids = tables["ids"]
        self._scores = tables["scores"]
        self._trie = tables["trie"].data
        self._replacements = tables["replacements"].tobytes()
        self._unknown_id = int(tables["unknown_id"])
        self._unknown_score = float(self._scores.min()) - _UNKNOWN_PENALTY

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without begin and end marks."""
        text = self._normalise(text)
        size = len(text)
        # The best way to each place: its score, where its last piece begins, and that piece.
        best = [(0.0, 0, 0)] + [(-np.inf, 0, 0)] * size
        for start, end, piece, score in self._spans(text):
            # Scores are added in single precision, as SentencePiece does, so that ties fall alike.
            score = float(np.float32(best[start][0] + score))
            if score > best[end][0]:
                best[end] = score, start, piece
        ids: list[int] = []
        while size > 0:
            _, size, piece = best[size]
            # Neighbouring unknown characters are one unknown token.
            if not (ids and ids[-1] == piece == self._unknown_id):
                ids.append(piece)
        return ids[::-1]

    def _spans(self, text: str) -> Iterator[tuple[int, int, int, float]]:
        """Where each piece in the text begins and ends, by its beginning; its id and score."""
        places = [
            (start, end)
            for start in range(len(text))
            for end in range(start + 1, min(start + self._longest, len(text)) + 1)
        ]
        parts = np.array([text[start:end] for start, end in places], self._pieces.dtype)
        at = np.searchsorted(self._pieces, parts) % len(self._pieces)
        known = self._pieces[at] == parts
        rows = zip(
            places, known.tolist(), self._ids[at].tolist(), self._scores[at].tolist(), strict=True
        )
        for (start, end), is_piece, piece, score in rows:
            if is_piece:
                yield start, end, piece, score
            elif end == start + 1:
                yield start, end, self._unknown_id, self._unknown_score

    def _normalise(self, text: str) -> str:
        """Map characters, squeeze white space, mark word beginnings."""
        data, trie, out = text.encode(), self._trie, bytearray()
        at = 0
        while at < len(data):
            # The longest mapped prefix, else one byte: no key begins inside a character.
            mapped, after, node = data[at : at + 1], at + 1, _below(trie[0])
            for index in range(at, len(data)):
                node ^= data[index]
                unit = trie[node]
                if unit & 0x800000FF != data[index]:
                    break
                node ^= _below(unit)
                if unit >> 8 & 1:
                    begin = trie[node] & 0x7FFFFFFF
                    mapped = self._replacements[begin : self._replacements.index(0, begin)]
                    after = index + 1
            out += mapped
            at = after
        return "".join(_SPACE + word for word in out.decode().split(" ") if word)


def _below(unit: int) -> int:
    return unit >> 10 << ((unit & 0x200) >> 6)


def tables(model: Any) -> dict[str, NDArray[Any]]:
    """The arrays of a SentencePiece model, as the message of that name.

    Empty where the model asks for more than this module does: bytes as fallback, other
    treatment of white space, another algorithm. Pieces defined by the model's makers are
    left out: the starter model's are three placeholders that no text holds.
    """
    pieces, trainer, normalizer = model.pieces, model.trainer_spec, model.normalizer_spec
    charsmap = normalizer.precompiled_charsmap
    unknown = [index for index, piece in enumerate(pieces) if piece.type == _UNKNOWN]
    if (
        trainer.model_type != _UNIGRAM
        or trainer.treat_whitespace_as_suffix
        or not normalizer.add_dummy_prefix
        or not normalizer.remove_extra_whitespaces
        or not normalizer.escape_whitespaces
        or len(unknown) != 1
        or not charsmap
        or any(piece.type > _USER_DEFINED for piece in pieces)
    ):
        return {}
    normal = [index for index, piece in enumerate(pieces) if piece.type == _NORMAL]
    normal.sort(key=lambda index: pieces[index].piece)
    trie_size = int.from_bytes(charsmap[:4], "little")
    return {
        "pieces": np.array([pieces[index].piece for index in normal]),
        "ids": np.array(normal, np.int32),
        "scores": np.array([pieces[index].score for index in normal], np.float32),
        "trie": np.frombuffer(charsmap, "<u4", trie_size // 4, 4).astype(np.uint32),
        "replacements": np.frombuffer(charsmap, np.uint8, offset=4 + trie_size),
        "unknown_id": np.array(unknown[0]),
    }
