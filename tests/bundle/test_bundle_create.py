"""Bundles made from tiny wheels and models: what is in them, and what is left when it fails."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tomllib
import zipfile
from dataclasses import replace
from functools import partial
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from fake_wheels import FakePip, make_wheel
from machine_code import elf, mach_o, pe
from msgspec import structs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from localrag.bundle import creation, imports, llama_cpp, packing, staging, targets
from localrag.bundle.creation import BundleRequest, CreatedBundle, hash_files
from localrag.bundle.installer.manifest import EXTRAS, Target
from localrag.bundle.installer.storage import read_manifest
from localrag.bundle.installer.verification import verify
from localrag.bundle.wheel import read_wheel
from localrag.cli.group import cli
from localrag.errors import (
    BundleError,
    ModelCorruptError,
    ModelLicenceError,
    ModelNotFoundError,
    UsageError,
)
from localrag.models.llms.llama_cpp import prebuilt
from localrag.models.registry.spec import (
    Catalogue,
    HuggingFaceSource,
    ModelFile,
    ModelSpec,
    catalogue,
)
from localrag.models.registry.store import ModelStore

WEIGHTS = b"GGUF" + bytes(range(256)) * 40
APACHE = "Apache License\nVersion 2.0, January 2004\nterms\nEND OF TERMS AND CONDITIONS\nAPPENDIX"


def spec(name: str, kind: Any = "commercial", licence: str = "Apache-2.0") -> ModelSpec:
    weights = ModelFile(
        path="sub/weights.gguf", size=len(WEIGHTS), sha256=hashlib.sha256(WEIGHTS).hexdigest()
    )
    return ModelSpec(
        id=name,
        task="llm",
        title=f"The model {name}",
        languages=("en",),
        licence=licence,
        licence_kind=kind,
        files=(weights,),
        sources=(HuggingFaceSource(repo=f"somebody/{name}", revision="main"),),
    )


@pytest.fixture
def store(tmp_path: Path) -> ModelStore:
    """A store with a model of the starter preset, and one that may not be sold."""
    model_catalogue = Catalogue(
        models=(
            spec("tiny"),
            spec("unsellable", "non-commercial", "research only"),
            spec("absent"),
        ),
        presets={"starter": ("tiny",), "recommended": ("absent",)},
    )
    folder = tmp_path / "store"
    for name in ("tiny", "unsellable"):
        (folder / name / "sub").mkdir(parents=True)
        (folder / name / "sub" / "weights.gguf").write_bytes(WEIGHTS)
    return ModelStore(folder, model_catalogue)


@pytest.fixture
def pip() -> FakePip:
    return FakePip(
        {
            "pip": partial(make_wheel, name="pip", version="99"),
            "one": partial(make_wheel, name="one", licence=APACHE, requires=("bare",)),
            "bare": partial(make_wheel, name="bare", licence=None, headers=""),
            "psycopg>=3.2": partial(make_wheel, name="psycopg", version="3.3"),
        }
    )


@pytest.fixture
def request_(tmp_path: Path) -> BundleRequest:
    own = make_wheel(tmp_path / "own", "localrag-offline", requires=("one", "llama-cpp-python"))
    llama = make_wheel(tmp_path / "own", "llama-cpp-python", "9.9")
    return BundleRequest(target=targets.here(), wheels=(own, llama))


@pytest.fixture(autouse=True)
def _no_pins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "versions_here", dict)


def create(place: Path, request: BundleRequest, store: ModelStore, pip: FakePip) -> CreatedBundle:
    return creation.create(place, request, store, place.parent / "cache", pip=pip)


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def beside(place: Path) -> set[str]:
    """What lies where a bundle was made, but for what the fixtures put there."""
    return {path.name for path in place.parent.iterdir()} - {"own", "store"}


def test_a_bundle_holds_what_its_manifest_says_and_nothing_else(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "out" / "made"
    messages: list[str] = []

    def told(template: str, /, **values: object) -> None:
        messages.append(template.format(**values))

    bundle = creation.create(place, request_, store, tmp_path / "cache", told, pip)
    whole = read_manifest(place)
    files = files_of(place)
    assert {file.path for file in whole.files} == files.keys() - {"manifest.json"}
    for file in whole.files:
        data = files[file.path]
        assert (len(data), hashlib.sha256(data).hexdigest()) == (file.bytes, file.sha256)
    assert (whole.preset, whole.base, whole.target) == ("starter", None, request_.target)
    assert (bundle.path, bundle.wheels, bundle.models) == (place, 5, ("tiny",))
    assert bundle.files == len(files)
    assert bundle.bytes == sum(file.bytes for file in whole.files)
    assert beside(place) == {"made"}
    assert files["install.py"] == packing.pack(tmp_path / "own" / "install.py").read_bytes()
    assert b"install.py" in files["README.txt"]
    assert "安装".encode() in files["README.zh-CN.txt"]
    assert {"docs/README.md", "docs/docs/guide/use.zh-CN.md", "docs/LICENSE"} <= files.keys()
    pages = (Path(__file__).resolve().parents[2] / "docs" / "security").glob("*.md")
    assert {f"docs/docs/security/{page.name}" for page in pages} <= files.keys()
    assert messages[0] == "Downloading the packages"


@pytest.mark.skipif(os.name == "nt", reason="only where files have modes")
@pytest.mark.parametrize("archive", [False, True])
def test_a_bundle_is_its_makers_alone_until_it_is_unpacked(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip, archive: bool
) -> None:
    before = os.umask(0o022)
    try:
        bundle = create(tmp_path / "out" / "made", replace(request_, archive=archive), store, pip)
    finally:
        os.umask(before)
    place = tmp_path / "out"
    assert [path for path in (place, *place.rglob("*")) if path.stat().st_mode & 0o077] == []
    if archive:
        with zipfile.ZipFile(bundle.path) as zip_file:
            assert {member.external_attr >> 16 & 0o777 for member in zip_file.infolist()} == {0o644}


def test_models_are_known_as_checked_where_the_bundle_goes(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    create(place, request_, store, pip)
    bundled_store = ModelStore(place / "models", store.catalogue)
    assert bundled_store.path("tiny") == place / "models" / "tiny"
    assert [check.fault for check in bundled_store.verify(("tiny",))] == [None]
    weights = place / "models" / "tiny" / "sub" / "weights.gguf"
    assert not weights.samefile(store.folder / "tiny" / "sub" / "weights.gguf")


def test_every_wheel_has_its_licence_or_is_said_to_have_none(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    bundle = create(place, request_, store, pip)
    assert bundle.without_licence == ("bare",)
    index = (place / "licences" / "INDEX.txt").read_text()
    for name in ("localrag-offline", "llama-cpp-python", "one", "pip"):
        assert (place / "licences" / name / "LICENSE").is_file()
        assert f"\n{name}  " in index
    assert "bare  1.0  (says nothing)  (no licence file in the wheel)" in index
    model = (place / "licences" / "models" / "tiny" / "LICENCE.txt").read_text()
    assert "Hugging Face: somebody/tiny" in model
    assert model.endswith("terms\nEND OF TERMS AND CONDITIONS\n")


def test_the_sbom_is_valid_and_names_everything_with_hash_and_licence(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    create(place, request_, store, pip)
    text = (place / "sbom.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listing = json.loads(text)
    assert listing["metadata"]["component"]["purl"] == "pkg:pypi/localrag-offline@1.0"
    components = {component["name"]: component for component in listing["components"]}
    assert components.keys() == {"llama-cpp-python", "one", "bare", "pip", "tiny"}
    package = components["one"]
    data = (place / "wheels" / "one-1.0-py3-none-any.whl").read_bytes()
    assert package["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(data).hexdigest()}]
    assert package["licenses"] == [{"license": {"id": "MIT"}}]
    assert components["tiny"]["type"] == "machine-learning-model"
    assert components["tiny"]["licenses"] == [{"license": {"id": "Apache-2.0"}}]
    needs = {
        dependency["ref"]: dependency.get("dependsOn", []) for dependency in listing["dependencies"]
    }
    assert needs["one==1.0"] == ["bare==1.0"]
    assert "model:tiny" in needs["localrag-offline==1.0"]


@pytest.fixture
def with_client(tmp_path: Path, request_: BundleRequest) -> BundleRequest:
    """A request for the extra `postgres`, of a localrag that has it."""
    requires = ("one", "llama-cpp-python", 'psycopg>=3.2; extra == "postgres"')
    own = make_wheel(tmp_path / "newer", "localrag-offline", requires=requires)
    return replace(request_, wheels=(own, request_.wheels[1]))


def test_an_extra_travels_only_where_it_is_asked_for(
    tmp_path: Path, store: ModelStore, with_client: BundleRequest, pip: FakePip
) -> None:
    create(tmp_path / "without", with_client, store, pip)
    assert read_manifest(tmp_path / "without").extras == []
    assert not any("psycopg" in requirement for requirement in pip.asked)
    place = tmp_path / "with"
    bundle = create(place, replace(with_client, extras=("postgres",)), store, pip)
    assert bundle.wheels == 6
    whole = verify(place).manifest
    assert whole.extras == ["postgres"]
    path = "wheels/psycopg-3.3-py3-none-any.whl"
    digest = hashlib.sha256((place / path).read_bytes()).hexdigest()
    assert [file.sha256 for file in whole.files if file.path == path] == [digest]
    listing = json.loads((place / "sbom.cdx.json").read_text())
    needs = {
        dependency["ref"]: dependency.get("dependsOn", []) for dependency in listing["dependencies"]
    }
    assert "psycopg==3.3" in needs["localrag-offline==1.0"]
    assert "\npsycopg  3.3  " in (place / "licences" / "INDEX.txt").read_text()


def test_a_lean_bundle_leaves_out_pytorch_and_text_recognition(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    requires = ("one", "llama-cpp-python", "Sentence_Transformers>=5", "rapidocr")
    own = make_wheel(tmp_path / "heavy", "localrag-offline", requires=requires)
    request = replace(request_, wheels=(own, *request_.wheels[1:]), lean=True)
    create(tmp_path / "lean", request, store, pip)
    names = [
        Path(file.path).name.partition("-")[0] for file in verify(tmp_path / "lean").manifest.wheels
    ]
    assert names == ["bare", "llama_cpp_python", "localrag_offline", "one", "pip"]
    assert sorted(pip.asked) == ["bare", "one", "pip"]
    with pytest.raises(BundleError):  # the whole one needs what nobody has here
        create(tmp_path / "whole", replace(request, lean=False), store, pip)


def test_a_model_that_needs_pytorch_is_not_put_into_a_lean_bundle(
    tmp_path: Path, request_: BundleRequest, pip: FakePip
) -> None:
    weights = ModelFile(path="model.safetensors", size=1, sha256="0" * 64)
    heavy = structs.replace(spec("heavy"), files=(weights,))
    model_catalogue = Catalogue(models=(heavy,), presets={"starter": ("heavy",)})
    with pytest.raises(UsageError, match="heavy needs PyTorch"):
        create(
            tmp_path / "made",
            replace(request_, lean=True),
            ModelStore(tmp_path / "m", model_catalogue),
            pip,
        )
    assert pip.calls == []


def test_models_of_the_starter_set_need_no_pytorch() -> None:
    starter = catalogue().expand(("starter",))
    assert len(starter) == 3
    assert not any(model.needs_pytorch for model in starter)
    assert catalogue().get("bge-m3").needs_pytorch


def test_an_extra_is_brought_later_by_a_delta(
    tmp_path: Path, store: ModelStore, with_client: BundleRequest, pip: FakePip
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    create(old, with_client, store, pip)
    create(new, replace(with_client, extras=("postgres",), since=old), store, pip)
    paths = [path for path in files_of(new) if path.startswith(("wheels/", "models/"))]
    assert paths == ["wheels/psycopg-3.3-py3-none-any.whl"]
    assert verify(new, old).manifest.extras == ["postgres"]


def test_an_extra_that_the_wheel_of_localrag_does_not_have_is_named(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    with pytest.raises(BundleError, match="no extra called postgres"):
        create(tmp_path / "made", replace(request_, extras=("postgres",)), store, pip)
    assert beside(tmp_path / "made") == set()


def test_extras_are_those_of_the_project() -> None:
    text = (Path(__file__).resolve().parents[2] / "pyproject.toml").read_text("utf-8")
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    for extra, package in EXTRAS.items():
        assert package in {Requirement(requirement).name for requirement in extras[extra]}


def test_a_model_that_is_not_here_is_named_before_anything_is_made(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    with pytest.raises(ModelNotFoundError, match="localrag models pull absent"):
        create(place, replace(request_, preset="recommended"), store, pip)
    assert (pip.calls, beside(place)) == ([], set())


def test_a_damaged_model_is_not_passed_on(
    tmp_path: Path,
    store: ModelStore,
    request_: BundleRequest,
    pip: FakePip,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = tmp_path / "made"

    def copied_badly(_: Path, target: Path) -> None:
        target.write_bytes(WEIGHTS[:-1] + b"!")

    with monkeypatch.context() as context:
        context.setattr(creation, "copy_file", copied_badly)
        with pytest.raises(ModelCorruptError, match=r"models/tiny/sub/weights\.gguf"):
            create(place, request_, store, pip)
    (store.folder / "tiny" / "sub" / "weights.gguf").write_bytes(WEIGHTS[:-1] + b"!")
    with pytest.raises(ModelCorruptError, match="models pull tiny"):
        create(place, request_, store, pip)
    assert beside(place) == set()


def test_a_licence_that_forbids_selling_must_be_accepted(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    changed_request = replace(request_, preset=None, models=("unsellable",))
    with pytest.raises(ModelLicenceError, match=r"research only.*--accept-licence"):
        create(place, changed_request, store, pip)
    bundle = create(place, replace(changed_request, accept_licence=True), store, pip)
    assert bundle.models == ("unsellable",)
    assert read_manifest(place).preset is None


@pytest.mark.parametrize("archive", [False, True])
def test_an_interrupt_leaves_nothing(
    archive: bool, tmp_path: Path, store: ModelStore, request_: BundleRequest
) -> None:
    def interrupted(*_: str, **__: object) -> tuple[int, list[str]]:
        raise KeyboardInterrupt

    place = tmp_path / "made"
    with pytest.raises(KeyboardInterrupt):
        creation.create(
            place, replace(request_, archive=archive), store, tmp_path / "cache", pip=interrupted
        )
    assert beside(place) == set()


def test_what_a_killed_process_left_has_no_manifest_and_is_replaced(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    remains = tmp_path / "made.0123456789abcdef.partial"
    (remains / "wheels").mkdir(parents=True)
    (remains / "wheels" / "old.whl").touch()
    with pytest.raises(BundleError, match="never finished"):
        read_manifest(remains)
    create(place, request_, store, pip)
    assert beside(place) == {"made"}
    assert not (place / "wheels" / "old.whl").exists()


def killed_at(
    event: int, place: Path, request: BundleRequest, store: ModelStore, pip: FakePip
) -> bool:
    """Make a bundle in a process that dies at that file operation; whether it got so far."""
    process = os.fork()
    if not process:
        countdown = event

        def count(name: str, _: object) -> None:
            nonlocal countdown
            if name in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.utime"):
                countdown -= 1
                if not countdown:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            create(place, request, store, pip)
        except BaseException:
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code in (0, 9)
    return code == 9


@pytest.mark.skipif(sys.platform == "win32", reason="only where processes can fork")
@pytest.mark.parametrize("archive", [False, True])
def test_a_kill_at_any_file_operation_leaves_a_whole_bundle_or_none(
    archive: bool, tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    changed_request = replace(request_, archive=archive)
    place = tmp_path / "out" / "made"
    final = place.with_name("made.zip") if archive else place
    event, kills = 1, 0
    while killed_at(event, place, changed_request, store, pip):
        kills += 1
        if final.exists():
            folder = final
            if archive:
                with zipfile.ZipFile(final) as whole:
                    whole.extractall(tmp_path / f"unpacked-{event}")
                folder = tmp_path / f"unpacked-{event}" / "made"
            assert read_manifest(folder).files == hash_files(folder)
            final.unlink() if archive else shutil.rmtree(final)
        event += 7
    assert kills > 20
    assert final.exists()
    assert beside(place) == {final.name}


@pytest.mark.parametrize(
    "name", ["made.partial", "made.0123456789ABCDEF.partial", "made-2.0123456789abcdef.partial"]
)
def test_a_folder_of_somebody_else_is_never_deleted(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip, name: str
) -> None:
    place = tmp_path / "made"
    thesis = tmp_path / name / "thesis.txt"
    thesis.parent.mkdir()
    thesis.touch()
    create(place, request_, store, pip)
    with pytest.raises(UsageError, match="already exists"):
        create(place, request_, store, pip)
    assert thesis.exists()


@pytest.mark.skipif(os.name == "nt", reason="only where anybody may make links")
def test_a_link_to_a_bundle_is_not_followed(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    sound = create(tmp_path / "sound", request_, store, pip).path
    (tmp_path / "made.0123456789abcdef.partial").symlink_to(sound)
    create(tmp_path / "made", request_, store, pip)
    assert read_manifest(sound).files == hash_files(sound)


def test_what_was_being_deleted_when_it_was_killed_goes_the_next_time(
    tmp_path: Path,
    store: ModelStore,
    request_: BundleRequest,
    pip: FakePip,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Deleting is cut short at file after file; so is it of what was about to get its name."""
    remains = tmp_path / "made.0123456789abcdef.partial"
    create(tmp_path / "sound", request_, store, pip).path.rename(remains)
    real, cuts = os.unlink, 0

    def cut(path: Any, **more: Any) -> None:
        real(path, **more)
        raise KeyboardInterrupt

    while remains.exists() and any(path.is_file() for path in remains.rglob("*")):
        with monkeypatch.context() as context:
            context.setattr(os, "unlink", cut)
            with pytest.raises(KeyboardInterrupt), staging.staging_folder(tmp_path / "made"):
                pytest.fail("it was not deleted")
        cuts += 1
        assert cuts < 99
    assert cuts > 3
    create(tmp_path / "made", request_, store, pip)
    assert beside(tmp_path / "made") == {"made", "sound"} - {"sound"}


def test_two_at_once_do_not_meet_in_one_folder(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made"
    with staging.staging_folder(place) as folder:
        with pytest.raises(BundleError, match="Another process"):
            create(place, request_, store, pip)
        assert folder.is_dir()


def test_room_is_looked_for_first(
    tmp_path: Path,
    store: ModelStore,
    request_: BundleRequest,
    pip: FakePip,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=5_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(BundleError, match="5 MB are free"):
        create(tmp_path / "made", request_, store, pip)
    assert pip.calls == []


def test_a_full_disk_leaves_nothing(
    tmp_path: Path, store: ModelStore, request_: BundleRequest
) -> None:
    def full(*_: str, **__: object) -> tuple[int, list[str]]:
        raise OSError(errno.ENOSPC, "No space left on device")

    place = tmp_path / "made"
    with pytest.raises(BundleError, match=r"disk of .* is full"):
        creation.create(place, request_, store, tmp_path / "cache", pip=full)
    assert beside(place) == set()


def test_a_delta_holds_what_changed_and_what_one_begins_with(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    create(old, request_, store, pip)
    newer = make_wheel(
        tmp_path / "own", "localrag-offline", "2.0", requires=("one", "llama-cpp-python")
    )
    demand = replace(request_, wheels=(newer, request_.wheels[1]), since=old)
    bundle = create(new, demand, store, pip)
    delta, files = read_manifest(new), files_of(new)
    digest = hashlib.sha256((old / "manifest.json").read_bytes()).hexdigest()
    assert delta.base == digest
    assert files.keys() - {"manifest.json"} == {file.path for file in delta.carried}
    assert [path for path in files if path.startswith(("wheels/", "models/"))] == [
        "wheels/localrag_offline-2.0-py3-none-any.whl"
    ]
    assert {"install.py", "README.txt", "README.zh-CN.txt"} <= files.keys()
    assert b"--base" in files["README.txt"]
    before = {file.path: file.sha256 for file in read_manifest(old).files}
    for file in delta.files:
        assert file.in_base == (before.get(file.path) == file.sha256 and file.path in before) or (
            file.path == "install.py"
        )
    assert bundle.bytes == sum(file.bytes for file in delta.carried)
    again = create(tmp_path / "third", replace(demand, since=old / "manifest.json"), store, pip)
    assert again.files == bundle.files


def test_a_delta_builds_upon_a_whole_bundle_for_the_same_machine(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    old = tmp_path / "old"
    create(old, request_, store, pip)
    create(tmp_path / "delta", replace(request_, since=old), store, pip)
    with pytest.raises(UsageError, match="is itself a delta"):
        create(tmp_path / "x", replace(request_, since=tmp_path / "delta"), store, pip)
    other = Target(system="windows", machine="x86_64", python="3.12")
    with pytest.raises(UsageError, match=r"and this bundle is for windows-x86_64, Python 3\.12"):
        create(tmp_path / "x", replace(request_, since=old, target=other), store, pip)
    (old / "manifest.json").write_text("{}")
    with pytest.raises(BundleError, match="is not the manifest"):
        create(tmp_path / "x", replace(request_, since=old), store, pip)


def test_a_delta_builds_upon_an_archive_too(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    old = create(tmp_path / "old", replace(request_, archive=True), store, pip).path
    newer = make_wheel(
        tmp_path / "own", "localrag-offline", "2.0", requires=("one", "llama-cpp-python")
    )
    changed_request = replace(request_, wheels=(newer, request_.wheels[1]), since=old)
    delta = create(tmp_path / "new", changed_request, store, pip).path
    assert [path.name for path in (delta / "wheels").iterdir()] == [newer.name]
    assert not (delta / "models").exists()
    checked = verify(delta, old)
    assert checked.base is not None
    assert len(checked.manifest.models) == 2
    old.write_bytes(b"no archive")
    with pytest.raises(BundleError, match="is not a readable archive"):
        create(tmp_path / "x", changed_request, store, pip)
    with zipfile.ZipFile(old, "w") as empty:
        empty.writestr("x", b"")
    with pytest.raises(BundleError, match=r"contains no manifest\.json"):
        create(tmp_path / "x", changed_request, store, pip)


def test_an_archive_holds_the_same_in_one_folder_and_wheels_as_they_are(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    place = tmp_path / "made-1.0"
    bundle = create(place, replace(request_, archive=True), store, pip)
    assert bundle.path == tmp_path / "made-1.0.zip"
    assert bundle.bytes == bundle.path.stat().st_size
    assert beside(place) == {"made-1.0.zip"}
    with zipfile.ZipFile(bundle.path) as archive:
        assert archive.testzip() is None
        names = {member.filename for member in archive.infolist() if member.compress_type == 0}
        archive.extractall(tmp_path / "own" / "unpacked")
    unpacked = tmp_path / "own" / "unpacked" / "made-1.0"
    whole = read_manifest(unpacked)
    assert whole.files == hash_files(unpacked)
    assert "made-1.0/wheels/one-1.0-py3-none-any.whl" in names
    assert "made-1.0/models/tiny/sub/weights.gguf" in names
    assert "made-1.0/sbom.cdx.json" not in names


def test_llama_cpp_that_can_neither_be_compiled_nor_fetched_says_how_to_make_it(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    own = request_.wheels[:1]
    windows = Target(system="windows", machine="x86_64", python="3.12")
    for demand in (
        replace(request_, target=windows, wheels=own, compiled=True),
        replace(request_, target=replace_target(targets.here(), "cuda"), wheels=own),
    ):
        with pytest.raises(BundleError, match=r"GGML_NATIVE=OFF.* --wheel PATH"):
            create(tmp_path / "made", demand, store, pip)


LIBRARIES = {
    "linux-x86_64": ("xllamacpp", "manylinux2014_x86_64", elf("libc.so.6", "libstdc++.so.6")),
    "macos-arm64": ("xllamacpp", "macosx_13_0_arm64", mach_o("/usr/lib/libSystem.B.dylib")),
    "windows-x86_64": ("llama-cpp-py-sync", "win_amd64", pe("KERNEL32.dll", "MSVCP140.dll")),
}
"""A prebuilt llama.cpp by target: distribution, platform, and what it loads."""


@pytest.fixture
def prebuilt_pip(pip: FakePip, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakePip:
    """Has a small prebuilt llama.cpp for each system, known by its hash."""
    place = tmp_path / "own" / "prebuilt"
    for name, platform, code in LIBRARIES.values():
        version = prebuilt.RELEASES[name]
        suffix = {"w": "dll", "l": "so", "m": "so"}[platform[0]]
        path = place / platform / "x"
        wheel = make_wheel(
            path.parent,
            name,
            version,
            tag=f"py3-none-{platform}",
            extra_files={f"{name.replace('-', '_')}/library.{suffix}": code},
        )
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        monkeypatch.setitem(prebuilt.SHA256, name, (*prebuilt.SHA256[name], digest))

    def fetch(name: str, folder: Path) -> Path:
        platforms = [word.partition("=")[2] for word in pip.calls[-1] if "--platform=" in word]
        (wheel,) = (
            path
            for system in platforms
            for path in (place / system).glob(f"{name.replace('-', '_')}-*")
        )
        return Path(shutil.copy(wheel, folder))

    for text in distribution(llama_cpp.NAME).requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            name = canonicalize_name(requirement.name)
            pip.know(f"{name}{requirement.specifier}", partial(make_wheel, name=name, version="99"))
    for name, version in prebuilt.RELEASES.items():
        pip.know(f"{name}=={version}", partial(fetch, name))
    return pip


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_bundle_for_any_system_is_made_here_with_a_prebuilt_llama_cpp(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, prebuilt_pip: FakePip, name: str
) -> None:
    system, _, machine = name.partition("-")
    python = "3.12" if targets.here().python != "3.12" else "3.13"  # so that none is of here
    target = Target(system=system, machine=machine, python=python)
    place = tmp_path / "made 目录"
    bundle = create(
        place, replace(request_, target=target, wheels=request_.wheels[:1]), store, prebuilt_pip
    )
    library = LIBRARIES[name][0]
    packages = {
        file.path.removeprefix("wheels/").partition("-")[0]
        for file in verify(place).manifest.wheels
    }
    assert packages >= {
        "localrag_offline",
        "llama_cpp_python",
        "one",
        "bare",
        "pip",
        library.replace("-", "_"),
    }
    (binding,) = (place / "wheels").glob("llama_cpp_python-*")
    assert binding.name.endswith("-py3-none-any.whl")
    with zipfile.ZipFile(binding) as archive:
        assert "llama_cpp/llama_cpp.py" in archive.namelist()
        assert all(
            Path(path).suffix in (".py", ".typed") or ".dist-info/" in path
            for path in archive.namelist()
        )
    listing = json.loads((place / "sbom.cdx.json").read_text())
    assert library in {component["name"] for component in listing["components"]}
    assert (place / "licences" / library / "LICENSE").is_file()
    expected = {"llama-cpp-py-sync": ("MSVCP140.dll",)} if system == "windows" else {}
    assert bundle.without_library == expected


def test_a_prebuilt_llama_cpp_with_another_hash_is_no_part_of_a_bundle(
    tmp_path: Path,
    store: ModelStore,
    request_: BundleRequest,
    prebuilt_pip: FakePip,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(prebuilt.SHA256, "llama-cpp-py-sync", ())
    target = Target(system="windows", machine="x86_64", python="3.13")
    changed_request = replace(request_, target=target, wheels=request_.wheels[:1])
    with pytest.raises(BundleError, match=r"not the release of llama-cpp-py-sync that was tested"):
        create(tmp_path / "made", changed_request, store, prebuilt_pip)
    assert beside(tmp_path / "made") == set()


def test_a_library_for_another_system_or_cut_off_is_named(tmp_path: Path) -> None:
    for code in (pe("KERNEL32.dll"), elf("libc.so.6")[:70]):
        path = make_wheel(tmp_path, "native", extra_files={"native/core.so": code})
        target = Target(system="linux", machine="x86_64", python="3.12")
        with pytest.raises(BundleError, match="native has a library that linux-x86_64 cannot load"):
            imports.missing([read_wheel(path)], target)


def test_a_library_that_another_wheel_brings_is_there(tmp_path: Path) -> None:
    loads = make_wheel(
        tmp_path, "loads", extra_files={"a/b.pyd": pe("Runtime.DLL", "python312.dll")}
    )
    target = Target(system="windows", machine="x86_64", python="3.12")
    assert imports.missing([read_wheel(loads)], target) == {"loads": ("Runtime.DLL",)}
    brings = make_wheel(tmp_path, "brings", extra_files={"c/runtime.dll": pe("USER32.dll")})
    assert imports.missing([read_wheel(loads), read_wheel(brings)], target) == {}


def replace_target(target: Target, accelerator: Any) -> Target:
    return Target(
        system=target.system,
        machine=target.machine,
        python=target.python,
        accelerator=accelerator,
    )


def test_texts_for_windows_have_its_line_ends_and_its_python(
    tmp_path: Path, store: ModelStore, request_: BundleRequest, pip: FakePip
) -> None:
    target = Target(system="windows", machine="x86_64", python="3.12")
    place = tmp_path / "made"
    create(place, replace(request_, target=target), store, pip)
    text = (place / "README.txt").read_bytes()
    assert b"\r\n3. Install it:   py install.py\r\n" in text


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(creation, "find_spec", lambda name: None if "cyclone" in name else name)
    with pytest.raises(BundleError, match=r"cyclonedx\. .*pip install cyclonedx-python-lib"):
        creation.need_extra()


def test_the_name_says_what_it_is_for() -> None:
    target = Target(system="linux", machine="arm64", python="3.12", accelerator="cuda")
    request = BundleRequest(target=target, preset=None)
    assert creation.default_name(request).endswith("-linux-arm64-py3.12-cuda-no-models")
    request = replace(request, extras=("postgres", "keyring", "postgres"))
    assert creation.default_name(request).endswith("-no-models-keyring-postgres")
    assert creation.default_name(replace(request, lean=True)).endswith("-postgres-lean")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch, store: ModelStore) -> list[tuple[Path, BundleRequest]]:
    """What the command line asks for, with nothing made."""
    requests: list[tuple[Path, BundleRequest]] = []

    def made(place: Path, request: BundleRequest, *_: object) -> CreatedBundle:
        requests.append((place, request))
        return CreatedBundle(place, 2_000_000, 7, 3, ("tiny",), ("bare",))

    monkeypatch.setattr(creation, "create", made)
    monkeypatch.setattr("localrag.factory.make_models", lambda: store)
    return requests


def test_the_command_prints_one_json_object(seen: list[tuple[Path, BundleRequest]]) -> None:
    words = ["bundle", "create", "x.zip", "--archive", "--target", "macos-arm64"]
    words += ["--extra", "postgres", "--python", "3.12"]
    result = CliRunner().invoke(cli, [*words, "--json"])
    assert result.exit_code == 0, result.output
    value = json.loads(result.stdout)
    assert value.pop("seconds") >= 0
    assert value == {
        "path": str(Path("x").absolute()),
        "bytes": 2_000_000,
        "files": 7,
        "target": "macos-arm64",
        "python": "3.12",
        "accelerator": "metal",
        "extras": ["postgres"],
        "wheels": 3,
        "models": ["tiny"],
        "without_licence": ["bare"],
        "without_library": {},
        "delta": False,
    }
    assert "tiny: licence Apache-2.0" in result.stderr
    assert "no licence file (see licences/INDEX.txt): bare" in result.stderr
    place, request = seen[0]
    assert (place, request.archive, request.preset) == (Path("x").absolute(), True, "starter")
    assert request.extras == ("postgres",)


def test_the_command_says_in_words_what_it_made(seen: list[tuple[Path, BundleRequest]]) -> None:
    result = CliRunner().invoke(cli, ["bundle", "create", "--preset", "none", "--model", "tiny"])
    assert result.exit_code == 0, result.output
    assert "7 files, 2 MB, 3 wheels, 1 models" in result.stderr
    place, request = seen[0]
    assert result.stdout.strip() == str(place)
    assert place.name.endswith("-no-models")
    assert (request.preset, request.models, request.extras) == (None, ("tiny",), ())
