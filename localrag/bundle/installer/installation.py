"""A folder with an installation, made or brought up to a bundle that has been checked.

It holds `venv/<bundle>` (one environment for each bundle), `models`, `bin/localrag` and
`installed.json`. The new environment is made beside the old one; only when it works do models and
launcher change places, so that a process killed at any moment leaves the old installation working,
or one that the next run completes. What is made here has the mode that the user's umask says.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from localrag.bundle.installer import environments
from localrag.bundle.installer.machine import check_machine
from localrag.bundle.installer.manifest import FORMAT, File
from localrag.bundle.installer.storage import DAMAGED, Folder, told_as_damage
from localrag.bundle.installer.verification import CheckedBundle
from localrag.errors import BundleError
from localrag.messages import tr
from localrag.printable import as_name

RECORD = "installed.json"
_BEGUN = (".install.lock", f".{RECORD}.part")
"""All that there is where the very first run was cut off."""
_COMPLETE = "localrag-bundle.json"
"""Written into an environment last of all."""
_MARGIN = 200 << 20
"""Bytes of the disk that an installation leaves free."""
_OWN = {"localrag_offline", "localrag"}
"""localrag's wheel; 0.1 carried the second name."""


class Installer:
    """One installation into the folder `to`; `notify` hears, for a person, what is being done.

    `older` lets a bundle replace one that was created after it.
    """

    def __init__(
        self,
        checked: CheckedBundle,
        to: Path,
        notify: Callable[[str], None],
        *,
        older: bool = False,
    ) -> None:
        self._checked = checked
        self._may_be_older = older
        self._manifest = checked.manifest
        self._to = to
        self._notify = notify
        self._name = checked.manifest.sha256[:12]
        self._stopped = threading.Event()

    def prepare(self) -> int:
        """The bytes that it may need. Raises `BundleError` where it cannot be installed there."""
        check_machine(self._manifest)
        for file in self._manifest.files:
            self._checked.holder(file)
        if not _OWN & self._distributions():
            raise BundleError(
                "The bundle contains no package of localrag.",
                hint="Copy the bundle again from where it was created.",
            )
        bundle = self._checked.bundle
        if isinstance(bundle, Folder) and self._to.is_relative_to(bundle.path.resolve()):
            raise BundleError(
                "{folder} is inside the bundle, which must not be changed.",
                hint="Name another folder with --to.",
                folder=self._to,
            )
        if not (self._to / RECORD).is_file() and self._holds_other_things():
            raise BundleError(
                "{folder} contains other files, but no installation of localrag.",
                hint="Name an empty or new folder with --to.",
                folder=self._to,
            )
        installed = self._record().get("created", "")
        created = self._manifest.created
        # To the second: what follows it says the same zone in one way or another.
        is_older = isinstance(installed, str) and created[:19] < installed[:19]
        if is_older and not self._may_be_older:
            # Its signature is as good as that of the newer one, and its faults are known.
            raise BundleError(
                "The bundle of {created} is older than the one that is installed, of {installed}.",
                hint="Add --older to go back to it.",
                created=created,
                installed=as_name(installed),
            )
        size = self._size()
        disk = next(parent for parent in (self._to, *self._to.parents) if parent.exists())
        if (free := shutil.disk_usage(disk).free) < size + _MARGIN:
            raise BundleError(
                "The installation needs {needed} in {folder}, but only {free} are free.",
                hint="Free some space, or name a folder on another disk with --to.",
                needed=megabytes(size + _MARGIN),
                free=megabytes(free),
                folder=self._to,
            )
        return size

    def run(self) -> Path:
        """Install; the launcher's path. Raises `BundleError`; what was there works on then."""
        self._to.mkdir(parents=True, exist_ok=True)
        with alone(self._to):
            if not (self._to / RECORD).is_file():
                self._write_record("")
            environment, waiting = self._fetch_and_unpack()
            if not (environment / _COMPLETE).is_file():
                write(environment / _COMPLETE, json.dumps({"bundle": self._manifest.sha256}))
            for part, path in waiting:
                part.replace(path)
            launcher = self._write_launcher(environment)
            self._write_record(environment.name)
            # Those of earlier bundles; one that is in use goes the next time.
            for folder in (self._to / "venv").iterdir():
                if folder != environment:
                    shutil.rmtree(folder, ignore_errors=True)
        return launcher

    def _fetch_and_unpack(self) -> tuple[Path, list[tuple[Path, Path]]]:
        """An environment that works, and the models beside their places.

        At once: a disk copies the models while a processor unpacks the packages. Where one of them
        fails, an environment that was made for it goes.
        """
        environment: Path | None = None
        with ThreadPoolExecutor(1) as beside:
            models = beside.submit(self._fetch_models)
            try:
                environment = self._sound_environment() or self._make_environment()
                if models.done():
                    models.result()  # what is wrong with them is told before minutes of trials
                environments.try_out(environment, self._manifest.localrag, self._distributions())
                return environment, models.result()
            except BaseException:
                self._stopped.set()
                if environment and not (environment / _COMPLETE).is_file():
                    shutil.rmtree(environment, ignore_errors=True)
                raise

    def _holds_other_things(self) -> bool:
        if self._to.is_dir():
            return any(entry.name not in _BEGUN for entry in self._to.iterdir())
        return self._to.exists()

    def _distributions(self) -> set[str]:
        names = (Path(file.path).name for file in self._manifest.wheels)
        return {name.partition("-")[0].lower() for name in names}

    def _size(self) -> int:
        size = 0
        for file in self._manifest.models:
            path = self._to / file.path
            size += 0 if path.is_file() and path.stat().st_size == file.bytes else file.bytes
        if self._sound_environment() is not None:
            return size
        for file in self._manifest.wheels:
            try:
                stream = self._checked.holder(file).open(file.path)
                with told_as_damage(), stream, zipfile.ZipFile(stream) as wheel:
                    size += file.bytes + sum(info.file_size for info in wheel.infolist())
            except DAMAGED as error:
                raise BundleError(
                    "The package {name} cannot be read: {reason}.",
                    hint="Copy the bundle again from where it was created.",
                    name=Path(file.path).name,
                    reason=error,
                ) from None
        return size

    def _fetch_models(self) -> list[tuple[Path, Path]]:
        """Every model file that is not there yet, beside its place and checked."""
        waiting = []
        changed = set()
        # A model's own record goes with its files, and changes in use.
        for file in sorted(self._manifest.models, key=lambda file: Path(file.path).name == RECORD):
            path = self._to / file.path
            part = path.with_name(f".{path.name}.part")
            folder = file.path.split("/")[1]
            if path.name == RECORD:
                if path.is_file() and folder not in changed and not part.exists():
                    continue
            elif _is_file(path, file):
                continue
            changed.add(folder)
            self._notify(
                tr("Fetching {name} ({size}) ...", name=file.path, size=megabytes(file.bytes))
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            self._fetch(file, part, durable=True)
            waiting.append((part, path))
        return waiting

    def _fetch(self, file: File, path: Path, *, durable: bool = False) -> None:
        """Copy a file of the bundle to `path`, and check what was copied."""
        if _is_file(path, file):
            return
        path.unlink(missing_ok=True)
        digest = hashlib.sha256()
        try:
            with self._checked.holder(file).open(file.path) as stream, path.open("wb") as copy:
                while part := stream.read(1 << 20):
                    digest.update(part)
                    copy.write(part)
                    if self._stopped.is_set():
                        raise InterruptedError
                if durable:
                    copy.flush()
                    os.fsync(copy.fileno())
        except OSError:
            path.unlink(missing_ok=True)  # a full disk, say: give back what it took
            raise
        except DAMAGED:
            digest = hashlib.sha256()  # of an archive that is not what was checked any more
        if digest.hexdigest() != file.sha256:
            path.unlink(missing_ok=True)
            raise BundleError(
                "{name} changed while it was read.",
                hint=(
                    "Check the disk or USB stick that the bundle is on, and copy the bundle again."
                ),
                name=file.path,
            )

    def _sound_environment(self) -> Path | None:
        """An environment of this bundle that is whole, or None."""
        for folder in sorted((self._to / "venv").glob(f"{self._name}*")):
            complete = (folder / _COMPLETE).is_file()
            if complete and environments.is_whole(folder, len(self._manifest.wheels)):
                return folder
        return None

    def _make_environment(self) -> Path:
        home = self._to / "venv"
        home.mkdir(exist_ok=True)
        # Damaged or half-made ones go, but not the one that the launcher runs.
        names = (self._name, f"{self._name}-2")
        folder = home / next(name for name in names if name != self._record().get("environment"))
        scratch = home / "wheels.part"
        for left in (folder, scratch):
            if left.exists():
                shutil.rmtree(left)
        scratch.mkdir()
        wheels = self._manifest.wheels
        self._notify(tr("Unpacking {count} packages, which takes minutes ...", count=len(wheels)))
        try:
            paths = [self._take_wheel(file, scratch) for file in wheels]
            environments.make(folder, paths, self._manifest.target)
        except (OSError, BundleError):
            shutil.rmtree(folder, ignore_errors=True)
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return folder

    def _take_wheel(self, file: File, folder: Path) -> Path:
        """A copy, not a second name: others may write in the bundle's folder since the check."""
        path = folder / Path(file.path).name
        self._fetch(file, path)
        return path

    def _record(self) -> dict[str, Any]:
        try:
            record = json.loads((self._to / RECORD).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return record if isinstance(record, dict) else {}

    def _write_record(self, environment: str) -> None:
        record = {
            "format": FORMAT,
            "localrag": self._manifest.localrag if environment else "",
            "bundle": self._manifest.sha256 if environment else "",
            "created": self._manifest.created if environment else self._record().get("created", ""),
            "environment": environment,
        }
        write(self._to / RECORD, json.dumps(record, indent=1) + "\n")

    def _write_launcher(self, environment: Path) -> Path:
        folder = self._to / "bin"
        folder.mkdir(exist_ok=True)
        if os.name == "nt":
            path = folder / "localrag.bat"
            # Relative to itself: cmd reads a file's other characters in a code page of its own.
            text = (
                "@echo off\r\nsetlocal\r\n"
                'if not defined LOCALRAG_MODELS set "LOCALRAG_MODELS=%~dp0..\\models"\r\n'
                f'"%~dp0..\\venv\\{environment.name}\\Scripts\\python.exe" -I -m localrag %*\r\n'
            )
        else:
            path = folder / "localrag"
            models = shlex.quote(str(self._to / "models"))
            python = shlex.quote(str(environments.python_of(environment)))
            text = (
                "#!/bin/sh\n"
                f'if [ -z "$LOCALRAG_MODELS" ]; then LOCALRAG_MODELS={models}; fi\n'
                "export LOCALRAG_MODELS\n"
                f'exec {python} -I -m localrag "$@"\n'
            )
        if not path.is_file() or path.read_bytes() != text.encode("utf-8"):
            write(path, text, executable=True)
        return path


def write(path: Path, text: str, *, executable: bool = False) -> None:
    """Replace a file whole, or not at all."""
    part = path.with_name(f".{path.name}.part")
    part.unlink(missing_ok=True)
    with part.open("xb") as stream:
        stream.write(text.encode("utf-8"))
        stream.flush()
        os.fsync(stream.fileno())
    if executable:
        part.chmod(0o755)
    part.replace(path)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Be the only one who installs there; the system forgets it when the process ends."""
    with (folder / ".install.lock").open("a+b") as lock:
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(lock.fileno(), msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            raise BundleError(
                "Another installation into {folder} is running.",
                hint="Wait until it finishes, or stop it.",
                folder=folder,
            ) from None
        yield


def megabytes(count: int) -> str:
    """A size as a person reads it."""
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"


def _is_file(path: Path, file: File) -> bool:
    if not path.is_file() or path.stat().st_size != file.bytes:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256
