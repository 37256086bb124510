"""The command line as a person uses it: real processes, the real starter embedding."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from as_program import run_program

from localrag.cli.group import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "data"


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


def localrag(*arguments: str, python: tuple[str, ...] = (), **variables: str) -> Result:
    result = run_program(*arguments, variables=variables, python=python)
    return Result(result.returncode, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def library(
    models_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, str]:
    models_dir("use-multilingual-v3")
    folder = tmp_path_factory.mktemp("cli") / "library"
    result = localrag("add", str(DATA), "--library", str(folder), "--json")
    assert result.code == 0, result.err
    assert len(result.json["added"]) == 4
    return ("--library", str(folder))


def test_help_names_every_command() -> None:
    result = localrag("--help")
    assert result.code == 0
    for command in COMMANDS:
        assert f"  {command}" in result.out


def english_left(text: str) -> list[str]:
    """English in a Chinese text: two words in a row, or a word in capitals as a placeholder.

    Commands, options and variables to type are English in any language.
    """
    names = "JSONL?|CSV|MRR|TLS|PEM|URL|GGUF|USB|PDF|PNG|MCP|Self-RAG|Model Context Protocol"
    pattern = rf"localrag(?: [a-z]+)*|--?[a-z-]+|LOCALRAG_\w+|\b(?:{names})\b"
    rest = re.sub(pattern, "", text)
    return re.findall(r"[A-Za-z]{2,} [A-Za-z]{2,}|\b[A-Z]{3,}\b", rest)


def test_english_that_is_left_is_seen() -> None:
    text = "用法：localrag ask [OPTIONS] 问题\n  --json  输出 JSON。\n  -h  Show this message.\n"
    assert english_left(text) == ["OPTIONS", "Show this"]


SUBCOMMANDS = [
    *(("models", name) for name in ("list", "pull", "verify", "add", "remove", "path")),
    *(("config", name) for name in ("show", "path", "set", "unset")),
]


@pytest.mark.parametrize("arguments", [(), *SUBCOMMANDS], ids=" ".join)
def test_no_english_in_the_chinese_help(arguments: tuple[str, ...]) -> None:
    result = localrag(*arguments, "--help", LOCALRAG_LANG="zh")
    assert result.out.startswith("用法：localrag")
    assert english_left(result.out) == []
    assert "..." not in result.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("ask",), "错误：缺少参数 '问题'。"),
        (("completion",), "错误：缺少参数 '{bash|zsh|fish}'。可选值："),
        (("search", "x", "-k", "0"), "错误：'-k' 的取值无效：0 不在范围 1<=x<=1000 内。"),
        (("search", "x", "-k", "u"), "错误：'-k' 的取值无效：'u' 不是有效的数字。"),
        (("search", "x", "-k"), "错误：选项 '-k' 需要一个值。"),
        (("search", "x", "--mode", "y"), "错误：'--mode' 的取值无效：'y' 不是可选值"),
        (("search", "x", "--mood", "y"), "。您是不是要输入 "),
        (("frobnicate",), "错误：没有命令 'frobnicate'。"),
        (("models", "pull", "x", "--from", "/no/such"), "文件夹 '/no/such' 不存在。"),
    ],
)
def test_a_wrong_command_line_is_answered_in_chinese(arguments: tuple[str, ...], said: str) -> None:
    result = localrag(*arguments, LOCALRAG_LANG="zh")
    assert result.code == 2
    assert said in result.err
    assert english_left(result.err.replace(" ".join(arguments), "")) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_in_both_languages(command: str) -> None:
    english = localrag(command, "--help", LOCALRAG_LANG="en")
    chinese = localrag(command, "--help", LOCALRAG_LANG="zh")
    assert (english.code, chinese.code) == (0, 0)
    assert english_left(chinese.out) == []
    assert any("\u4e00" <= character <= "\u9fff" for character in chinese.out)
    assert not any("\u4e00" <= character <= "\u9fff" for character in english.out)


def test_help_and_version_load_nothing_heavy() -> None:
    result = localrag("--help", python=("-X", "importtime"))
    for heavy in ("numpy", "rich", "httpx", "faiss", "torch", "onnxruntime", "llama_cpp"):
        assert f"| {heavy}\n" not in result.err.replace("|   ", "| ").replace("  ", "")
        assert not any(line.split("|")[-1].strip() == heavy for line in result.err.splitlines())


@pytest.mark.models("use-multilingual-v3")
def test_search_imports_neither_torch_nor_parsers(library: tuple[str, str]) -> None:
    result = localrag("search", "perceptron", *library, "--json", python=("-X", "importtime"))
    assert result.code == 0
    imported = {line.split("|")[-1].strip() for line in result.err.splitlines()}
    assert "faiss" in imported, "the check sees what is imported"
    heavy = {"torch", "sentence_transformers", "transformers", "pymupdf", "llama_cpp", "httpx"}
    heavy |= {"PIL", "cv2", "rapidocr", "pyclipper", "shapely", "omegaconf", "requests"}
    heavy |= {"mammoth", "pptx", "python_calamine", "oxmsg", "olefile", "lxml", "defusedxml"}
    heavy |= {"watchfiles"}
    assert imported & heavy == set()


@pytest.mark.models("use-multilingual-v3")
@pytest.mark.parametrize(
    ("question", "source", "page"),
    [
        ("By what score did Deep Blue defeat Garry Kasparov?", "ai-overview.en.pdf", 3),
        ("感知机是谁提出的？", "ai-overview.zh.pdf", 3),
    ],
)
def test_search_finds_the_page_and_says_what_each_leg_thought(
    library: tuple[str, str], question: str, source: str, page: int
) -> None:
    hits = localrag("search", question, *library, "-k", "3", "--json").json["hits"]
    assert len(hits) == 3
    assert Path(hits[0]["source"]).name == source
    assert hits[0]["page"] <= page <= hits[0]["last_page"]
    assert hits[0]["ranks"]["keyword"]["rank"] == 1
    assert "dense" in hits[0]["ranks"]
    assert hits[0]["score"] >= hits[1]["score"] >= hits[2]["score"]


@pytest.mark.models("use-multilingual-v3")
def test_search_for_a_person(library: tuple[str, str]) -> None:
    english = localrag("search", "Deep Blue Kasparov", *library, "-k", "2")
    assert "ai-overview.en.pdf  p. 3" in english.out
    chinese = localrag("search", "深蓝", *library, "-k", "2", LOCALRAG_LANG="zh")
    assert "第 " in chinese.out
    keyword = localrag("search", "qqqqxyzzy", *library, "--mode", "keyword")
    assert (keyword.code, keyword.out.strip()) == (0, "Nothing found.")


@pytest.mark.models("use-multilingual-v3")
def test_a_second_add_skips_everything(library: tuple[str, str]) -> None:
    again = localrag("add", str(DATA), *library, "--json").json
    assert again["added"] == []
    assert len(again["unchanged"]) == 4


@pytest.mark.models("use-multilingual-v3")
def test_status_lists_documents_with_pages(library: tuple[str, str]) -> None:
    status = localrag("status", *library, "--json").json
    assert status["documents"] == 4
    assert status["embedding"]["model"].split("+")[0] == "use-multilingual-v3"
    assert status["encryption"] == {"library": {"encrypted": None, "by": ""}}
    assert all(index["present"] and not index["behind"] for index in status["indexes"])
    assert {item["language"] for item in status["list"]} == {"en", "zh"}
    table = localrag("status", "--documents", *library).out
    assert "ai-overview.zh.pdf" in table.replace("\n", "")


@pytest.mark.models("use-multilingual-v3")
def test_add_remove_and_rebuild(models_dir: Callable[[str], Path], tmp_path: Path) -> None:
    models_dir("use-multilingual-v3")
    option = ("--library", str(tmp_path / "library"))
    documents = tmp_path / "documents"
    documents.mkdir()
    (documents / "one.txt").write_text("The marmot sleeps through the winter.\n")
    (documents / "two.md").write_text("# 山羊\n\n山羊在夏天上山。\n", encoding="utf-8")
    (documents / "broken.pdf").write_bytes(b"%PDF-1.7 nothing")
    result = localrag("add", str(documents), *option)
    assert result.code == 3
    assert "2 added" in result.out
    assert "broken.pdf" in result.err

    before = localrag("search", "山羊 marmot", *option, "--json").json
    assert localrag("rebuild", *option).code == 0
    assert localrag("search", "山羊 marmot", *option, "--json").json == before
    windows = {"LOCALRAG_CHUNKING_STRATEGY": "windows", "LOCALRAG_CHUNKING_SIZE": "100",
               "LOCALRAG_CHUNKING_OVERLAP": "10"}  # fmt: skip
    rebuilt = localrag("rebuild", "--json", *option, **windows)
    assert rebuilt.json["documents"] == 2

    output = localrag("remove", str(documents / "one.txt"), *option, "--json").json
    assert output["chunks"] == 1
    hits = localrag("search", "marmot", *option, "--json").json["hits"]
    assert [Path(hit["source"]).name for hit in hits] == ["two.md"]
    assert (documents / "one.txt").exists()


def test_a_mistyped_path_makes_no_library(tmp_path: Path) -> None:
    result = localrag("add", str(tmp_path / "nope"), "--library", str(tmp_path / "library"))
    assert result.code == 2
    assert "nope" in result.err
    assert not (tmp_path / "library").exists()


@pytest.mark.models("use-multilingual-v3")
def test_only_unreadable_files_is_a_failure(
    models_dir: Callable[[str], Path], tmp_path: Path
) -> None:
    models_dir("use-multilingual-v3")
    (tmp_path / "empty.txt").write_text("")
    result = localrag("add", str(tmp_path / "empty.txt"), "--library", str(tmp_path / "library"))
    assert result.code == 1
    assert "empty.txt" in result.err
    assert "is empty" in " ".join(result.err.split())


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("search", "x", "--library", "/no/such/library"), 1, "/no/such/library"),
        (("search", " ", "--library", "/no/such/library"), 2, "The question is empty."),
        (("ask", "", "--library", "/no/such/library"), 2, "The question is empty."),
        (("remove", "", "--library", "/no/such/library"), 2, "One of the paths is empty."),
        (("add", "data", " ", "--library", "/no/such/library"), 2, "One of the paths is empty."),
        (("status", "--library", ""), 2, "One of the paths is empty."),
        (("status", "--library", "/no/lib $x"), 1, "localrag --library '/no/lib $x' add"),
        (("--library", "/no/such", "status"), 1, "localrag --library /no/such add"),
        (("config", "set", "answer.k", "zero"), 2, "answer.k"),
        (("models", "path", "no-such-model"), 1, "no-such-model"),
        (("frobnicate",), 2, "frobnicate"),
        (("search", "x", "-k", "0"), 2, "-k"),
    ],
)
def test_errors_are_one_paragraph_without_a_traceback(
    arguments: tuple[str, ...], code: int, said: str
) -> None:
    result = localrag(*arguments)
    assert result.code == code
    assert said in result.err
    assert "Traceback" not in result.err


def test_debug_shows_the_traceback() -> None:
    result = localrag("--debug", "status", "--library", "/no/such/library")
    assert result.code == 1
    assert "Traceback" in result.err


def test_errors_speak_chinese() -> None:
    result = localrag("status", "--library", "/no/such/library", LOCALRAG_LANG="zh")
    assert result.err.startswith("错误：/no/such/library 中没有文档库。请先添加文档：")


def test_config_round_trip(tmp_path: Path) -> None:
    file = {"LOCALRAG_CONFIG": str(tmp_path / "mine.toml")}
    assert localrag("config", "set", "answer.k", "7", **file).code == 0
    assert localrag("config", "--json", **file).json["settings"]["answer"]["k"] == 7
    assert "answer.k" in localrag("config", **file).out
    assert localrag("config", "unset", "answer.k", **file).code == 0
    assert localrag("config", "--json", **file).json["settings"]["answer"]["k"] == 5


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str) -> None:
    assert "_LOCALRAG_COMPLETE" in localrag("completion", shell).out


@pytest.mark.models("use-multilingual-v3", "qwen2.5-coder-1.5b-instruct-q4")
def test_doctor_without_the_language_model(
    library: tuple[str, str], models_dir: Callable[[str], Path]
) -> None:
    models_dir("qwen2.5-coder-1.5b-instruct-q4")
    report = localrag("doctor", "--quick", *library, "--json").json
    assert report["ok"], report
    parts = {finding["part"] for finding in report["findings"]}
    assert {"packages", "machine", "embedding", "library", "language model"} <= parts
    assert "encryption at rest" in parts


def test_doctor_names_every_fault_and_fails(tmp_path: Path) -> None:
    result = localrag("doctor", "--quick", "--json", LOCALRAG_MODELS=str(tmp_path))
    assert result.code == 1
    problems = [finding for finding in result.json["findings"] if finding["state"] == "problem"]
    assert {"embedding", "language model"} <= {problem["part"] for problem in problems}
    assert all("localrag models pull" in problem["text"] for problem in problems)
