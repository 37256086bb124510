"""Makes the environments of the peers, each in a folder of its own, none of it part of localrag.

    python benchmarks/peers/environments.py ENVIRONMENTS [--wheels DIR] [--torch-index URL]

What goes in stands in `requirements/`. llama-cpp-python has no binary on the public index: it is
compiled once, by the first environment (minutes), and taken from pip's cache by the others; with
`--wheels`, a folder that has it as a wheel, it is not compiled at all. txtai wants torch:
`--torch-index` is an index of its CPU builds, as `TORCH_CPU_INDEX` in `scripts/environment.py`.
About 3.5 GB in all.
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
    parser.add_argument("--torch-index", help="index of torch's CPU builds")
    parser.add_argument("--only", nargs="*", default=list(PEERS), choices=PEERS)
    arguments = parser.parse_args()
    for name in arguments.only:
        folder = arguments.environments / name
        print(f"{name} ...", flush=True)
        if not python_of(folder).exists():
            venv.create(folder, with_pip=True)
        pip = [str(python_of(folder)), "-m", "pip", "install", "--quiet"]
        if arguments.wheels:
            pip += ["--find-links", str(arguments.wheels.resolve())]
        files = [HERE / "requirements" / f"{each}.txt" for each in ("common", name)]
        wanted = [word for file in files for word in ("-r", str(file))]
        torch = next((w for w in files[1].read_text("utf-8").split() if w.startswith("torch=")), "")
        if torch and arguments.torch_index:
            _install([*pip, torch, "--index-url", arguments.torch_index], name)
        _install([*pip, *wanted], name)


def _install(command: list[str], name: str) -> None:
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"{name}: pip failed, its message stands above. Run the same command again.")


def python_of(environment: Path) -> Path:
    """The Python of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


if __name__ == "__main__":
    main()
