"""Any server that speaks the OpenAI chat completions protocol.

llama.cpp, Ollama, vLLM, LM Studio and the hosted services do. A server on this
machine needs no permission; every other host does, because the question and the
passages are sent there. Where several serve the same model, a call that one of them
fails goes to another as long as nothing of its answer has been shown. There is no
`ChoiceScorer` here: few servers return the logits that it reads.
"""

from __future__ import annotations

import json
import math
import socket
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from copy import copy
from dataclasses import asdict
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

from localrag.egress import clients, network
from localrag.egress.consent import Consent, of_process
from localrag.egress.http_replies import read, retry_after, too_long
from localrag.errors import BackendError, ConfigError, LocalragError, NetworkBlockedError
from localrag.models.llms.base import Completion, Options, check_stopped
from localrag.models.llms.openai.endpoints import LONGEST_PAUSE, Endpoint, endpoint, ready, taken
from localrag.models.llms.openai.errors import ServerErrors, none_answers
from localrag.models.llms.openai.keys import Secret
from localrag.models.llms.openai.server_info import handed_on_to
from localrag.models.llms.reply_text import WithoutThoughts
from localrag.types import Message

if TYPE_CHECKING:
    import httpx
    from tenacity import RetryCallState

    from localrag.models.llms.openai.guard import Guard, Received, Sending

_CONNECT_SECONDS = 10.0
_LOOK_SECONDS = 5.0
"""For a server to say that it is there."""
_GLANCE_SECONDS = 0.1
"""How often a call looks whether it was stopped."""
_ERROR_BYTES = 65_536
_REPLY_BYTES = 16 * 1024 * 1024
_STREAM_BYTES = 64 * 1024 * 1024
"""Of an answer in pieces, each of which travels with some hundred bytes around it."""
_TOKENS_PER_MESSAGE = 8
_RECEIVED = "localrag.received"


T = TypeVar("T")
_Cleared = Callable[[Endpoint], "tuple[Sequence[Message], Sending | None]"]
"""What may go to a server, and what logs each attempt."""


class _Failed(Exception):  # noqa: N818 - carries the error to raise when patience ends
    """A server failed. `again`: a call may do better soon, after `wait` seconds if it says so.

    `took` seconds were lost by it, so it is left alone for as long, if there are others.
    """

    def __init__(
        self,
        error: LocalragError,
        *,
        again: bool = False,
        wait: float | None = None,
        took: float = 0.0,
    ) -> None:
        super().__init__(str(error))
        self.error = error
        self.again = again
        self.wait = wait
        self.took = took


class OpenAICompatibleModel:
    """A model behind one or several OpenAI-compatible servers: an `LLM`.

    `base_url` is what comes before `/chat/completions`. `timeout_seconds` bounds
    each wait for the server to send something. Connection failures, 429 and 5xx are
    tried again up to `max_retries` times, never after a reply has begun. Where there is a
    `guard`, nothing is sent that has not been through it. A server that keeps what it has read
    takes it up again for prompts with the same `cache_salt` alone, as vLLM does. Raises
    `NetworkBlockedError` for a host other than this machine without `allow_network`,
    before its name is looked up, `ConfigError` for an address that is none, and
    `ValueError` for a host other than this machine without a guard.
    """

    def __init__(
        self,
        base_url: str | Sequence[str],
        model: str,
        *,
        api_key: Secret | str | None = None,
        context_window: int = 8192,
        timeout_seconds: float = 120.0,
        max_retries: int = 2,
        allow_network: bool = False,
        guard: Guard | None = None,
        cache_salt: str = "",
    ) -> None:
        urls = [base_url] if isinstance(base_url, str) else base_url
        self._endpoints = tuple(dict.fromkeys(map(endpoint, urls)))
        if not self._endpoints:
            raise ValueError("a model needs a server")
        for server in self._endpoints:
            if not server.is_local and not allow_network:
                raise NetworkBlockedError(
                    "The language model at {server} is not on this machine, and nothing may be "
                    "sent there.",
                    hint="To allow it, set `allow_network = true` in the settings file "
                    "or LOCALRAG_ALLOW_NETWORK=1; questions and passages then go to that server.",
                    server=server.name,
                )
            if not server.is_local and guard is None:
                raise ValueError("a model on another machine needs a guard")
        servers = ", ".join(server.name for server in self._endpoints)
        key = (api_key.reveal() if isinstance(api_key, Secret) else api_key or "").strip()
        if not (key.isascii() and key.isprintable()):
            raise ConfigError(
                "The API key for {server} contains invalid characters.",
                hint="Set the key's environment variable again.",
                server=servers,
            )
        self._key = Secret(key)
        self._guard = guard
        self._model = model
        self.name = f"{model} @ {servers}"
        self.context_window = context_window
        self._timeout = timeout_seconds
        self._retries = max_retries
        self._errors = {
            server: ServerErrors(
                server.name, f"{model} @ {server.name}", self._key, timeout_seconds
            )
            for server in self._endpoints
        }
        self._older_schema_form: set[Endpoint] = set()
        self._salt = cache_salt
        self._unsalted: set[Endpoint] = set()
        self._clients = self._make_clients()
        self._stopped = threading.Event()
        self._consent: Consent | None = None
        self._sockets: list[socket.socket] | None = None

    def __repr__(self) -> str:
        servers = [server.name for server in self._endpoints]
        return f"OpenAICompatibleModel({', '.join(servers)!r}, {self._model!r})"

    def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            client.close()

    def for_call(self, stopped: threading.Event | None, consent: Consent | None) -> Self:
        """The same model; `consent` is asked for its calls, in place of that of the process.

        Once `stopped` is set, by any thread, its connection is cut, and the call raises
        `StoppedError`: a server stops reading a prompt whose caller is gone.
        """
        view = copy(self)
        view._clients, view._sockets = view._make_clients(), []
        view._stopped, view._consent = stopped or self._stopped, consent
        return view

    def _make_clients(self) -> dict[bool, httpx.Client]:
        """For servers on this machine, and for others, as far as there are any."""
        import httpx

        http_clients = {}
        for local in {server.is_local for server in self._endpoints}:
            client = (clients.local_client if local else clients.client)(timeout=self._timeout)
            connect = min(_CONNECT_SECONDS, self._timeout)
            client.timeout = httpx.Timeout(self._timeout, connect=connect)
            weakref.finalize(self, client.close)
            http_clients[local] = client
        return http_clients

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
        cleared = self._clearing(messages)
        return self._anywhere(
            messages, lambda server, _: self._completed(server, cleared, messages, options)
        )

    def _completed(
        self, server: Endpoint, cleared: _Cleared, messages: Sequence[Message], options: Options
    ) -> Completion:
        response = self._send(server, cleared, options, stream=False)
        with self._reading(server, response):
            body = read(response, _REPLY_BYTES)
        reply = self._decode(server, body)
        text = _at(reply, "choices", 0, "message", "content")
        if not isinstance(text, str):
            raise self._errors[server].nonsense(body)
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
        cleared = self._clearing(messages)

        def begun(server: Endpoint, stack: ExitStack) -> tuple[str, Iterator[str], ExitStack]:
            pieces = stack.enter_context(closing(self._pieces(server, cleared, options)))
            return next(pieces, ""), pieces, stack.pop_all()

        first, pieces, resources = self._anywhere(messages, begun)
        try:
            with resources:
                if first:
                    yield first
                yield from pieces
        except _Failed as failed:
            raise failed.error from failed.__cause__

    def _pieces(self, server: Endpoint, cleared: _Cleared, options: Options) -> Generator[str]:
        import httpx_sse

        from localrag.egress.unpacking import TooLongError, bound

        thoughts = WithoutThoughts()
        finished = False
        response = self._send(server, cleared, options, stream=True)
        with self._reading(server, response):
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
                    choice = _at(self._decode(server, event.data.encode()), "choices", 0)
                    if not isinstance(choice, Mapping | None):
                        raise self._errors[server].nonsense(event.data.encode())
                    piece = _at(choice, "delta", "content")  # none where only usage is reported
                    if isinstance(piece, str) and (text := thoughts.feed(piece)):
                        yield text
                    finished = finished or _at(choice, "finish_reason") is not None
            except TooLongError as error:
                raise too_long(response, _STREAM_BYTES) from error
            except httpx_sse.SSEError as error:
                kind = response.headers.get("content-type", "-")
                raise self._errors[server].nonsense(f"Content-Type: {kind}".encode()) from error
        if rest := thoughts.finish():
            yield rest
        if not finished:
            raise _Failed(self._errors[server].ended_early())

    def faults(self) -> dict[str, LocalragError | None]:
        """What each server has against being asked for its models, by its name; None: nothing."""
        return {server.name: self._fault(server) for server in self._endpoints}

    def _fault(self, server: Endpoint) -> LocalragError | None:
        import httpx

        url = f"{server.url}/models"
        received: Received = _unlogged
        if self._guard is not None:
            consent = self._consent or of_process()
            received = self._guard.looking(host=server.host, model=self._model, consent=consent)
        client = self._clients[server.is_local]
        request = client.build_request("GET", url, timeout=_LOOK_SECONDS)
        self._authorize(request)
        body, status = b"", None
        try:
            with network.allow([url]):
                response = client.send(request, stream=True)
            status = response.status_code
            with closing(response):
                body = read(response, _ERROR_BYTES, cut=True)
        except httpx.HTTPError as error:
            _raise_blocked(error)
            return self._errors[server].unreachable(error)
        finally:
            received(len(body), status)
        # Not every server lists its models.
        well = status < 300 or status in (404, 405)
        return None if well else self._errors[server].refused(status, body)

    def _stays_here(self, server: Endpoint, messages: Sequence[Message]) -> Sequence[Message]:
        """The messages, if the server does not hand them on, as far as it says."""
        host = handed_on_to(server.url, self._model)
        if host:
            raise NetworkBlockedError(
                "Nothing was sent: {server} hands on what {model} is sent, to {host}.",
                hint="Start again: localrag then treats it as a hosted model. Or set `llm.hosted` "
                "to true.",
                server=server.name,
                model=self._model,
                host=host,
            )
        return messages

    # -- the request --------------------------------------------------------------

    def _clearing(self, messages: Sequence[Message]) -> _Cleared:
        """What is asked of the guard once for each server that a call goes to."""
        guard = self._guard
        if guard is None:
            return lambda server: (self._stays_here(server, messages), None)

        def cleared(server: Endpoint) -> tuple[Sequence[Message], Sending | None]:
            return guard.cleared(
                messages,
                host=server.host,
                server=server.name,
                model=self._model,
                encrypted=server.url.startswith("https:"),
                consent=self._consent or of_process(),
            )

        return cache(cleared)

    def _anywhere(self, messages: Sequence[Message], call: Callable[[Endpoint, ExitStack], T]) -> T:
        """What `call` gives at one of the servers, which counts as busy until its stack is closed.

        Where one fails the others are tried at once, and after a pause all of them again.
        """
        import tenacity

        prompt = "\n".join(message.content for message in messages)
        failures: dict[Endpoint, _Failed] = {}
        backoff = tenacity.wait_random_exponential(multiplier=0.5, max=8)

        def wait(state: RetryCallState) -> float:
            error = state.outcome.exception() if state.outcome else None
            pause = error.wait if isinstance(error, _Failed) else None
            return backoff(state) if pause is None else min(pause, LONGEST_PAUSE)

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(1 + self._retries),
            wait=wait,
            sleep=tenacity.sleep_using_event(self._stopped),
            retry=tenacity.retry_if_exception(lambda e: isinstance(e, _Failed) and e.again),
            reraise=True,
        )
        try:
            result: T = retrying(self._round, prompt, call, failures)
        except _Failed as last:
            if len(failures) == 1:
                raise last.error from last.__cause__
            raise none_answers([failure.error for failure in failures.values()]) from last
        return result

    def _round(
        self,
        prompt: str,
        call: Callable[[Endpoint, ExitStack], T],
        failures: dict[Endpoint, _Failed],
    ) -> T:
        """What `call` gives at the first server that does not fail. Raises `_Failed`."""
        left = ready(self._endpoints)
        failed: list[_Failed] = []
        while left:
            check_stopped(self._stopped)
            server = taken(left, self._salt + prompt)
            left.remove(server)
            try:
                with ExitStack() as stack:
                    stack.enter_context(_in_use(server))
                    result = call(server, stack)
            except _Failed as error:
                failures[server] = error
                failed.append(error)
            else:
                server.answered()
                return result
        raise min(
            failed,
            key=lambda failure: (not failure.again, failure.wait is None, failure.wait or 0.0),
        )

    def _send(
        self, server: Endpoint, cleared: _Cleared, options: Options, *, stream: bool
    ) -> httpx.Response:
        messages, sending = cleared(server)
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
        send = partial(self._send_salted, server, sending)
        if options.schema is None:
            return send(payload)
        strict = {"name": "reply", "strict": True, "schema": options.schema}
        newer = {"response_format": {"type": "json_schema", "json_schema": strict}}
        # llama-cpp-python and older llama.cpp servers know only this form.
        older = {"response_format": {"type": "json_object", "schema": options.schema}}
        if server in self._older_schema_form:
            return send(payload | older)
        try:
            return send(payload | newer)
        except (BackendError, _Failed) as error:
            values = (error.error if isinstance(error, _Failed) else error).values
            if values.get("status") not in (400, 422, 500):
                raise
            named = "response_format" in str(values.get("reason"))
        response = send(payload | older)
        if named:  # where the server has named its reason, it need not refuse every request
            self._older_schema_form.add(server)
        return response

    def _send_salted(
        self, server: Endpoint, sending: Sending | None, payload: Mapping[str, object]
    ) -> httpx.Response:
        """One request with the salt, unless the server has refused that by its name."""
        if not self._salt or server in self._unsalted:
            return self._send_once(server, sending, payload)
        try:
            return self._send_once(server, sending, {**payload, "cache_salt": self._salt})
        except (BackendError, _Failed) as error:
            values = (error.error if isinstance(error, _Failed) else error).values
            if values.get("status") not in (400, 422) or "cache_salt" not in str(values):
                raise
        self._unsalted.add(server)
        return self._send_once(server, sending, payload)

    def _send_once(
        self, server: Endpoint, sending: Sending | None, payload: Mapping[str, object]
    ) -> httpx.Response:
        """One request; the response has a good status and an unread body."""
        import httpx

        check_stopped(self._stopped)
        client, url = self._clients[server.is_local], f"{server.url}/chat/completions"
        request = client.build_request("POST", url, json=payload)
        self._authorize(request)
        received = sending(len(request.content)) if sending else _unlogged
        if self._sockets is not None:
            received = self._cut_when_stopped(request, self._sockets, received)
        response: httpx.Response | None = None
        errors, began = self._errors[server], time.monotonic()
        try:
            with network.allow([url]):
                response = client.send(request, stream=True)
            response.extensions[_RECEIVED] = received
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.RemoteProtocolError) as error:
            _raise_blocked(error)
            check_stopped(self._stopped)
            took = time.monotonic() - began
            raise _Failed(errors.unreachable(error), again=True, took=took) from error
        except httpx.TimeoutException as error:
            raise _Failed(errors.silent(), took=time.monotonic() - began) from error
        except httpx.HTTPError as error:
            raise _Failed(errors.unreachable(error)) from error
        finally:
            if response is None:
                received(0, None)
        if response.status_code == 200:
            return response
        raise self._refusal(server, response)

    def _authorize(self, request: httpx.Request) -> None:
        if self._key:  # in no local variable, which a traceback may show
            request.headers["Authorization"] = f"Bearer {self._key.reveal()}"

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
                for connection in sockets if self._stopped.is_set() else ():
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

        def end(size: int, status: int | None) -> None:
            ended.set()
            received(size, status)

        request.extensions["trace"] = connected
        threading.Thread(target=watch, daemon=True).start()
        return end

    def _refusal(self, server: Endpoint, response: httpx.Response) -> LocalragError | _Failed:
        import httpx

        body = b""
        with _closing(response), suppress(httpx.HTTPError):
            body = read(response, _ERROR_BYTES, cut=True)
        refusal = self._errors[server].refused(response.status_code, body)
        # llama-cpp-python answers a form of schema that it does not know with status 500.
        passing = response.status_code >= 500 and b"response_format" not in body
        if passing or response.status_code in (408, 429):
            return _Failed(refusal, again=True, wait=retry_after(response))
        return refusal

    # -- the reply ----------------------------------------------------------------

    @contextmanager
    def _reading(self, server: Endpoint, response: httpx.Response) -> Iterator[httpx.Response]:
        """As `_closing`, with what the HTTP library raises turned into our own errors."""
        import httpx

        with _closing(response):
            try:
                yield response
            except httpx.TimeoutException as error:
                raise _Failed(self._errors[server].silent(), took=self._timeout) from error
            except httpx.HTTPError as error:
                check_stopped(self._stopped)
                raise _Failed(self._errors[server].cut(error)) from error

    def _decode(self, server: Endpoint, body: bytes) -> object:
        try:
            reply = json.loads(body)
        except (ValueError, RecursionError) as error:
            raise self._errors[server].nonsense(body) from error
        if not isinstance(reply, Mapping):
            raise self._errors[server].nonsense(body)
        if reply.get("error"):
            raise self._errors[server].reported(body)
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


@contextmanager
def _in_use(server: Endpoint) -> Iterator[None]:
    """Count a call that is under way at a server, and set that aside if it fails."""
    began = time.monotonic()
    try:
        yield
    except _Failed as failed:
        server.failed(began, max(failed.took, failed.wait or 0.0))
        raise
    finally:
        server.release()


def _raise_blocked(error: BaseException) -> None:
    """The HTTP library wraps what our own door raises; what the person needs is the inside."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, NetworkBlockedError):
            raise cause
        cause = cause.__cause__ or cause.__context__


def _at(value: Any, *path: str | int) -> Any:
    """What stands at a path in JSON, or None."""
    for key in path:
        try:
            value = value[key]
        except (LookupError, TypeError):
            return None
    return value


def _count(value: object, estimate: int) -> int:
    return value if isinstance(value, int) and value >= 0 else estimate
