"""Files that a client sends: streamed to disk, then read and added as `localrag add` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager
from functools import partial
from pathlib import Path

import anyio
from sse_starlette import ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response

from localrag import factory
from localrag.documents.files import SIZE_LIMIT
from localrag.engine import Engine
from localrag.errors import UsageError
from localrag.indexing import events
from localrag.library.folder.locking import PATIENCE
from localrag.library.folder.uploads import safe_name
from localrag.messages import InterfaceLanguage, speaker, spoken
from localrag.server.access import TooMuchError
from localrag.server.asker import own_name, preferred
from localrag.server.jobs import Send, as_event, streamed
from localrag.server.naming import without_paths
from localrag.server.queue import SHARES, FullError
from localrag.server.replies import EventStream, event
from localrag.server.running import working
from localrag.system.files import create_file, scratch_folder

MEDIA = "application/octet-stream"
MOST = 32
"""Files on their way at once; of a user who shares a server, a share of them."""
_SOON = 5
"""Seconds after which to try again."""


class UploadRoutes:
    """Takes one file at a time, of whoever sends one."""

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._under_way = Counter[str]()

    async def take(self, request: Request, engine: Engine, name: str) -> Response:
        """Receive the body, then tell its way into the library: progress, done, error."""
        if request.headers.get("content-type", "") != MEDIA:  # what no foreign form can send
            raise UsageError(
                "A file is sent as the body itself, not as {media}.",
                hint="Send it with Content-Type: application/octet-stream.",
                media=request.headers.get("content-type", "?"),
            )
        name, language = safe_name(name), preferred(request)
        resources = ExitStack()
        try:
            resources.enter_context(self._upload_slot())
            file = resources.enter_context(scratch_folder()) / "upload"
            await _receive(request, file)
        except BaseException:
            resources.close()
            raise
        return EventStream(self._add_events(engine, file, name, language, resources))

    @contextmanager
    def _upload_slot(self) -> Iterator[None]:
        """A file on its way, from its first byte on. Raises `FullError`."""
        user, under_way = own_name(), self._under_way
        if under_way.total() >= MOST or (user and under_way[user] >= MOST // SHARES):
            raise FullError(_SOON)
        under_way[user] += 1
        try:
            yield
        finally:
            under_way[user] -= 1

    async def _add_events(
        self,
        engine: Engine,
        file: Path,
        name: str,
        language: InterfaceLanguage,
        resources: ExitStack,
    ) -> AsyncIterator[ServerSentEvent]:
        async def work(send: Send) -> None:
            async with self._turn, working(partial(_add, engine, file, name, language)) as messages:
                async for message in messages:
                    await send(message)

        # The file stays until nobody reads it any more, also where the client goes in between.
        with resources:
            async with aclosing(streamed(work, as_event(language))) as parts:
                async for part in parts:
                    yield part


def _add(
    engine: Engine,
    file: Path,
    name: str,
    language: InterfaceLanguage,
    tell: Callable[[ServerSentEvent], None],
) -> None:
    """Add one file, and say how far that is."""
    say = speaker(language)
    embedded = chunks = 0

    def hear(happened: events.IndexingEvent) -> None:
        nonlocal embedded, chunks
        match happened:
            case events.Parsed(_, pages, chunks):
                text = say("pages read: {pages}", pages=pages)
            case events.Embedded(count):
                embedded += count
                text = say("{done} of {count} passages embedded", done=embedded, count=chunks)
            case _:
                return
        tell(event("progress", {"said": text}))

    indexer = factory.make_indexer(engine.settings, engine.library, engine.embedder)
    report = indexer.upload(file, name, hear, timeout=PATIENCE)
    failed = bool(report.failed and not report.committed)
    if failed:
        error = report.failed[0].error
        error.values["source"] = name  # not where it lay for a moment
        text = spoken(without_paths(error), language)
    elif report.unchanged:
        text = say("It is in the library already.")
    else:
        text = say("Added (passages: {count})", count=report.chunks)
    tell(event("done", {"said": text, "failed": failed}))


async def _receive(request: Request, file: Path) -> None:
    """Write the body to a new file; what is too large is read to its end, to be answered."""
    if int(request.headers.get("content-length", "0")) > 2 * SIZE_LIMIT:
        raise _too_large()
    size = 0
    with create_file(file) as written:
        async for part in request.stream():
            size += len(part)
            if size > 2 * SIZE_LIMIT:
                break
            if size <= SIZE_LIMIT:
                await anyio.to_thread.run_sync(written.write, part)
    if size > SIZE_LIMIT:
        raise _too_large()


def _too_large() -> TooMuchError:
    return TooMuchError(
        413, UsageError("The file is larger than {most} MB.", most=SIZE_LIMIT // 2**20)
    )
