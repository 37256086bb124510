import random
import struct
from pathlib import Path

import pytest

from localrag.models.embeddings import unigram
from localrag.models.embeddings.wire import field_bytes, field_integer

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def piece(text: str, score: float, kind: int = NORMAL) -> bytes:
    body = field_bytes(1, text.encode()) + b"\x15" + struct.pack("<f", score)
    return field_bytes(1, body + field_integer(3, kind))


def model(*pieces: bytes, algorithm: int = 1, squeeze: int = 1) -> bytes:
    # A double array whose root leads to 256 units that match no byte: nothing is mapped.
    units = [256 << 10, *[1 << 31] * 511]
    charsmap = struct.pack("<I", 4 * len(units)) + struct.pack("<512I", *units)
    normaliser = field_bytes(2, charsmap) + field_integer(4, squeeze)
    specials = piece("<unk>", 0, UNKNOWN) + piece("<s>", 0, CONTROL)
    return (
        specials
        + b"".join(pieces)
        + field_bytes(2, field_integer(3, algorithm))
        + field_bytes(3, normaliser)
    )


def tokenizer(*pieces: bytes) -> unigram.UnigramTokenizer:
    tables = unigram.build(model(*pieces))
    assert tables is not None
    return unigram.from_tables(tables)


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
def test_other_kinds_of_model_are_left_to_the_operator(other: bytes) -> None:
    assert unigram.build(other) is None


def test_tables_survive_the_disk(tmp_path: Path) -> None:
    tables = unigram.build(model(piece("▁a", -3), piece("b", -3)))
    assert tables is not None
    unigram.save(tmp_path / "new" / "t.npz", tables)
    loaded = unigram.load(tmp_path / "new" / "t.npz")
    assert loaded is not None
    assert loaded.encode("ab a") == unigram.from_tables(tables).encode("ab a") == [2, 3, 2]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["t.npz"]


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\x93NUMPY"])
def test_a_damaged_cache_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.npz").write_bytes(content)
    assert unigram.load(tmp_path / "t.npz") is None
    assert unigram.load(tmp_path / "absent.npz") is None


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

    from localrag.models.embeddings import use_graph
    from localrag.models.embeddings.use import UniversalSentenceEncoder

    folder = models_dir("use-multilingual-v3")
    operator = UniversalSentenceEncoder(folder)
    file = use_graph.find_model_file(folder)
    assert file is not None
    tables = unigram.build(use_graph.sentencepiece_model(file))
    assert tables is not None
    subject = unigram.from_tables(tables)

    texts = awkward_texts()
    for name in ("xquad_zh", "xquad_en", "cmrc2018"):
        lines = (shared_data / name / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        texts += [json.loads(line)["text"] for line in lines[:1000]]
    expected = [ids[1:-1].tolist() for ids in operator._tokenise(texts)]
    assert len(texts) == 5000
    assert [subject.encode(text) for text in texts] == expected
