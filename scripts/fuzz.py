"""Feed damaged and hostile inputs to each parser, to the settings loader, and to libraries.

    python scripts/fuzz.py --count 500 --seed 7
    python scripts/fuzz.py --count 20000 --target pdf --target html

Every input is a seeded mutation of a sample. Wrong is: another exception than the one that says
what is wrong with the input, a crash or a traceback of this process, a run over the limits, and
an input that ends the process which reads it. Exit code 1 if anything is wrong; the inputs that
did it are kept in the folder that --keep names.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from localrag.config import load_settings
from localrag.errors import ConfigError, ParsingError
from localrag.parsing import ParsingProcess

SILENCE, MEMORY = 20.0, 2**30
"""Limits of a run, far below those that users get: the inputs are small."""

PROSE = "The harbour of Greyholm is old. 港口很古老，灯塔建于一八七四年。\n\n"
MARKDOWN = f"""---
title: A title
---
# Heading

{PROSE * 3}
- item *one* `code`
  - nested [link](http://example.invalid/a) ![picture](http://example.invalid/b.png)

| a | b |
|---|---|
| 1 | 2 |

> quoted **bold** <b onclick="x()">html</b>

```python
print("code")
```
[^1]: a footnote &amp; &#x41;
"""
HTML = f"""<!doctype html><html><head><meta charset="utf-8"><title>Title</title>
<style>p {{ color: red }}</style><script>alert(1)</script></head><body>
<nav>menu</nav><h1>Heading</h1><p>{PROSE}</p><ul><li>one<li>two<ol><li>three</ol></ul>
<table><tr><th>a<td>b</tr><tr><td colspan=2>c</table><pre>code
code</pre><img src="http://example.invalid/x.png" alt="picture"><p hidden>no</p>
<svg><text>x</text></svg><p style="display:none">no</p>&amp;&#65;&lt;</body></html>"""
TEXT = "A line that was wrapped by hand at some column of the page, as in old\n" * 6 + PROSE * 3
SETTINGS = """allow_network = false
[llm]
backend = "llama.cpp"
model = "qwen2.5-coder-1.5b-instruct-q4"
context_window = 4096
[embedding]
model = "use-multilingual-v3"
[chunking]
strategy = "windows"
size = 500
overlap = 100
[retrieval]
mode = "hybrid"
k = 10
dense_weight = 0.5
[reranker]
kind = "keyword"
candidates = 20
"""
TOKENS = (
    *(
        b"\x00",
        b"\xff\xfe",
        b"\xef\xbb\xbf",
        b"\r",
        b"\f",
        b"\x1b[2J",
        b"\xed\xa0\x80",
        b"\xe2\x80\xae",
    ),
    *(b"<div>" * 3000, b"<!--", b"<![CDATA[", b"</" * 500, b"&#99999999;", b"<table>" * 300),
    *(b"[" * 2000, b"> " * 800, b"*" * 3000, b"`" * 999, b"- " * 500, b"](" * 900, b"|" * 2000),
    *(b"_a" * 1500, b"<a" * 900, b"![" * 900, b"    " * 500, b"\n" * 2000, "中".encode() * 3000),
    *(
        b"99999999999999999999",
        b"-1",
        b"/Kids[1 0 R]",
        b"/Length 999999999",
        b"endobj",
        b"stream\n",
    ),
    *(b"[[[[", b'"""', b"a.b.c.d = 1\n", b"[x]\n", b"nan", b"inf", b"1979-05-27", b"{a={b={}}}"),
    *(b"/Filter[/FlateDecode/FlateDecode]", b"<|im_start|>system\n", b"q " * 5000, b"BT " * 900),
)


def pdfs() -> list[bytes]:
    """Small PDF files: plain and compressed, with a table, a picture, an outline, a password."""
    import pymupdf

    made: list[bytes] = []
    for number in range(3):
        document = pymupdf.open()
        for page_number in range(1 + number):
            page = document.new_page(width=300, height=400)
            page.insert_text((30, 40), f"Heading {page_number}", fontsize=18)
            page.insert_textbox((30, 60, 270, 200), PROSE.encode("ascii", "ignore").decode() * 3)
            for step in range(4):
                page.draw_line((30, 220 + 20 * step), (270, 220 + 20 * step))
                page.draw_line((30 + 80 * step, 220), (30 + 80 * step, 280))
            page.insert_text((35, 235), "cell")
            page.insert_text((30, 320), "invisible", render_mode=3)
        document.set_toc([[1, "Heading 0", 1]])
        made.append(document.tobytes())
        made.append(document.tobytes(deflate=True, garbage=3))
        if number == 2:
            made.append(
                document.tobytes(encryption=pymupdf.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")
            )
    return made


def samples(target: str) -> list[bytes]:
    """What is mutated."""
    texts = {"markdown": MARKDOWN, "html": HTML, "text": TEXT, "settings": SETTINGS}
    if target == "pdf":
        return pdfs()
    text = texts[target]
    if target == "settings":
        return [text.encode()]
    return [text.encode(encoding) for encoding in ("utf-8", "gb18030", "utf-16", "utf-8-sig")]


def mutate(draw: random.Random, seeds: list[bytes]) -> bytes:
    """One to eight changes to a sample."""
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        size = draw.choice((1, 4, 40, 400))
        match draw.randrange(8):
            case 0 if data:
                data[at % len(data)] ^= 1 << draw.randrange(8)
            case 1:
                data[at : at + size] = draw.randbytes(min(size, 40))
            case 2:
                del data[at : at + size]
            case 3:
                data[at:at] = data[at : at + size] * draw.choice((1, 2, 50))
            case 4 | 5:
                data[at:at] = draw.choice(TOKENS)
            case 6:
                other = draw.choice(seeds)
                start = draw.randrange(len(other))
                data[at : at + size] = other[start : start + size]
            case _:
                if draw.random() < 0.3:
                    del data[at:]
    return bytes(data)


def parser_inputs(
    target: str, count: int, draw: random.Random
) -> Iterator[tuple[bytes, str, float]]:
    """Each input with its outcome and how long it took; an outcome in capitals is wrong."""
    suffix = {"pdf": ".pdf", "markdown": ".md", "html": ".html", "text": ".txt"}[target]
    names = (f"a{suffix}", f"../../a{suffix}", f"名\x1b[2J{suffix}", f"{'x' * 200}{suffix}")
    process = ParsingProcess(silence=SILENCE, longest=2 * SILENCE, memory=MEMORY)
    seeds = samples(target)
    for _ in range(count):
        data = mutate(draw, seeds)
        started = time.monotonic()
        try:
            process(Path(draw.choice(names)), data)
            outcome = "read"
        except ParsingError as error:
            outcome = type(error).__name__
            if "given up" in error.message or "Error" in str(error.values.get("reason", "")):
                outcome = f"WRONG {error}"[:300]
        except Exception as error:
            outcome = f"WRONG {type(error).__name__}: {error}"[:300]
        yield data, outcome, time.monotonic() - started
    process.close()


def settings_inputs(count: int, draw: random.Random) -> Iterator[tuple[bytes, str, float]]:
    """The same for the settings file, and for variables of the environment."""
    names = ("LOCALRAG_LLM_MODEL", "LOCALRAG_CHUNKING_SIZE", "LOCALRAG_RETRIEVAL", "LOCALRAG_X_Y")
    seeds = samples("settings")
    with tempfile.TemporaryDirectory(prefix="localrag-fuzz-") as folder:
        path = Path(folder, "config.toml")
        os.environ["LOCALRAG_CONFIG"] = str(path)
        for _ in range(count):
            data = mutate(draw, seeds)
            path.write_bytes(data)
            variable = draw.choice(names)
            if draw.random() < 0.3:
                value = draw.choice(("", "x", "-1", "[1]", "1e999", "{", "中", "true"))
                os.environ[variable] = value
            started = time.monotonic()
            try:
                load_settings()
                outcome = "read"
            except ConfigError:
                outcome = "ConfigError"
            except Exception as error:
                outcome = f"WRONG {type(error).__name__}: {error}"[:300]
            os.environ.pop(variable, None)
            yield data, outcome, time.monotonic() - started


RUNS: dict[str, Callable[[int, random.Random], Iterator[tuple[bytes, str, float]]]] = {
    "pdf": lambda count, draw: parser_inputs("pdf", count, draw),
    "markdown": lambda count, draw: parser_inputs("markdown", count, draw),
    "html": lambda count, draw: parser_inputs("html", count, draw),
    "text": lambda count, draw: parser_inputs("text", count, draw),
    "settings": settings_inputs,
}


def fuzz(target: str, count: int, seed: int, keep: Path | None) -> int:
    """Run one target; prints its counts and returns how much was wrong."""
    tally: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    slowest = 0.0
    started = time.monotonic()
    for number, (data, outcome, seconds) in enumerate(RUNS[target](count, random.Random(seed))):
        slowest = max(slowest, seconds)
        tally[outcome.partition(" ")[0]] += 1
        if outcome.startswith("WRONG"):
            wrong[outcome] += 1
            if keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{target}-{seed}-{number}").write_bytes(data)
    took = time.monotonic() - started
    counts = ", ".join(f"{name} {number}" for name, number in tally.most_common())
    print(
        f"{target}: {count} inputs in {took:.0f} s, slowest {slowest:.2f} s: {counts}", flush=True
    )
    for outcome, number in wrong.most_common(20):
        print(f"  {number} x {outcome!r}", flush=True)
    return wrong.total()


def main() -> None:
    """Parse the command line; exit with 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--count", type=int, default=500, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--target", action="append", choices=sorted(RUNS), help="default: all")
    parser.add_argument("--keep", type=Path, help="folder for inputs that did something wrong")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    wrong = sum(
        fuzz(target, arguments.count, arguments.seed, arguments.keep)
        for target in arguments.target or list(RUNS)
    )
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
