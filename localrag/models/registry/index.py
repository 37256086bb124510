"""Finding a wheel in the user's package indexes, without making pip download it.

`pip install --dry-run --report` would name the address too, but pip fetches
every wheel whole for that, so each byte would travel twice. Reads the simple
repository API (PEP 503 pages, PEP 691 JSON) and find-links folders and pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit, urlunsplit
from urllib.request import url2pathname

import msgspec

from localrag.errors import SourceFailedError
from localrag.models.registry.download import Downloader, joined
from localrag.models.registry.pip import PipSettings

_ACCEPT = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
    "text/html;q=0.1"
)


@dataclass(frozen=True, slots=True)
class Wheel:
    """Where a package's wheel is, and the hash that the index publishes for it, if any."""

    url: str
    sha256: str | None


def find(package: str, settings: PipSettings, downloader: Downloader) -> Wheel:
    """The wheel of a `name==version` package, from the first place that has it.

    Raises `SourceFailedError` naming what each place said.
    """
    name, _, version = package.partition("==")
    reasons: list[SourceFailedError] = []
    own_pages = [f"{index.rstrip('/')}/{_canonical(name)}/" for index in settings.indexes]
    for place in (*settings.find_links, *own_pages):
        local = local_path(place)
        links = _page(place, downloader, reasons) if local is None else _folder(local)
        if wheel := _choose(links, name, version):
            return wheel
    reasons.append(SourceFailedError("no index has a wheel for {package}", package=package))
    raise joined(reasons)


def local_path(url: str) -> Path | None:
    """The path that a file: address or a plain path means, or None for the network."""
    if urlsplit(url).scheme == "file":
        return Path(url2pathname(urlsplit(url).path))
    return None if "://" in url else Path(url).expanduser()


def _folder(path: Path) -> Iterable[Wheel]:
    if path.is_file():
        return _html(path.read_text(encoding="utf-8", errors="replace"), path.as_uri())
    if (path / "index.html").is_file():
        return _folder(path / "index.html")
    return [Wheel(wheel.resolve().as_uri(), None) for wheel in sorted(path.glob("*.whl"))]


def _page(place: str, downloader: Downloader, reasons: list[SourceFailedError]) -> Iterable[Wheel]:
    try:
        page = downloader.page(place, _ACCEPT)
    except SourceFailedError as failure:
        reasons.append(failure)
        return []
    url = str(page.url)
    if "json" not in page.headers.get("Content-Type", ""):
        return _html(page.text, url)
    try:
        listing = msgspec.json.decode(page.text, type=_Listing)
    except msgspec.DecodeError as error:
        reasons.append(
            SourceFailedError(
                "the list of packages at {host} cannot be read: {reason}",
                host=page.url.host,
                reason=error,
            )
        )
        return []
    return (
        Wheel(_with_credentials(urljoin(url, file.url), url), file.hashes.get("sha256"))
        for file in listing.files
    )


class _File(msgspec.Struct):
    url: str
    hashes: dict[str, str] = {}


class _Listing(msgspec.Struct):
    files: list[_File]


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.base: str | None = None
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get("href")
        if tag == "base" and address and self.base is None:
            self.base = address
        if tag == "a" and address and ".whl" in address:
            self.addresses.append(address)


def _html(text: str, url: str) -> Iterator[Wheel]:
    parser = _Links()
    parser.feed(text)
    for address in parser.addresses:
        full, fragment = urldefrag(urljoin(urljoin(url, parser.base or ""), address))
        match = re.search(r"sha256=([0-9a-f]{64})", fragment)
        yield Wheel(_with_credentials(full, url), match[1] if match else None)


def _with_credentials(url: str, index: str) -> str:
    """Carry the user name and password of an index over to its own files, as pip does."""
    parts, own = urlsplit(url), urlsplit(index)
    if own.username and not parts.username and parts[:1] == own[:1]:
        login, _, host = own.netloc.rpartition("@")
        if host == parts.netloc:
            return urlunsplit(parts._replace(netloc=f"{login}@{host}"))
    return url


def _choose(links: Iterable[Wheel], name: str, version: str) -> Wheel | None:
    for wheel in links:
        pieces = unquote(urlsplit(wheel.url).path).rpartition("/")[2].split("-")
        if len(pieces) < 5 or not wheel.url.endswith(".whl"):
            continue
        if _canonical(pieces[0]) == _canonical(name) and pieces[1] == version:
            return wheel
    return None


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
