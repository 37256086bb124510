"""How many rows of the tables in files that others transcribed stand on one line of our text.

    python benchmarks/table_rows.py FOLDER

FOLDER holds files with `NAME.truth.md` beside them, Markdown whose tables were checked by people.
A row counts where one line has all its cells, in any order; letters and digits are compared.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

from localrag.documents.files import parse_file
from localrag.documents.formats.table import format_of
from localrag.errors import ParsingError
from localrag.text.normalize import fold

_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+\s*")


def squeezed(text: str) -> str:
    return re.sub(r"[^\w]+", "", fold(re.sub(r"<!--.*?-->|<br>", " ", text)))


def rows(truth: str) -> list[list[str]]:
    found = []
    for line in truth.splitlines():
        if line.startswith("|") and not _RULE.fullmatch(line):
            cells = [squeezed(cell) for cell in line.strip().strip("|").split("|")]
            if any(cells):
                found.append([cell for cell in cells if cell])
    return found


def main(folder: Path) -> None:
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for truth in sorted(folder.rglob("*.truth.md")):
        path = truth.with_name(truth.name.removesuffix(".truth.md"))
        kind, wanted = format_of(path), rows(truth.read_text(encoding="utf-8"))
        if kind is None or not wanted:
            continue
        try:
            text = parse_file(path, path.read_bytes()).text
        except ParsingError as error:
            print(f"{path.name}: {error}")
            continue
        lines = [squeezed(line) for line in text.split("\n")]
        missing = [row for row in wanted if not any(all(c in line for c in row) for line in lines)]
        counts[kind.name][0] += len(wanted) - len(missing)
        counts[kind.name][1] += len(wanted)
        for row in missing:
            print(f"{path.name}: {' | '.join(row)[:150]}")
    for name, (whole, total) in sorted(counts.items()):
        print(f"{name:14}{whole:5} of {total:4}  {whole / total:.3f}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
