"""How many garbled pages are noticed, and how many honest ones are suspected.

    python benchmarks/garbled.py DATA

DATA is a folder with PDF files, `*.jsonl` with texts and `*.csv`, at any depth. Honest are the
pages of the PDF files, all texts cut into pages, and this project's own code. Garbled are the
same PDF files with the maps from glyphs to characters (ToUnicode) removed or changed in ten ways,
where that changes at least a quarter of a page.
"""

from __future__ import annotations

import json
import random
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pymupdf

from localrag.documents.formats.pdf import trust

PAGE = 1800
"""Characters of a page that a text is cut into."""
ROOT = Path(__file__).parent.parent

Change = Callable[[list[str]], list[str]]
"""The characters of a font's map, in the order of its codes, as they are changed."""


def shifted(by: int) -> Change:
    """All characters by a constant."""
    return lambda old: [chr(min(0xD7FF, max(1, ord(c) + by))) for c in old]


def counted(old: list[str]) -> list[str]:
    """Codes from 33 on, in an order of their own."""
    codes = [*range(0x21, 0x7F), *range(0xA1, 0x100)]
    order = random.Random(1).sample(range(len(old)), len(old))
    return [chr(codes[place % len(codes)]) for place in order]


def exchanged(old: list[str]) -> list[str]:
    """Each small letter for another."""
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    table = dict(zip(letters, random.Random(2).sample(letters, 26), strict=True))
    return [table.get(c, c) for c in old]


def other_han(old: list[str]) -> list[str]:
    """Each Chinese character for any other one."""
    source = random.Random(3)
    return [chr(source.randrange(0x4E00, 0x9FA5)) if is_han(c) else c for c in old]


def other_everyday_han(old: list[str]) -> list[str]:
    """Each Chinese character for another in everyday use."""
    source = random.Random(4)
    pool = bytes(b for n in range(0xB0, 0xD7) for m in range(0xA1, 0xFF) for b in (n, m))
    everyday = pool.decode("gb2312")
    return [source.choice(everyday) if is_han(c) else c for c in old]


def is_han(character: str) -> bool:
    """Radicals count."""
    return "\u2e80" <= character <= "\u9fff"


CHANGES: dict[str, Change | None] = {
    "no map": None,
    "private use": lambda old: [chr(0xE000 + n) for n in range(len(old))],
    "shifted by -29": shifted(-29),
    "shifted by -31": shifted(-31),
    "shifted by 3": shifted(3),
    "shifted by 100": shifted(100),
    "counted codes": counted,
    "glyph numbers": lambda old: [chr(0x100 + n) for n in range(len(old))],
    "other letters": exchanged,
    "other Chinese characters": other_han,
    "other everyday Chinese characters": other_everyday_han,
}


def garble(document: Any, change: Change | None) -> None:
    """Change the maps of all fonts."""
    for place in range(1, document.xref_length()):
        kind, value = document.xref_get_key(place, "ToUnicode")
        if kind != "xref":
            continue
        if change is None:
            document.xref_set_key(place, "ToUnicode", "null")
            continue
        stream = int(value.split()[0])
        pairs = dict(mapped(document.xref_stream(stream).decode("latin-1")))
        if not pairs:
            continue
        new = change([old[:1] for old in pairs.values()])
        rows = [
            f"<{code}> <{(character + old[1:]).encode('utf-16-be', 'replace').hex()}>"
            for (code, old), character in zip(pairs.items(), new, strict=True)
        ]
        width = len(next(iter(pairs)))
        body = "".join(
            f"{len(part)} beginbfchar\n" + "\n".join(part) + "\nendbfchar\n"
            for part in (rows[n : n + 100] for n in range(0, len(rows), 100))
        )
        document.update_stream(
            stream,
            f"begincmap 1 begincodespacerange <{'0' * width}> <{'f' * width}> "
            f"endcodespacerange\n{body}endcmap".encode(),
        )


def mapped(cmap: str) -> Iterator[tuple[str, str]]:
    """Codes in hexadecimal, and what they are mapped to."""
    for kind, body in re.findall(r"begin(bfchar|bfrange)(.*?)endbf", cmap, re.DOTALL):
        row = r"<(\w+)>\s*<(\w+)>" if kind == "bfchar" else r"<(\w+)>\s*<(\w+)>\s*(<\w+>|\[.*?\])"
        for found in re.findall(row, body, re.DOTALL):
            if kind == "bfchar":
                yield found[0], text(found[1])
                continue
            first, last, target = found
            each = re.findall(r"<(\w+)>", target)
            for n, code in enumerate(range(int(first, 16), int(last, 16) + 1)):
                into = each[n] if target[0] == "[" else f"{int(each[0], 16) + n:0{len(each[0])}x}"
                yield f"{code:0{len(first)}x}", text(into)


def text(code: str) -> str:
    """What a target of a map stands for; never nothing."""
    return bytes.fromhex(code).decode("utf-16-be", "replace") or "?"


def fonts(sheet: Any) -> dict[str, str]:
    """The text of a page by font."""
    found: dict[str, str] = {}
    flags = pymupdf.TEXT_PRESERVE_WHITESPACE | pymupdf.TEXT_MEDIABOX_CLIP
    for block in sheet.get_text("dict", flags=flags)["blocks"]:
        for span in (span for line in block.get("lines", ()) for span in line["spans"]):
            found[span["font"]] = found.get(span["font"], "") + span["text"] + "\n"
    return found


def cut(whole: str) -> Iterator[dict[str, str]]:
    """A text as pages in one font."""
    for start in range(0, len(whole), PAGE):
        yield {"": whole[start : start + PAGE]}


def honest(folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Pages as they are, with the name of what they are from."""
    for path in sorted(folder.rglob("*.jsonl")):
        texts = [str(json.loads(line).get("text", line)) for line in path.open(encoding="utf-8")]
        yield from ((path.parent.name, each) for each in cut("\n".join(texts)))
    for path in sorted(folder.rglob("*.csv")):
        yield from (("csv", each) for each in cut(path.read_text("utf-8", "replace")))
    for place in ("localrag", "tests", "scripts", "benchmarks"):
        for path in sorted((ROOT / place).rglob("*.py")):
            yield from (("code", each) for each in cut(path.read_text("utf-8")))


def main(folder: Path) -> None:
    """Print both counts."""
    pymupdf.TOOLS.mupdf_display_errors(False)
    pages, suspected, spent = Counter[str](), Counter[str](), 0.0
    for name, each in honest(folder):
        began = time.thread_time()
        doubt = trust.judge(each)
        spent += time.thread_time() - began
        pages[name] += 1
        suspected[name] += doubt is not None
    total, found = Counter[str](), Counter[str]()
    for path in sorted(folder.rglob("*.pdf")):
        try:
            with pymupdf.open(path) as document:
                clean = [] if document.needs_pass else [fonts(sheet) for sheet in document]
        except Exception:  # MuPDF's own share no base class; damaged, locked or a picture
            continue
        if not clean:
            continue
        pages["PDF"] += len(clean)
        suspected["PDF"] += sum(trust.judge(each) is not None for each in clean)
        for name, change in CHANGES.items():
            with pymupdf.open(path) as document:
                garble(document, change)
                data = document.tobytes()
            with pymupdf.open(stream=data) as document:
                for before, after in zip(clean, map(fonts, document), strict=True):
                    if differ(before, after):
                        total[name] += 1
                        found[name] += trust.judge(after) is not None
    print(f"{1000 * spent / pages.total():.2f} ms a page")
    for name, count in pages.items():
        print(f"honest, {name}: {suspected[name]} of {count} suspected")
    for name, count in total.items():
        print(f"garbled, {name}: {found[name]} of {count} noticed")


def differ(before: dict[str, str], after: dict[str, str]) -> bool:
    """Whether a quarter of a page's text changed."""
    one, other = (Counter("".join("".join(each.values()).split())) for each in (before, after))
    return (one - other).total() > 0.25 * one.total() > 0


if __name__ == "__main__":
    main(Path(sys.argv[1]))
