"""From sentences to statements: what needs no model, and what a model may change."""

from __future__ import annotations

import re

from localrag.evaluation.tokens import tokens
from localrag.models.llms.structured import list_schema, object_schema, text_schema
from localrag.rag.citations import without_markers
from localrag.text.sentences import split_sentences

SCHEMA = object_schema(statements=list_schema(text_schema(2, 400), 1, 6))
"""What the model writes for one sentence."""

KNOWN_SHARE = 0.8
"""Of each statement's tokens, so many must come from question and answer."""
KEPT_SHARE = 0.7
"""Of the sentence's tokens, so many must be in its statements."""

_LETTER = re.compile(r"[^\W_]")
_LIST_MARK = re.compile(r"^(?:[-*•·–]\s+|#{1,6}\s+|\(?\d{1,2}[.)、）]\s*)+")
_EMPHASIS = re.compile(r"\*\*|__|`")
_PRONOUN = re.compile(
    r"\b(?:he|she|it|they|him|her|them|his|its|their|this|that|these|those|there)\b"
    r"|(?<!其)[他她它]|[该此其这那](?!里|外|他|它|实|次)",
    re.IGNORECASE,
)
_SEVERAL = re.compile(
    r"[,;，；、]|\b(?:and|but|while|whereas)\b|并且|而且|同时|以及|并", re.IGNORECASE
)


def sentences(text: str) -> list[str]:
    """The sentences of an answer without markers, list marks and emphasis."""
    texts: list[str] = []
    plain = without_markers(text)
    for start, end in split_sentences(plain):
        sentence = _EMPHASIS.sub("", _LIST_MARK.sub("", plain[start:end])).strip()
        if len(_LETTER.findall(sentence)) > 1:
            texts.append(sentence)
    return texts


def needs_rewriting(sentence: str) -> bool:
    """Whether a sentence makes several claims or speaks of something by a pronoun."""
    return bool(_SEVERAL.search(sentence) or _PRONOUN.search(sentence))


def texts_of(written: object) -> list[str]:
    """The texts of a list that a model wrote, without blanks around them; empty ones go."""
    entries = written if isinstance(written, list) else []
    return [entry.strip() for entry in entries if isinstance(entry, str) and entry.strip()]


def accepted(made: object, sentence: str, known: str) -> list[str]:
    """The statements that a model made of a sentence, or none where it was not faithful.

    A small model likes to answer the question or to continue instead. `known` is all that the
    statements may speak of.
    """
    texts = list(dict.fromkeys(texts_of(made)))
    allowed, sentence_tokens = set(tokens(known)), set(tokens(sentence))
    for text in texts:
        has = set(tokens(text))
        if not has or len(has & allowed) < KNOWN_SHARE * len(has):
            return []
    statement_tokens = set().union(*(tokens(text) for text in texts))
    return (
        texts
        if len(statement_tokens & sentence_tokens) >= KEPT_SHARE * len(sentence_tokens)
        else []
    )
