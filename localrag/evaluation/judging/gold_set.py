"""The labelled set: what a judge should find, in Chinese and English.

Written for this project (`gold/*.jsonl`). Each item is right, subtly wrong (one detail differs, or
the wrong thing is answered) or unsupported (nothing in the text speaks of it; for answer
relevancy: evasive).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal, get_args

import msgspec

from localrag.languages import CODES, LanguageCode

LabelledMetric = Literal["faithfulness", "answer_relevancy", "context_recall", "context_precision"]
METRICS: tuple[LabelledMetric, ...] = get_args(LabelledMetric)
Kind = Literal["right", "subtly wrong", "unsupported"]
Question = Literal["support", "useful", "evasive"]


@dataclass(frozen=True, slots=True)
class GoldItem:
    """One labelled verdict; which fields are used depends on the metric."""

    metric: LabelledMetric
    language: LanguageCode
    kind: Kind
    contexts: tuple[str, ...] = ()
    statement: str = ""
    question: str = ""
    reference: str = ""
    answer: str = ""

    @property
    def label(self) -> bool:
        """The right verdict: supported, useful or, for answer relevancy, evasive."""
        if self.metric == "answer_relevancy":
            return self.kind == "unsupported"
        return self.kind == "right"

    @property
    def task(self) -> Question:
        """The kind of verdict that is asked for: `Judge.supported`, `useful` or `evasive`."""
        if self.metric == "answer_relevancy":
            return "evasive"
        return "useful" if self.metric == "context_precision" else "support"


def gold_items() -> list[GoldItem]:
    """The whole set, English first."""
    return [item for language in CODES for item in _read(language)]


def gold_hash() -> str:
    """Identifies the set's content."""
    digest = hashlib.sha256()
    for language in CODES:
        digest.update(_lines(language).encode())
    return digest.hexdigest()


def _lines(language: str) -> str:
    path = files("localrag.evaluation.judging").joinpath(f"gold/judge_gold.{language}.jsonl")
    return path.read_text("utf-8") if path.is_file() else ""


def _read(language: str) -> Iterator[GoldItem]:
    for line in _lines(language).splitlines():
        group = json.loads(line)
        for item in group.pop("items"):
            if context := item.pop("context", ""):
                item["contexts"] = [context]
            yield msgspec.convert(group | item, GoldItem)
