"""`localrag eval run` killed at random moments and resumed, beside a run that was left alone.

    python benchmarks/eval_resume.py QUESTIONS.jsonl DOCUMENTS --questions 3 --kills 4

Both produce the answers and judge them, with the models of your settings, each with a cache of
its own. The killed one gets SIGKILL after a random part of what the other one took; the outcomes
that its cache holds by then are shown, and none of them is computed again. In the end the two
reports must be equal but for the seconds.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("dataset", type=Path)
    parser.add_argument("documents", type=Path)
    parser.add_argument("--questions", type=int, default=3)
    parser.add_argument("--kills", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    generator = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        command = [sys.executable, "-m", "localrag", "eval", "run", str(arguments.dataset)]
        command += ["--documents", str(arguments.documents), "--json"]
        command += ["--questions", str(arguments.questions), "--cache"]
        started = time.monotonic()
        whole = subprocess.run([*command, base / "whole"], check=True, capture_output=True)
        seconds = time.monotonic() - started
        print(f"uninterrupted: {seconds:.0f} s, {kept(base / 'whole')} outcomes", flush=True)
        kills = 0
        while kills < arguments.kills:
            after = generator.uniform(0.1, 0.6) * seconds
            process = subprocess.Popen(
                [*command, base / "killed"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                process.wait(after)
                print(f"it ended before {after:.0f} s", flush=True)
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                print(f"killed after {after:.0f} s: {kept(base / 'killed')} outcomes", flush=True)
        resumed = subprocess.run([*command, base / "killed"], check=True, capture_output=True)
        print(f"resumed: {kept(base / 'killed')} outcomes", flush=True)
        one, other = (timeless(json.loads(done.stdout)) for done in (whole, resumed))
        print("the same numbers" if one == other else "DIFFERENT", f"after {kills} kills")
        sys.exit(one != other or not kills)


def kept(cache: Path) -> int:
    """Outcomes in a cache."""
    with sqlite3.connect(cache / "calls.sqlite") as connection:
        return int(connection.execute("SELECT count(*) FROM calls").fetchone()[0])


def timeless(value: Any) -> Any:
    """A report without its times."""
    if isinstance(value, dict):
        return {
            name: timeless(one)
            for name, one in value.items()
            if name not in ("seconds", "judge_seconds")
        }
    return [timeless(one) for one in value] if isinstance(value, list) else value


if __name__ == "__main__":
    main()
