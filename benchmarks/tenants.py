"""Three people, three libraries in PostgreSQL, one server: who sees, or can time, a foreign one?

    python benchmarks/tenants.py requests [--count 10000] [--leak NAME]
    python benchmarks/tenants.py timing [--pairs 1000] [--leak NAME]
    python benchmarks/tenants.py states --pairs 30
    python benchmarks/tenants.py model --count 20

Everything in a library (its name, files, titles, texts, ids) carries marks of its own; one text is
in two libraries. `requests` sends random ones on all routes, some at a time, of which many name
libraries, documents, conversations, reports and sessions of others, and searches body and headers
of every response for marks that are not the asker's. Marks that the request itself has do not
count, as an error may repeat them, nor in conversations and reports those of earlier requests,
which have some of the marks of a text and never others. Each request that names what is foreign has
a twin which names what never was, and both responses must be equal. The language model is a fake
that quotes all that it is given. `timing` compares such twins by the clock, in interleaved pairs,
and words and pages that another library has warmed with those that nobody has: p-values of a
permutation test on the signs. `states` does so with passages that a small language model has read,
`model` asks the starter model, and looks whether it takes anything from what another one had it
read. `--leak` makes a hole by hand, which the run must find. PostgreSQL is that of the tests.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import msgspec
from tenants.finding import Found, requests
from tenants.holes import LEAKS, leaking
from tenants.model import asks_of_model, states
from tenants.timing import WARM_UP, fresh_text, timings
from tenants.world import quoting, world

from localrag import factory
from localrag.config.settings import LlamaCppSettings, Settings


def told(found: Found, seconds: float) -> int:
    """Print what came of it; 1 where something leaked."""
    total = sum(found.statuses.values())
    print(
        f"{total} requests in {seconds:.0f} s, {found.size / 1e6:.0f} MB; {found.foreign} named "
        f"something foreign, {found.twins} twins; marks of one's own: {found.own}"
    )
    for (route, status), count in sorted(found.statuses.items()):
        print(f"  {route:40}{status:5}{count:7}")
    print(f"LEAKS: {len(found.leaks)}")
    for leak, count in Counter(one[:200] for one in found.leaks).most_common(12):
        print(f"  {count:5} {leak}")
    return int(bool(found.leaks))


async def main(asked: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "LOCALRAG_KEYS"):
            os.environ[name] = str(Path(folder, name.lower()))
        os.environ["LOCALRAG_CONFIG"] = str(Path(folder, "config.toml"))
        from postgres_server import running

        url = held.enter_context(running(Path(folder, "postgres")))
        if asked.leak:
            held.enter_context(leaking(asked.leak))
        if asked.what in ("requests", "timing"):
            held.enter_context(patch.object(factory, "make_model", quoting))
        if asked.what == "requests":
            async with world(url) as made:
                begun = time.perf_counter()
                found = await requests(made, asked.count, asked.seed, at_once=asked.at_once)
                return told(found, time.perf_counter() - begun)
        if asked.what == "timing":
            common = [fresh_text(n) for n in range(2 * (WARM_UP + asked.pairs))]
            async with world(url, common=common) as made:
                async for one in timings(made, asked.pairs, asked.only):
                    print(one, flush=True)
            return 0
        if asked.what == "states":
            async with world(url, _settings("smollm2-135m-instruct-q4")) as made:
                for one in states(made, asked.pairs):
                    print(one, flush=True)
            return 0
        async with world(url, Settings()) as made:
            found, watched = await asks_of_model(made, asked.count, asked.seed)
            print(f"{watched.prompts} tokens asked for, {watched.held} kept; hits: {watched.hits}")
            return told(found, 0.0) or bool(watched.hits)


def _settings(model: str) -> Settings:
    return msgspec.structs.replace(Settings(), llm=LlamaCppSettings(model=model))


if __name__ == "__main__":
    given = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    given.add_argument("what", choices=("requests", "timing", "states", "model"))
    given.add_argument("--count", type=int, default=10_000)
    given.add_argument("--pairs", type=int, default=1000)
    given.add_argument("--only", default="", help="foreign library, foreign document or warmed")
    given.add_argument("--at-once", type=int, default=6)
    given.add_argument("--seed", type=int, default=1)
    given.add_argument("--leak", choices=LEAKS)
    sys.exit(asyncio.run(main(given.parse_args())))
