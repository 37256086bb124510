"""What a running server bears: streams side by side, searches meanwhile, clients that go away.

    python benchmarks/server_load.py LIBRARY streams [--clients 20] [--seconds 10] [--real]
    python benchmarks/server_load.py LIBRARY aborts [--count 1000] [--real]
    python benchmarks/server_load.py LIBRARY freed [--count 50] [--real]

LIBRARY holds documents already and is only read. The server is `localrag serve` in a process of
its own, on a free port; `--real` takes the language model of the settings, else one stands in
that reads for a while and then writes words with the number of whoever asked.

`streams`: clients that ask at once, while others search five times a second in all. Whether a
stream carries only its own words (of the stand-in; of a real model that each ends with its own
answer), seconds of a search, and how well the expected wait was foretold.
`aborts`: requests that are given up at once, while the model reads, or while it writes; memory
before and after, and whether an answer still comes. `freed`: seconds from going away, while the
model reads, to its being free.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
from httpx_sse import aconnect_sse

TOKEN = "a-token-of-this-benchmark-alone"
SEARCHES = 5.0
"""In a second, of all clients together."""
QUESTIONS = (
    "What is said about the weather?",
    "Which year was it founded?",
    "How many people live there?",
    "What does the law say about rivers?",
    "人口有多少？",
)


class Slow:
    """A language model that reads for `reading` seconds, then writes `words`, one a `pause`."""

    name = "stand-in"
    context_window = 8192
    reading, words, pause = 0.4, 40, 0.05

    def __init__(self, stopped: threading.Event | None = None) -> None:
        self._stopped = stopped or threading.Event()

    def count_tokens(self, text: str) -> int:
        return len(text) // 4

    def count_prompt_tokens(self, messages: Sequence[Any]) -> int:
        return sum(self.count_tokens(message.content) for message in messages)

    def score_choices(self, _: Sequence[Any], choices: Sequence[str], **__: int) -> Any:
        self._wait(self.reading)
        weights = np.full(len(choices), 0.01)
        weights[-1 if choices[0] == "1" else 0] = 1.0
        return weights / weights.sum()

    def stream(self, messages: Sequence[Any], _: Any) -> Iterator[str]:
        number = (re.findall(r"client (\d+)", messages[-1].content) or [""])[-1]
        for word in range(self.words):
            self._wait(self.pause)
            yield f"c{number}w{word} "

    def _wait(self, seconds: float) -> None:
        from localrag.models.llms.base import check_stopped

        if self._stopped.wait(seconds):
            check_stopped(self._stopped)


def serve_stand_in() -> None:
    """`localrag` with the stand-in for a language model."""
    from localrag import __main__, factory

    def view(stopped: threading.Event | None, _: object) -> factory.Model:
        model: Any = Slow(stopped)
        return factory.Model(model, model, lambda: None, view=view)

    factory.make_model = lambda *_: view(None, None)
    __main__.main()


@contextmanager
def served(library: Path, *, real: bool) -> Iterator[tuple[str, psutil.Process]]:
    """A server until the end of the block."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    program = ["-m", "localrag"] if real else [__file__]
    command = [sys.executable, *program, "--library", str(library), "serve", "--port", port]
    environment = os.environ | {"LOCALRAG_TOKEN": TOKEN, "SERVER_LOAD_STAND_IN": "1"}
    began = time.perf_counter()
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}"
        try:
            while not _answers(url):
                if server.poll() is not None:
                    raise SystemExit("The server ended at once.")
                time.sleep(0.05)
            print(f"the port answers after {time.perf_counter() - began:.1f} s")
            yield url, psutil.Process(server.pid)
        finally:
            server.terminate()
            began = time.perf_counter()
            server.wait(30)
            print(f"ended in {time.perf_counter() - began:.1f} s")


def _answers(url: str) -> bool:
    with suppress(httpx.HTTPError):
        return httpx.get(f"{url}/healthz", trust_env=False).status_code == 200
    return False


def client(url: str) -> httpx.AsyncClient:
    known = {"authorization": f"Bearer {TOKEN}"}
    limits = httpx.Limits(max_connections=None)
    return httpx.AsyncClient(
        base_url=url, headers=known, timeout=1800, trust_env=False, limits=limits
    )


def megabytes(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20


async def answer(http: httpx.AsyncClient, number: int) -> dict[str, Any]:
    """What one client hears: texts, the answer, and each (time, position, expected seconds)."""
    heard: dict[str, Any] = {"text": "", "waiting": [], "begun": None}
    body = {"question": f"{QUESTIONS[number % 4]} I am client {number}."}
    async with aconnect_sse(http, "POST", "/api/ask", json=body) as source:
        source.response.raise_for_status()
        async for event in source.aiter_sse():
            now, said = time.perf_counter(), json.loads(event.data)
            if event.event == "waiting":
                heard["waiting"].append((now, said["position"], said["seconds"]))
            elif event.event in ("step", "text") and heard["begun"] is None:
                heard["begun"] = now
            if event.event == "text":
                heard["text"] += said["text"]
            elif event.event in ("answer", "error"):
                heard[event.event] = said
    return heard


async def searches(http: httpx.AsyncClient, seconds: list[float], ended: asyncio.Event) -> None:
    """Search at a steady rate, whether or not the last search has come back."""

    async def search(number: int) -> None:
        began = time.perf_counter()
        body = {"question": QUESTIONS[number % len(QUESTIONS)]}
        (await http.post("/api/search", json=body)).raise_for_status()
        seconds.append(time.perf_counter() - began)

    running, number = set(), 0
    while not ended.is_set():
        running.add(asyncio.create_task(search(number)))
        number += 1
        await asyncio.sleep(1 / SEARCHES)
    await asyncio.gather(*running)


def told(seconds: Sequence[float]) -> str:
    cuts = statistics.quantiles(seconds, n=20)
    return (
        f"{len(seconds)} in all, median {1000 * statistics.median(seconds):.0f} ms, "
        f"p95 {1000 * cuts[-1]:.0f} ms, longest {1000 * max(seconds):.0f} ms"
    )


async def streams(url: str, _: psutil.Process, clients: int, *, real: bool, seconds: float) -> None:
    async with client(url) as http:
        await answer(http, clients)  # loads the models
        quiet: list[float] = []
        ended = asyncio.Event()
        asyncio.get_running_loop().call_later(seconds, ended.set)
        await searches(http, quiet, ended)
        print("searches with no stream open:", told(quiet))
        busy: list[float] = []
        ended = asyncio.Event()
        began = time.perf_counter()
        others = asyncio.create_task(searches(http, busy, ended))
        heard = await asyncio.gather(*(answer(http, number) for number in range(clients)))
        print(f"{clients} answers in {time.perf_counter() - began:.0f} s")
        ended.set()
        await others
    print(f"searches with up to {clients} streams open:", told(busy))
    whole = sum("answer" in one and one["text"].strip() == one["answer"]["answer"] for one in heard)
    print(f"streams that ended with the answer that they had told: {whole} of {clients}")
    if not real:
        own = sum(
            set(re.findall(r"c(\d+)w", one["text"])) == {str(number)}
            and len(re.findall(r"c\d+w\d+", one["text"])) == Slow.words
            for number, one in enumerate(heard)
        )
        print(f"streams that carried their own words, all of them and no others: {own}")
    errors = [
        expected - (one["begun"] - at)
        for one in heard
        for at, _, expected in one["waiting"]
        if one["begun"]
    ]
    first = [one["waiting"][0][1] for one in heard if one["waiting"]]
    print(f"positions first told: {sorted(first)}")
    steady = all(
        [each[1] for each in one["waiting"]] == list(range(one["waiting"][0][1], 0, -1))
        for one in heard
        if one["waiting"]
    )
    print(f"each position came down one by one: {steady}")
    apart = [abs(error) for error in errors]
    print(f"seconds foretold and seconds waited differ by {statistics.median(apart):.1f} (median)")


@asynccontextmanager
async def asked(
    http: httpx.AsyncClient, path: str, question: str
) -> AsyncIterator[asyncio.Task[None]]:
    """An answer that is being written, until the task ends; left, the client is gone."""
    body: dict[str, Any] = {"question": question}
    if path != "/api/ask":
        body = {"messages": [{"role": "user", "content": body["question"]}], "stream": True}
    async with http.stream("POST", path, json=body) as response:
        response.raise_for_status()
        heard = asyncio.create_task(_read(response))
        try:
            yield heard
        finally:
            heard.cancel()


async def _read(response: httpx.Response) -> None:
    with suppress(httpx.HTTPError):
        async for _ in response.aiter_bytes():
            pass


async def words_of_the_library(http: httpx.AsyncClient) -> list[str]:
    found: set[str] = set()
    for question in QUESTIONS:
        reply = await http.post("/api/search", json={"question": question, "k": 50})
        for passage in reply.json()["passages"]:
            found.update(re.findall(r"\w+", passage["text"]))
    return sorted(found)


async def is_answering(http: httpx.AsyncClient) -> bool:
    return "\nlocalrag_answering 1.0" in (await http.get("/metrics")).text


async def aborts(url: str, server: psutil.Process, count: int, **_: float) -> None:
    choice = random.Random(0)
    async with client(url) as http:
        await answer(http, 0)
        before = megabytes(server)
        print(f"before: {before:.0f} MB, {server.num_threads()} threads, {server.num_fds()} files")
        began = time.perf_counter()
        for number in range(count):
            kind = number % 3
            path = choice.choice(("/api/ask", "/v1/chat/completions"))
            if kind == 0:  # before it is its turn: the connection is cut right away
                with suppress(httpx.HTTPError):
                    await http.post(path, json={"question": "x"}, timeout=0.02)
            question = f"{QUESTIONS[number % 4]} I am client {number}."
            async with asked(http, path, question):
                await asyncio.sleep(choice.uniform(0.0, (0.02, 0.4, 1.5)[kind]))
            if number % 100 == 99:
                print(
                    f"{number + 1} aborted: {megabytes(server):.0f} MB, "
                    f"{server.num_threads()} threads, {server.num_fds()} files, "
                    f"{time.perf_counter() - began:.0f} s"
                )
        began = time.perf_counter()
        heard = await answer(http, 1)
        seconds = time.perf_counter() - began
    print(
        f"then an answer of {len(heard['text'])} characters in {seconds:.1f} s: {'answer' in heard}"
    )
    print(f"memory grew by {megabytes(server) - before:.0f} MB")


async def freed(url: str, _: psutil.Process, count: int, **__: float) -> None:
    choice = random.Random(0)
    seconds: list[float] = []
    async with client(url) as http:
        await answer(http, 0)
        words = await words_of_the_library(http)
        while len(seconds) < count:
            # Of other words each time: what was read once is not read again.
            question = " ".join(choice.sample(words, 8)) + "?"
            async with asked(http, "/api/ask", question) as heard:
                while not heard.done() and not await is_answering(http):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(choice.uniform(0.0, 0.5))
                if heard.done():
                    continue
            began = time.perf_counter()
            while await is_answering(http):
                await asyncio.sleep(0.005)
            seconds.append(time.perf_counter() - began)
    print("from going away to the model's being free:", told(seconds))


def main() -> None:
    if os.environ.get("SERVER_LOAD_STAND_IN") and "serve" in sys.argv:
        serve_stand_in()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("what", choices=("streams", "aborts", "freed"))
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10, help="of searches without a stream")
    parser.add_argument("--real", action="store_true", help="with the model of the settings")
    given = parser.parse_args()
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    number = given.clients if given.what == "streams" else given.count
    with served(given.library, real=given.real) as (url, process):
        how = {"real": given.real, "seconds": given.seconds}
        asyncio.run(globals()[given.what](url, process, number, **how))


if __name__ == "__main__":
    main()
