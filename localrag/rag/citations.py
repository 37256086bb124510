"""Citations: which passage supports a sentence, and with which words.

A small model forgets markers, invents them and puts them on the wrong sentence.
So a marker of the model is a claim, kept only where the passage bears it out,
and a sentence without a marker gets one where a passage clearly says the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from localrag.documents.chunking import passage_text
from localrag.documents.tables import named_rows
from localrag.prompts import render
from localrag.rag.statements import Statements, classified, cut, words
from localrag.text.figures import blanked, figures, figures_not_in
from localrag.text.instructions import may_steer
from localrag.text.language import answer_language, are_foreign, detect
from localrag.text.sentences import split_sentences
from localrag.types import (
    Chunk,
    Citation,
    Cited,
    Place,
    ScoredChunk,
    Statement,
    SupportedSentence,
    citations_of,
)

if TYPE_CHECKING:
    from localrag.models.embeddings.base import Embedder, Vectors

Tokenize = Callable[[str], list[str]]
PlaceOf = Callable[[Chunk, int], Place]
"""Where a code point of a chunk's text stands."""

CLAIMED_SUPPORT = 0.35
"""A marker that the model wrote stays from this share of the sentence's weighted terms on. Where it
has read nothing but what holds the answer, one is added from here on: its words come from there."""
FOUND_SUPPORT = 0.55
"""A marker is added from this share on otherwise."""
CROSS_LANGUAGE_COSINE = 0.5
"""The same decision by embedding, where sentence and passage are of different languages."""
PARAPHRASE_TERMS = 3
"""How many terms a sentence shares with its passage at least, where they are few of its own."""
MINIMUM_TERMS = 2
"""Shorter fragments (a list number, "15.3%") prove nothing by themselves."""

LOOKED_AT = 10
"""Sentences that are compared with a question by embedding."""
SENTENCE_TERMS = 4
"""What has fewer, and does not end as sentences do, is rather a heading."""
_SENTENCE_END = re.compile(r"[.!?;。！？；…][\"'”’」』)）]*\s*\Z")
OWN_LANGUAGE_COUNTS = 0.15
SHARED_COUNTS = 0.5
"""What the share of a question's terms counts beside the cosine: a number alone is no likeness."""

SHORT_ANSWER = 40
"""Characters up to which a whole answer may be a bare name or number."""

LIST_MARK = re.compile(r"^\s*(?:[-*•·–]\s+|#{1,6}\s+|\(?\d{1,2}(?:\.(?!\d)|[)、）])\s*)+")
_NUMBERS = r"\d{1,3}(?:\s*[,，、–-]\s*\d{1,3})*"
_MARKER = re.compile(
    r"(?<![ \t])(?P<blank>[ \t]*)[\[【［](?P<inside>\s*(?:(?:资料|来源|文档|passages?|source)\s*)?"
    rf"(?P<numbers>{_NUMBERS})\s*)[\]】］]",
    re.IGNORECASE,
)
"""A citation marker with the blanks before it: [1], [1, 2], [1-3], 【1】, [source 1]."""
_MARKER_BEGUN = re.compile(r"[ \t]*(?:[\[【［][^\]】］\n]{0,24})?\Z")
_WHOLE = re.compile(r"(\d+)\.0+")
"""A whole number as tables write it: 173,500.00."""
_NUMBER_OR_RANGE = re.compile(r"(\d+)(?:\s*[–-]\s*(\d+))?")


def marked(text: str) -> list[int]:
    """The passages that the markers in a text point to, in their order; [1-3] points to three."""
    spans = (
        sorted((int(first), int(last or first)))
        for marker in _MARKER.finditer(text)
        for first, last in _NUMBER_OR_RANGE.findall(marker["numbers"])
    )
    return [number for first, last in spans for number in range(first, last + 1)]


def without_markers(text: str) -> str:
    """The text with its markers, and the blanks before them, taken out."""
    return _MARKER.sub("", text)


def hide_markers(text: str) -> str:
    """What in a passage would pass for a marker, in round brackets."""
    return _MARKER.sub(r"\g<blank>(\g<inside>)", text)


def cited_sentences(text: str) -> list[tuple[str, list[int]]]:
    """Each sentence of a text without its markers, and the passages that these point to.

    A marker that stands after a sentence's stop belongs to that sentence.
    """
    sentences: list[tuple[str, list[int]]] = []
    for start, end in split_sentences(text):
        piece = text[start:end]
        while (leading := _MARKER.match(piece)) and sentences:
            sentences[-1][1].extend(marked(leading[0]))
            piece = piece[leading.end() :].lstrip()
        sentence = without_markers(piece).strip()
        if any(character.isalnum() for character in sentence):
            sentences.append((sentence, marked(piece)))
    return sentences


def read(
    text: str, citations: Sequence[Citation], support: Sequence[SupportedSentence] = ()
) -> Statements:
    """The statements of an answer that was kept as a text; its rated sentences as offsets in it.

    A marker without a citation stays in the text.
    """
    first = {citation.marker: citation for citation in reversed(citations)}
    pieces, done = [], 0
    for marker in _MARKER.finditer(text):
        numbers = [number for number in marked(marker[0]) if number in first]
        if numbers:
            pieces.append(Statement(text[done : marker.start()]))
            gaps = [marker["blank"], *[""] * len(numbers)]
            marks = (
                Cited(0, first[number], gap) for number, gap in zip(numbers, gaps, strict=False)
            )
            pieces.append(Statement("", citations=tuple(marks)))
            done = marker.end()
    pieces.append(Statement(text[done:]))
    statements, rated, done = [], {sentence.start: sentence for sentence in support}, 0
    for statement in cut(pieces):
        start, done = done, done + len(statement.written)
        sentence = next((rated[at] for at in rated if start <= at < done), None)
        if sentence is not None:
            statement = replace(
                statement, rating=sentence.rating, share=sentence.share, quoted=sentence.quoted
            )
        statements.append(statement)
    return classified(tuple(statements))


_LABEL = re.compile(
    # From the first blank on, or each of many empty lines would be tried as the first of them.
    r"(?<!\s)(?P<blank>[^\S\n]*)\n(?:[^\S\n]*\n)+"
    r"(?=[ \t]*(?:(?:more )?passages?|question|更多资料|资料|问题)\s*[:：])",
    re.IGNORECASE,
)
"""An empty line and the label below it: "\\n\\nQuestion:"."""


def hide_labels(text: str) -> str:
    """A passage without the empty line and the label that stand behind passages in a prompt."""
    return _LABEL.sub(r"\g<blank>\n", text)


@dataclass(frozen=True, slots=True)
class _Evidence:
    """One sentence or row of one passage; `text` has the names of a row's columns."""

    marker: int
    start: int
    end: int
    text: str
    terms: frozenset[str]


@dataclass(frozen=True, slots=True)
class PassageSentence:
    """A sentence or row as it stands in what is read, and as it is told, on a line.

    `is_whole` where it is neither a heading nor a fragment.
    """

    standing: str
    told: str
    citation: Citation
    is_whole: bool
    is_row: bool


def _told(evidence: _Evidence) -> str:
    """A sentence on one line, without what would pass for a mark of ours."""
    return hide_markers(LIST_MARK.sub("", " ".join(evidence.text.split())))


class Attributor:
    """Finds the passages that support a sentence of the answer.

    Support is the share of the sentence's distinct terms that the passage has, each
    weighted by log(1 + N / n), N the sentences of all passages and n those with the
    term: words that stand everywhere prove nothing. Across languages, where no term
    can match, the cosine of the embeddings decides.
    """

    def __init__(
        self,
        chunks: Sequence[ScoredChunk],
        tokenize: Tokenize,
        place_of: PlaceOf,
        embedder: Embedder,
    ) -> None:
        self._chunks = chunks
        self._tokenize = tokenize
        self._place_of = place_of
        self._embedder = embedder
        self._evidence = [
            _Evidence(marker, start, end, text, self._terms(text))
            for marker, hit in enumerate(chunks, start=1)
            for start, end, text in self._sentences(hit.chunk)
        ]
        self._document_frequency = Counter(
            term for evidence in self._evidence for term in evidence.terms
        )
        self._passage_terms = [
            frozenset().union(*(e.terms for e in self._evidence if e.marker == marker))
            for marker in range(1, len(chunks) + 1)
        ]
        self._languages = [detect(hit.chunk.text) for hit in chunks]
        self._vectors: list[Vectors] = []  # of the evidence, once wanted; shared by `only`
        self._markers = frozenset(range(1, len(chunks) + 1))
        self._least = FOUND_SUPPORT

    def attribute(self, sentence: str, claimed: Iterable[int]) -> list[Citation]:
        """Citations of one answer sentence; `claimed` are the markers that the model wrote."""
        sentence = LIST_MARK.sub("", sentence)
        terms = self._terms(sentence)
        if len(terms) < MINIMUM_TERMS:
            return []
        supported = self._support(sentence, terms)
        markers = sorted({m for m in claimed if supported.get(m, 0.0) >= CLAIMED_SUPPORT})
        if not markers and supported:
            best = min(supported, key=lambda marker: (-supported[marker], marker))
            if supported[best] >= FOUND_SUPPORT or (
                supported[best] >= self._least and self._could_be_of(best, sentence, terms)
            ):
                markers = [best]
        return [self.cite(marker, sentence) for marker in markers]

    def _could_be_of(self, marker: int, sentence: str, terms: frozenset[str]) -> bool:
        """Whether a sentence with few words of a passage has some, and no figure of its own."""
        shared = len(terms & self._passage_terms[marker - 1])
        passage = passage_text(self._chunks[marker - 1].chunk)
        return shared >= PARAPHRASE_TERMS and not figures_not_in(sentence, [passage])

    def attribute_short(self, answer: str, question: str) -> list[Citation]:
        """Citation of an answer too short to be a sentence ("15.3%"), or none.

        The sentence must hold every term of the answer, its figures in words or digits ("9" for
        "nine"), and is the one closest to the question.
        """
        own = figures(answer)
        answer_terms, named = self._terms(answer), self._terms(blanked(answer, own))

        def holds(e: _Evidence) -> bool:
            if not own or answer_terms <= e.terms:
                return bool(answer_terms) and answer_terms <= e.terms
            there = figures(e.text)
            return named <= e.terms and all(any(map(figure.agrees, there)) for figure in own)

        holding = [e for e in self._evidence if e.marker in self._markers and holds(e)]
        if not holding:
            return []
        question_terms = self._terms(question)
        best = max(
            holding, key=lambda e: (self._share(question_terms, e.terms), -e.marker, -e.start)
        )
        return [self._citation(best)]

    def only(self, markers: Iterable[int], *, alone: bool) -> Attributor:
        """The same passages under the same markers, of which only these can be cited.

        `alone` says whether they are read because each alone holds the answer, or a part of it.
        """
        fewer = copy(self)
        fewer._markers = frozenset(markers)
        fewer._least = CLAIMED_SUPPORT if alone else FOUND_SUPPORT
        return fewer

    def closest(self, markers: Sequence[int], text: str) -> int:
        """Of these passages the one with the sentence that is closest to `text`."""
        if len(markers) == 1:
            return markers[0]
        cosines = self._cosines(text)
        return max(markers, key=lambda marker: max(cosines[marker], default=-1.0))

    def cite(self, marker: int, sentence: str) -> Citation:
        """The sentence of passage `marker` that is closest to a sentence."""
        terms = self._terms(sentence)
        candidates = [e for e in self._evidence if e.marker == marker]
        shares = [self._share(terms, e.terms) for e in candidates]
        own = detect(sentence)
        foreign = [are_foreign(detect(e.text), own) for e in candidates]
        if are_foreign(self._languages[marker - 1], own):
            shares = self._cosines(sentence)[marker]
        elif any(foreign) and max(shares) < CLAIMED_SUPPORT:
            # What bears it out in its own language would share words; another cannot, but it has
            # the figures, and is about the same.
            cosines = self._cosines(sentence)[marker]
            across = [
                cosine if other and not figures_not_in(sentence, [evidence.text]) else -1.0
                for evidence, cosine, other in zip(candidates, cosines, foreign, strict=True)
            ]
            if max(across) >= CROSS_LANGUAGE_COSINE:
                shares = across
            elif not max(shares):
                shares = cosines
        return self._citation(candidates[shares.index(max(shares))])

    def nearest(self, question: str) -> Citation | None:
        """The sentence of the passages that is closest to a question; None without passages."""
        nearest = self.nearest_sentences(self._markers, question, 1)
        return nearest[0][1] if nearest else None

    def nearest_sentences(
        self, markers: Collection[int], question: str, most: int
    ) -> list[tuple[str, Citation]]:
        """The sentences of these passages that are closest to a question, the closest first.

        Each as it reads, on a line, a row with the names of its columns, and its citation. By the
        share of its terms and by embedding, which looks at the few that share most.
        """
        question_terms = self._terms(question)
        own = detect(question)
        citable = [evidence for evidence in self._evidence if evidence.marker in markers]
        likely = [evidence for evidence in citable if self._is_sentence(evidence)]
        shares = [
            (
                SHARED_COUNTS * self._share(question_terms, evidence.terms)
                + OWN_LANGUAGE_COUNTS * (self._languages[evidence.marker - 1] in (own, "mixed")),
                evidence,
            )
            for evidence in likely or citable
        ]
        shares.sort(key=lambda pair: -pair[0])  # stable: the better passage stays first
        few = shares[:LOOKED_AT]
        if not few:
            return []
        # All as questions: likeness goes both ways, and no passage is embedded that way in `ask`.
        vectors = self._embedder.embed_queries([question, *(evidence.text for _, evidence in few)])
        cosines = (vectors[1:] @ vectors[0]).tolist()
        likeness = [share + cosine for (share, _), cosine in zip(few, cosines, strict=True)]
        order = sorted(range(len(few)), key=lambda number: (-likeness[number], number))
        nearest = [few[number][1] for number in order[:most]]
        return [(_told(evidence), self._citation(evidence)) for evidence in nearest]

    def sentences(self, marker: int) -> list[PassageSentence]:
        """Those of a passage, and what stands beside them: headings, short lines."""
        return [
            PassageSentence(
                e.text, _told(e), self._citation(e), self._is_sentence(e), self._is_row(e)
            )
            for e in self._evidence
            if e.marker == marker
        ]

    def _is_row(self, evidence: _Evidence) -> bool:
        columns = self._chunks[evidence.marker - 1].chunk.columns
        return any(rows.start <= evidence.start < rows.end for rows in columns)

    def _is_sentence(self, evidence: _Evidence) -> bool:
        """Whether it is none of the titles and headings, nor a fragment that says nothing."""
        if _SENTENCE_END.search(evidence.text):
            return len(evidence.terms) >= MINIMUM_TERMS
        chunk = self._chunks[evidence.marker - 1].chunk
        title = evidence.text.strip()
        begins = chunk.start == 0 and not chunk.text[: evidence.start].strip()
        alone = "\n" in chunk.text[evidence.end :].strip(" \t")[:1]
        named = title in chunk.heading.split(" > ")
        return len(evidence.terms) >= SENTENCE_TERMS and not named and not (begins and alone)

    def _sentences(self, chunk: Chunk) -> list[tuple[int, int, str]]:
        """Spans of the sentences, and of the rows of tables, and what they say.

        A sentence that runs on over a page's end is one.
        """
        rows = list(named_rows(chunk))
        spans: list[tuple[int, int]] = []
        for span in split_sentences(chunk.text):
            if any(header.start <= span.start < header.end for header in chunk.columns):
                continue
            if spans and self._runs_on(chunk, spans[-1][1], span.start):
                spans[-1] = (spans[-1][0], span.end)
            else:
                spans.append((span.start, span.end))
        return sorted([*((start, end, chunk.text[start:end]) for start, end in spans), *rows])

    def _runs_on(self, chunk: Chunk, end: int, start: int) -> bool:
        if chunk.first_page == chunk.last_page:
            return False
        before = chunk.text[:end].rstrip()
        finished = not before or before[-1] in '。！？；.!?;:：”"’）)'
        return not finished and self._page(chunk, end - 1) != self._page(chunk, start)

    def _page(self, chunk: Chunk, offset: int) -> int:
        return self._place_of(chunk, offset).number

    def _terms(self, text: str) -> frozenset[str]:
        terms = self._tokenize(text)
        return frozenset(whole[1] if (whole := _WHOLE.fullmatch(term)) else term for term in terms)

    def _weight(self, term: str) -> float:
        return math.log1p(len(self._evidence) / (self._document_frequency[term] or 1))

    def _share(self, terms: frozenset[str], text_terms: frozenset[str]) -> float:
        total = sum(self._weight(term) for term in terms)
        return sum(self._weight(term) for term in terms & text_terms) / total if total else 0.0

    def _support(self, sentence: str, terms: frozenset[str]) -> dict[int, float]:
        language = detect(sentence)
        scores = {
            marker: self._share(terms, passage)
            for marker, passage in enumerate(self._passage_terms, start=1)
            if marker in self._markers
        }
        foreign = [m for m in scores if are_foreign(self._languages[m - 1], language)]
        if foreign:
            cosines = self._cosines(sentence)
            for marker in foreign:
                best = max(cosines[marker], default=0.0)
                if best >= CROSS_LANGUAGE_COSINE:
                    scores[marker] = max(scores[marker], best, FOUND_SUPPORT)
        return scores

    def _cosines(self, sentence: str) -> dict[int, list[float]]:
        """How close a text is to each sentence of the passages, by marker."""
        if not self._vectors:
            texts = [evidence.text for evidence in self._evidence]
            self._vectors.append(self._embedder.embed_documents(texts))
        cosines = self._vectors[0] @ self._embedder.embed_documents([sentence])[0]
        by_marker: dict[int, list[float]] = {marker: [] for marker in self._markers}
        for evidence, cosine in zip(self._evidence, cosines.tolist(), strict=True):
            by_marker.setdefault(evidence.marker, []).append(cosine)
        return by_marker

    def _citation(self, evidence: _Evidence) -> Citation:
        hit = self._chunks[evidence.marker - 1]
        text = hit.chunk.text[evidence.start : evidence.end]
        place = self._place_of(hit.chunk, evidence.start + len(text) - len(text.lstrip()))
        return Citation(
            marker=evidence.marker,
            chunk_id=hit.chunk.id,
            source=hit.source,
            page=place.number,
            quote=text.strip(),
            place=place,
        )


def with_citation(
    statements: Statements, attributor: Attributor, numbers: Sequence[int]
) -> Statements:
    """The same with the closest of the passages that it was written from, if it cites none.

    Words differ, as across languages.
    """
    if not statements or any(statement.citations for statement in statements):
        return statements
    text = words(statements)
    number = attributor.closest(numbers, text)
    last = statements[-1]
    # Of what was rated without it, the marker is no part.
    behind = last.rating is not None or len(split_sentences(f"{last.text} [")) > 1
    mark = Cited(len(last.text), attributor.cite(number, text), " ", behind)
    return (*statements[:-1], replace(last, citations=(mark,)))


def may_be_told(sentence: str, question: str) -> bool:
    """Whether a sentence of a passage can stand in an answer as it is.

    Not in another language than the question, and not what could steer a model.
    """
    return not (are_foreign(detect(sentence), detect(question)) or may_steer(sentence))


def closest_statement(
    statements: Statements, nearest: Sequence[tuple[str, Citation]], question: str
) -> Statement | None:
    """The sentence of the passages that is nearest to an answer, to stand behind that.

    None where the answer tells it already, and for one that cannot be told.
    """
    answer = words(statements)
    for quote, citation in nearest[:1]:
        if quote in answer or not may_be_told(quote, question):
            return None
        text = render("quotation", answer_language(question), quote=quote)
        mark = Cited(len(text) + 2, citation, " ", behind=True)
        return Statement(
            f"\n\n{text}",
            "quotation",
            (mark,),
            "fully supported",
            1.0,
            quoted=True,
            part=quote,
            copied=(quote,),
        )
    return None


class CitedStream:
    """Passes an answer on as it is written, with every marker checked.

    Text goes through at once; a sentence's end is held until its markers are read,
    so that what has been shown never needs to be taken back. A refusal after a cited
    sentence is dropped.
    """

    def __init__(self, attributor: Attributor, question: str, refusal: str) -> None:
        self._attributor = attributor
        self._question = question
        self._refusal = refusal.rstrip(".。")
        self._pending = ""
        self._sentence = ""
        self._held = ""
        self._ending = ""
        self._ticks, self._in_code = 0, False
        self._claimed: set[int] = set()
        self._pieces: list[Statement] = []
        self.removed: set[int] = set()
        """Markers of the model that no passage bore out or that pointed nowhere."""
        self.added: set[int] = set()
        """Markers that the model forgot."""

    @property
    def statements(self) -> Statements:
        """What has been written so far."""
        return cut(self._pieces)

    @property
    def citations(self) -> tuple[Citation, ...]:
        """What has been cited so far: one for each passage and quote, by marker."""
        return citations_of(self._pieces)

    def checked(self, pieces: Iterable[str]) -> Iterator[Statement]:
        """What can be shown of all the pieces."""
        for piece in pieces:
            yield from self.feed(piece)
        yield from self.finish()

    def feed(self, piece: str) -> Iterator[Statement]:
        """Take a piece from the model and yield what can be shown."""
        self._pending += piece
        yield from self._advance(final=False)

    def finish(self) -> Iterator[Statement]:
        """Yield the rest; a marker cut off in the middle is dropped. More may follow behind it."""
        if _MARKER_BEGUN.fullmatch(self._pending):
            self._pending = ""
        yield from self._advance(final=True)
        yield from self._close(final=True)

    def _advance(self, *, final: bool) -> Iterator[Statement]:
        while self._pending:
            if not self._in_code and (marker := _MARKER.match(self._pending)):
                self._claimed.update(marked(marker[0]))
                self._pending = self._pending[marker.end() :]
                continue
            if not final and not self._in_code and _MARKER_BEGUN.fullmatch(self._pending):
                return
            self._fences(self._pending[0])
            character, following = self._pending[0], self._pending[1:2]
            if not final and character == "." and not following:
                return  # what follows says whether a sentence ends here
            self._pending = self._pending[1:]
            behind = self._ending and (character.isspace() or character in "”’」』）)\"'*")
            if behind or self._ends(character, following):
                self._ending += character
                continue
            if self._ending:
                yield from self._close()
            self._sentence += character
            self._held += character
            if not self._refusal.startswith(self._sentence):
                yield self._piece(self._held)
                self._held = ""

    def _piece(self, text: str, citations: tuple[Cited, ...] = ()) -> Statement:
        self._pieces.append(Statement(text, citations=citations, copied=()))
        return self._pieces[-1]

    def _fences(self, character: str) -> None:
        """Between two ``` there is code, and a[0] is no marker."""
        self._ticks = self._ticks + 1 if character == "`" else 0
        if self._ticks == 3:
            self._in_code = not self._in_code

    def _ends(self, character: str, following: str) -> bool:
        if character == ".":
            return not following or following.isspace() or following in "[【［"
        return character in "。！？；!?\n"

    def _close(self, *, final: bool = False) -> Iterator[Statement]:
        # Small models like to end a good answer with the refusal they were taught.
        if self._sentence.strip() == self._refusal and self.citations:
            self._sentence, self._held, self._ending, self._claimed = "", "", "", set()
            return
        if self._held:
            yield self._piece(self._held)
        cited = self._attributor.attribute(self._sentence, self._claimed)
        if final and not cited and not self.citations and len(self._sentence) < SHORT_ANSWER:
            cited = self._attributor.attribute_short(self._sentence, self._question)
        markers = {citation.marker for citation in cited}
        self.removed |= self._claimed - markers
        self.added |= markers - self._claimed
        if markers:
            gaps = [" " if self._sentence[-1:].isascii() else "", *[""] * len(cited)]
            ordered = sorted(cited, key=lambda citation: citation.marker)
            marks = (Cited(0, citation, gap) for citation, gap in zip(ordered, gaps, strict=False))
            yield self._piece("", tuple(marks))
        if self._ending:
            yield self._piece(self._ending)
        self._sentence, self._held, self._ending, self._claimed = "", "", "", set()
