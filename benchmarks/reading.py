"""How much of the text of real files is read, by format, against texts that people checked.

    python benchmarks/reading.py ../shared/data/files

Beside each file lies `NAME.truth.md`. Of its words, each as often as it is there, the share that
was read; of the rows of its tables, the share whose cells stand on one line in their order. A
word is a run of letters and digits, or one Chinese character; commands of LaTeX do not count.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter, defaultdict
from pathlib import Path

from localrag.documents.files import read_bytes
from localrag.documents.formats.table import format_of
from localrag.documents.worker import ParsingProcess
from localrag.errors import ParsingError

_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+")
_MARKUP = re.compile(r"<!--.*?-->|&[a-z]+;|\\[a-z]+|\\(?=[_*#|.&\-])", re.DOTALL)


def words(text: str) -> list[str]:
    """The words of a text in lower case."""
    return _WORD.findall(text.lower())


def rows_of(truth: str) -> list[list[str]]:
    """The rows of the tables in Markdown: the words of all cells."""
    lines = (line.strip() for line in truth.split("\n"))
    rows = (
        words(line)
        for line in lines
        if line.startswith("|") and not re.fullmatch(r"[|:\s-]+", line)
    )
    return [row for row in rows if row]


def in_order(row: list[str], line: list[str]) -> bool:
    """Whether all words of the row are in the line, in their order."""
    rest = iter(line)
    return all(word in rest for word in row)


def main() -> None:
    """Print a line for each file, then one for each format."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="suffixes such as .docx; default: all")
    arguments = parser.parse_args()
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    process = ParsingProcess()
    for path in sorted(arguments.folder.rglob("*")):
        truth_path = path.with_name(f"{path.name}.truth.md")
        chosen = not arguments.only or path.suffix in arguments.only
        if not chosen or format_of(path) is None or not truth_path.is_file():
            continue
        truth = _MARKUP.sub("", truth_path.read_text(encoding="utf-8"))
        try:
            text = process(path, read_bytes(path)).text
        except ParsingError as error:
            print(f"{path.name}: {error}")
            text = ""
        wanted, found = Counter(words(truth)), Counter(words(text))
        missing = wanted - found
        lines = [words(line) for line in text.split("\n")]
        rows = rows_of(truth)
        whole = sum(any(in_order(row, line) for line in lines) for row in rows)
        count = Counter(
            words=wanted.total(),
            read=wanted.total() - missing.total(),
            rows=len(rows),
            whole=whole,
            files=1,
        )
        totals[path.suffix] += count
        print(
            f"{path.name:42} {_shares(count)} missing",
            *(word for word, _ in missing.most_common(8)),
        )
    process.close()
    for suffix, count in sorted(totals.items()):
        print(f"{suffix:6} {count['files']:3} files {_shares(count)}")


def _shares(count: Counter[str]) -> str:
    rows = f"{count['whole'] / count['rows']:.3f} of {count['rows']}" if count["rows"] else "-"
    return f"words {count['read'] / max(1, count['words']):.3f} of {count['words']}, rows {rows}"


if __name__ == "__main__":
    main()
