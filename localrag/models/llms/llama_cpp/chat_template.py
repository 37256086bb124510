"""Messages -> prompt tokens, by the chat template of the model file.

Two things here are not trusted. The template comes from a file that somebody
downloaded, so it is rendered elsewhere (`chat_rendering`). The messages hold text of documents,
so the template is rendered with placeholders in their stead, and what stands in
a message is tokenised as plain text: "<|im_start|>system" in a document is
eighteen characters and never a turn of the chat.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

from localrag.errors import BackendError
from localrag.models.llms.llama_cpp.chat_rendering import Rendered, Roles, render, unusable
from localrag.types import Message

if TYPE_CHECKING:
    from localrag.models.llms.llama_cpp.context import LlamaContext

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What most small models understand; used for files that bring no template."""

_USUAL: tuple[Roles, ...] = (
    ("user",),
    ("system", "user"),
    ("user", "assistant", "user"),
    ("system", "user", "assistant", "user"),
)
"""Chats that are rendered beforehand, in one go."""

_PLACEHOLDER = re.compile("\ue000([0-9]+)\ue001")


@dataclass(frozen=True, slots=True)
class Prompt:
    """`thinking` is True where the template has already opened a thought for the model."""

    tokens: tuple[int, ...]
    thinking: bool


class ChatTemplate:
    """Renders chats for one model and turns them into tokens."""

    def __init__(
        self, template: str | None, vocabulary: LlamaContext, *, bos_text: str, eos_text: str
    ) -> None:
        self._vocabulary = vocabulary
        self._steering: dict[int, bool] = {}
        self._template = template or CHATML
        self._bos, self._eos = bos_text, eos_text
        # A template may write the day's date.
        self._rendered: dict[tuple[date, Roles], Rendered] = {}
        self._render_all(_USUAL)

    def prompt(self, messages: Sequence[Message]) -> Prompt:
        """Tokens of a chat, ready for the model's reply.

        For a template that knows no system role, its text moves to the head of the
        first user message. Raises `BackendError` where the template cannot render.
        """
        parts, chat = self._render(messages)
        tokens: list[int] = []
        run = self._template_text(parts[0], tokens, "")
        for message, part in zip(chat, parts[1:], strict=True):
            run = self._template_text(part, tokens, run + message.content)
        tokens += self._plain(run)
        bos = self._vocabulary.bos
        if bos is not None and tokens[:1] != [bos]:
            tokens.insert(0, bos)
        thinking = parts[-1].rfind("<think>") > parts[-1].rfind("</think>")
        return Prompt(tuple(tokens), thinking)

    # -- rendering ----------------------------------------------------------------

    def _render(self, messages: Sequence[Message]) -> tuple[list[str], Sequence[Message]]:
        """The template's own texts, and the messages that stand between them."""
        reason = ""
        for chat in (messages, _without_system(messages)):
            rendered = self._look(tuple(message.role for message in chat))
            if rendered.fault:
                reason = rendered.fault
                continue
            found = _PLACEHOLDER.split(rendered.text)
            if found[1::2] == [str(number) for number in range(len(chat))]:
                return found[::2], chat
            reason = ""
        if reason:
            raise unusable(reason)
        raise BackendError(
            "The chat template in this model file cannot be used: it leaves messages out.",
            hint="Choose an instruct model in another conversion.",
        )

    def _look(self, roles: Roles) -> Rendered:
        """The rendering of such a chat; every one is made once a day."""
        key = (_today(), roles)
        if key not in self._rendered:
            self._render_all((roles,))
        return self._rendered[key]

    def _render_all(self, chats: Sequence[Roles]) -> None:
        day = _today()
        rendered = render(self._template, self._bos, self._eos, chats)
        self._rendered |= {(day, roles): text for roles, text in zip(chats, rendered, strict=True)}

    # -- tokens -------------------------------------------------------------------

    def _template_text(self, text: str, tokens: list[int], run: str) -> str:
        """Append the template's own text to the plain text `run` that stands before it.

        What follows the last special token is handed back as the next run: the text
        around a message is tokenised in one go with it, as in a prompt tokenised whole.
        """
        vocabulary = self._vocabulary
        specials = {
            vocabulary.piece(token, special=True).decode("utf-8", "replace"): token
            for token in vocabulary.tokenize(text, special=True)
            if vocabulary.is_special(token)
        }
        self._steering.update(dict.fromkeys(specials.values(), True))
        names = sorted(filter(None, specials), key=len, reverse=True)
        if not names:
            return run + text
        parts = re.split("(" + "|".join(map(re.escape, names)) + ")", text)
        for plain, name in zip(parts[::2], parts[1::2], strict=False):
            tokens += self._plain(run + plain)
            tokens.append(specials[name])
            run = ""
        return parts[-1]

    def _plain(self, text: str) -> list[int]:
        """Tokens of text that steers nothing.

        Some vocabularies yield a control token for its spelling even so; such a
        spelling is cut behind its first character.
        """
        vocabulary = self._vocabulary
        tokens = vocabulary.tokenize(text)
        steering = [token for token in set(tokens) if self._steers(token)]
        if not steering:
            return tokens
        names = [
            vocabulary.piece(token, special=True).decode("utf-8", "replace") for token in steering
        ]
        pattern = "|".join(
            re.escape(name) for name in sorted(filter(None, names), key=len, reverse=True)
        )
        cuts = [0, *(match.start() + 1 for match in re.finditer(pattern, text)), len(text)]
        return [
            token
            for start, end in pairwise(cuts)
            for token in vocabulary.tokenize(text[start:end])
            if not self._steers(token)
        ]

    def _steers(self, token: int) -> bool:
        known = self._steering.get(token)
        if known is None:
            known = self._steering[token] = self._vocabulary.is_control(token)
        return known


def _today() -> date:
    return datetime.now().astimezone().date()


def _without_system(messages: Sequence[Message]) -> list[Message]:
    system = "\n\n".join(message.content for message in messages if message.role == "system")
    rest = [message for message in messages if message.role != "system"]
    for number, message in enumerate(rest):
        if message.role == "user" and system:
            rest[number] = Message("user", f"{system}\n\n{message.content}")
            return rest
    return [Message("user", system), *rest] if system else rest
