"""What a person is told when an OpenAI-compatible server does not answer as it should."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from localrag.errors import BackendError, ContextOverflowError, LocalragError
from localrag.models.llms.openai.keys import Secret

_OVERFLOW_SIGNS = ("context_length", "context length", "context window", "context size")
_SHOWN = 300
"""Characters of a server's own words that are shown at most."""


def none_answers(errors: Sequence[LocalragError]) -> BackendError:
    """What each of several servers had against a call."""
    reasons: BackendError | None = None
    for number, error in enumerate(errors, 1):
        reason = BackendError(error.message)
        reason.values = error.values
        if reasons is None:
            reasons = BackendError("(1) {reason}", reason=reason)
        else:
            reasons = BackendError(
                "{reasons} ({number}) {reason}", reasons=reasons, number=number, reason=reason
            )
    return BackendError(
        "No server of the language model answers: {reasons}",
        hint="Start one of them, or correct `base_url` in the [llm] section of the settings.",
        reasons=reasons,
    )


class ServerErrors:
    """Errors about one server. Whatever the server says, the API key is never repeated."""

    def __init__(self, server: str, model: str, key: Secret, timeout_seconds: float) -> None:
        self._server = server
        self._model = model
        self._key = key
        self._timeout = timeout_seconds

    def refused(self, status: int, body: bytes) -> LocalragError:
        """The status is not 200."""
        reason = self._shorten(body) or "-"
        if status in (400, 413) and any(sign in reason.lower() for sign in _OVERFLOW_SIGNS):
            return ContextOverflowError(
                "The prompt is too long for {model}: {reason}",
                hint="Use fewer or shorter passages, or set `context_window` "
                "to what the server's model can hold.",
                model=self._model,
                reason=reason,
            )
        if status == 429 or status >= 500:
            return BackendError(
                "The language model server {server} is overloaded or failing "
                "(status {status}): {reason}",
                hint="Try again later, or see the server's own log.",
                server=self._server,
                status=status,
                reason=reason,
            )
        return BackendError(
            "The language model server {server} refused the request (status {status}): {reason}",
            hint="Check the API key in the environment and its permissions."
            if status in (401, 403)
            else "Check the base URL (it usually ends in /v1) and the name of the model."
            if status == 404 or 300 <= status < 400
            else "See the server's message; its documentation lists what it accepts.",
            server=self._server,
            status=status,
            reason=reason,
        )

    def reported(self, body: bytes) -> BackendError:
        """An error inside of a reply that began well."""
        return BackendError(
            "The language model server {server} reported an error: {reason}",
            hint="See the server's own log.",
            server=self._server,
            reason=self._shorten(body),
        )

    def unreachable(self, error: Exception) -> BackendError:
        """No connection."""
        return BackendError(
            "The language model server {server} cannot be reached: {reason}",
            hint="Check that it is running and that the base URL is right.",
            server=self._server,
            reason=str(error) or type(error).__name__,
        )

    def silent(self) -> BackendError:
        """Nothing came in time."""
        return BackendError(
            "The language model server {server} sent nothing for {seconds} seconds.",
            hint="It may still be loading the model or reading a long prompt: "
            "raise `timeout_seconds` or send fewer passages.",
            server=self._server,
            seconds=f"{self._timeout:g}",
        )

    def cut(self, reason: object) -> BackendError:
        """The reply broke off."""
        return BackendError(
            "The answer from {server} was cut off: {reason}",
            hint="Ask again; if it happens again, see the server's own log.",
            server=self._server,
            reason=reason,
        )

    def ended_early(self) -> BackendError:
        """The reply ended without a mark that it is whole."""
        return BackendError(
            "The answer from {server} was cut off: the stream ended early.",
            hint="Ask again; if it happens again, see the server's own log.",
            server=self._server,
        )

    def nonsense(self, what: bytes) -> BackendError:
        """The reply is not of this protocol."""
        return BackendError(
            "{server} sent something that is not a chat completion: {what}",
            hint="Check that the base URL is that of an OpenAI-compatible server "
            "(it usually ends in /v1).",
            server=self._server,
            what=self._shorten(what) or "-",
        )

    def _shorten(self, body: bytes) -> str:
        """What the server says, on one line, shortened, without the key."""
        text = body.decode("utf-8", "replace")
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            value = None
        while isinstance(value, Mapping):
            value = value.get("error") or value.get("message") or value.get("detail") or str(value)
        text = " ".join((value if isinstance(value, str) else text).split())
        if self._key:
            text = text.replace(self._key.reveal(), "***")
        return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
