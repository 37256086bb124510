"""localrag's evaluation beside that of ragas: the same samples, the same local judge.

    python benchmarks/ragas_comparison.py environment FOLDER
    python benchmarks/ragas_comparison.py samples DATA SAMPLES.jsonl
    python benchmarks/ragas_comparison.py run TOOL SAMPLES.jsonl OUT.jsonl --ragas FOLDER
    python benchmarks/ragas_comparison.py summary SAMPLES.jsonl OUT.jsonl

`environment` makes a virtual environment with ragas; localrag needs none of it. DATA holds
xquad_en and cmrc2018; what is known of the samples is told in `ragas_samples.py`. TOOL is

- `ragas`: `ragas.evaluate` with its four metrics, its own prompts, retries and temperatures,
- `ragas-collections`: its newer interface, which asks the server for JSON,
- `localrag`: localrag's metrics over the same server, its verdicts written under a schema,
- `localrag-process`: the same with the model in the process, its verdicts read from the logits.

The server is llama-cpp-python's own, on this machine, started and stopped by `run`, with one
context of 8192 tokens whose longest common beginning with the next prompt is re-used. Between it
and both tools stands a proxy that counts requests and tokens, and answers requests for embeddings
with localrag's, so that both compare the same vectors. A score is a line of OUT as soon as it
stands; a run that was stopped goes on where it was, and `--minutes` stops one in time. It goes
metric by metric, so that the prompts of one metric stand behind each other in the cache.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from ragas_endpoint import WINDOW, Counting, Proxy, Spent, served
from ragas_samples import build

from localrag import factory
from localrag.config.settings import Settings
from localrag.evaluation.dataset import read_dataset
from localrag.evaluation.judging.judge import Judge
from localrag.evaluation.metric import Response
from localrag.evaluation.scoring import Scorer
from localrag.evaluation.statistics import bootstrap_interval
from localrag.models.embeddings.base import Embedder
from localrag.models.llms.choices import LogitChooser

TOOLS = ("ragas", "ragas-collections", "localrag", "localrag-process")
METRICS = ("faithfulness", "context_recall", "context_precision", "answer_relevancy")
HERE = Path(__file__).parent
RESAMPLES = 2000


@dataclass(frozen=True)
class Found:
    """One score, None where the tool has none, with what it says about that."""

    value: float | None
    why: str


Score = Callable[[str, dict[str, Any]], Found]
"""Metric and sample -> score."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="what", required=True)
    environment = commands.add_parser("environment")
    environment.add_argument("folder", type=Path)
    samples = commands.add_parser("samples")
    samples.add_argument("data", type=Path)
    samples.add_argument("out", type=Path)
    runner = commands.add_parser("run")
    runner.add_argument("tool", choices=TOOLS)
    runner.add_argument("samples", type=Path)
    runner.add_argument("out", type=Path)
    runner.add_argument("--ragas", type=Path, help="folder of the environment")
    runner.add_argument("--model", default="", help="a language model; otherwise the starter's")
    runner.add_argument("--metric", action="append", choices=METRICS)
    runner.add_argument("--first", type=int, help="only so many samples")
    runner.add_argument("--minutes", type=float, default=1e9, help="start nothing new after these")
    runner.add_argument("--threads", type=int, default=os.cpu_count())
    runner.add_argument("--ram-cache", action="store_true", help="the server's cache of states")
    summary = commands.add_parser("summary")
    summary.add_argument("samples", type=Path)
    summary.add_argument("out", type=Path)
    summary.add_argument("--first", type=int, help="only so many samples")
    arguments = parser.parse_args()
    match arguments.what:
        case "environment":
            make_environment(arguments.folder)
        case "samples":
            rows = build(arguments.data)
            lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            arguments.out.write_text("".join(lines), encoding="utf-8")
        case "run":
            run(arguments)
        case "summary":
            summarise(read(arguments.samples)[: arguments.first], read(arguments.out))


def make_environment(folder: Path) -> None:
    """A virtual environment with ragas."""
    import venv

    venv.create(folder, with_pip=True)
    wanted = HERE / "ragas-requirements.txt"
    subprocess.run([python_of(folder), "-m", "pip", "install", "-r", wanted], check=True)


def python_of(folder: Path) -> Path:
    """The interpreter of an environment."""
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file; none where there is none yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


# -- run ----------------------------------------------------------------------------


def run(arguments: argparse.Namespace) -> None:
    """Every score that OUT does not hold yet, metric by metric."""
    # What ends this process ends the server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began = time.monotonic()
    rows = read(arguments.samples)[: arguments.first]
    done = {(row["tool"], row["metric"], row["id"]) for row in read(arguments.out)}
    left = [
        (metric, row)
        for metric in arguments.metric or METRICS
        for row in rows
        if (arguments.tool, metric, row["id"]) not in done
    ]
    if not left:
        return
    with opened(arguments) as (score, spent, processor), arguments.out.open("a") as out:
        for metric, row in left:
            if time.monotonic() - began > 60 * arguments.minutes:
                return
            before, busy, started = replace(spent), processor(), time.perf_counter()
            found = score(metric, row)
            after = {name: value - getattr(before, name) for name, value in asdict(spent).items()}
            result = {
                "tool": arguments.tool,
                "metric": metric,
                "id": row["id"],
                **asdict(found),
                "seconds": round(time.perf_counter() - started, 2),
                "processor": round(processor() - busy, 2),
                **after,
            }
            print(json.dumps(result, ensure_ascii=False), file=out, flush=True)
            print(result["tool"], metric, row["id"], found.value, result["seconds"], flush=True)


@contextmanager
def opened(
    arguments: argparse.Namespace,
) -> Iterator[tuple[Score, Spent, Callable[[], float]]]:
    """The tool at work, what it has spent, and the judge's processor seconds."""
    models = factory.make_models()
    embedder = factory.make_embedder(Settings(), models)
    name = arguments.model or Settings().llm.model
    if arguments.tool == "localrag-process":
        llm = {"backend": "llama.cpp", "model": name, "threads": arguments.threads}
        model = factory.make_model(msgspec.convert({"llm": llm}, Settings), models)
        counting = Counting(model.llm, model.scorer)
        yield (
            own(Judge(counting, LogitChooser(counting)), embedder),
            counting.spent,
            time.process_time,
        )
        model.close()
        return
    weights = models.path(name)
    with served(weights, arguments.threads, ram_cache=arguments.ram_cache) as (url, process):
        proxy = Proxy(url, embedder)

        def processor() -> float:
            times = process.cpu_times()
            return float(times.user + times.system)

        with proxy.running() as base_url:
            if arguments.tool == "localrag":
                llm = {
                    "backend": "openai",
                    "base_url": base_url,
                    "model": "judge",
                    "context_window": WINDOW,
                    "timeout_seconds": 900.0,
                }
                model = factory.make_model(msgspec.convert({"llm": llm}, Settings), models)
                yield own(Judge(model.llm, model.chooser), embedder), proxy.spent, processor
                model.close()
                return
            api = "collections" if arguments.tool == "ragas-collections" else "evaluate"
            with ragas(arguments.ragas, api, base_url) as score:
                yield score, proxy.spent, processor


def own(judge: Judge, embedder: Embedder) -> Score:
    """localrag's score of a metric; reasons are written as `localrag eval run` has them."""

    def score(metric: str, row: dict[str, Any]) -> Found:
        sample = samples_of(row)
        assert sample.answer is not None
        scored = Scorer(judge, embedder, [metric]).score(
            sample, Response(sample.answer, sample.contexts)
        )
        found = scored.scores[metric]
        return Found(found.value, "" if found.state == "scored" else found.state)

    return score


def samples_of(row: dict[str, Any]) -> Any:
    """A row as localrag reads it from a file."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.jsonl"
        path.write_text(json.dumps(row, ensure_ascii=False), encoding="utf-8")
        return read_dataset(path)[0]


@contextmanager
def ragas(folder: Path, api: str, base_url: str) -> Iterator[Score]:
    """ragas in its own environment; it hears of this machine's address only."""
    keep = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    process = subprocess.Popen(
        [python_of(folder), HERE / "ragas_worker.py", api, base_url, "judge"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=keep | {"RAGAS_DO_NOT_TRACK": "true", "PYTHONIOENCODING": "utf-8"},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    to, by = process.stdin, process.stdout
    print("ragas", json.loads(by.readline())["ready"], flush=True)

    def score(metric: str, row: dict[str, Any]) -> Found:
        asked = {"metric": metric, "reference": row["ground_truth"]} | {
            name: row[name] for name in ("question", "answer", "contexts")
        }
        print(json.dumps(asked, ensure_ascii=False), file=to, flush=True)
        return Found(**json.loads(by.readline()))

    try:
        yield score
    finally:
        to.close()
        process.wait(60)


# -- summary ------------------------------------------------------------------------


def summarise(samples: list[dict[str, Any]], results: list[dict[str, Any]]) -> None:
    """The tables: scores and agreement with the truth, then what they cost."""
    truth = {row["id"]: row["truth"] for row in samples}
    language = {row["id"]: row["language"] for row in samples}
    results = [row for row in results if row["id"] in truth]
    cells = {
        (tool, metric): [r for r in results if r["tool"] == tool and r["metric"] == metric]
        for metric in METRICS
        for tool in TOOLS
    }
    print("| metric | tool | samples | no score | mean | order | en | zh | error |")
    print("|---|---|---|---|---|---|---|---|---|")
    for (tool, metric), rows in cells.items():
        if not rows:
            continue
        known = [(r["value"], truth[r["id"]][metric], r["id"]) for r in rows]
        scored = [one for one in known if one[0] is not None]
        means = np.array([value for value, _, _ in scored])
        halves = [
            ordering([one for one in scored if language[one[2]] == each]) for each in ("en", "zh")
        ]
        print(
            f"| {metric} | {tool} | {len(rows)} | {len(rows) - len(scored)} | {interval(means)} | "
            f"{bootstrapped(scored)} | {halves[0]:.2f} | {halves[1]:.2f} | "
            f"{interval(np.array([abs(value - true) for value, true, _ in scored]))} |"
        )
    print("\n| metric | tool | calls | refused | tokens read | written | seconds | processor s |")
    print("|---|---|---|---|---|---|---|---|")
    columns = ("calls", "refused", "prompt_tokens", "completion_tokens", "seconds", "processor")
    for (tool, metric), rows in cells.items():
        if rows:
            sums = " | ".join(f"{sum(row[name] for row in rows):.0f}" for name in columns)
            print(f"| {metric} | {tool} | {sums} |")
    for row in results:
        if row["value"] is None:
            print("no score:", row["tool"], row["metric"], row["id"], row["why"][:200])


def interval(values: NDArray[np.float64]) -> str:
    """Mean and 95% bootstrap interval."""
    if not len(values):
        return "–"
    low, high = bootstrap_interval(values)
    return f"{values.mean():.2f} [{low:.2f}, {high:.2f}]"


Known = tuple[float, float, str]
"""Score, truth and id."""


def ordering(known: Sequence[Known]) -> float:
    """Of the pairs whose truth differs, the share that the scores put in that order; ties half.

    With two values of truth this is the area under the ROC curve. NaN where no pair differs.
    """
    scores = np.array([one[0] for one in known])
    truth = np.array([one[1] for one in known])
    higher = truth[:, None] > truth[None, :]
    above = scores[:, None] > scores[None, :]
    ties = scores[:, None] == scores[None, :]
    return float((above + ties / 2)[higher].mean()) if higher.any() else float("nan")


def bootstrapped(known: Sequence[Known]) -> str:
    """The order of scores with its 95% bootstrap interval over samples."""
    if not known:
        return "–"
    generator = np.random.default_rng(0)
    drawn = (generator.integers(len(known), size=len(known)) for _ in range(RESAMPLES))
    values = [ordering([known[place] for place in places]) for places in drawn]
    low, high = np.nanquantile(values, (0.025, 0.975))
    return f"{ordering(known):.2f} [{low:.2f}, {high:.2f}]"


if __name__ == "__main__":
    main()
