"""`localrag serve` as a person starts it: a process of its own on a free port."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from waiting import until

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-of-this-test-alone"
RAW = {"content-type": "application/octet-stream"}

CODE = """
import sys
sys.path.insert(0, {tests!r})
from fakes import HashEmbedder
from localrag import factory

factory.make_embedder = lambda *_: HashEmbedder()
sys.argv = ["localrag", *sys.argv[1:]]
from localrag.__main__ import main
main()
"""


def command(*arguments: object) -> list[str]:
    """The command line with an embedding model that is there at once."""
    code = CODE.format(tests=str(ROOT / "tests"))
    return [sys.executable, "-c", code, *map(str, arguments)]


@contextmanager
def served(*arguments: object) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run = command(*arguments, "--port", port)
    environment = os.environ | {"LOCALRAG_TOKEN": TOKEN, "LOCALRAG_LANG": "en"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    with (
        subprocess.Popen(run, env=environment, text=True, **quiet) as process,  # type: ignore[call-overload]
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers={"authorization": f"Bearer {TOKEN}"},
            timeout=60,
            trust_env=False,
        ) as http,
    ):
        try:
            _wait_for(http, process)
            yield http, process
        finally:
            process.kill()


def _wait_for(http: httpx.Client, process: subprocess.Popen[str]) -> None:
    before = time.monotonic() + 60
    while time.monotonic() < before and process.poll() is None:
        try:
            http.get("/healthz")
        except httpx.ConnectError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("it does not answer")


def test_without_a_library_it_begins_an_empty_one(tmp_path: Path) -> None:
    with served("--library", tmp_path / "new", "serve") as (http, process):
        (library,) = http.get("/api/status").json()["libraries"]
        assert (library["name"], library["documents"]) == ("new", 0)
        assert http.post("/api/search", json={"question": "orchids"}).json()["passages"] == []
        content = b"The glass house has two hundred orchids."
        http.post("/api/documents?name=a.txt", content=content, headers=RAW)
        (passage,) = http.post("/api/search", json={"question": "orchids"}).json()["passages"]
        assert passage["source"] == "a.txt"
        process.terminate()
        process.wait(60)
        assert process.stderr is not None
        assert "The library new is empty: drop files on the page" in process.stderr.read()


def test_a_further_folder_must_be_a_library(tmp_path: Path) -> None:
    run = command("--library", tmp_path / "new", "serve", tmp_path / "mistyped")
    result = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1
    assert "There is no library in" in result.stderr
    assert not (tmp_path / "mistyped").exists()


def test_a_library_that_is_deleted_is_not_begun_anew(tmp_path: Path) -> None:
    library = tmp_path / "new"
    with served("--library", library, "serve") as (http, _):
        assert http.get("/libraries").status_code == 200
        shutil.rmtree(library)
        until(lambda: http.get("/libraries").status_code == 404)
        assert not library.exists()
