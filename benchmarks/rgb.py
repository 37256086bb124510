"""Noise and refusal on RGB (Chen et al. 2023, https://arxiv.org/abs/2309.01431).

    python benchmarks/rgb.py run RGB.jsonl OUT.jsonl --questions 0:50
    python benchmarks/rgb.py summary OUT.jsonl [--plot OUT.svg]

RGB.jsonl has a question a line, with passages that answer it (`positive`) and passages
that do not (`negative`). Each question is asked three times with five given passages: 3 + 2
(noise 0.4), 1 + 4 (noise 0.8) and 0 + 5 (noise 1.0), in a random but fixed order, with
standard RAG and with Self-RAG (strict). Nothing is retrieved. A question is a line of OUT as
soon as it is done, and a run that was stopped goes on where it was. Thresholds are set low
in the run and applied in the summary, so that one run shows the whole trade-off.

An answer is right if it holds every part of the reference answer. With noise 1.0
the only right reply is that the documents do not contain the answer.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from localrag import factory
from localrag.config.settings import Settings
from localrag.evaluation.statistics import bootstrap_interval
from localrag.presentation.plots import element, picture, text
from localrag.presentation.steps import decision
from localrag.rag.pipeline import Pipeline
from localrag.types import Answer, Chunk, Message, Place, ScoredChunk

NOISE = {"0.4": (3, 2), "0.8": (1, 4), "1.0": (0, 5)}
RUN = {
    "standard": {"answer": {"mode": "standard", "min_answerable": 0.3}},
    "self-rag": {
        "answer": {"mode": "self-rag", "strict": True, "min_answerable_strict": 0.4},
        "self_rag": {
            "min_relevance": 0.4,
            "min_partial_support": 0.2,
        },
    },
}
"""Thresholds of the run: low, so that the summary can raise them."""


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["run", "summary"])
    parser.add_argument("paths", type=Path, nargs="+")
    parser.add_argument("--questions", default="0:50")
    parser.add_argument("--plot", type=Path)
    arguments = parser.parse_args()
    if arguments.what == "run":
        run(*arguments.paths, arguments.questions)
    summarise(arguments.paths[-1], arguments.plot)


# -- run ----------------------------------------------------------------------------


def run(source: Path, out: Path, questions: str) -> None:
    """Ask every question in every way that OUT does not hold yet."""
    begin, end = map(int, questions.split(":"))
    items = [json.loads(line) for line in source.read_text("utf-8").splitlines()][begin:end]
    done = {row["id"] for row in rows(out)} if out.exists() else set()
    settings = Settings()
    model = factory.make_model(settings, factory.make_models())
    embedder = factory.make_embedder(settings, factory.make_models())
    given: list[ScoredChunk] = []

    def pipeline(mode: str) -> Pipeline:
        chosen = msgspec.convert(RUN[mode], Settings)
        remembering = replace(model, scorer=Remembering(model.scorer))
        return factory.make_pipeline(
            chosen,
            remembering,
            embedder,
            lambda _, k: given[:k],
            lambda *_: Place(0, number=1),
            factory.make_tokenizer(chosen),
            factory.make_wording(chosen),
        )

    ways = {mode: pipeline(mode) for mode in RUN}
    with out.open("a", encoding="utf-8") as file:
        for item in items:
            if item["id"] in done or len(item["positive"]) < 3 or len(item["negative"]) < 5:
                continue
            row: dict[str, Any] = {"id": item["id"], "reference": item["answer"]}
            for noise, (right, wrong) in NOISE.items():
                texts = item["positive"][:right] + item["negative"][:wrong]
                random.Random(item["id"]).shuffle(texts)
                given[:] = [passage(text) for text in texts]
                row[noise] = {mode: told(way, item["query"]) for mode, way in ways.items()}
            print(json.dumps(row, ensure_ascii=False), file=file, flush=True)
    model.close()


class Remembering:
    """A scorer that is asked the same only once: the three settings share passages."""

    def __init__(self, scorer: Any) -> None:
        self._score = cache(scorer.score_choices)

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        """As `ChoiceScorer`."""
        return np.asarray(self._score(tuple(messages), tuple(choices), keep=keep))


@cache
def passage(text: str) -> ScoredChunk:
    """A passage without a document around it."""
    number = random.Random(text).getrandbits(62)
    return ScoredChunk(Chunk(number, "rgb", 0, text, "", 1, 1, 0, len(text)), 1.0, "rgb")


def told(way: Pipeline, question: str) -> dict[str, Any]:
    """An answer with the grades that led to it."""
    *_, answer = way.stream(question)
    assert isinstance(answer, Answer)
    steps = [
        {"name": step.kind, "decision": decision(step, "en"), "score": step.score}
        for step in answer.trace
    ]
    metrics = msgspec.to_builtins(answer.metrics)
    return {
        "text": answer.text,
        "grounded": answer.grounded,
        "seconds": round(answer.seconds, 1),
        "steps": steps,
        "metrics": metrics,
    }


# -- summary ------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, Any]]:
    """What a run has written so far."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def right(row: dict[str, Any], text: str) -> bool:
    """Whether every part of the reference stands in the text; a part may have several forms."""
    plain = "".join(text.split()).casefold()
    return all(
        any("".join(form.split()).casefold() in plain for form in forms_of(part))
        for part in row["reference"]
    )


def forms_of(part: Any) -> list[str]:
    """The ways in which a part of a reference may be written."""
    return list(part) if isinstance(part, list) else [part]


def scores(told: dict[str, Any], name: str) -> list[float]:
    """All grades of one kind."""
    return [step["score"] for step in told["steps"] if step["name"] == name]


def confidence(mode: str, told: dict[str, Any]) -> dict[str, float]:
    """What the thresholds are compared with; -1 where an answer was never written."""
    if mode == "standard":
        found = scores(told, "relevance") or scores(told, "answerable")  # all together, for a list
        return {"answerable": max(found)}
    support = max(scores(told, "support"), default=-1.0)
    return {"relevance": max(scores(told, "relevance"), default=-1.0), "support": support}


def answered(mode: str, told: dict[str, Any], thresholds: dict[str, float]) -> bool:
    """Whether an answer is given at these thresholds."""
    found = confidence(mode, told)
    return told["grounded"] and all(found[name] >= thresholds[name] for name in found)


def summarise(path: Path, plot: Path | None) -> None:
    """Accuracy and refusal at the default thresholds and over all others."""
    results = rows(path)
    defaults = Settings()
    chosen = {
        "standard": {"answerable": defaults.answer.min_answerable},
        "self-rag": {
            "relevance": defaults.answer.min_answerable_strict,
            "support": defaults.self_rag.min_partial_support,
        },
    }
    print(f"{len(results)} questions; thresholds {chosen}")
    for half, part in (("even", 0), ("odd", 1), ("all", None)):
        some = [row for at, row in enumerate(results) if part is None or at % 2 == part]
        for mode, thresholds in chosen.items():
            print(f"  {half:5} {mode:9} {figures(some, mode, thresholds)}")
    for mode, thresholds in sweeps().items():
        print(f"{mode} over its thresholds")
        for each in thresholds:
            print(f"  {each}  {figures(results, mode, each)}")
    if plot:
        plot.write_text(trade_off(results), encoding="utf-8")


def sweeps() -> dict[str, list[dict[str, float]]]:
    """Thresholds from low to high."""
    return {
        "standard": [{"answerable": t} for t in (0.3, 0.5, 0.6, 0.7, 0.75, 0.8, 0.83, 0.85, 0.88)],
        "self-rag": [
            {"relevance": r, "support": s}
            for s in (0.2, 0.4, 0.5, 0.6)
            for r in (0.5, 0.6, 0.7, 0.75, 0.8, 0.82, 0.85, 0.87, 0.9)
        ],
    }


def figures(results: list[dict[str, Any]], mode: str, thresholds: dict[str, float]) -> str:
    """Accuracy with noise 0.4 and 0.8, refusal with noise 1.0, with 95% intervals."""
    said = []
    for noise in NOISE:
        values = np.array([value(row, noise, mode, thresholds) for row in results], dtype=float)
        low, high = bootstrap_interval(values)
        said.append(f"{'refused' if noise == '1.0' else 'right ' + noise} {values.mean():.3f}")
        said[-1] += f" [{low:.2f}, {high:.2f}]"
    return "  ".join(said)


def value(row: dict[str, Any], noise: str, mode: str, thresholds: dict[str, float]) -> bool:
    """Whether the reply was the right one."""
    told = row[noise][mode]
    given = answered(mode, told, thresholds)
    return not given if noise == "1.0" else given and right(row, told["text"])


def trade_off(results: list[dict[str, Any]]) -> str:
    """Refusal with noise 1.0 against accuracy with noise 0.4 and 0.8, as SVG."""
    width, height, edge = 460, 320, 50

    def place(x: float, y: float) -> tuple[float, float]:
        return edge + x * (width - 2 * edge), height - edge - y * (height - 2 * edge)

    parts = []
    for tick in (0.0, 0.25, 0.5, 0.75, 1.0):
        (x, bottom), (left, y) = place(tick, 0), place(0, tick)
        parts += [
            text(x, bottom + 16, f"{tick:g}", "middle"),
            text(left - 6, y + 4, f"{tick:g}", "end"),
        ]
        top, end = place(0, 1)[1], place(1, 0)[0]
        parts.append(element("path", d=f"M{x},{bottom}V{top}M{left},{y}H{end}", stroke="#ddd"))
    colours = {"standard": "#1f77b4", "self-rag": "#d62728"}
    for mode, sweep in sweeps().items():
        for each in sweep:
            refused = np.mean([value(row, "1.0", mode, each) for row in results])
            correct = np.mean(
                [value(row, noise, mode, each) for row in results for noise in ("0.4", "0.8")]
            )
            x, y = place(float(refused), float(correct))
            dot = element("circle", cx=x, cy=y, r=3.5, fill=colours[mode], fill_opacity=0.6)
            parts.append(dot)
    for at, (mode, colour) in enumerate(colours.items()):
        where = edge + 10, height - edge - 10 - 16 * at
        parts.append(text(*where, mode, "middle", fill=colour))
    parts.append(text(width / 2, height - 10, "refused, only irrelevant passages", "middle"))
    turned = f"rotate(-90 14 {height / 2})"
    parts.append(text(14, height / 2, "right, noise 0.4 and 0.8", "middle", transform=turned))
    return picture("RGB", width, height, parts, font_size=11).text


if __name__ == "__main__":
    main()
