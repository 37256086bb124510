"""Word documents (docx): mammoth makes HTML of them, which is read as any other page.

Tracked insertions, text boxes, notes and lists are kept; what was deleted is not. Before that,
formulas become text in one line, and text that Word does not show is taken out.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.etree import ElementTree

from localrag.documents.formats.archive import Archive, core_title, local
from localrag.documents.formats.html import html_lines
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import PageLines, build, empty
from localrag.documents.pictures import stored, with_pictures
from localrag.text.normalize import clean
from localrag.types import Document

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_SPACE = "{http://www.w3.org/XML/1998/namespace}space"
_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='标题'] => h1:fresh
comment-reference =>
"""
_OFF = ("0", "false", "off", "none")
_WHITE = ("ffffff", "fffffe", "fefefe")


def read(file: SourceFile) -> Document:
    """Raises what `Archive` raises, EmptyFileError if there is no text."""
    import mammoth

    archive = Archive(file)
    members = {}
    hidden = 0
    for name in archive.names():
        if name.startswith("word/") and name.endswith(".xml") and name.count("/") == 1:
            root = archive.xml(name)
            if root is None or local(root.tag) not in ("document", "footnotes", "endnotes"):
                continue
            if not file.options.hidden_text:
                hidden += _drop_hidden(root)
            _write_formulas(root)
            members[name] = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    try:
        html = mammoth.convert_to_html(
            archive.replaced(members),
            style_map=_STYLES,
            convert_image=lambda _: [],
            include_embedded_style_map=False,
            external_file_access=False,
        ).value
    except Exception as error:  # whatever a damaged file leads mammoth to
        raise archive.damaged(error) from error
    page = PageLines(html_lines(clean(html)))
    page = with_pictures(file, page, stored(archive, "word/media/"))
    if not page.lines:
        raise empty(file.source)
    metadata = {"hidden_text": "1"} if hidden else {}
    return build(file, [page], clean(core_title(archive)), metadata)


def _drop_hidden(root: ElementTree.Element) -> int:
    """Take out what Word does not show: hidden and white text. How many runs these were."""
    gone = 0
    for parent in root.iter():
        for run in [each for each in parent if each.tag == f"{_W}r"]:
            style = run.find(f"{_W}rPr")
            if style is not None and _is_hidden(style):
                parent.remove(run)
                gone += 1
    return gone


def _is_hidden(style: ElementTree.Element) -> bool:
    vanish = style.find(f"{_W}vanish")
    if vanish is not None and vanish.get(f"{_W}val", "1") not in _OFF:
        return True
    colour, behind = style.find(f"{_W}color"), style.find(f"{_W}shd")
    on_colour = behind is not None and behind.get(f"{_W}fill", "auto").lower() not in (
        "auto",
        *_WHITE,
    )
    highlighted = style.find(f"{_W}highlight") is not None
    white = colour is not None and colour.get(f"{_W}val", "").lower() in _WHITE
    return white and not on_colour and not highlighted


def _write_formulas(root: ElementTree.Element) -> None:
    for parent in list(root.iter()):
        for index, child in enumerate(list(parent)):
            if local(child.tag) == "oMath":
                run = ElementTree.Element(f"{_W}r")
                text = ElementTree.SubElement(run, f"{_W}t", {_SPACE: "preserve"})
                text.text = f" {' '.join(_formula(child).split())} "
                run.tail = child.tail
                parent[index] = run
            elif local(child.tag) == "oMathPara":
                _write_formulas(child)
                parent[index : index + 1] = [each for each in child if local(each.tag) == "r"]


def _formula(node: ElementTree.Element) -> str:
    """A formula of Office (OMML) in one line: a fraction is (a)/(b), a power a^(b)."""
    name = local(node.tag)
    if name == "t":
        return node.text or ""
    if name.endswith("Pr"):
        marks = [each for each in node if local(each.tag) in ("chr", "begChr")]
        return next(iter(marks[0].attrib.values()), "") if name == "naryPr" and marks else ""
    parts = {local(each.tag): each for each in node}

    def part(key: str) -> str:
        inner = _formula(parts[key]).strip() if key in parts else ""
        return inner if len(inner) < 2 or inner.isalnum() else f"({inner})"

    if name == "f":
        return f"{part('num')}/{part('den')}"
    if name in ("sSup", "sSub", "sSubSup"):
        low = f"_{part('sub')}" if "sub" in parts else ""
        high = f"^{part('sup')}" if "sup" in parts else ""
        return f"{part('e')}{low}{high}"
    if name == "rad":
        return f"√{part('deg') if 'deg' in parts else ''}({_formula(parts['e'])})"
    if name == "nary":
        sign = "".join(_signs(node)) or "∫"
        low = f"_{part('sub')}" if "sub" in parts else ""
        high = f"^{part('sup')}" if "sup" in parts else ""
        return f"{sign}{low}{high} {_formula(parts['e'])}"
    inner = " ".join(_formula(each) for each in node) if name in ("m", "mr") else None
    if inner is None:
        inner = "".join(_formula(each) for each in node)
    return f"({inner})" if name == "d" else inner


def _signs(node: ElementTree.Element) -> Iterator[str]:
    for each in node.iter():
        if local(each.tag) == "chr":
            yield from each.attrib.values()
