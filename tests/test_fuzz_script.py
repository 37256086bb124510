"""The fuzzing script finds nothing in a few inputs, and would say so if it did."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from localrag.errors import ParsingError

SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    import fuzz

    return fuzz


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPTS / "fuzz.py"), "--seed", "5", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


def test_a_short_run_finds_nothing(tmp_path: Path) -> None:
    result = run("--count", "25", "--through", "20", "--state", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("25 inputs") == 26
    assert result.stdout.count("1 of them through the product") == 15


def test_some_hundred_requests_find_nothing(tmp_path: Path) -> None:
    result = run("--count", "300", "--only", "server", "--state", str(tmp_path))
    assert result.returncode == 0, result.stdout + result.stderr
    statuses = re.findall(r"\b(200|40\d|421) \d+", result.stdout)
    assert {"200", "400", "401", "404", "405", "421"} <= set(statuses), "every kind of answer"


def test_a_run_goes_on_where_it_was_stopped(fuzz: ModuleType, tmp_path: Path) -> None:
    assert fuzz.fuzz("gguf", 10, 3, 50, tmp_path) == 0
    first = (tmp_path / "gguf-3.tsv").read_text(encoding="utf-8")
    assert fuzz.fuzz("gguf", 15, 3, 50, tmp_path) == 0
    assert (tmp_path / "gguf-3.tsv").read_text(encoding="utf-8").startswith(first)
    assert [line.number for line in fuzz.results(tmp_path / "gguf-3.tsv")] == list(range(15))


def test_an_input_is_made_from_seed_and_number(fuzz: ModuleType, tmp_path: Path) -> None:
    seeds = fuzz.samples("html", tmp_path)
    assert fuzz.make("html", 3, 8, seeds)[0] == fuzz.make("html", 3, 8, seeds)[0]
    assert fuzz.make("html", 3, 8, seeds)[0] != fuzz.make("html", 4, 8, seeds)[0]


@pytest.fixture
def folders(fuzz: ModuleType, tmp_path: Path) -> tuple[ModuleType, list[bytes]]:
    import fuzz_folder

    return fuzz_folder, fuzz.samples("folder", tmp_path / "state")


@pytest.mark.parametrize("harm", ["altered", "gone", "new", "linked"])
@pytest.mark.skipif(os.name == "nt", reason="only on Linux and macOS: pipes, links, owners")
def test_a_canary_that_is_touched_is_wrong(
    folders: tuple[ModuleType, list[bytes]],
    harm: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fuzz_folder, seeds = folders

    def touch(scene: Any) -> None:
        letter = scene.canary / "letter.txt"
        match harm:
            case "altered":
                letter.write_text("other", encoding="utf-8")
            case "gone":
                letter.unlink()
            case "new":
                (scene.canary / "a").mkdir()
            case _:
                letter.chmod(0o600)

    monkeypatch.setattr(fuzz_folder, "COMMANDS", {"status": touch})
    with pytest.raises(AssertionError, match="canary"):
        fuzz_folder.read_folder(tmp_path, random.Random(1), seeds)


def test_removed_text_and_other_answers_that_check_does_not_know_of_are_wrong(
    folders: tuple[ModuleType, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzz_folder, seeds = folders

    def keep(scene: Any) -> None:
        (scene.library / "kept").write_bytes(b"term0x")

    monkeypatch.setattr(fuzz_folder, "MUTATIONS", ((keep, 1),))
    monkeypatch.setattr(fuzz_folder, "COMMANDS", {"remove": fuzz_folder._remove})
    with pytest.raises(AssertionError, match="removed text is still in kept"):
        fuzz_folder.read_folder(tmp_path, random.Random(1), seeds)
    monkeypatch.setattr(fuzz_folder, "MUTATIONS", ((lambda scene: None, 1),))
    monkeypatch.setattr(fuzz_folder, "COMMANDS", {"search": fuzz_folder._search})
    fuzz_folder.read_folder(tmp_path, random.Random(1), seeds)
    monkeypatch.setattr(fuzz_folder, "answers", lambda library: ("something else",))
    with pytest.raises(AssertionError, match="other answers"):
        fuzz_folder.read_folder(tmp_path, random.Random(1), seeds)


@pytest.mark.skipif(os.name == "nt", reason="files there are not sparse by themselves")
def test_a_file_that_was_made_huge_is_not_read_to_be_harmed_again(
    folders: tuple[ModuleType, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended the run with an OverflowError of `randbytes`, or with all memory taken."""
    fuzz_folder, seeds = folders
    huge = []

    def enlarge(scene: Any) -> None:
        for path in (*scene.library.glob("*/*.segment"), scene.catalogue):
            os.truncate(path, 1 << 40)
            huge.append(path)

    def expect_huge(scene: Any) -> None:
        assert {path.stat().st_size for path in huge} == {1 << 40}
        assert len(huge) > 1

    kinds = (enlarge, fuzz_folder.damage, fuzz_folder.foreign_segments, fuzz_folder.endless)
    monkeypatch.setattr(
        fuzz_folder, "_mutated", lambda scene: "".join(str(kind(scene)) for kind in kinds)
    )
    monkeypatch.setattr(fuzz_folder, "COMMANDS", {"status": expect_huge})
    for seed in range(5):
        huge.clear()
        fuzz_folder.read_folder(tmp_path, random.Random(seed), seeds)


def test_a_folder_is_made_from_seed_and_number(
    folders: tuple[ModuleType, list[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fuzz_folder, seeds = folders
    folders_made: list[dict[str, bytes]] = []

    def look(scene: Any) -> None:
        files = (path for path in scene.library.rglob("*") if path.is_file())
        folders_made.append({path.name: path.read_bytes() for path in files})

    monkeypatch.setattr(fuzz_folder, "COMMANDS", {"status": look})
    monkeypatch.setattr(fuzz_folder, "MUTATIONS", ((fuzz_folder.alter_values, 1),))
    for number in (1, 1, *range(2, 8)):  # some values are altered in tables that are empty
        fuzz_folder.read_folder(tmp_path, random.Random(number), seeds)
    assert folders_made[0] == folders_made[1]
    assert any(variant != folders_made[0] for variant in folders_made[2:])


def test_what_is_wrong_is_counted_and_kept(
    fuzz: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with (tmp_path / "gguf-7.tsv").open("w", encoding="utf-8") as file:
        fuzz.write(file, 0, "read", 0.1)
        fuzz.write(file, 1, "WRONG KeyError: 'x\ny'", 0.2)
        fuzz.write(file, 2, "CRASH SIGSEGV", 0.2)
    assert fuzz.fuzz("gguf", 3, 7, 50, tmp_path) == 2
    names = {path.name for path in (tmp_path / "wrong").iterdir()}
    assert names == {"gguf-7-1", "gguf-7-2"}
    assert "1 x \"WRONG KeyError: 'x?y'\"" in capsys.readouterr().out


def test_a_parser_may_crash_where_the_product_contains_it(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (tmp_path / "html-7.tsv").open("w", encoding="utf-8") as file:
        fuzz.write(file, 0, "CRASH SIGSEGV", 0.2)
    assert fuzz.fuzz("html", 1, 7, 50, tmp_path) == 0
    (tmp_path / "html-7-product.tsv").unlink()
    monkeypatch.setattr(fuzz, "ask", lambda *_: "WRONG ValueError: it came through")
    assert fuzz.fuzz("html", 1, 7, 50, tmp_path) == 1


def test_the_name_of_an_exception_is_no_clear_error(fuzz: ModuleType) -> None:
    def refuse(path: Path, data: bytes) -> None:
        raise ParsingError("{source} cannot be read: {reason}.", source=path, reason=data.decode())

    assert fuzz.ask(refuse, Path("a.html"), b"KeyError: 'x'").startswith("WRONG")
    assert fuzz.ask(refuse, Path("a.html"), b"MemoryError") == "ParsingError"


@pytest.mark.skipif(os.name == "nt", reason="only on Linux and macOS: signals by name")
def test_crashes_and_endless_loops_are_seen(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loops = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    monkeypatch.setattr(fuzz, "SECONDS", 0.3)
    start = time.monotonic()
    assert fuzz.watch(loops, tmp_path / "none") == "HANG"
    assert time.monotonic() - start < 60
    crashes = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 11)"])
    assert fuzz.watch(crashes, tmp_path / "none") == ""
    assert -crashes.returncode == signal.SIGSEGV
