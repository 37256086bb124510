"""Every text that a person reads exists in English and in Chinese."""

from __future__ import annotations

import ast
import re
import string
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import click
import jinja2
import pytest
from jinja2 import nodes

from localrag import errors, types
from localrag.errors import UsageError
from localrag.evaluation.scoring import METRICS
from localrag.languages import LANGUAGES
from localrag.messages import (
    environment_language,
    interface_language,
    name_library,
    phrase,
    spoken,
    spoken_to,
    tr,
    translate,
)

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"
TABLES = tomllib.loads((PACKAGE / "messages_zh.toml").read_text(encoding="utf-8"))
CATALOGUE = TABLES["messages"]
SPEAKERS = {"phrase", "tr", "translate", "say_tr", "note_tr"} | {
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.LocalragError)
}


class Module:
    """One source file: the calls whose first argument or `hint` a person reads."""

    def __init__(self, source: str) -> None:
        self._tree = ast.parse(source)
        self._names: dict[str, str] = {}
        self._constants: dict[str, ast.expr] = {}
        self._kinds: dict[str, tuple[str, ...]] = {}
        for node in ast.walk(self._tree):
            if isinstance(node, ast.ImportFrom) and node.module in (
                "localrag.messages",
                "localrag.errors",
                "localrag.cli.output",
            ):
                self._names |= {a.asname or a.name: a.name for a in node.names}
            if isinstance(node, ast.arg) and isinstance(node.annotation, ast.Name):
                kinds = get_args(getattr(types, node.annotation.id, None))
                if node.annotation.id in ("Say", "Notify"):
                    self._names[node.arg] = "phrase"
                elif all(isinstance(kind, str) for kind in kinds):
                    self._kinds.setdefault(node.arg, kinds)
            if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("speaker("):
                self._names |= {ast.unparse(target): "phrase" for target in node.targets}
        for statement in self._tree.body:
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                self._constants[statement.targets[0].id] = statement.value

    def spoken(self) -> Iterator[ast.expr]:
        """The expressions that must be templates."""
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and self._speaks(node.func):
                yield from node.args[:1]
                yield from (word.value for word in node.keywords if word.arg == "hint")

    def texts(self, node: ast.expr) -> list[str] | None:
        """The templates that an expression may be, or None where reading cannot tell."""
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.IfExp(body=body, orelse=orelse):
                parts = [self.texts(body), self.texts(orelse)]
                return None if None in parts else [t for part in parts for t in part or []]
            case ast.Name(id=name) if name in self._constants:
                return self.texts(self._constants[name])
            case ast.Name(id=name) if self._kinds.get(name):
                return list(self._kinds[name])
            case ast.Dict(values=values):
                tables = [self.texts(value) for value in values]
                return None if None in tables else [t for part in tables for t in part or []]
            case ast.Subscript(value=ast.Name() as table):
                return self.texts(table)
            case ast.Starred():
                return []  # passed on: it was found where it was said
            case ast.Attribute(value=ast.Subscript(value=ast.Name(id="LANGUAGES")), attr="name"):
                return [language.name for language in LANGUAGES.values()]
            case ast.Attribute(value=ast.Subscript(value=ast.Name(id="METRICS")), attr="title"):
                return [metric.title for metric in METRICS.values()]
            case ast.Attribute(attr="message" | "hint"):
                return []  # what an error brought along was found where it was raised
            case _:
                return None

    def _speaks(self, function: ast.expr) -> bool:
        match function:
            case ast.Name(id=name):
                return self._names.get(name) in SPEAKERS
            case ast.Call(func=ast.Name(id="speaker")):
                return True
            case ast.Attribute(attr="_announce"):
                return True
            case ast.Attribute(value=ast.Name(id="messages" | "errors"), attr=name):
                return name in SPEAKERS
            case _:
                return False


def texts_of_template(source: str) -> list[str | None]:
    """What a page's template gives to `tr`, None where reading cannot tell."""
    return [
        call.args[0].value if isinstance(call.args[0], nodes.Const) else None
        for call in jinja2.Environment().parse(source).find_all(nodes.Call)
        if isinstance(call.node, nodes.Name) and call.node.name == "tr"
    ]


def collect() -> tuple[dict[str, str], list[str]]:
    """Template -> where it stands, and the places whose text cannot be read off."""
    places: dict[str, str] = {}
    unclear: list[str] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        if path.parent == PACKAGE and path.stem in ("errors", "messages"):
            continue
        module = Module(path.read_text(encoding="utf-8"))
        for node in module.spoken():
            where = f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}"
            texts = module.texts(node)
            if texts is None:
                unclear.append(f"{where}: {ast.unparse(node)}")
            for text in texts or []:
                places.setdefault(text, where)
    for path in sorted(PACKAGE.rglob("templates/*.html")):
        where = path.relative_to(PACKAGE).as_posix()
        for message in texts_of_template(path.read_text(encoding="utf-8")):
            if message is None:
                unclear.append(where)
            else:
                places.setdefault(message, where)
    # Kept in records: what metrics and languages are called.
    for metric in METRICS.values():
        places.setdefault(metric.title, "evaluation")
    for language in LANGUAGES.values():
        places.setdefault(language.name, f"languages/{language.code}.py")
    return places, unclear


def placeholders(template: str) -> set[tuple[str, str | None, str | None]]:
    """Names with format and conversion: {seconds:.1f} must not become {seconds}."""
    parts = string.Formatter().parse(template)
    return {
        (name, spec, conversion)
        for _, name, spec, conversion in parts
        if name is not None and "|" not in (spec or "")  # {count:page|pages}, the word alone
    }


def commands(template: str) -> list[str]:
    return sorted(re.findall(r"`[^`]*`", template))


TEMPLATES, UNCLEAR = collect()


def test_the_collection_finds_errors_hints_and_messages() -> None:
    assert any(where.startswith("config/") for where in TEMPLATES.values())
    assert any(where.startswith("cli/") for where in TEMPLATES.values())
    assert len(TEMPLATES) > 50


def test_the_collection_reads_every_shape_and_names_what_it_cannot_read() -> None:
    module = Module(
        "from localrag import errors\n"
        "from localrag.errors import ModelError as Broken\n"
        "from localrag.messages import tr\n"
        "HINT = 'three'\n"
        "tr('one' if x else 'two')\n"
        "Broken('four', hint=HINT, name='no text')\n"
        "errors.UsageError('five')\n"
        "click.UsageError(other)\n"
        "text.translate(table)\n"
        "tr(anything)\n"
        "tr(f'{built}')\n"
        "say = speaker('zh')\n"
        "say('eight')\n"
        "def f(words: Say):\n"
        "    words('nine')\n"
        "def g(rating: Rating):\n"
        "    speaker(None)(rating)\n"
    )
    texts = [module.texts(node) for node in module.spoken()]
    texts_found = sorted(text for part in texts for text in part or [])
    assert texts_found == sorted(
        ["one", "two", "three", "four", "five", "eight", "nine", *get_args(types.Rating)]
    )
    assert texts.count(None) == 2
    page = "{% set x = tr('six') %}<a title=\"{{ tr('seven', n=1) }}\">{{ tr(x) }}{{ other('8') }}"
    assert texts_of_template(page) == ["six", "seven", None]


def test_the_collection_reads_tables_of_texts() -> None:
    source = "from localrag.messages import tr\nTABLE = {1: 'one', 2: 'two'}\ntr(TABLE[x])"
    module = Module(source)
    assert [module.texts(node) for node in module.spoken()] == [["one", "two"]]


def test_every_text_can_be_read_off_the_source() -> None:
    assert UNCLEAR == []


def faults_of(english: str, chinese: str | None) -> Iterator[str]:
    """What is wrong with the Chinese of a text."""
    if chinese is None:
        yield "add it to messages_zh.toml"
        return
    if placeholders(chinese) != placeholders(english):
        yield "other placeholders"
    if commands(chinese) != commands(english):
        yield "other commands"
    # "{count} passages" has words to translate, "`localrag add` {path}" has none.
    has_words = re.search(r"[A-Za-z]{3}", re.sub(r"`[^`]*`|\{[^}]*\}", "", english))
    if has_words and chinese != english and not re.search(r"[\u4e00-\u9fff]", chinese):
        yield "not in Chinese"
    if re.search(r"[\u4e00-\u9fff][,.:;?!()]", chinese):
        yield "full-width punctuation"


def test_every_text_has_a_chinese_one_with_the_same_placeholders() -> None:
    faults = [
        f"{TEMPLATES[english]}: {english!r}: {fault}"
        for english in sorted(TEMPLATES)
        for fault in faults_of(english, CATALOGUE.get(english))
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("english", "chinese", "fault"),
    [
        ("{count} files", None, "add it to messages_zh.toml"),
        ("{count} files", "{number} 个文件", "other placeholders"),
        ("Run `localrag add`.", "运行 `localrag remove`。", "other commands"),
        ("A file was read.", "A file.", "not in Chinese"),
        ("A file was read.", "读了文件.", "full-width punctuation"),
    ],
)
def test_what_is_wrong_with_a_text(english: str, chinese: str | None, fault: str) -> None:
    assert list(faults_of(english, chinese)) == [fault]
    assert list(faults_of("{count} files", "{count} 个文件")) == []


def test_the_catalogue_has_no_leftovers() -> None:
    assert sorted(set(CATALOGUE) - set(TEMPLATES)) == []


def texts_of_click() -> set[str]:
    """The literals that the installed click hands to gettext."""
    texts: set[str] = set()
    for path in Path(click.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                count = {"_": 1, "ngettext": 2}.get(node.func.id, 0)
                texts |= {a.value for a in node.args[:count] if isinstance(a, ast.Constant)}
    return texts


REWORDED = (
    {"No such option {name!r}.", "No such option: {name}"},
    {"(Did you mean one of: {possibilities}?)", "(Possible options: {possibilities})"},
)
"""Texts of which each version of click since 8.2 has one."""


def test_what_is_translated_of_click_is_what_click_says() -> None:
    texts = texts_of_click()
    assert all(wordings & texts for wordings in REWORDED)
    assert sorted(set(TABLES["click"]) - texts - set().union(*REWORDED)) == []


def test_chinese_for_click_asks_for_no_value_that_click_does_not_give() -> None:
    faults = [
        english
        for english, chinese in TABLES["click"].items()
        if not placeholders(chinese) <= placeholders(english)
        or not re.search(r"[\u4e00-\u9fff]", chinese)
        or re.search(r"[\u4e00-\u9fff][,.:;?!()]", chinese)
    ]
    assert not faults


@pytest.mark.parametrize(
    ("language", "message", "hint", "said"),
    [
        ("en", "One.", "Two.", "One. Two."),
        ("en", "One: {reason}", "Two.", "One: gone. Two."),
        ("en", "One: {reason}", "", "One: gone"),
        ("zh", "一。", "二。", "一。二。"),
        ("zh", "一：{reason}", "二。", "一：gone。二。"),
    ],
)
def test_an_error_and_its_hint_are_one_paragraph(
    language: str, message: str, hint: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("localrag.messages.interface_language", lambda: language)
    assert spoken(errors.ModelError(message, hint=hint, reason="gone")) == said


@pytest.mark.parametrize(
    ("variables", "language"),
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "en_US.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "en_US.UTF-8", "LOCALRAG_LANG": "zh"}, "zh"),
    ],
)
def test_the_language_follows_the_locale(
    variables: dict[str, str], language: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOCALRAG_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    environment_language.cache_clear()
    assert interface_language() == language
    environment_language.cache_clear()


GIBBERISH = ("qz 7 vkx 7, wq: 7 (zj)!", "砷彘7鼐，麈7", "砷彘鼐麈")


def read_by(pattern: str, sentences: set[str]) -> list[str]:
    """The sentences that a regular expression is made for.

    It matches them as a whole, but not gibberish; or three words of it stand in them side by side.
    """
    expression = re.compile(pattern, re.DOTALL)
    plain = re.sub(r"\\.|\[[^\]]*\]|[(){}|?*+^$.]", "\0", pattern)
    runs = re.findall(r"\w+ \w+ \w+|[\u4e00-\u9fff]{4,}", plain)
    return [
        sentence
        for sentence in sentences
        if any(run in sentence for run in runs)
        or (expression.fullmatch(sentence) and not any(map(expression.fullmatch, GIBBERISH)))
    ]


def own_sentences() -> set[str]:
    """What is said of two words and more, with a value in each place."""
    sentences = set()
    for template in (*CATALOGUE, *CATALOGUE.values()):
        sentence = re.sub(r"\{[^{}]*\}", "7", template)
        if re.search(r"[a-z]{3}.* [a-z]{3}|[\u4e00-\u9fff]{4}", sentence):
            sentences.add(sentence)
    return sentences


def patterns() -> Iterator[tuple[str, str]]:
    """Every regular expression that stands in the package as a text, and where."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re" | "regex")),
                    args=[ast.Constant(value=str(pattern)), *_],
                ):
                    yield f"{path.relative_to(PACKAGE).as_posix()}:{node.lineno}", pattern


def test_no_regular_expression_reads_our_own_sentences() -> None:
    """Not proof, since a pattern may be put together elsewhere; the old ways are caught."""
    sentences = own_sentences()
    assert read_by(r"passage (\d+) (relevant|irrelevant)", sentences)
    assert read_by(r"(\d+) 个段落(?:超出上下文窗口)?", sentences)
    assert read_by(r"(.+) \((the reply could not be read, .+)\)", sentences)
    reads = {
        where: read_by(pattern, sentences)[:2]
        for where, pattern in patterns()
        # words with which documents address a model, and with which questions ask
        if not where.startswith("text/instructions.py")
    }
    assert {where: result for where, result in reads.items() if result} == {}


def test_a_reason_is_said_in_the_language_of_its_message() -> None:
    error = errors.LibraryError("a file")
    assert spoken(errors.LibraryError("{found}", found=error), "zh") == translate("a file", "zh")
    assert str(errors.LibraryError("{found}", found=error)) == "a file" != translate("a file", "zh")


def test_values_go_in_after_translation() -> None:
    assert tr("Nothing found.") == "Nothing found."
    assert translate("Nothing found.", "zh") == CATALOGUE["Nothing found."]


def test_a_printed_command_names_the_library_that_was_named() -> None:
    name_library("--library '{notes}'")
    run, rest = "Run `localrag rebuild`.", "See `localrag export` and `localrag models list`."
    assert tr(run) == "Run `localrag --library '{notes}' rebuild`."
    assert tr(rest) == rest  # of another library, or of none
    assert tr("See {name}.", name="`localrag add`") == "See `localrag add`."
    assert spoken(UsageError("No.", hint=run)).endswith("'{notes}' rebuild`.")
    for somebody_else in ("en", "zh"):
        with spoken_to(somebody_else):
            assert "--library" not in tr(run)
        assert "--library" not in phrase(run, somebody_else)
    name_library("")
    assert tr(run) == run
