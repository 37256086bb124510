"""A judge with rules instead of weights, for tests of everything around it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM

from localrag.evaluation.tokens import tokens
from localrag.models.llms.base import Completion, Options
from localrag.types import Message


class Killed(Exception):  # noqa: N818 - stands for the end of a process
    """Raised when the model has been asked as often as it may."""


class JudgingLLM(ScriptedLLM):
    """Supports what stands in the text word for word; splits at commas; asks with the text itself.

    `unreadable` statements get a reply that is no verdict; after `lives` calls it dies.
    """

    def __init__(self, *, unreadable: str = "\0", lives: int | None = None) -> None:
        super().__init__()
        self.unreadable = unreadable
        self.lives = lives
        self.calls = 0

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        self._spend()
        task = messages[-1].content
        properties = options.schema["properties"] if options.schema else {}
        assert isinstance(properties, dict)
        if "statements" in properties:
            sentence = task.rsplit(": " if "Sentence: " in task else "：", 1)[1]
            value: object = {"statements": re.split("[,，]", sentence)}
        elif "questions" in properties:
            text = task.split(": ", 1)[-1].split("：", 1)[-1]
            value = {"questions": [text, text + "?", text + "??"]}
        elif "question" in properties:
            sentence = task.split(": ", 1)[1].split(". ")[0]
            value = {"question": f"Is it so that {sentence}?", "answer": sentence}
            if "answer" not in properties:
                value = {"question": f"Who has never seen the quetzal of {len(sentence)}?"}
        elif "reason" in properties:
            value = {"reason": "not there"}
        elif self.unreadable in task:
            value = "?"
        else:
            verdict = properties["answer"]
            yes, no = verdict["enum"]
            value = {"answer": yes if self._true(messages) else no}
        return Completion(json.dumps(value, ensure_ascii=False), 10, 5, "stop")

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        self._spend()
        probability = 0.9 if self._true(messages) else 0.2
        return np.array([probability, 1 - probability])

    def _true(self, messages: Sequence[Message]) -> bool:
        system, task = messages[0].content, messages[-1].content
        text = set(tokens(re.split("\n(?:Text|文字|Reply|回答|Passage|资料)[:：]\n", system)[-1]))
        if "\nReply:\n" in system or "\n回答：\n" in system:
            return bool({"sure", "清"} & text)
        first = re.split("[:：]", task.split("\n")[0], maxsplit=1)[1]
        first = first.removeprefix(" Is it so that ")
        return set(tokens(first)) <= text

    def _spend(self) -> None:
        if self.lives is not None and self.calls >= self.lives:
            raise Killed
        self.calls += 1
