import json
from pathlib import Path

import pytest

from localrag.errors import ModelError
from localrag.models.embeddings.conventions import Convention, convention, languages

BGE_EN = "Represent this sentence for searching relevant passages: "
BGE_ZH = "为这个句子生成表示以用于检索相关文章："


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bge-small-en-v1.5-int8", Convention("cls", BGE_EN)),
        ("bge-large-zh-v1.5", Convention("cls", BGE_ZH)),
        ("bge-m3", Convention("cls")),
        ("multilingual-e5-small", Convention("mean", "query: ", "passage: ")),
        ("e5-base-v2", Convention("mean", "query: ", "passage: ")),
        ("multilingual-e5-large-instruct", Convention("mean")),
        ("all-minilm-l6-v2", Convention("mean")),
        ("models--BAAI--bge-base-zh-v1.5/snapshots/abc", Convention("cls", BGE_ZH)),
        ("BAAI_bge-m3", Convention("cls")),
        ("bge_small_en", Convention("cls", BGE_EN)),
    ],
)
def test_the_family_is_known_by_its_name(tmp_path: Path, name: str, expected: Convention) -> None:
    folder = tmp_path / name
    folder.mkdir(parents=True)
    assert convention(folder) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("bge-small-zh-v1.5", ("zh",)),
        ("models--BAAI--bge-base-en-v1.5/snapshots/abc", ("en",)),
        ("bge_small_en", ("en",)),
        ("m3e-base", ("zh",)),
        ("e5-small-v2", ("en",)),
        ("all-MiniLM-L6-v2", ("en",)),
        ("bge-m3", ()),
        ("multilingual-e5-small", ()),
        ("mine", ()),
    ],
)
def test_what_a_family_was_made_for(tmp_path: Path, name: str, expected: tuple[str, ...]) -> None:
    assert languages(tmp_path / name) == expected


def test_a_renamed_folder_is_known_by_its_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"_name_or_path": "/x/BAAI_bge-small-en/"}))
    assert convention(tmp_path) == Convention("cls", BGE_EN)


def test_what_the_folder_says_comes_first(tmp_path: Path) -> None:
    folder = tmp_path / "e5-small"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    settings = folder / "config_sentence_transformers.json"
    settings.write_text('{"prompts": {"query": "ask: ", "document": ""}}')
    assert convention(folder) == Convention("cls", "ask: ", "passage: ")


@pytest.mark.parametrize("content", ["{", "[]"])
def test_a_damaged_config_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=r"config\.json cannot be read"):
        convention(tmp_path)
