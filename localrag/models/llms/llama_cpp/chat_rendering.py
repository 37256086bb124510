"""Chat templates of strangers, rendered in a process that has little time, memory and rights.

A template is a program: Jinja's sandbox keeps it from Python's objects, not from counting to the
end of time or writing until the memory is full, which constants in it do before it even runs.
Messages are not needed for it: only the roles travel, and placeholders come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from localrag.errors import BackendError
from localrag.system import processes

SECONDS = 20.0
"""By the clock, for all: Python's start too, which takes a fifth of a second."""
COMPUTING = 1
"""Seconds of the processor, once all is loaded; honest templates take milliseconds."""
MEMORY = 2**28
LONGEST = 2**20
"""Characters of one rendering; honest templates write some kilobytes around the messages."""

PROGRAM = "from localrag.models.llms.llama_cpp.chat_rendering import main; main()"

_HINT = "Choose an instruct model in another conversion."

Roles = tuple[str, ...]


class Rendered(msgspec.Struct):
    """The text of a chat with a placeholder for each message, or why there is none."""

    text: str = ""
    fault: str = ""


class _Request(msgspec.Struct):
    template: str
    bos: str
    eos: str
    chats: Sequence[Roles]


class _Response(msgspec.Struct):
    fault: str = ""
    """Why the template is none."""
    chats: list[Rendered] = []


def placeholder(number: int) -> str:
    """What stands for a message: two characters for private use that no template needs."""
    return f"\ue000{number}\ue001"


def render(template: str, bos: str, eos: str, chats: Sequence[Roles]) -> list[Rendered]:
    """Each chat, given as the roles of its messages. Raises `BackendError`."""
    from localrag.system.confinement import watch_memory

    request = msgspec.json.encode(_Request(template, bos, eos, chats))
    try:
        done = processes.run(
            processes.python(PROGRAM),
            processes.PLAIN,
            given=request,
            stdout=processes.PIPE,
            seconds=SECONDS,
            watch=watch_memory(2 * MEMORY),
        )
        ended = done.returncode
    except (processes.TimedOutError, MemoryError):
        ended = 1
    if ended:
        raise BackendError(
            "The chat template in this model file cannot be used: it takes too much time or "
            "memory.",
            hint=_HINT,
        )
    response = msgspec.json.decode(done.stdout, type=_Response)
    if response.fault:
        raise unusable(response.fault)
    return response.chats


def unusable(reason: str) -> BackendError:
    """The error that says why a template renders nothing."""
    return BackendError(
        "The chat template in this model file cannot be used: {reason}", hint=_HINT, reason=reason
    )


# In the other process


def main() -> None:
    """Answer the one request on standard input."""
    import sys

    from localrag.egress import network
    from localrag.system.confinement import confine, limit_memory, limit_time

    network.close_doors()
    confine()
    processes.end_with_parent()
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=_Request)
    _environment()  # what it imports is no template's doing
    limit_memory(MEMORY)
    limit_time(COMPUTING)
    sys.stdout.buffer.write(msgspec.json.encode(_answer(request)))


def _answer(request: _Request) -> _Response:
    try:
        template = _environment().from_string(request.template)
    except MemoryError:
        raise
    except Exception as error:  # Jinja raises errors of Python too
        return _Response(f"{type(error).__name__}: {error}"[:500])
    response = _Response()
    for roles in request.chats:
        try:
            text = _rendered(template, request, roles)
        except MemoryError:
            raise
        except Exception as error:  # a template may raise anything
            response.chats.append(Rendered(fault=f"{error}"[:500] or type(error).__name__))
        else:
            response.chats.append(Rendered(text))
    return response


def _rendered(template: Any, request: _Request, roles: Roles) -> str:
    from datetime import datetime

    def raise_exception(message: str) -> None:
        raise ValueError(message)

    parts, length = [], 0
    for part in template.generate(
        messages=[{"role": role, "content": placeholder(n)} for n, role in enumerate(roles)],
        bos_token=request.bos,
        eos_token=request.eos,
        add_generation_prompt=True,
        # Hybrid models (Qwen3 and others) are asked to answer without a long thought.
        enable_thinking=False,
        functions=None,
        function_call=None,
        tools=None,
        tool_choice=None,
        raise_exception=raise_exception,
        strftime_now=lambda text: datetime.now().astimezone().strftime(text),
    ):
        parts.append(part)
        length += len(part)
        if length > LONGEST:
            raise MemoryError
    return "".join(parts)


def _environment() -> Any:
    """As Transformers and llama-cpp-python set Jinja up for chat templates."""
    import json

    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.parser import Parser
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """`{% generation %}` marks what a model has written, which matters in training only."""

        tags = {"generation"}  # noqa: RUF012

        def parse(self, parser: Parser) -> list[nodes.Node]:
            parser.stream.skip(1)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    def tojson(value: object, ensure_ascii: bool = False, **options: Any) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, **options)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    return environment
