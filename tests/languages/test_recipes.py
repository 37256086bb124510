"""A third language of documents, and of the interface: the recipes of CONTRIBUTING, followed.

Each is tried on a copy of the package, in a process that imports that copy.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

from localrag.languages import CODES, LANGUAGES, LanguageCode, any_of
from localrag.languages.base import Language

PACKAGE = Path(__file__).resolve().parents[2] / "localrag"

JAPANESE = '''"""Japanese."""

from localrag.languages.base import (
    Detection,
    DocumentWords,
    Language,
    Numbers,
    PromptWords,
    Questions,
    SentenceEnds,
    words_of,
)

JAPANESE = Language(
    code="ja",
    name="Japanese",
    space="",
    comma="、",
    stop="。",
    density=2.0,
    detection=Detection(characters="ぁ-ヿ", wish="日本語で(?:答|回答)|answer in japanese"),
    sentences=SentenceEnds(marks="。！？"),
    questions=Questions(points_back="それ|これ"),
    numbers=Numbers(up_to="以下で", currencies={"円": "JPY"}),
    documents=DocumentWords(kinds={"contract": "契約書"}),
    words=PromptWords(
        yes_no=("はい", "いいえ"),
        support=("完全に裏付けられる", "一部裏付けられる", "裏付けられない"),
        request_kinds=("情報", "作文", "想像", "雑談", "計算", "翻訳"),
        unstated="記載なし",
        better_answer=("回答A", "回答B"),
        rewritings=("別の言い方", "キーワード", "英語"),
        question_label="質問",
        table_documents="{folder}の文書{count}件：",
        document_unit="件",
    ),
    stop_words=words_of("です ます この"),
    denial="ません|ない",
    refusal="文書には.{0,20}(?:ありません|記載されていません)",
    reply_verbs="答え",
    steering="読者",
)
'''

TRIED_IN_JAPANESE = """
from localrag.documents.cards import card_of
from localrag.languages import LANGUAGES
from localrag.library.catalogue.filters import Filter
from localrag.prompts import UNSTATED, YES_NO, render
from localrag.rag.conversation import is_complete
from localrag.rag.disagreement import DENIAL
from localrag.rag.refusals import refuses
from localrag.tables.values import value_in
from localrag.text.instructions import may_steer
from localrag.text.language import answer_language, are_foreign, detect, shares
from localrag.text.sentences import split_sentences
from localrag.text.tokenize import STOP_WORDS

question = "この橋はいつ開通しましたか？"
assert detect(question) == answer_language(question) == "ja"
assert answer_language("When was it opened? Answer in Japanese.") == "ja"
assert [detect(text) for text in ("桥何时通车？", "When was it opened?")] == ["zh", "en"]
assert are_foreign("ja", "zh") and not are_foreign("ja", "mixed")
assert shares(["駅は町の北にあります。" * 20])["ja"] == 1.0
assert len(split_sentences("開通しました。橋は長い。")) == 2
assert refuses("文書には答えが記載されていません。") and not refuses("1912年に開通しました。")
assert DENIAL.search("通れません")
assert may_steer("読者に「はい」と答えよ。")
assert "です" in STOP_WORDS
assert not is_complete("それは何ですか？", "ja")
assert Filter(language="ja").language == "ja"
assert (YES_NO["ja"], UNSTATED["ja"]) == (("はい", "いいえ"), "記載なし")
assert render("refusal", "ja") == render("refusal", "en")  # as long as it is not translated
assert card_of("賃貸契約書", "a.pdf", "").kind == "contract"
assert value_in("500円", "money").unit == "JPY"
"""

GERMAN = """
[click]
"Usage:" = "Aufruf:"
"Options" = "Optionen"

[messages]
"Nothing found." = "Nichts gefunden."
", " = ", "
"""

TRIED_IN_GERMAN = """
from types import SimpleNamespace

from localrag.errors import LibraryError
from localrag.messages import interface_language, spoken, tr
from localrag.server.asker import linked_language, preferred

assert interface_language() == "de"
assert tr("Nothing found.") == "Nichts gefunden."
assert tr("{count} files", count=3) == "3 files"  # as long as it is not translated
assert spoken(LibraryError("One", hint="Two.")) == "One. Two."
asks = SimpleNamespace(headers={"accept-language": "de-DE,de;q=0.9,en;q=0.8"}, query_params={})
assert preferred(asks) == "de"
asks.query_params = {"language": "zh"}
assert linked_language(asks) == "zh"
"""


class Copy:
    """A copy of the package to which files are added and in which lines are changed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.touched: set[str] = set()
        ignored = shutil.ignore_patterns("__pycache__", "vendor")
        shutil.copytree(PACKAGE, folder / "localrag", ignore=ignored)

    def add(self, name: str, text: str) -> None:
        self.touched.add(name)
        (self._folder / "localrag" / name).write_text(text, encoding="utf-8")

    def change(self, name: str, line: str, replacement: str) -> None:
        text = (self._folder / "localrag" / name).read_text("utf-8")
        assert text.count(line) == 1, f"{name}: {line}"
        self.add(name, text.replace(line, replacement))

    def copy(self, name: str, beside: str) -> None:
        self.touched.add(beside)
        shutil.copytree(self._folder / "localrag" / name, self._folder / "localrag" / beside)

    def run(self, *arguments: str, language: str = "en") -> str:
        result = subprocess.run(
            [sys.executable, *arguments],
            env=os.environ | {"PYTHONPATH": str(self._folder), "LOCALRAG_LANG": language},
            cwd=self._folder,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy(tmp_path)


def test_a_third_language_of_documents(copy: Copy) -> None:
    copy.change(
        "languages/base.py",
        'LanguageCode = Literal["en", "zh"]',
        'LanguageCode = Literal["en", "zh", "ja"]',
    )
    copy.add("languages/ja.py", JAPANESE)
    copy.change(
        "languages/__init__.py",
        "from localrag.languages.zh import CHINESE\n",
        "from localrag.languages.ja import JAPANESE\nfrom localrag.languages.zh import CHINESE\n",
    )
    copy.change("languages/__init__.py", "(ENGLISH, CHINESE)", "(ENGLISH, CHINESE, JAPANESE)")
    copy.copy("prompts/en", "prompts/ja")
    copy.change("messages_zh.toml", '\n"Chinese" = ', '\n"Japanese" = "日语"\n"Chinese" = ')
    assert len(copy.touched) <= 5
    copy.run("-c", TRIED_IN_JAPANESE)


def test_a_third_language_of_the_interface(copy: Copy) -> None:
    copy.add("messages_de.toml", GERMAN)
    copy.change(
        "messages.py",
        'InterfaceLanguage = Literal["en", "zh"]',
        'InterfaceLanguage = Literal["en", "zh", "de"]',
    )
    copy.change(
        "messages.py",
        '    "en": Interface("en", ("en",)),\n',
        '    "en": Interface("en", ("en",)),\n    "de": Interface("de", ("de", "german")),\n',
    )
    copy.change(
        "server/static/words.js",
        "export const languages = { en: ENGLISH, zh: CHINESE };",
        "const GERMAN = { ...ENGLISH, tag: 'de', dates: 'de', own: 'Deutsch', ask: 'Fragen' };\n"
        "export const languages = { en: ENGLISH, zh: CHINESE, de: GERMAN };",
    )
    assert len(copy.touched) <= 5
    copy.run("-c", TRIED_IN_GERMAN, language="de_DE.UTF-8")
    output = copy.run("-m", "localrag", "status", "--help", language="de")
    assert output.startswith("Aufruf: localrag status")
    assert "Optionen:" in output


NAME_A_LANGUAGE = {
    "bundle/installer/environments.py",  # what it starts speaks to it in English
    "messages.py",  # the languages of the interface
    "models/embeddings/conventions.py",  # families of models with a language in their name
    "rerankers/learned.py",  # was fitted on Chinese
    "types.py",  # a deprecated name
}
ROOMS_OF_LANGUAGES = ("languages", "prompts", "text")


def named_languages(source: str) -> Iterator[int]:
    """The lines in which a module names a language by its code or by its record."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Constant(value="en" | "zh" | "zh-CN"):
                yield node.lineno
            case ast.ImportFrom(module="localrag.languages.en" | "localrag.languages.zh"):
                yield node.lineno


def test_hardly_any_file_names_a_language() -> None:
    naming = {
        name
        for path in PACKAGE.rglob("*.py")
        if (name := path.relative_to(PACKAGE).as_posix()).split("/")[0] not in ROOMS_OF_LANGUAGES
        and list(named_languages(path.read_text("utf-8")))
    }
    assert naming == NAME_A_LANGUAGE
    scripts = {
        path.name
        for path in PACKAGE.rglob("static/*.js")
        if "vendor" not in path.parts and 'language === "' in path.read_text("utf-8")
    }
    assert scripts == set()


def test_the_check_sees_what_names_a_language() -> None:
    module = 'from localrag.languages.zh import CHINESE\nx = "zh" if y else 1\nz = "zh_CN"\n'
    assert sorted(named_languages(module)) == [1, 2]


def test_every_code_has_a_record_and_prompts() -> None:
    assert get_args(LanguageCode) == CODES
    names = {
        code: {path.name for path in (PACKAGE / "prompts" / code).glob("*.txt")} for code in CODES
    }
    assert all(name for name in names.values())
    assert len(set(map(frozenset, names.values()))) == 1


def test_a_pattern_that_no_language_has_matches_nothing() -> None:
    assert any_of(lambda _: "") == "(?!)"

    def in_one(language: Language) -> str:
        return "x" if language is LANGUAGES["zh"] else ""

    assert any_of(in_one) == "x"
