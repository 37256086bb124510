"""What must not be found in a response, and what was."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tenants.asking import Asking, Loot
from tenants.sending import Asked, Reply
from tenants.world import GRANTS, MARKS, NEVER, World

_MARKED = re.compile(rf"(?:{'|'.join(mark for marks in MARKS.values() for mark in marks)})\w*")
_HEX = re.compile(r"[0-9a-f]{12,}")
_OWN = re.compile(r"own(?:ann|bo|cai)\w*")
"""What somebody asked where conversations are kept, which is theirs alone."""


@dataclass
class Found:
    """What came of the requests."""

    leaks: list[str] = field(default_factory=list)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    foreign: int = 0
    twins: int = 0
    own: int = 0
    """Responses that had marks of the asker's own libraries."""
    size: int = 0
    _asked: dict[str, str] = field(default_factory=dict)

    def judge(self, world: World, user: str, asked: Asked, reply: Reply) -> None:
        """Note what a response has that it should not."""
        self.statuses[asked.path.split("/")[1] + "/" + _kind(asked), reply.status] += 1
        if (total := self.statuses.total()) % 500 == 0:
            print(f"{total} requests, {self.twins} twins, {len(self.leaks)} leaks", flush=True)
        self.size += len(reply.body)
        self.foreign += bool(asked.about)
        text, said = reply.text, asked.said
        if asked.path.startswith(("/api/history", "/api/reports")):  # of what they asked before
            said += self._asked.get(user, "")
        elif not asked.token:
            self._asked[user] = f"{self._asked.get(user, '')} {said}"
        may = {asked.library} if asked.library else set(GRANTS[user])
        if asked.token or not may <= set(GRANTS[user]):
            may = set()

        def leak(what: str) -> None:
            self._note(f"{user} {asked.method} {asked.path} {asked.about}: {what}")

        if asked.token and reply.status < 400 and asked.path not in OPEN:
            leak(f"answered without a token: {reply.status}")
        for found, libraries in marks(world, text):
            if libraries & may:
                self.own += 1
            elif found not in said:
                leak(found)
        for found in set(_OWN.findall(text)):
            if f"own{user}" not in found and found not in said:
                leak(f"somebody's question: {found}")
        if reply.status == 200 and not asked.token:
            for what in _wrong_counts(world, user, asked, reply):
                leak(what)
        if reply.status >= 500:
            leak(f"status {reply.status}: {reply.body[:200]!r}")

    def compare(self, asked: Asked, reply: Reply, twin: Asked, other: Reply) -> None:
        """Note where a response to what is foreign is another than to what never was."""
        self.twins += 1
        one = _comparable(reply, asked.about)
        two = _comparable(other, twin.about)
        if one != two:
            self._note(f"unlike its twin: {asked.method} {asked.path}: {one} and {two}")

    def _note(self, leak: str) -> None:
        self.leaks.append(leak)
        if len(self.leaks) < 5:
            print(leak[:2000], flush=True)


OPEN = ("/", "/view", "/healthz", "/static/app.js", "/source")


def _kind(asked: Asked) -> str:
    if asked.path == "/mcp":
        called = asked.body["params"].get("name", "")
        return f"{asked.body['method']} {called}".strip()
    path = _HEX.sub("…", asked.path)
    return "/".join(path.split("/")[2:])


def marks(world: World, text: str) -> Iterator[tuple[str, set[str]]]:
    """Marks in a text, and the libraries whose they are."""
    for found in set(_MARKED.findall(text)):
        yield found, {name for name, own in MARKS.items() if found.startswith(own)}
    for name in MARKS:
        if name in text:
            yield name, {name}
    for found in set(_HEX.findall(text)):
        held = [own for one, own in world.ids.items() if one.startswith(found[:64])]
        if held:
            yield found, set().union(*held)
    for found in set(re.findall(r"(?<!\d)-?\d{12,}", text)):
        if found in world.chunks:
            yield found, world.chunks[found]


def _comparable(reply: Reply, about: str) -> object:
    body = reply.body.decode("utf-8", "replace").replace(about, "…")
    body = re.sub(r"chatcmpl-[0-9a-f]+|resp_[0-9a-f]+|\"created(_at)?\":\s*\d+", "", body)
    heads = [one for one in reply.headers if one[0] not in ("mcp-session-id", "date")]
    return reply.status, heads, body


def _wrong_counts(world: World, user: str, asked: Asked, reply: Reply) -> Iterator[str]:
    """What lists and counts more, or less, than is the asker's."""
    mine = GRANTS[user]
    if asked.path in ("/libraries", "/api/status"):
        told = {one["name"]: one["documents"] for one in reply.json()["libraries"]}
        if told != {name: len(world.of(name)) for name in mine}:
            yield f"libraries {told}"
    elif asked.path == "/v1/models":
        told = {one["id"] for one in reply.json()["data"]}
        names = ["localrag", *(f"localrag/{name}" for name in mine)]
        if told != {f"{name}{mode}" for name in names for mode in ("", ":self-rag")}:
            yield f"models {told}"
    elif asked.path == "/api/documents" and asked.method == "GET" and asked.library:
        told = {one["id"] for one in reply.json()["documents"]}
        if not told <= set(world.of(asked.library)):
            yield f"documents {told}"
        if "words" not in asked.query and told != set(world.of(asked.library)):
            yield f"not all documents {told}"
    elif asked.path == "/api/search" and asked.method == "POST" and asked.library:
        told = {one["document_id"] for one in reply.json()["passages"]}
        if not told <= set(world.of(asked.library)):
            yield f"passages {told}"
    elif asked.path == "/mcp" and asked.body["params"].get("name") == "status":
        state = _result(reply).get("structuredContent", {"libraries": []})
        told = {one["name"]: one["documents"] for one in state["libraries"]}
        if told != {name: len(world.of(name)) for name in mine}:
            yield f"libraries {told}"


def _result(reply: Reply) -> Any:
    """Of a call over MCP."""
    whole = reply.json() if reply.body.startswith(b"{") else reply.events()[-1]
    return whole.get("result", {})


def loot(user: str, reply: Reply, into: Loot) -> None:
    """Take what stands for something that only the user may come back to."""
    found: dict[str, list[str]] = {
        "conversation": re.findall(r'"conversation": ?"([0-9a-f]{16})"', reply.text),
        "session": [value for name, value in reply.headers if name == "mcp-session-id"],
        "report": re.findall(r'data: {"name": "([0-9a-f]{16})"}', reply.text),
    }
    for kind, several in found.items():
        into.setdefault(kind, []).extend((user, one) for one in several)


async def requests(world: World, count: int, seed: int, *, at_once: int = 6) -> Found:
    """Send so many, some at a time."""
    found, left = Found(), iter(range(count))
    taken: Loot = {}

    async def work(number: int) -> None:
        random = Random(f"{seed} {number}")
        asking = Asking(world, random, taken)
        for _ in left:
            user = random.choice([*GRANTS])
            asked = asking.next(user)
            reply = await world.send(asked, user)
            found.judge(world, user, asked, reply)
            loot(user, reply, taken)
            if asked.about and not asked.token and asked.about in asked.said:
                twin = asked.naming(never_was(asked.about, random))
                found.compare(asked, reply, twin, await world.send(twin, user))

    async with asyncio.TaskGroup() as group:
        for number in range(at_once):
            group.create_task(work(number))
    return found


def never_was(about: str, random: Random) -> str:
    """What never was, of the same kind."""
    if about in MARKS:
        return random.choice(NEVER)
    return f"{random.getrandbits(4 * len(about)):0{len(about)}x}"
