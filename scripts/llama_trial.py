"""Whether the llama.cpp that is installed here reads and writes as the one compiled here does.

A model of 130 KB, made by a formula, reads a known prompt and writes known tokens.

    .venv/bin/python scripts/llama_trial.py
"""

from __future__ import annotations

import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from localrag.errors import LocalragError
from localrag.models.llms.llama_cpp.context import LlamaContext
from localrag.models.llms.llama_cpp.prefix_states import PrefixStates

PROMPT = "Which year? 哪一年？ Ada wrote the first program for a machine that was never built."
PROMPT_TOKENS = 119
KEPT = 40
SEED = 8
"""The model whose first token leads most (by .28) of 120: processors round in other places."""
WRITTEN = (130, 197, 43, 25, 104)

WIDTH, HIDDEN, HEADS, LAYERS, WINDOW = 64, 128, 4, 2, 256
TOKENS = ("<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)))
U32, F32, TEXT, LIST, I32 = 4, 6, 8, 9, 5
FLOATS, BLOCKS = 0, 8
"""Kinds of tensors: 32-bit floats, and blocks of 32 numbers of 8 bits with a scale (Q8_0)."""
ALIGNMENT = 32


def main() -> None:
    """End with 0, or with one line that says what differs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "试 trial.gguf"
        path.write_bytes(model())
        try:
            prompt, again, written = read_and_write(path)
        except LocalragError as error:
            sys.exit(str(error))
    if prompt != PROMPT_TOKENS:
        sys.exit(f"{prompt} tokens were read instead of {PROMPT_TOKENS}.")
    if not again:
        sys.exit("A prefix that was kept is not what was read.")
    if written != WRITTEN:
        sys.exit(f"It wrote {written} instead of {WRITTEN}.")


def read_and_write(path: Path) -> tuple[int, bool, tuple[int, ...]]:
    """How many tokens the prompt has, whether a kept prefix gives the same, what is written."""
    context = LlamaContext(
        path,
        context_window=WINDOW,
        decode_threads=1,
        prefill_threads=2,
        gpu_layers=0,
        states=PrefixStates(1 << 20),
    )
    try:
        context.begin(threading.Event())
        tokens = context.tokenize(PROMPT)
        context.read(tokens, keep=KEPT)
        first = context.logits()
        context.reset()
        restored = context.read(tokens, keep=KEPT) == len(tokens) - KEPT
        again = restored and bool((context.logits() == first).all())
        written = []
        with context.sampler(0, 0, None) as pick:
            for _ in range(len(WRITTEN)):
                written.append(pick())
                context.append(written[-1])
        return len(tokens), again, tuple(written)
    finally:
        context.close()


# The model


def model() -> bytes:
    """A language model as a GGUF file."""
    entries = [
        entry("general.architecture", TEXT, string("llama")),
        entry("llama.context_length", U32, struct.pack("<I", WINDOW)),
        entry("llama.embedding_length", U32, struct.pack("<I", WIDTH)),
        entry("llama.block_count", U32, struct.pack("<I", LAYERS)),
        entry("llama.feed_forward_length", U32, struct.pack("<I", HIDDEN)),
        entry("llama.attention.head_count", U32, struct.pack("<I", HEADS)),
        entry("llama.attention.layer_norm_rms_epsilon", F32, struct.pack("<f", 1e-5)),
        entry("tokenizer.ggml.model", TEXT, string("llama")),
        entry("tokenizer.ggml.tokens", LIST, many(TEXT, [string(text) for text in TOKENS])),
        entry("tokenizer.ggml.scores", LIST, many(F32, [bytes(4)] * len(TOKENS))),
        # Unknown, control, and bytes.
        entry(
            "tokenizer.ggml.token_type",
            LIST,
            many(I32, [struct.pack("<i", kind) for kind in (2, 3, 3, *[6] * 256)]),
        ),
    ]
    infos, data = [], b""
    for name, kind, shape, values in tensors():
        data += bytes(-len(data) % ALIGNMENT)
        size = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
        infos.append(string(name) + size + struct.pack("<IQ", kind, len(data)))
        data += values
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(infos), len(entries))
    head += b"".join(entries + infos)
    return head + bytes(-len(head) % ALIGNMENT) + data


def tensors() -> Iterator[tuple[str, int, tuple[int, ...], bytes]]:
    """Name, kind, shape (the shortest stride first) and bytes of the weights."""
    ones = struct.pack("<f", 1.0) * WIDTH
    numbers = pseudo_random()

    def matrix(name: str, width: int, height: int) -> tuple[str, int, tuple[int, ...], bytes]:
        block = struct.Struct("<e32b")
        blocks = (
            block.pack(1 / 512, *(next(numbers) for _ in range(32)))
            for _ in range(width * height // 32)
        )
        return f"{name}.weight", BLOCKS, (width, height), b"".join(blocks)

    yield matrix("token_embd", WIDTH, len(TOKENS))
    for layer in range(LAYERS):
        yield f"blk.{layer}.attn_norm.weight", FLOATS, (WIDTH,), ones
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            yield matrix(f"blk.{layer}.{name}", WIDTH, WIDTH)
        yield f"blk.{layer}.ffn_norm.weight", FLOATS, (WIDTH,), ones
        yield matrix(f"blk.{layer}.ffn_gate", WIDTH, HIDDEN)
        yield matrix(f"blk.{layer}.ffn_up", WIDTH, HIDDEN)
        yield matrix(f"blk.{layer}.ffn_down", HIDDEN, WIDTH)
    yield "output_norm.weight", FLOATS, (WIDTH,), ones
    yield matrix("output", WIDTH, len(TOKENS))


def pseudo_random() -> Iterator[int]:
    """Numbers from -127 to 127, the same ones everywhere (a linear congruential generator)."""
    state = SEED
    while True:
        state = (state * 1664525 + 1013904223) % (1 << 32)
        yield (state >> 16) % 255 - 127


def string(text: str) -> bytes:
    """Text as GGUF writes it."""
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def entry(name: str, kind: int, value: bytes) -> bytes:
    """A line of the metadata."""
    return string(name) + struct.pack("<I", kind) + value


def many(kind: int, values: list[bytes]) -> bytes:
    """A list of values of one kind."""
    return struct.pack("<IQ", kind, len(values)) + b"".join(values)


if __name__ == "__main__":
    main()
