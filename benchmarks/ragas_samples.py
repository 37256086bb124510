"""Thirty samples with a known truth for `ragas_comparison.py`, from questions that others wrote.

15 English ones from xquad_en and 15 Chinese ones from cmrc2018. The reference is the sentence of
the passage that holds the annotated answer; the passage is cut at sentence ends to about 120
tokens around it. Beside it stands the passage that shares most words with the question and does
not hold the answer. What is asked of each metric is then known:

| answer | faithfulness | answer relevancy |
|---|---|---|
| right: the reference | 1 | 1 |
| swapped: the reference with another number | 0 | 1 |
| beside: the sentence that answers another question about the passage | 1 | 0 |
| partly: the reference, and a sentence of a passage that is not given | 0.5 | 0.5 |

| contexts | context recall | context precision |
|---|---|---|
| passage first | 1 | 1 |
| passage second | 1 | 0.5 |
| two others | 0, and faithfulness is 0 too | 0 |
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from localrag.evaluation.estimate import rough_tokens
from localrag.evaluation.tokens import tokens
from localrag.text.sentences import split_sentences

CONTEXT_TOKENS = 120
KINDS = (
    *(("right", place) for place in ("first", "second", "none", "first", "second")),
    *(("swapped", place) for place in ("first", "second", "first")),
    *(("beside", place) for place in ("second", "first")),
    *(("partly", place) for place in ("first", "second", "none", "first", "none")),
)
"""Of each language: 5 right, 5 wrong in two ways, 5 partly; the passage 7 times first, 5 second."""


@dataclass(frozen=True)
class Question:
    """A question, its passage's sentences, and in which of them the answer stands."""

    id: str
    text: str
    answers: tuple[str, ...]
    passage: str
    sentences: tuple[str, ...]
    place: int

    @property
    def reference(self) -> str:
        return self.sentences[self.place]

    @cached_property
    def window(self) -> tuple[int, int]:
        """The sentences around the reference that fit: first, and the one after the last."""
        begin, end = self.place, self.place + 1
        while True:
            grown = [
                (b, e)
                for b, e in ((begin, end + 1), (begin - 1, end))
                if b >= 0
                and e <= len(self.sentences)
                and rough_tokens("".join(self.sentences[b:e])) <= CONTEXT_TOKENS
            ]
            if not grown:
                return begin, end
            begin, end = grown[0]


def build(data: Path, seed: int = 0) -> list[dict[str, Any]]:
    """The samples, languages and kinds mixed so that every beginning of the list is balanced."""
    english = list(_samples("en", data / "xquad_en", seed))
    chinese = list(_samples("zh", data / "cmrc2018", seed))
    order = random.Random(seed).sample(range(len(KINDS)), len(KINDS))
    return [each[place] for place in order for each in (english, chinese)]


def _samples(language: str, folder: Path, seed: int) -> Iterator[dict[str, Any]]:
    generator = random.Random(seed)
    corpus = {row["id"]: row["text"] for row in _rows(folder / "corpus.jsonl")}
    near = _Near(corpus)
    asked = _questions(folder, corpus)
    by_passage: dict[str, list[Question]] = {}
    for question in asked:
        by_passage.setdefault(question.passage, []).append(question)
    passages = sorted(by_passage)
    generator.shuffle(passages)
    remaining = iter(passages)
    joint = " " if language == "en" else ""
    for answer, place in KINDS:
        question, said = next(
            (question, said)
            for passage in remaining
            for question in by_passage[passage]
            if (said := _answer(answer, question, by_passage[passage], corpus, generator, joint))
        )
        begin, end = question.window
        right = joint.join(question.sentences[begin:end])
        others = near.others(question, 2)
        contexts = {"first": [right, others[0]], "second": [others[0], right], "none": others}[
            place
        ]
        yield {
            "id": f"{language}-{question.id}",
            "language": language,
            "kind": answer,
            "place": place,
            "question": question.text,
            "answer": said,
            "contexts": contexts,
            "ground_truth": question.reference,
            "truth": _truth(answer, place),
        }


def _truth(answer: str, place: str) -> dict[str, float]:
    borne = {"right": 1.0, "swapped": 0.0, "beside": 1.0, "partly": 0.5}[answer]
    return {
        "faithfulness": 0.0 if place == "none" else borne,
        "answer_relevancy": {"beside": 0.0, "partly": 0.5}.get(answer, 1.0),
        "context_recall": 0.0 if place == "none" else 1.0,
        "context_precision": {"first": 1.0, "second": 0.5, "none": 0.0}[place],
    }


def _answer(
    kind: str,
    question: Question,
    siblings: list[Question],
    corpus: dict[str, str],
    generator: random.Random,
    joint: str,
) -> str | None:
    """What is answered, or None where the question does not lend itself to it."""
    if kind == "right":
        return question.reference
    if kind == "swapped":
        return _swapped(question)
    if kind == "beside":
        begin, end = question.window
        beside = [
            other.reference
            for other in siblings
            if begin <= other.place < end and other.place != question.place
        ]
        return beside[0] if beside else None
    # The first sentence of a passage mostly says what it is about.
    while True:
        strange = _sentences(corpus[generator.choice(sorted(corpus))])[0]
        if strange not in question.passage and _handy(strange):
            return joint.join((question.reference, strange))


def _swapped(question: Question) -> str | None:
    """The reference with another number in the place of the answer's; None where it has none."""
    number = re.search(r"\d+", question.answers[0])
    if number is None or question.reference.count(number[0]) != 1:
        return None
    other = str(int(number[0]) + max(2, int(number[0]) % 7))
    return None if other in question.passage else question.reference.replace(number[0], other)


def _questions(folder: Path, corpus: dict[str, str]) -> list[Question]:
    """Those whose answer stands in one handy sentence of their passage."""
    passage_of = dict(
        line.split("\t")[:2] for line in (folder / "qrels.tsv").read_text("utf-8").splitlines()
    )
    found = []
    for row in _rows(folder / "queries.jsonl"):
        passage = corpus[passage_of[row["id"]]]
        sentences = _sentences(passage)
        answer = row["answers"][0]
        places = [at for at, sentence in enumerate(sentences) if answer in sentence]
        if len(places) == 1 and _handy(sentences[places[0]]):
            found.append(
                Question(
                    row["id"], row["text"], tuple(row["answers"]), passage, sentences, places[0]
                )
            )
    return found


def _handy(sentence: str) -> bool:
    """One sentence of prose, neither a fragment nor a list."""
    return 12 <= rough_tokens(sentence) <= 45 and sentence[-1] in ".。" and "\n" not in sentence


def _sentences(text: str) -> tuple[str, ...]:
    return tuple(
        sentence for start, end in split_sentences(text) if (sentence := text[start:end].strip())
    )


class _Near:
    """Which passages share most with a question, each word by its inverse document frequency."""

    def __init__(self, corpus: dict[str, str]) -> None:
        self._words = {text: set(tokens(text)) for text in corpus.values()}
        self._frequency = Counter(word for words in self._words.values() for word in words)

    def others(self, question: Question, count: int) -> list[str]:
        """The nearest that do not hold the answer, their beginnings cut at a sentence end."""
        asked = set(tokens(question.text))

        def shared(text: str) -> float:
            return sum(
                math.log(len(self._words) / self._frequency[word])
                for word in asked & self._words[text]
            )

        fitting = [
            text
            for text in self._words
            if text != question.passage
            and not any(answer in text for answer in question.answers)
            and rough_tokens(_sentences(text)[0]) <= CONTEXT_TOKENS
        ]
        return [_beginning(text) for text in sorted(fitting, key=shared, reverse=True)[:count]]


def _beginning(text: str) -> str:
    end = 0
    for span in split_sentences(text):
        if rough_tokens(text[: span.end]) > CONTEXT_TOKENS:
            break
        end = span.end
    return text[:end].strip()


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
