"""Another user of the machine: what they can read, and what the server tells them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from server.conftest import Served, Writing, serving

from localrag.server.token import own_token

pytestmark = pytest.mark.skipif(
    os.name == "nt" or os.geteuid() != 0, reason="only where root may become another user"
)

OTHER = """
import http.client, json, os, sys

def status(method, path):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=60)
    connection.request(method, path)
    return connection.getresponse().status

port, *paths = sys.argv[1:]
status("GET", "/healthz")  # whatever Python loads for it may be out of reach later
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
found = {}
for path in paths:
    try:
        found[path] = len(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
    except PermissionError:
        found[path] = "denied"
for method, path in (("GET", "/api/status"), ("POST", "/api/search"), ("GET", "/metrics")):
    found[path] = status(method, path)
print(json.dumps(found))
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that everybody may enter: what protects is what localrag makes in it."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def as_other(served: Served, *paths: Path) -> dict[str, object]:
    result = subprocess.run(
        [sys.executable, "-I", "-c", OTHER, str(served.port), *map(str, paths)],
        capture_output=True,
        text=True,
        check=True,
        cwd="/",
        timeout=60,
    )
    record: dict[str, object] = json.loads(result.stdout)
    return record


def test_they_read_neither_token_nor_library_and_are_not_answered(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCALRAG_TOKEN", raising=False)
    token = place / "state" / "server" / "token"
    own_token(token)
    (place / "readable").write_text("to show that they can read at all")
    (place / "readable").chmod(0o644)
    with serving(place / "garden", Writing()) as served:
        with served.client() as client:
            response = client.post(
                "/api/documents?library=garden&name=moss.txt",
                content=b"The moss garden opens at nine.",
                headers={"content-type": "application/octet-stream"},
            )
            assert response.is_success
            assert "event: done" in response.text
        uploads = place / "garden" / "uploads"
        [moss] = [path for path in uploads.rglob("*") if path.is_file()]
        results = as_other(served, place / "readable", token, token.parent, uploads, moss)
    denials = dict.fromkeys(map(str, (token, token.parent, uploads, moss)), "denied")
    statuses = dict.fromkeys(("/api/status", "/api/search", "/metrics"), 401)
    assert results == {str(place / "readable"): 33, **denials, **statuses}
