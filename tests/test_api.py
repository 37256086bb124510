"""The Python API: its documented examples are run, with the real models."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import localrag
from localrag import LocalRAG, Settings, api
from localrag.errors import LibraryMismatchError, LibraryNotFoundError, UsageError

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def rag(
    models_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalRAG]:
    models_dir("use-multilingual-v3")
    models_dir("qwen2.5-coder-1.5b-instruct-q4")
    with LocalRAG.open(tmp_path_factory.mktemp("api") / "library", settings=Settings()) as new_rag:
        yield new_rag


@pytest.mark.models(
    "use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4", "bge-small-en-v1.5-int8"
)
@pytest.mark.slow
def test_the_examples_in_the_docstrings(rag: LocalRAG, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner()
    order = (
        "add",
        "watch",
        "show",
        "page",
        "search",
        "ask",
        "stream",
        "table",
        "summarise",
        "evaluate",
        "remove",
    )
    examples = {test.name: test for test in finder.find(LocalRAG, "LocalRAG", globs={"rag": rag})}
    for method in order:
        test = examples[f"LocalRAG.{method}"]
        assert test.examples, f"{method} has no example"
        runner.run(test)
    results = runner.summarize(verbose=False)
    assert (results.failed, results.attempted) == (
        0,
        sum(len(t.examples) for t in examples.values()),
    )


@pytest.mark.models(
    "use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4", "bge-small-en-v1.5-int8"
)
@pytest.mark.slow
def test_a_chinese_question_is_answered_in_chinese_with_the_right_page(rag: LocalRAG) -> None:
    rag.add([ROOT / "data"])
    answer = rag.ask("吴文俊从什么时候开始研究几何定理的机器证明？")
    assert answer.language == "zh"
    assert "1976" in answer.text
    assert answer.grounded
    assert {(Path(c.source).name, c.page) for c in answer.citations} == {("ai-overview.zh.pdf", 2)}
    assert all("1976" in citation.quote for citation in answer.citations)


@pytest.mark.models(
    "use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4", "bge-small-en-v1.5-int8"
)
@pytest.mark.slow
def test_an_unanswerable_question_is_refused(rag: LocalRAG) -> None:
    rag.add([ROOT / "data"])
    answer = rag.ask("训练一个翻译鲸鱼歌声的模型要花多少钱？")
    assert not answer.grounded
    assert answer.citations == ()
    assert answer.text == "文档中没有这个问题的答案。"


@pytest.mark.models(
    "use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4", "bge-small-en-v1.5-int8"
)
def test_results_are_the_same_every_time_and_after_a_rebuild(rag: LocalRAG) -> None:
    rag.add([ROOT / "data"])
    before = rag.search("expert systems 专家系统", k=10)
    assert rag.search("expert systems 专家系统", k=10) == before
    rag.rebuild()
    assert rag.search("expert systems 专家系统", k=10) == before


@pytest.mark.models(
    "use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4", "bge-small-en-v1.5-int8"
)
def test_another_embedding_model_is_an_error_that_names_both(
    rag: LocalRAG, models_dir: Callable[[str], Path]
) -> None:
    rag.add([ROOT / "data"])
    models_dir("bge-small-en-v1.5-int8")
    other = localrag.load_settings({"embedding.model": "bge-small-en-v1.5-int8"})
    with (
        LocalRAG.open(rag.library.directory, settings=other, create=False) as other_rag,
        pytest.raises(LibraryMismatchError) as error,
    ):
        other_rag.search("anything")
    assert "use-multilingual-v3" in str(error.value)
    assert "bge-small-en-v1.5-int8" in str(error.value)
    assert "localrag rebuild" in str(error.value)


def test_no_library_is_said_and_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(LibraryNotFoundError, match="nowhere"):
        LocalRAG.open(tmp_path / "nowhere", create=False)
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.models(
    "use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4", "bge-small-en-v1.5-int8"
)
def test_removing_what_is_not_there_removes_nothing(rag: LocalRAG) -> None:
    rag.add([ROOT / "data"])
    documents = rag.status().counts.documents
    with pytest.raises(UsageError, match="no-such-file"):
        rag.remove([ROOT / "data" / "ai-overview.en.pdf", "no-such-file.pdf"])
    assert rag.status().counts.documents == documents


def test_the_public_names_are_what_all_says() -> None:
    for name in localrag.__all__:
        assert getattr(localrag, name) is not None
    with pytest.raises(AttributeError, match="nonsense"):
        localrag.nonsense  # noqa: B018


def test_importing_the_package_loads_nothing() -> None:
    code = "import sys, localrag; print(len([m for m in sys.modules if m.startswith('localrag')]))"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "1"


def test_the_guides_python_examples_use_names_that_exist() -> None:
    for guide in ("docs/guide/browser.md", "docs/guide/browser.zh-CN.md"):
        examples = re.findall(r"```python\n(.*?)```", (ROOT / guide).read_text("utf-8"), re.S)
        assert len(examples) == 2
        for example in examples:
            compile(example, guide, "exec")
            for method in re.findall(r"\brag\.(\w+)\(", example):
                assert callable(getattr(api.LocalRAG, method))
            for name in re.findall(r"localrag\.(\w+)\(", example):
                assert callable(getattr(localrag, name))
