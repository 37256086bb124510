"""Kill add, remove, rebuild and models pull at random moments, and check what is left.

    python scripts/kill_test.py --kills 20 --seed 7
    python scripts/kill_test.py --kills 500 --log kills.jsonl
    python scripts/kill_test.py --kills 100 --what remove --what rebuild
    python scripts/kill_test.py --kills 100 --vault

Each round starts one of them in a process of its own, kills it with SIGKILL (TerminateProcess on
Windows), and opens the library again. Every document that was reported as added must be there
whole and be found by both searches, nothing half-added may be visible, nothing of what was
reported as removed may be in any file, a rebuild must have left the old passages or the new ones,
what `localrag check` finds damaged (an index that was being replaced) must be mended by `localrag
rebuild`, and the same command run again must complete. A model that is installed must have its
bytes. Half of the kills come at a moment drawn evenly from the time that the operation takes, and
where strace is there, the other half at a call drawn evenly from all of one kind: write, fsync,
rename, unlink and so on. With --log, a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import durability
from durability import OPERATIONS, Journal, asked, fork, reported
from injecting import FAULTS, Fault, Injection, reason_not

DOCUMENTS, CHANGES = 24, 8
PAUSE = 0.01
"""Seconds that embedding a batch takes at least."""

KILLS = next(fault for fault in FAULTS if fault.name == "kill").each()
KINDS = ("lost", "ghost", "damaged", "unopenable")


class Reach:
    """How long an operation takes and how often its busiest thread writes and how, as we learn."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = dict.fromkeys(KILLS, 200)
        """At least as many as there are of each."""

    def finished(self, seconds: float, fault: Fault | None, number: int) -> None:
        """It ended before the kill: aim earlier."""
        self.seconds = 0.5 * (self.seconds + seconds) if self.seconds else seconds
        if fault is not None:
            self.calls[fault] = number - 1


def one(what: str, base: Path, draw: random.Random, reach: Reach, strace: bool) -> dict[str, Any]:
    """Run an operation and kill it, and look at what is left."""
    asked(durability.prepare, what, base, draw.getrandbits(40), CHANGES)
    journal = Journal()
    by_write = strace and draw.random() < 0.5
    fault, number = None, 0
    if by_write:
        fault = draw.choice([one for one, count in reach.calls.items() if count])
        number = draw.randint(1, reach.calls[fault])
    delay = draw.uniform(0, reach.seconds or 2.0)
    process = fork(durability.operate, journal, what, base, PAUSE, by_write)
    assert process.pid is not None
    started, at = time.monotonic(), ""
    if fault is not None:
        injection = Injection(process.pid, fault, number)
        process.join()
        injection.finish()
        at = fault.calls
    else:
        while not journal.lines() and process.is_alive():
            time.sleep(0.001)
        started = time.monotonic()
        timer = threading.Timer(delay, process.kill)
        timer.start()
        process.join()
        timer.cancel()
    took = time.monotonic() - started
    lines = journal.lines()
    said = reported(lines, what)
    ended = lines[-1][0] if lines else "started"
    finished, wrong = ended == "finished", []
    if ended in ("broke", "refused"):
        wrong.append(f"damaged: {lines[-1]}")
    if finished:
        reach.finished(took, fault, number)
    after = asked(durability.afterwards, what, base, said, finished)
    wrong += [cells[1] for cells in after if cells[0] == "wrong"]
    wrong += [f"unopenable: {cells}" for cells in after if cells[0] in ("broke", "refused")]
    if ["finished"] not in after and not wrong:
        wrong.append("unopenable: looking at it ended the process")
    return {
        "what": what,
        "killed": not finished,
        "at": at or f"{delay:.3f} s",
        "by write": by_write,
        "after": ended,
        "reported": len(said),
        "wrong": [text for text in wrong if not text.startswith("mended")],
        "mended": sum(text.startswith("mended") for text in wrong),
    }


def kill_test(
    kills: int, seed: int, operations: Sequence[str], log: Path | None, vault: bool = False
) -> list[dict[str, Any]]:
    """Run all rounds until one goes wrong; those of an earlier run count."""
    rounds: list[dict[str, Any]] = []
    if log is not None and log.exists():
        rounds = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    draw = random.Random(f"{seed} {len(rounds)}")
    strace = not reason_not()
    reach = {what: Reach() for what in operations}
    durability.warm_up()
    with tempfile.TemporaryDirectory(prefix="localrag-kill-", ignore_cleanup_errors=True) as name:
        base = Path(name, "base")
        asked(durability.begin, base, DOCUMENTS, vault)
        for what in operations:  # how long each takes
            asked(durability.prepare, what, base, draw.getrandbits(40), CHANGES)
            started = time.monotonic()
            lines = asked(durability.operate, what, base, PAUSE, False)
            reach[what].seconds = time.monotonic() - started
            asked(durability.afterwards, what, base, reported(lines, what), True)
        while sum(r["killed"] for r in rounds) < kills and not any(r["wrong"] for r in rounds):
            what = draw.choice(list(operations))
            result = one(what, base, draw, reach[what], strace)
            rounds.append(result)
            if log is not None:
                with log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result, ensure_ascii=False) + "\n")
            state = f"killed at {result['at']}" if result["killed"] else "finished"
            print(
                f"{sum(r['killed'] for r in rounds)}/{kills}: {what} {state} after "
                f"{result['after']}, {result['reported']} reported: "
                f"{result['wrong'] or 'all in order'}",
                flush=True,
            )
    return rounds


def table(rounds: Sequence[dict[str, Any]]) -> None:
    """Print what came of all rounds."""
    columns = ("rounds", "kills", "at a write", "with some reported", *KINDS, "mended by rebuild")
    print("\t".join(("", *columns)))
    for what in (*OPERATIONS, "all"):
        some = [r for r in rounds if what in (r["what"], "all")]
        killed = [r for r in some if r["killed"]]
        kinds = [sum(any(w.startswith(k) for w in r["wrong"]) for r in some) for k in KINDS]
        cells = (
            len(some),
            len(killed),
            sum(r["by write"] for r in killed),
            sum(r["reported"] > 0 for r in killed),
            *kinds,
            sum(r["mended"] > 0 for r in some),
        )
        print("\t".join((what, *map(str, cells))))
    for what in OPERATIONS:
        last = Counter(r["after"] for r in rounds if r["killed"] and r["what"] == what)
        if last:
            told = ", ".join(f"{name} {count}" for name, count in last.most_common())
            print(f"{what}: the last thing said before the kill: {told}")
    calls = Counter(r["at"] for r in rounds if r["killed"] and r["by write"])
    print("killed at: " + ", ".join(f"{name} {count}" for name, count in calls.most_common()))


def main() -> None:
    """Parse the command line; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--what", action="append", choices=OPERATIONS, help="default: all")
    parser.add_argument("--log", type=Path, help="file to go on from")
    parser.add_argument("--vault", action="store_true", help="the library is a vault")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}")
    operations = arguments.what or OPERATIONS
    rounds = kill_test(arguments.kills, arguments.seed, operations, arguments.log, arguments.vault)
    table(rounds)
    sys.exit(1 if any(r["wrong"] for r in rounds) else 0)


if __name__ == "__main__":
    main()
