"""After a whole round of commands nobody but the owner may read anything that localrag made."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_process import Localrag, in_process

pytestmark = pytest.mark.skipif(os.name == "nt", reason="only where files have modes")

FOLDERS = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """Where everything goes that is made; it is there already, for everybody."""
    folder = tmp_path / "made"
    folder.mkdir(mode=0o755)
    return folder


@pytest.fixture
def localrag(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    run = in_process(tmp_path, monkeypatch)
    for name in FOLDERS:
        monkeypatch.setenv(name, str(made / name))
    monkeypatch.setenv("LOCALRAG_MODELS", str(made / "models"))
    monkeypatch.setenv("LOCALRAG_CONFIG", str(made / "settings" / "config.toml"))
    return run


def open_to_others(folder: Path) -> dict[str, str]:
    """What lies below and may be read or entered by anybody else."""
    return {
        str(path.relative_to(folder)): oct(stat.S_IMODE(path.lstat().st_mode))
        for path in sorted(folder.rglob("*"))
        if path.lstat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) and not path.is_symlink()
    }


def test_a_whole_round(localrag: Localrag, made: Path, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "tea.md").write_text("# Tea\n\nGreen tea is picked in spring.\n")
    library = ("--library", str(made / "library"))
    cache = ("--cache", str(made / "eval"))

    def ok(*arguments: str) -> None:
        result = localrag(*arguments)
        assert result.code == 0, (arguments, result.err)

    ok("add", str(documents), *library)
    ok("search", "tea", *library)
    ok("ask", "When is tea picked?", "--mode", "self-rag", *library)
    ok("export", str(made / "out.zip"), *library)
    ok("import", str(made / "out.zip"), "--library", str(made / "imported"))
    ok("compare", "tea", "--html", str(made / "compare.html"), *library)
    data = tmp_path / "data.json"
    data.write_text(json.dumps([{"question": "When is tea picked?", "ideal_answer": "spring"}]))
    reports = ("--html", str(made / "eval.html"), "--csv", str(made / "eval.csv"))
    ok("eval", "run", str(data), *reports, *cache, *library)
    ok("eval", "run", str(data), "--no-judge", "--documents", str(documents), *cache)
    ok("eval", "make", "--questions", "1", "-o", str(made / "q.jsonl"), *cache, *library)
    ok("eval", "calibrate", *cache)
    beir = tmp_path / "set"
    beir.mkdir()
    (beir / "corpus.jsonl").write_text('{"_id": "1", "text": "green tea"}\n')
    (beir / "queries.jsonl").write_text('{"_id": "q", "text": "tea"}\n')
    (beir / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    ok("bench", "retrieval", str(beir), "--plot", str(made / "plot.svg"))
    ok("config", "set", "answer.k", "6")
    ok("config", "prompts", str(made / "prompts"))
    weights = tmp_path / "m.gguf"
    weights.write_bytes(b"GGUF" + bytes(100))
    ok("models", "add", "mine", str(weights), "--task", "llm")
    ok("rebuild", *library)
    ok("remove", str(documents / "tea.md"), *library)

    paths = {path.relative_to(made).parts[0] for path in made.rglob("*")}
    assert paths >= {"library", "imported", "out.zip", "compare.html", "eval.html", "eval.csv"}
    assert paths >= {"eval", "q.jsonl", "plot.svg", "settings", "prompts", "models"}
    assert paths >= {"XDG_CACHE_HOME"}
    assert not open_to_others(made)


def test_what_the_user_named_keeps_its_mode_and_its_link(
    localrag: Localrag, made: Path, tmp_path: Path
) -> None:
    settings = made / "settings" / "config.toml"
    settings.parent.mkdir()
    dotfile = tmp_path / "dotfiles.toml"
    dotfile.write_text("# mine\n")
    dotfile.chmod(0o644)
    settings.symlink_to(dotfile)
    assert localrag("config", "set", "answer.k", "6").code == 0
    assert settings.is_symlink()
    assert "# mine" in dotfile.read_text()
    assert "k = 6" in dotfile.read_text()
    assert stat.S_IMODE(dotfile.stat().st_mode) == 0o644
