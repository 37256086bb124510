"""Prompts, one text file each in the folder of their language, and the code that fills them in."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from localrag.languages import LANGUAGES, LanguageCode
from localrag.types import Message

UNSTATED = {code: language.words.unstated for code, language in LANGUAGES.items()}
YES_NO = {code: language.words.yes_no for code, language in LANGUAGES.items()}
SUPPORT = {code: language.words.support for code, language in LANGUAGES.items()}
REQUEST_KINDS = {code: language.words.request_kinds for code, language in LANGUAGES.items()}


@cache
def template(name: str, language: LanguageCode) -> str:
    """The text of a prompt with its `{placeholders}`."""
    path = Path(__file__).parent / language / f"{name}.txt"
    return path.read_text(encoding="utf-8").strip("\n")


def all_prompts() -> str:
    """Every prompt with its name, one after the other: for what must notice a change."""
    files = sorted(Path(__file__).parent.glob("*/*.txt"))
    # As text: line ends differ between systems, and mean nothing to a model.
    return "\n".join(f"{f.parent.name}/{f.name}\n{f.read_text('utf-8')}" for f in files)


def render(name: str, language: LanguageCode, /, **values: str) -> str:
    """The prompt `name` in `language` with `{placeholders}` filled in.

    Values are inserted as they are: braces in a passage mean nothing here.
    """
    return template(name, language).format(**values)


def with_examples(task: str, language: LanguageCode, question: str) -> list[Message]:
    """The prompt `task` for the system, turns in which it is done, and last the question.

    Of the text of examples, each line that is asked is followed by the line that is replied.
    """
    messages = [Message("system", render(task, language))]
    # Kept evaluations hang on the names of prompts, so this name stays.
    examples = "request_examples" if task == "request_kinds" else f"{task}_examples"
    lines = iter(template(examples, language).splitlines())
    for asked, replied in zip(lines, lines, strict=True):
        messages += [Message("user", asked), Message("assistant", replied)]
    return [*messages, Message("user", question.strip())]
