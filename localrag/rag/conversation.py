"""Follow-up questions: made self-contained before anything is searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.languages import CODES, LANGUAGES, LanguageCode, is_spaced
from localrag.models.llms.base import LLM, Options
from localrag.prompts import render
from localrag.rag.both_sides import otherwise
from localrag.rag.citations import marked, without_markers
from localrag.text.instructions import left, may_steer
from localrag.text.language import answer_language
from localrag.text.tokenize import STOP_WORDS
from localrag.types import Message

REMEMBERED_CHARACTERS = 200
"""Of the last answer: enough to know what "it" is, and every token must be read."""

LONGEST_JOINED = 200
"""Code points of two questions that may be joined where the model is of no help."""

_QUOTES = "\"'“”‘’「」 "
_LABEL = re.compile(r"^(?:改写|问|追问|Rewritten|Follow-up|Question|Q)\s*[：:]\s*")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

_POINTS_BACK = {
    code: re.compile(language.questions.points_back or "(?!)", re.IGNORECASE)
    for code, language in LANGUAGES.items()
}
_MAY_POINT_BACK = {
    code: re.compile(language.questions.may_point_back or "(?!)", re.IGNORECASE)
    for code, language in LANGUAGES.items()
}
_NAMED = re.compile(r"[《“\"「]|[A-Za-z]{2}")
_NAME = re.compile(r"(?<=[\w,;] )[A-Z][\w\-]+")
_LONG = 12
"""Code points from which a question without blanks that points nowhere names what it is about."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A question as it was searched for, and its answer."""

    question: str
    answer: str


def standalone(
    question: str, last: Turn, llm: LLM, tokenize: Callable[[str], Sequence[str]]
) -> str:
    """A follow-up as it can be searched for by itself, in the light of the last turn.

    "And in China?" retrieves nothing by itself; the rewritten question does. What came before
    the last turn lives on in its question, which has been rewritten too: small models take "it"
    for what an older turn was about. The model is asked only where the question may hang on what
    was said, and is not trusted blindly: a rewriting that loses what was asked is thrown away.
    Raises `GenerationError` from the model.
    """
    language = answer_language(question)
    if is_complete(question, language):
        return question
    answer = _harmless(without_markers(_model_text(last.answer)))[:REMEMBERED_CHARACTERS]
    messages = _messages(last.question, answer, question, language)
    options = Options(max_tokens=80, keep=len(messages) - 1)
    rewritten = _cleaned(llm.complete(messages, options).text)
    points_back = bool(_POINTS_BACK[language].search(question))
    hanging = points_back and _same(question, rewritten)
    if _keeps(question, rewritten, last.question, tokenize) and not hanging:
        return rewritten
    joined = f"{last.question} {question}"
    # Two questions in a row say more than one that points at nothing.
    return joined if points_back and len(joined) <= LONGEST_JOINED else question


class Conversation:
    """Deprecated, goes with 0.3: pass `history` to `LocalRAG.ask`. Remembers the last turn."""

    def __init__(self, llm: LLM, tokenize: Callable[[str], list[str]]) -> None:
        self._llm = llm
        self._tokenize = tokenize
        self._last: Turn | None = None

    def remember(self, question: str, answer: str) -> None:
        """Keep a finished turn; `question` as it was searched."""
        self._last = Turn(question, answer)

    def standalone(self, question: str) -> str:
        """The question as it can be searched for; unchanged at the start of a conversation."""
        if self._last is None:
            return question
        return standalone(question, self._last, self._llm, self._tokenize)


def _keeps(
    question: str, rewritten: str, earlier: str, tokenize: Callable[[str], Sequence[str]]
) -> bool:
    """Whether a rewriting still asks what was asked, and is no answer.

    A number that it takes from the last answer is mostly the answer to another question: "Do staff
    of ten years have 10 days?" Persons took such a number into 5 of 550 rewritings.
    """
    if not rewritten or marked(rewritten) or rewritten.endswith(("。", ".")):
        return False
    question_numbers, numbers = (set(_NUMBER.findall(text)) for text in (question, rewritten))
    if not question_numbers <= numbers <= question_numbers | set(_NUMBER.findall(earlier)):
        return False
    if _same(rewritten, earlier):
        return _same(rewritten, question)
    content = _content(question, tokenize)
    return 2 * len(content & _content(rewritten, tokenize)) >= len(content)


def _content(text: str, tokenize: Callable[[str], Sequence[str]]) -> set[str]:
    for code, language in LANGUAGES.items():
        # Without blanks, what surely points is longer than a word: 呢 at the end of 那上海呢.
        text = (_POINTS_BACK if language.space else _MAY_POINT_BACK)[code].sub(" ", text)
    return {term for term in tokenize(text) if term not in _EMPTY}


_EMPTY = STOP_WORDS | set("他她它谁呢吗么啊得着过没不能会可要做到多少几年")


def is_complete(question: str, language: LanguageCode) -> bool:
    """Whether a question clearly needs no conversation: it names something, and points nowhere.

    Reads words only; in doubt it says no, and the model is asked.
    """
    patterns = _POINTS_BACK[language], _MAY_POINT_BACK[language]
    if any(pattern.search(question) for pattern in patterns):
        return False
    if not is_spaced(language):
        return bool(_NAMED.search(question)) or len(question) >= _LONG
    words = re.findall(r"[\w'’\-]+", question)
    content = [word for word in words if word.lower() not in STOP_WORDS]
    return len(content) >= 3 or (len(content) >= 2 and bool(_NAME.search(question)))


def _model_text(answer: str) -> str:
    """What of an answer the model wrote: names and dates of files are in no prompt.

    A client gives an answer back as a text, so this is the place where one is looked through.
    """
    return "\n".join("" if _is_added(line) else line for line in answer.split("\n")).rstrip()


def _harmless(answer: str) -> str:
    """An answer without the sentences that could steer the model.

    Computed ones have cells and names of files in them, which nothing in their words gives away.
    """
    return "".join(answer[start:end] for start, end in left(answer, may_steer(answer)))


def _is_added(line: str) -> bool:
    """Such as: By contrast, gate.txt (2024-03-01) says: “It was opened in 1912.” [2]."""
    for before, *between, after in _FRAMES:
        # No pattern: a client's line may have these words thousands of times.
        quoted, _, mark = line.rpartition(after)
        if quoted.startswith(before) and all(part in quoted[len(before) :] for part in between):
            return len(mark.split()) <= 1
    return False


_FRAMES = tuple(
    frame.split("\0")
    for code in CODES
    for frame in (otherwise("\0", "\0", code), render("quotation", code, quote="\0"))
)


def _messages(earlier: str, answer: str, question: str, language: LanguageCode) -> list[Message]:
    """The instruction, examples as turns of a chat, and the follow-up."""
    messages = [Message("system", render("rewrite_system", language))]
    for example in render("rewrite_examples", language).split("\n\n"):
        first_question, answered, follow_up, rewritten = example.splitlines()
        prompt = render(
            "rewrite", language, earlier=first_question, answer=answered, question=follow_up
        )
        messages += [Message("user", prompt), Message("assistant", rewritten)]
    prompt = render("rewrite", language, earlier=earlier, answer=answer, question=question)
    return [*messages, Message("user", prompt)]


def _same(first: str, second: str) -> bool:
    return re.sub(r"\W+", "", first).casefold() == re.sub(r"\W+", "", second).casefold()


def _cleaned(reply: str) -> str:
    """The first line of a reply, without the label or the quotes that a model puts round it."""
    first = next(iter(reply.strip().splitlines()), "")
    return _LABEL.sub("", first.strip()).strip(_QUOTES)
