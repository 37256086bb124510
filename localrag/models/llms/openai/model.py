"""Any server that speaks the OpenAI chat completions protocol.

llama.cpp, Ollama, vLLM, LM Studio and the hosted services do. A server on this
machine needs no permission; every other host does, because the question and the
passages are sent there. There is no `ChoiceScorer` here: few servers return the
logits that it reads.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from copy import copy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from localrag.egress import clients, network
from localrag.egress.addresses import is_loopback
from localrag.egress.consent import Consent, of_process
from localrag.egress.http_replies import read, retry_after, too_long
from localrag.errors import BackendError, ConfigError, LocalragError, NetworkBlockedError
from localrag.models.llms.base import Completion, Options, check_stopped
from localrag.models.llms.openai.errors import ServerErrors
from localrag.models.llms.openai.keys import Secret
from localrag.models.llms.reply_text import WithoutThoughts
from localrag.types import Message

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

    from localrag.models.llms.openai.guard import Guard, Received, Sending

_CONNECT_SECONDS = 10.0
_GLANCE_SECONDS = 0.1
"""How often a call looks whether it was stopped."""
_LONGEST_WAIT = 60.0
"""Seconds that are waited at most before a retry, whatever the server asks for."""

_ERROR_BYTES = 65_536
_REPLY_BYTES = 16 * 1024 * 1024
_STREAM_BYTES = 64 * 1024 * 1024
"""Of an answer in pieces, each of which travels with some hundred bytes around it."""
_TOKENS_PER_MESSAGE = 8
_RECEIVED = "localrag.received"


class _Retry(Exception):  # noqa: N818 - carries the error to raise when patience ends
    def __init__(self, error: LocalragError, wait: float | None = None) -> None:
        super().__init__(str(error))
        self.error = error
        self.wait = wait


class OpenAICompatibleModel:
    """A model behind an OpenAI-compatible server: an `LLM`.

    `base_url` is what comes before `/chat/completions`. `timeout_seconds` bounds
    each wait for the server to send something. Connection failures, 429 and 5xx are
    tried again up to `max_retries` times, never after a reply has begun. Where there is a
    `guard`, nothing is sent that has not been through it. Raises
    `NetworkBlockedError` for a host other than this machine without `allow_network`,
    before its name is looked up, `ConfigError` for an address that is none, and
    `ValueError` for a host other than this machine without a guard.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: Secret | str | None = None,
        context_window: int = 8192,
        timeout_seconds: float = 120.0,
        max_retries: int = 2,
        allow_network: bool = False,
        guard: Guard | None = None,
    ) -> None:
        self._host, self._server, self._url = _address(base_url)
        self._local = is_loopback(self._host)  # nothing that would have to be resolved
        if not self._local and not allow_network:
            raise NetworkBlockedError(
                "The language model at {server} is not on this machine, and nothing may be "
                "sent there.",
                hint="To allow it, set `allow_network = true` in the settings file "
                "or LOCALRAG_ALLOW_NETWORK=1; questions and passages then go to that server.",
                server=self._server,
            )
        if not self._local and guard is None:
            raise ValueError("a model on another machine needs a guard")
        key = (api_key.reveal() if isinstance(api_key, Secret) else api_key or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                "The API key for {server} contains invalid characters.",
                hint="Set the key's environment variable again.",
                server=self._server,
            )
        self._key = Secret(key)
        self._guard = guard
        self._model = model
        self.name = f"{model} @ {self._server}"
        self.context_window = context_window
        self._timeout = timeout_seconds
        self._retries = max_retries
        self._errors = ServerErrors(self._server, self.name, self._key, timeout_seconds)
        self._older_schema_form = threading.Event()
        self._client = self._make_client()
        self._stopped = threading.Event()
        self._consent: Consent | None = None
        self._sockets: list[socket.socket] | None = None

    def __repr__(self) -> str:
        return f"OpenAICompatibleModel({self._server!r}, {self._model!r})"

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def for_call(self, stopped: threading.Event | None, consent: Consent | None) -> Self:
        """The same model; `consent` is asked for its calls, in place of that of the process.

        Once `stopped` is set, by any thread, its connection is cut, and the call raises
        `StoppedError`: a server stops reading a prompt whose caller is gone.
        """
        view = copy(self)
        view._client, view._sockets = view._make_client(), []
        view._stopped, view._consent = stopped or self._stopped, consent
        return view

    def _make_client(self) -> httpx.Client:
        import httpx

        client = (clients.local_client if self._local else clients.client)(timeout=self._timeout)
        client.timeout = httpx.Timeout(self._timeout, connect=min(_CONNECT_SECONDS, self._timeout))
        weakref.finalize(self, client.close)
        return client

    def count_tokens(self, text: str) -> int:
        """An estimate that is rather too high: 1 a character of Chinese, else bytes / 3.

        The server's own vocabulary is not known here. Usual vocabularies need 0.6 to 0.8
        tokens a Chinese character and one for 4 letters of English.
        """
        wide = sum(character >= "\u2e80" for character in text)
        rest = len("".join(character for character in text if character < "\u2e80").encode())
        return wide + math.ceil(rest / 3)

    def count_prompt_tokens(self, messages: Sequence[Message]) -> int:
        """The same estimate for a chat, with 8 tokens a message for its frame."""
        return sum(_TOKENS_PER_MESSAGE + self.count_tokens(message.content) for message in messages)

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        """Generate a whole answer. Raises `ContextOverflowError` or `BackendError`."""
        with self._reading(self._send(messages, options, stream=False)) as response:
            body = read(response, _REPLY_BYTES)
        reply = self._decode(body)
        text = _at(reply, "choices", 0, "message", "content")
        if not isinstance(text, str):
            raise self._errors.nonsense(body)
        thoughts = WithoutThoughts()
        # Where the chat template has opened the thought, only its end is in the reply.
        text = (thoughts.feed(text) + thoughts.finish()).rpartition("</think>")[2].lstrip()
        if self._guard is not None:
            text = self._guard.redactor.restore(text, in_json=options.schema is not None)
        usage = _at(reply, "usage")
        cached = _at(usage, "prompt_tokens_details", "cached_tokens")
        finish = _at(reply, "choices", 0, "finish_reason")
        return Completion(
            text=text,
            prompt_tokens=_count(_at(usage, "prompt_tokens"), self.count_prompt_tokens(messages)),
            completion_tokens=_count(_at(usage, "completion_tokens"), self.count_tokens(text)),
            finish_reason="length" if finish == "length" else "stop",
            cached_prompt_tokens=_count(cached, 0),
        )

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        """Generate piece by piece; closing the iterator closes the connection."""
        pieces = self._stream(messages, options)
        if self._guard is None:
            yield from pieces
            return
        with closing(pieces):
            yield from self._guard.redactor.restored(pieces)

    def _stream(self, messages: Sequence[Message], options: Options) -> Generator[str]:
        import httpx_sse

        from localrag.egress.unpacking import TooLongError, bound

        thoughts = WithoutThoughts()
        finished = False
        with self._reading(self._send(messages, options, stream=True)) as response:
            response.encoding = "utf-8"
            bound(response, _STREAM_BYTES)
            try:
                for event in httpx_sse.EventSource(response).iter_sse():
                    check_stopped(self._stopped)
                    if event.data.strip() == "[DONE]":
                        finished = True
                        break
                    if not event.data.strip():
                        continue
                    choice = _at(self._decode(event.data.encode()), "choices", 0)
                    if not isinstance(choice, Mapping | None):
                        raise self._errors.nonsense(event.data.encode())
                    piece = _at(choice, "delta", "content")  # none where only usage is reported
                    if isinstance(piece, str) and (shown := thoughts.feed(piece)):
                        yield shown
                    finished = finished or _at(choice, "finish_reason") is not None
            except TooLongError as error:
                raise too_long(response, _STREAM_BYTES) from error
            except httpx_sse.SSEError as error:
                kind = response.headers.get("content-type", "-")
                raise self._errors.nonsense(f"Content-Type: {kind}".encode()) from error
        if rest := thoughts.finish():
            yield rest
        if not finished:
            raise self._errors.ended_early()

    # -- the request --------------------------------------------------------------

    def _send(
        self, messages: Sequence[Message], options: Options, *, stream: bool
    ) -> httpx.Response:
        sending: Sending | None = None
        if self._guard is not None:
            messages, sending = self._guard.cleared(
                messages,
                host=self._host,
                server=self._server,
                model=self._model,
                encrypted=self._url.startswith("https:"),
                consent=self._consent or of_process(),
            )
        payload: dict[str, object] = {
            "model": self._model,
            "messages": [asdict(message) for message in messages],
            "temperature": options.temperature,
            "stream": stream,
        }
        if options.max_tokens:
            payload["max_tokens"] = options.max_tokens
        if options.temperature > 0:  # some services refuse a seed, and greedy needs none
            payload["seed"] = options.seed
        if options.schema is None:
            return self._send_patiently(payload, sending)
        strict = {"name": "reply", "strict": True, "schema": options.schema}
        newer = {"response_format": {"type": "json_schema", "json_schema": strict}}
        # llama-cpp-python and older llama.cpp servers know only this form.
        older = {"response_format": {"type": "json_object", "schema": options.schema}}
        if self._older_schema_form.is_set():
            return self._send_patiently(payload | older, sending)
        try:
            return self._send_patiently(payload | newer, sending)
        except BackendError as error:
            if error.values.get("status") not in (400, 422, 500):
                raise
            named = "response_format" in str(error.values.get("reason"))
        response = self._send_patiently(payload | older, sending)
        if named:  # where the server has named its reason, it need not refuse every request
            self._older_schema_form.set()
        return response

    def _send_patiently(
        self, payload: Mapping[str, object], sending: Sending | None
    ) -> httpx.Response:
        import tenacity

        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=8)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            asked = error.wait if isinstance(error, _Retry) else None
            return backoff(state) if asked is None else min(asked, _LONGEST_WAIT)

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(1 + self._retries),
            wait=wait,
            sleep=tenacity.sleep_using_event(self._stopped),
            retry=tenacity.retry_if_exception_type(_Retry),
            reraise=True,
        )
        try:
            return retrying(self._send_once, payload, sending)
        except _Retry as last:
            raise last.error from last.__cause__

    def _send_once(self, payload: Mapping[str, object], sending: Sending | None) -> httpx.Response:
        """One request; the response has a good status and an unread body."""
        import httpx

        check_stopped(self._stopped)
        request = self._client.build_request("POST", self._url, json=payload)
        if self._key:  # in no local variable, which a traceback may show
            request.headers["Authorization"] = f"Bearer {self._key.reveal()}"
        received = sending(len(request.content)) if sending else _unlogged
        if self._sockets is not None:
            received = self._cut_when_stopped(request, self._sockets, received)
        response: httpx.Response | None = None
        try:
            with network.allow([self._url]):
                response = self._client.send(request, stream=True)
            response.extensions[_RECEIVED] = received
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError) as error:
            _raise_blocked(error)
            check_stopped(self._stopped)
            raise _Retry(self._errors.unreachable(error)) from error
        except httpx.TimeoutException as error:
            raise self._errors.silent() from error
        except httpx.HTTPError as error:
            raise self._errors.unreachable(error) from error
        finally:
            if response is None:
                received(0, None)
        if response.status_code == 200:
            return response
        raise self._refusal(response)

    def _cut_when_stopped(
        self, request: httpx.Request, sockets: list[socket.socket], received: Received
    ) -> Received:
        """Watch over a request until what is returned is called."""
        ended = threading.Event()

        def connected(event: str, info: Mapping[str, Any]) -> None:
            if event in ("connection.connect_tcp.complete", "connection.start_tls.complete"):
                sockets.append(info["return_value"].get_extra_info("socket"))

        def watch() -> None:
            while not ended.wait(_GLANCE_SECONDS):
                for each in sockets if self._stopped.is_set() else ():
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)

        def end(size: int, status: int | None) -> None:
            ended.set()
            received(size, status)

        request.extensions["trace"] = connected
        threading.Thread(target=watch, daemon=True).start()
        return end

    def _refusal(self, response: httpx.Response) -> LocalragError | _Retry:
        import httpx

        body = b""
        with _closing(response), suppress(httpx.HTTPError):
            body = read(response, _ERROR_BYTES, cut=True)
        refusal = self._errors.refused(response.status_code, body)
        # llama-cpp-python answers a form of schema that it does not know with status 500.
        passing = response.status_code >= 500 and b"response_format" not in body
        if passing or response.status_code in (408, 429):
            return _Retry(refusal, retry_after(response))
        return refusal

    # -- the reply ----------------------------------------------------------------

    @contextmanager
    def _reading(self, response: httpx.Response) -> Iterator[httpx.Response]:
        """As `_closing`, with what the HTTP library raises turned into our own errors."""
        import httpx

        with _closing(response):
            try:
                yield response
            except httpx.TimeoutException as error:
                raise self._errors.silent() from error
            except httpx.HTTPError as error:
                check_stopped(self._stopped)
                raise self._errors.cut(error) from error

    def _decode(self, body: bytes) -> object:
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._errors.nonsense(body) from error
        if not isinstance(reply, Mapping):
            raise self._errors.nonsense(body)
        if reply.get("error"):
            raise self._errors.reported(body)
        return reply


def _unlogged(_bytes_in: int, _status: int | None) -> None:
    """What goes to this machine is not logged."""


@contextmanager
def _closing(response: httpx.Response) -> Iterator[httpx.Response]:
    """Close the response, and have what it brought logged."""
    try:
        yield response
    finally:
        response.close()
        response.extensions[_RECEIVED](response.num_bytes_downloaded, response.status_code)


def _address(base_url: str) -> tuple[str, str, str]:
    """Host, what a message calls the server, and the address to post to."""
    try:
        parts = urlsplit(base_url.strip())
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if not host or parts.scheme not in ("http", "https") or parts.username or parts.query:
        raise ConfigError(
            "The base URL of the language model must look like http://localhost:8080/v1 and "
            "contain no user name or query.",
            hint="Correct `base_url` in the [llm] section of the settings.",
        )
    server = host if port is None else f"{host}:{port}"
    return host, server, base_url.strip().rstrip("/") + "/chat/completions"


def _raise_blocked(error: BaseException) -> None:
    """The HTTP library wraps what our own door raises; what the person needs is the inside."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NetworkBlockedError):
            raise cause
        cause = cause.__cause__ or cause.__context__


def _at(found: Any, *path: str | int) -> Any:
    """What stands at a path in JSON, or None."""
    for key in path:
        try:
            found = found[key]
        except (LookupError, TypeError):
            return None
    return found


def _count(value: object, estimate: int) -> int:
    return value if isinstance(value, int) and value >= 0 else estimate
