"""Set up, pull the small models that the tests use, and run them.

    python3 scripts/test.py                 all but those that start a database, browser or program
    python3 scripts/test.py --changed       of these, those of the rooms that differ from main, and
                                            of the rooms above them; --changed=REF
    python3 scripts/test.py --all           every test
    python3 scripts/test.py tests/text      some; any arguments of pytest

Only the models are pulled that the chosen tests name (`@pytest.mark.models`).
Without arguments of pytest, as many tests run at a time as there are cores, those of a file one
after the other. On Linux they run in a network namespace of their own that has loopback and nothing
else, where the system allows one: what needs the network fails there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from environment import ROOT, finds_compiler, models_folder, ready

PRESETS = ["starter", "test"]
QUICK = ["-m", "not (postgres or browser or process)"]
"""`tests/choosing.py` sets these marks."""
WORKERS = ["-n", "logical", "--maxprocesses", "8", "--dist", "loadfile"]
WORKERS += ["--no-loadscope-reorder", "--durations", "25"]
"""A file stays with one worker, which makes its models and servers once; each takes up to 2 GB.
In their own order, not those of most tests first: benchmarks and bundles begin, text comes last."""


def main() -> None:
    """Exit with pytest's code."""
    if finds_compiler() and "LOCALRAG_PREBUILT" not in os.environ:  # our own build is tested
        os.environ["LOCALRAG_COMPILE"] = "1"
    python, chosen = str(ready("dev")), sys.argv[1:]
    environment = os.environ | {"LOCALRAG_MODELS": str(models_folder())}
    workers: list[str] = []
    if chosen == ["--all"] or all(word.startswith("--changed") for word in chosen):
        chosen = [] if chosen == ["--all"] else [*chosen, *QUICK]
        workers = list(WORKERS)
        environment.setdefault("OMP_NUM_THREADS", "1")  # the cores are taken by the workers

    def run(*command: str) -> None:
        done = subprocess.run([python, *command], env=environment, cwd=ROOT, check=False)
        if done.returncode:
            sys.exit(done.returncode)

    if wanted := _needed(python, chosen) if chosen else PRESETS:
        run("-m", "localrag", "models", "pull", *wanted)
    # A worker's folders lie one deeper: a short name keeps paths as long as without workers.
    with tempfile.TemporaryDirectory(prefix="t", ignore_cleanup_errors=True) as folder:
        workers += ["--basetemp", folder] if workers else []
        run(str(ROOT / "scripts" / "offline.py"), python, "-m", "pytest", *workers, *chosen)


def _needed(python: str, chosen: list[str]) -> list[str]:
    """The models of the tests that pytest chooses; exits where it can choose none."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder) / "models.txt"
        command = [python, "-m", "pytest", "-q", "--list-models", str(listed), *chosen]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        if done.returncode:
            sys.stderr.buffer.write(done.stdout + done.stderr)
            sys.exit(done.returncode)
        return listed.read_text("utf-8").split() if listed.exists() else []


if __name__ == "__main__":
    main()
