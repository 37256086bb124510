"""The judge of `ragas_comparison.py`: a server on this machine, and a proxy that counts."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from numpy.typing import NDArray

from localrag.models.embeddings.base import Embedder
from localrag.models.llms.base import LLM, ChoiceScorer, Completion, Options
from localrag.types import Message

WINDOW = 8192


@dataclass
class Spent:
    """Requests that were answered, those that were refused, and tokens."""

    calls: int = 0
    refused: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


@contextmanager
def served(weights: Path, threads: int, *, ram_cache: bool) -> Iterator[tuple[str, psutil.Process]]:
    """llama-cpp-python's server with these weights, until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = {
        "model": weights,
        "host": "127.0.0.1",
        "port": port,
        "n_ctx": WINDOW,
        "n_threads": threads,
        "n_threads_batch": threads,
        "verbose": False,
        "cache": ram_cache,
        # It leaves the logits out of its count, which are 300 MB a state with this vocabulary.
        "cache_size": 256 << 20,
    }
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    server = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}/v1"
    try:
        for _ in range(240):
            if server.poll() is not None:
                raise SystemExit("The server ended at once; see what it says when run by hand.")
            try:
                direct().open(f"{url}/models", timeout=5).close()
                break
            except OSError:
                time.sleep(0.5)
        yield url, psutil.Process(server.pid)
    finally:
        server.terminate()
        server.wait(30)


def direct() -> urllib.request.OpenerDirector:
    """No proxy of the environment comes between us and this machine."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Proxy:
    """Stands before the server, counts, and makes embeddings itself."""

    def __init__(self, url: str, embedder: Embedder) -> None:
        self._url = url
        self._embedder = embedder
        self._lock = threading.Lock()
        self.spent = Spent()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its base URL, until the end of the block."""
        answer = self._answer

        class Handler(BaseHTTPRequestHandler):
            # HTTP/1.0: `ragas.evaluate` works in a new event loop each time, and would send the
            # first request of each twice on a connection that is kept.
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, body = answer(self.path, asked)
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        door = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        door.daemon_threads = True
        threading.Thread(target=door.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{door.server_port}/v1"
        finally:
            door.shutdown()

    def _answer(self, path: str, asked: dict[str, Any]) -> tuple[int, bytes]:
        if path.endswith("/embeddings"):
            return 200, json.dumps(self._embedded(asked["input"])).encode()
        request = urllib.request.Request(
            self._url + "/chat/completions",
            json.dumps(asked).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with direct().open(request, timeout=1800) as response:
                body = response.read()
        except urllib.error.HTTPError as error:
            with self._lock:
                self.spent.refused += 1
            return error.code, error.read()
        usage = json.loads(body)["usage"]
        with self._lock:
            self.spent.calls += 1
            self.spent.prompt_tokens += usage["prompt_tokens"]
            self.spent.completion_tokens += usage["completion_tokens"]
        return 200, body

    def _embedded(self, texts: str | list[str]) -> dict[str, Any]:
        with self._lock:
            vectors = self._embedder.embed_queries([texts] if isinstance(texts, str) else texts)
        data = [
            {"object": "embedding", "index": place, "embedding": vector.tolist()}
            for place, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": 0, "total_tokens": 0}
        return {"object": "list", "data": data, "model": "judge", "usage": usage}


class Counting:
    """A model in this process, and what it was asked to read and write."""

    def __init__(self, llm: LLM, scorer: ChoiceScorer | None) -> None:
        assert scorer is not None, "a model in the process shows its logits"
        self._llm = llm
        self._scorer = scorer
        self.spent = Spent()
        self.name = llm.name
        self.context_window = llm.context_window
        self.count_tokens = llm.count_tokens
        self.count_prompt_tokens = llm.count_prompt_tokens
        self.stream = llm.stream

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        """As the model; counted."""
        completion = self._llm.complete(messages, options)
        self.spent.calls += 1
        self.spent.prompt_tokens += completion.prompt_tokens
        self.spent.completion_tokens += completion.completion_tokens
        return completion

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """As the model; counted, as a prompt and no reply."""
        self.spent.calls += 1
        self.spent.prompt_tokens += self._llm.count_prompt_tokens(messages)
        return self._scorer.score_choices(messages, choices, keep=keep)
