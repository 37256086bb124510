"""Inject faults at every write of add, remove, rebuild and models pull, one after another.

    python scripts/fault_test.py
    python scripts/fault_test.py --only add --fault kill --every 7
    python scripts/fault_test.py --log faults.jsonl

For N = 1, 2, ... until the operation ends before its Nth write, each of: a disk that is full from
the Nth write on, one that fails at it, one that is read-only from then on, and a SIGKILL at it. The
second and the last come at the Nth call of each kind: write, fsync, rename, unlink and so on.
Writes are the system calls that change what is on disk, in Python and SQLite
alike (strace sees them all; Linux only). Afterwards the operation must have ended with a clear
error or as if nothing had been, the library must open, hold all that was reported, and be found
sound by `localrag check`, if need be after `localrag rebuild`, and the same operation must
complete. With --log, a run that was stopped goes on. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

import durability
from durability import OPERATIONS, Journal, asked, fork, reported
from injecting import FAULTS, NEVER, Fault, Injection, reason_not

DOCUMENTS, CHANGES = 6, 2


def one(what: str, fault: Fault, number: int, template: Path, base: Path) -> dict[str, Any]:
    """Run an operation with the fault at its Nth write, and look at what is left."""
    durability.fresh_copy(template, base)
    asked(durability.prepare, what, base, number, CHANGES)
    journal = Journal()
    process = fork(durability.operate, journal, what, base, 0.0, True)
    assert process.pid is not None
    injection = Injection(process.pid, fault, number)
    process.join()
    injected = injection.finish()
    lines = journal.lines()
    ends = [cells for cells in lines if cells[0] in ("finished", "refused", "broke")]
    end = ends[-1] if ends else ["killed"]
    wrong: list[str] = []
    if end[0] == "broke" or (not ends and fault.name != "kill"):
        wrong.append(f"traceback: {end} ({process.exitcode})")
    if injected.count:
        after = asked(
            durability.afterwards, what, base, reported(lines, what), end[0] == "finished"
        )
        wrong += [cells[1] for cells in after if cells[0] == "wrong"]
        wrong += [f"unopenable: {cells}" for cells in after if cells[0] in ("broke", "refused")]
        if ["finished"] not in after and not wrong:
            wrong.append("unopenable: looking at it ended the process")
    return {
        "what": what,
        "fault": fault.name,
        "calls": fault.calls,
        "number": number,
        "injected": injected.count,
        "first": injected.first,
        "end": end[0],
        "said": " ".join(end[1:3])[:300],
        "reported": len(reported(lines, what)),
        "wrong": wrong,
    }


def calls_of(what: str, template: Path, base: Path) -> Counter[str]:
    """How often an operation makes each kind of call."""
    durability.fresh_copy(template, base)
    asked(durability.prepare, what, base, 0, CHANGES)
    process = fork(durability.operate, Journal(), what, base, 0.0, True)
    assert process.pid is not None
    injection = Injection(process.pid, FAULTS[-1], NEVER)
    process.join()
    return injection.finish().calls


def run(
    operations: list[str], faults: list[Fault], every: int, log: Path | None
) -> list[dict[str, Any]]:
    """All rounds, those of an earlier run included."""
    rounds: list[dict[str, Any]] = []
    if log is not None and log.exists():
        rounds = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    known = {(r["what"], r["fault"], r["calls"], r["number"]): r for r in rounds}
    durability.warm_up()
    with tempfile.TemporaryDirectory(prefix="localrag-faults-") as name:
        # The same path for each copy: the library remembers where its files were.
        template, base = Path(name, "template"), Path(name, "base")
        asked(durability.begin, base, DOCUMENTS)
        durability.fresh_copy(base, template)
        for what in operations:
            counts = calls_of(what, template, base)
            for fault in [one for each in faults for one in each.each()]:
                # A sample need not find out that there is no further call.
                most = NEVER if fault.lasting or every == 1 else counts[fault.calls]
                number = 1
                while number <= most and (fault.lasting or counts[fault.calls]):
                    key = (what, fault.name, fault.calls, number)
                    if key not in known:
                        known[key] = one(what, fault, number, template, base)
                        rounds.append(known[key])
                        tell(known[key], log)
                    if not known[key]["injected"]:
                        break
                    number += every
    return rounds


def tell(result: dict[str, Any], log: Path | None) -> None:
    """Print a round, and keep it."""
    if log is not None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(result, ensure_ascii=False) + "\n")
    faults = [text for text in result["wrong"] if not text.startswith("mended")]
    state = f"{result['end']} {result['said']}" if result["injected"] else "no such write"
    at = f"{result['calls']} {result['number']}" if "," not in result["calls"] else result["number"]
    print(
        f"{result['what']}, {result['fault']} at {at}: {state}"
        f"{', WRONG ' + repr(faults) if faults else ''}",
        flush=True,
    )


def table(rounds: list[dict[str, Any]]) -> int:
    """Print what came of all rounds; returns how many went wrong."""
    cells: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for result in rounds:
        if result["injected"]:
            cell = cells[result["what"], result["fault"]]
            cell["faults"] += 1
            cell[result["end"]] += 1
            cell.update({text.partition(":")[0] for text in result["wrong"]})
    columns = ("faults", "finished", "refused", "killed", "broke", "mended")
    columns += ("lost", "ghost", "damaged", "unopenable")
    print(f"{'':24}" + "".join(f"{column:>11}" for column in columns))
    for (what, fault), cell in cells.items():
        print(f"{what + ', ' + fault:24}" + "".join(f"{cell[column]:11}" for column in columns))
    return sum(any(not w.startswith("mended") for w in r["wrong"]) for r in rounds)


def main() -> None:
    """Parse the command line; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--only", action="append", choices=OPERATIONS, help="default: all")
    parser.add_argument("--fault", action="append", choices=names, help="default: all")
    parser.add_argument("--every", type=int, default=1, help="one write in so many")
    parser.add_argument("--log", type=Path, help="file to go on from")
    arguments = parser.parse_args()
    if reason := reason_not():
        sys.exit(reason)
    wanted = [fault for fault in FAULTS if fault.name in (arguments.fault or names)]
    rounds = run(arguments.only or list(OPERATIONS), wanted, arguments.every, arguments.log)
    sys.exit(1 if table(rounds) else 0)


if __name__ == "__main__":
    main()
