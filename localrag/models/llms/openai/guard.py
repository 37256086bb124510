"""What stands between localrag and a model on another machine.

`OpenAICompatibleModel` cannot be made for another machine without a `Guard`, and sends nothing
that has not been through it: checked for private text, redacted, shown, confirmed, logged.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, Unpack

from localrag.egress.audit import AuditLog, Sent
from localrag.egress.consent import Consent, Excerpt, Preview
from localrag.egress.quotations import contains
from localrag.egress.redaction import Redactor
from localrag.errors import NetworkBlockedError
from localrag.types import Message

REMEMBERED = 1000
"""Passages that were handed out last, to say which of them a call sends."""


Received = Callable[[int, int | None], None]
"""Takes how many bytes came back, and the status of HTTP if any."""

Sending = Callable[[int], Received]
"""Logs that so many bytes are about to go; raises `BackendError` where it cannot."""


class Secrecy(Protocol):
    """Knows the texts that must not go."""

    def quoted(self, text: str, apart_from: Iterable[str]) -> bool:
        """Whether a text quotes a private document, in words that the others do not hold too."""
        ...

    def passages(self) -> int:
        """How many passages are private."""
        ...


class Guard:
    """Everything that goes to one hosted model goes through here. Several threads may use it.

    What `redactor` took out has to be put back into what comes back.
    `confirm` asks before the first call of the run. `secrecy` None: there is no library whose
    texts could be told apart; then passages must not be private to begin with.
    """

    def __init__(
        self,
        *,
        audit: AuditLog,
        redactor: Redactor,
        confirm: bool,
        secrecy: Secrecy | None = None,
    ) -> None:
        self._audit = audit
        self.redactor = redactor
        self._confirm = confirm
        self._secrecy = secrecy
        self._offered: dict[int, Excerpt] = {}
        self._lock = threading.Lock()

    def offer(self, excerpts: Mapping[int, Excerpt]) -> None:
        """Take note of passages, by chunk id, that the next calls may send; none is private."""
        with self._lock:
            for chunk_id, excerpt in excerpts.items():
                self._offered.pop(chunk_id, None)
                self._offered[chunk_id] = excerpt
            for chunk_id in list(self._offered)[:-REMEMBERED]:
                del self._offered[chunk_id]

    def looking(self, *, host: str, model: str, consent: Consent) -> Received:
        """Log that a server is asked whether it is there, which brings it no text."""
        nothing = {"bytes_out": 0, "passages": 0, "redactions": 0}
        return self._logged(host=host, model=model, command=consent.command, **nothing)

    def cleared(
        self,
        messages: Sequence[Message],
        *,
        host: str,
        server: str,
        model: str,
        encrypted: bool,
        consent: Consent,
    ) -> tuple[tuple[Message, ...], Sending]:
        """The messages as they may go once `consent` has said yes, and what logs each attempt.

        Raises `NetworkBlockedError` where they quote a private document, or were not
        confirmed, and `ConfigError` where a redaction cannot be made.
        """
        text = "\n".join(message.content for message in messages)
        with self._lock:
            offered = list(self._offered.values())
        sent = [passage for passage in offered if contains(text, passage.text)]
        secrecy = self._secrecy
        if secrecy is not None and secrecy.quoted(text, [passage.text for passage in sent]):
            raise NetworkBlockedError(
                "Nothing was sent to {model} at {server}: the text quotes a private document.",
                hint="Ask without quoting it, or use a model on this machine. `hosted.private` "
                "in the settings says what is private.",
                model=model,
                server=server,
            )
        redacted = [self.redactor.redact(message.content) for message in messages]
        clean = tuple(
            replace(message, content=content)
            for message, (content, _) in zip(messages, redacted, strict=True)
        )
        preview = Preview(
            server=server,
            model=model,
            encrypted=encrypted,
            passages=tuple(sent),
            messages=clean,
            redactions=sum(count for _, count in redacted),
            withheld=secrecy.passages() if secrecy is not None else None,
        )
        consent.ensure(preview, confirm=self._confirm)

        def attempt(bytes_out: int) -> Received:
            return self._logged(
                host=host,
                model=model,
                command=consent.command,
                bytes_out=bytes_out,
                passages=len(sent),
                redactions=preview.redactions,
            )

        return clean, attempt

    def _logged(self, **sent: Unpack[Sent]) -> Received:
        call = self._audit.sending(**sent)
        return lambda size, status: self._audit.received(call, bytes_in=size, status=status)
