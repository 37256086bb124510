"""A file that is no whole GGUF is named as such before llama.cpp sees it."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from localrag.errors import BackendError, ModelCorruptError, ModelNotFoundError
from localrag.models.llms.llama_cpp.gguf import check_gguf
from localrag.models.llms.llama_cpp.model import LlamaCppModel


def string(text: str) -> bytes:
    return struct.pack("<Q", len(text)) + text.encode()


def gguf(*, entries: list[bytes], tensors: list[bytes], version: int = 3, tail: int = 64) -> bytes:
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(entries))
    return head + b"".join(entries + tensors) + bytes(tail)


NAME = string("general.name") + struct.pack("<I", 8) + string("tiny")
WORDS = (
    string("words") + struct.pack("<IIQ", 9, 8, 2) + string("a") + string("水")[:0] + string("b")
)
NUMBERS = string("numbers") + struct.pack("<IIQ", 9, 4, 3) + bytes(12)
TENSOR = string("weight") + struct.pack("<IQIQ", 1, 8, 0, 0)


@pytest.mark.parametrize("version", [2, 3])
def test_a_whole_header_passes(tmp_path: Path, version: int) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf(entries=[NAME, WORDS, NUMBERS], tensors=[TENSOR], version=version))
    check_gguf(path)


def test_a_first_part_without_tensors_may_end_with_its_header(tmp_path: Path) -> None:
    path = tmp_path / "model-00001-of-00002.gguf"
    count = string("split.count") + struct.pack("<IH", 2, 2)
    path.write_bytes(gguf(entries=[count], tensors=[], tail=0))
    path.with_name("model-00002-of-00002.gguf").write_bytes(gguf(entries=[], tensors=[TENSOR]))
    check_gguf(path)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a GGUF"),
        (b"<!DOCTYPE html>" + bytes(100), "not a GGUF model: it begins with '<!DO'"),
        (b"GGUF", "version 0"),
        (gguf(entries=[], tensors=[], version=1), "version 1"),
        (struct.pack("<4sI", b"GGUF", 3), "damaged or incomplete"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 1 << 40, 1) + bytes(500), "damaged or incomplete"),
        (struct.pack("<4sIQQ", b"GGUF", 3, 1, 1 << 60) + bytes(500), "damaged or incomplete"),
        (gguf(entries=[struct.pack("<Q", 1 << 62)], tensors=[]), "damaged or incomplete"),
        (gguf(entries=[string("k") + struct.pack("<I", 99)], tensors=[]), "damaged or incomplete"),
        (
            gguf(entries=[string("k") + struct.pack("<IIQ", 9, 8, 1 << 50)], tensors=[]),
            "damaged or incomplete",
        ),
        (
            gguf(entries=[string("k") + struct.pack("<IIQ", 9, 9, 1)], tensors=[]),
            "damaged or incomplete",
        ),
        (
            gguf(entries=[string("k") + struct.pack("<IQ", 8, 1 << 63)], tensors=[]),
            "damaged or incomplete",
        ),
        (gguf(entries=[NAME], tensors=[TENSOR], tail=0), "damaged or incomplete"),
        (
            gguf(entries=[], tensors=[string("t") + struct.pack("<IQIQ", 1, 8, 0, 1 << 40)]),
            "damaged or incomplete",
        ),
        (gguf(entries=[], tensors=[string("t") + struct.pack("<I", 9)]), "damaged or incomplete"),
    ],
)
def test_anything_else_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    path = tmp_path / "bad.gguf"
    path.write_bytes(data)
    with pytest.raises(ModelCorruptError, match=message):
        check_gguf(path)


def part_of(count: int, kind: int = 2) -> bytes:
    split = string("split.count") + struct.pack("<I", kind) + count.to_bytes(8, "little")
    split = split[: len(split) - 8 + {2: 2, 4: 4}[kind]]
    return gguf(entries=[NAME, split], tensors=[TENSOR])


def test_a_split_model_needs_all_its_parts(tmp_path: Path) -> None:
    parts = [tmp_path / f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    for number, part in enumerate(parts, 1):
        part.write_bytes(part_of(3))
        if number < 3:
            with pytest.raises(ModelNotFoundError, match=f"in 3 files, of which {number} are"):
                check_gguf(parts[0])
    check_gguf(parts[0])
    parts[2].write_bytes(b"<html>")
    with pytest.raises(ModelCorruptError, match=r"00003-of-00003\.gguf is not a GGUF"):
        check_gguf(parts[0])


@pytest.mark.parametrize("name", ["m.gguf", "m-00002-of-00003.gguf", "m-00001-of-00002.gguf"])
def test_a_split_model_goes_by_the_names_of_its_parts(tmp_path: Path, name: str) -> None:
    """Those are what llama.cpp goes by; a number of another width is none of its own."""
    for number in (1, 2, 3):
        (tmp_path / f"m-0000{number}-of-00003.gguf").write_bytes(part_of(3))
    (tmp_path / name).write_bytes(part_of(3))
    with pytest.raises(ModelNotFoundError, match="in 3 files, of which 1 are"):
        check_gguf(tmp_path / name)
    (tmp_path / name).write_bytes(part_of(3, kind=4))
    check_gguf(tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match=r"nowhere\.gguf"):
        LlamaCppModel(tmp_path / "nowhere.gguf")


def test_what_llama_cpp_said_stands_in_the_error(tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf(entries=[NAME], tensors=[TENSOR]))
    with pytest.raises(BackendError, match=r"cannot load .*architecture"):
        LlamaCppModel(path)


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("share", [0.001, 0.01, 0.5, 0.9999])
def test_a_model_cut_short_is_an_error_and_not_a_crash(
    models_dir: Callable[[str], Path], tmp_path: Path, share: float
) -> None:
    whole = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    path = tmp_path / "cut.gguf"
    with whole.open("rb") as file:
        path.write_bytes(file.read(int(whole.stat().st_size * share)))
    with pytest.raises((ModelCorruptError, BackendError)) as error:
        LlamaCppModel(path)
    assert str(path) in str(error.value)
