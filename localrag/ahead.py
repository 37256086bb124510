"""Sections read before anybody asks about them, so that the first question finds them read.

What a section's state is kept under depends on the passages, the rules above them and the
language alone, so it is made by what an answer reads with. Read are first the examples that stand
before every question, then the beginnings of new documents, then what kept answers have cited or
passed over, then the beginnings of the others and last what is left, the newest documents first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, takewhile
from typing import Literal

import msgspec

from localrag.config.settings import LlamaCppSettings
from localrag.engine import Engine
from localrag.errors import ContextOverflowError, LocalragError, StoppedError, UsageError
from localrag.languages import CODES
from localrag.library.folder.gate import KV_FOLDER
from localrag.library.library import Library
from localrag.library.records import DocumentRecord, Stamp
from localrag.models.llms.base import ReadAhead
from localrag.models.llms.llama_cpp.state_files import AheadState, states_ahead
from localrag.prompts import with_examples
from localrag.rag.grading import Reading
from localrag.text.language import main_language
from localrag.types import Message

FIRST = 2
"""Sections that a document begins with: what it is, of whom, since when."""
NEW = timedelta(days=7)
"""Since a document was added or changed."""
EXAMPLES = ("scope", "parts", "table_sql")
"""What examples a question is read behind: in any case, where nothing answers, for a sheet."""
AGAIN = 3600.0
"""Seconds after which a library in which there was nothing left to do is looked at again."""
_PAGE = 100
"""Documents that are listed at once."""
_MOST_ANSWERS = 200
"""Kept answers that are looked at, the newest conversations first."""

Hindrance = Literal["server", "off", "others"]
"""Why no states are kept: the model is behind a server, the settings say so, or the folder is
somebody else's."""
Ending = Literal["all", "time", "full", "disk", "battery", "stopped"]
"""Why no more was read."""


@dataclass(frozen=True, slots=True)
class AheadBounds:
    """`megabytes` on disk, `seconds` of reading, and its `share` of the time."""

    megabytes: int
    seconds: float
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class SectionRead:
    """A section that was read and is kept: tokens read, seconds taken, bytes kept.

    Without `source` it is examples.
    """

    source: str
    heading: str
    tokens: int
    seconds: float
    size: int


@dataclass(frozen=True, slots=True)
class AheadReport:
    """What was read in a run, how many sections were `there` before, and why it ended."""

    sections: int
    there: int
    tokens: int
    seconds: float
    size: int
    ending: Ending
    reason: str = ""
    """What the system says of a disk that took no more."""


Event = SectionRead | AheadReport
Prompt = int | Sequence[Message]
"""The first chunk of a section, or examples and a question behind them."""
Tier = int | None
"""How likely a section is to be asked about; None for examples, kept as what a question reads."""


def kept_ahead(library: Library) -> list[AheadState]:
    """What was read ahead and is kept in this place; what a question has used is not among it."""
    return states_ahead(library.directory / KV_FOLDER)


def hindrance(engine: Engine) -> Hindrance | None:
    """Why nothing can be read ahead for this library; None: it can."""
    llm = engine.settings.llm
    if not isinstance(llm, LlamaCppSettings):
        return "server"
    if not (llm.kv_disk_mb and engine.settings.ahead.megabytes):
        return "off"
    return "others" if engine.library.is_of_others else None


def expect_possible(engine: Engine) -> None:
    """Raises `UsageError` where nothing can be read ahead."""
    match hindrance(engine):
        case "server":
            raise UsageError(
                "Nothing can be read ahead: the language model runs behind a server, and what it "
                "has read cannot be kept here.",
                hint="Use a model in this process: `localrag config set llm.backend llama.cpp`.",
            )
        case "off":
            raise UsageError(
                "Nothing can be read ahead: the settings keep nothing that the model has read.",
                hint="Set llm.kv_disk_mb and ahead.megabytes, to 1000 and 800 for example.",
            )
        case "others":
            raise UsageError(
                "Nothing can be read ahead: the library belongs to another user.",
                hint="Its owner can run this.",
            )


def on_battery() -> bool:
    """Whether this computer runs on its battery; what cannot be known counts as mains."""
    import psutil

    with suppress(OSError, RuntimeError, AttributeError):  # psutil has it for some systems only
        battery = psutil.sensors_battery()
        return battery is not None and battery.power_plugged is False
    return False


def read_ahead(
    engine: Engine,
    bounds: AheadBounds,
    stopped: threading.Event,
    *,
    clock: Callable[[], float] = time.monotonic,
    battery: Callable[[], bool] = on_battery,
) -> Iterator[Event]:
    """The sections that are read, as they are kept, and last the report.

    Ends within a batch of tokens once `stopped` is set, from any thread.
    """
    sections = there = tokens = size = 0
    seconds, reason = 0.0, ""
    ending: Ending = "all"
    limit = bounds.megabytes * 10**6
    for tier, prompt in _prompts(engine):
        if stopped.is_set():
            ending = "stopped"
        elif battery():
            ending = "battery"
        elif seconds >= bounds.seconds:
            ending = "time"
        if ending != "all":
            break
        began = clock()
        try:
            done = _read(engine, prompt, tier, limit, stopped)
        except StoppedError:
            ending = "stopped"
            break
        except OSError as error:
            ending, reason = "disk", error.strerror or str(error)
            break
        took = clock() - began
        if done is None:
            continue
        source, heading, outcome = done
        seconds += took if outcome.tokens else 0.0
        tokens += outcome.tokens
        if outcome.outcome == "full":
            ending = "full"
            break
        if outcome.outcome == "there":
            there += bool(source)
        elif outcome.outcome == "kept":
            sections, size = sections + bool(source), size + outcome.size
            yield SectionRead(source, heading, outcome.tokens, took, outcome.size)
            stopped.wait(took * (1 / bounds.share - 1))
    yield AheadReport(sections, there, tokens, seconds, size, ending, reason)


def _read(
    engine: Engine, prompt: Prompt, tier: Tier, limit: int, stopped: threading.Event
) -> tuple[str, str, ReadAhead] | None:
    """Source and heading of a section, and what became of it; None where it is not to be read.

    Raises `StoppedError`, OSError.
    """
    library = engine.library
    removals = library.removals()  # before its text: what is removed from here on is not kept

    def still() -> bool:
        try:
            return library.removals() == removals
        except LocalragError:  # it was closed, or its database is away
            return False

    document = source = heading = ""
    if isinstance(prompt, int):
        section = engine.section(prompt)
        if section is None:
            return None
        document, source, heading = section.chunk.document_id, section.source, section.chunk.heading
        prompt = Reading(main_language(section.chunk.text), (section,)).messages("?")
    keep = len(prompt) - 1
    with engine.reading_ahead(document, stopped) as reader, suppress(ContextOverflowError):
        if reader is not None:
            read = reader.read_ahead(prompt, keep=keep, limit=limit, tier=tier, still=still)
            return source, heading, read
    return None


def _prompts(engine: Engine) -> Iterator[tuple[Tier, Prompt]]:
    """(tier, prompt), the likeliest to be of use first."""
    newest = islice(_newest(engine.library), _PAGE)
    languages = {record.language for record in newest if record.language in CODES}
    for task in EXAMPLES:
        for language in CODES:
            if language in languages:
                yield None, with_examples(task, language, "?")
    yield from _likely(engine)


def _likely(engine: Engine) -> Iterator[tuple[int, int]]:
    """(tier, first chunk) of each section, the likeliest to be asked about first."""
    library = engine.library
    done = set[int]()

    def of(tier: int, sections: Iterable[Sequence[int]]) -> Iterator[tuple[int, int]]:
        for chunk, *_ in sections:
            if chunk not in done:
                done.add(chunk)
                yield tier, chunk

    since = (datetime.now(UTC) - NEW).isoformat()
    for at in range(FIRST):
        for record in takewhile(lambda record: record.added_at >= since, _newest(library)):
            yield from of(0, engine.sections_of(record.id)[at : at + 1])
    cited, passed_over = _asked_before(engine)
    yield from of(1, cited)
    yield from of(2, passed_over)
    for at in range(FIRST):
        for record in _newest(library):
            yield from of(3, engine.sections_of(record.id)[at : at + 1])
    for record in _newest(library):
        yield from of(4, engine.sections_of(record.id))


def _newest(library: Library) -> Iterator[DocumentRecord]:
    """All documents, the one that was last added or changed first."""
    before: int | None = None
    while True:
        records, before = library.listed(_PAGE, before=before)
        yield from records
        if before is None:
            return


class _Chunk(msgspec.Struct):
    id: int
    document_id: str


class _Context(msgspec.Struct):
    chunk: _Chunk


class _Citation(msgspec.Struct):
    chunk_id: int


class _Cited(msgspec.Struct):
    citation: _Citation


class _Statement(msgspec.Struct):
    citations: tuple[_Cited, ...] = ()


class _AnswerInPart(msgspec.Struct):
    """What matters here of an answer that somebody wanted to keep."""

    contexts: tuple[_Context, ...] = ()
    statements: tuple[_Statement, ...] = ()


def _asked_before(engine: Engine) -> tuple[list[Sequence[int]], list[Sequence[int]]]:
    """The sections that kept answers cite, and those that were read for them beside.

    Nothing is kept for this. In a database each person's answers are that person's alone, and
    are not looked at.
    """
    library = engine.library
    cited, passed_over = list[Sequence[int]](), list[Sequence[int]]()
    if not library.backend.has_nodes and library.keeps_history:
        for answer in islice(_kept_answers(library), _MOST_ANSWERS):
            named = {
                citation.citation.chunk_id
                for statement in answer.statements
                for citation in statement.citations
            }
            for chunk in (context.chunk for context in answer.contexts):
                sections = engine.sections_of(chunk.document_id)
                holding = [section for section in sections if chunk.id in section]
                (cited if chunk.id in named else passed_over).extend(holding)
    return cited, passed_over


def _kept_answers(library: Library) -> Iterator[_AnswerInPart]:
    """Those of the conversation that was last added to first."""
    for conversation in library.conversations():
        for entry in library.kept_answers(conversation.key):
            with suppress(msgspec.MsgspecError, RecursionError):  # the folder came from elsewhere
                yield msgspec.json.decode(entry.record, type=_AnswerInPart)


class IdleReader:
    """Reads ahead section by section in idle moments, for the libraries of one process.

    Its minutes a day are counted from the start of the process, and from midnight on anew.
    """

    def __init__(
        self,
        stopped: threading.Event,
        *,
        clock: Callable[[], float] = time.monotonic,
        today: Callable[[], date] = date.today,
        battery: Callable[[], bool] = on_battery,
    ) -> None:
        self._stopped, self._clock = stopped, clock
        self._today, self._battery = today, battery
        self._day, self._spent = today(), 0.0
        self._runs: dict[Engine, tuple[Stamp, Iterator[Event]]] = {}
        self._ended: dict[Engine, tuple[Stamp, float]] = {}

    def step(self, engine: Engine) -> SectionRead | None:
        """Read the next section; None where there is nothing to do for now.

        Raises `LocalragError`, and then leaves this library alone for a while.
        """
        settings = engine.settings.ahead
        if (today := self._today()) != self._day:
            self._day, self._spent = today, 0.0
            self._runs.clear()  # which have yesterday's bounds
        left = 60.0 * settings.minutes_a_day - self._spent
        if left <= 0 or hindrance(engine) or self._battery():
            return None
        stamp, now = engine.library.stamp(), self._clock()
        ended, at = self._ended.get(engine, (None, 0.0))
        if ended == stamp and now - at < AGAIN:
            return None
        begun, run = self._runs.pop(engine, (None, iter(())))
        if begun != stamp:
            bounds = AheadBounds(settings.megabytes, left, settings.share)
            run = read_ahead(
                engine, bounds, self._stopped, clock=self._clock, battery=self._battery
            )
        self._ended[engine] = stamp, now  # also where it fails
        event = next(run)
        if isinstance(event, SectionRead):
            self._spent += event.seconds
            self._runs[engine] = stamp, run
            del self._ended[engine]
            return event
        if event.ending == "time":  # also of sections that were not kept
            self._spent = 60.0 * settings.minutes_a_day
        if event.ending in ("stopped", "time", "battery"):
            del self._ended[engine]
        return None

    def only(self, engines: Collection[Engine]) -> None:
        """Let go of all other engines."""
        for known in (self._runs, self._ended):
            for engine in known.keys() - set(engines):
                del known[engine]
