"""Kill nodes of a library in PostgreSQL while they do jobs, and check what the others make of it.

    python scripts/node_test.py 'postgresql:///docs?host=/run/postgresql' --kills 100 --seed 7

Each round queues a folder (mails with attachments, twins, files that cannot be read among them)
and a rebuild, with three nodes at work, each a process. Whichever has the job is killed with
SIGKILL (or stopped, often for longer than its lease, and let go on) after a time drawn at random,
and another one is started, until the jobs are done. Then there must be the documents, passages and
paths of an add that nobody disturbed, the same ranking to the digit, and nothing that `localrag
check` finds. A small deterministic embedder stands in for a model.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: a forked process has no threads

import argparse
import multiprocessing
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from email.message import EmailMessage
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fakes import HashEmbedder

from localrag import factory
from localrag.config.settings import Settings
from localrag.egress.databases import read_url
from localrag.engine import Engine
from localrag.indexing import indexer
from localrag.library.backends.postgres import queue
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.backends.postgres.queue import Arguments, Jobs, QueuedJob
from localrag.library.check import check_library
from localrag.library.library import Library
from localrag.library.location import Location
from localrag.server.libraries import Libraries
from localrag.server.node import Node

CONTEXT: Any = multiprocessing.get_context("fork")
LEASE = 1.5
NODES = 3
FILES = 120
BATCH = 12
"""Passages that are committed together: many commits of few files."""
QUESTIONS = ("lamp of pier 3", "lit in 1877", "note 90", "harbour attached")

SETTINGS = Settings()


class Slow(HashEmbedder):
    """Takes long enough to be killed."""

    def embed_queries(self, texts: Sequence[str]) -> Any:
        """As it does, more slowly."""
        time.sleep(0.004 * len(texts))
        return super().embed_queries(texts)


EMBEDDER = Slow()


def opened(location: Location) -> Library:
    """The library, with the stand-in's vectors."""
    return Library.open(
        location,
        create=True,
        embedding=factory.identity_of(EMBEDDER, SETTINGS),
        indexes=factory.make_indexes(SETTINGS),
    )


def write_files(folder: Path) -> None:
    """Small texts, some of them twins, mails with attachments, files that cannot be read."""
    folder.mkdir()
    for number in range(FILES):
        text = f"Note {number}: the lamp of pier {number % 17} was lit in {1800 + number}."
        path = folder / f"{number:03}.txt"
        if number % 10 == 9:
            mail = EmailMessage()
            mail["Subject"] = f"Harbour {number}"
            mail.set_content(text)
            mail.add_attachment(f"Attached to {number}: {text}", filename=f"in {number}.txt")
            path.with_suffix(".eml").write_bytes(mail.as_bytes())
        elif number % 40 == 5:
            path.with_suffix(".pdf").write_bytes(b"%PDF-1.4 broken")
        else:
            path.write_text(text if number % 12 else "The same in several files.")


def serve(location: str, folder: str, cache: str) -> None:
    """A node, until it is killed."""
    os.environ["XDG_CACHE_HOME"] = cache
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    Node.lease, indexer.BATCH = LEASE, BATCH
    library = opened(read_url(location))
    libraries = Libraries(
        [library.location], lambda _: Engine(library, SETTINGS, embedder=EMBEDDER)
    )
    libraries.engine(libraries.names[0])
    with Node(libraries, [Path(folder)]):
        while True:
            time.sleep(60)


def started(location: str, folder: Path, cache: Path) -> BaseProcess:
    """A node in a process of its own."""
    process: BaseProcess = CONTEXT.Process(
        target=serve, args=(location, str(folder), str(cache)), daemon=True
    )
    process.start()
    return process


def everything(location: Location) -> list[object]:
    """Documents with their paths and passages, files that were not read, and the ranking."""
    with opened(location) as library:
        documents = sorted((one.id, sorted(one.sources), one.chunks) for one in library.documents())
        unread = sorted(one.state.path for one in library.unread())
        hits: list[object] = []
        for question in QUESTIONS:
            hits.append(library.vectors.search(EMBEDDER.embed_queries([question])[0], 50))
            hits.append(library.keywords.search(question.split(), 50))
        return [documents, unread, library.chunk_set(), hits]


def undisturbed(location: Location, folder: Path) -> None:
    """Add the folder as anybody would."""
    with opened(location) as library:
        factory.make_indexer(SETTINGS, library, EMBEDDER).add([folder])


def apart(work: Any, *arguments: object) -> Any:
    """What a function returns in a process of its own."""
    with CONTEXT.Pool(1) as pool:
        return pool.apply(work, arguments)


def damage(location: Location) -> list[str]:
    """What `localrag check` finds."""
    report = check_library(location, factory.make_indexes(SETTINGS))
    return [one.code for one in report.findings if one.damage]


def one(url: str, base: Path, draw: random.Random, wanted: list[object]) -> Counter[str]:
    """A round; counts what was done to nodes."""
    location, folder = f"{url}#node test {draw.getrandbits(40):x}", base / "docs"
    done: Counter[str] = Counter()
    place = read_url(location)
    apart(_made, place)
    catalogue = PostgresCatalogue(place)
    jobs = Jobs(catalogue)
    for kind in ("add", "rebuild"):
        paths = (str(folder),) if kind == "add" else ()
        jobs.put("add" if kind == "add" else "rebuild", Arguments(paths))
    nodes: dict[int, BaseProcess] = {}
    stopped: dict[int, float] = {}
    due = time.monotonic() + draw.uniform(0, 2)
    ends = time.monotonic() + 180
    try:
        while any(not job.ended for job in jobs.all()):
            if time.monotonic() > ends:
                raise SystemExit(f"not done: {jobs.all()}")
            while len(nodes) < NODES:
                process = started(location, folder, base / f"cache {draw.getrandbits(40):x}")
                nodes[process.pid or 0] = process
            for pid in [pid for pid, until in stopped.items() if time.monotonic() > until]:
                os.kill(pid, signal.SIGCONT)
                del stopped[pid]
            busy = [job for job in jobs.all() if job.state == "running"]
            if busy and time.monotonic() > due and busy[0].attempts < queue.ATTEMPTS:
                pid = int(busy[0].node.split(":")[1])
                due = time.monotonic() + draw.uniform(0, 3)
                if pid in nodes and pid not in stopped:
                    if draw.random() < 0.25:
                        os.kill(pid, signal.SIGSTOP)
                        stopped[pid] = time.monotonic() + draw.uniform(0.5, 3) * LEASE
                        done["stopped"] += 1
                    else:
                        nodes.pop(pid).kill()
                        done["killed"] += 1
                        done[f"killed in {busy[0].kind}"] += 1
            time.sleep(0.01)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
        for process in nodes.values():
            process.kill()
    ended: list[QueuedJob] = jobs.all()
    wrong = [f"{job.kind}: {job.state}, {job.fault}" for job in ended if job.state != "done"]
    if apart(everything, place) != wanted:
        wrong.append("not what an undisturbed add makes")
    wrong += apart(damage, place)
    if wrong:
        raise SystemExit(f"WRONG in {location}: {wrong}")
    with catalogue.session() as session:
        session.execute(f"DELETE FROM localrag_{catalogue.number}.documents")
        session.execute(f"DELETE FROM localrag_{catalogue.number}.unread")
    catalogue.drop()
    catalogue.close()
    done["attempts"] += sum(job.attempts for job in ended)
    return done


def _made(location: Location) -> None:
    opened(location).close()


def main() -> None:
    """Run rounds until there were so many kills."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url", help="a database, without a library")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="localrag-nodes-") as name:
        base = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(base / "cache")
        write_files(base / "docs")
        apart(undisturbed, base / "library", base / "docs")
        wanted = apart(everything, base / "library")
        rounds = 0
        while counts["killed"] < given.kills:
            draw = random.Random(f"{given.seed} {rounds}")
            counts += one(given.url, base, draw, wanted)
            rounds += 1
            print(f"{rounds} rounds, all in order: {dict(counts)}", flush=True)


if __name__ == "__main__":
    main()
