"""`localrag` as a process of its own, with models that cost nothing: what it prints and serves."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

TOKEN = "a-token-of-this-test-alone"

PROGRAM = """
import time
from fakes import HashEmbedder
from server.conftest import Writing
from localrag import __main__, factory
from localrag.models.llms.base import check_stopped

class Forgetful(HashEmbedder):
    def embed_documents(self, texts, progress=None):
        return self.embed_queries(texts)

class Slow(Writing):
    stopped = None

    def stream(self, messages, options):
        text = messages[-1].content
        words = int(text.rpartition("words: ")[2].split()[0]) if "words: " in text else 0
        for number in range(words):
            if self.stopped is not None and self.stopped.wait(0.1):
                check_stopped(self.stopped)
            yield f"word{number} "
        yield "It was opened in 1907 [1]."

def view(stopped, _):
    model = Slow()
    model.stopped = stopped
    return factory.Model(model, model, lambda: None, view=view)

factory.make_embedder = lambda *_: Forgetful()
factory.make_model = lambda *_: view(None, None)
__main__.main()
"""


@dataclass
class Machine:
    """A user's folders, and a library in them."""

    folder: Path
    variables: dict[str, str] = field(default_factory=dict)
    url: str = ""
    """Of a library in a database, in place of that in a folder."""

    @property
    def library(self) -> Path:
        return self.folder / "library"

    def command(self, *arguments: str) -> list[str]:
        library = self.url or str(self.library)
        return [sys.executable, "-c", PROGRAM, "--library", library, *arguments]

    def environment(self) -> dict[str, str]:
        own = {f"XDG_{name}_HOME": str(self.folder / name) for name in ("CACHE", "DATA", "STATE")}
        tests = str(Path(__file__).parents[1])
        more = {"LOCALRAG_TOKEN": TOKEN, "PYTHONPATH": tests, "TMPDIR": str(self.folder)}
        return os.environ | own | more | self.variables

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        result = subprocess.run(
            self.command(*arguments), env=self.environment(), capture_output=True, text=True
        )
        assert result.returncode == 0, result.stderr
        return result.stdout

    @contextmanager
    def serving(self, *options: str) -> Iterator[Serving]:
        """A server, killed at the end of the block unless it has ended."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        command = self.command("serve", "--port", str(port), *options)
        with subprocess.Popen(
            command, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process:
            served = Serving(process, port)
            try:
                served.wait_until_it_answers()
                yield served
            finally:
                process.kill()


@dataclass
class Serving:
    """A server that runs."""

    process: subprocess.Popen[bytes]
    port: int

    def client(self) -> httpx.Client:
        fields = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{self.port}"
        return httpx.Client(base_url=url, headers=fields, timeout=120, trust_env=False)

    def wait_until_it_answers(self) -> None:
        before = time.monotonic() + 60
        with self.client() as http:
            while True:
                try:
                    http.get("/healthz").raise_for_status()
                except httpx.TransportError:
                    assert self.process.poll() is None, self.process.communicate()[0].decode()
                    assert time.monotonic() < before
                    time.sleep(0.05)
                else:
                    return
