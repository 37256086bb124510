"""A library keeps the embedding model it was built with, and one command changes it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from library.library_fixtures import EMBEDDER, add, document, open_library

from localrag import LocalRAG, factory
from localrag.cli.group import cli
from localrag.config.settings import Settings
from localrag.errors import LocalragError, ModelNotFoundError
from localrag.library.records import EmbeddingIdentity
from localrag.models.registry.store import ModelStore

pytestmark = pytest.mark.models("use-multilingual-v3", "bge-small-en-v1.5-int8")

STARTER, BGE_EN = "use-multilingual-v3", "bge-small-en-v1.5-int8"

ENGLISH = "The old lighthouse was automated in 1985, and its last keeper now leads the tours. " * 3
CHINESE = (
    "这座灯塔于一九八五年改为自动控制，最后一位守塔人现在带领游客参观，他每天都会讲起那时的故事。"
)


@pytest.fixture
def library(tmp_path: Path, models_dir: Callable[[str], Path]) -> str:
    models_dir(STARTER)
    models_dir(BGE_EN)
    (tmp_path / "en.md").write_text(ENGLISH, encoding="utf-8")
    (tmp_path / "zh.md").write_text(CHINESE, encoding="utf-8")
    return str(tmp_path / "library")


def run(*arguments: str, fails: bool = False) -> str:
    result = CliRunner().invoke(cli, list(arguments), env={"LOCALRAG_LANG": "en"})
    if fails:
        assert isinstance(result.exception, LocalragError)
        return str(result.exception)
    assert result.exit_code == 0, result.output
    return result.output


def model_of(library: str) -> str:
    record = json.loads(run("status", "--library", library, "--json"))
    return str(record["embedding"]["model"])


def test_from_the_hint_to_the_switch_and_back(library: str, tmp_path: Path) -> None:
    command = f"localrag --library {library} rebuild --embedding {STARTER}+{BGE_EN}"
    english, at = str(tmp_path / "en.md"), ("--library", library)
    assert command in run("add", english, "--embedding", STARTER, *at)
    (tmp_path / "more.md").write_text(ENGLISH.replace("1985", "1986"), encoding="utf-8")
    assert "--embedding" not in run("add", str(tmp_path / "more.md"), *at)
    assert command in run("doctor", "--quick", *at)

    run("rebuild", "--embedding", f"{STARTER}+{BGE_EN}", *at)
    assert model_of(library) == f"{STARTER}+{BGE_EN}"
    assert "lighthouse" in run("search", "who guides visitors today", *at)
    assert "灯塔" not in run("search", "谁带领游客参观？", "--mode", "dense", *at)
    assert "lighthouse" in run("search", "谁带领游客参观？", "--mode", "dense", *at)
    assert "--embedding" not in run("doctor", "--quick", *at)

    switched = run("rebuild", "--embedding", "english", *at)
    assert f"again with {BGE_EN}" in switched
    assert "--rerank cross-encoder" in switched
    assert model_of(library) == BGE_EN
    assert "lighthouse" in run("search", "who guides visitors today", *at)
    assert "in order" in run("check", *at)
    assert "--embedding" not in run("doctor", "--quick", *at)

    warned = run("add", str(tmp_path / "zh.md"), *at)
    assert "33% of the text is Chinese" in warned
    assert f"localrag --library {library} rebuild --embedding {STARTER}" in warned
    assert model_of(library) == BGE_EN
    run("rebuild", *at)
    assert model_of(library) == BGE_EN

    back = run("rebuild", "--embedding", STARTER, *at)
    assert f"again with {STARTER}" in back
    assert "--rerank" not in back
    assert "守塔人" in run("search", "who guides visitors", "--mode", "dense", *at)
    again = run("rebuild", "--embedding", "english", *at)
    assert "33% of the text is Chinese" in again


def test_a_new_library_has_both_models_where_both_are_there(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = run("add", str(tmp_path / "en.md"), str(tmp_path / "zh.md"), "--library", library)
    assert "--embedding" not in result
    assert model_of(library) == f"{STARTER}+{BGE_EN}"
    monkeypatch.setattr(ModelStore, "is_present", lambda _, name: name == STARTER)
    result = run("add", str(tmp_path / "en.md"), "--library", f"{library}2")
    assert model_of(f"{library}2") == STARTER
    assert f"rebuild --embedding {STARTER}+{BGE_EN}" in result  # what is missing is named
    assert "lighthouse" in run("search", "who guides visitors today", "--library", library)


def test_a_new_library_with_the_english_model(library: str, tmp_path: Path) -> None:
    result = run("add", str(tmp_path / "en.md"), "--embedding", "english", "--library", library)
    assert "--embedding" not in result
    assert model_of(library) == BGE_EN
    result = run(
        "add", str(tmp_path / "zh.md"), "--embedding", STARTER, "--library", library, fails=True
    )
    assert "Run `localrag rebuild`" in result


def test_a_model_that_is_set_for_all_libraries_stands_against_it(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("add", str(tmp_path / "en.md"), "--embedding", STARTER, "--library", library)
    monkeypatch.setenv("LOCALRAG_EMBEDDING_MODEL", STARTER)
    result = run("rebuild", "--embedding", "english", "--library", library, fails=True)
    assert "config unset embedding.model" in result
    assert model_of(library) == STARTER


def test_an_open_engine_follows_a_switch(library: str, tmp_path: Path) -> None:
    with LocalRAG.open(library) as rag:
        rag.add([tmp_path / "en.md"])
        assert rag.search("who guides visitors")
        assert rag.embedder.dimension == 512 + 384
        run("rebuild", "--embedding", "english", "--library", library)
        assert rag.search("who guides visitors")
        assert rag.embedder.dimension == 384


@pytest.mark.parametrize(
    "name",
    ["{folder}", "{folder}/../evil", "evil", "./evil", "~/evil", "\\\\host\\share", "C:\\evil"],
)
def test_a_library_does_not_say_which_folder_is_opened(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "evil"
    folder.mkdir()
    for file in ("tokenizer.json", "model.onnx"):
        (folder / file).write_text("{", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    looked: list[str] = []
    monkeypatch.setattr(ModelStore, "path", lambda _, name: looked.append(name))
    name = name.format(folder=folder)
    identity = EmbeddingIdentity(EMBEDDER.fingerprint, name, EMBEDDER.dimension)
    with open_library(
        tmp_path / "library", tokenize=factory.make_tokenizer(Settings()), embedding=identity
    ) as library:
        add(library, document(ENGLISH))
    with LocalRAG.open(tmp_path / "library", create=False) as rag:
        assert rag.embedding_advice() is None
        for act in (lambda: rag.search("lighthouse"), lambda: rag.add([]), rag.rebuild):
            with pytest.raises(ModelNotFoundError, match="opens no path"):
                act()
    result = run("search", "lighthouse", "--library", str(tmp_path / "library"), fails=True)
    assert "localrag models add" in result
    assert looked == []


def test_a_path_is_named_in_the_settings_or_given_a_name(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, models_dir: Callable[[str], Path]
) -> None:
    path = str(models_dir(BGE_EN))
    english = ("add", str(tmp_path / "en.md"), "--library", library)
    result = run(*english, "--embedding", path, fails=True)
    assert f"localrag models add NAME {path}" in result
    assert not Path(library).exists()
    monkeypatch.setenv("LOCALRAG_EMBEDDING_MODEL", path)
    run(*english, "--embedding", path)
    assert model_of(library) == path
    assert "lighthouse" in run("search", "who guides visitors", "--library", library)
    monkeypatch.delenv("LOCALRAG_EMBEDDING_MODEL")
    assert "opens no path" in run("search", "who guides visitors", "--library", library, fails=True)
