"""The models folder on disk: what is there, where it is, and the user's own models."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec

from localrag.errors import ModelCorruptError, ModelNotFoundError, UsageError
from localrag.models.registry import manifest
from localrag.models.registry.download import Expected, sha256_of
from localrag.models.registry.manifest import HashFrom, Installed, InstalledFile, Registered
from localrag.models.registry.spec import Catalogue, ModelFile, ModelSpec, ModelTask, catalogue
from localrag.system.files import delete_empty_folders, lock, make_folder
from localrag.system.split_files import parts_of

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WEIGHTS = ("*.safetensors", "*.bin", "*.onnx", "onnx/*.onnx")

State = Literal["installed", "unchecked", "partial", "missing", "registered"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """A model as `models list` shows it; `size` in bytes.

    `unchecked`: the files lie there, but their hashes were not compared yet.
    `hash_from` says who vouches for the bytes: localrag's own list, the hub at
    the first pull, or the user who added them.
    """

    name: str
    task: ModelTask
    title: str
    languages: tuple[str, ...] = ()
    licence: str = ""
    licence_kind: str = ""
    size: int
    state: State
    path: Path
    presets: tuple[str, ...] = ()
    hash_from: HashFrom
    notes: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """The result of hashing one file anew; `fault` is None when it is as it should be."""

    model: str
    file: str
    fault: ModelCorruptError | None


def default_models_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """LOCALRAG_MODELS, else `models/` of a checkout, else the user's data folder."""
    if chosen := environ.get("LOCALRAG_MODELS"):
        return Path(chosen).expanduser()
    root = Path(__file__).resolve().parents[3]
    if (root / "pyproject.toml").is_file() and (root / "models").is_dir():
        return root / "models"
    from platformdirs import user_data_path

    return user_data_path("localrag", appauthor=False) / "models"


class ModelStore:
    """The models in one folder. Reads and checks; `registry.pull` brings new ones."""

    def __init__(self, folder: Path, known: Catalogue | None = None) -> None:
        self.folder = folder
        self.catalogue = known or catalogue()

    def folder_of(self, spec: ModelSpec) -> Path:
        """Where a model's files lie, or would."""
        return self.folder / spec.id

    def statuses(self) -> list[Status]:
        """All models that are known or registered. Looks at sizes only, so it is quick."""
        statuses = [self.status(spec) for spec in self.catalogue.models]
        return statuses + [
            Status(
                name=own.name,
                task=own.task,
                title=Path(own.path).name,
                size=sum(file.size for file in own.files),
                state="registered" if _is_there(Path(own.path)) else "missing",
                path=Path(own.path),
                hash_from="user",
            )
            for own in manifest.read_registered(self.folder).values()
        ]

    def knows(self, name: str) -> bool:
        """Whether `name` is an id, or a name given with `add`, or such joined: a path is none."""
        return all(map(self._knows, self.parts(name)))

    def is_present(self, name: str) -> bool:
        """Whether a known model is on this machine; looks at sizes only."""
        return self.status(self.catalogue.get(name)).state in ("installed", "unchecked")

    def parts(self, name: str) -> tuple[str, ...]:
        """The names of the models that are joined in a `name` like "a+b"; else the name itself."""
        parts = tuple(name.split("+"))
        return parts if len(parts) == 2 and all(map(self._knows, parts)) else (name,)

    def _knows(self, name: str) -> bool:
        return self.catalogue.find(name) is not None or name in manifest.read_registered(
            self.folder
        )

    def path(self, name: str) -> Path:
        """Where a model is: the GGUF file of a language model, else the model's folder.

        `name` is an id, a name given with `add`, or simply a path. Files are
        taken as checked while their size and time stand; a file that changed is
        hashed again. Raises `ModelNotFoundError` with the command that brings
        the model, or `ModelCorruptError`.
        """
        if spec := self.catalogue.find(name):
            return self._checked(spec)
        if own := manifest.read_registered(self.folder).get(name):
            return self._checked_own(own)
        given = Path(name).expanduser()
        if _is_there(given):
            return _gguf_within(given) or given
        self.catalogue.get(name)
        raise AssertionError(name)  # pragma: no cover - get() raised

    def present(self, spec: ModelSpec) -> dict[str, InstalledFile]:
        """The files of a model that are on disk and right; hashes what is not yet recorded."""
        folder = self.folder_of(spec)
        installed = manifest.read_installed(folder)
        files: dict[str, InstalledFile] = {}
        for file in spec.files:
            record = _fitting(installed, file)
            path = folder / file.path
            if _unchanged(record, path):
                files[file.path] = record  # type: ignore[assignment]
                continue
            expected = _expected(file, record)
            if not path.is_file() or not expected.sha256 or expected.fault(path):
                continue
            files[file.path] = InstalledFile.of(
                path,
                file.path,
                sha256=expected.sha256,
                source=record.source if record else "found",
                hash_from="published" if file.sha256 else "hub",
            )
        return files

    def write_installed(self, spec: ModelSpec, files: Mapping[str, InstalledFile]) -> None:
        """Record which files of a model are on disk and checked."""
        record = Installed(model=spec.id, files=tuple(files[key] for key in sorted(files)))
        path = self.folder_of(spec) / manifest.MANIFEST
        if manifest.read_installed(self.folder_of(spec)) != record:
            manifest.write(path, record)

    def verify(self, names: tuple[str, ...] = ()) -> list[Check]:
        """Hash every file of these models anew, or of all that are on disk.

        Raises `ModelNotFoundError` for a name that is not known.
        """
        registered = manifest.read_registered(self.folder)
        if not names:
            on_disk = [s.id for s in self.catalogue.models if self.status(s).state != "missing"]
            names = (*on_disk, *registered)
        checks: list[Check] = []
        for name in names:
            if own := registered.get(name):
                place = _root(Path(own.path))
                for file in own.files:
                    expected = Expected(file.size, file.sha256)
                    checks.append(_check(own.name, file.path, place / file.path, expected))
                continue
            for spec in self.catalogue.expand((name,)):
                folder = self.folder_of(spec)
                installed = manifest.read_installed(folder)
                for known in spec.files:
                    expected = _expected(known, _fitting(installed, known))
                    checks.append(_check(spec.id, known.path, folder / known.path, expected))
        return checks

    def add(self, name: str, path: Path, task: ModelTask | None = None) -> Registered:
        """Register a GGUF file or a model folder of the user's own, without copying it.

        `task` is seen from the files when it is None. Raises `UsageError` when
        the name or the path will not do.
        """
        if not _NAME.fullmatch(name) or self.catalogue.find(name) or name in self.catalogue.presets:
            raise UsageError(
                "{name} cannot be the name of a model of your own.",
                hint="Use letters, digits, dots, dashes and underscores, and a name that "
                "`localrag models list` does not show yet.",
                name=name,
            )
        place = path.expanduser().resolve()
        files = _model_files(place)
        root = _root(place)
        own = Registered(
            name=name,
            task=task or _task_of(place),
            path=str(place),
            files=tuple(_own_file(file, root) for file in files),
        )
        registered = manifest.read_registered(self.folder) | {name: own}
        manifest.write(self.folder / manifest.REGISTERED, registered)
        return own

    def remove(self, name: str) -> int:
        """Delete the files that a pull brought, or forget a model of the user's own.

        Returns the number of bytes freed; files of the user's own are never
        deleted. Raises `ModelNotFoundError` when there is nothing to remove.
        """
        registered = manifest.read_registered(self.folder)
        if name in registered:
            manifest.write(
                self.folder / manifest.REGISTERED,
                {key: own for key, own in registered.items() if key != name},
            )
            return 0
        spec = self.catalogue.get(name)
        folder = self.folder_of(spec)
        work = self.work_of(spec)
        if not folder.exists() and not work.exists():
            raise _not_found(spec, folder)
        freed = 0
        with lock(self.lock_of(spec)):
            for file in (*(file.path for file in spec.files), manifest.MANIFEST):
                path = folder / file
                if path.is_file():
                    freed += path.stat().st_size
                    path.unlink()
            delete_empty_folders(folder)
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
            if work.exists():
                freed += sum(part.stat().st_size for part in work.rglob("*") if part.is_file())
                shutil.rmtree(work)
        return freed

    def work_of(self, spec: ModelSpec) -> Path:
        """Where a model's unfinished files are gathered."""
        return self.folder / ".downloads" / spec.id

    def lock_of(self, spec: ModelSpec) -> Path:
        """The lock that a process holds while it changes a model."""
        path = self.folder / ".locks" / f"{spec.id}.lock"
        make_folder(path.parent)
        return path

    def status(self, spec: ModelSpec) -> Status:
        """What `models list` shows of one model."""
        folder = self.folder_of(spec)
        installed = manifest.read_installed(folder)
        there = [file for file in spec.files if (folder / file.path).is_file()]
        state: State = "missing"
        if len(there) == len(spec.files):
            known = all(_unchanged(_fitting(installed, f), folder / f.path) for f in spec.files)
            state = "installed" if known else "unchecked"
        elif there or self.work_of(spec).exists():
            state = "partial"
        return Status(
            name=spec.id,
            task=spec.task,
            title=spec.title,
            languages=spec.languages,
            licence=spec.licence,
            licence_kind=spec.licence_kind,
            size=spec.size,
            state=state,
            path=folder,
            presets=tuple(key for key, ids in self.catalogue.presets.items() if spec.id in ids),
            hash_from="published" if spec.pinned else "hub",
            notes=spec.notes,
        )

    def _checked(self, spec: ModelSpec) -> Path:
        folder = self.folder_of(spec)
        files = self.present(spec)
        for file in spec.files:
            if file.path in files:
                continue
            path = folder / file.path
            if not path.is_file():
                raise _not_found(spec, folder)
            raise spec.altered(path)
        if os.access(folder, os.W_OK):
            self.write_installed(spec, files)
        return _gguf_within(folder) or folder

    def _checked_own(self, own: Registered) -> Path:
        place = Path(own.path)
        root = _root(place)
        files: list[InstalledFile] = []
        for file in own.files:
            path = root / file.path
            if not (_is_there(path) and path.is_file()):
                raise ModelNotFoundError(
                    "The model {name} was added from {path}, which no longer exists.",
                    hint="Plug the disk in, or run `localrag models add {name} PATH` again.",
                    name=own.name,
                    path=path,
                )
            if _unchanged(file, path):
                files.append(file)
                continue
            if Expected(file.size, file.sha256).fault(path):
                raise ModelCorruptError(
                    "The file {path} of {name} has changed since it was added.",
                    hint="If you changed it, run `localrag models add {name} PATH` again.",
                    path=path,
                    name=own.name,
                )
            checked = InstalledFile.of(
                path, file.path, sha256=file.sha256, source=file.source, hash_from="user"
            )
            files.append(checked)
        if place.is_file():
            # An earlier version recorded the first part of a split model alone.
            recorded = {file.path for file in own.files}
            files += [_own_file(p, root) for p in parts_of(place) if p.name not in recorded]
        if files != list(own.files) and os.access(self.folder, os.W_OK):
            registered = manifest.read_registered(self.folder)
            registered[own.name] = msgspec.structs.replace(own, files=tuple(files))
            manifest.write(self.folder / manifest.REGISTERED, registered)
        return _gguf_within(place) or place


def _not_found(spec: ModelSpec, folder: Path) -> ModelNotFoundError:
    return ModelNotFoundError(
        "The model {model} is not in {folder}.",
        hint="Get it with: localrag models pull {model}",
        model=spec.id,
        folder=folder.parent,
    )


def _is_there(path: Path) -> bool:
    """Whether a path exists; one that no file system can hold does not."""
    try:
        return path.exists()
    except OSError:
        return False


def _root(place: Path) -> Path:
    """The folder that a model's files are named from: itself, or that of its only file."""
    return place if _is_there(place) and place.is_dir() else place.parent


def _fitting(installed: Installed | None, file: ModelFile) -> InstalledFile | None:
    """The record of a file, unless this version of localrag wants other bytes there."""
    record = installed.find(file.path) if installed else None
    if record and file.sha256 not in (None, record.sha256):
        return None
    return record


def _expected(file: ModelFile, record: InstalledFile | None) -> Expected:
    return Expected(file.size, file.sha256 or (record.sha256 if record else None))


def _unchanged(record: InstalledFile | None, path: Path) -> bool:
    if record is None:
        return False
    try:
        stat = path.stat()
    except OSError:
        return False
    if (stat.st_size, stat.st_mtime_ns) != (record.size, record.mtime_ns):
        return False
    # Its own time may be set back by whoever alters a file; that of the change may not.
    # On a medium that cannot be written a copy has another one, and nobody alters it.
    writable = os.access(path, os.W_OK) or os.access(path.parent, os.W_OK)
    return stat.st_ctime_ns == record.ctime_ns or not writable


def _check(model: str, file: str, path: Path, expected: Expected) -> Check:
    if not (_is_there(path) and path.is_file()):
        return Check(model, file, ModelCorruptError("not there"))
    if not expected.known:
        return Check(model, file, ModelCorruptError("never checked: pull the model"))
    return Check(model, file, expected.fault(path))


def _gguf_within(place: Path) -> Path | None:
    """The one GGUF file in a folder; of a split model the first part, as llama.cpp wants it."""
    if not place.is_dir():
        return None
    files = sorted(place.glob("*.gguf"))
    first = [file for file in files if "-00001-of-" in file.name]
    if len(first) == 1:
        return first[0]
    return files[0] if len(files) == 1 else None


def _model_files(place: Path) -> list[Path]:
    """The files that make up a model of the user's own. Raises `UsageError` if it is none."""
    if place.is_file():
        with place.open("rb") as stream:
            if stream.read(4) == b"GGUF":
                return parts_of(place)
    elif place.is_dir():
        files = [file for file in sorted(place.rglob("*")) if file.is_file()]
        weights = [file for pattern in _WEIGHTS for file in place.glob(pattern)]
        if _gguf_within(place) or (weights and (place / "config.json").is_file()):
            return files
        if (place / "tokenizer.json").is_file() and any(place.glob("*.onnx")):
            return files
    raise UsageError(
        "{path} is neither a GGUF file nor a folder with a sentence-transformers or ONNX model.",
        hint="A model folder contains config.json, tokenizer.json and the weights.",
        path=place,
    )


def _own_file(file: Path, root: Path) -> InstalledFile:
    """The record of a file of the user's own, hashed now."""
    return InstalledFile.of(
        file,
        file.relative_to(root).as_posix(),
        sha256=sha256_of(file),
        source=str(root),
        hash_from="user",
    )


def _task_of(place: Path) -> ModelTask:
    if place.is_file() or _gguf_within(place):
        return "llm"
    config = place / "config.json"
    text = config.read_text(encoding="utf-8") if config.is_file() else ""
    return "reranker" if "ForSequenceClassification" in text else "embedding"
