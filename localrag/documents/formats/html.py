"""HTML, read with selectolax: what a reader sees, without scripts and navigation.

Nothing is fetched: a document's links, pictures and frames stay where they are.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser, LexborNode

from localrag.documents.decoding import decode, decode_declared
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, build, resolved, squeeze, table_lines
from localrag.documents.tables import spread
from localrag.errors import CorruptFileError, EmptyFileError
from localrag.text.normalize import clean
from localrag.types import Document

_META = re.compile(rb"<meta[\s/][^>]*", re.IGNORECASE)
_CHARSET = re.compile(rb"charset\s*=\s*[\"']?\s*([\w.:+-]{2,40})", re.IGNORECASE)
_COMMENT = re.compile(rb"<!--.*?(?:-->|\Z)", re.DOTALL)
_UNSEEN = """
    script style noscript template nav footer aside form svg math iframe object embed canvas
    button select input textarea head audio video map dialog
"""
_BLOCK = """
    address article blockquote body caption center dd details div dl dt fieldset figcaption figure
    h1 h2 h3 h4 h5 h6 header hgroup hr html li main ol p pre section summary table tbody td tfoot
    th thead tr ul
"""
_DROPPED = frozenset(_UNSEEN.split())
_BLOCKS = frozenset(_BLOCK.split())
_BOUNDARIES = frozenset(("nav", "footer", "aside", "form", "dialog"))
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_NAVIGATION = frozenset(("navigation", "banner", "contentinfo", "search", "menu"))
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)"
    r"|opacity\s*:\s*(?:0+(?:\.0*)?|\.0+)(?:%|\s|;|$)|font-size\s*:\s*0*[01]?(?:\.\d*)?(?:px|pt|%|\s|;|$)"
    r"|(?:left|top|text-indent)\s*:\s*-\d{3,}",
    re.IGNORECASE,
)
_DEEPEST_TAG = 512
_TAG = re.compile(
    r"<!--.*?(?:-->|\Z)"
    r"|<(?P<raw>script|style|textarea|title|xmp|iframe|noembed|noframes)\b.*?(?:</(?P=raw)|\Z)"
    r"|<(?P<close>/?)(?P<name>[a-z][^\s/>]*)[^>]*?(?P<empty>/?)(?:>|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_END_LEFT_OUT = """
    area base body br col colgroup dd dt embed head hr html img input li link meta optgroup option
    p param rp rt source tbody td tfoot th thead tr track wbr
"""
_CLOSED_BY_ITSELF = frozenset(_END_LEFT_OUT.split())
"""Elements that have no end tag, or whose end a browser finds without it."""

_HEAD = 4096
"""Bytes in which a page declares its encoding."""

_MOST_SPANNED = 1000
"""Rows or columns of a cell, as in browsers."""

_DEEPEST = 100
"""Levels of nesting that are told apart; what lies deeper is taken as one text."""


def read(file: SourceFile) -> Document:
    """Read an HTML file; raises what `decode` raises, EmptyFileError if nothing is left."""
    text = clean(_decode(file))
    try:
        tree = LexborHTMLParser(_shallow(text))
    except Exception as error:  # the binding's errors share no other base
        raise CorruptFileError(
            "{source} cannot be read as HTML ({reason}).",
            hint="Open it in a browser, print the page to PDF and add that file.",
            source=file.source,
            reason=squeeze(str(error)) or type(error).__name__,
        ) from error
    title = tree.css_first("title")
    lines = list(_Walk().lines(tree.body)) if tree.body is not None else []
    if not lines:
        raise EmptyFileError(
            "{source} contains no text other than scripts and navigation.",
            hint="If a browser shows text, print the page to PDF and add that file.",
            source=file.source,
        )
    return build(file, [lines], resolved(title.text()) if title is not None else "", unit="text")


def html_lines(html: str) -> list[Line]:
    """The lines of HTML that another reader made."""
    body = LexborHTMLParser(_shallow(html)).body
    return list(_Walk().lines(body)) if body is not None else []


def _shallow(html: str) -> str:
    """The page without the tags that nest deeper than in a browser (512 levels, in Chrome).

    The parser looks through all open elements at each tag, so that time would grow with the square
    of their number.
    """
    depth = deeper = done = 0
    parts = []
    for tag in _TAG.finditer(html):
        name = (tag["name"] or "").lower()
        if not name or name in _CLOSED_BY_ITSELF:
            continue
        if tag["close"]:
            cut = deeper > 0
            deeper, depth = deeper - cut, max(0, depth - (not cut))
        elif tag["empty"] and name not in _BLOCKS:
            continue  # a part of a drawing
        else:
            cut = depth >= _DEEPEST_TAG
            deeper, depth = deeper + cut, depth + (not cut)
        if cut:
            parts.append(html[done : tag.start()])
            done = tag.end()
    return "".join([*parts, html[done:]])


def _decode(file: SourceFile) -> str:
    """The declared charset if it reads the bytes, else what the bytes look like."""
    data = file.data
    if not data.startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        for tag in _META.findall(_COMMENT.sub(b"", data[:_HEAD])):
            declared = _CHARSET.search(tag)
            # As browsers do: in a tag with content (of a description, say) it counts only for HTTP.
            if declared and (b"content" not in tag.lower() or b"http-equiv" in tag.lower()):
                text = decode_declared(data, declared.group(1).decode("ascii", "replace"))
                if text is not None:
                    return text
                break  # the declaration is wrong: the bytes decide
    return decode(file)


class _Walk:
    """One pass over the tree that gathers inline text until a block begins or ends."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.marker = ""

    def lines(self, root: LexborNode, depth: int = 0) -> Iterator[Line]:
        yield from self._node(root, depth)
        yield from self._flush(0)

    def _flush(self, level: int) -> Iterator[Line]:
        text = squeeze(resolved("".join(self.text)))
        self.text.clear()
        if text:
            yield Line(squeeze(self.marker + text), level)
            self.marker = ""

    def _node(self, node: LexborNode, depth: int) -> Iterator[Line]:
        child = node.child
        number = 1
        while child is not None:
            tag = child.tag or ""
            if tag == "-text":
                self.text.append(re.sub(r"\s+", " ", child.text_content or ""))
            elif tag == "br":
                yield from self._flush(0)
            elif tag == "img":
                self.text.append((child.attributes.get("alt") or "") + " ")
            elif tag in _DROPPED or tag.startswith("-") or _is_hidden(child):
                if tag in _BLOCKS or tag in _BOUNDARIES:
                    yield from self._flush(0)
            elif depth > _DEEPEST:
                self.text.append(f" {child.text(separator=' ')} ")
            elif tag in _BLOCKS:
                yield from self._flush(0)
                yield from self._block(child, tag, node.tag or "", number, depth)
                number += tag == "li"
            else:
                yield from self._node(child, depth + 1)
            child = child.next

    def _block(
        self, node: LexborNode, tag: str, parent: str, number: int, depth: int
    ) -> Iterator[Line]:
        if tag in _HEADINGS:
            if text := _flat(node, depth):
                yield Line(text, _HEADINGS[tag])
        elif tag == "pre":
            for line in (node.text() or "").split("\n"):
                if text := resolved(line).rstrip():
                    yield Line(text)
        elif tag == "table" and not _is_layout(node):
            for part in node.iter():
                if part.tag == "caption":
                    yield from self._node(part, depth + 1)
                    yield from self._flush(0)
            yield from _table_lines(node, depth)
        else:
            if tag == "li":
                self.marker = f"{number}. " if parent == "ol" else "- "
            yield from self._node(node, depth + 1)
            yield from self._flush(0)
            if tag == "li":
                self.marker = ""


def _flat(node: LexborNode, depth: int) -> str:
    """The text of a node on one line, its blocks separated by spaces."""
    return " ".join(line.text for line in _Walk().lines(node, depth + 1))


def _is_layout(table: LexborNode) -> bool:
    """Whether it only places other tables, as in mail: then its cells are blocks."""
    inner = sum(1 for nested in table.css("table") if nested.mem_id != table.mem_id)
    if not inner:
        return False
    widths = [sum(c.tag in ("td", "th") for c in row.iter()) for row, _ in _rows(table)]
    return max(widths, default=0) < 2 or 3 * inner >= sum(widths)


def _table_lines(table: LexborNode, depth: int) -> list[Line]:
    """The rows of a table; `thead`, else rows of `th` alone, name the columns."""
    rows: list[list[tuple[str, int, int]]] = []
    header_rows, begins, bold = 0, True, []
    for row, in_head in _rows(table):
        cells = [c for c in row.iter() if c.tag in ("td", "th") and not _is_hidden(c)]
        rows.append([(_flat(c, depth), _span(c, "colspan"), _span(c, "rowspan")) for c in cells])
        begins = begins and bool(cells) and (in_head or all(c.tag == "th" for c in cells))
        header_rows += begins
        bold.append(bool(cells) and all(_is_bold(c) for c in cells))
    if header_rows == len(rows):
        header_rows = 0
    styled = len(bold) > 1 and bold[0] and not all(bold)
    return table_lines(spread(rows), header_rows, styled=styled)


def _rows(table: LexborNode) -> Iterator[tuple[LexborNode, bool]]:
    """The rows that are shown, and whether each is in the head of the table."""
    for part in table.iter():
        if part.tag == "tr" and not _is_hidden(part):
            yield part, False
        elif part.tag in ("thead", "tbody", "tfoot") and not _is_hidden(part):
            for row in part.iter():
                if row.tag == "tr" and not _is_hidden(row):
                    yield row, part.tag == "thead"


def _span(cell: LexborNode, name: str) -> int:
    value = (cell.attributes.get(name) or "1").strip()
    return min(int(value), _MOST_SPANNED) if value.isdecimal() and len(value) < 6 else 1


def _is_bold(cell: LexborNode) -> bool:
    strong = cell.css_first("b, strong")
    return strong is not None and squeeze(strong.text()) == squeeze(cell.text())


def _is_hidden(node: LexborNode) -> bool:
    attributes = node.attributes
    return (
        "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or attributes.get("role") in _NAVIGATION
        or _HIDDEN_STYLE.search(attributes.get("style") or "") is not None
    )
