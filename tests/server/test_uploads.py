"""Files that are sent to the server: what is kept, what is refused, and what goes with them."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from library.library_fixtures import indexes
from server.conftest import Served, streamed_events
from sse_starlette import ServerSentEvent

from localrag.errors import LibraryDamagedError, LibraryError
from localrag.library.folder.gate import UPLOADS, enter_library
from localrag.library.folder.uploads import file_of, free_place, safe_name
from localrag.library.records import FileState, SourceRecord
from localrag.library.transfer import export_library, import_library
from localrag.server import uploads

RAW = {"content-type": "application/octet-stream"}
HARBOUR = b"The harbour of Elm was dug in 1732 by forty men."


def send(
    http: httpx.Client, name: str, data: bytes, **headers: str
) -> list[tuple[str, dict[str, object]]]:
    request = {"params": {"name": name}, "content": data, "headers": RAW | headers}
    return list(streamed_events(http, "/api/documents", **request))


def kept(served: Served) -> dict[str, bytes]:
    folder = served.engine.library.directory / UPLOADS
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.exists() else {}


def test_a_file_is_kept_found_and_gone_with_its_document(served: Served) -> None:
    with served.client() as http:
        *progress, (kind, data) = send(http, "Elm.txt", HARBOUR)
        assert (kind, data["failed"]) == ("done", False)
        assert data["said"] == "Added (passages: 1)"
        assert {kind for kind, _ in progress} == {"progress"}
        assert kept(served) == {"Elm.txt": HARBOUR}
        (passage, *_) = http.post("/api/search", json={"question": "harbour"}).json()["passages"]
        assert passage["cited"].startswith("Elm.txt")
        assert passage["text"] == HARBOUR.decode()
        documents = http.get("/api/documents").json()["documents"]
        (own_document,) = (
            document
            for document in documents
            if document["id"] == hashlib.sha256(HARBOUR).hexdigest()
        )
        assert http.delete(f"/api/documents/{own_document['id']}").json()["purged"]
        assert kept(served) == {}


def test_the_same_bytes_are_unchanged_and_another_file_of_the_name_gets_a_number(
    served: Served,
) -> None:
    with served.client(**{"accept-language": "zh"}) as http:
        send(http, "Elm.txt", HARBOUR)
        ((_, again),) = send(http, "copy.txt", HARBOUR)
        assert again == {"said": "文档库中已有此文件。", "failed": False}
        *_, (_, other) = send(http, "elm.TXT", HARBOUR + b" It silted up.")
        assert not other["failed"]
        assert sorted(kept(served)) == ["Elm.txt", "elm (2).TXT"]


def test_what_cannot_be_read_is_not_kept(served: Served) -> None:
    with served.client() as http:
        for name, data in (("a.pdf", b"%PDF-1.4 nothing"), ("b.xyz", b"\0\1\2"), ("c.txt", b"")):
            *_, (kind, record) = send(http, name, data)
            assert (kind, record["failed"]) == ("done", True)
            assert str(record["said"]).startswith(name), record
            assert str(served.engine.library.directory) not in str(record)
        assert len(http.get("/api/documents").json()["documents"]) == 2
        assert http.get("/api/unread").json()["unread"] == []
    assert kept(served) == {}


def test_attachments_come_and_go_with_their_mail(served: Served) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "The harbour", "a@b.example", "c@d.example"
    mail.set_content("See what is attached.")
    mail.add_attachment(HARBOUR, maintype="text", subtype="plain", filename="Elm.txt")
    with served.client() as http:
        *_, (_, data) = send(http, "m.eml", mail.as_bytes())
        assert not data["failed"]
        documents = http.get("/api/documents").json()["documents"]
        assert len(documents) == 4
        (own_document,) = (
            document for document in documents if document["sources"][0].endswith("m.eml")
        )
        http.delete(f"/api/documents/{own_document['id']}")
        assert len(http.get("/api/documents").json()["documents"]) == 2
    assert kept(served) == {}


def test_the_body_is_bounded_and_no_form(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "SIZE_LIMIT", 3_000_000)
    with served.client() as http:
        large = b"word " * 1_000_000
        for body in (large, iter([large])):
            response = http.post("/api/documents?name=a.txt", content=body, headers=RAW)
            assert response.status_code == 413
        for media in ("multipart/form-data; boundary=x", "text/plain"):
            headers = {"content-type": media}
            response = http.post("/api/documents?name=a.txt", content=HARBOUR, headers=headers)
            assert response.status_code == 400
    assert kept(served) == {}


def test_files_on_their_way_are_counted(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "MOST", 1)
    with served.client() as http:
        for number in range(3):  # each has arrived before the next one
            assert send(http, f"{number}.txt", HARBOUR)[-1][0] == "done"
        monkeypatch.setattr(uploads, "MOST", 0)
        reply = http.post("/api/documents", params={"name": "x"}, content=HARBOUR, headers=RAW)
        assert reply.status_code == 429
        assert int(reply.headers["retry-after"]) > 0


def test_who_writes_meanwhile_is_named(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localrag.server.uploads.PATIENCE", 0.2)
    program = (
        "import sys, time; from pathlib import Path\n"
        "from localrag.library.folder.locking import WriteLock\n"
        "with WriteLock(Path(sys.argv[1])).hold(5): print('held', flush=True); time.sleep(60)"
    )
    directory = served.engine.library.directory
    command = [sys.executable, "-c", program, str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with served.client() as http:
            *_, (kind, data) = send(http, "Elm.txt", HARBOUR)
        other.kill()
    assert kind == "error"
    assert str(other.pid) in str(data["message"])


def test_what_was_cut_off_goes_with_the_next_upload_or_removal(served: Served) -> None:
    folder = served.engine.library.directory / UPLOADS
    folder.mkdir()
    (folder / "half.txt").write_bytes(b"of an upload that was killed")
    with served.client() as http:
        send(http, "Elm.txt", HARBOUR)
    assert kept(served) == {"Elm.txt": HARBOUR}


def test_uploads_travel_with_their_library(served: Served, tmp_path: Path) -> None:
    with served.client() as http:
        send(http, "Elm.txt", HARBOUR)
    archive, new = tmp_path / "a.zip", tmp_path / "new"
    manifest = export_library(served.engine.library.directory, archive, "0.2.0")
    assert manifest.format == 2
    import_library(archive, new, indexes=indexes())
    assert (new / UPLOADS / "Elm.txt").read_bytes() == HARBOUR
    with zipfile.ZipFile(archive) as zip_file:
        whole = {name: zip_file.read(name) for name in zip_file.namelist()}
    for name, data in (
        ("uploads/Elm.txt", b"something else"),
        ("uploads/other.txt", HARBOUR),
        ("uploads/../Elm.txt", HARBOUR),
    ):
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zip_file:
            for member, content in (whole | {name: data}).items():
                zip_file.writestr(member, content)
        with pytest.raises(LibraryDamagedError):
            import_library(archive, tmp_path / "changed", indexes=indexes())
        assert not (tmp_path / "changed").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: links")
@pytest.mark.parametrize("kind", ["link", "folder"])
def test_uploads_are_plain_files(served: Served, kind: str) -> None:
    directory = served.engine.library.directory
    (directory / UPLOADS).mkdir()
    place = directory / UPLOADS / "Elm.txt"
    if kind == "link":
        place.symlink_to(directory.parent)
    else:
        place.mkdir()
    with pytest.raises(LibraryError, match=r"uploads/Elm\.txt"):
        enter_library(directory)


@pytest.mark.parametrize(
    ("given", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd", "passwd"),
        ("C:\\Users\\x\\年报.pdf", "年报.pdf"),
        ("", "file"),
        ("..", "file"),
        (".bashrc", "bashrc"),
        ("con.txt", "_con.txt"),
        ("a\0b\n:c.txt", "a_b__c.txt"),
        ("evil\u202etxt.exe", "evil_txt.exe"),
        ("dots. . .", "dots"),
        ("x" * 400 + ".pdf", "x" * 176 + ".pdf"),
        ("年" * 100 + ".pdf", "年" * 58 + ".pdf"),
        ("cafe\u0301.txt", "caf\u00e9.txt"),
    ],
)
def test_names_are_one_safe_component(given: str, safe: str) -> None:
    assert safe_name(given) == safe
    assert safe_name(safe) == safe


def test_an_upload_is_found_where_its_library_lies_now(tmp_path: Path) -> None:
    (tmp_path / UPLOADS).mkdir()
    place = free_place(tmp_path, "a.txt")
    place.write_text("a", encoding="utf-8")
    assert free_place(tmp_path, "A.txt").name == "A (2).txt"
    digest = hashlib.sha256(b"a").hexdigest()

    def find(source: str) -> SourceRecord | None:
        is_here = source == str(place)
        return None if is_here else SourceRecord(FileState(source, 1, 1, 2), digest)

    for source in ("/elsewhere/lib/uploads/a.txt", "C:\\lib\\uploads\\a.txt"):
        assert file_of(tmp_path, source, find) == place
    for source in ("/elsewhere/uploads/b.txt", "/elsewhere/a.txt", "uploads/../a.txt"):
        assert file_of(tmp_path, source, find) == Path(source)


KILLED = """
import os, sys, threading, time
from pathlib import Path
from library.library_fixtures import EMBEDDER, open_library
from localrag import factory
from localrag.config.settings import Settings

settings = Settings()
library = open_library(
    Path(sys.argv[1]),
    tokenize=factory.make_tokenizer(settings),
    embedding=factory.identity_of(EMBEDDER, settings),
)
indexer = factory.make_indexer(settings, library, EMBEDDER)
print("ready", flush=True)
for number in range(1000):
    file = Path(sys.argv[2]) / "sent"
    file.write_bytes(b"The number of this file is %d. " % number + os.urandom(4).hex().encode())
    if indexer.upload(file, f"{number}.txt").committed:
        print(number, flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGKILL")
@pytest.mark.parametrize("after", [0.05, 0.4, 0.9])
def test_a_kill_loses_nothing_that_was_reported(tmp_path: Path, after: float) -> None:
    from library.library_fixtures import EMBEDDER, open_library

    from localrag import factory
    from localrag.config.settings import Settings

    scratch, directory = tmp_path / "scratch", tmp_path / "library"
    scratch.mkdir()
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}
    command = [sys.executable, "-c", KILLED, str(directory), str(scratch)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline(), process.stdout.readline()]
        time.sleep(after)
        os.kill(process.pid, signal.SIGKILL)
        lines += process.stdout.read().splitlines(keepends=True)
    names_reported = {f"{line.strip()}.txt" for line in lines[1:] if line.endswith("\n")}
    settings = Settings()
    library = open_library(
        directory,
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )
    with library:
        library.sweep_uploads()
        ids = {Path(source.state.path).name: source.document_id for source in library.sources()}
        assert names_reported <= ids.keys()
        files = {path.name: path.read_bytes() for path in (directory / UPLOADS).iterdir()}
        assert {name: hashlib.sha256(data).hexdigest() for name, data in files.items()} == ids


def test_the_file_stays_until_nobody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its client goes between two events."""
    deeds: list[str] = []

    @asynccontextmanager
    async def working(_: object) -> AsyncIterator[AsyncIterator[ServerSentEvent]]:
        async def told() -> AsyncIterator[ServerSentEvent]:
            for number in range(50):
                yield ServerSentEvent(str(number))
                await anyio.sleep(0.01)

        try:
            yield told()
        finally:
            deeds.append("the work has ended")

    async def leave() -> None:
        stack = ExitStack()
        stack.callback(deeds.append, "the file is gone")
        nothing: Any = None
        stream = uploads.UploadRoutes()._add_events(nothing, Path("upload"), "a.txt", "en", stack)
        assert await anext(stream)
        await stream.aclose()  # type: ignore[attr-defined]
        with anyio.move_on_after(60):
            while len(deeds) < 2:
                await anyio.sleep(0.01)

    monkeypatch.setattr(uploads, "working", working)
    asyncio.run(leave())
    assert deeds == ["the work has ended", "the file is gone"]
