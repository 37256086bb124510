"""What was written, cut into the statements of an answer, and what becomes of these.

Knows neither models nor passages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

from localrag.languages import LanguageCode
from localrag.prompts import render
from localrag.rag.refusals import kind_of, refuses
from localrag.text.sentences import split_sentences
from localrag.types import Cited, Statement, StatementKind

Statements = tuple[Statement, ...]

_SIGNS = " .。"
"""Of a sentence that has nothing else, as behind "…", no statement is made."""


def own_sentence(name: str, language: LanguageCode) -> Statement:
    """One of localrag's own sentences, by its name among the prompts."""
    kind: StatementKind = "refusal" if name == "refusal" else "notice"
    return Statement(render(name, language), kind, copied=())


def words(statements: Iterable[Statement]) -> str:
    """The text without its markers."""
    return "".join(statement.text for statement in statements)


def cut(pieces: Iterable[Statement]) -> Statements:
    """The sentences of what a model wrote piece by piece, with their citations."""
    text, marks, is_written = "", list[Cited](), True
    for piece in pieces:
        is_written = is_written and (piece.copied == () or not piece.text)
        marks += [replace(mark, at=len(text) + mark.at) for mark in piece.citations]
        text += piece.text
    if not text:
        return ()
    copied = () if is_written else None
    whole = Statement(text, citations=tuple(marks))
    spans = _spans(whole)
    statements: list[Statement] = []
    for (start, end), (following, _) in pairwise([*spans, (len(text), len(text))]):
        start = 0 if not statements else start
        own = tuple(
            replace(mark, at=mark.at - start, behind=place >= end)
            for mark, place in zip(marks, _places(whole), strict=True)
            if start < mark.at <= following or mark.at == start == 0
        )
        sentence = text[start:following]
        statements.append(Statement(sentence, kind_of(sentence), own, copied=copied))
    return tuple(statements)


def _spans(whole: Statement) -> list[tuple[int, int]]:
    """Where each sentence begins in a text, and where it ends in what is written.

    Its markers decide with their brackets where they end.
    """
    spans = []
    for span in split_sentences(whole.written):
        start, end = _unmarked(span.start, whole), _unmarked(span.end, whole)
        if whole.text[start:end].strip(_SIGNS):
            spans.append((start, span.end))
    return spans or [(0, len(whole.written))]


def _places(whole: Statement) -> Iterator[int]:
    """Where the markers stand in what is written, with their gaps."""
    passed = 0
    for mark in whole.citations:
        yield mark.at + passed
        passed += mark.width


def _unmarked(offset: int, whole: Statement) -> int:
    """Where a code point of `written` stands in `text`; one of a marker where the marker does."""
    passed = 0
    for mark in whole.citations:
        begin = mark.at + passed
        if begin >= offset:
            break
        passed += min(mark.width, offset - begin)
    return offset - passed


def uncited(statements: Statements) -> Statements:
    """The same with markers that are no more than text."""
    return tuple(
        replace(statement, text=statement.written, citations=()) for statement in statements
    )


def classified(statements: Statements) -> Statements:
    """The statements of a whole answer, of which all may come to a refusal."""
    if not refuses(words(statements)):
        return statements
    added = ("notice", "otherwise")
    return tuple(
        statement
        if statement.kind in added or statement.part
        else replace(statement, kind="refusal")
        for statement in statements
    )


def tidy(statements: Iterable[Statement]) -> Statements:
    """An answer's statements: white space stands behind them, none before the first or at the end.

    What is empty is left out.
    """
    result: list[Statement] = []
    for statement in statements:
        lead = len(statement.text) - len(statement.text.lstrip())
        if lead and (lead < len(statement.text) or not statement.citations):
            if result:
                result[-1] = replace(result[-1], text=result[-1].text + statement.text[:lead])
            marks = tuple(replace(mark, at=mark.at - lead) for mark in statement.citations)
            statement = replace(statement, text=statement.text[lead:], citations=marks)
        if statement.text or statement.citations:
            result.append(statement)
    if result:
        last = result[-1]
        end = max((mark.at for mark in last.citations), default=0)
        result[-1] = replace(last, text=last.text[:end] + last.text[end:].rstrip())
    return tuple(result)


def without_unsupported(statements: Statements, *, unchecked: bool = False) -> Statements:
    """Those that are not without any support; none where no words are left.

    Without those that were left `unchecked`, too, if wanted.
    """
    result: list[Statement] = []
    for statement in statements:
        gone = statement.rating == "no support" or (unchecked and statement.rating is None)
        if gone and statement.has_words:
            rest = statement.text[len(statement.text.rstrip()) :].lstrip(" \t")
            result.append(Statement(rest))
        else:
            result.append(statement)
    return tidy(result) if any(statement.has_words for statement in result) else ()


def without_quotation(statements: Statements) -> Statements:
    """Those without the sentence that is quoted behind an answer: it supports nothing of it."""
    return tuple(statement for statement in statements if statement.kind != "quotation")


def is_grounded(statements: Statements) -> bool:
    """Whether passages are cited, and support some of it as far as was checked."""
    own = without_quotation(statements)
    cites = any(statement.citations for statement in own)
    return cites and any(
        statement.has_words and statement.rating != "no support" for statement in own
    )
