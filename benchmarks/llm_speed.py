"""Prefill and decode speed of a GGUF model by threads and batch size.

    python benchmarks/llm_speed.py MODEL.gguf [--tokens 256]

Each cell is the best of two runs: on a machine that does something else at the
same time, the best run is the least disturbed one. Also prints how long import
and loading take, what building a prompt token by token costs, and what the
reuse of a cached prefix saves and changes in the logits.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

TEXT = "The kettle stood on the stove. 水壶放在炉子上，慢慢地烧开。 "


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=256, help="length of the prompt")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, os.cpu_count() or 1])
    parser.add_argument("--batches", type=int, nargs="*", default=[32, 64, 128, 512])
    arguments = parser.parse_args()

    began = time.perf_counter()
    from localrag.models.llms.llama_cpp import context as engines
    from localrag.models.llms.llama_cpp.model import LlamaCppModel
    from localrag.types import Message

    imported = time.perf_counter()
    model = LlamaCppModel(arguments.model)
    loaded = time.perf_counter()
    print(f"import {imported - began:.2f} s, load {loaded - imported:.2f} s (llama_cpp included)")

    messages = [Message("system", "Answer briefly."), Message("user", TEXT * 100)]
    began = time.perf_counter()
    count = model.count_prompt_tokens(messages)
    print(f"building a prompt of {count} tokens: {1000 * (time.perf_counter() - began):.1f} ms")

    engine = model._context
    tokens = (engine.tokenize(TEXT) * arguments.tokens)[: arguments.tokens]
    engine.read(tokens)
    whole = engine.logits()
    engine.reset()
    engine.read(tokens[: len(tokens) // 2])
    reused = len(tokens) - engine.read(tokens)
    change = float(abs(engine.logits() - whole).max())
    print(f"reusing {reused} of {len(tokens)} tokens changes the logits by at most {change:.4f}")
    model.close()

    print("threads  batch  prefill tok/s  decode tok/s")
    for threads in arguments.threads:
        for batch in arguments.batches:
            engines.BATCH = batch
            model = LlamaCppModel(arguments.model, threads=threads)
            runs = [_run(model._context, tokens) for _ in range(2)]
            model.close()
            prefill, decode = (max(column) for column in zip(*runs, strict=True))
            print(f"{threads:7d}  {batch:5d}  {prefill:13.1f}  {decode:12.1f}", flush=True)


def _run(engine: object, tokens: list[int]) -> tuple[float, float]:
    from localrag.models.llms.llama_cpp.context import LlamaContext

    assert isinstance(engine, LlamaContext)
    engine.read(tokens[:8])
    engine.reset()
    began = time.perf_counter()
    engine.read(tokens)
    prefill = len(tokens) / (time.perf_counter() - began)
    began = time.perf_counter()
    with engine.sampler(0.0, 0, None) as pick:
        for _ in range(16):
            engine.append(pick())
    return prefill, 16 / (time.perf_counter() - began)


if __name__ == "__main__":
    main()
