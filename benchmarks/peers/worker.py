"""What every worker program has in common: its task, its stages, its lines to the driver.

    PYTHON with_NAME.py check TASK.json     import everything, say the versions
    PYTHON with_NAME.py ingest TASK.json    the passages into an index on disk
    PYTHON with_NAME.py serve TASK.json     open it; a question a line on stdin, until that ends

A worker says what happens as JSON lines on stdout and measures nothing: the driver looks at the
clock when a line comes. Nothing but this file's lines goes to stdout, whatever a library prints.
A connection to anywhere but this machine is refused and told (`network`). What is written in C++
escapes that; the environment's variables (`compare.offline`) tell the libraries the same.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol

LOCAL = {"127.0.0.1", "::1", "localhost", ""}


@dataclass(frozen=True)
class Task:
    """The same for every peer; paths are strings."""

    language: str
    """"en" or "zh"."""
    passages: str
    """JSON lines with id, document and text: the passages that localrag cuts from the files."""
    files: str
    """Folder with the files that they are cut from."""
    store: str
    """Empty folder for the index."""
    cache: str
    """Folder for what the embedding keeps over runs."""
    model: str
    """The GGUF file."""
    model_name: str
    embedding: str
    """Folder of the embedding model."""
    embedding_name: str
    threads: int
    k: int
    context_window: int
    max_tokens: int
    system: str
    prompt: str
    """Of the user's message, with {passages} and {question} in it."""


@dataclass(frozen=True)
class Passage:
    """One that was found, as the library gave it (`native`)."""

    document: str
    text: str
    native: Any = None


class Peer(Protocol):
    """A library as its documentation shows it."""

    def ingest(self) -> int:
        """Build the index; number of passages in it."""

    def open(self) -> None:
        """Be ready to search. The language model is loaded when it is first asked to write."""

    def search(self, question: str) -> list[Passage]:
        """The k best passages, best first."""

    def answer(self, question: str, found: list[Passage]) -> Iterator[str]:
        """The answer from these, in pieces as they are written."""


def read_passages(task: Task) -> list[dict[str, str]]:
    """Dicts with id, document and text."""
    lines = Path(task.passages).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def numbered(passages: list[Passage]) -> str:
    """As they stand in the prompt of every library that leaves that to its user."""
    return "\n\n".join(f"[{n}]\n{each.text}" for n, each in enumerate(passages, 1))


def run(make: Callable[[Task], Peer], *packages: str) -> None:
    """The worker program; `packages` are what `check` says the versions of."""
    stage, task_file = sys.argv[1:3]
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(event: str, **about: Any) -> None:
        out.write(json.dumps({"event": event, **about}, ensure_ascii=False) + "\n")
        out.flush()

    refuse_network(lambda address: tell("network", address=address))
    peer = make(Task(**json.loads(Path(task_file).read_text("utf-8"))))
    match stage:
        case "check":
            tell("versions", versions={name: version(name) for name in packages})
        case "ingest":
            tell("ingested", passages=peer.ingest())
        case "serve":
            peer.open()
            tell("open")
            for line in sys.stdin:
                _serve(peer, json.loads(line), tell)
        case _:
            sys.exit(f"no stage {stage!r}")


def _serve(peer: Peer, asked: dict[str, Any], tell: Callable[..., None]) -> None:
    found = peer.search(asked["question"])
    tell("found", passages=[[each.document, each.text] for each in found])
    if asked["answer"]:
        for piece in peer.answer(asked["question"], found):
            if piece:
                tell("text", text=piece)
    tell("done")


def refuse_network(tell: Callable[[str], None]) -> None:
    """Refuse, and tell of, every connection from Python that leaves this machine."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "socket.connect":
            address = arguments[1]
            host = address[0] if isinstance(address, tuple) else ""
        elif event == "socket.getaddrinfo":
            host = arguments[0] or ""
        else:
            return
        host = host.decode() if isinstance(host, bytes) else str(host)
        if host not in LOCAL:
            tell(host)
            raise OSError(f"no network in this comparison: {host}")

    sys.addaudithook(hook)
