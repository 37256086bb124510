"""A language model as judge, in steps small enough for a model of 1.5 billion parameters.

A verdict is a yes or a no that the model chooses (`llms.choices`), with a probability where its
logits can be read; a reply that cannot be read counts as unreadable. The text that a verdict is
about comes first in the prompt, so that its state is re-used for the next statement about it.
What does not fit into the window is judged in parts; nothing is cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from localrag.evaluation.judging.judgements import Judgement
from localrag.evaluation.judging.passages import pack
from localrag.evaluation.judging.statements import SCHEMA as STATEMENTS_SCHEMA
from localrag.evaluation.judging.statements import accepted, needs_rewriting, sentences, texts_of
from localrag.evaluation.tokens import tokens
from localrag.languages import LANGUAGES, LanguageCode
from localrag.models.llms.base import LLM
from localrag.models.llms.choices import ATTEMPTS, Chooser
from localrag.models.llms.structured import (
    fits,
    list_schema,
    object_schema,
    text_schema,
    written_object,
)
from localrag.prompts import YES_NO, render
from localrag.types import Message

QUESTIONS = 3
"""Questions made from an answer: n of answer relevancy."""

REASON_TOKENS = 96
_VERDICT_TOKENS = 32
_MARGIN = 16
"""Tokens kept free: a text may have a few more tokens in its place than by itself."""
_SHORTEST_ROOM = 64
_TOO_LONG = Judgement(None, unread="too long")
_SAYS_SOMETHING = 3
"""Words or characters of a sentence that can be useful by itself."""

_REASON_SCHEMA = object_schema(reason=text_schema(1, 240))
_QUESTIONS_SCHEMA = object_schema(questions=list_schema(text_schema(2, 160), QUESTIONS, QUESTIONS))

Question = Literal["support", "evasive", "draft_answerable"]
"""What the judge is asked; the prompts are called after it."""


class Judge:
    """Asks a language model for verdicts, statements and questions.

    With `reasons` the model says in a sentence why it found against a statement, which costs
    about as much time again as the verdict.
    """

    def __init__(self, llm: LLM, chooser: Chooser, *, reasons: bool = True) -> None:
        self._llm = llm
        self._chooser = chooser
        self._reasons = reasons

    def statements(self, question: str, answer: str, language: LanguageCode) -> list[str]:
        """The simple statements that an answer makes, in order, each understandable by itself.

        Sentence by sentence: one that makes a single claim and names what it speaks of stays
        as it is. The model splits the others and puts names in the place of pronouns; where it
        adds or loses something the sentence itself is the statement.
        """
        claims: list[str] = []
        spoken = sentences(answer)
        for place, sentence in enumerate(spoken):
            if needs_rewriting(sentence):
                claims += self._rewrite(question, spoken[:place], sentence, language)
            else:
                claims.append(sentence)
        return list(dict.fromkeys(claims))

    def supported(
        self, contexts: Sequence[str], statements: Sequence[str], language: LanguageCode
    ) -> list[Judgement]:
        """For each statement, whether it can be inferred from the contexts.

        Contexts that do not fit into the window together are judged in parts: a statement is
        supported where any part supports it.
        """
        findings = [Judgement(False, 0.0 if self._chooser.reads_logits else None)] * len(statements)
        if not contexts or not statements:
            return findings
        longest = max(statements, key=self._llm.count_tokens)
        parts = self._parts("support", contexts, {"statement": longest}, language)
        if parts is None:
            return [_TOO_LONG] * len(statements)
        for number, part in enumerate(parts):
            text = "\n\n".join(part)
            for place, statement in enumerate(statements):
                known = findings[place]
                if known.verdict:
                    continue
                new = self._ask("support", text, {"statement": statement}, language)
                findings[place] = new if number == 0 else _either(known, new)
        if not self._reasons:
            return findings
        text = "\n\n".join(parts[0])
        return [
            Judgement(False, finding.probability, self._reason(text, statement, language))
            if finding.verdict is False
            else finding
            for statement, finding in zip(statements, findings, strict=True)
        ]

    def useful(self, reference: str, context: str, language: LanguageCode) -> Judgement:
        """Whether one context helps to arrive at the reference answer.

        It does where it bears out at least one sentence of it; a bare "Yes." beside others is
        none. Asked whether the answer can be found in the text, a small model says yes of many a
        text that only shares a subject with it; whether it can be confirmed, it tells apart
        (`benchmarks/evaluation.md`).
        """
        spoken = sentences(reference)
        whole = [sentence for sentence in spoken if len(tokens(sentence)) >= _SAYS_SOMETHING]
        return _any(
            self._any_part("support", context, {"statement": sentence}, language)
            for sentence in whole or spoken or [reference]
        )

    def answerable(self, question: str, context: str, language: LanguageCode) -> Judgement:
        """Whether the exact answer to a question stands in one context."""
        return self._any_part("draft_answerable", context, {"question": question}, language)

    def _any_part(
        self, task: Question, context: str, values: Mapping[str, str], language: LanguageCode
    ) -> Judgement:
        parts = self._parts(task, [context], values, language)
        if parts is None:
            return _TOO_LONG
        return _any(self._ask(task, "\n\n".join(part), values, language) for part in parts)

    def evasive(self, answer: str, language: LanguageCode) -> Judgement:
        """Whether an answer is noncommittal: it only says that it does not know or cannot tell."""
        parts = self._parts("evasive", [answer], {}, language)
        if parts is None:
            return _TOO_LONG
        findings = [self._ask("evasive", "\n\n".join(part), {}, language) for part in parts]
        # A long answer evades only where all of it does.
        committed = [finding for finding in findings if finding.verdict is False]
        unread = [finding for finding in findings if finding.verdict is None]
        return next(iter(committed or unread or findings))

    def questions(self, answer: str, language: LanguageCode) -> list[str] | None:
        """`QUESTIONS` questions that the answer would answer; None where none could be read."""
        system = render("eval_questions_system", language)
        task = render("eval_questions", language, answer=answer)
        messages = [Message("system", system), Message("user", task)]
        for attempt in range(ATTEMPTS):
            value = written_object(self._llm, messages, _QUESTIONS_SCHEMA, 320, attempt)
            texts = texts_of(value.get("questions"))
            if len(texts) >= QUESTIONS:
                return texts[:QUESTIONS]
        return None

    def _rewrite(
        self, question: str, before: Sequence[str], sentence: str, language: LanguageCode
    ) -> list[str]:
        system = Message("system", render("eval_statements_system", language))
        limit = 2 * self._llm.count_tokens(sentence) + 96
        for start in range(len(before) + 1):
            # What was said just before is what pronouns point to; the rest may be left out.
            excerpt = [*before[start:], sentence]
            task = render(
                "eval_statements",
                language,
                question=question,
                answer=LANGUAGES[language].space.join(excerpt),
                sentence=sentence,
            )
            messages = [system, Message("user", task)]
            if fits(self._llm, messages, limit):
                value = written_object(self._llm, messages, STATEMENTS_SCHEMA, limit)
                known = f"{question} {' '.join(excerpt)}"
                return accepted(value.get("statements"), sentence, known) or [sentence]
        return [sentence]

    def _reason(self, text: str, statement: str, language: LanguageCode) -> str:
        """Why a statement is not supported, or "" where the model gave no reason."""
        messages = [
            Message("system", render("eval_support_system", language, text=text)),
            Message("user", render("eval_reason", language, statement=statement)),
        ]
        value = written_object(self._llm, messages, _REASON_SCHEMA, REASON_TOKENS)
        reason = value.get("reason")
        return reason.strip() if isinstance(reason, str) else ""

    def _ask(
        self, task: Question, text: str, values: Mapping[str, str], language: LanguageCode
    ) -> Judgement:
        messages = _messages(task, text, values, language)
        choices = choices_of(task, language)
        choice = self._chooser.choose(messages, choices, keep=1)
        if not choice.read:
            return Judgement(None, unread="reply")
        return Judgement(choice[0] >= 0.5, choice[0] if choice.source == "logits" else None)

    def _parts(
        self,
        task: Question,
        texts: Sequence[str],
        values: Mapping[str, str],
        language: LanguageCode,
    ) -> list[list[str]] | None:
        """The texts in parts that fit beside the task; None where the task leaves no room."""
        empty = _messages(task, "", values, language)
        reply = max(_VERDICT_TOKENS, REASON_TOKENS if task == "support" and self._reasons else 0)
        used = self._llm.count_prompt_tokens(empty) + reply + _MARGIN
        room = self._llm.context_window - used
        if room < _SHORTEST_ROOM:
            return None
        return pack(texts, room, self._llm.count_tokens)


def choices_of(task: Question, language: LanguageCode) -> tuple[str, str]:
    """What the model may reply: for yes, and for no."""
    # Asked whether a reply evades, a small model says yes to good replies; two descriptions
    # to choose from it tells apart.
    return ("B", "A") if task == "evasive" else YES_NO[language]


def _messages(
    task: Question, text: str, values: Mapping[str, str], language: LanguageCode
) -> list[Message]:
    return [
        Message("system", render(f"eval_{task}_system", language, text=text)),
        Message("user", render(f"eval_{task}", language, **values)),
    ]


def _any(judgements: Iterable[Judgement]) -> Judgement:
    """Yes as soon as one says yes."""
    known: Judgement | None = None
    for judgement in judgements:
        known = judgement if known is None else _either(known, judgement)
        if known.verdict:
            break
    assert known is not None, "there is a sentence, and a part of a context"  # noqa: S101
    return known


def _either(known: Judgement, new: Judgement) -> Judgement:
    """Two parts together: yes where one says yes, unread where one might have."""
    if known.verdict or new.verdict:
        return known if known.verdict else new
    if known.verdict is None or new.verdict is None:
        return known if known.verdict is None else new
    return max(known, new, key=lambda finding: finding.probability or 0.0)
