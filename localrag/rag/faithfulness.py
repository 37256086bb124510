"""Whether the passages that a sentence cites bear it out.

What needs no model comes first: a figure or a name that stands in no passage is invented, and a
sentence whose words all stand in its quotation is borne out, as is one whose words all stand in the
sentence that is closest to it and the question: of 56 answers to questions of others 31 right and 3
wrong ones do, 13 and 9 do not (`benchmarks/log/2026-11.md`, 2026-11-28, "the document's own
sentence"). What is left open the model is asked, right after the prompt that it has just read, so
that a sentence costs some sixty tokens. A server without logits is not asked: sentences that are
left open then have no rating.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal

from localrag.documents.chunking import passage_text
from localrag.languages import is_spaced
from localrag.prompts import render
from localrag.rag.base import Toolkit
from localrag.rag.citations import LIST_MARK
from localrag.rag.disagreement import CLAUSE_BREAK, DENIAL, bare_terms
from localrag.rag.grading import Grade, Grader, Reading
from localrag.rag.reading import Evidence, numbered_prompt
from localrag.rag.statements import Statements
from localrag.text.figures import COUNTED, Figure, beyond, counts_asked, figures, figures_not_in
from localrag.text.language import answer_language, detect
from localrag.text.sentences import split_sentences
from localrag.types import (
    Citation,
    Plain,
    Rating,
    ScoredChunk,
    Statement,
    Step,
    citations_of,
)

Terms = Callable[[str], Iterable[str]]
Closest = Callable[[str], Sequence[tuple[str, Citation]]]
"""A statement -> the sentence closest to it and the question, as it reads, with its citation."""
Unsupported = Literal["mark", "remove", "remove unchecked"]
"""What becomes of a sentence that no passage bears out; the last holds for unchecked ones, too."""

Ask = Callable[[str], Grade | None]
"""A sentence -> how far the model says that the passages bear it out; None: it is not asked."""

MOST_TIME = 0.15
"""Share of an answer's time that asking the model may take."""
LEAST_TOKENS = 160
"""Tokens that it may take in any case: two sentences over a document however short."""
READ_FASTER = 3
"""How many times as fast as it writes a model reads, at least."""
SUPPORTED, PARTLY = 0.5, 0.35
"""From these expected shares of full support on, as the model gives them behind the answer's
prompt, a sentence is supported fully and in part (`benchmarks/log/2026-11.md`)."""
LEAST = 3
"""Terms and figures below which words prove nothing: "20 euros" may be said of something else."""
_NAME = re.compile(r"\b[A-Z][\w&.-]*[A-Z0-9][\w&-]*\b|(?<=[a-z0-9,] )[A-Z][\w'’-]{2,}")
_EMPTY = frozenset({*"它他她该此其", "it", "因为", "由于", "根据"})
"""Terms that say nothing by themselves."""
_YES = re.compile(
    r"(?:yes(?:, (?:\w+ ){1,2}(?:can|may|is|are|do|does|did|was|were|will|has|have|must))?"
    r"|可以的?|能|是的?|对|有的?|会的?|需要|要|行|允许|应该)[.!。！]?",
    re.IGNORECASE,
)
"""An answer that says no more than that it is so."""
_MEMBERS = re.compile(r"、|以及|[和与及;；]|,\s*(?:and\s+)?|(?<!\s)\s+and\s+")


@dataclass(frozen=True, slots=True)
class SupportFinding:
    """What was found of a sentence."""

    rating: Rating
    share: float
    quoted: bool = False

    def of(self, statement: Statement) -> Statement:
        """The statement of which this was found, with its rating."""
        return replace(statement, rating=self.rating, share=self.share, quoted=self.quoted)


@dataclass(frozen=True, slots=True)
class Passages:
    """The passages of one answer, as its sentences are held against them."""

    question: str
    chunks: Sequence[ScoredChunk]
    terms: Terms
    closest: Closest = lambda _: ()

    def finding(self, cited: Statement, citations: Sequence[Citation]) -> SupportFinding | None:
        """What can be said without a model of a statement of an answer with `citations`, or None.

        Each quotation under one of the markers in it counts.
        """
        statement = statement_of(cited.text)
        markers = [
            cited_mark.citation.marker for cited_mark in cited.citations if not cited_mark.behind
        ]
        own = [passage_text(self.chunks[m - 1].chunk) for m in markers if m <= len(self.chunks)]
        every = [passage_text(hit.chunk) for hit in self.chunks]
        counted = counts_asked(self.question)
        if strange := figures_not_in(statement, [*every, self.question], counted):
            if len(own) > 1 and all(_reckoned(figure, own) for figure in strange):
                return None  # "330 more": two passages have both numbers, and neither says so
            if counted is not None and all(_listed(figure, own) for figure in strange):
                return None
            return SupportFinding("no support", 0.0)
        if own and figures_not_in(statement, [*own, self.question], counted):
            return SupportFinding("partially supported", 0.0)
        quotes = [citation for citation in citations if citation.marker in markers]
        agrees = _YES.fullmatch(statement) is not None and not DENIAL.search(self.question)
        if agrees:
            statement = self.question.rstrip("?？吗么 ")
        if self._of_another_side(statement, [citation.quote for citation in quotes]):
            return SupportFinding("no support", 0.0)
        if any(self._quoted(statement, citation, agrees) for citation in quotes):
            return SupportFinding("fully supported", 1.0, quoted=True)
        for sentence, closest in () if agrees else self.closest(statement):
            if self.stands_in(sentence, statement):
                quoted = any(citation.quote == closest.quote for citation in quotes)
                return SupportFinding("fully supported", 1.0, quoted=quoted)
        return None

    def stands_in(self, sentence: str, statement: str) -> bool:
        """Whether what a statement adds to the question stands in the sentence closest to both.

        However little it is ("20 euros"): the sentence is that of the question, too.
        """
        if statement == statement_of(sentence) and len(list(self.terms(statement))) >= LEAST:
            return True
        question_terms, own = frozenset(self.terms(self.question)), figures(statement)
        content = bare_terms(statement, own, 0, len(statement), self.terms) - _EMPTY
        there = frozenset(self.terms(sentence))
        there |= bare_terms(sentence, figures(sentence), 0, len(sentence), self.terms)
        if not (own or content - question_terms) or not content <= there | question_terms:
            return False
        if figures_not_in(statement, [sentence], ""):
            return False
        return bool(DENIAL.search(statement)) == self._denies(sentence, content)

    def unknown_names(self, statement: str) -> set[str]:
        """Names and codes of an English sentence that stand in no passage of its language."""
        texts = [passage_text(hit.chunk) for hit in self.chunks]
        spaced = [is_spaced(detect(text)) for text in texts]
        if is_spaced(detect(statement)) is not True or all(
            is_word_spaced is False for is_word_spaced in spaced
        ):
            return set()
        known = {term for text in [*texts, self.question] for term in self.terms(text)}
        names = set(_NAME.findall(statement))
        return {name for name in names if not known & set(self.terms(name))}

    def _of_another_side(self, statement: str, quotes: Sequence[str]) -> bool:
        """Whether of a number the quotations say what holds up to it, and this what does beyond it.

        Or the other way round. Where one of the two is denied, it may follow from the other.
        """
        there = [(quote, figure) for quote in quotes for figure in figures(quote)]
        for figure in figures(statement):
            side = beyond(statement, figure)
            sides = {
                beyond(quote, other)
                for quote, other in there
                if figure.kind == other.kind == "number"
                and figure.agrees(other)
                and bool(DENIAL.search(quote)) == bool(DENIAL.search(statement))
            }
            if side is not None and sides == {not side}:
                return True
        return False

    def _quoted(self, statement: str, citation: Citation, agrees: bool) -> bool:
        """Whether all that is said stands in the quotation, or in the heading above it.

        Of what the question names it suffices that the passage does ("It was opened in 1907"),
        unless the quotation names somebody or something else: MYCIN's rules are not DENDRAL's.
        Not so where the answer just `agrees`, and the question is all that is said.
        """
        quote, chunk = citation.quote, self.chunks[citation.marker - 1].chunk
        question_terms = frozenset(self.terms(self.question))
        there = frozenset(self.terms(f"{quote}\n{chunk.heading}"))
        there |= bare_terms(quote, figures(quote), 0, len(quote), self.terms)
        own = figures(statement)
        content = bare_terms(statement, own, 0, len(statement), self.terms) - _EMPTY
        if len(content) + len(own) < LEAST or not (agrees or content - question_terms or own):
            return False
        known = (
            there if agrees else there | question_terms & frozenset(self.terms(passage_text(chunk)))
        )
        if not content <= known or figures_not_in(statement, [quote], ""):
            return False
        names = (
            name for name in _NAME.findall(quote) if not question_terms & set(self.terms(name))
        )
        if not content & question_terms <= there and any(names):
            return False
        return bool(DENIAL.search(statement)) == self._denies(quote, content)

    def _denies(self, quote: str, content: frozenset[str]) -> bool:
        """Whether a clause of a quotation that speaks of the same denies something."""
        for clause in CLAUSE_BREAK.split(quote):
            terms = frozenset(self.terms(clause))
            if DENIAL.search(clause) and 2 * len(terms & content) >= len(terms):
                return True
        return False


def statement_of(sentence: str) -> str:
    """What a sentence says, without the mark of a list."""
    return LIST_MARK.sub("", sentence).strip()


def _reckoned(figure: Figure, texts: Sequence[str]) -> bool:
    """Whether a number is the sum or the difference of two that stand in the texts."""
    if figure.kind != "number":
        return False
    there = {
        number.value[0] or 0.0 for t in texts for number in figures(t) if number.kind == "number"
    }
    value = abs(figure.value[0] or 0.0)
    return any(
        math.isclose(value, reckoned, rel_tol=1e-9)
        for first, second in combinations(there, 2)
        for reckoned in (first + second, abs(first - second))
    )


def _listed(figure: Figure, texts: Sequence[str]) -> bool:
    """Whether a sentence of the texts has as many members as a small number says."""
    few = {len(_MEMBERS.split(t[s:e])) for t in texts for s, e in split_sentences(t)}
    return (
        figure.kind == "number"
        and 3 <= (figure.value[0] or 0.0) <= COUNTED
        and figure.value[0] in few
    )


def checked(
    statements: Statements, passages: Passages, ask: Ask | None
) -> Generator[Step, None, Statements]:
    """The statements rated as far as they can be, and a step that tells of it."""
    started = time.perf_counter()
    citations, rated = citations_of(statements), []
    calls = unchecked = 0
    for statement in statements:
        if not statement.has_words:
            rated.append(statement)
            continue
        finding = passages.finding(statement, citations)
        if finding is None and ask and (grade := ask(statement.text)):
            calls += 1
            finding = None if grade.unread else SupportFinding(rating_of(grade.value), grade.value)
        if finding is None and passages.unknown_names(statement.text):
            finding = SupportFinding("partially supported", 0.0)
        unchecked += finding is None
        rated.append(finding.of(statement) if finding else statement)
    counts: dict[str, Plain] = {
        "checked": sum(statement.rating is not None for statement in rated),
        "unchecked": unchecked,
        "asked": calls,
        "unsupported": sum(statement.rating == "no support" for statement in rated),
    }
    yield Step("check sentences", counts, None, time.perf_counter() - started)
    return tuple(rated)


class BoundedAsking:
    """Asks the model as long as that takes no more than `MOST_TIME` of the answer's time.

    Or no more than `LEAST_TOKENS`: a short answer over a short document is checked, too.

    Time is counted in tokens that are read, so that the same answer is always checked alike.
    """

    def __init__(
        self, grade: Callable[[str], Grade], cost: Callable[[str], int], read: int, written: int
    ) -> None:
        """`cost`: tokens of the question about a sentence, behind what was `read` already."""
        self._grade = grade
        self._cost = cost
        self._left = max(MOST_TIME * (read + READ_FASTER * written), LEAST_TOKENS)

    def __call__(self, sentence: str) -> Grade | None:
        """The grade, or None where there is no time for it."""
        cost = self._cost(sentence)
        if cost > self._left:
            return None
        self._left -= cost
        return self._grade(sentence)


def asking(
    question: str,
    evidence: Evidence,
    written: Statements,
    chunks: Sequence[ScoredChunk],
    tools: Toolkit,
    grader: Grader,
    unsupported: Unsupported,
) -> Ask | None:
    """How the model is asked about a sentence, behind the passages that it has just read.

    As long as that takes little of the answer's time, where it has been shown already; None where
    the model shows no logits, unless all is to be checked.
    """
    if not grader.reads_logits and unsupported != "remove unchecked":
        return None
    llm, language = tools.llm, answer_language(question)
    own = tuple(chunks[number - 1] for number in evidence.numbers)

    def ask(sentence: str) -> Grade:
        statement = statement_of(sentence)
        if evidence.keep:
            return grader.support(question, statement, Reading(language, own))
        task = render("borne_out", language, statement=statement)
        prompt = numbered_prompt(tools.wording, question, own, language, task)
        return grader.borne_out(prompt, language)

    def cost(sentence: str) -> int:
        task = render("support", language, question=question, statement=statement_of(sentence))
        return llm.count_tokens(task)

    if unsupported != "mark":
        return ask
    read = llm.count_prompt_tokens(evidence.messages)
    return BoundedAsking(
        ask, cost, read, llm.count_tokens("".join(statement.written for statement in written))
    )


def rating_of(share: float) -> Rating:
    """What an expected share of full support comes to."""
    if share >= SUPPORTED:
        return "fully supported"
    return "partially supported" if share >= PARTLY else "no support"
