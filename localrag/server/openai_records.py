"""What clients of OpenAI's interface send, and what of it is refused.

Settings of a model (`temperature`, `max_tokens`) and what does not change what a reply is are
ignored, as they are by models that do not know them. What would make of the reply something else
than was asked for is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from localrag.errors import UsageError
from localrag.rag.conversation import Turn
from localrag.server.bounds import Question, expect_short

MODEL = "localrag"
MOST_TEXTS = 2048
"""Texts to embed at once, as at OpenAI."""

_TEXTS = ("text", "input_text", "output_text")
_Count = Annotated[int, Meta(ge=1)]


class ContentPart(msgspec.Struct):
    """A part of a message; only its text is read."""

    type: str
    text: str = ""


class Message(msgspec.Struct):
    """A message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[ContentPart] | None = None

    @property
    def text(self) -> str:
        """Its text, the parts of it joined."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.text)
        return self.content or ""


class StreamOptions(msgspec.Struct):
    """What a stream is to say."""

    include_usage: bool = False


class Format(msgspec.Struct):
    """The form of an answer: text, JSON, JSON of a schema."""

    type: str = "text"


class ChatRequest(msgspec.Struct):
    """`POST /v1/chat/completions`; what is not here is ignored."""

    messages: list[Message]
    model: str = MODEL
    stream: bool = False
    stream_options: StreamOptions | None = None
    n: int | None = 1
    response_format: Format | None = None
    tool_choice: Any = None

    def question(self) -> tuple[str, tuple[Turn, ...]]:
        """The question, and the turns before it. Raises `UsageError` for what is not done."""
        if self.n not in (None, 1):
            raise UsageError("Only one answer can be asked for.", hint="Leave n out.")
        _expect_text(self.response_format, "response_format")
        if self.tool_choice not in (None, "auto", "none"):
            raise UsageError("Tools of a client are not called.", hint="Leave tool_choice out.")
        return conversation(self.messages)


class Item(msgspec.Struct):
    """An item of a response's input; only messages are read."""

    role: str = ""
    content: str | list[ContentPart] | None = None
    type: str = "message"


class TextOptions(msgspec.Struct):
    """How the text of a response is to be."""

    format: Format | None = None


class ResponseRequest(msgspec.Struct):
    """`POST /v1/responses`; what is not here is ignored."""

    input: str | list[Item]
    model: str = MODEL
    stream: bool = False
    text: TextOptions | None = None
    tool_choice: Any = None
    previous_response_id: str | None = None
    conversation: Any = None
    background: bool | None = False

    @property
    def messages(self) -> list[Message]:
        """The input as messages."""
        items = [Item("user", self.input)] if isinstance(self.input, str) else self.input
        return [
            Message("user" if item.role == "user" else "assistant", item.content)
            for item in items
            if item.type == "message" and item.role in ("user", "assistant")
        ]

    def question(self) -> tuple[str, tuple[Turn, ...]]:
        """The question, and the turns before it. Raises `UsageError` for what is not done."""
        for name in ("previous_response_id", "conversation", "background"):
            if getattr(self, name):
                raise UsageError(
                    "No responses are kept, so {name} cannot be used.",
                    hint="Send the messages before it as input.",
                    name=name,
                )
        _expect_text(self.text.format if self.text else None, "text.format")
        choice = self.tool_choice
        kind = choice.get("type") if isinstance(choice, Mapping) else None
        if kind not in (None, "file_search"):
            raise UsageError("Tools of a client are not called.", hint="Leave tool_choice out.")
        return conversation(self.messages)


class EmbeddingRequest(msgspec.Struct):
    """`POST /v1/embeddings`."""

    input: str | list[str | int | list[int]]
    model: str = MODEL
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None

    @property
    def texts(self) -> list[str]:
        """What is to be embedded. Raises `UsageError` for tokens: they are of another model's."""
        inputs = [self.input] if isinstance(self.input, str) else self.input
        texts = [part for part in inputs if isinstance(part, str)]
        if len(texts) < len(inputs):
            raise UsageError(
                "The input is tokens of another model, not text.",
                hint="Send text; in LangChain, OpenAIEmbeddings(check_embedding_ctx_length=False).",
            )
        if not texts or not all(text.strip() for text in texts):
            raise UsageError("There is an empty text to embed.", hint="Leave it out.")
        if len(texts) > MOST_TEXTS:
            raise UsageError(
                "{count} texts are too many to embed at once.",
                hint="At most {most}.",
                count=len(texts),
                most=MOST_TEXTS,
            )
        return texts


class SearchRequest(msgspec.Struct):
    """`POST /v1/vector_stores/{id}/search`."""

    query: str | list[str]
    max_num_results: Annotated[int, Meta(ge=1, le=50)] = 10


class RerankRequest(msgspec.Struct):
    """`POST /v1/rerank`."""

    query: Question
    documents: Annotated[list[str], Meta(max_length=MOST_TEXTS)]
    model: str = MODEL
    top_n: _Count | None = None


def conversation(messages: list[Message]) -> tuple[str, tuple[Turn, ...]]:
    """The question, and the turns before it. Raises `UsageError` if the last word is no question.

    Instructions of the client (system messages) are not read: the rules of grounding stand.
    """
    dialogue = [message for message in messages if message.role in ("user", "assistant")]
    if not dialogue or dialogue[-1].role != "user":
        raise UsageError(
            "The last message is no question of a user.", hint="Send one with the role user."
        )
    last = dialogue[-1].content
    for part in last if isinstance(last, list) else []:
        if part.type not in _TEXTS:
            raise UsageError(
                "Only text can be asked, and there is a part of type {kind}.",
                hint="Leave it out.",
                kind=part.type,
            )
    turns = []
    for question, answer in pairwise(dialogue[:-1]):
        if (question.role, answer.role) == ("user", "assistant"):
            turns.append(Turn(question.text, answer.text))
    if not dialogue[-1].text.strip():
        raise UsageError("The question is empty.", hint="Ask something, in quotes.")
    expect_short(dialogue[-1].text, (message.text for message in messages))
    return dialogue[-1].text, tuple(turns)


def _expect_text(form: Format | None, name: str) -> None:
    if form is not None and form.type != "text":
        raise UsageError(
            "Answers are text, not {kind}.", hint="Leave {name} out.", kind=form.type, name=name
        )
