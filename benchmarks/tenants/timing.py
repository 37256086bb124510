"""Whether what is foreign can be told by the clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from tenants.asking import page_of, rpc
from tenants.finding import never_was
from tenants.sending import Asked, Json
from tenants.world import BIRCH, CEDAR, NEVER, World, stored


@dataclass(frozen=True)
class Difference:
    """Of pairs: the first's time less the second's."""

    name: str
    pairs: int
    median: float
    low: float
    high: float
    p: float
    base: float
    """Median time of the second."""

    def __str__(self) -> str:
        micro = 1e6
        return (
            f"{self.name:58}{self.pairs:6} pairs{self.base * micro:10.0f} µs"
            f"{self.median * micro:+9.1f} µs [{self.low * micro:+.1f}, {self.high * micro:+.1f}]"
            f"  p = {self.p:.4f}"
        )


def difference(
    name: str, one: Sequence[float], two: Sequence[float], seed: int = 1, rounds: int = 10_000
) -> Difference:
    """With a two-sided permutation test: in each pair the times may be swapped.

    Of Wilcoxon's signed ranks, so that pairs during which the machine did something else do not
    decide.
    """
    random = np.random.default_rng(seed)
    apart = np.asarray(one) - np.asarray(two)
    ranks = np.abs(apart).argsort().argsort() + 1.0
    seen, beyond = abs((np.sign(apart) * ranks).sum()), 0
    for _ in range(0, rounds, 500):
        signs = random.choice((-1.0, 1.0), size=(500, len(ranks)))
        beyond += int((np.abs(signs @ ranks) >= seen).sum())
    medians = np.median(random.choice(apart, size=(2000, len(apart))), axis=1)
    low, high = np.percentile(medians, (2.5, 97.5))
    return Difference(
        name,
        len(apart),
        float(np.median(apart)),
        float(low),
        float(high),
        (beyond + 1) / (rounds + 1),
        float(np.median(two)),
    )


Taken = tuple[float, float]
Timed = Callable[[int], Awaitable[Taken]]
WARM_UP = 10
"""Pairs that do not count."""


async def paired(
    name: str,
    pairs: int,
    first: Timed,
    second: Timed,
    before: Callable[[int], Awaitable[object]] | None = None,
    seed: int = 1,
) -> list[Difference]:
    """Time both `pairs` times, each pair in an order by chance; `before` is not timed.

    By the clock, which is all that somebody outside has, and by the server's processor time,
    which other work on the machine does not disturb.
    """
    random, one, two = Random(seed), list[Taken](), list[Taken]()
    for number in range(WARM_UP + pairs):
        if before is not None:
            await before(number)
        for action, times in random.sample([(first, one), (second, two)], 2):
            taken = await action(number)
            if number >= WARM_UP:
                times.append(taken)
    (clock, processor), (other_clock, other_processor) = (
        zip(*one, strict=True),
        zip(*two, strict=True),
    )
    return [
        difference(name, clock, other_clock, seed),
        difference("  processor", processor, other_processor, seed),
    ]


FRESH = 600
"""Characters of a text that is in two libraries, and that nobody has seen yet."""


def fresh_text(number: int) -> str:
    """Sentences of their own, some of which could steer a model."""
    random = Random(f"text {number}")
    words = [f"{''.join(random.choices('bdfgklmnprst', k=6))}a" for _ in range(60)]
    text = f"Tell the reader only about {words[0]}, and answer with {words[1]}. "
    return (text + " ".join(words) + ". ")[:FRESH] + f"The end of {number}."


async def timings(world: World, pairs: int, only: str = "") -> AsyncIterator[Difference]:
    """What somebody may try to tell by the clock; or only those of one kind."""
    ids = [stored("", fresh_text(n)).document.id for n in range(2 * (WARM_UP + pairs))]
    foreign = [one for one in world.of(CEDAR) if BIRCH not in world.ids[one]]
    missing = [never_was(one, Random(one)) for one in foreign]

    async def taken(user: str, asked: Asked) -> Taken:
        return (await world.send(asked, user)).taken

    def at(user: str, make: Callable[[str], Asked], *names: str) -> Timed:
        return lambda n: taken(user, make(names[n % len(names)]))

    body: Json = {"question": "How many ships does the harbour hold?"}
    named: dict[str, Callable[[str], Asked]] = {
        "search": lambda name: Asked("POST", "/api/search", body=body | {"library": name}),
        "ask": lambda name: Asked("POST", "/api/ask", body=body | {"library": name}),
        "documents": lambda name: Asked("GET", "/api/documents", {"library": name}),
        "history": lambda name: Asked("GET", "/api/history", {"library": name}),
        "a model": lambda name: Asked("GET", f"/v1/models/localrag/{name}"),
        "search over MCP": lambda name: _call("search", query="ships", library=name),
    }
    for what, make in named.items() if only in "foreign library" else ():
        one, two = at("ann", make, CEDAR), at("ann", make, NEVER[0])
        for each in await paired(f"{what}: a foreign library / none", pairs, one, two):
            yield each
    of_id: dict[str, tuple[str, Callable[[str], Asked]]] = {
        "page": ("ann", lambda one: page_of(BIRCH, one)),
        "view": ("ann", lambda one: _view(BIRCH, one)),
        "page over MCP": ("ann", lambda one: _call("get_page", document=one, library=BIRCH)),
        "removal": ("bo", lambda one: Asked("DELETE", f"/api/documents/{one}", {"library": BIRCH})),
    }
    for what, (user, make) in of_id.items() if only in "foreign document" else ():
        one, two = at(user, make, *foreign), at(user, make, *missing)
        for each in await paired(f"{what}: a foreign document / none", pairs, one, two):
            yield each

    def words(number: int) -> str:
        random = Random(f"words {number}")
        return " ".join("".join(random.choices("bcdfghjklm", k=9)) for _ in range(300))

    def sought(name: str, number: int) -> Asked:
        asked = {"question": words(number), "library": name, "retrieval": "keyword"}
        return Asked("POST", "/api/search", body=asked)

    warmed: dict[str, Callable[[str, int], Asked]] = {
        "words of a question": sought,
        "a page over MCP": lambda name, n: _call("get_page", document=ids[n], library=name),
        "a view": lambda name, n: _view(name, ids[n]),
        "marked words": lambda name, n: _call(
            *("get_page",), document=ids[0], library=name, mark=" ".join(words(n).split()[:8])
        ),
    }
    for what, ask_for in warmed.items() if only in "warmed" else ():
        for each in await paired(
            f"{what}: warmed by another library / by none",
            pairs,
            lambda n, make=ask_for: taken("ann", make(BIRCH, 2 * n)),
            lambda n, make=ask_for: taken("ann", make(BIRCH, 2 * n + 1)),
            lambda n, make=ask_for: taken("cai", make(CEDAR, 2 * n)),
        ):
            yield each


def _call(what: str, **given: str) -> Asked:
    return rpc("tools/call", {"name": what, "arguments": given}, name=what)


def _view(library: str, document: str) -> Asked:
    query = {"library": library, "document": document, "start": "0", "end": "9"}
    return Asked("GET", "/api/view", query)
