"""Objects that a language model writes under a JSON schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from localrag.models.llms.base import LLM, Options
from localrag.types import Message

T = TypeVar("T", bound=msgspec.Struct)


def object_schema(**properties: Mapping[str, object]) -> Mapping[str, object]:
    """An object with exactly these properties."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def text_schema(shortest: int, longest: int) -> Mapping[str, object]:
    """A text of so many characters."""
    return {"type": "string", "minLength": shortest, "maxLength": longest}


def list_schema(items: Mapping[str, object], fewest: int, most: int) -> Mapping[str, object]:
    """A list of so many items."""
    return {"type": "array", "items": items, "minItems": fewest, "maxItems": most}


def fits(llm: LLM, messages: Sequence[Message], reply: int) -> bool:
    """Whether the window holds the messages and a reply of so many tokens."""
    return llm.count_prompt_tokens(messages) + reply <= llm.context_window


def proposal(
    llm: LLM, messages: Sequence[Message], kind: type[T], schema: Mapping[str, object], limit: int
) -> T:
    """What the model writes in at most `limit` tokens; its defaults if the reply is no such record.

    All messages but the last come back. Raises `GenerationError` from the model.
    """
    options = Options(max_tokens=limit, schema=schema, keep=len(messages) - 1)
    reply = llm.complete(messages, options).text
    try:
        return msgspec.json.decode(reply, type=kind)
    except msgspec.MsgspecError:  # it was cut off, or is a server's that knows no schema
        return kind()


def options_of_attempt(
    attempt: int, limit: int, schema: Mapping[str, object], keep: int = 0
) -> Options:
    """How to ask for an object of at most `limit` tokens, again where it is not the first time."""
    # The same words again would bring the same reply again.
    warmth = 0.7 if attempt else 0.0
    return Options(max_tokens=limit, temperature=warmth, seed=attempt, schema=schema, keep=keep)


def written_object(
    llm: LLM,
    messages: Sequence[Message],
    schema: Mapping[str, object],
    limit: int,
    attempt: int = 0,
) -> dict[str, Any]:
    """What the model writes in at most `limit` tokens.

    Empty where that is cut off or no object, or where the messages leave no room for it.
    """
    if not fits(llm, messages, limit):
        return {}
    options = options_of_attempt(attempt, limit, schema)
    try:
        value = json.loads(llm.complete(messages, options).text)
    except (ValueError, RecursionError):  # brackets, thousands deep
        return {}
    return value if isinstance(value, dict) else {}
