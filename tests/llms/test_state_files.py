"""States on disk: found again, never a wrong one, never more than allowed, never an error."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from localrag.models.llms.base import Options
from localrag.models.llms.llama_cpp import state_files
from localrag.models.llms.llama_cpp.context import BATCH
from localrag.models.llms.llama_cpp.model import LlamaCppModel, StatesOnDisk
from localrag.models.llms.llama_cpp.prefix_states import PrefixStates
from localrag.models.llms.llama_cpp.state_files import StateFiles
from localrag.system.seals import FILE_SEAL_BYTES
from localrag.types import Message

IDENTITY = "weights 1.0 f16"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "kv"


def files(folder: Path, limit: int = 10_000, identity: str = IDENTITY) -> StateFiles:
    return StateFiles(folder, limit, identity)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_state_is_found_again_by_its_tokens(folder: Path) -> None:
    files(folder).put(b"tokens", b"state")
    again = files(folder)
    assert bytes(again.get(b"tokens") or b"") == b"state"
    assert again.get(b"token") is None
    assert again.get(b"tokens2") is None


def test_an_empty_folder_and_none_at_all(folder: Path) -> None:
    assert files(folder).get(b"k") is None
    assert not folder.exists(), "reading makes no folder"
    folder.mkdir()
    assert files(folder).get(b"k") is None


@pytest.mark.parametrize(
    "other", ["weights 1.0 q8_0", "weights 1.1 f16", "other 1.0 f16", "", IDENTITY + " "]
)
def test_another_model_version_or_cache_type_never_sees_it(folder: Path, other: str) -> None:
    files(folder).put(b"k", b"state")
    assert files(folder, identity=other).get(b"k") is None
    (path,) = folder.iterdir()
    # Not even where the file lies under the other's own name.
    other_cache = files(folder, identity=other)
    path.rename(other_cache._path(b"k"))
    assert other_cache.get(b"k") is None
    assert names(folder) == set(), "what cannot be used is removed"


def test_a_state_under_the_name_of_other_tokens_is_not_used(folder: Path) -> None:
    cache = files(folder)
    cache.put(b"k", b"state")
    (path,) = folder.iterdir()
    path.rename(cache._path(b"other"))
    assert cache.get(b"other") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[:10],
        lambda data: data[:-1],
        lambda data: data + b"x",
        lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
        lambda data: bytes(len(data)),
    ],
    ids=["empty", "head only", "cut", "longer", "one bit", "zeros"],
)
def test_a_damaged_file_is_removed_and_made_anew(
    folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    cache = files(folder)
    cache.put(b"k", b"a state of some bytes")
    (path,) = folder.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get(b"k") is None
    assert names(folder) == set()
    cache.put(b"k", b"a state of some bytes")
    assert bytes(cache.get(b"k") or b"") == b"a state of some bytes"


def aged(folder: Path, cache: StateFiles, key: bytes, age: int) -> None:
    """Let a file have been used so many seconds ago."""
    now = 1_700_000_000
    os.utime(cache._path(key), (now - age, now - age))


def test_the_longest_unused_go_first_and_the_cap_holds(folder: Path) -> None:
    cache = files(folder, limit=3 * (FILE_SEAL_BYTES + 100))
    for age, key in ((30, b"a"), (20, b"b"), (10, b"c")):
        cache.put(key, key * 100)
        aged(folder, cache, key, age)
    assert cache.get(b"a") is not None, "using it makes it young"
    cache.put(b"d", b"d" * 100)
    assert [key for key in (b"a", b"b", b"c", b"d") if cache.get(key)] == [b"a", b"c", b"d"]
    assert size(folder) <= 3 * (FILE_SEAL_BYTES + 100)
    cache.put(b"e", b"e" * 300)
    assert size(folder) <= 3 * (FILE_SEAL_BYTES + 100)
    assert cache.get(b"e")


@pytest.mark.parametrize("follows", [True, False])
def test_times_are_set_through_links_only_where_a_system_has_no_other_way(
    folder: Path, monkeypatch: pytest.MonkeyPatch, follows: bool
) -> None:
    """On Windows, which refuses all else, a state that was read ahead is found and used as well."""
    set_times = os.utime
    flags: list[bool] = []

    def utime(
        path: Path, times: tuple[float, float] | None = None, *, follow_symlinks: bool = True
    ) -> None:
        flags.append(follow_symlinks)
        set_times(path, times)

    monkeypatch.setattr(os, "utime", utime)
    monkeypatch.setattr(os, "supports_follow_symlinks", set() if follows else {utime})
    cache = files(folder)
    assert cache.put_ahead(b"a", b"x" * 100, 1000, 0, lambda: True)
    assert len(state_files.states_ahead(folder)) == 1
    assert bytes(cache.get(b"a") or b"") == b"x" * 100
    assert state_files.states_ahead(folder) == []
    assert flags == [follows, follows]


def test_files_of_another_model_count_and_go_too(folder: Path) -> None:
    old, new = files(folder, 300, "old"), files(folder, 300, "new")
    old.put(b"a", b"x" * 200)
    aged(folder, old, b"a", 100)
    new.put(b"a", b"y" * 200)
    assert old.get(b"a") is None
    assert new.get(b"a")


def test_a_smaller_cap_after_a_restart_is_kept(folder: Path) -> None:
    for key in (b"a", b"b", b"c"):
        files(folder).put(key, key * 100)
    files(folder, limit=200).put(b"d", b"d" * 100)
    assert size(folder) <= 200


def test_a_state_larger_than_the_cap_is_not_written_and_removes_nothing(folder: Path) -> None:
    cache = files(folder, limit=200)
    cache.put(b"a", b"x" * 100)
    cache.put(b"b", b"x" * 169)
    assert cache.get(b"b") is None
    assert cache.get(b"a")


def test_what_stands_is_not_written_again(folder: Path) -> None:
    cache = files(folder)
    cache.put(b"k", b"state")
    (path,) = folder.iterdir()
    before = path.stat().st_ino
    cache.put(b"k", b"state")
    assert path.stat().st_ino == before


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("no folder")
    for folder in (file, file / "kv", tmp_path / "missing" / "kv"):
        cache = files(folder)
        cache.put(b"k", b"state")
        assert cache.get(b"k") is None
    assert file.read_text() == "no folder"


def test_a_disk_that_fills_up_leaves_no_half_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    cache = files(folder)
    monkeypatch.setattr(Path, "replace", full)
    cache.put(b"k", b"state")
    assert names(folder) == set()
    assert cache.get(b"k") is None


def test_an_interrupt_while_writing_leaves_no_half_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    cache = files(folder)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        cache.put(b"k", b"state")
    assert names(folder) == set()


def test_a_folder_that_can_only_be_read_serves(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files(folder).put(b"k", b"state")

    def read_only(*_: object, **__: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr("os.utime", read_only)
    assert files(folder).get(b"k") is not None


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX")
def test_folder_and_files_are_their_owners_alone(folder: Path) -> None:
    before = os.umask(0)
    try:
        files(folder).put(b"k", b"state")
    finally:
        os.umask(before)
    (path,) = folder.iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


# -- behind the memory --------------------------------------------------------------


def test_memory_falls_back_to_disk_and_holds_what_it_found(folder: Path) -> None:
    PrefixStates(100, files(folder)).put([1, 2], b"state")
    states = PrefixStates(100, files(folder))
    assert len(states) == 0
    assert bytes(states.get([1, 2]) or b"") == b"state"
    assert (len(states), states.size) == (1, 5)
    assert states.get([1, 3]) is None
    states.clear()
    assert (len(states), states.size) == (0, 0)
    assert states.get([1, 2]) is not None


def test_what_memory_has_no_room_for_costs_nothing_else_its_place(folder: Path) -> None:
    PrefixStates(100, files(folder)).put([1], b"x" * 50)
    small = PrefixStates(20, files(folder))
    small.put([2], b"y" * 10)
    assert small.get([1]) is not None, "served from disk"
    assert small.size == 10
    assert len(small) == 1


# -- with a model -------------------------------------------------------------------

PASSAGE = "The lamp of house four is lit at dusk and put out at dawn by its keeper. " * 6


def chat(question: str, passage: str = PASSAGE) -> list[Message]:
    return [
        Message("system", f"You judge passages.\n\n{passage}"),
        Message("user", f"{question}\nReply only Yes or No."),
    ]


@pytest.fixture
def path(models_dir: Callable[[str], Path]) -> Path:
    return next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))


def reads(model: LlamaCppModel) -> list[int]:
    """How many tokens each call from now on reads."""
    counts: list[int] = []
    read_tokens = model._context.read

    def counting(tokens: list[int], *, keep: int = 0) -> int:
        counts.append(read_tokens(tokens, keep=keep))
        return counts[-1]

    model._context.read = counting  # type: ignore[method-assign,assignment]
    return counts


CHOICES = ("Yes", "No", "Not at all")
OPTIONS = Options(max_tokens=16, keep=1)


@pytest.mark.models("smollm2-135m-instruct-q4")
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_fresh_from_memory_and_from_disk_are_the_same_bit_by_bit(
    path: Path, folder: Path, kv_type: str
) -> None:
    disk = StatesOnDisk(folder, 10**9, "sha")
    options = {"context_window": 1024, "kv_type": kv_type, "threads": 1}

    def all_of(model: LlamaCppModel) -> tuple[object, ...]:
        scores = model.score_choices(chat("Is it lit?"), CHOICES, keep=1).tolist()
        text = model.complete(chat("Who puts it out?"), OPTIONS).text
        tokens = model._template.prompt(chat("Is it out?")).tokens
        model._context.read(tokens, keep=model._prefix_length(chat("Is it out?"), 1, tokens))
        return scores, text, model._context.logits().tobytes()

    with LlamaCppModel(path, **options, disk=disk) as model:  # type: ignore[arg-type]
        fresh = all_of(model)
        model.complete([Message("user", "Something else entirely.")], Options(max_tokens=2))
        counts = reads(model)
        assert all_of(model) == fresh
        assert counts[0] < BATCH, "restored from memory"
        names_written = names(folder)
        assert names_written
    with LlamaCppModel(path, **options, disk=disk) as model:  # type: ignore[arg-type]
        counts = reads(model)
        assert all_of(model) == fresh
        assert counts[0] < BATCH, "restored from disk"
        assert names(folder) == names_written
    with LlamaCppModel(path, **options) as model:  # type: ignore[arg-type]
        counts = reads(model)
        assert all_of(model) == fresh
        assert counts[0] > BATCH


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_state_of_another_kind_is_read_anew_and_a_damaged_one_too(
    path: Path, folder: Path
) -> None:
    def first_read(disk: StatesOnDisk, **options: object) -> int:
        with LlamaCppModel(path, context_window=1024, threads=1, disk=disk, **options) as model:  # type: ignore[arg-type]
            counts = reads(model)
            model.score_choices(chat("Is it lit?"), CHOICES, keep=1)
            return counts[0]

    disk = StatesOnDisk(folder, 10**9, "sha")
    assert first_read(disk) > BATCH
    assert first_read(StatesOnDisk(folder, 10**9, "other")) > BATCH
    assert first_read(disk, kv_type="q8_0") > BATCH
    assert len(names(folder)) == 3
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:-1])
    assert first_read(disk) > BATCH


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_no_limit_on_disk_means_no_files(path: Path, folder: Path) -> None:
    disk = StatesOnDisk(folder, 0, "sha")
    with LlamaCppModel(path, context_window=512, threads=1, disk=disk) as model:
        model.score_choices(chat("Is it lit?"), CHOICES, keep=1)
    assert not folder.exists()


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_state_that_llama_cpp_refuses_is_read_anew(path: Path) -> None:
    with LlamaCppModel(path, context_window=1024, threads=1) as model:
        first, second = chat("Is it lit?"), chat("Is it lit?", PASSAGE[:300] + "No more of it.")
        expected = [
            model.score_choices(messages, CHOICES, keep=1).tolist() for messages in (first, second)
        ]
        states = model._context._states
        for key, state in list(states._states.items()):
            states._states[key] = type(state)()  # as many zeros
        # The cache holds a batch that both share, so that something is lost with the attempt.
        assert model.score_choices(first, CHOICES, keep=1).tolist() == expected[0]
        assert model.score_choices(second, CHOICES, keep=1).tolist() == expected[1]


@pytest.mark.models("smollm2-135m-instruct-q4")
def test_a_read_only_place_is_no_error_for_the_model(path: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "kv"
    blocked.write_text("in the way")
    with LlamaCppModel(
        path, context_window=512, threads=1, disk=StatesOnDisk(blocked, 10**9, "s")
    ) as model:
        assert model.score_choices(chat("Is it lit?"), CHOICES, keep=1).sum() == pytest.approx(1)
