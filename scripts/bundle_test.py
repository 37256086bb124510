"""Install a bundle where there is nothing but Python, without a network, and use it.

    python scripts/bundle_test.py BUNDLE
    python scripts/bundle_test.py BUNDLE --to FOLDER --steps install,add

Takes the network away (a namespace with loopback only, on Linux; elsewhere says that it stays),
sets HOME and all folders of the user to empty ones and PATH to a folder without any program, runs
the bundle's own install.py, then adds the samples, asks a question in each language and evaluates
two. Prints times and sizes, and how many packets found no way out, which must be none. With --to,
a second run goes on with what the first has installed.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from localrag.bundle import packing  # noqa: E402 - imports nothing but Python's
from localrag.cli.namespace import enter, lost_packets  # noqa: E402 - the same

STEPS = ("verify", "install", "again", "add", "search", "ask", "self-rag", "eval")
QUESTIONS = ("感知机是谁在哪一年提出的？", "What was ELIZA, and who wrote it?")


class Run:
    """The steps in order, with their times."""

    def __init__(self, there: Path, home: Path, before: Sequence[str]) -> None:
        self.there = there
        self.before = list(before)
        self.times: list[tuple[str, float]] = []
        nothing = home / "no programs"
        for folder in (home, nothing):
            folder.mkdir(parents=True, exist_ok=True)
        kept = ("SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "LOCALRAG_LANG", "LANG", "LC_ALL")
        self.environment = {name: os.environ[name] for name in kept if name in os.environ}
        self.environment |= {"PATH": str(nothing), "HOME": str(home), "USERPROFILE": str(home)}
        for name in ("APPDATA", "LOCALAPPDATA", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
            self.environment[name] = str(home / name)
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR"):
            self.environment[name] = str(home / name)

    def step(self, title: str, command: Sequence[str], model: bool = False) -> None:
        """Run and time a command; end here if it fails. `model`: it loads a language model."""
        print(f"\n── {title}\n$ {shlex.join(command)}", flush=True)
        started = time.monotonic()
        before = self.before if model else []
        done = subprocess.run([*before, *command], env=self.environment, check=False)
        self.times.append((title, time.monotonic() - started))
        if done.returncode:
            sys.exit(f"{title}: exit code {done.returncode}")

    def localrag(self, title: str, *words: str, model: bool = False) -> None:
        """Run a command of what was installed."""
        name = "localrag.bat" if os.name == "nt" else "localrag"
        self.step(title, [str(self.there / "bin" / name), *words], model)


def main() -> None:
    """Run the chosen steps and print what they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--base", type=Path, help="the bundle that a delta builds upon")
    parser.add_argument("--to", type=Path, help="where to install; else a folder that is deleted")
    parser.add_argument("--steps", default=",".join(STEPS), help="some of " + ",".join(STEPS))
    parser.add_argument("--before", default="", help="put before what loads the language model")
    options = parser.parse_args()
    steps = options.steps.split(",")
    if set(steps) - set(STEPS):
        parser.error(f"--steps: some of {','.join(STEPS)}")
    try:
        enter()
        alone = True
        print("The network is away: loopback only.")
    except OSError as error:
        alone = False
        print(f"The network stays ({error}).")
    with tempfile.TemporaryDirectory() as scratch:
        there = (options.to or Path(scratch, "there")).absolute()
        home = there.with_name(f"{there.name} home")
        run = Run(there, home, shlex.split(options.before))
        use(run, options.bundle.absolute(), options.base, steps)
        report(run, options.bundle, lost_packets() if alone else None)


def use(run: Run, bundle: Path, base: Path | None, steps: Sequence[str]) -> None:
    """The steps themselves."""
    program = bundle / packing.PROGRAM
    if not bundle.is_dir():
        program = run.there.with_name(f"{run.there.name} {packing.PROGRAM}")
        program.unlink(missing_ok=True)
        packing.pack(program)
    more = ["--base", str(base.absolute())] if base else []
    install = [sys.executable, "-I", str(program), str(bundle), "--to", str(run.there), *more]
    samples = [str(path) for path in sorted((ROOT / "data").glob("*.*")) if path.suffix != ".json"]
    if "verify" in steps:
        run.step("Verify", [*install, "--verify-only"])
    if "install" in steps:
        run.step("Install", [*install, "--yes"])
    if "again" in steps:
        run.step("Install again", [*install, "--yes"])
    if "add" in steps:
        run.localrag("Add the samples", "add", *samples)
    if "search" in steps:
        run.localrag("Search", "search", QUESTIONS[1])
    if "ask" in steps:
        for question in QUESTIONS:
            run.localrag(f"Ask: {question}", "ask", question, model=True)
    if "self-rag" in steps:
        run.localrag("Self-RAG", "ask", "--mode", "self-rag", QUESTIONS[0], model=True)
    if "eval" in steps:
        values = str(ROOT / "data" / "val.json")
        words = ("eval", "run", values, "--questions", "2", "--no-judge")
        run.localrag("Evaluate two questions", *words, model=True)


def report(run: Run, bundle: Path, lost: int | None) -> None:
    """Times, sizes, and whether anything wanted to leave."""
    print("\n── Time")
    for title, seconds in run.times:
        print(f"{seconds:8.1f} s  {title}")
    print("\n── Size")
    for title, path in (
        ("Bundle", bundle),
        ("Packages, installed", run.there / "venv"),
        ("Models, installed", run.there / "models"),
    ):
        print(f"{size_of(path) / 1e6:8.0f} MB {title}")
    record = run.there / "installed.json"
    if record.is_file():
        print(f"localrag {json.loads(record.read_text('utf-8'))['localrag']}")
    if lost is not None:
        print(f"\n{lost} packets found no way out.")
        if lost:
            sys.exit(1)


def size_of(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    files = [path] if path.is_file() else [one for one in path.rglob("*") if not one.is_symlink()]
    return sum(one.stat().st_size for one in files if one.is_file())


if __name__ == "__main__":
    main()
