"""Make the sample PDFs in `data/` from `scripts/sample_sources/*.md`.

    python scripts/make_sample_data.py [FOLDER]

Needs the installed project. Running it twice gives the same bytes, so a
changed source is the only reason for a changed PDF.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pymupdf
from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "scripts" / "sample_sources"

PAPER = pymupdf.paper_rect("a5")
TEXT = pymupdf.Rect(48, 54, PAPER.x1 - 48, PAPER.y1 - 54)
HEADER = pymupdf.Rect(48, 20, PAPER.x1 - 48, 44)
FOOTER = pymupdf.Rect(48, PAPER.y1 - 44, PAPER.x1 - 48, PAPER.y1 - 20)
DATE = "D:20250101000000Z"

STYLE = """
body { margin: 0; font-family: sans-serif; font-size: 10px; line-height: 1.35; }
h1 { font-size: 20px; margin: 0 0 10px 0; }
h2 { font-size: 15px; margin: 0 0 8px 0; page-break-before: always; }
h3 { font-size: 11.5px; font-weight: bold; margin: 9px 0 3px 0; }
p { margin: 0 0 6px 0; text-align: justify; }
td, th { border: 0.7px solid #444; padding: 2px 5px; }
p.running { margin: 0; font-size: 8px; color: #555; text-align: center; }
"""


def make_pdf(markdown: str) -> bytes:
    """Lay out one source as a PDF with outline, running header and page numbers."""
    html = MarkdownIt("commonmark").enable("table").render(markdown)
    # The layout's own text of a heading loses the space at a line break.
    titles = [line.lstrip("# ") for line in markdown.split("\n") if line.startswith("#")]
    # The first chapter follows the introduction on the title page.
    html = html.replace("<h2>", '<h2 style="page-break-before: auto; margin-top: 14px">', 1)
    story = pymupdf.Story(html, user_css=STYLE)
    buffer = io.BytesIO()
    writer = pymupdf.DocumentWriter(buffer)
    outline: list[list[Any]] = []
    number, more = 0, 1
    while more:
        number += 1
        device = writer.begin_page(PAPER)
        more, _ = story.place(TEXT)

        def note(position: Any) -> None:
            if position.open_close & 1 and 0 < position.heading <= 3:
                outline.append([position.heading, titles[len(outline)], position.page])

        story.element_positions(note, {"page": number})
        story.draw(device)
        for where, text in ((HEADER, titles[0]), (FOOTER, str(number))):
            running = pymupdf.Story(f'<p class="running">{text}</p>', user_css=STYLE)
            running.place(where)
            running.draw(device)
        writer.end_page()
    writer.close()
    return _finish(buffer.getvalue(), titles[0], outline)


def _finish(data: bytes, title: str, outline: list[list[Any]]) -> bytes:
    """Embed only the glyphs in use, set outline and metadata, and take all that varies out."""
    with pymupdf.open(stream=data, filetype="pdf") as document:
        document.subset_fonts()
        document.set_toc(outline)
        document.set_metadata(
            {"title": title, "author": "localrag", "creationDate": DATE, "modDate": DATE}
        )
        document.xref_set_key(-1, "ID", "null")
        return bytes(
            document.tobytes(
                garbage=4, deflate=True, deflate_fonts=True, use_objstms=1, no_new_id=True
            )
        )


def main() -> None:
    """Write a PDF for each source into the folder given, `data/` by default."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "data"
    folder.mkdir(parents=True, exist_ok=True)
    for source in sorted(SOURCES.glob("*.md")):
        data = make_pdf(source.read_text(encoding="utf-8"))
        target = folder / f"{source.stem}.pdf"
        target.write_bytes(data)
        print(f"{target}: {len(data) // 1024} KB")


if __name__ == "__main__":
    main()
