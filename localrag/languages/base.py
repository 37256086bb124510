"""What the code has to know of a language of documents, questions and answers.

A language is one record (`en.py`, `zh.py`): data without logic. Rooms that read texts put the
patterns of all languages together (`languages.any_of`), and look up what belongs to one of them by
its code. Prompts are files in `prompts/CODE/`. The languages of the interface are another matter:
`localrag/messages.py`.

Patterns are sources of regular expressions, without flags of their own. They are matched without
regard to case. One that is empty matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

LanguageCode = Literal["en", "zh"]
"""The languages that are told apart, by their codes (ISO 639-1)."""

DetectedLanguage = Literal[LanguageCode, "mixed"]
"""The language of a text; "mixed" is one with sentences of several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """By what a text shows its language, and a question that of its answer."""

    characters: str = ""
    """Characters that texts of no other language have. Chinese and English need none: which of the
    two it is, `text.language` decides by their grammar."""
    grammar_words: frozenset[str] = frozenset()
    """Words without which no prose is written, in lower case."""
    only_grammar_words: frozenset[str] = frozenset()
    """Those of them that other languages with the same letters do not have."""
    grammar: str = ""
    """The same as a pattern, where words are not set apart."""
    opening: str = ""
    """How questions begin, in a language whose words are set apart."""
    wish: str = ""
    """A wish for an answer in this language, in whatever language it stands."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceEnds:
    """Where sentences end. Words are in lower case, without the stop behind them."""

    marks: str = ""
    """Signs that always end a sentence, as the Chinese full stop does."""
    abbreviations: frozenset[str] = frozenset()
    """A stop behind these never ends a sentence."""
    abbreviations_before_number: frozenset[str] = frozenset()
    """Nor behind these, if a number follows."""
    abbreviations_at_end: frozenset[str] = frozenset()
    """Behind these it does if one of `openers` follows."""
    openers: frozenset[str] = frozenset()
    """Words that open sentences."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """What a question wants, and how a follow-up points back."""

    when: str = ""
    """It asks for a date or a time."""
    how_much: str = ""
    """It asks for a number or an amount."""
    whether: str = ""
    """It asks for yes or no."""
    answer_type: str = ""
    """Words that say no more than what kind of answer is wanted: "how many", "which year"."""
    points_back: str = ""
    """A word that stands for something named before: "Who wrote it?"."""
    may_point_back: str = ""
    """A word that may do so: "the other one"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Numbers, dates and units in words; how they are put together is in `text.figures`."""

    dates: tuple[str, ...] = ()
    """Patterns with groups `year`, `month` or `month_name`, and `day`, the surest first."""
    months: Mapping[str, int] = field(default_factory=dict)
    """The first three letters of `month_name`, in lower case -> its number."""
    month_words: tuple[str, ...] = ()
    """The words that a question may have for each of the twelve months."""
    month: str = ""
    """A month without a day or a year, as `month` or `month_name`.

    Of 180 questions of others 136 name one month so that it is known, without it 41: 17 of 127 rows
    of another month are set aside then, and 5 of 10 tables, with it 62 of 421 and 18 of 44.
    """
    before_open: str = ""
    """What ends before a date where others are meant, too: "since", "from the end of".

    Without it 3 of 71 rows that answer English questions of others are taken for another month's.
    """
    behind_open: str = ""
    """The same behind it: 3月以来, 3月以后. Without it 2 of 84 that answer Chinese ones."""
    times: tuple[str, ...] = ()
    """Patterns with groups `hour`, `minute` and `half` (of the day)."""
    afternoon: frozenset[str] = frozenset()
    """What `half` is in the second half of the day, in lower case."""
    about: str = ""
    """What stands before a number that is not exact."""
    how_many: str = ""
    """A question for a number; a group holds what is counted, if the question says so."""
    up_to: str = ""
    """What stands before a bound that holds up to it: "no more than"."""
    beyond: str = ""
    """What stands before a bound beyond which something holds: "more than"."""
    up_to_behind: str = ""
    """The same behind a bound: "以内"."""
    beyond_behind: str = ""
    measured: frozenset[str] = frozenset()
    """Units of what is measured and not counted."""
    currencies: Mapping[str, str] = field(default_factory=dict)
    """Names of currencies -> ISO 4217."""
    time_units: Mapping[str, str] = field(default_factory=dict)
    """Names of units of time -> minute, hour, day, week, month, year."""
    scales: Mapping[str, float] = field(default_factory=dict)
    """Words for powers of ten in the cells of sheets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentWords:
    """By which words a document shows what it is."""

    kinds: Mapping[str, str] = field(default_factory=dict)
    """Kinds of `types.CardKind` -> a pattern for titles and names of files."""
    draft: str = ""
    withdrawn: str = ""
    company: str = ""
    """The name of an organisation, as the group `company`. Its case counts.

    What else the pattern matches is passed over: where a name would be looked for in vain.
    """
    party: str = ""
    """What a party is called before a colon: "Supplier:"."""
    day_column: str = ""
    """The name of a column of a table that says when it was: "Delivery date", not "Start date".

    By any column with a date 9 of 131 rows that answer, and 7 of 92 tables, are taken for those of
    another month.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptWords:
    """What a model chooses among, and labels that are put into prompts."""

    yes_no: tuple[str, str]
    """What a yes-or-no prompt asks for, yes first."""
    support: tuple[str, str, str]
    """What the prompt `support` asks for, most support first."""
    request_kinds: tuple[str, ...]
    """The classes of `request_kinds`; the first one is what documents are needed for."""
    unstated: str
    """What is chosen where a passage does not say."""
    better_answer: tuple[str, str]
    """The first and the second of two answers that are compared."""
    rewritings: tuple[str, str, str]
    """What `multi_query` asks for: other words, keywords, the other language."""
    question_label: str
    table_documents: str
    """With `{count}` and `{folder}`."""
    document_unit: str
    """What follows a number of documents, as a measure word does; "" for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """A language of documents, questions and answers."""

    code: LanguageCode
    name: str
    """In English, as messages have it before it is translated."""
    space: str
    """What stands between words and between sentences: a blank, or nothing."""
    comma: str
    """What stands between the items of a list."""
    stop: str
    """What ends a sentence of localrag's own."""
    density: float = 1.0
    """How many Latin letters take a language model as long to read as one character of this one."""
    support_shift: float = 0.0
    """Added to the log odds of a share of support, so that one threshold serves all languages
    (`benchmarks/self_rag.md`)."""
    said_from: float = 1.0
    """Share from which on a passage says what was drafted from it, and what is asked; 1: no draft
    is tried. In English what the starter says of right and of wrong drafts does not differ."""
    decides_from: float = 0.95
    """Probability from which on a passage says yes or no to a question."""

    detection: Detection = field(default_factory=Detection)
    sentences: SentenceEnds = field(default_factory=SentenceEnds)
    questions: Questions = field(default_factory=Questions)
    numbers: Numbers = field(default_factory=Numbers)
    documents: DocumentWords = field(default_factory=DocumentWords)
    words: PromptWords

    stop_words: frozenset[str] = frozenset()
    """Words that are left out of the keyword index."""
    asking_words: frozenset[str] = frozenset()
    """What stands in most questions beside these, and says nothing of their subject."""
    grammar_words: frozenset[str] = frozenset()
    """What the keyword reranker leaves out, in a language that has no short words."""
    denial: str = ""
    """Words by which a sentence denies something."""
    refusal: str = ""
    """A reply that says that the documents do not hold the answer."""
    reply_verbs: str = ""
    """What a reply does: "answer", "write". Beside `steering` it makes a sentence suspicious."""
    steering: str = ""
    """Words by which a sentence in a document could steer a model that reads it."""


def words_of(text: str) -> frozenset[str]:
    """The words of a text, which blanks or line ends set apart."""
    return frozenset(text.split())
