"""The server in `localrag prove-offline`: all that a browser and a client would have of it."""

from __future__ import annotations

import json
import re
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import httpx

    from localrag.engine import Engine

_FILES = re.compile(r'(?:src=|href=|from |import\()\s*"(?:\./)?([\w./-]+\.\w+)"')
"""What a page or a script of ours names to be fetched."""
PATIENCE = 300.0
"""Seconds for an answer."""


def serve_and_ask(engine: Engine, library: Path, file: Path, question: str) -> None:
    """Serve a library, do everything with `file` over HTTP, and stop; closes the engine.

    Raises RuntimeError where something is not answered as it should be.
    """
    import httpx

    from localrag.server.access import Access
    from localrag.server.app import make_app
    from localrag.server.libraries import Libraries
    from localrag.server.listening import bind, in_thread

    listening = bind("127.0.0.1", 0)
    port, token = listening.getsockname()[1], secrets.token_urlsafe(32)
    app = make_app(Libraries([library], lambda _: engine), Access(token, port))
    url = f"http://127.0.0.1:{port}"
    with in_thread(app, listening), httpx.Client(base_url=url, timeout=PATIENCE) as client:
        if client.get("/api/status").status_code != 401:
            raise RuntimeError("the server answers without its token")
        client.headers["authorization"] = f"Bearer {token}"
        _page(client)
        kind = {"content-type": "application/octet-stream"}
        data, name = file.read_bytes(), {"name": file.name}
        added = _events(client.post("/api/documents", params=name, content=data, headers=kind))
        if added["done"]["failed"]:
            raise RuntimeError(added["done"]["said"])
        [document] = _json(client.get("/api/documents"))["documents"]
        passages = _json(client.post("/api/search", json={"question": question}))["passages"]
        if not passages:
            raise RuntimeError("nothing is found")
        _events(client.post("/api/ask", json={"question": question}))["answer"]
        place = {"document": document["id"], "start": 0, "end": 10}
        image = _json(client.get("/api/view", params=place))["image"]
        if image is not None:
            client.get(image).raise_for_status()
        client.delete(f"/api/documents/{document['id']}").raise_for_status()


def _page(client: httpx.Client) -> None:
    """The page, and every file that it or one of its scripts names."""
    page = client.get("/").raise_for_status().text
    names = {path.removeprefix("/static/") for path in _FILES.findall(page)}
    fetched: set[str] = set()
    while names:
        name = names.pop()
        fetched.add(name)
        text = client.get(f"/static/{name}").raise_for_status().text
        names |= set(_FILES.findall(text)) - fetched
    if not any(name.endswith(".js") for name in fetched):
        raise RuntimeError("the page names no scripts")


def _json(response: httpx.Response) -> Any:
    if response.is_error:
        raise RuntimeError(response.json()["error"]["message"])
    return response.json()


def _events(response: httpx.Response) -> dict[str, Any]:
    """The last event of each name. Raises RuntimeError for one that tells of an error."""
    if response.is_error:
        raise RuntimeError(response.json()["error"]["message"])
    messages = re.findall(r"^event: (\w+)\r?\ndata: (.*?)\r?$", response.text, re.MULTILINE)
    events = {name: json.loads(data) for name, data in messages}
    if "error" in events:
        raise RuntimeError(events["error"]["message"])
    return events
