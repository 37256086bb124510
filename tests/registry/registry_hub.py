"""A local server that speaks the hubs' protocol, and a package index beside it."""

from __future__ import annotations

import base64
import hashlib
import re
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

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
    seconds_per_block: float = 0.0

    def bytes_sent(self, end: str) -> int:
        return sum(request.sent for request in self.requests if request.path.endswith(end))

    def gets(self, end: str) -> list[Request]:
        return [r for r in self.requests if r.method == "GET" and r.path.endswith(end)]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    hub: Hub

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        return

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        hub = self.hub
        request = Request(self.command, self.path, self.headers.get("Range", ""))
        hub.requests.append(request)
        expected = "Basic " + base64.b64encode(f"user:{hub.password}".encode()).decode()
        if hub.password and self.headers.get("Authorization") != expected:
            self._plain(401, {"WWW-Authenticate": 'Basic realm="index"'})
        elif self.path in hub.pages:
            kind, body = hub.pages[self.path]
            self._plain(200, {"Content-Type": kind}, body)
        elif self.path.startswith("/cdn"):
            self._bytes(hub.files[self.path.removeprefix("/cdn")], request)
        elif (data := hub.files.get(self.path)) is None:
            self._plain(404, {})
        elif "/resolve/" in self.path and self.path not in hub.small:
            tag = "0" * 64 if hub.wrong_etag else sha256(data)
            headers = {"Location": f"/cdn{self.path}"}
            if not hub.no_etag:
                headers |= {"X-Linked-Etag": f'"{tag}"', "X-Linked-Size": str(len(data))}
            self._plain(302, headers)
        else:
            self._bytes(data, request)

    def _plain(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def _bytes(self, data: bytes, request: Request) -> None:
        etag = {} if self.hub.no_etag else {"ETag": f'"{git_sha1(data)}"'}
        if self.command == "HEAD":
            self.send_response(200)
            for name, value in etag.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            return
        queue = self.hub.faults.get(self.path.removeprefix("/cdn"), [])
        fault = queue.pop(0) if queue else ""
        if fault in ("503", "404"):
            self._plain(int(fault), {})
            return
        if fault == "wrong":
            data = bytes(len(data))
        start, status = 0, 200
        match = re.match(r"bytes=(\d+)-", request.range)
        if match and fault != "no-range":
            start, status = int(match[1]), 206
            if start >= len(data):
                self._plain(416, {"Content-Range": f"bytes */{len(data)}"})
                return
            etag["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self.send_response(status)
        for name, value in etag.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        end = start + int(fault[4:]) if fault.startswith("cut:") else len(data)
        for place in range(start, min(end, len(data)), 8192):
            block = data[place : min(place + 8192, end)]
            try:
                self.wfile.write(block)
            except OSError:
                self.close_connection = True
                return
            request.sent += len(block)
            if self.hub.seconds_per_block:
                time.sleep(self.hub.seconds_per_block)
        if fault.startswith("cut:"):
            self.wfile.flush()
            self.close_connection = True


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.url = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("MODELSCOPE_DOMAIN", hub.url)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield hub
    server.shutdown()
    thread.join()
    server.server_close()


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
