"""Nothing from outside steers a terminal, forges a line, or comes out of JSON as something else.

Every command runs over a library whose names, titles, headings, metadata, texts, model and
settings are hostile, in both languages, into a pipe and into a terminal.
"""

from __future__ import annotations

import ast
import csv
import json
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest
from in_process import (
    CODES,
    HOSTILE,
    LINES,
    MARKUP,
    NAME,
    NOT_UTF8,
    Localrag,
    Run,
    forbidden,
    in_process,
)

from localrag import __main__, messages, printable
from localrag.bundle import packing
from localrag.printable import as_json, as_name, as_text

posix = pytest.mark.skipif(os.name == "nt", reason="only on systems with such file names")


def test_what_is_unseen_is_all_of_it() -> None:
    characters = "".join(map(chr, range(sys.maxunicode + 1)))
    assert forbidden(as_text(characters)) == []
    assert forbidden(as_name(characters)) == []
    assert not set(as_name(characters)) & set("\t\n\u200c\u200d")
    assert len(as_name(characters)) == len(characters)
    for text in ("Ελληνικά", "中文，（全角）　空格", "한국어", "עברית", "e\u0301", "🙂", "\ue000"):
        assert as_name(text) == text


def test_the_installer_which_stands_alone_knows_the_same_characters() -> None:
    assert packing.contents()["localrag/printable.py"] == Path(printable.__file__)
    message = messages.tr("{name} ({fault})", name=HOSTILE, fault=1)
    assert forbidden(message) == []
    assert "\n" not in message


def test_json_escapes_and_never_replaces() -> None:
    characters = "".join(
        map(chr, [*range(0xD800), *range(0xDC80, 0xDD00), *range(0xE000, 0x110000)])
    )
    text = as_json({characters: [characters, NOT_UTF8]}, indent=2)
    assert json.loads(text) == {characters: [characters, NOT_UTF8]}
    assert forbidden(text) == []
    assert "中文" in as_json("中文")


@pytest.fixture(params=["en", "zh"])
def language(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(messages, "interface_language", lambda: request.param)
    return str(request.param)


def each_once(*options: object) -> pytest.MarkDecorator:
    """Both languages and both ways to run, without every combination."""
    pairs = list(zip(("en", "zh"), options, strict=True))
    return pytest.mark.parametrize(("language", "way"), pairs, indirect=["language"])


@pytest.fixture
def localrag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Localrag:
    return in_process(tmp_path, monkeypatch)


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    text = f"# Tea {MARKUP}\n\nGreen tea is picked in spring. {MARKUP}\n\nThe score was 3.\n"
    for name in (NAME, "plain.md", NOT_UTF8):
        with suppress(OSError):  # a file system of UTF-8 names only
            (folder / name).write_text(f"{text}{len(name)}\n", encoding="utf-8")
    (folder / f"no{CODES}{LINES}.xyz").write_bytes(b"\0")
    (folder / f"broken{CODES}{LINES}.pdf").write_bytes(b"%PDF-1.4 broken")
    return folder


@pytest.fixture
def library(localrag: Localrag, documents: Path, tmp_path: Path) -> tuple[str, str]:
    option = ("--library", str(tmp_path / "library"))
    assert localrag("add", str(documents), *option).code == 3  # one of them is broken
    return option


def plant(folder: Path) -> None:
    """Write hostile texts where a library that is handed over may hold them."""
    with closing(sqlite3.connect(folder / "catalogue.sqlite", isolation_level=None)) as catalogue:
        columns = {
            table: {row[1] for row in catalogue.execute(f"pragma table_info({table})")}
            for (table,) in catalogue.execute("select name from sqlite_schema where type='table'")
        }
        planted = 0
        for table, names in columns.items():
            for name in names & {"title", "heading", "language", "added_at"}:
                planted += catalogue.execute(f"update {table} set {name} = ?", (HOSTILE,)).rowcount
            if "metadata" in names:
                value = json.dumps({"author": HOSTILE, "pages_without_text": HOSTILE})
                catalogue.execute(f"update {table} set metadata = ?", (value,))
        notes = [
            {"kind": "damaged", "values": {"reason": HOSTILE}},
            {"kind": "left out", "values": {"what": HOSTILE, "count": 3}},
        ]
        for table, column, value in (
            ("pages", "notes", json.dumps(notes)),
            ("pages", "label", HOSTILE),
            ("unread", "message", HOSTILE),
            ("unread", '"values"', json.dumps({"source": HOSTILE})),
            ("unread", "hint", f"{HOSTILE} {{source}}"),
        ):
            planted += catalogue.execute(f"update {table} set {column} = ?", (value,)).rowcount
        planted += catalogue.execute(
            "update meta set value = ? where key like '%embedding%name%'", (HOSTILE,)
        ).rowcount
        assert planted >= 3


@posix
@each_once("terminal", "pipe")
@pytest.mark.usefixtures("language")
def test_every_command(
    way: str, localrag: Localrag, library: tuple[str, str], documents: Path, tmp_path: Path
) -> None:
    def run(*arguments: str, typed: str = "") -> Run:
        return localrag(*arguments, *library, terminal=way == "terminal", typed=typed)

    def all_of_them() -> None:
        run("add", str(documents))
        run("add", str(documents), "--json")
        for question in ("green tea", HOSTILE):
            for options in ((), ("--json",), ("--explain",), ("--rerank", "keyword", "--explain")):
                run("search", question, *options)
            for options in (("--json",), ("--explain",), ("--mode", "self-rag", "--explain")):
                run("ask", question, *options)
            run("compare", question)
            run("compare", question, "--json")
            run("compare", question, "--modes", "standard,self-rag", "--reference", HOSTILE)
        run("chat", typed=f"green tea\n{HOSTILE}\n\n")
        for command in ("status", "check", "rebuild"):
            run(command)
            run(command, "--json")
        run("status", "--documents")
        for options in ((), ("--json",)):
            run("status", "--problems", *options)
            for name in ("plain.md", NAME, HOSTILE):
                run("show", str(documents / name), *options)
        for name in ("plain.md", NAME, HOSTILE):
            run("page", str(documents / name), "1", "--highlight", "tea")
            run("page", str(documents / name), "1", "-o", str(tmp_path / f"{NAME}.png"))
        run("doctor", "--quick")
        run("doctor", "--quick", "--json")

    all_of_them()
    plant(Path(library[1]))
    all_of_them()
    archive = tmp_path / f"out{CODES}{LINES}.zip"
    run("export", str(archive))
    localrag("import", str(archive), "--library", str(tmp_path / f"in{CODES}{LINES}"))
    localrag("import", str(documents / NAME), "--library", str(tmp_path / "other"))
    run("remove", str(documents))


@posix
@each_once("--debug", "plain")
@pytest.mark.usefixtures("language")
def test_errors_settings_and_the_environment(
    way: str, localrag: Localrag, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*arguments: str) -> Run:
        return localrag(*([way] if way == "--debug" else []), *arguments)

    for arguments in (
        (HOSTILE,),
        ("search", "x", "--library", str(tmp_path / HOSTILE.replace("/", "."))),
        ("search", "x", f"--{HOSTILE}"),
        ("search", "x", "--mode", HOSTILE),
        ("ask", "x", "--budget", HOSTILE),
        ("add", str(tmp_path / NAME)),
        ("config", "set", HOSTILE, HOSTILE),
        ("config", "set", "answer.k", HOSTILE),
        ("models", "path", HOSTILE),
        ("models", "pull", HOSTILE),
        ("models", "verify", HOSTILE),
        ("models", "pull", "x", "--from", HOSTILE),
        ("bundle", "verify", str(tmp_path / NAME)),
        ("bundle", "verify", str(tmp_path / NAME), "--json"),
        ("bench", "retrieval", str(tmp_path / NAME)),
        ("eval", "run", str(tmp_path / NAME)),
    ):
        assert run(*arguments).code != 0, arguments
    settings = Path(os.environ["LOCALRAG_CONFIG"])
    run("config", "set", "embedding.model", HOSTILE)
    run("config")
    run("config", "--json")
    run("config", "prompts", str(tmp_path / NAME))
    run("doctor", "--quick")
    for text in (f"{json.dumps(HOSTILE)} = 1", f"[answer]\nmode = {json.dumps(HOSTILE)}", HOSTILE):
        settings.write_text(text, encoding="utf-8", errors="replace")
        assert run("status").code != 0
        assert run("config").code != 0
    settings.unlink()
    monkeypatch.setenv("LOCALRAG_LIBRARY", HOSTILE)
    assert run("status").code != 0
    assert run("search", "x", "--json").code != 0
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / NAME))
    run("config", "path")
    run("config")


@posix
@pytest.mark.usefixtures("language")
def test_models_of_ones_own(localrag: Localrag, tmp_path: Path) -> None:
    weights = tmp_path / f"m{CODES}{LINES}.gguf"
    weights.write_bytes(b"GGUF" + bytes(100))
    for name in ("mine", HOSTILE):
        localrag("models", "add", name, str(weights), "--task", "llm")
        for command in ("verify", "path", "remove"):
            localrag("models", command, name)
        for command in ("list", "verify"):
            localrag("models", command)
            localrag("models", command, terminal=True)
            localrag("models", command, "--json")
    records = Path(os.environ["LOCALRAG_MODELS"])
    for file in records.glob("*.json"):
        file.write_text(file.read_text().replace("mine", HOSTILE), encoding="utf-8")
        localrag("models", "list")


@posix
@pytest.mark.usefixtures("language")
def test_pages_tables_and_pictures(
    localrag: Localrag, library: tuple[str, str], tmp_path: Path
) -> None:
    page, table, plot = tmp_path / "p.html", tmp_path / "t.csv", tmp_path / "p.svg"
    data = tmp_path / f"d{CODES}{LINES}.json"
    row = {"question": HOSTILE, "answer": HOSTILE, "contexts": [HOSTILE], "ideal_answer": HOSTILE}
    data.write_text(json.dumps([row, {"question": "green tea", "ideal_answer": "spring"}]))
    cache = ("--cache", str(tmp_path / "cache"))
    reports = ("--html", str(page), "--csv", str(table))
    result = localrag("eval", "run", str(data), "--no-judge", *reports, *cache, *library)
    assert result.code == 0, result.err
    with table.open(encoding="utf-8-sig", newline="") as file:
        for cells in csv.reader(file):
            assert forbidden("".join(cells)) == []
            assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)
    html = page.read_text(encoding="utf-8")
    assert forbidden(html) == []
    assert "<b>&" not in html
    localrag("eval", "run", str(data), *cache, *library)
    localrag("eval", "run", str(data), "--json", *cache, *library)
    localrag("eval", "make", "--questions", "2", *cache, *library)
    for options in ((), ("--modes", "standard,self-rag")):
        localrag("compare", HOSTILE, "--html", str(page), *options, *library)
        html = page.read_text(encoding="utf-8")
        assert forbidden(html) == []
        assert "<b>&" not in html
        assert "unicode-bidi: isolate" in html
    beir = tmp_path / f"set{CODES}{LINES}&<b>"
    beir.mkdir()
    passage = {"_id": "1", "title": HOSTILE, "text": "green tea"}
    (beir / "corpus.jsonl").write_text(json.dumps(passage) + "\n")
    (beir / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": HOSTILE}) + "\n")
    (beir / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq\t1\t1\n")
    bench_result = localrag("bench", "retrieval", str(beir), "--plot", str(plot))
    assert bench_result.code == 0, bench_result.err
    assert forbidden(plot.read_text(encoding="utf-8")) == []
    ElementTree.parse(plot)
    localrag("bench", "retrieval", str(beir), "--json")


@posix
def test_a_source_that_json_gives_is_an_argument(
    localrag: Localrag, library: tuple[str, str], documents: Path
) -> None:
    before = localrag("status", "--json", *library).json["list"]
    sources = {source for document in before for source in document["sources"]}
    assert str(documents / NAME) in sources
    # Bytes that are no UTF-8 are kept as hexadecimal escapes; that name is an argument too.
    assert {Path(source).name for source in sources} - {NAME, "plain.md"} <= {r"caf\xe9.md"}
    for source in sorted(sources):
        result = localrag("remove", source, "--json", *library)
        assert result.json["sources"] == [source]
    assert localrag("status", "--json", *library).json["list"] == []


def test_only_one_module_prints() -> None:
    """A `print`, an `echo` or a console elsewhere would go past the one way."""
    folder = Path(__main__.__file__).parent
    wrong = []
    for path in [*sorted((folder / "cli").glob("*.py")), folder / "__main__.py"]:
        if path.name in ("output.py", "proving.py"):  # the latter reports to its parent
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            streams = re.search(r"std(out|err)\.(write|buffer)|__std", called)
            if called in ("print", "Console", "click.echo", "click.secho", "json.dumps") or streams:
                wrong.append(f"{path.name}:{node.lineno} {called}")
            if called == "TextColumn" and "markup=False" not in ast.unparse(node):
                wrong.append(f"{path.name}:{node.lineno} markup")
    assert wrong == []


@pytest.fixture(autouse=True)
def _streams_of_the_test() -> Iterator[None]:
    before = sys.stdout, sys.stderr
    yield
    assert (sys.stdout, sys.stderr) == before
