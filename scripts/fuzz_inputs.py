"""What is fuzzed: samples, how they are mutated, and what reads them.

Each input is made from (target, seed, number) alone, so that a run can be resumed and an input
can be made again.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fuzz_office

from localrag.errors import LocalragError
from localrag.types import Document

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
JSON = """[{"question": "Who keeps the light? 谁？", "answer": "Ann", "contexts": ["A", "B"],
 "reference": "Ann does.", "has_answer": true, "source": "a.pdf", "page": 3, "id": "q1"},
 {"user_input": "When?", "retrieved_contexts": [{"text": "x", "source": "b.md"}], "page": null}]"""
JSONL = """{"id": 1, "question": "Who?", "answer": "Ann", "contexts": ["A"], "has_answer": "no"}
{"question": "何时？", "ground_truth": "1874", "contexts": "['a', 'b']", "page": "7"}
"""
CSV = """question,answer,contexts,ground_truth,has_answer,page
"Who keeps
the light?",Ann,"['a', ""b""]",Ann,true,3
何时？,1874,"[""x""]",1874,,
"""
CORPUS = '{"_id": "d1", "title": "T", "text": "The light."}\n{"id": 2, "text": "The harbour."}\n'
QUERIES = '{"_id": "q1", "text": "Which light?"}\n{"_id": "q2", "text": "哪个？"}\n'
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\t2\t2\n"

TOKENS = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\r", b"\f", b"\x1b[2J", b"\xed\xa0\x80"),
    *("\u202e".encode(), b"<div>" * 3000, b"<!--", b"<![CDATA[", b"</" * 500, b"&#99999999;"),
    *(b"<table>" * 300, b"[" * 2000, b"> " * 800, b"*" * 3000, b"`" * 999, b"- " * 500),
    *(b"](" * 900, b"|" * 2000, b"_a" * 1500, b"<a" * 900, b"![" * 900, b"    " * 500),
    *(b"\n" * 2000, "中".encode() * 3000, b"99999999999999999999", b"-1", b"/Kids[1 0 R]"),
    *(b"/Length 999999999", b"endobj", b"stream\n", b"[[[[", b'"""', b"a.b.c.d = 1\n", b"[x]\n"),
    *(b"nan", b"inf", b"1e999", b"1979-05-27", b"{a={b={}}}", b'{"a":' * 2000, b"null", b"{}"),
    *(b"/Filter[/FlateDecode/FlateDecode]", b"<|im_start|>system\n", b"q " * 5000, b"BT " * 900),
    *(
        b"=cmd|' /C calc'!A0",
        b"&#x1b;[2J&#x202e;&#8203;&#xE0041;&#x2028;&#133;",
        b"\\ud800",
        b"../../a",
        b"'" * 700,
        b"(" * 3000,
        b"\xff" * 8,
    ),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One input, a scratch folder, what draws lots for it, and the samples it was made from."""

    data: bytes
    folder: Path
    draw: random.Random
    seeds: Sequence[bytes]


_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b\\x0e-\\x1f\\x7f-\\x9f\\xad\\u200b-\\u200f\\u202a-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ufff9-\\ufffb\\U000e0000-\\U000e007f]"
)
"""Characters that a terminal obeys or that nobody sees: documents come without."""

Reads = Callable[[Case], str | None]
"""Reads an input; raises LocalragError where it says what is wrong with it. What it returns is
counted."""


@dataclass(frozen=True, slots=True)
class Target:
    """Something that reads bytes which may come from anybody."""

    samples: Callable[[], list[bytes]]
    read: Reads
    suffix: str = ""
    """What the product reads in a process of its own has one."""
    fixed: bool = False
    """Whether bytes keep their places mostly: files with offsets and tables."""
    zipped: bool = False
    """Whether it is a ZIP file, whose parts are mutated mostly."""
    patience: float = 300.0
    """Seconds without a result and without work, after which a process is given up."""


def mutate(
    draw: random.Random, seeds: Sequence[bytes], *, fixed: bool = False, zipped: bool = False
) -> bytes:
    """One to eight changes to a sample."""
    if zipped and draw.random() < 0.85:
        return fuzz_office.inside(draw, seeds, lambda parts: mutate(draw, parts))
    data = bytearray(draw.choice(seeds))
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        at = draw.randrange(len(data) + 1)
        size = draw.choice((1, 4, 40, 400))
        if fixed and data and draw.random() < 0.8:
            piece = draw.choice((draw.randbytes(min(size, 8)), b"\xff" * 8, b"\0" * 4, b"\x7f"))
            place = at % len(data)
            data[place : place + len(piece)] = piece[: len(data) - place]
            continue
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


# Documents


def pdfs() -> list[bytes]:
    """PDF files of one page and 1 to 4 KB: plain, compressed, with what parsers stumble over."""
    import pymupdf

    wrapped: Any = pymupdf  # its functions carry no types
    made: list[bytes] = []

    def page_of() -> tuple[Any, Any]:
        document = wrapped.open()
        return document, document.new_page(width=200, height=200)

    def keep(document: Any, **options: Any) -> None:
        made.append(document.tobytes(no_new_id=True, **options))

    document, page = page_of()
    page.insert_text((20, 30), "Heading", fontsize=18)
    page.insert_text((20, 60), "The harbour is old.")
    page.insert_text((20, 80), "hidden", render_mode=3)
    document.set_toc([[1, "Heading", 1]])
    document.set_metadata({"title": "Title", "author": "Ann"})
    keep(document)
    keep(document, deflate=True, garbage=3, use_objstms=1)
    keep(document, encryption=wrapped.PDF_ENCRYPT_AES_256, user_pw="x", owner_pw="y")

    document, page = page_of()
    for step in range(3):
        page.draw_line((20, 40 + 20 * step), (180, 40 + 20 * step))
        page.draw_line((20 + 80 * step, 40), (20 + 80 * step, 80))
    page.insert_text((25, 55), "cell")
    page.insert_text((105, 75), "value", rotate=90)
    keep(document, deflate=True)

    document, page = page_of()
    pixels = wrapped.Pixmap(wrapped.csRGB, wrapped.IRect(0, 0, 8, 8), False)
    page.insert_image((100, 20, 180, 100), pixmap=pixels)
    page.insert_text((20, 60), "beside a picture", color=(1, 1, 1))
    page.add_text_annot((20, 120), "a note")
    page.add_highlight_annot((20, 50, 90, 62))
    widget = wrapped.Widget()
    widget.field_name, widget.field_value = "field", "typed"
    widget.field_type, widget.rect = wrapped.PDF_WIDGET_TYPE_TEXT, wrapped.Rect(20, 140, 120, 160)
    page.add_widget(widget)
    place = wrapped.Rect(20, 50, 90, 62)
    page.insert_link({"kind": wrapped.LINK_URI, "from": place, "uri": "http://a.invalid"})
    keep(document)
    keep(document, deflate=True, garbage=4)

    document, page = page_of()
    page.insert_text((20, 40), "港口很古老。", fontname="china-s")
    page.insert_text((20, 80), "Kerned", fontname="tiro")
    page.set_rotation(90)
    keep(document, deflate=True)
    return made


def encoded(text: str) -> Callable[[], list[bytes]]:
    """A text in the encodings that files come in."""
    return lambda: [text.encode(name) for name in ("utf-8", "gb18030", "utf-16", "utf-8-sig")]


def mails() -> list[bytes]:
    """Mails of most that mails are made of: forms, files, pictures, mails within, invitations."""
    from email.message import EmailMessage

    inner = EmailMessage()
    inner["Subject"] = "within"
    inner.set_content("the inner one")
    inner.add_attachment(PROSE, filename="inner.txt")
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "报价 and offer", "Ann 安 <ann@example.invalid>"
    mail["Date"] = "Mon, 21 Sep 2026 10:00:00 +0800"
    mail.set_content(PROSE, cte="quoted-printable")
    mail.add_alternative(HTML, subtype="html")
    mail.get_payload()[1].add_related(  # type: ignore[union-attr, index]
        b"\x89PNG\r\n", "image", "png", cid="<logo>"
    )
    mail.add_attachment(CSV, filename="表.csv")
    mail.add_attachment(b"%PDF-1.4", maintype="application", subtype="pdf", filename="a.pdf")
    mail.add_attachment(inner)
    flowed = (
        b"From: a\r\nSubject: =?gb2312?B?sajBpjQ=?= =?gb2312?Q?=B1=A8?=\r\n"
        b"Content-Type: text/plain; charset=gb2312; format=flowed\r\n\r\n> a \r\n> b\r\nc \r\nd"
    )
    event = (
        b"Content-Type: multipart/alternative; boundary=x\n\n--x\nContent-Type: text/calendar\n\n"
        b"BEGIN:VCALENDAR\nSUMMARY:Tea\n and cake\nDTSTART;TZID=x:2026\n--x\n"
        b"Content-Type: application/pkcs7-mime\n\nAAAA\n--x--"
    )
    report = (
        b"Content-Type: multipart/report; boundary=x\n\n--x\n\nfailed\n--x\n"
        b"Content-Type: message/delivery-status\n\nReporting-MTA: dns\n\nStatus: 5.1.1\n\n--x--"
    )
    return [mail.as_bytes(), flowed, event, report]


def outlook_mails() -> list[bytes]:
    """Mails of Outlook: in Unicode and in a code page, with HTML, packed RTF, files and a mail."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
    from outlook_file import ole, properties, texts

    unpacked = b"{\\rtf1\\ansi text\\par more}"
    rtf = struct.pack("<II4sI", len(unpacked) + 12, len(unpacked), b"MELA", 0) + unpacked
    packed = struct.pack("<II4sI", 30, 60, b"LZFu", 0) + bytes((0, *b"{\\rtf1 a", 3, 0, 4, 0, 9))
    within = {
        "__properties_version1.0": properties(24, {}),
        **texts(x0037="within", x1000="the inner one"),
    }
    attached = {
        "__properties_version1.0": properties(8, {0x3705: 1}),
        **texts(x3707="表.csv", x370E="text/csv"),
        "__substg1.0_37010102": CSV.encode() * 40,
    }
    mail = {
        "__properties_version1.0": properties(32, {0x3FFD: 936}),
        "__recip_version1.0_#00000000": {
            "__properties_version1.0": properties(8, {0xC15: 1}),
            **texts(x3001="Bo", x39FE="bo@example.invalid"),
        },
        "__attach_version1.0_#00000000": attached,
        "__attach_version1.0_#00000001": {
            "__properties_version1.0": properties(8, {0x3705: 5}),
            "__substg1.0_3701000D": within,
        },
    }
    head = texts("gb18030", x0037="报价", x0C1A="安", x007D="Date: now\r\nCc: c\r\n")
    return [
        ole({**mail, **head, **texts(x1000=PROSE), "__substg1.0_10130102": HTML.encode()}),
        ole({**mail, **texts(x0037="rtf"), "__substg1.0_10090102": rtf}),
        ole({**within, **texts(x001A="IPM.Note.SMIME"), "__substg1.0_10090102": packed}),
    ]


def parse(suffix: str) -> Reads:
    """Read a document, cut it, and look whether what came of it can be stored and shown."""
    names = (f"a{suffix}", f"../../a{suffix}", f"名\x1b[2J{suffix}", f"{'x' * 200}{suffix}")

    def read(case: Case) -> None:
        from localrag.documents.attachments import named
        from localrag.documents.chunking import WindowChunker
        from localrag.documents.files import parse_file
        from localrag.documents.formats.table import Attachment

        path, attached = Path(case.draw.choice(names)), list[Attachment]()
        document = parse_file(path, case.data, attach=attached.append)
        expect_sound(document)
        for name, _ in named(attached):
            if Path(name).name != name or len(name) > 200 or _UNSEEN.search(name):
                raise AssertionError(f"the name of an attachment: {name!r}")
        WindowChunker(500, 100).chunk(document)

    return read


def expect_sound(document: Document) -> None:
    """Raise where a document holds what no document may hold."""
    text = document.text
    for one in (text, document.title, *document.metadata.values()):
        one.encode()
        if bad := set(_UNSEEN.findall(one)):
            raise AssertionError(f"the text holds {sorted(bad)!r}")
    if any("\n" in heading.text for heading in document.headings) or "\n" in document.title:
        raise AssertionError("a heading of several lines")
    if not document.pages:
        raise AssertionError("no page")
    if any(not 0 <= heading.start <= len(text) for heading in document.headings):
        raise AssertionError("a heading lies outside the text")


# Settings and data sets


def read_settings(case: Case) -> None:
    """Load a settings file, and now and then a variable of the environment."""
    from localrag.config.settings import load_settings

    path = case.folder / "config.toml"
    path.write_bytes(case.data)
    environment = {"LOCALRAG_CONFIG": str(path)}
    names = ("LOCALRAG_LLM_MODEL", "LOCALRAG_CHUNKING_SIZE", "LOCALRAG_RETRIEVAL", "LOCALRAG_X_Y")
    if case.draw.random() < 0.3:
        value = case.draw.choice(("", "x", "-1", "[1]", "1e999", "{", "中", "true", "\ud800"))
        environment[case.draw.choice(names)] = value
    load_settings(environment=environment)


def read_dataset_file(case: Case) -> None:
    """Read a data set as each of its three kinds in turn."""
    from localrag.evaluation.dataset import read_dataset

    path = case.folder / f"set{case.draw.choice(('.json', '.jsonl', '.csv'))}"
    path.write_bytes(case.data)
    read_dataset(path)


def read_retrieval_files(case: Case) -> None:
    """Read a retrieval set of which one file is the input."""
    from localrag.evaluation.retrieval.beir import read_retrieval_set

    files = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "qrels.tsv": QRELS}
    for name, text in files.items():
        (case.folder / name).write_text(text, encoding="utf-8")
    (case.folder / case.draw.choice(sorted(files))).write_bytes(case.data)
    read_retrieval_set(case.folder)


# Models


def ggufs() -> list[bytes]:
    """Heads of GGUF files: metadata of every type, and a table of two tensors."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    scalars = ((0, "<B", 1), (4, "<I", 7), (5, "<i", -7), (6, "<f", 0.5), (7, "<?", True))
    wide = ((10, "<Q", 9), (11, "<q", -9), (12, "<d", 0.5))
    entries = [
        text(f"k{t}") + struct.pack("<I", t) + struct.pack(f, v) for t, f, v in scalars + wide
    ]
    entries.append(text("general.name") + struct.pack("<I", 8) + text("模型"))
    words = [text(f"w{number}") for number in range(40)]
    entries.append(text("tokens") + struct.pack("<IIQ", 9, 8, len(words)) + b"".join(words))
    entries.append(text("scores") + struct.pack("<IIQ40f", 9, 6, 40, *range(40)))
    tensors = [
        text(name) + struct.pack("<IQQIQ", 2, 4, 4, 0, offset)
        for name, offset in (("a.weight", 0), ("b.weight", 64))
    ]
    return [
        b"GGUF"
        + struct.pack("<IQQ", version, len(tensors), len(entries))
        + b"".join(entries + tensors)
        + bytes(256)
        for version in (2, 3)
    ]


def read_gguf(case: Case) -> None:
    """Check the head of a GGUF file."""
    from localrag.models.llms.llama_cpp.gguf import check_gguf

    path = case.folder / "a.gguf"
    path.write_bytes(case.data)
    check_gguf(path)


def manifests() -> list[bytes]:
    """What lies beside models."""
    file = (
        '{"path": "a.bin", "size": 3, "sha256": "00", "source": "x", "mtime_ns": 1, '
        '"hash_from": "user"}'
    )
    own = f'{{"own": {{"name": "own", "task": "llm", "path": "/a/b", "files": [{file}]}}}}'
    return [f'{{"model": "toy", "files": [{file}]}}'.encode(), own.encode()]


def read_manifests(case: Case) -> None:
    """List and look for models, with the input as what lies beside them."""
    from localrag.models.registry.store import ModelStore

    store = ModelStore(case.folder)
    model = store.catalogue.models[0]
    for path in (case.folder / "registered.json", store.folder_of(model) / "installed.json"):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(case.data)
    for use in (store.statuses, lambda: store.path("own"), lambda: store.verify((model.id,))):
        try:
            use()
        except LocalragError:
            continue


# A library that somebody hands over


def vault_files() -> list[bytes]:
    """Each file of a small vault, behind its name."""
    return library_files(vault=True)


def library_files(*, vault: bool = False) -> list[bytes]:
    """Each file of a small library, behind its name."""
    import tempfile

    from durability import make_indexer, make_vault, open_library

    with tempfile.TemporaryDirectory() as name:
        documents, directory = Path(name, "documents"), Path(name, "library")
        documents.mkdir()
        for number in range(4):
            (documents / f"{number}.txt").write_text(f"term{number}x {PROSE * 6}", encoding="utf-8")
        if vault:
            make_vault(directory)
        with open_library(directory) as library:
            make_indexer(library, 0).add([documents])
            library.remove(sources=[str(documents / "3.txt")])
        return [
            path.relative_to(directory).as_posix().encode() + b"\n" + path.read_bytes()
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.stat().st_size
        ]


def read_library(case: Case) -> None:
    """Check, open and search a library of which one file is the input."""
    from durability import SlowEmbedder, open_library

    from localrag.factory import indexes_of
    from localrag.library.check import check_library
    from localrag.text.tokenize import Tokenizer

    directory = case.folder / "library"
    shutil.rmtree(directory, ignore_errors=True)
    for whole in case.seeds:
        name, _, content = whole.partition(b"\n")
        path = directory / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    # A changed name counts as a change of the largest file.
    name, _, content = case.data.partition(b"\n")
    known = {whole.partition(b"\n")[0] for whole in case.seeds}
    (directory / os.fsdecode(name if name in known else b"catalogue.sqlite")).write_bytes(content)
    tokenize = Tokenizer()
    check_library(directory, indexes_of(tokenize))
    with open_library(directory) as library:
        library.status()
        vector = SlowEmbedder(0).embed_queries(["harbour"])[0]
        hits = library.vectors.search(vector, 3) + library.keywords.search(tokenize("harbour"), 3)
        library.chunks(hit.chunk_id for hit in hits)
        for record in library.documents():
            library.document(record.id)


def read_vault(case: Case) -> str | None:
    """Open and search a vault of which one file is the input: it answers as it was, or not at all.

    The right passphrase is there: what is altered must not open even so.
    """
    from durability import PASSPHRASE, SlowEmbedder, open_library

    from localrag.library.folder import vaults
    from localrag.text.tokenize import Tokenizer

    def answers() -> list[object]:
        with open_library(directory) as library:
            vector = SlowEmbedder(0).embed_queries(["harbour"])[0]
            hits = library.vectors.search(vector, 3)
            hits += library.keywords.search(Tokenizer()("harbour"), 3)
            texts = [library.document(record.id) for record in library.documents()]
            return [hits, texts]

    directory = case.folder / "library"
    outcome: list[list[object]] = []
    number = ""
    for change in (False, True):
        shutil.rmtree(directory, ignore_errors=True)
        for whole in case.seeds:
            name, _, content = whole.partition(b"\n")
            path = directory / os.fsdecode(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        if change:
            name, _, content = case.data.partition(b"\n")
            known = {whole.partition(b"\n")[0] for whole in case.seeds}
            place = directory / os.fsdecode(name if name in known else b"catalogue.vault")
            place.write_bytes(content)
            vaults.close_here(number)  # what it had in memory says nothing of the file
            vaults.open_here(directory, PASSPHRASE)
        else:
            number = vaults.open_here(directory, PASSPHRASE).id
        outcome.append(answers())
    return None if outcome[0] == outcome[1] else "WRONG an altered vault answers"


def exports() -> list[bytes]:
    """An export of a small library: the archive, and the catalogue that it holds."""
    import tempfile
    import zipfile

    from durability import make_indexer, open_library

    from localrag.library.transfer import export_library

    with tempfile.TemporaryDirectory() as name:
        documents, directory = Path(name, "documents"), Path(name, "library")
        documents.mkdir()
        for number in range(2):
            (documents / f"{number}.txt").write_text(f"term{number}x {PROSE}", encoding="utf-8")
        with open_library(directory) as library:
            make_indexer(library, 0).add([documents])
        export_library(directory, Path(name, "export"), "0")
        with zipfile.ZipFile(Path(name, "export")) as packed:
            manifest, catalogue = packed.read("manifest.json"), packed.read("catalogue.sqlite")
        return [
            b"archive\n" + Path(name, "export").read_bytes(),
            b"manifest\n" + manifest,
            *(b"catalogue\n" + catalogue for _ in range(3)),
        ]


def read_export(case: Case) -> None:
    """Import an archive: damaged as a whole, or packed anew around a damaged part, hash and all."""
    import hashlib
    import json
    import zipfile

    from localrag.factory import indexes_of
    from localrag.library.transfer import import_library
    from localrag.text.tokenize import Tokenizer

    kind, _, data = case.data.partition(b"\n")
    archive, directory = case.folder / "export", case.folder / "imported"
    shutil.rmtree(directory, ignore_errors=True)
    if kind == b"archive":
        archive.write_bytes(data)
    else:
        manifest = case.seeds[1].partition(b"\n")[2]
        catalogue = case.seeds[2].partition(b"\n")[2]
        if kind == b"manifest":
            manifest = data
        else:
            catalogue = data
            said = json.loads(manifest)
            said |= {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            manifest = json.dumps(said).encode()
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("manifest.json", manifest)
            packed.writestr("catalogue.sqlite", catalogue)
    import_library(archive, directory, indexes=indexes_of(Tokenizer()))


BUNDLE = """{"format": 1, "localrag": "0.1.0", "created": "2026-01-01T00:00:00Z", "base": null,
 "target": {"system": "linux", "machine": "x86_64", "python": "3.11"}, "files": [
 {"path": "models/toy/a.bin", "bytes": 9, "sha256": "HASH", "in_base": false},
 {"path": "wheels/a-1-py3-none-any.whl", "bytes": 3, "sha256": "HASH"}]}""".replace(
    "HASH", "0" * 64
)


def read_bundle(case: Case) -> None:
    """Read the manifest of a bundle."""
    from localrag.bundle.installer.manifest import parse

    for file in parse(case.data).files:
        if not (case.folder / file.path).resolve().is_relative_to(case.folder.resolve()):
            raise AssertionError(f"a path leads out of the bundle: {file.path!r}")


def folders() -> list[bytes]:
    """Two small libraries, which `fuzz_folder` mutates as folders."""
    from fuzz_folder import sound_libraries

    return sound_libraries()


def read_folder_made_to_harm(case: Case) -> None:
    """Hand a folder over, and run one command on it beside somebody's own files."""
    from fuzz_folder import read_folder

    read_folder(case.folder, case.draw, list(case.seeds))


def requests() -> list[bytes]:
    """Requests to the server."""
    from fuzz_server import samples

    return samples()


def send_request(case: Case) -> str:
    """Send a request to a running server, which must answer the next one too."""
    from fuzz_server import read_request

    return read_request(case.folder, case.draw, case.data)


TARGETS: dict[str, Target] = {
    "pdf": Target(pdfs, parse(".pdf"), ".pdf"),
    "markdown": Target(encoded(MARKDOWN), parse(".md"), ".md"),
    "html": Target(encoded(HTML), parse(".html"), ".html"),
    "text": Target(encoded(TEXT), parse(".txt"), ".txt"),
    "word": Target(fuzz_office.words, parse(".docx"), ".docx", zipped=True),
    "sheets": Target(fuzz_office.workbooks, parse(".xlsx"), ".xlsx", zipped=True),
    "slides": Target(fuzz_office.decks, parse(".pptx"), ".pptx", zipped=True),
    "odt": Target(fuzz_office.texts, parse(".odt"), ".odt", zipped=True),
    "ods": Target(fuzz_office.opensheets, parse(".ods"), ".ods", zipped=True),
    "epub": Target(fuzz_office.books, parse(".epub"), ".epub", zipped=True),
    "rtf": Target(lambda: [fuzz_office.RTF], parse(".rtf"), ".rtf"),
    "csv": Target(encoded(CSV), parse(".csv"), ".csv"),
    "eml": Target(mails, parse(".eml"), ".eml"),
    "msg": Target(outlook_mails, parse(".msg"), ".msg", fixed=True),
    "json": Target(encoded(f"[{CORPUS}, {QUERIES}]"), parse(".json"), ".json"),
    "settings": Target(lambda: [SETTINGS.encode()], read_settings),
    "dataset": Target(lambda: [JSON.encode(), JSONL.encode(), CSV.encode()], read_dataset_file),
    "retrieval-set": Target(
        lambda: [CORPUS.encode(), QUERIES.encode(), QRELS.encode()], read_retrieval_files
    ),
    "gguf": Target(ggufs, read_gguf, fixed=True),
    "manifest": Target(manifests, read_manifests),
    "library": Target(library_files, read_library, fixed=True),
    "vault": Target(vault_files, read_vault, fixed=True),
    "export": Target(exports, read_export, fixed=True),
    "folder": Target(folders, read_folder_made_to_harm, patience=15.0),
    "bundle": Target(lambda: [BUNDLE.encode()], read_bundle),
    "server": Target(requests, send_request, patience=60.0),
}
"""By name; everything that localrag reads and that may come from somebody else."""
