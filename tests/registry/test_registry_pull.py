"""Pulling from hubs: resume, faults, hashes, licence, disk, folders, two processes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from registry_hub import BIG, SMALL, Hub, model, sha256
from waiting import until

from localrag import errors
from localrag.models.registry import download, job
from localrag.models.registry.job import Event
from localrag.models.registry.pull import plan, pull
from localrag.models.registry.spec import HuggingFaceSource, ModelFile, ModelSpec, catalogue
from localrag.models.registry.store import ModelStore

HF = "/toys/toy/resolve/main/model.bin"
MS = "/models/toys/toy/resolve/master/model.bin"
Build = Callable[..., ModelStore]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []
    monkeypatch.setattr(download, "time", SimpleNamespace(sleep=slept.append))
    return slept


def test_a_pull_follows_redirects_checks_and_records(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    events: list[Event] = []
    models = store(model())
    assert plan(models, ["toy"])[0].missing == len(BIG)
    assert pull(models, ["toy"], observer=events.append) == [models.folder / "toy"]
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    manifest = json.loads((models.folder / "toy/installed.json").read_text())
    assert manifest["files"][0]["sha256"] == sha256(BIG)
    assert manifest["files"][0]["source"] == "huggingface"
    assert events[-1] == Event("done", "toy", done=len(BIG), total=len(BIG))
    counts = [event.done for event in events if event.kind == "progress"]
    assert counts == sorted(counts)
    assert counts[-1] == len(BIG)
    assert not list((models.folder / ".downloads").glob("**/*.partial"))
    before = len(hub.requests)
    pull(models, ["toy"])
    assert len(hub.requests) == before


def test_a_cut_connection_resumes_where_it_stopped(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    hub.faults[HF] = ["cut:200000", "503", "cut:100000"]
    models = store(model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert hub.bytes_sent("/cdn" + HF) == len(BIG)
    assert [request.range for request in hub.gets("/cdn" + HF)][-1] == "bytes=300000-"


def test_a_server_that_ignores_range_is_read_from_the_start(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    hub.faults[HF] = ["cut:200000", "no-range"]
    models = store(model())
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert hub.bytes_sent("/cdn" + HF) == len(BIG) + 200_000


def test_waits_grow_and_retry_after_is_heeded(hub: Hub, store: Build, waits: list[float]) -> None:
    hub.files[HF] = BIG
    hub.faults[HF] = ["503", "503", "503"]
    pull(store(model()), ["toy"])
    assert waits == [0.5, 1.0, 2.0]


def test_wrong_bytes_are_refused_and_the_next_source_is_tried(hub: Hub, store: Build) -> None:
    hub.files[HF] = hub.files[MS] = BIG
    hub.faults[HF] = ["wrong"]
    events: list[Event] = []
    models = store(model())
    pull(models, ["toy"], observer=events.append)
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    failures = [event for event in events if event.kind == "failed"]
    assert [event.source for event in failures] == ["huggingface"]
    assert sha256(bytes(len(BIG))) in str(failures[0].fault)
    assert json.loads((models.folder / "toy/installed.json").read_text())["files"][0]["source"] == (
        "modelscope"
    )


def test_wrong_bytes_everywhere_leave_nothing_behind(hub: Hub, store: Build) -> None:
    hub.files[HF] = hub.files[MS] = BIG
    hub.faults[HF] = ["wrong"]
    hub.faults[MS] = ["wrong"]
    models = store(model())
    with pytest.raises(errors.ModelDownloadError) as error:
        pull(models, ["toy"])
    text = str(error.value)
    assert "huggingface" in text
    assert "modelscope" in text
    assert sha256(BIG) in text
    assert not [path for path in models.folder.rglob("*") if path.name.startswith("model.bin")]
    assert not list(models.folder.rglob("*.partial"))


def test_a_hub_that_publishes_another_hash_sends_no_byte(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    hub.wrong_etag = True
    with pytest.raises(errors.ModelDownloadError, match="0000 instead of"):
        pull(store(model()), ["toy"], source="huggingface")
    assert hub.bytes_sent(HF) == 0


def test_bytes_of_a_wrong_earlier_source_do_not_spoil_a_right_one(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    models = store(model())
    work = models.work_of(model())
    work.mkdir(parents=True)
    (work / f"{sha256(BIG)[:32]}.partial").write_bytes(b"x" * 1000)
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG


def test_a_partial_file_that_is_whole_is_only_checked(hub: Hub, store: Build) -> None:
    models = store(model())
    work = models.work_of(model())
    work.mkdir(parents=True)
    (work / f"{sha256(BIG)[:32]}.partial").write_bytes(BIG)
    pull(models, ["toy"])
    assert hub.requests == []
    assert not work.exists()


def test_every_source_is_named_when_all_fail(hub: Hub, store: Build) -> None:
    hub.faults[HF] = ["503"] * 9
    hub.files[HF] = BIG
    with pytest.raises(errors.ModelDownloadError) as error:
        pull(store(model()), ["toy"])
    assert "huggingface: HTTP 503 from 127.0.0.1" in str(error.value)
    assert "modelscope: HTTP 404 from 127.0.0.1" in str(error.value)
    assert len(hub.gets("/cdn" + HF)) == 5


def test_a_source_that_the_model_has_not_is_refused(store: Build) -> None:
    with pytest.raises(errors.ModelDownloadError, match="huggingface, modelscope"):
        pull(store(model()), ["toy"], source="package")


def test_without_a_pinned_hash_the_hubs_own_is_used_and_recorded(hub: Hub, store: Build) -> None:
    spec = model(
        files=(
            ModelFile(path="weights.bin", size=0),
            ModelFile(path="1_Pooling/config.json", size=0),
        )
    )
    hub.files["/toys/toy/resolve/main/weights.bin"] = BIG
    config = "/toys/toy/resolve/main/1_Pooling/config.json"
    hub.files[config] = SMALL
    hub.small.add(config)
    models = store(spec)
    pull(models, ["toy"])
    assert (models.folder / "toy/1_Pooling/config.json").read_bytes() == SMALL
    status = models.status(spec)
    assert (status.state, status.hash_from) == ("installed", "hub")
    records = json.loads((models.folder / "toy/installed.json").read_text())["files"]
    assert {record["sha256"] for record in records} == {sha256(BIG), sha256(SMALL)}
    assert {record["hash_from"] for record in records} == {"hub"}

    # Bytes that git's SHA-1 does not fit are refused.
    shutil.rmtree(models.folder)
    hub.faults[config] = ["wrong"] * 3
    with pytest.raises(errors.ModelDownloadError, match="git SHA-1"):
        pull(models, ["toy"])


def test_a_hub_that_publishes_no_hash_is_not_believed(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    hub.no_etag = True
    spec = model(files=(ModelFile(path="model.bin", size=0),))
    with pytest.raises(errors.ModelDownloadError, match="no hash is published"):
        pull(store(spec), ["toy"], source="huggingface")


@pytest.mark.parametrize("name", ["bge-m3", "bge-small-zh-v1.5", "bge-reranker-v2-m3"])
def test_recommended_models_come_from_the_hub(name: str, hub: Hub, tmp_path: Path) -> None:
    """The file lists and addresses as they stand; bytes and hashes are the toy's."""
    spec = catalogue().get(name)
    contents = {file.path: f"{name} {file.path}".encode() for file in spec.files}
    source = next(s for s in spec.sources if isinstance(s, HuggingFaceSource))
    assert len(source.revision) == 40
    for path, data in contents.items():
        address = f"/BAAI/{name}/resolve/{source.revision}/{path}"
        hub.files[address] = data
        if not path.endswith((".bin", ".safetensors", "tokenizer.json", ".model")):
            hub.small.add(address)
    toy = msgspec.structs.replace(
        spec,
        files=tuple(
            ModelFile(path=path, size=len(data), sha256=sha256(data))
            if spec.files[index].sha256
            else ModelFile(path=path, size=0)
            for index, (path, data) in enumerate(contents.items())
        ),
    )
    models = ModelStore(tmp_path, msgspec.structs.replace(catalogue(), models=(toy,)))
    pull(models, [name], source="huggingface")
    for path, data in contents.items():
        assert (tmp_path / name / path).read_bytes() == data
    assert {"config.json", "tokenizer.json"} <= contents.keys()
    if spec.task == "embedding":
        assert {"modules.json", "1_Pooling/config.json"} <= contents.keys()


def test_files_that_are_there_are_adopted_without_a_download(hub: Hub, store: Build) -> None:
    models = store(model())
    place = models.folder / "toy"
    place.mkdir(parents=True)
    (place / "model.bin").write_bytes(BIG)
    assert models.status(model()).state == "unchecked"
    pull(models, ["toy"])
    assert hub.requests == []
    assert models.status(model()).state == "installed"


def test_a_damaged_file_is_replaced(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    models = store(model())
    pull(models, ["toy"])
    path = models.folder / "toy/model.bin"
    path.write_bytes(BIG[:-1] + b"?")
    with pytest.raises(errors.ModelCorruptError, match="localrag models pull toy"):
        models.path("toy")
    assert models.verify(("toy",))[0].fault is not None
    pull(models, ["toy"])
    assert models.path("toy") == models.folder / "toy"
    assert models.verify(("toy",))[0].fault is None


@pytest.mark.skipif(os.name == "nt", reason="only where files have modes")
def test_what_is_pulled_is_for_its_owner_alone(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    models = store(model())
    before = os.umask(0o022)
    try:
        pull(models, ["toy"])
    finally:
        os.umask(before)
    paths = [path for path in models.folder.rglob("*") if path.stat().st_mode & 0o077]
    assert paths == []
    assert (models.folder / "toy" / "model.bin").is_file()


def test_a_partial_download_that_became_a_link_is_not_written_through(
    hub: Hub, store: Build, tmp_path: Path
) -> None:
    hub.files[HF] = BIG
    models = store(model())
    target = tmp_path / "mine"
    target.write_bytes(b"mine")
    work = models.folder / ".downloads" / "toy"
    work.mkdir(parents=True)
    (work / f"{sha256(BIG)[:32]}.partial").symlink_to(target)
    with pytest.raises((OSError, errors.LocalragError)):
        pull(models, ["toy"])
    assert target.read_bytes() == b"mine"


def test_a_stick_is_copied_and_checked(hub: Hub, store: Build, tmp_path: Path) -> None:
    stick = tmp_path / "stick"
    (stick / "toy").mkdir(parents=True)
    (stick / "toy/model.bin").write_bytes(BIG)
    models = store(model())
    pull(models, ["toy"], folder=stick)
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    shutil.rmtree(models.folder)
    (stick / "toy/model.bin").write_bytes(bytes(len(BIG)))
    with pytest.raises(errors.ModelDownloadError, match=r"folder: model\.bin is not the published"):
        pull(models, ["toy"], folder=stick)
    assert hub.requests == []


def test_a_stick_carries_the_hubs_hashes_along(hub: Hub, store: Build, tmp_path: Path) -> None:
    spec = model(files=(ModelFile(path="model.bin", size=0),))
    hub.files[HF] = BIG
    models = store(spec)
    pull(models, ["toy"])
    stick = tmp_path / "stick"
    shutil.copytree(models.folder, stick)
    shutil.rmtree(models.folder)
    pull(models, ["toy"], folder=stick)
    assert models.status(spec).state == "installed"
    shutil.rmtree(models.folder)
    (stick / "toy/installed.json").unlink()
    with pytest.raises(errors.ModelDownloadError, match="is not known without the hub"):
        pull(models, ["toy"], folder=stick)


def test_a_non_commercial_licence_needs_a_yes(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    models = store(model(licence="research only", licence_kind="non-commercial"))
    with pytest.raises(errors.ModelLicenceError, match="research only"):
        pull(models, ["toy"])
    assert hub.requests == []
    pull(models, ["toy"], accept_licence=True)
    pull(models, ["toy"])


def test_the_disk_is_checked_first(hub: Hub, store: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    free = len(BIG) + job.RESERVE - 1
    monkeypatch.setattr(job.shutil, "disk_usage", lambda _: usage(10**12, 0, free))
    hub.files[HF] = BIG
    with pytest.raises(errors.ModelDownloadError, match="only 67 MB are free"):
        pull(store(model()), ["toy"])
    assert hub.requests == []
    free += 1
    pull(store(model()), ["toy"])


CHILD = """
import sys, time
from pathlib import Path
import msgspec
from localrag.egress import network
from localrag.models.registry.pull import pull
from localrag.models.registry.spec import Catalogue
from localrag.models.registry.store import ModelStore
network.close_doors()
known = msgspec.json.decode(Path(sys.argv[1]).read_bytes(), type=Catalogue)
pull(ModelStore(Path(sys.argv[2]), known), ["toy"], observer=lambda e: print(e.kind, flush=True))
"""


def _child(models: ModelStore, spec: ModelSpec) -> subprocess.Popen[str]:
    listing = models.folder.parent / "catalogue.json"
    listing.write_bytes(msgspec.json.encode(models.catalogue))
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(listing), str(models.folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="only on systems with SIGKILL")
def test_a_killed_pull_goes_on_where_it_was(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    hub.let_go = threading.Event()
    models = store(model())
    child = _child(models, model())
    partial = models.work_of(model()) / f"{sha256(BIG)[:32]}.partial"
    until(lambda: partial.exists() and partial.stat().st_size >= 100_000)
    child.kill()
    child.communicate()
    have = partial.stat().st_size
    assert 0 < have < len(BIG)
    assert not (models.folder / "toy/model.bin").exists()
    assert models.status(model()).state == "partial"
    assert plan(models, ["toy"])[0].missing == len(BIG) - have
    hub.let_go.set()
    hub.requests.clear()
    pull(models, ["toy"])
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
    assert hub.bytes_sent("/cdn" + HF) == len(BIG) - have


def test_two_processes_download_once(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    hub.let_go = threading.Event()
    models = store(model())
    first = _child(models, model())
    until(lambda: hub.gets("/cdn" + HF))
    second = _child(models, model())
    assert second.stdout is not None
    output = ""
    while "waiting" not in output:
        output += (line := second.stdout.readline())
        assert line, "it waits for nobody"
    hub.let_go.set()
    outputs = [first.communicate(timeout=60)[0], second.communicate(timeout=60)[0]]
    assert (first.returncode, second.returncode) == (0, 0)
    assert "waiting" not in outputs[0]
    assert len(hub.gets("/cdn" + HF)) == 1
    assert (models.folder / "toy/model.bin").read_bytes() == BIG
