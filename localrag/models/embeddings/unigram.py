"""SentencePiece's unigram segmentation for short texts, without loading SentencePiece.

Loading the starter model's 128,010 pieces builds a trie and takes 0.2 to 0.4 s, more than
all else that a search does. A question needs a few hundred look-ups, which a binary search
over sorted bytes answers in a millisecond. The result is that of the SentencePiece operator,
which passages go through; a test compares them on real text.

Viterbi over unigram scores: Kudo 2018, https://arxiv.org/abs/1804.10959.
The character map is a Darts-clone double array, https://github.com/s-yata/darts-clone.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from localrag.models.embeddings.fingerprint import write_atomically
from localrag.models.embeddings.wire import fields

Tables = dict[str, NDArray[Any]]

_SPACE = "▁".encode()
_UNKNOWN_PENALTY = 10.0
_NORMAL, _UNKNOWN, _USER_DEFINED = 1, 2, 4


class _SortedPieces(Sequence[bytes]):
    """The pieces in byte order, as slices of one buffer."""

    def __init__(self, text: bytes, ends: memoryview) -> None:
        self._text = text
        self._ends = ends

    def __len__(self) -> int:
        return len(self._ends) - 1

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        return self._text[self._ends[index] : self._ends[index + 1]]


@dataclass(frozen=True)
class UnigramTokenizer:
    """`pieces[i]` are the bytes of `text` from `ends[i]` to `ends[i + 1]`, in byte order.

    `ids` (int32) and `scores` (float32) belong to the pieces; `unknown_id` and
    `unknown_score` to a character that no piece covers. `trie` (uint32) and
    `replacements` are the normaliser's character map.
    """

    text: bytes
    ends: memoryview
    ids: memoryview
    scores: memoryview
    trie: memoryview
    replacements: bytes
    unknown_id: int
    unknown_score: float

    @cached_property
    def _pieces(self) -> _SortedPieces:
        return _SortedPieces(self.text, self.ends)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, without begin and end marks."""
        data = self._normalise(text.encode("utf-8", "replace"))
        size = len(data)
        # Scores are added in single precision, as SentencePiece does, so that ties fall alike.
        best = [-math.inf] * (size + 1)
        came_from = [0] * (size + 1)
        piece_id = [0] * (size + 1)
        best[0] = 0.0
        start = 0
        while start < size:
            character_end = start + 1
            while character_end < size and data[character_end] & 0xC0 == 0x80:
                character_end += 1
            covered = False
            index = 0
            end = character_end
            while end <= size:
                prefix = data[start:end]
                index = bisect_left(self._pieces, prefix, index)
                if index == len(self._pieces):
                    break
                candidate = self._pieces[index]
                if candidate == prefix:
                    covered = covered or end == character_end
                    score = _single(best[start] + self.scores[index])
                    if score > best[end]:
                        best[end], came_from[end] = score, start
                        piece_id[end] = self.ids[index]
                elif not candidate.startswith(prefix):
                    break
                end += 1
                while end < size and data[end] & 0xC0 == 0x80:
                    end += 1
            if not covered:
                score = _single(best[start] + self.unknown_score)
                if score > best[character_end]:
                    best[character_end], came_from[character_end] = score, start
                    piece_id[character_end] = self.unknown_id
            start = character_end
        ids: list[int] = []
        at = size
        while at > 0:
            # Neighbouring unknown characters are one unknown token.
            if not (ids and ids[-1] == piece_id[at] == self.unknown_id):
                ids.append(piece_id[at])
            at = came_from[at]
        return ids[::-1]

    def _normalise(self, data: bytes) -> bytes:
        """Map characters, squeeze white space, mark word beginnings."""
        out = bytearray(_SPACE)
        after_space = True
        at = 0
        while at < len(data):
            mapped, at = self._map_prefix(data, at)
            if after_space:
                mapped = mapped.lstrip(b" ")
            if mapped:
                out += mapped.replace(b" ", _SPACE)
                after_space = mapped.endswith(b" ")
        while out.endswith(_SPACE):
            del out[-len(_SPACE) :]
        return bytes(out)

    def _map_prefix(self, data: bytes, at: int) -> tuple[bytes, int]:
        """The replacement of the longest mapped prefix of `data[at:]`, else its first character."""
        trie = self.trie
        node = _offset(trie[0])
        matched, value = 0, 0
        for index in range(at, len(data)):
            byte = data[index]
            node ^= byte
            unit = trie[node]
            if unit & 0x800000FF != byte:
                break
            node ^= _offset(unit)
            if unit >> 8 & 1:
                matched, value = index + 1, trie[node] & 0x7FFFFFFF
        if matched:
            return self.replacements[value : self.replacements.index(0, value)], matched
        end = at + 1
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end += 1
        return data[at:end], end


def _offset(unit: int) -> int:
    return unit >> 10 << ((unit & 0x200) >> 6)


def _single(value: float) -> float:
    return float(np.float32(value))


class _Piece(NamedTuple):
    data: bytes
    score: float
    kind: int


def build(model: bytes) -> Tables | None:
    """The tables of a serialised SentencePiece model.

    None where the model asks for more than this module does: bytes as fallback, other
    treatment of white space, another algorithm. Pieces defined by the model's makers are
    left out: the starter model's are three placeholders that no text holds.
    """
    pieces: list[_Piece] = []
    charsmap = b""
    for field in fields(model, 0, len(model)):
        if field.number == 1:
            pieces.append(_read_piece(model, field.start, field.end))
        elif field.number == 2:
            algorithm = [f.integer for f in fields(model, field.start, field.end) if f.number == 3]
            suffix = [f.integer for f in fields(model, field.start, field.end) if f.number == 24]
            if algorithm not in ([], [1]) or suffix not in ([], [0]):
                return None
        elif field.number == 3:
            for part in fields(model, field.start, field.end):
                if part.number == 2:
                    charsmap = model[part.start : part.end]
                elif part.number in (3, 4, 5) and not part.integer:
                    return None
    unknown = [index for index, piece in enumerate(pieces) if piece.kind == _UNKNOWN]
    if len(unknown) != 1 or not charsmap or any(piece.kind > _USER_DEFINED for piece in pieces):
        return None
    normal = [index for index, piece in enumerate(pieces) if piece.kind == _NORMAL]
    normal.sort(key=lambda index: pieces[index].data)
    (trie_size,) = struct.unpack_from("<I", charsmap)
    lengths = [len(pieces[index].data) for index in normal]
    return {
        "text": np.frombuffer(b"".join(pieces[index].data for index in normal), np.uint8),
        "ends": np.cumsum([0, *lengths], dtype=np.uint32),
        "ids": np.array(normal, np.int32),
        "scores": np.array([pieces[index].score for index in normal], np.float32),
        "trie": np.frombuffer(charsmap, "<u4", trie_size // 4, 4).astype(np.uint32),
        "replacements": np.frombuffer(charsmap, np.uint8, offset=4 + trie_size),
        "unknown_id": np.array(unknown, np.int32),
    }


def _read_piece(model: bytes, start: int, end: int) -> _Piece:
    data, score, kind = b"", 0.0, _NORMAL
    for field in fields(model, start, end):
        if field.number == 1:
            data = model[field.start : field.end]
        elif field.number == 2:
            (score,) = struct.unpack_from("<f", model, field.start)
        elif field.number == 3:
            kind = field.integer
    return _Piece(data, score, kind)


def from_tables(tables: Tables) -> UnigramTokenizer:
    """The tokenizer over the arrays that `build` made."""
    scores = tables["scores"]
    return UnigramTokenizer(
        text=tables["text"].tobytes(),
        ends=tables["ends"].data,
        ids=tables["ids"].data,
        scores=scores.data,
        trie=tables["trie"].data,
        replacements=tables["replacements"].tobytes(),
        unknown_id=int(tables["unknown_id"][0]),
        unknown_score=float(scores.min()) - _UNKNOWN_PENALTY,
    )


def load(path: Path) -> UnigramTokenizer | None:
    """The tokenizer that `save` wrote, or None where there is none that can be read."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return from_tables({name: archive[name] for name in archive.files})
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def save(path: Path, tables: Tables) -> None:
    """Write the tables for `load`. Raises OSError where the folder cannot be written."""
    buffer = io.BytesIO()
    np.savez(buffer, **tables)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())
