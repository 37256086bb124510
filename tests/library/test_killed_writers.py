"""Writers that are killed at any moment: what they said is there, and nothing is half there."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path

from library_fixtures import Where, found, indexes, open_library

from localrag.library.check import check_library

KILLS = 8
MANY = 1000
"""As many as `found` asks for."""

WRITER = """
import itertools, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from library_fixtures import add, document, open_library
from localrag.library.location import location_of
place = sys.argv[1]
with open_library(location_of(place)) as library:
    for number in itertools.count(int(sys.argv[2])):
        text = f"document {{number}} " + "words that are cut into passages " * 3
        add(library, document(text, source=f"{{number}}.txt"))
        print("added", number, flush=True)
        if number % 3 == 0:
            library.remove(sources=[f"{{number}}.txt"])
            print("removed", number, flush=True)
"""


def test_what_was_said_to_be_done_is_done_and_nothing_by_half(where: Where) -> None:
    place = where()
    open_library(place).close()
    chance, begin = random.Random(17), 0
    states: dict[str, bool] = {}
    script = WRITER.format(tests=str(Path(__file__).parent))
    paths = os.pathsep.join(sys.path)
    for _ in range(KILLS):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(place), str(begin)],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": paths},
        )
        assert process.stdout is not None
        lines = [process.stdout.readline()]  # it has begun
        time.sleep(chance.uniform(0, 0.3))
        process.kill()
        lines += process.communicate()[0].splitlines()
        last = ""
        for line in lines:
            action, _, last = line.strip().partition(" ")
            states[last] = action == "added"
        begin = int(last) + 2
        with open_library(place, create=False) as library:
            with library.writing():
                pass  # a database may still be at what a killed one has asked of it
            names = {record.state.path.removesuffix(".txt") for record in library.sources()}
            # What it was about when it was killed may be done or not.
            unsaid = {last, str(int(last) + 1)}
            assert names - unsaid == {name for name, present in states.items() if present} - unsaid
            states |= {name: name in names for name in unsaid}
            dense, keyword = found(library, "document words")
            assert len(dense) == min(library.counts().chunks, MANY) >= len(keyword)
            assert bool(keyword) == bool(dense)
            library.purge_if_due()
        assert not [
            finding for finding in check_library(place, indexes()).findings if finding.damage
        ]
