"""What an 8-bit KV cache does to grades: the same questions and passages, f16 against q8_0.

    python benchmarks/kv_type.py RGB.jsonl --pairs 30

Prints for relevance, support and usefulness the mean and largest difference and how many
decisions at the default thresholds change, and the bytes of a state for each token.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from localrag import factory
from localrag.config.settings import Settings, load_settings
from localrag.models.llms.choices import LogitChooser
from localrag.models.llms.llama_cpp.model import LlamaCppModel
from localrag.rag.grading import Grader, Reading
from localrag.types import Chunk, ScoredChunk

KINDS = ("relevance", "support", "utility")


def main() -> None:
    """Grade with both and compare."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--pairs", type=int, default=30)
    arguments = parser.parse_args()
    items = [json.loads(line) for line in arguments.data.read_text("utf-8").splitlines()]
    pairs = [
        (item["query"], str(item["answer"][0]), item[side][0])
        for item in items[: arguments.pairs // 2]
        for side in ("positive", "negative")
    ]
    f16, q8 = grades(pairs, "f16"), grades(pairs, "q8_0")
    chosen = Settings().self_rag
    thresholds = (chosen.min_relevance, chosen.min_support, chosen.good_utility)
    for kind, column, threshold in zip(KINDS, range(len(KINDS)), thresholds, strict=True):
        one, other = f16[:, column], q8[:, column]
        changed = int(((one >= threshold) != (other >= threshold)).sum())
        print(
            f"{kind:10} mean difference {np.abs(one - other).mean():.4f}"
            f"  largest {np.abs(one - other).max():.4f}"
            f"  decisions changed at {threshold}: {changed} of {len(pairs)}"
        )


def grades(
    pairs: list[tuple[str, str, str]], kv_type: Literal["f16", "q8_0"]
) -> NDArray[np.float64]:
    """Relevance, support and usefulness of each pair, shape (pairs, 3)."""
    settings = load_settings()
    path = factory.make_models().path(settings.llm.model)
    rows = []
    with LlamaCppModel(path, context_window=4096, kv_type=kv_type) as model:
        grader = Grader(LogitChooser(model))
        for question, answer, text in pairs:
            chunk = Chunk(1, "rgb", 0, text, "", 1, 1, 0, len(text))
            reading = Reading("zh", (ScoredChunk(chunk, 1.0, "rgb"),))
            rows.append(
                [
                    grader.relevance(question, reading).value,
                    grader.support(question, answer, reading).value,
                    grader.utility(question, answer, reading).value,
                ]
            )
        states = model._context._states
        tokens = sum(len(key) // 4 for key in states._states)
        print(f"{kv_type}: {states.size / tokens / 1000:.1f} KB a token")
    return np.array(rows)


if __name__ == "__main__":
    main()
