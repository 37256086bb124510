"""How much of real files is read, by format, against texts that people checked.

    python benchmarks/reading.py FOLDER [--only .pdf] [--missing]

Beside each file lies `NAME.truth.md`, its text in Markdown. Counted are its words, each as often as
it is there, and the rows of its tables that have all their cells on one of our lines; letters and
digits are compared. A word is a run of letters and digits, or one Chinese character.
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
from localrag.text.normalize import fold

_WORD = re.compile(r"[\u4e00-\u9fff]|[^\W_\u4e00-\u9fff]+")
_MARKUP = re.compile(r"<!--.*?-->|<br>|&[a-z]+;|\\[a-z]+|\\(?=[_*#|.&\-])", re.DOTALL)
_RULE = re.compile(r"\|(?:\s*:?-+:?\s*\|)+\s*")


def words(text: str) -> Counter[str]:
    """The words of a text in lower case, with how often each is there."""
    return Counter(_WORD.findall(text.lower()))


def squeezed(text: str) -> str:
    """The letters and digits of a text, without what parts them."""
    return re.sub(r"[^\w]+", "", fold(text))


def rows_of(truth: str) -> list[list[str]]:
    """The rows of the tables in Markdown: their cells that are not empty."""
    found = []
    for line in truth.splitlines():
        if line.startswith("|") and not _RULE.fullmatch(line):
            cells = [squeezed(cell) for cell in line.strip().strip("|").split("|")]
            if any(cells):
                found.append([cell for cell in cells if cell])
    return found


def main() -> None:
    """Print a line for each file, then a table with a row for each format."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", action="append", help="suffixes such as .docx; default: all")
    parser.add_argument("--missing", action="store_true", help="each word and row that is not read")
    arguments = parser.parse_args()
    totals: dict[str, Counter[str]] = defaultdict(Counter)
    process = ParsingProcess()
    for path in sorted(arguments.folder.rglob("*")):
        truth_path = path.with_name(f"{path.name}.truth.md")
        chosen = not arguments.only or path.suffix in arguments.only
        if not chosen or format_of(path) is None or not truth_path.is_file():
            continue
        truth = _MARKUP.sub(" ", truth_path.read_text(encoding="utf-8"))
        try:
            text = process(path, read_bytes(path)).text
        except ParsingError as error:
            print(f"{path.name}: {error}")
            text = ""
        wanted = words(truth)
        unread = wanted - words(text)
        lines = [squeezed(line) for line in text.split("\n")]
        rows = rows_of(truth)
        broken = [row for row in rows if not any(all(c in line for c in row) for line in lines)]
        count = Counter(
            words=wanted.total(),
            unread=unread.total(),
            rows=len(rows),
            broken=len(broken),
            files=1,
        )
        totals[path.suffix] += count
        print(f"{path.name:42} {_shares(count, ', ')}")
        if arguments.missing:
            print("   ", *(f"{word} {times}" for word, times in unread.most_common()))
            for row in broken:
                print("   ", " | ".join(row)[:150])
    process.close()
    print("\n| format | files | words | rows |\n|---|---|---|---|")
    for suffix, count in sorted(totals.items()):
        print(f"| {suffix[1:]} | {count['files']} | {_shares(count, ' | ')} |")


def _shares(count: Counter[str], between: str) -> str:
    shares = []
    for kind, missing in (("words", "unread"), ("rows", "broken")):
        whole = count[kind]
        share = f"{(whole - count[missing]) / whole:.3f} of {whole:,}" if whole else "-"
        shares.append(share)
    return between.join(shares)


if __name__ == "__main__":
    main()
