"""Texts that a client sends as vectors: bounded, a batch at a time, ended with the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from localrag.errors import ContextOverflowError
from localrag.models.embeddings.base import Embedder, Vectors
from localrag.server.bounds import MOST_TOKENS
from localrag.server.queue import Turns
from localrag.server.running import working

T = TypeVar("T")

BATCH = 8
"""Texts between two looks at who else waits, and at whether anybody still listens."""


async def counted(processors: Turns, embedder: Embedder, texts: Sequence[str]) -> list[int]:
    """Tokens of each text. Raises `ContextOverflowError` for more than `MOST_TOKENS` in all."""
    total = 0

    def count(some: Sequence[str]) -> list[int]:
        nonlocal total
        counts = embedder.count_tokens(some)
        total += sum(counts)
        if total > MOST_TOKENS:
            raise ContextOverflowError(
                "The texts have more than {most} tokens in all.",
                hint="Send fewer at once.",
                most=MOST_TOKENS,
            )
        return counts

    batches = await _in_batches(processors, texts, count)
    return [tokens for batch in batches for tokens in batch]


async def embedded(
    processors: Turns, embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]
) -> Vectors:
    """What `embed` gives for all texts, of which there must be some; shape (n, dimension)."""
    return np.concatenate(await _in_batches(processors, texts, embed))


async def _in_batches(
    processors: Turns, texts: Sequence[str], work: Callable[[Sequence[str]], T]
) -> list[T]:
    """What `work` gives for each batch; others get their turn in between."""
    results: list[T] = []
    async with processors.lease() as give_way:
        for start in range(0, len(texts), BATCH):
            batch = texts[start : start + BATCH]

            def run(tell: Callable[[T], None], batch: Sequence[str] = batch) -> None:
                tell(work(batch))

            await give_way()
            # Left amid a batch, it keeps its turn until the processors have done it.
            async with working(run) as pieces:
                results += [result async for result in pieces]
    return results
