"""A GGUF file that nobody vouches for is opened in a process of its own first."""

from __future__ import annotations

import mmap
import os
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localrag import factory
from localrag.cli import doctor
from localrag.config.settings import LlamaCppSettings, Settings
from localrag.errors import ModelCorruptError
from localrag.models.llms.llama_cpp import gguf as gguf_module
from localrag.models.llms.llama_cpp import probe
from localrag.models.llms.llama_cpp.probe import probe_gguf, probe_once
from localrag.models.registry.store import ModelStore
from localrag.system import processes

SMALL = "smollm2-135m-instruct-q4"


@pytest.fixture
def gguf(tmp_path: Path) -> Path:
    """A header without metadata and tensors: well formed, and of no use."""
    path = tmp_path / "own.gguf"
    path.write_bytes(b"GGUF" + (3).to_bytes(4, "little") + bytes(16) + bytes(64))
    return path


def test_a_process_that_is_ended_by_the_file_becomes_an_error(gguf: Path) -> None:
    with pytest.raises(ModelCorruptError, match="on trial ended with code"):
        probe_gguf(gguf, program="import os; os.abort()")


def test_a_process_that_does_not_end_becomes_an_error(gguf: Path) -> None:
    with pytest.raises(ModelCorruptError, match="within 1 s"):
        probe_gguf(gguf, seconds=1.0, program="import time; time.sleep(60)")


def test_what_is_no_gguf_file_never_gets_there(tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_text("<html>")
    with pytest.raises(ModelCorruptError, match="is not a GGUF"):
        probe_gguf(path, program="raise SystemExit(0)")


def test_a_refusal_of_llama_cpp_is_left_to_it(gguf: Path) -> None:
    probe_gguf(gguf)


def test_a_file_is_tried_once_and_again_when_it_has_changed(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[Path] = []
    monkeypatch.setattr(probe, "probe_gguf", paths.append)
    for _ in range(2):
        probe_once(gguf, tmp_path / "cache")
    assert paths == [gguf]
    gguf.write_bytes(gguf.read_bytes() + b"x")
    probe_once(gguf, tmp_path / "cache")
    os.utime(gguf, ns=(1, 1))
    probe_once(gguf, tmp_path / "cache")
    assert len(paths) == 3


def test_a_split_model_is_tried_again_when_any_part_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths: list[Path] = []
    monkeypatch.setattr(probe, "probe_gguf", paths.append)
    first, second = (tmp_path / f"m-0000{number}-of-00002.gguf" for number in (1, 2))
    first.write_bytes(b"GGUF")
    for data in (b"GGUF", b"GGUF more"):
        second.write_bytes(data)
        for _ in range(2):
            probe_once(first, tmp_path / "cache")
    assert paths == [first, first]


def test_a_failed_trial_is_not_remembered(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probe.processes, "run", _aborting)
    for _ in range(2):
        with pytest.raises(ModelCorruptError):
            probe_once(gguf, tmp_path / "cache")


class _Aborted:
    returncode = -6


def _aborting(*_: object, **__: object) -> _Aborted:
    return _Aborted()


@pytest.mark.parametrize("loads", ["answering", "doctor"])
def test_models_of_ones_own_are_tried_before_they_are_loaded(
    gguf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loads: str
) -> None:
    monkeypatch.setattr(probe.processes, "run", _aborting)
    monkeypatch.setattr(
        "localrag.models.llms.llama_cpp.model.LlamaCppModel.__init__",
        lambda *_, **__: pytest.fail("loaded"),
    )
    monkeypatch.setattr("localrag.factory.cache_folder", lambda: tmp_path)
    models = ModelStore(tmp_path / "models")
    llm_settings = LlamaCppSettings(model=str(gguf))
    load: dict[str, Callable[[], object]] = {
        "answering": lambda: factory.make_model(Settings(llm=llm_settings), models),
        "doctor": lambda: list(doctor._language_model(Settings(llm=llm_settings), models, False)),
    }
    with pytest.raises(ModelCorruptError, match="on trial"):
        load[loads]()


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_published_file_needs_no_trial(
    models_dir: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = models_dir(SMALL)
    monkeypatch.setattr(probe, "probe_gguf", lambda *_: pytest.fail("tried"))
    assert factory.model_file(SMALL, ModelStore(folder.parent)).parent == folder


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_hostile_vocabulary_ends_the_trial_and_nothing_else(
    models_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    """A token that stands there twice: llama.cpp ends its process."""
    (good,) = models_dir(SMALL).glob("*.gguf")
    probe_gguf(good)
    with good.open("rb") as file:
        head = bytearray(file.read(4_000_000))
    place = head.index("Ġand".encode(), head.index(b"tokenizer.ggml.tokens"))
    head[place : place + 5] = "Ġthe".encode()
    hostile = tmp_path / "hostile.gguf"
    with hostile.open("wb") as file:
        file.write(head)
        file.truncate(good.stat().st_size)
    with pytest.raises(ModelCorruptError, match="on trial ended with code"):
        probe_gguf(hostile)


def _twice(head: bytearray) -> None:
    """A token that stands there twice: llama.cpp ends its process as it opens the vocabulary."""
    place = head.index("Ġand".encode(), head.index(b"tokenizer.ggml.tokens"))
    head[place : place + 5] = "Ġthe".encode()


def _odd_number(head: bytearray, number: float = -1.0) -> None:
    """A number outside the vocabulary: llama.cpp ends its process at the first token."""
    name = b"attention.layer_norm_rms_epsilon"
    place = head.index(name) + len(name) + 4
    head[place : place + 4] = struct.pack("<f", number)


def _split(whole: Path, folder: Path, edit: Callable[[bytearray], object]) -> Path:
    """The model as a first part with all tensors, its header edited, and a second with none."""
    data = whole.read_bytes()
    with whole.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
        reader = gguf_module._Reader(view)
        reader.skip(8)
        gguf_module._walk(reader)
        end = reader.position
    tensors, entries = struct.unpack_from("<QQ", data, 8)

    def part(number: int, tensors_in: int, entries: int, header: bytes) -> bytes:
        numbers = {"split.no": (2, number), "split.count": (2, 2)}
        own = b"".join(
            struct.pack(f"<Q{len(key)}sI", len(key), key.encode(), kind)
            + value.to_bytes(kind, "little")
            for key, (kind, value) in numbers.items()
        )
        key = b"split.tensors.count"
        own += struct.pack(f"<Q{len(key)}sIi", len(key), key, 5, tensors)
        head = struct.pack("<4sIQQ", b"GGUF", 3, tensors_in, entries + 3) + own + header
        return head + bytes(-len(head) % 32)

    header = bytearray(data[24:end])
    edit(header)
    first = folder / "m-00001-of-00002.gguf"
    first.write_bytes(part(0, tensors, entries, bytes(header)) + data[end + -end % 32 :])
    (folder / "m-00002-of-00002.gguf").write_bytes(part(1, 0, 0, b"") + bytes(64))
    return first


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("edit", [_twice, _odd_number])
def test_a_hostile_model_in_parts_ends_the_trial_and_nothing_else(
    models_dir: Callable[[str], Path], tmp_path: Path, edit: Callable[[bytearray], object]
) -> None:
    """Confined to the first part alone, llama.cpp would refuse what it then opens here."""
    (whole,) = models_dir(SMALL).glob("*.gguf")
    good = _split(whole, tmp_path, lambda _: None)
    command = processes.python(probe.PROGRAM, str(good))
    assert processes.run(command, processes.LOCALRAG).returncode == probe._OPENED
    with pytest.raises(ModelCorruptError, match="on trial ended with code"):
        probe_gguf(_split(whole, tmp_path, edit))


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("number", [-1.0, float("nan")])
def test_a_number_that_ends_the_first_token_ends_the_trial_and_nothing_else(
    models_dir: Callable[[str], Path], tmp_path: Path, number: float
) -> None:
    (good,) = models_dir(SMALL).glob("*.gguf")
    data = bytearray(good.read_bytes())
    _odd_number(data, number)
    hostile = tmp_path / "hostile.gguf"
    hostile.write_bytes(data)
    with pytest.raises(ModelCorruptError, match="on trial ended with code"):
        probe_gguf(hostile)


@pytest.mark.skipif(sys.platform != "linux", reason="where ggml starts a debugger")
def test_no_debugger_is_started_over_a_process_of_ours() -> None:
    """ggml looks at its environment, and not at a copy that Python has of it."""
    program = (
        "import ctypes, os; os.environ.pop('GGML_NO_BACKTRACE', None); "
        "from localrag.models.llms.llama_cpp import native; native.load(); "
        "get = ctypes.CDLL(None).getenv; get.restype = ctypes.c_char_p; "
        "print(get(b'GGML_NO_BACKTRACE'))"
    )
    result = processes.run(processes.python(program), processes.LOCALRAG)
    assert result.stdout.split() == [b"b'1'"]
