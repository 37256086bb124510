"""A language model behind a server: whose machine that is, and what it may be given to read.

A server on this machine is like a model in this process. For any other, `[hosted]` in the
settings says what never goes there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from localrag.config.settings import OpenAISettings, Settings
from localrag.library.catalogue.filters import Filter
from localrag.library.library import Library
from localrag.library.private import PrivateSources
from localrag.models.llms.openai.server_info import is_elsewhere, parallel_calls
from localrag.types import Step

if TYPE_CHECKING:
    from localrag.egress.audit import AuditLog
    from localrag.library.location import Location
    from localrag.models.llms.openai.guard import Guard
    from localrag.rag.private import Outgoing


def is_hosted(settings: Settings) -> bool:
    """Whether the language model, or one of its servers, is on another machine; in doubt it is."""
    llm = settings.llm
    return isinstance(llm, OpenAISettings) and is_elsewhere(
        llm.base_urls, llm.model, hosted=llm.hosted
    )


def calls_at_once(settings: Settings) -> int:
    """How many calls the language model is worth having under way.

    One for a model in this process, which has one lock. A server on this machine may be asked.
    """
    llm = settings.llm
    if not isinstance(llm, OpenAISettings):
        return 1
    return sum(llm.calls or parallel_calls(url) for url in dict.fromkeys(llm.base_urls))


def private_sources(settings: Settings) -> PrivateSources:
    """What the settings keep from the language model; nothing, where it is on this machine."""
    return PrivateSources(settings.hosted.private if is_hosted(settings) else ())


def sendable(
    settings: Settings,
    library: Library,
    wanted: Filter | None = None,
    tell: Callable[[Step], object] = lambda _: None,
) -> Filter | None:
    """The filter, without documents that the language model may not read.

    `tell` gets a step that says how many passages that leaves out, if any.
    """
    started = time.perf_counter()
    private = private_sources(settings).documents(library)
    if not private:
        return wanted
    restriction = wanted or Filter()
    allowed = replace(restriction, without=restriction.without | private)
    count = len(library.chunk_ids(restriction)) - len(library.chunk_ids(allowed))
    if count:
        seconds = time.perf_counter() - started
        tell(Step("private", {"left_out": count}, None, seconds))
    return allowed


def reachable(location: Location, settings: Settings) -> Location:
    """The same library, with leave to reach its database where the settings give that."""
    if isinstance(location, Path) or not settings.allow_network:
        return location
    return location.allowed(settings.database.hosts, audit_log())


def audit_log() -> AuditLog:
    """The log of what went to other machines, in the user's state folder."""
    from platformdirs import user_state_path

    from localrag.egress.audit import AuditLog

    return AuditLog(user_state_path("localrag", appauthor=False) / "hosted-calls.jsonl")


def guarded(
    settings: Settings, library: Library | None
) -> tuple[Guard, Outgoing] | tuple[None, None]:
    """What everything goes through that is sent to the model, and what it may be given to read.

    Neither for a model on this machine.
    """
    if not is_hosted(settings):
        return None, None
    from localrag.egress.redaction import Redactor
    from localrag.models.llms.openai.guard import Guard
    from localrag.rag.private import LibrarySecrecy, Outgoing

    private = private_sources(settings)
    secrecy = LibrarySecrecy(library, private) if library is not None and private else None
    guard = Guard(
        audit=audit_log(),
        redactor=Redactor(settings.hosted.redact),
        confirm=settings.hosted.confirm,
        secrecy=secrecy,
    )
    return guard, Outgoing(guard, secrecy)
