"""Follow-up questions: made self-contained before anything is searched."""

from __future__ import annotations

from collections import deque

from localrag.llms.base import LLM, Message, Options
from localrag.prompts import render
from localrag.text.language import answer_language

REMEMBERED_TURNS = 3
REMEMBERED_CHARACTERS = 600
"""Of each remembered answer: enough to know what "it" is."""


class Conversation:
    """Remembers the last turns and rewrites a follow-up in their light.

    "And in China?" retrieves nothing by itself; the rewritten question does.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm
        self._turns: deque[tuple[str, str]] = deque(maxlen=REMEMBERED_TURNS)

    def remember(self, question: str, answer: str) -> None:
        """Keep a finished turn."""
        self._turns.append((question, answer[:REMEMBERED_CHARACTERS]))

    def standalone(self, question: str) -> str:
        """The question as it can be searched for; unchanged at the start of a conversation."""
        if not self._turns:
            return question
        language = answer_language(question)
        asked, answered = ("问", "答") if language == "zh" else ("Q", "A")
        history = "\n".join(f"{asked}: {q}\n{answered}: {a}" for q, a in self._turns)
        prompt = render("rewrite", language, history=history, question=question)
        reply = self._llm.complete([Message("user", prompt)], Options(max_tokens=96))
        lines = reply.text.strip().splitlines()
        # A model that writes nothing leaves the person's own words, which always exist.
        return lines[0].strip('"“” ') if lines and lines[0].strip() else question
