import random
import struct
from typing import Any

import pytest

from localrag.models.embeddings import unigram, use_conversion

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6

Piece = dict[str, Any]


def piece(text: str, score: float, kind: int = NORMAL) -> Piece:
    return {"piece": text, "score": score, "type": kind}


def model(*pieces: Piece, algorithm: int = 1, squeeze: bool = True) -> Any:
    # A double array whose root leads to 256 units that match no byte: nothing is mapped.
    units = [256 << 10, *[1 << 31] * 511]
    charsmap = struct.pack("<I", 4 * len(units)) + struct.pack("<512I", *units)
    return use_conversion._messages()["SentencePiece"](
        pieces=[piece("<unk>", 0, UNKNOWN), piece("<s>", 0, CONTROL), *pieces],
        trainer_spec={"model_type": algorithm},
        normalizer_spec={"precompiled_charsmap": charsmap, "remove_extra_whitespaces": squeeze},
    )


def tokenizer(*pieces: Piece) -> unigram.UnigramTokenizer:
    return unigram.UnigramTokenizer(unigram.tables(model(*pieces)))


def test_the_likeliest_segmentation_wins() -> None:
    subject = tokenizer(piece("▁a", -3), piece("b", -3), piece("ab", -9), piece("▁ab", -5))
    assert subject.encode("ab") == [5]
    subject = tokenizer(piece("▁a", -3), piece("b", -3), piece("ab", -9), piece("▁ab", -7))
    assert subject.encode("ab") == [2, 3]


def test_white_space_is_squeezed_and_marks_words() -> None:
    subject = tokenizer(piece("▁a", -3), piece("▁", -8), piece("a", -4))
    assert subject.encode("  a   a ") == [2, 2]
    assert subject.encode("") == subject.encode("   ") == []


def test_neighbouring_unknown_characters_are_one_token() -> None:
    subject = tokenizer(piece("▁", -2), piece("a", -3))
    assert subject.encode("象棋a棋") == [2, 0, 3, 0]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(model(piece("<0x00>", 0, BYTE)), id="bytes as fallback"),
        pytest.param(model(piece("a", -1), algorithm=2), id="byte pair encoding"),
        pytest.param(model(piece("a", -1), squeeze=0), id="white space kept"),
    ],
)
def test_other_kinds_of_model_are_left_to_the_operator(other: Any) -> None:
    assert unigram.tables(other) == {}


def awkward_texts() -> list[str]:
    """Made-up strings over every script, compatibility forms, emoji, spaces and controls."""
    chance = random.Random(7)
    letters = [chr(chance.randrange(1, 0xD800)) for _ in range(3000)]
    letters += [chr(chance.randrange(0x1F300, 0x1FA00)) for _ in range(200)]
    letters += list(" \t\n\u3000ａＡ①㈱ﷺ⼈⻓éÅǅ。，" * 20)
    return ["".join(chance.choices(letters, k=chance.randrange(40))) for _ in range(2000)]


@pytest.mark.models("use-multilingual-v3")
def test_same_tokens_as_the_operator(models_dir, shared_data) -> None:
    """The questions of three sets and awkward strings, against SentencePiece itself."""
    import json

    from localrag.models.embeddings.use import UniversalSentenceEncoder

    folder = models_dir("use-multilingual-v3")
    operator = UniversalSentenceEncoder(folder)
    subject = operator._light_tokenizer
    assert subject is not None

    texts = awkward_texts()
    for name in ("xquad_zh", "xquad_en", "cmrc2018"):
        lines = (shared_data / name / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        texts += [json.loads(line)["text"] for line in lines[:1000]]
    expected = [ids[1:-1].tolist() for ids in operator._tokenise(texts)]
    assert len(texts) == 5000
    assert [subject.encode(text) for text in texts] == expected
