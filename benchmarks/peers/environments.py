"""Makes the environments of the peers, each in a folder of its own, none of it part of localrag.

    python benchmarks/peers/environments.py ENVIRONMENTS [--wheels DIR] [--only NAME ...]

What goes in stands in `requirements/`. llama-cpp-python has no binary on the public index: it is
compiled once, by the first environment (minutes), and taken from pip's cache by the others; with
`--wheels`, a folder that has it as a wheel, it is not compiled at all. About 3.5 GB in all.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
PEERS = ("langchain", "llamaindex", "txtai", "raglite")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("environments", type=Path)
    parser.add_argument("--wheels", type=Path, help="folder with a wheel of llama-cpp-python")
    parser.add_argument("--only", nargs="*", default=list(PEERS), choices=PEERS)
    arguments = parser.parse_args()
    for name in arguments.only:
        folder = arguments.environments / name
        print(f"{name} ...", flush=True)
        if not python_of(folder).exists():
            venv.create(folder, with_pip=True)
        command = [str(python_of(folder)), "-m", "pip", "install", "--quiet"]
        if arguments.wheels:
            command += ["--find-links", str(arguments.wheels.resolve())]
        for file in ("common", name):
            command += ["-r", str(HERE / "requirements" / f"{file}.txt")]
        if subprocess.run(command, check=False).returncode:
            sys.exit(f"{name}: pip failed, its message stands above. Run the same command again.")


def python_of(environment: Path) -> Path:
    """The Python of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


if __name__ == "__main__":
    main()
