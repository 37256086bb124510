"""Follow-up questions: made self-contained before anything is searched."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from localrag.models.llms.base import LLM, Options
from localrag.prompts import PromptLanguage, render
from localrag.rag.both_sides import with_added
from localrag.rag.citations import MARKER, without_markers
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

# Words that point back. A bare one stands for a thing by itself: "它有多少参数？", "Who wrote it?"
_CHINESE_BARE = re.compile(
    r"[他她它]|呢[？?]?$|^(?:那|还有|另外|其中|同)|还有(?:谁|什么|哪)|(?:这|那|此)(?=是|有|里|时|么|怎)|"
    r"前者|后者|上述|刚才"
)
_CHINESE_BACK = re.compile(r"[这那该此其又还也再]|之前|之后|后来|当时|同[年届时样]|另外|哪[个些]呢")
_ENGLISH_BARE = re.compile(
    r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|those|these|this)\b"
    r"|\bthat(?=\W*$|\s+(?:is|was|one|year|time|case|happen|mean|work)\b)"
    r"|^(?:and|but|or|so|then|also)\b|\b(?:what|how) about\b"
    r"|\b(?:there|then|else|instead|otherwise|too|either|same)\W*$",
    re.IGNORECASE,
)
_ENGLISH_BACK = re.compile(
    r"\b(?:other|others|another|ones?|former|latter|same|above|previous|earlier|later|also|there)\b",
    re.IGNORECASE,
)
_NAMED = re.compile(r"[《“\"「]|[A-Za-z]{2}")
_ENGLISH_NAME = re.compile(r"(?<=[\w,;] )[A-Z][\w\-]+")
_LONG_CHINESE = 12
"""Code points from which a Chinese question that points nowhere names what it is about."""


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
    said = without_markers(_written(last.answer))[:REMEMBERED_CHARACTERS]
    messages = _messages(last.question, said, question, language)
    rewritten = _cleaned(llm.complete(messages, Options(max_tokens=80)).text)
    points_back = bool(_bare(language).search(question))
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
    """Whether a rewriting still asks what was asked, and is no answer."""
    if not rewritten or MARKER.search(rewritten) or rewritten.endswith(("。", ".")):
        return False
    if not set(_NUMBER.findall(question)) <= set(_NUMBER.findall(rewritten)):
        return False
    if _same(rewritten, earlier):
        return _same(rewritten, question)
    asked = _content(question, tokenize)
    return 2 * len(asked & _content(rewritten, tokenize)) >= len(asked)


def _content(text: str, tokenize: Callable[[str], Sequence[str]]) -> set[str]:
    pointing = _CHINESE_BACK.sub(" ", _ENGLISH_BARE.sub(" ", text))
    return {term for term in tokenize(pointing) if term not in _EMPTY}


_EMPTY = STOP_WORDS | set("他她它谁呢吗么啊得着过没不能会可要做到多少几年")


def is_complete(question: str, language: PromptLanguage) -> bool:
    """Whether a question clearly needs no conversation: it names something, and points nowhere.

    Reads words only; in doubt it says no, and the model is asked.
    """
    bare, back = _bare(language), _CHINESE_BACK if language == "zh" else _ENGLISH_BACK
    if bare.search(question) or back.search(question):
        return False
    if language == "zh":
        return bool(_NAMED.search(question)) or len(question) >= _LONG_CHINESE
    words = re.findall(r"[\w'’\-]+", question)
    content = [word for word in words if word.lower() not in STOP_WORDS]
    return len(content) >= 3 or (len(content) >= 2 and bool(_ENGLISH_NAME.search(question)))


def _written(answer: str) -> str:
    """What of an answer the model wrote: names and dates of files are in no prompt."""
    return with_added(answer, lambda _: "").rstrip()


def _messages(earlier: str, answer: str, question: str, language: PromptLanguage) -> list[Message]:
    """The instruction, examples as turns of a chat, and the follow-up."""
    messages = [Message("system", render("rewrite_system", language))]
    for example in render("rewrite_examples", language).split("\n\n"):
        asked, answered, follow_up, rewritten = example.splitlines()
        shown = render("rewrite", language, earlier=asked, answer=answered, question=follow_up)
        messages += [Message("user", shown), Message("assistant", rewritten)]
    shown = render("rewrite", language, earlier=earlier, answer=answer, question=question)
    return [*messages, Message("user", shown)]


def _bare(language: PromptLanguage) -> re.Pattern[str]:
    return _CHINESE_BARE if language == "zh" else _ENGLISH_BARE


def _same(one: str, other: str) -> bool:
    return re.sub(r"\W+", "", one).casefold() == re.sub(r"\W+", "", other).casefold()


def _cleaned(reply: str) -> str:
    """The first line of a reply, without the label or the quotes that a model puts round it."""
    first = next(iter(reply.strip().splitlines()), "")
    return _LABEL.sub("", first.strip()).strip(_QUOTES)
