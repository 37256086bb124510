"""Answers from passages that disagree: all that they say is told, each with its source.

The model is asked to; where its text gives one figure only, the others follow as sentences of
their own, in the words of their passages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localrag.documents.formats.table import shown_name
from localrag.prompts import PromptLanguage, render
from localrag.rag.base import Toolkit
from localrag.rag.citations import hide_markers, without_markers
from localrag.rag.disagreement import Disagreement, Statement, disagreement
from localrag.rag.faithfulness import Checked
from localrag.rag.versions import CardOf, rank
from localrag.text.figures import figures
from localrag.types import Citation, Message, Plain, ScoredChunk, Step, SupportedSentence


def _added(language: PromptLanguage) -> re.Pattern[str]:
    said = re.escape(render("said_otherwise", language, source="SOURCE", quote="QUOTE"))
    # Greedy: what a name has of these words belongs to the name.
    said = said.replace("SOURCE", r"(?P<source>.+)").replace("QUOTE", r"(?P<quote>.*)")
    return re.compile(rf"^{said}(?: (?P<marker>\[\d+\]))?[^\S\n]*$", re.MULTILINE)


_ADDED = (_added("en"), _added("zh"))
_DATE = re.compile(r" \([\d-]+\)$")


def with_added(text: str, said: Callable[[re.Match[str]], str]) -> str:
    """An answer with something else in place of each sentence that was added to it here.

    A match has the groups "source", "quote" and "marker".
    """
    for pattern in _ADDED:
        text = pattern.sub(said, text)
    return text


def says_otherwise(sentence: str, chunks: Sequence[ScoredChunk]) -> bool:
    """Whether a sentence tells what one of these passages says, as `Both.completed` does."""
    found = next(filter(None, (pattern.fullmatch(sentence) for pattern in _ADDED)), None)
    names = {hide_markers(shown_name(each.source)) for each in chunks}
    texts = (hide_markers(" ".join(each.chunk.text.split())) for each in chunks)
    return (
        found is not None
        and _DATE.sub("", found["source"]) in names
        and any(found["quote"] in text for text in texts)
    )


@dataclass(frozen=True, slots=True)
class Both:
    """Sees to it that an answer gives all that its passages differ in.

    `card_of` gives the card of a passage's document.
    """

    found: Disagreement | None
    chunks: Sequence[ScoredChunk]
    language: PromptLanguage
    card_of: CardOf
    numbered: bool = True
    """Whether the prompt shows all of these passages, with their numbers."""

    @classmethod
    def among(
        cls,
        question: str,
        chunks: Sequence[ScoredChunk],
        read: Sequence[int],
        language: PromptLanguage,
        tools: Toolkit,
        numbered: bool,
    ) -> Both:
        """What differs between the passages that were `read`, numbers from 1, and any other.

        `numbered` says whether the prompt shows them with their numbers.
        """
        found = disagreement(question, chunks, tools.tokenize)
        if found and not any(each.chunk + 1 in read for each in found.statements):
            found = None
        if found:
            numbered = numbered and all(each.chunk + 1 in read for each in found.statements)
        return cls(found, chunks, language, tools.card_of, numbered)

    @property
    def steps(self) -> list[Step]:
        """What was found, for the answer's trace."""
        if self.found is None:
            return []
        values: dict[str, Plain] = {
            "passages": tuple(str(each.chunk + 1) for each in self.found.statements),
            "figures": tuple(each.figure for each in self.found.statements),
        }
        return [Step("disagreement", values, None, 0.0)]

    def newest(self, read: Sequence[int]) -> int | None:
        """The number of the passage in force, from 1, where it is none of those that were `read`.

        By the cards of their documents: one that is newer than all that was read.
        """
        if self.found is None:
            return None
        ranks = {
            each.chunk + 1: rank(self.card_of(self.chunks[each.chunk]))
            for each in self.found.statements
        }
        best = max(ranks, key=lambda number: (ranks[number], -number))
        newer = all(ranks[best] > ranks[number] for number in read if number in ranks)
        return best if newer and best not in read else None

    def told(self, messages: list[Message]) -> list[Message]:
        """The prompt for the answer, with a word of what its passages differ in."""
        if self.found is None or not self.numbered:
            return messages
        numbers = dict.fromkeys(f"[{each.chunk + 1}]" for each in self.found.statements)
        given = (f"{each.figure} [{each.chunk + 1}]" for each in self.found.statements)
        between = "、" if self.language == "zh" else ", "
        name = "disagreement_denial" if self.found.kind == "denial" else "disagreement"
        told = render(
            name, self.language, passages=between.join(numbers), figures=between.join(given)
        )
        last = messages[-1]
        return [*messages[:-1], Message(last.role, f"{last.content}\n{told}")]

    def completed(self, answer: Checked, cite: Callable[[int, str], Citation]) -> Checked:
        """The answer with a sentence for each statement that it leaves out, behind its text."""
        for each in self._missing(answer.text):
            marker, added = each.chunk + 1, self._sentence(each)
            start = len(answer.text) + 2
            cited = replace(cite(marker, each.text), claims=(added,))
            rated = SupportedSentence(
                start, start + len(added), "fully supported", 1.0, quoted=True
            )
            text = f"{answer.text}\n\n{added} [{marker}]"
            citations, support = (*answer.citations, cited), (*answer.support, rated)
            answer = replace(answer, text=text, citations=citations, support=support)
        return answer

    def _missing(self, text: str) -> list[Statement]:
        """One statement of each figure that an answer lacks, where it gives another of them."""
        said = figures(without_markers(text))
        given, lacking = False, dict[str, Statement]()
        for each in self.found.statements if self.found else ():
            own = figures(each.figure)
            if any(f.agrees(a) for f in own for a in said):
                given = True
            elif own:
                lacking.setdefault(each.figure, each)
        return list(lacking.values()) if given else []

    def _sentence(self, statement: Statement) -> str:
        found = self.chunks[statement.chunk]
        date = self.card_of(found).date
        name = hide_markers(" ".join(shown_name(found.source).split()))
        return render(
            "said_otherwise",
            self.language,
            source=f"{name} ({date})" if date else name,
            quote=hide_markers(" ".join(statement.text.split())),
        )
