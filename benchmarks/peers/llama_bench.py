"""Decode and prefill beside llama.cpp's own `llama-bench`, built from the same sources.

    python benchmarks/peers/llama_bench.py build FOLDER
    python benchmarks/peers/llama_bench.py run FOLDER MODEL.gguf [--runs 5]

The sources are those inside llama-cpp-python's package, of the version that localrag runs with;
they are compiled as it compiles them (Release, for this processor; minutes), with cmake and ninja
from the package index. Then `llama-bench` and `benchmarks/llm_speed.py` take turns: the same
model, threads, batch and length of prompt, decoding behind the prompt. What was
measured stands in FOLDER; a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tarfile
import venv
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from compare import append, read_results
from environments import python_of

SPEED = Path(__file__).resolve().parents[1] / "llm_speed.py"
DECODED = 16
"""Tokens, as `llm_speed.py` has it."""
OPTIONS = (
    *("-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF"),
    *("-DLLAMA_BUILD_TESTS=OFF", "-DLLAMA_BUILD_EXAMPLES=OFF", "-DLLAMA_BUILD_SERVER=OFF"),
    *("-DLLAMA_BUILD_TOOLS=ON", "-DLLAMA_BUILD_APP=OFF"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="what", required=True)
    build = commands.add_parser("build")
    build.add_argument("folder", type=Path)
    build.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    run = commands.add_parser("run")
    run.add_argument("folder", type=Path)
    run.add_argument("model", type=Path)
    run.add_argument("--runs", type=int, default=5)
    run.add_argument("--tokens", type=int, default=256, help="length of the prompt")
    run.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    run.add_argument("--batches", type=int, nargs="*", default=[64, 512])
    arguments = parser.parse_args()
    if arguments.what == "build":
        _build(arguments.folder, arguments.jobs)
        return
    name = f"{arguments.model.stem}-{arguments.tokens}-{arguments.threads}.jsonl"
    results = arguments.folder / name
    _run(arguments, results)
    for line in table(read_results(results)):
        print(line)


def _build(folder: Path, jobs: int) -> None:
    name = f"llama_cpp_python-{version('llama-cpp-python')}"
    tools = folder / "tools"
    if not python_of(tools).exists():
        venv.create(tools, with_pip=True)
    pip = [str(python_of(tools)), "-m", "pip"]
    subprocess.run([*pip, "install", "--quiet", "cmake", "ninja"], check=True)
    if not (folder / name).exists():
        package = name.replace("_", "-").replace("python-", "python==")
        wanted = ["--no-deps", "--no-binary", "llama-cpp-python", "--dest", str(folder), package]
        subprocess.run([*pip, "download", "--quiet", *wanted], check=True)
        with tarfile.open(folder / f"{name}.tar.gz") as archive:
            archive.extractall(folder, filter="data")
    sources = folder / name / "vendor" / "llama.cpp"
    path = os.pathsep.join([str(python_of(tools).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path}
    cmake = str(python_of(tools).parent / "cmake")
    made = folder / "build"
    for command in (
        [cmake, "-S", str(sources), "-B", str(made), *OPTIONS],
        [cmake, "--build", str(made), "--target", "llama-bench", "-j", str(jobs)],
    ):
        subprocess.run(command, check=True, env=environment)


def _run(arguments: argparse.Namespace, results: Path) -> None:
    done = {(each["run"], each["batch"], each["tool"]) for each in read_results(results)}
    for run in range(arguments.runs):
        for batch in arguments.batches:
            for tool in TOOLS if run % 2 == 0 else reversed(TOOLS):
                if (run, batch, tool.__name__) in done:
                    continue
                line: dict[str, Any] = {
                    "run": run,
                    "batch": batch,
                    "tool": tool.__name__,
                    "threads": arguments.threads,
                    "tokens": arguments.tokens,
                    "model": arguments.model.name,
                    "load": round(os.getloadavg()[0], 2),
                }
                line["prefill"], line["decode"] = tool(arguments, batch)
                append(results, line)


def llama_bench(arguments: argparse.Namespace, batch: int) -> tuple[float, float]:
    """Tokens a second of prefill and of decode."""
    program = arguments.folder / "build" / "bin" / "llama-bench"
    common = ["-m", arguments.model, "-t", arguments.threads, "-b", batch, "-ub", batch]
    found = []
    for test in (
        ["-p", arguments.tokens, "-n", 0],
        ["-p", 0, "-n", DECODED, "-d", arguments.tokens],
    ):
        command = [program, *common, *test, "-r", 2, "-o", "json"]
        done = subprocess.run(
            [str(word) for word in command], check=True, capture_output=True, text=True
        )
        found.append(max(json.loads(done.stdout)[0]["samples_ts"]))
    return found[0], found[1]


def localrag(arguments: argparse.Namespace, batch: int) -> tuple[float, float]:
    """The same of localrag's context; both take the better of two."""
    command = [sys.executable, SPEED, arguments.model, "--tokens", arguments.tokens]
    command += ["--threads", arguments.threads, "--batches", batch]
    done = subprocess.run(
        [str(word) for word in command], check=True, capture_output=True, text=True
    )
    _, _, prefill, decode = done.stdout.splitlines()[-1].split()
    return float(prefill), float(decode)


TOOLS = (llama_bench, localrag)


def table(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Markdown: the median of the runs with the lowest and the highest, tokens a second."""
    yield "| batch | | prefill | decode | load before |"
    yield "|---|---|---|---|---|"
    for batch in sorted({each["batch"] for each in results}):
        for tool in TOOLS:
            lines = [
                each for each in results if each["batch"] == batch and each["tool"] == tool.__name__
            ]
            if not lines:
                continue
            cells = []
            for what in ("prefill", "decode", "load"):
                values = [each[what] for each in lines]
                middle = statistics.median(values)
                cells.append(f"{middle:.1f} ({min(values):.1f} to {max(values):.1f})")
            yield f"| {batch} | {tool.__name__.replace('_', '-')} | {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
