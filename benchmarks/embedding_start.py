"""What opening an embedding model costs, and how fast it embeds.

    python benchmarks/embedding_start.py models/use-multilingual-v3 [--runs 7] [--passages 200]

Start: median of cold processes for each way to open the starter embedding and embed one
question. Throughput: passages a second over made-up passages, the published graph by size
of batch (with the least cosine to the same passage alone), and localrag by threads.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

QUESTION = "什么是人工智能？ What is artificial intelligence?"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--runs", type=int, default=7, help="of each way to open it")
    parser.add_argument("--passages", type=int, default=200)
    parser.add_argument("--one", nargs=2, metavar=("WAY", "CACHE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.model.resolve()
    if arguments.one:
        way, cache = arguments.one
        print(json.dumps(measure(folder, way, Path(cache))))
        return
    with tempfile.TemporaryDirectory() as cache:
        prepare(folder, Path(cache))
        print(f"{'way to open':<34}{'import':>8}{'open':>8}{'query':>8}{'total':>8}  milliseconds")
        for variant in VARIANTS:
            runs = [cold(folder, variant, cache) for _ in range(arguments.runs)]
            times = [statistics.median(run[key] for run in runs) for key in range(3)]
            total = statistics.median(sum(run) for run in runs)
            print(f"{variant:<34}" + "".join(f"{1000 * t:>8.0f}" for t in (*times, total)))
        throughput(folder, arguments.passages)


def cold(folder: Path, variant: str, cache: str) -> list[float]:
    command = [sys.executable, __file__, str(folder), "--one", variant, cache]
    output = subprocess.run(command, capture_output=True, check=True, text=True, timeout=120)
    seconds: list[float] = json.loads(output.stdout)
    return seconds


def measure(folder: Path, variant: str, cache: Path) -> list[float]:
    """Seconds for imports, for opening the model, and for the first question."""
    start = time.perf_counter()
    import numpy  # noqa: F401
    import onnxruntime  # noqa: F401

    imported = time.perf_counter()
    embed = VARIANTS[variant](folder, cache)
    opened = time.perf_counter()
    embed()
    return [imported - start, opened - imported, time.perf_counter() - opened]


def prepare(folder: Path, cache: Path) -> None:
    """Files that some variants open; localrag's own cache among them."""
    import onnxruntime

    from localrag.models.embeddings.runtime import extension_operators
    from localrag.models.embeddings.use import UniversalSentenceEncoder

    UniversalSentenceEncoder(folder, cache_dir=cache).embed_documents([QUESTION])
    for name, external in (("optimised.ort", False), ("optimised.onnx", True)):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.register_custom_ops_library(str(extension_operators()))
        options.optimized_model_filepath = str(cache / name)
        if external:
            prefix = "session.optimized_model_external_initializers_"
            options.add_session_config_entry(prefix + "file_name", "optimised.bin")
            options.add_session_config_entry(prefix + "min_size_in_bytes", "1024")
        onnxruntime.InferenceSession(model_file(folder), options)


def model_file(folder: Path) -> str:
    return str(next(folder.glob("*.onnx")))


def whole(optimise: bool, **entries: str) -> Callable[[Path, Path], Callable[[], object]]:
    """The file as published, strings in, vectors out."""
    return prepared(None, optimise, **entries)


def prepared(
    name: str | None, optimise: bool = False, **entries: str
) -> Callable[[Path, Path], Callable[[], object]]:
    def open_model(folder: Path, cache: Path) -> Callable[[], object]:
        import numpy as np
        import onnxruntime

        from localrag.models.embeddings.runtime import extension_operators

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        options.intra_op_num_threads = 1
        options.register_custom_ops_library(str(extension_operators()))
        if not optimise:
            level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
            options.graph_optimization_level = level
        for key, value in entries.items():
            options.add_session_config_entry("session." + key, value)
        path = str(cache / name) if name else model_file(folder)
        session = onnxruntime.InferenceSession(path, options)
        feed = {"inputs": np.array([QUESTION], dtype=object)}
        return lambda: session.run(None, feed)

    return open_model


def localrag(cached: bool) -> Callable[[Path, Path], Callable[[], object]]:
    def open_model(folder: Path, cache: Path) -> Callable[[], object]:
        from localrag.models.embeddings.use import UniversalSentenceEncoder

        embedder = UniversalSentenceEncoder(folder, cache_dir=cache if cached else None)
        return lambda: embedder.embed_queries([QUESTION])

    return open_model


VARIANTS: dict[str, Callable[[Path, Path], Callable[[], object]]] = {
    "as published": whole(optimise=True),
    "as published, not optimised": whole(optimise=False),
    "as published, no prepacking": whole(optimise=False, disable_prepacking="1"),
    "ORT format, optimised": prepared("optimised.ort"),
    "optimised, weights mapped": prepared("optimised.onnx"),
    "localrag without cache": localrag(cached=False),
    "localrag with cache": localrag(cached=True),
}


def batches(folder: Path, passages: list[str]) -> None:
    import numpy as np

    from localrag.models.embeddings.runtime import extension_operators, open_session

    session = open_session(Path(model_file(folder)), operators=extension_operators())
    texts = np.array(sorted(passages, key=len), dtype=object)
    alone = None
    for size in (1, 4, 16, 64):
        start = time.perf_counter()
        parts = [
            session.run(None, {"inputs": texts[i : i + size]})[0]
            for i in range(0, len(texts), size)
        ]
        seconds = time.perf_counter() - start
        vectors = np.concatenate(parts)
        alone = vectors if alone is None else alone
        cosine = np.sum(vectors * alone, axis=1).min()
        print(f"batch of {size}: {len(texts) / seconds:.0f} passages/s, cosine {cosine:.4f}")


def throughput(folder: Path, count: int) -> None:
    from localrag.models.embeddings.use import UniversalSentenceEncoder

    words = ["river", "bridge", "grain", "steel", "winter", "ships", "harbour"]
    words += ["河流", "桥梁", "粮食", "钢铁", "冬天", "船只", "港口"]
    passages = [" ".join(words[(i * j) % 14] for j in range(1, 101)) for i in range(1, count + 1)]
    batches(folder, passages)
    for threads in (1, 2):
        embedder = UniversalSentenceEncoder(folder, threads=threads)
        tokens = sum(embedder.count_tokens(passages))
        start = time.perf_counter()
        embedder.embed_documents(passages)
        seconds = time.perf_counter() - start
        print(
            f"{threads} thread(s): {len(passages) / seconds:.0f} passages/s,"
            f" {tokens / seconds:.0f} tokens/s ({tokens // len(passages)} tokens a passage)"
        )


if __name__ == "__main__":
    main()
