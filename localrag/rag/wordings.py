"""Other wordings of a question, of which those are offered that find something.

No language model is asked, and each wording was searched before it is offered.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from localrag.documents.chunking import passage_text
from localrag.prompts import render
from localrag.rag.base import Retrieve
from localrag.rag.citations import Attributor
from localrag.rag.question_words import Text, Tokenize, Word, question_words
from localrag.system.memory import pattern_of_words
from localrag.text.figures import figures
from localrag.text.han import HAN
from localrag.text.language import answer_language
from localrag.text.normalize import fold
from localrag.text.spelling import edits_between
from localrag.text.tokenize import PIECE, STOP_WORDS, THOUSANDS
from localrag.types import ScoredChunk, Suggestion

MOST_TRIED = 4
"""Wordings that are searched for."""
LOOKED_THROUGH = 20
"""Passages in which other spellings and headings are looked for."""
BEST = 5
"""Passages among which a wording must find what it is offered for."""
MOST_WORDS = 2
"""Words of a question whose spelling is looked for."""

SHORTEST_LATIN = 4
LONG_LATIN = 8
"""Letters from which on two edits may lie between two spellings of a word."""
SHORTEST_HAN = 3
"""Of two characters, one that differs makes another word."""
LONGEST_HEADING = 60
MOST_OF_IT = 0.6
"""Share of the words that a passage has from which on it may well answer without the number."""
RARE = 0.02
"""Share of the passages that have a word, up to which it tells what a question is about."""
FEW = 3
"""So many may have it in a small library, too."""

_OTHER = frozenset("零〇一二三四五六七八九十百千万亿上下左右东西南北前后大小新旧") | STOP_WORDS
"""What differs in one of these is not spelt otherwise: it is something else."""

_GLOSS = rf"(?:^|[^{HAN}\w])([{HAN}]{{2,12}})\s*[（(]\s*WORD\s*[)）,，;；]"
_BRACKET = r"WORD\s*[（(]\s*([A-Za-z][A-Za-z .'’-]{1,60}?)\s*[)）,，;；]"
_NUMERAL = (
    r"(?:\d[\d.,]*|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fourteen|fifteen"
    r"|twenty|thirty|forty|fifty|sixty|ninety)"
)
_EN_UNIT = (
    r"(?:second|minute|hour|day|night|week|month|year|euro|dollar|pound|percent|people|person|guest"
    r"|page|time|kilogram|kg|kilometre|kilometer|km|metre|meter|cm|mm|gram|litre|liter|degree)s?"
)
_ZH_UNIT = (
    "(?:小时|钟头|分钟|秒|天|晚|周|星期|礼拜|月|年|元|块|欧元|美元|人|位|名|次|页|公斤|公里|米|度)"
)
_HAN_NUMERAL = r"\d一二两三四五六七八九十百千半"
_UNIT_ALONE = re.compile(f"{_EN_UNIT}|{_ZH_UNIT}", re.IGNORECASE)
_MEASURE = re.compile(
    rf"\b{_NUMERAL}[\s-]+{_EN_UNIT}\b"
    rf"|(?<![{_HAN_NUMERAL}])[{_HAN_NUMERAL}]+\s*(?:个半?)?{_ZH_UNIT}",
    re.IGNORECASE,
)
"""A number with its unit: what it says is one thing, and nothing of it says anything alone."""
_BEFORE = re.compile(
    r"(?:\b(?:as of|in|of|on|at|for|from|by|to|during|since|until|till|after|before|within)\s+"
    r"(?:the\s+)?|[在于自从到至]|截至|截止)\Z",
    re.IGNORECASE,
)
_DESCRIBED = re.compile(r"(?:\b(?:the|a|an|this|that|its|their|our|your|my)|['’]s?)\s+\Z", re.I)
"""Before a number that describes the word behind it: the 2023 report."""
_BY_HOW_MUCH = re.compile(r"\s+(?:before|after|in advance|ahead|earlier|later)\b", re.IGNORECASE)
_IS = re.compile(r"(?:[是为有第共达收值花等超过]|多少)\Z")
"""Before a number that a Chinese sentence cannot do without."""
_WHEN = re.compile(r"(?:小时|钟头|分钟|秒|天|晚|周|星期|礼拜|月|年|点|时|日|号)\Z")
_GAP = re.compile(r"[\s,，、]+(?=[?？.。!！])|\s+(?=[,，])")
_UNIT = re.compile(r"^\s*(?:年度?|月份?|日|号|%|％|之?[前后内]|以[前后内上下])+")
_SAYS_WHO = re.compile(r"(?:\b(?:i|you|we|they|he|she|it|who|to|not)|n['’]t)\s+\Z", re.IGNORECASE)
"""Before a verb: “cancel” is no subject to search for."""
_VERB_FORM = re.compile(r"[a-z]{3,}(?:ed|ing)\Z")
_LINKS = frozenset(
    ["after", "before", "until", "till", "within", "between", "during", "without", "under", "over"]
)


@dataclass(frozen=True, slots=True)
class Around:
    """What else can be asked of the library that an answer came from.

    `search` finds passages for a wording, `alike` those with a word that is spelt like one.
    """

    tokenize: Tokenize
    attributor: Callable[[Sequence[ScoredChunk]], Attributor]
    search: Retrieve
    alike: Callable[[str, int, int], list[ScoredChunk]]
    """A term of the index, how many edits away, and how many passages."""
    frequencies: Callable[[Sequence[str]], tuple[int, list[int]]]
    """How many passages there are, and how many of them have each term."""


class Tried:
    """Other wordings of one question, of which those are offered that find something."""

    def __init__(
        self,
        question: str,
        asked: Text,
        words: Sequence[Word],
        absent: Sequence[Word],
        read: Sequence[ScoredChunk],
        around: Around,
    ) -> None:
        self._question = THOUSANDS.sub("", question)  # as `words` count in it
        self._asked = asked
        self._words = words
        self._absent = absent
        self._read = {each.chunk.id for each in read}
        self._texts = [passage_text(each.chunk) for each in read]
        self._around = around

    def suggestions(self) -> Iterator[Suggestion]:
        """At most `MOST_TRIED` searches are made for them."""
        met = {fold(self._question)}
        tries = MOST_TRIED
        for each, finds in self._candidates():
            if fold(each.question) in met:
                continue
            met.add(fold(each.question))
            if not tries:
                return
            tries -= 1
            if finds(self._around.search(each.question, BEST)):
                yield each

    def _candidates(self) -> Iterator[tuple[Suggestion, Callable[[list[ScoredChunk]], bool]]]:
        spelt: dict[Word, str] = {}
        for word in [each for each in self._absent if not is_figure(each)][:MOST_WORDS]:
            if other := self._spelt(word):
                spelt[word] = other
                yield self._instead(word, other, "spelling"), self._some_has(other)
        for word in self._words:
            if word not in spelt and (other := self._translated(word)):
                yield self._instead(word, other, "translation"), self._some_has(other)
        gone = [each for each in self._absent if each not in spelt]
        left = [each for each in self._words if each not in gone]
        if gone and all(map(is_figure, gone)) and (wording := self._without(gone)):
            finds = self._one_has(left, MOST_OF_IT)
            yield Suggestion(wording, "without", _named(gone)), finds
        elif gone and 2 * _letters(left) >= _letters(gone) and (subject := self._subject(left)):
            about = Suggestion(self._about(_said(subject, self._question)), "without", _named(gone))
            yield about, self._one_has(subject, 1.0)
        for heading in self._headings():
            yield Suggestion(self._about(heading), "heading"), self._some_is_new

    # -- what makes a wording worth offering -------------------------------------------

    def _some_has(self, word: str) -> Callable[[list[ScoredChunk]], bool]:
        folded = fold(word)
        return lambda found: any(folded in fold(passage_text(each.chunk)) for each in found)

    def _one_has(self, words: Sequence[Word], share: float) -> Callable[[list[ScoredChunk]], bool]:
        def finds(found: list[ScoredChunk]) -> bool:
            texts = (Text(passage_text(each.chunk), self._around.tokenize) for each in found)
            return any(sum(map(text.has, words)) >= share * len(words) > 0 for text in texts)

        return finds

    def _some_is_new(self, found: list[ScoredChunk]) -> bool:
        return any(each.chunk.id not in self._read for each in found)

    # -- wordings ----------------------------------------------------------------------

    def _instead(
        self, word: Word, other: str, kind: Literal["spelling", "translation"]
    ) -> Suggestion:
        return Suggestion(self._question.replace(word.text, other), kind, word.text, other)

    def _spelt(self, word: Word) -> str:
        """How the documents spell what may be this word, or "" where they have nothing like it."""
        if word.kind == "han":
            if any(len(term) > 1 for term in word.terms):  # a word of the dictionary, no name
                return ""
            return _nearest_run(fold(word.text), map(fold, self._texts))
        letters = fold(word.text)
        if len(letters) < SHORTEST_LATIN or not letters.isalpha():
            return ""
        edits = 1 + (len(letters) >= LONG_LATIN)
        alike = self._around.alike(word.terms[0], edits, LOOKED_THROUGH)
        texts = [*self._texts, *(passage_text(each.chunk) for each in alike)]
        return _nearest_word(letters, edits, texts)

    def _translated(self, word: Word) -> str:
        """The other language's name for a word that the passages have in brackets, or ""."""
        if word.kind == "number":
            return ""
        pattern = _BRACKET if word.kind == "han" else _GLOSS
        name = pattern_of_words(pattern.replace("WORD", re.escape(word.text)))
        found = (match[1] for text in self._texts for match in name.finditer(text))
        return next(found, "")

    def _without(self, gone: Sequence[Word]) -> str:
        """The question without figures and what leads to them, "" where it would be none."""
        wording = self._question
        for each in gone:
            head, _, tail = wording.partition(each.text)
            cut = _cut_in_chinese if answer_language(self._question) == "zh" else _cut
            if (halves := cut(head, each.text, tail)) is None:
                return ""
            wording = "".join(halves)
        wording = _GAP.sub("", " ".join(wording.split())).strip(" ,，")
        return wording[:1].upper() + wording[1:] if self._question[:1].isupper() else wording

    def _subject(self, words: Sequence[Word]) -> Sequence[Word]:
        """Words that stand together and tell what is asked about: a noun, as far as can be seen."""
        runs: list[list[Word]] = []
        for word in words:
            if is_figure(word) or _UNIT_ALONE.fullmatch(word.text):
                continue
            between = self._question[_end(runs[-1][-1]) : word.start] if runs else None
            runs[-1:] = (
                [[*runs[-1], word]] if between in ("", " ", "-", "的") else [*runs[-1:], [word]]
            )
        named = [run for each in runs if (run := self._noun(each)) and any(map(self._is_rare, run))]
        return max(named, key=_letters, default=())

    def _noun(self, run: list[Word]) -> list[Word]:
        if any(word.kind == "han" for word in run):
            return run
        if _SAYS_WHO.search(self._question[: run[0].start]):
            return []
        if run[0].start and run[0].text[0].isupper():  # a name ends where no capital is
            return [*takewhile(lambda word: word.text[0].isupper(), run)]
        verb = next((at for at, word in enumerate(run) if _VERB_FORM.match(word.text)), len(run))
        texts = [fold(text) for text in self._texts]
        while verb > 1 and not any(fold(_said(run[:verb], self._question)) in t for t in texts):
            verb -= 1  # what stands so in no passage is hardly one noun
        return run[:verb]

    def _about(self, subject: str) -> str:
        return render("about", answer_language(self._question), subject=subject)

    def _is_rare(self, word: Word) -> bool:
        """Whether so few passages have it that it tells what is asked about."""
        total, counts = self._around.frequencies(word.terms)
        return min(counts, default=0) <= max(FEW, RARE * total)

    def _headings(self) -> Iterator[str]:
        """Headings of passages that were not read, which say what is asked or a part of it."""
        asked = {fold(word.text) for word in self._words}
        for each in self._around.search(self._question, LOOKED_THROUGH):
            heading = each.chunk.heading.rpartition(" > ")[2].strip()
            if each.chunk.id in self._read or not 0 < len(heading) <= LONGEST_HEADING:
                continue
            text = Text(heading, self._around.tokenize)
            shared = [word for word in self._words if text.has(word)]
            own = {fold(word.text) for word in question_words(heading, self._around.tokenize)}
            if len(shared) > 1 or (shared and own <= asked and any(map(self._is_rare, shared))):
                yield heading


def words_of(question: str, tokenize: Tokenize) -> list[Word]:
    """The words that carry a question; a date, a time and a number with its unit are one each."""
    question = THOUSANDS.sub("", question)
    words = [
        word
        for word in question_words(question, tokenize)
        if fold(word.text) not in _LINKS and not word.text.startswith("几")
    ]
    dated = [(one.start, one.end, 2) for one in figures(question) if one.kind != "number"]
    measured = [
        (*match.span(), 1)
        for match in _MEASURE.finditer(question)
        if all(match.end() <= start or end <= match.start() for start, end, _ in dated)
    ]
    for start, end, least in [*dated, *measured]:  # a year by itself is a number in any language
        text = question[start:end]
        within = [word for word in words if start < _end(word) and word.start < end]
        if len(within) >= least and all(
            start <= word.start and _end(word) <= end for word in within
        ):
            words = [word for word in words if word not in within]
            words.append(Word(text, start, (text, *tokenize(text)), _kind(text)))
    return sorted(words, key=lambda word: word.start)


def _kind(text: str) -> Literal["number", "han", "other"]:
    if not any(letter.isalpha() for letter in text):
        return "number"
    return "han" if re.search(f"[{HAN}]", text) else "other"


def is_figure(word: Word) -> bool:
    """Whether a word is a number, a date, a time or a number with its unit."""
    return (
        word.kind == "number"
        or any(one.end - one.start == len(word.text) for one in figures(word.text))
        or bool(_MEASURE.fullmatch(word.text))
    )


def _end(word: Word) -> int:
    return word.start + len(word.text)


def _cut(head: str, _: str, tail: str) -> tuple[str, str] | None:
    """What is left of an English question around a figure; None where it must stay."""
    if before := _BEFORE.search(head):
        return head[: before.start()], tail
    if (_DESCRIBED.search(head) and tail[:1] == " ") or _BY_HOW_MUCH.match(tail):
        return head, tail
    return None


def _cut_in_chinese(head: str, figure: str, tail: str) -> tuple[str, str] | None:
    """The same of a Chinese one, which can do without a time."""
    unit = _UNIT.match(tail)
    rest = tail[unit.end() :] if unit else tail
    before = _BEFORE.sub("", head)
    a_time = before != head or rest != tail or _WHEN.search(figure)
    if _IS.search(before) or not a_time:
        return None
    return before, rest if before else rest.removeprefix("的")


def _said(words: Sequence[Word], question: str) -> str:
    return question[words[0].start : _end(words[-1])]


def _named(words: Iterable[Word]) -> str:
    return " ".join(each.text for each in words)


def _letters(words: Iterable[Word]) -> int:
    return sum(len(each.text) for each in words)


def _nearest_word(letters: str, edits: int, texts: Iterable[str]) -> str:
    """The word so few edits away; its first letter is seldom the one that is wrong."""
    counts = Counter(
        piece[0] for text in texts for piece in PIECE.finditer(text) if piece.lastgroup == "code"
    )
    near: dict[str, int] = {}
    for word in counts:
        folded = fold(word)
        if word.isalpha() and folded[0] == letters[0] and folded != letters:
            near[word] = edits_between(letters, folded, edits)
    near = {word: distance for word, distance in near.items() if distance <= edits}
    return min(near, key=lambda word: (near[word], -counts[word], word), default="")


def _nearest_run(word: str, texts: Iterable[str]) -> str:
    """A run of as many characters, or one more or fewer in a long one, of which one differs."""
    if len(word) < SHORTEST_HAN:
        return ""
    lengths = (len(word),) if len(word) == SHORTEST_HAN else range(len(word) - 1, len(word) + 2)
    letters = set(word)
    found: Counter[str] = Counter()
    for text in texts:
        for run in re.findall(f"[{HAN}]+", text):
            for length in lengths:
                for start in range(len(run) - length + 1):
                    window = run[start : start + length]
                    if len(letters.difference(window)) > 1 or _OTHER.intersection(
                        letters.symmetric_difference(window)
                    ):
                        continue
                    if edits_between(word, window, 1) == 1:
                        found[window] += 1
    return min(found, key=lambda run: (abs(len(run) - len(word)), -found[run], run), default="")
