"""Books (EPUB): the chapters in the order in which they are read, each a page, read as HTML."""

from __future__ import annotations

import posixpath
import re
from urllib.parse import unquote
from xml.etree import ElementTree

from localrag.documents.decoding import decode
from localrag.documents.formats.archive import ZipArchive, elements, local
from localrag.documents.formats.html import html_lines
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import PageLines, build, empty, squeeze
from localrag.documents.pictures import Pictures
from localrag.errors import EncryptedFileError
from localrag.text.normalize import clean
from localrag.types import Document

_PICTURE = re.compile(
    r"""\b(?:src|href)\s*=\s*["']([^"':]+\.(?:png|jpe?g|gif|webp|bmp))["']""", re.IGNORECASE
)
_FONTS = ("http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC")


def read(file: SourceFile) -> Document:
    """Raises what `ZipArchive` raises, EmptyFileError if no chapter has text."""
    archive = ZipArchive(file)
    if _is_protected(archive):
        raise EncryptedFileError(
            "{source} is protected (DRM), so its text cannot be read.",
            hint="Use an edition without protection.",
            source=file.source,
        )
    rootfile = next(elements(archive.xml("META-INF/container.xml"), "rootfile"), None)
    package_path = "" if rootfile is None else rootfile.get("full-path", "")
    package = archive.xml(package_path)
    if package is None:
        raise archive.damaged(ValueError("META-INF/container.xml"))
    pages: list[PageLines] = []
    pictures = Pictures(file, archive)
    folder = posixpath.dirname(package_path)
    labels = _labels(archive, package, folder)
    for name in _chapters(package, folder):
        data = archive.read(name)
        if data is not None:
            text = decode(SourceFile(file.source, data)) if data else ""
            lines = html_lines(clean(text))
            first = next((line.text for line in lines if line.level), "")
            page = PageLines(lines, labels.get(name, first))
            inside = posixpath.dirname(name)
            names = (
                posixpath.normpath(posixpath.join(inside, unquote(href)))
                for href in _PICTURE.findall(text)
            )
            pages.append(pictures.on(page, names))
            file.page_done()
    if not any(page.lines for page in pages):
        raise empty(file.source)
    title = next((e.text or "" for e in elements(package, "title")), "")
    return build(file, pages, clean(title), unit="chapter")


def _chapters(package: ElementTree.Element, folder: str) -> list[str]:
    items = {
        e.get("id"): e.get("href", "")
        for e in elements(package, "item")
        if "nav" not in e.get("properties", "").split()
    }
    spine = (e.get("idref") for e in elements(package, "itemref"))
    hrefs = (items[id_] for id_ in spine if id_ in items)
    return [posixpath.normpath(posixpath.join(folder, unquote(href))) for href in hrefs]


def _labels(archive: ZipArchive, package: ElementTree.Element, folder: str) -> dict[str, str]:
    """What the table of contents calls the chapters, of EPUB 3 (nav) or 2 (ncx)."""
    labels: dict[str, str] = {}
    for item in elements(package, "item"):
        is_nav = "nav" in item.get("properties", "").split()
        if not is_nav and item.get("media-type") != "application/x-dtbncx+xml":
            continue
        name = posixpath.normpath(posixpath.join(folder, unquote(item.get("href", ""))))
        for element in elements(archive.xml(name), "a", "navPoint"):
            if local(element.tag) == "a":
                target, text = element.get("href", ""), "".join(element.itertext())
            else:
                sources = (e.get("src", "") for e in element if local(e.tag) == "content")
                target = next(sources, "")
                text = "".join("".join(e.itertext()) for e in element if local(e.tag) == "navLabel")
            place = posixpath.join(posixpath.dirname(name), unquote(target.partition("#")[0]))
            labels.setdefault(posixpath.normpath(place), squeeze(clean(text)))
    return labels


def _is_protected(archive: ZipArchive) -> bool:
    """Whether more than fonts is encrypted."""
    methods = elements(archive.xml("META-INF/encryption.xml"), "EncryptionMethod")
    return any(method.get("Algorithm") not in _FONTS for method in methods)
