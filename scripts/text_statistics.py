"""Count the tables of `documents/formats/pdf/pairs.txt` anew, from this project's own texts.

    python scripts/text_statistics.py

Writes how often one letter follows another in words, and one kind of character another, as
bits of surprise: a digit or letter a half bit each, `0` to `9` and then `A` to `V`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localrag.documents.formats.pdf.trust import KINDS, follows, letters

ROOT = Path(__file__).parent.parent
PLACES = ("*.md", "docs/*.md", "data/*.md", "benchmarks/*.md", "localrag/**/*.py")
PAIRS = ROOT / "localrag" / "documents" / "formats" / "pdf" / "pairs.txt"
DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUV"


def main() -> None:
    """Count, and write both tables."""
    texts = [path.read_text("utf-8") for place in PLACES for path in sorted(ROOT.glob(place))]
    pairs = sum((letters(text) for text in texts), np.zeros((26, 26)))
    of_letters = table(-np.log2((pairs + 0.5) / (pairs + 0.5).sum()))
    counts = np.zeros((KINDS, KINDS))
    for text in texts:
        np.add.at(counts, follows(text), 1)
    of_kinds = table(-np.log2((counts + 0.2) / (counts + 0.2).sum(axis=1, keepdims=True)))
    PAIRS.write_text(f"{of_letters}\n\n{of_kinds}\n", "ascii")


def table(bits: NDArray[np.float64]) -> str:
    """A table of bits as text, a line for each row."""
    rows = np.clip(np.rint(2 * bits), 0, len(DIGITS) - 1).astype(int)
    return "\n".join("".join(DIGITS[step] for step in row) for row in rows)


if __name__ == "__main__":
    main()
