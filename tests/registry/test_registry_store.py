"""The models folder: paths, the user's own models, removal, the list, the command line."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from registry_hub import BIG, Hub, model, sha256

from localrag import errors
from localrag.models.registry import manifest
from localrag.models.registry import store as module
from localrag.models.registry.pull import pull
from localrag.models.registry.spec import Catalogue, ModelFile, PackageSource, catalogue
from localrag.models.registry.store import ModelStore, default_models_dir

HF = "/toys/toy/resolve/main/model.bin"
Build = Callable[..., ModelStore]


def gguf(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF" + bytes(100))
    return path


def test_the_catalogue_is_sound() -> None:
    model_catalogue = catalogue()
    ids = [spec.id for spec in model_catalogue.models]
    assert len(ids) == len(set(ids))
    for spec in model_catalogue.models:
        assert len({file.path for file in spec.files}) == len(spec.files)
        for source in spec.sources:
            if isinstance(source, PackageSource):
                for file in spec.files:
                    assert sum(part.size for part in source.files[file.path]) == file.size
    for preset, members in model_catalogue.presets.items():
        assert all(model_catalogue.find(member) for member in members), preset
    starter = model_catalogue.expand(("starter",))
    assert all(isinstance(spec.sources[0], PackageSource) for spec in starter)
    assert all(
        s.licence_kind == "commercial" for s in model_catalogue.expand(("starter", "recommended"))
    )


def test_an_unknown_field_or_a_path_that_climbs_out_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.toml.decode(b"models = []\npresets = {}\nextra = 1", type=Catalogue)
    with pytest.raises(msgspec.ValidationError, match="not a path within"):
        msgspec.json.decode(b'{"path": "../x", "size": 1}', type=ModelFile)


def test_a_missing_model_names_the_command(store: Build) -> None:
    with pytest.raises(errors.ModelNotFoundError, match="localrag models pull toy"):
        store(model()).path("toy")
    with pytest.raises(errors.ModelNotFoundError, match="similar names: toy"):
        store(model()).path("tony")


def test_an_unchanged_file_is_not_hashed_again(
    hub: Hub, store: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files[HF] = BIG
    models = store(model())
    pull(models, ["toy"])
    monkeypatch.setattr(module.Expected, "fault", lambda *_: pytest.fail("hashed"))
    assert models.path("toy") == models.folder / "toy"
    monkeypatch.undo()
    # A new time alone: hashed once, found right, recorded.
    os.utime(models.folder / "toy/model.bin", ns=(1, 1))
    assert models.status(model()).state == "unchecked"
    models.path("toy")
    assert models.status(model()).state == "installed"


@pytest.mark.skipif(os.name == "nt", reason="only where files have a time of their last change")
def test_a_file_that_was_altered_is_noticed_although_its_time_was_set_back(
    hub: Hub, store: Build, tmp_path: Path
) -> None:
    hub.files[HF] = BIG
    models = store(model())
    pull(models, ["toy"])
    own = models.add("mine", gguf(tmp_path / "mine.gguf"))
    for name, path in (("toy", models.folder / "toy/model.bin"), ("mine", Path(own.path))):
        models.path(name)
        before = path.stat()
        with path.open("r+b") as file:
            file.seek(50)
            file.write(b"\x01\x02")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert path.stat().st_size == before.st_size
        with pytest.raises(errors.ModelCorruptError):
            models.path(name)


@pytest.mark.skipif(os.name == "nt", reason="only where files have a time of their last change")
def test_a_file_of_ones_own_that_was_touched_is_hashed_once(
    store: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = store(model())
    file = gguf(tmp_path / "mine.gguf")
    models.add("mine", file)
    file.chmod(0o600)
    assert models.path("mine") == file
    monkeypatch.setattr(module.Expected, "fault", lambda *_: pytest.fail("hashed"))
    assert models.path("mine") == file


def test_a_record_of_an_older_version_is_hashed_once(
    hub: Hub, store: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files[HF] = BIG
    models = store(model())
    pull(models, ["toy"])
    path = models.folder / "toy" / "installed.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for file in record["files"]:
        del file["ctime_ns"]
    path.write_text(json.dumps(record), encoding="utf-8")
    models.path("toy")
    monkeypatch.setattr(module.Expected, "fault", lambda *_: pytest.fail("hashed"))
    models.path("toy")


def test_a_copy_on_a_medium_that_cannot_be_written_is_not_hashed(
    hub: Hub, store: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub.files[HF] = BIG
    models = store(model())
    pull(models, ["toy"])
    path = models.folder / "toy" / "model.bin"
    stat = path.stat()
    path.rename(path.with_suffix(".old"))
    path.write_bytes(path.with_suffix(".old").read_bytes())
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    monkeypatch.setattr(module.os, "access", lambda *_: False)
    monkeypatch.setattr(module.Expected, "fault", lambda *_: pytest.fail("hashed"))
    models.path("toy")


def test_a_language_model_is_its_gguf_file(store: Build, tmp_path: Path) -> None:
    data = b"GGUF" + bytes(100)
    file = ModelFile(path="toy.gguf", size=len(data), sha256=sha256(data))
    models = store(model(task="llm", files=(file,)))
    path = gguf(models.folder / "toy/toy.gguf")
    assert models.path("toy") == path
    assert models.path(str(path)) == path
    assert models.path(str(path.parent)) == path


def test_own_models_are_registered_by_path_and_never_deleted(store: Build, tmp_path: Path) -> None:
    models = store(model())
    file = gguf(tmp_path / "mine/my model.gguf")
    own = models.add("mine", file)
    assert own.task == "llm"
    assert models.path("mine") == file
    assert [check.fault for check in models.verify(("mine",))] == [None]
    assert models.statuses()[-1].state == "registered"
    file.write_bytes(b"GGUF" + bytes(99) + b"x")
    os.utime(file, ns=(5, 5))
    with pytest.raises(errors.ModelCorruptError, match="changed since it was added"):
        models.path("mine")
    assert models.verify(("mine",))[0].fault is not None
    models.remove("mine")
    assert file.exists()
    with pytest.raises(errors.ModelNotFoundError):
        models.path("mine")


@pytest.mark.parametrize("earlier", [False, True])
def test_a_split_model_of_ones_own_is_hashed_in_all_its_parts(
    store: Build, tmp_path: Path, earlier: bool
) -> None:
    """Also one that an earlier version recorded by its first part, once it is used."""
    models = store(model())
    first, second = (gguf(tmp_path / f"m-0000{number}-of-00002.gguf") for number in (1, 2))
    gguf(tmp_path / "m-00002-of-00003.gguf")
    own = models.add("mine", first)
    assert [file.path for file in own.files] == [first.name, second.name]
    if earlier:
        alone = msgspec.structs.replace(own, files=own.files[:1])
        manifest.write(models.folder / manifest.REGISTERED, {"mine": alone})
    assert models.path("mine") == first
    assert [check.file for check in models.verify(("mine",))] == [first.name, second.name]
    second.write_bytes(b"GGUF" + bytes(99) + b"x")
    os.utime(second, ns=(5, 5))
    with pytest.raises(errors.ModelCorruptError, match="changed since it was added"):
        models.path("mine")


def test_own_folders_show_their_task(store: Build, tmp_path: Path) -> None:
    models = store(model())
    folder = tmp_path / "st"
    folder.mkdir()
    with pytest.raises(errors.UsageError, match="neither a GGUF file nor a folder"):
        models.add("st", folder)
    (folder / "config.json").write_text('{"architectures": ["BertModel"]}')
    (folder / "model.safetensors").write_bytes(b"x")
    assert models.add("st", folder).task == "embedding"
    (folder / "config.json").write_text('{"architectures": ["XForSequenceClassification"]}')
    assert models.add("st", folder).task == "reranker"
    assert models.add("st", folder, "embedding").task == "embedding"
    assert models.path("st") == folder
    (folder / "model.safetensors").unlink()
    with pytest.raises(errors.ModelNotFoundError, match="no longer exists"):
        models.path("st")


@pytest.mark.parametrize("name", ["toy", "all", "a/b", "..", ""])
def test_names_that_will_not_do(name: str, store: Build, tmp_path: Path) -> None:
    with pytest.raises(errors.UsageError):
        store(model(), all=("toy",)).add(name, gguf(tmp_path / "x.gguf"))


def test_remove_deletes_what_was_pulled_and_nothing_else(hub: Hub, store: Build) -> None:
    hub.files[HF] = BIG
    models = store(model())
    pull(models, ["toy"])
    notes = models.folder / "toy/notes.txt"
    notes.write_text("mine")
    assert models.remove("toy") >= len(BIG)
    assert [path.name for path in (models.folder / "toy").iterdir()] == ["notes.txt"]
    notes.unlink()
    notes.parent.rmdir()
    with pytest.raises(errors.ModelNotFoundError):
        models.remove("toy")


def test_an_unreadable_manifest_is_named(store: Build) -> None:
    models = store(model())
    (models.folder / "toy").mkdir(parents=True)
    (models.folder / "toy/installed.json").write_text("{")
    with pytest.raises(errors.ModelCorruptError, match=r"installed\.json"):
        models.path("toy")


def test_where_models_live(tmp_path: Path) -> None:
    assert default_models_dir({"LOCALRAG_MODELS": str(tmp_path)}) == tmp_path
    assert default_models_dir({}) == Path(__file__).parents[2] / "models"


@pytest.mark.models("bge-small-en-v1.5-int8")
def test_a_model_that_was_pulled_is_found_and_right(models_dir: Callable[[str], Path]) -> None:
    folder = models_dir("bge-small-en-v1.5-int8")
    models = ModelStore(folder.parent)
    assert {check.fault for check in models.verify((folder.name,))} == {None}


def test_the_command_line(
    hub: Hub, store: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.cli.models import models as command

    hub.files[HF] = BIG
    model_catalogue = Catalogue(
        models=(model(), model("nc", licence="research", licence_kind="non-commercial")),
        presets={"all": ("toy", "nc")},
    )
    monkeypatch.setattr(module, "catalogue", lambda: model_catalogue)
    monkeypatch.setenv("LOCALRAG_MODELS", str(tmp_path / "m"))

    def run(*arguments: str) -> tuple[int, str, str]:
        result = CliRunner().invoke(command, arguments)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.stdout, result.stderr

    assert "not installed" in run("list")[1]
    code, out, err = run("pull", "toy")
    assert (code, out) == (0, f"{tmp_path / 'm' / 'toy'}\n")
    assert "licence MIT; 0.5 MB" in err.replace("524.3 kB", "0.5 MB")
    assert "fetching from huggingface" in err
    with pytest.raises(errors.ModelLicenceError):
        run("pull", "all")
    assert (
        json.loads(run("pull", "all", "--accept-licence", "--json")[1])["pulled"][1]["name"] == "nc"
    )
    assert json.loads(run("list", "--json")[1])["models"][0]["state"] == "installed"
    assert run("verify")[0] == 0
    (tmp_path / "m/toy/model.bin").write_bytes(b"short")
    code, out, _ = run("verify", "toy", "--json")
    assert code == 1
    assert "5 bytes instead of" in json.loads(out)["files"][0]["fault"]
    assert run("add", "mine", str(gguf(tmp_path / "x.gguf")))[0] == 0
    assert run("path", "mine")[1].strip() == str(tmp_path / "x.gguf")
    assert json.loads(run("path", "mine", "--json")[1])["path"] == str(tmp_path / "x.gguf")
    assert json.loads(run("remove", "mine", "--json")[1]) == {"name": "mine", "freed_bytes": 0}
    assert "removed" in run("remove", "toy")[2]
