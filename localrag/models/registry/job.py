"""One model being pulled: which files are missing, how far it is, how a file is taken over."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from localrag.errors import LocalragError, ModelDownloadError
from localrag.models.registry.download import Downloader, Expected, refused, sha256_of
from localrag.models.registry.manifest import InstalledFile
from localrag.models.registry.pip import PipSettings
from localrag.models.registry.spec import ModelFile, ModelSpec
from localrag.models.registry.store import ModelStore
from localrag.system.files import append_file, make_folder, sync_directory

RESERVE = 64 << 20
"""Bytes of the disk that a pull leaves free."""

_INTERVAL = 0.1


@dataclass(frozen=True, slots=True)
class Event:
    """What happens during a pull. `done` and `total` are bytes of the model's files.

    `checking` files on disk, `waiting` for another process, trying a `source`,
    making `progress`, `failed` with the source because of `fault`, or `done`.
    """

    kind: Literal["checking", "waiting", "source", "progress", "failed", "done"]
    model: str
    done: int = 0
    total: int = 0
    source: str = ""
    fault: LocalragError | None = None


Observer = Callable[[Event], None]


@dataclass
class Job:
    """The pull of one model into a store."""

    spec: ModelSpec
    store: ModelStore
    downloader: Downloader
    observer: Observer
    settings: PipSettings
    keep_wheels: frozenset[str]
    installed: dict[str, InstalledFile] = field(default_factory=dict)
    source: str = ""
    _shares: dict[str, int] = field(default_factory=dict)
    _last_event: float = 0.0

    @property
    def missing(self) -> list[ModelFile]:
        """Files that are not installed yet, smallest first: a wrong source shows early."""
        files = [file for file in self.spec.files if file.path not in self.installed]
        return sorted(files, key=lambda file: file.size)

    def begin(self, source: str) -> None:
        """Note the source that is tried now."""
        self.source = source
        self._shares.clear()
        self.observer(Event("source", self.spec.id, source=source, total=self.spec.size))

    def share(self, key: str, done: int) -> None:
        """Set how many bytes of the model's files `key` (a file, a package) stands for by now."""
        self._shares[key] = done
        now = time.monotonic()
        if now - self._last_event >= _INTERVAL:
            self._last_event = now
            self._report()

    def partial(self, expected: Expected) -> Path:
        """Where the bytes are gathered, named by what they must become."""
        work = self.store.work_of(self.spec)
        make_folder(work)
        return work / f"{expected.key[:32]}.partial"

    def finish(self, file: ModelFile, partial: Path, expected: Expected) -> None:
        """Check a complete partial file and take it into the model's folder.

        Removes it and raises `SourceFailedError` when its size or hash differs.
        """
        if fault := expected.fault(partial):
            raise refused(partial, file.path, fault)
        self.take(file, partial)

    def take(self, file: ModelFile, partial: Path) -> None:
        """Move a file that was checked into the model's folder, in one step, and record it."""
        target = self.store.folder_of(self.spec) / file.path
        make_folder(target.parent)
        with append_file(partial) as stream:
            os.fsync(stream.fileno())
        partial.replace(target)
        sync_directory(target.parent)
        self.installed[file.path] = InstalledFile.of(
            target,
            file.path,
            sha256=file.sha256 or sha256_of(target),
            source=self.source,
            hash_from="published" if file.sha256 else "hub",
        )
        self._shares.pop(file.path, None)
        self._report()

    def check_disk(self, needed: int) -> None:
        """Raise `ModelDownloadError` when the disk has not `needed` bytes and a reserve."""
        folder = self.store.folder_of(self.spec)
        place = next(p for p in (folder, *folder.parents) if p.exists())
        free = shutil.disk_usage(place).free
        if free < needed + RESERVE:
            raise ModelDownloadError(
                "{model} needs {needed} MB in {folder}, but only {free} MB are free there.",
                hint="Free some space, or set LOCALRAG_MODELS to a folder on a larger disk.",
                model=self.spec.id,
                needed=-(-(needed + RESERVE) // 1_000_000),
                folder=folder,
                free=free // 1_000_000,
            )

    def _report(self) -> None:
        whole = sum(file.size for file in self.installed.values())
        total = max(self.spec.size, whole)
        done = min(total, whole + sum(self._shares.values()))
        self.observer(Event("progress", self.spec.id, done=done, total=total, source=self.source))
