"""What all indexes in segments promise: few files, no trace, the same answers, no lost state."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from library_fixtures import SearchedVectors, bytes_on_disk, storage

from localrag.library.folder.gate import KEYWORDS, VECTORS
from localrag.library.folder.sealing import DamagedIndexError, ForeignIndexError, sealed, unsealed
from localrag.library.indexes.base import Storage
from localrag.library.indexes.faiss import Rows
from localrag.library.indexes.inverted import InvertedKeywords


@dataclass(frozen=True)
class Kind:
    """An index, its name on disk, what it holds for a number, and what of that is in the file."""

    make: Callable[[int], Any]
    name: str
    content: Callable[[int], Any]
    trace: Callable[[int], bytes]


def vector(number: int) -> np.ndarray:
    """Some are alike, as those of repeated passages are."""
    values = np.random.default_rng(number % 150).standard_normal(16)
    return (values / np.linalg.norm(values)).astype(np.float16).astype(np.float32)


def terms(number: int) -> list[str]:
    """Common and rare words, one that is its own, and passages that are alike."""
    draw = random.Random(number % 150)
    common = [word for word in ("every", "most", "知识") if draw.random() < 0.7]
    rare = [f"word{min(int(draw.paretovariate(0.5)), 400)}" for _ in range(draw.randint(0, 12))]
    return common * draw.randint(1, 3) + rare + [f"own{number % 150:03}"]


KINDS = {
    "vectors": Kind(
        lambda capacity: SearchedVectors(20, exact=40, capacity=capacity),
        VECTORS,
        vector,
        lambda number: Rows.of(np.array([0]), vector(number)[None]).levels.tobytes(),
    ),
    "keywords": Kind(
        lambda capacity: InvertedKeywords(whole=100, capacity=capacity),
        KEYWORDS,
        terms,
        lambda number: f"own{number % 150:03}".encode(),
    ),
}
LARGE = 1 << 16


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


@pytest.fixture
def at(kind: Kind, tmp_path: Path) -> Storage:
    return storage(tmp_path / kind.name)


def entries(kind: Kind, *numbers: int) -> Iterator[tuple[int, Any]]:
    return ((number, kind.content(number)) for number in numbers)


def filled(kind: Kind, at: Storage, count: int = 50, capacity: int = LARGE) -> Any:
    index = kind.make(capacity)
    index.apply((), entries(kind, *range(count)), ("epoch", 1), at)
    return index


def opened(kind: Kind, at: Storage) -> Any:
    index = kind.make(LARGE)
    index.open(at)
    return index


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "foreign", "more", "gone"])
@pytest.mark.parametrize("name", ["index.json", "*.segment"])
def test_damage_is_noticed(kind: Kind, at: Storage, damage: str, name: str) -> None:
    filled(kind, at)
    (path,) = at.path.glob(name)
    content = bytearray(path.read_bytes())
    if damage == "flip":
        content[len(content) // 2] ^= 1
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "foreign": b'{"format": "other"}',
            "more": content + b"x",
        }.get(damage, content)
    )
    if damage == "gone":
        path.unlink()
        if name == "index.json":
            return
    with pytest.raises(DamagedIndexError):
        opened(kind, at)


HOSTILE = {
    "leads away": {"name": "../../etc/passwd"},
    "another file": {"name": "index.json"},
    "no shape": {"shape": []},
    "too short a shape": {"shape": [50]},
    "too long a shape": {"shape": [50, 16, 1, 1, 1]},
    "no entries": {"shape": [0, 16, 0, 0]},
    "more entries than bytes": {"shape": [1 << 60, 16, 1, 1]},
    "negative": {"shape": [-1, 16, 1, 1]},
    "text": {"shape": ["many", 16, 1, 1]},
    "no list": {"shape": 7},
    "too few bits": {"gone": "AA=="},
    "no bits": {"gone": "!"},
    "no identity": {"identity": [1]},
    "something more": {"more": 1},
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_group_may_seal_is_bounded(kind: Kind, at: Storage, case: str) -> None:
    filled(kind, at)
    fields = unsealed((at.path / "index.json").read_bytes(), at.seal)
    fields["segments"][0] |= HOSTILE[case]
    (at.path / "index.json").write_bytes(sealed(fields, at.seal))
    with pytest.raises(DamagedIndexError):
        opened(kind, at)


def test_lists_of_earlier_versions_are_told_from_damage(kind: Kind, at: Storage) -> None:
    filled(kind, at)
    earlier = (
        sealed({"format": f"localrag-{kind.name}-3"}, at.seal),
        b'{"folder": "bm25-0123abcd", "epoch": "e"}',
    )
    for content in earlier:
        (at.path / "index.json").write_bytes(content)
        with pytest.raises(ForeignIndexError, match="earlier version"):
            opened(kind, at)


def test_what_earlier_versions_have_left_goes_with_the_first_of_ours(tmp_path: Path) -> None:
    remains = {VECTORS: tmp_path / "vectors.faiss", KEYWORDS: tmp_path / KEYWORDS / "bm25-0123abcd"}
    remains[KEYWORDS].mkdir(parents=True)
    for path in (remains[VECTORS], remains[KEYWORDS] / "meta.json"):
        path.write_text("of an earlier version")
    for kind in KINDS.values():
        at = storage(tmp_path / kind.name)
        with pytest.raises(ForeignIndexError, match="earlier version"):
            opened(kind, at)
        assert remains[kind.name].exists()
        filled(kind, at)
        assert not remains[kind.name].exists()


def test_a_segment_is_read_through_once_and_a_copy_again(
    kind: Kind, at: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names: list[str] = []
    digest = hashlib.file_digest
    monkeypatch.setattr(
        "hashlib.file_digest", lambda file, name: names.append(file.name) or digest(file, name)
    )
    filled(kind, at)
    opened(kind, at)
    assert names == []
    shutil.copytree(at.path, tmp_path / "copy")
    copy = storage(tmp_path / "copy")
    again = opened(kind, copy)
    assert len(names) == 1
    again.apply((), entries(kind, 99), ("epoch", 2), copy)
    names.clear()
    opened(kind, copy)
    assert names == [], "known again since the change"


def test_failed_save_keeps_the_old_files(
    kind: Kind, at: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = filled(kind, at)

    def content() -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in at.path.iterdir()}

    before = content()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        index.apply((), entries(kind, 99), ("epoch", 2), at)
    assert content() == before
    assert (len(index), index.stamp) == (50, ("epoch", 1))


@pytest.mark.parametrize("seed", range(4))
def test_random_changes_equal_a_fresh_build_to_the_digit(
    kind: Kind, at: Storage, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrag.library.indexes.segmented._SMALL", 4096 if seed % 2 else 4)
    draw = random.Random(seed)
    index, numbers = kind.make(32), set()
    for generation in range(1, 41):
        removals = draw.sample(sorted(numbers), min(len(numbers), draw.choice((0, 1, 3, 30))))
        new = {draw.getrandbits(62) for _ in range(draw.choice((0, 1, 2, 20, 90)))}
        numbers = numbers.difference(removals) | new
        place = draw.choice((at, at, None))
        index.apply(removals, entries(kind, *new), ("epoch", generation), place)
        if place and draw.random() < 0.5:
            assert index.erase(at, ("epoch", generation))
        if place and draw.random() < 0.3:
            index = kind.make(32)
            index.open(at)
        fresh = kind.make(draw.choice((32, LARGE)))
        fresh.apply((), entries(kind, *numbers), ("epoch", generation))
        assert index.chunk_set() == fresh.chunk_set()
        subset = np.array(
            sorted(draw.sample(sorted(numbers), len(numbers) * 3 // 4)), dtype=np.int64
        )
        for _ in range(3):
            query, k = kind.content(draw.randrange(150)), draw.choice((1, 10, 30))
            assert index.search(query, k) == fresh.search(query, k)
            assert index.search(query, k, subset) == fresh.search(query, k, subset)
            if isinstance(index, InvertedKeywords):
                assert index.frequencies(query) == fresh.frequencies(query)
                assert index.alike("word12", 1, k) == fresh.alike("word12", 1, k)
        assert index.verify(entries(kind, *numbers)).differing == 0
        assert sorted(index.verify(()).ids) == sorted(numbers)


def test_segments_are_few_and_a_change_leaves_the_large_ones_alone(kind: Kind, at: Storage) -> None:
    index = filled(kind, at, 5000)
    (large,) = at.path.glob("*.segment")
    for generation in range(2, 40):
        new = range(10_000 * generation, 10_000 * generation + 100)
        index.apply([generation], entries(kind, *new), ("epoch", generation), at)
        assert large.exists()
        assert len(list(at.path.glob("*.segment"))) <= 5
    assert index.erase(at, ("epoch", 39))
    assert not large.exists()


def test_a_removal_touches_only_the_segment_that_holds_it(kind: Kind, at: Storage) -> None:
    index = filled(kind, at, 15_000, capacity=5000)
    before = set(at.path.glob("*.segment"))
    index.apply([7], (), ("epoch", 2), at)
    assert set(at.path.glob("*.segment")) == before
    assert index.erase(at, ("epoch", 2))
    after = set(at.path.glob("*.segment"))
    assert (len(before), len(after), len(before & after)) == (3, 3, 2)
    assert len(opened(kind, at)) == 14_999


def test_what_is_removed_is_hidden_and_then_gone(kind: Kind, at: Storage) -> None:
    index = filled(kind, at, 5000)
    removals = list(range(77, 5000, 150))
    index.apply(removals, (), ("epoch", 2), at)
    assert kind.trace(77) in bytes_on_disk(at.path)
    assert index.erase(at, ("epoch", 2))
    assert kind.trace(77) not in bytes_on_disk(at.path)
    for searcher in (index, opened(kind, at)):
        assert (len(searcher), searcher.stamp) == (5000 - len(removals), ("epoch", 2))
        ids = {hit.chunk_id for hit in searcher.search(kind.content(77), 5000)}
        assert not ids.intersection(removals)


class KilledError(BaseException):
    """Stands for the end of the process."""


def killed_after(left_to_do: list[int], step: Callable[..., Any]) -> Callable[..., Any]:
    """The same step, as long as there are some left to do."""

    def done(*arguments: Any, **more: Any) -> Any:
        left_to_do[0] -= 1
        if left_to_do[0] < 0:
            raise KilledError
        return step(*arguments, **more)

    return done


@pytest.mark.parametrize("small", [8, 4096])
def test_a_kill_between_any_two_steps_leaves_one_state_or_the_other(
    kind: Kind,
    at: Storage,
    small: int,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every rename, deletion and forcing to disk is such a step."""
    monkeypatch.setattr("localrag.library.indexes.segmented._SMALL", small)
    first = filled(kind, at, 140, capacity=64)
    first.apply([3, 100], (), ("epoch", 2), at)
    if kind.name == VECTORS:
        (tmp_path / "vectors.faiss").write_bytes(b"of an earlier version")
    else:
        (at.path / "bm25-0123abcd").mkdir()
        (at.path / "bm25-0123abcd" / "meta.json").write_bytes(b"of an earlier version")
    sound = tmp_path_factory.mktemp("sound")
    shutil.copytree(tmp_path, sound, dirs_exist_ok=True)
    states = {("epoch", 2): 138, ("epoch", 3): 180}
    stamps, left_to_do = set(), [0]
    for moment in range(1000):
        shutil.rmtree(tmp_path)
        shutil.copytree(sound, tmp_path)
        with monkeypatch.context() as patch:
            for owner, name in ((os, "fsync"), (Path, "replace"), (Path, "unlink")):
                patch.setattr(owner, name, killed_after(left_to_do, getattr(owner, name)))
            left_to_do[0] = moment
            index = kind.make(64)
            index.open(at)
            try:
                index.apply([5], entries(kind, *range(1000, 1043)), ("epoch", 3), at)
                index.erase(at, ("epoch", 3))
                end = True
            except KilledError:
                end = False
        again = opened(kind, at)
        stamps.add(again.stamp)
        assert len(again) == states[again.stamp]
        again.apply([], (), again.stamp, at)
        assert again.erase(at, again.stamp)
        content = bytes_on_disk(tmp_path)
        assert kind.trace(3) not in content
        assert b"earlier" not in content
        assert not list(at.path.glob("*.part"))
        if end:
            break
    assert (moment > 10, stamps) == (True, set(states))
