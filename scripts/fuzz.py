"""Feed damaged and hostile inputs to everything that reads what may come from anybody.

    python scripts/fuzz.py --count 500 --seed 7
    python scripts/fuzz.py --count 20000 --only pdf --only html --state fuzzing

Every input is a seeded mutation of a sample. One process reads them one after another, under the
limits of the process that reads documents for users. Wrong is: another exception than the one
that says what is wrong with the input, and, where the product reads in its own process, a crash,
more than the time, or more than the memory. Parsers may crash or fill the memory: then the very
input goes through `documents.worker.ParsingProcess`, as does one in every --through of all, and
must come out as a document or as a clear error. With --state, a run that was stopped goes on
where it was. Exit code 1 if anything is wrong; such inputs are kept in the state's folder.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

sys.path.insert(0, str(Path(__file__).resolve().parent))

from fuzz_inputs import TARGETS, Case, mutate

from localrag.documents.formats.table import Limits
from localrag.documents.worker import ParsingProcess
from localrag.errors import LocalragError, ParsingError
from localrag.system.confinement import limit_memory

SECONDS, MEMORY = 20.0, 2**30
"""Limits of a run, far below those that users get: the inputs are small. Processor seconds,
because the machine may be busy with other things."""

LOADING = 60.0
"""Seconds until the first result: a process has much to load."""

CONTAINED = ("CRASH", "HANG", "MemoryError")
"""What may happen to a parser, and what must then not happen to who asked it to read."""


@dataclass(frozen=True, slots=True)
class Line:
    """What came of one input; `seconds` are the processor's."""

    number: int
    outcome: str
    seconds: float


def samples(target: str, state: Path) -> list[bytes]:
    """What is mutated; kept, because some samples differ each time they are made."""
    folder = state / f"{target}-samples"
    if not folder.is_dir():
        part = state / f"{target}-samples.part"
        part.mkdir(parents=True, exist_ok=True)
        for number, data in enumerate(TARGETS[target].samples()):
            (part / f"{number:03}").write_bytes(data)
        part.rename(folder)
    return [path.read_bytes() for path in sorted(folder.iterdir())]


def make(target: str, seed: int, number: int, seeds: list[bytes]) -> tuple[bytes, random.Random]:
    """One input, and what draws further lots for it."""
    draw = random.Random(f"{target} {seed} {number}")
    wanted = TARGETS[target]
    return mutate(draw, seeds, fixed=wanted.fixed, zipped=wanted.zipped), draw


def results(path: Path) -> list[Line]:
    """What is known already; the last line may be cut short."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")[:-1]
    cells = [line.split("\t", 2) for line in lines]
    return [Line(int(one[0]), one[2], float(one[1])) for one in cells if len(one) == 3]


def write(file: TextIO, number: int, outcome: str, seconds: float) -> None:
    """Note a result, on one line."""
    plain = "".join(c if c.isprintable() else "?" for c in outcome)[:300]
    file.write(f"{number}\t{seconds:.4f}\t{plain}\n")
    file.flush()


# The process that reads


def child(target: str, seed: int, first: int, last: int, state: Path) -> None:
    """Read inputs `first` to `last`, and note what came of each."""
    wanted, seeds = TARGETS[target], samples(target, state)
    with (
        tempfile.TemporaryDirectory(prefix="localrag-fuzz-") as folder,
        (state / f"{target}-{seed}.tsv").open("a", encoding="utf-8") as file,
    ):
        for number in range(first, last):
            data, draw = make(target, seed, number, seeds)
            limit_memory(MEMORY + 4 * len(data))
            started = time.process_time()
            try:
                outcome = wanted.read(Case(data, Path(folder), draw, seeds)) or "read"
            except LocalragError as error:
                outcome = type(error).__name__
            except MemoryError:
                outcome = "MemoryError"
            except Exception as error:
                outcome = f"WRONG {type(error).__name__}: {error}"
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise
                outcome = f"WRONG {type(error).__name__}: {error}"
            write(file, number, outcome, time.process_time() - started)


def read_all(target: str, seed: int, count: int, state: Path) -> list[Line]:
    """Have all inputs read; a process that ends or hangs is replaced behind its last input."""
    path = state / f"{target}-{seed}.tsv"
    while len(known := results(path)) < count:
        command = [sys.executable, "-X", "faulthandler", __file__, "--child", target]
        command += [str(n) for n in (seed, len(known), count)]
        with (state / f"{target}-errors.txt").open("w+b") as errors:
            process = subprocess.Popen([*command, str(state)], stderr=errors)
            reason = watch(process, path, TARGETS[target].patience)
            errors.seek(0)
            said = errors.read().decode(errors="replace")
        known = results(path)
        if len(known) < count:
            if not reason and process.returncode > 0:
                raise RuntimeError(f"the reading process failed: {said[-2000:]}")
            name = reason or f"CRASH {signal.Signals(-process.returncode).name}"
            (state / f"{target}-{seed}-{len(known)}-errors.txt").write_text(said, encoding="utf-8")
            with path.open("a", encoding="utf-8") as file:
                write(file, len(known), name, SECONDS if reason else 0.0)
    return known[:count]


def watch(process: subprocess.Popen[bytes], path: Path, patience: float = 300.0) -> str:
    """Wait for the process; why it was ended, "" if it was not."""
    import psutil

    size, heard, used = -1, time.monotonic(), 0.0
    results_at_first = path.stat().st_size if path.exists() else 0
    pause = 0.02
    while process.poll() is None:
        time.sleep(pause)
        pause = min(0.5, 2 * pause)
        with suppress(psutil.Error, OSError):
            times = psutil.Process(process.pid).cpu_times()
            now = path.stat().st_size if path.exists() else 0
            if now != size:
                size, heard, used = now, time.monotonic(), times.user + times.system
            elif times.user + times.system - used > SECONDS:
                process.kill()
                process.wait()
                return "HANG"
            elif time.monotonic() - heard > (patience if now > results_at_first else LOADING):
                process.kill()
                process.wait()
                return "HANG without work"
    return ""


# The product's own way


def through_product(
    target: str, seed: int, lines: list[Line], every: int, state: Path
) -> Iterator[tuple[int, str]]:
    """Give odd inputs, and one in `every`, to the process that reads for users."""
    path = state / f"{target}-{seed}-product.tsv"
    done = {line.number: line.outcome for line in results(path)}
    seeds = samples(target, state)
    process = ParsingProcess(limits=Limits(longest=120.0, memory=MEMORY))
    try:
        with path.open("a", encoding="utf-8") as file:
            for line in lines:
                odd = line.outcome.startswith((*CONTAINED, "WRONG"))
                if not odd and (line.number + 1) % every:
                    continue
                if line.number not in done:
                    data, _ = make(target, seed, line.number, seeds)
                    started = time.monotonic()
                    done[line.number] = ask(process, Path(f"a{TARGETS[target].suffix}"), data)
                    write(file, line.number, done[line.number], time.monotonic() - started)
                yield line.number, done[line.number]
    finally:
        process.close()


def ask(process: ParsingProcess, path: Path, data: bytes) -> str:
    """What a user would be told."""
    try:
        process(path, data)
    except ParsingError as error:
        reason = str(error.values.get("reason", ""))
        if error.message.startswith("{source} cannot be read") and "MemoryError" not in reason:
            return f"WRONG {error}"  # the name of an exception is no clear error
        return "given up" if "given up" in error.message else type(error).__name__
    except Exception as error:
        return f"WRONG {type(error).__name__}: {error}"
    return "read"


# The report


def fuzz(target: str, count: int, seed: int, every: int, state: Path) -> int:
    """Run one target; prints what came of it and returns how much was wrong."""
    started = time.monotonic()
    lines = read_all(target, seed, count, state)
    contained = bool(TARGETS[target].suffix)
    product = dict(through_product(target, seed, lines, every, state)) if contained else {}
    wrong: Counter[str] = Counter()
    seeds = samples(target, state)
    for line in lines:
        bad = line.outcome.startswith("WRONG")
        bad = bad or (not contained and line.outcome.startswith(CONTAINED))
        if bad or product.get(line.number, "").startswith("WRONG"):
            wrong[product.get(line.number, "") if not bad else line.outcome] += 1
            (state / "wrong").mkdir(exist_ok=True)
            data, _ = make(target, seed, line.number, seeds)
            (state / "wrong" / f"{target}-{seed}-{line.number}").write_bytes(data)
    seconds = sum(line.seconds for line in lines)
    tally = Counter(line.outcome.partition(":")[0] for line in lines)
    counts = ", ".join(f"{name} {number}" for name, number in tally.most_common())
    print(
        f"{target}: {count} inputs, {seconds:.0f} s of processor time, slowest "
        f"{max(line.seconds for line in lines):.2f} s, {time.monotonic() - started:.0f} s now: "
        f"{counts}; {wrong.total()} wrong",
        flush=True,
    )
    if contained:
        counts = ", ".join(f"{name} {n}" for name, n in Counter(product.values()).most_common())
        print(f"  {len(product)} of them through the product: {counts}", flush=True)
    for outcome, number in wrong.most_common(20):
        print(f"  {number} x {outcome!r}", flush=True)
    return wrong.total()


def main() -> None:
    """Parse the command line; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--only", action="append", choices=TARGETS, help="default: all")
    parser.add_argument("--through", type=int, default=50, help="one in so many, as users would")
    parser.add_argument("--state", type=Path, help="folder to go on from, and for what is wrong")
    parser.add_argument("--child", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        target, seed, first, last, state = arguments.child
        child(target, int(seed), int(first), int(last), Path(state))
        return
    state = arguments.state or Path(tempfile.mkdtemp(prefix="localrag-fuzzing-"))
    state.mkdir(parents=True, exist_ok=True)
    print(f"seed {arguments.seed}, state in {state}", flush=True)
    wrong = sum(
        fuzz(target, arguments.count, arguments.seed, arguments.through, state)
        for target in arguments.only or TARGETS
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
