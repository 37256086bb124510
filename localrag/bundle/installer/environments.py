"""The Python environment that localrag runs in: made of wheels alone, tried out, looked over."""

from __future__ import annotations

import base64
import csv
import hashlib
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from localrag.bundle.installer.manifest import Target
from localrag.errors import BundleError
from localrag.system import processes

_NATIVE = {
    "faiss_cpu": "faiss",
    "llama_cpp_python": "llama_cpp",
    "lxml": "lxml.etree",
    "onnxruntime": "onnxruntime",
    "opencv_python_headless": "cv2",
    "pillow": "PIL.Image",
    "psycopg_binary": "psycopg",
    "pyclipper": "pyclipper",
    "pymupdf": "pymupdf",
    "python_calamine": "python_calamine",
    "pyrage": "pyrage",
    "shapely": "shapely",
    "sqlcipher3": "sqlcipher3",
    "watchfiles": "watchfiles",
}
"""Wheels with machine code, and what is imported to see that it runs on this processor."""
_LLAMA_LIBRARIES = ("xllamacpp", "llama_cpp_py_sync")
"""Packages with a prebuilt llama.cpp: llama-cpp-python has none of its own then."""
_LOAD_LLAMA = "from localrag.models.llms.llama_cpp import native; native.load()"
_ILLEGAL_INSTRUCTION = (-4, 0xC000001D)
_VARIABLES = {
    "ORT_DISABLE_TELEMETRY": "1",
    "ORT_TELEMETRY_DISABLED": "1",
    "HF_HUB_OFFLINE": "1",
    "PIP_CONFIG_FILE": os.devnull,
    "PIP_NO_INDEX": "1",
    "LOCALRAG_LANG": "en",
}


def make(folder: Path, wheels: Sequence[Path], target: Target) -> None:
    """Make an environment of these wheels, by the pip among them if there is one.

    Raises `BundleError`, OSError.
    """
    pip = next((path for path in wheels if path.name.startswith("pip-")), None)
    try:
        import venv

        venv.EnvBuilder(symlinks=os.name != "nt", with_pip=pip is None).create(folder)
    except ImportError:
        raise BundleError(
            "This Python lacks its module venv.",
            hint="On Debian and Ubuntu it is in the package python{wanted}-venv.",
            wanted=target.python,
        ) from None
    except processes.FailedError:
        raise BundleError(
            "This Python cannot make an environment with pip.",
            hint="On Debian and Ubuntu install the package python{wanted}-venv, or use a "
            "bundle that includes pip.",
            wanted=target.python,
        ) from None
    program = ["-m", "pip"] if pip is None else [str(pip / "pip")]
    options = ("--no-index", "--no-deps", "--no-cache-dir", "--no-compile", "--no-input")
    quiet = ("--disable-pip-version-check", "--no-warn-script-location", "--quiet")
    code, output = _run(folder, *program, "install", *options, *quiet, *map(str, wheels))
    if code:
        full = "No space left" in output or "Errno 28" in output
        raise BundleError(
            "The packages cannot be installed: {reason}",
            hint="Free some space, or name a folder on another disk with --to."
            if full
            else "The previous installation was left unchanged.",
            reason=failure_reason(output.splitlines()),
        )


def try_out(environment: Path, version: str, distributions: Iterable[str]) -> None:
    """Run what was installed, its machine code too. Raises `BundleError` where it does not run."""
    code, output = _run(environment, "-m", "localrag", "--version")
    if code or version not in output:
        raise BundleError(
            "The installed program does not start: {reason}",
            hint="Copy the bundle again from where it was created.",
            reason=failure_reason(output.splitlines()),
        )
    names = set(distributions)
    trials = {name: f"import {module}" for name, module in _NATIVE.items() if name in names}
    for name in names.intersection(_LLAMA_LIBRARIES):
        trials.pop("llama_cpp_python", None)
        trials[name] = _LOAD_LLAMA
    ordered = sorted(trials)
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:
        outcomes = list(pool.map(lambda name: _run(environment, "-c", trials[name]), ordered))
    for name, (code, output) in zip(ordered, outcomes, strict=True):
        if code in _ILLEGAL_INSTRUCTION:
            raise BundleError(
                "{name} uses instructions that this processor does not have.",
                hint=(
                    "Create the bundle again with a package of {name} that runs on every processor."
                ),
                name=name,
            )
        if code:
            raise BundleError(
                "The package {name} does not run here: {reason}",
                hint="Copy the bundle again, or create one for this machine.",
                name=name,
                reason=failure_reason(output.splitlines()),
            )


def is_whole(environment: Path, packages: int) -> bool:
    """Whether every file of every package is as pip put it there."""
    sites = [*environment.glob("lib/python*/site-packages"), *environment.glob("Lib/site-packages")]
    if not sites or not python_of(environment).exists():
        return False
    records = sorted(sites[0].glob("*.dist-info/RECORD"))
    try:
        return len(records) >= packages and all(map(_is_as_recorded, records))
    except (OSError, ValueError, csv.Error):  # a file is missing, or the record itself is spoilt
        return False


def python_of(environment: Path) -> Path:
    """The Python of an environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def failure_reason(lines: Iterable[str]) -> str:
    """What pip, or any program, gave as the cause of its failure, shortened."""
    texts = [line.strip() for line in lines if line.strip()]
    telling = [line.removeprefix("ERROR: ") for line in texts if line.startswith("ERROR:")]
    return " / ".join(dict.fromkeys(telling or texts[-3:]))[-600:].rstrip(".") or "?"


def record_hash(digest: bytes) -> str:
    """A SHA-256 as RECORD has it."""
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _is_as_recorded(record: Path) -> bool:
    """Whether a package's files have the hashes of its RECORD, which names at least one."""
    hashed = 0
    with record.open(encoding="utf-8", newline="") as stream:
        for row in csv.reader(stream):
            if len(row) != 3:
                return False
            path, expected, _ = row
            if expected.startswith("sha256="):
                with (record.parent.parent / path).open("rb") as file:
                    digest = record_hash(hashlib.file_digest(file, "sha256").digest())
                if expected.removeprefix("sha256=").rstrip("=") != digest:
                    return False
                hashed += 1
    return hashed > 0


def _run(environment: Path, *arguments: str) -> tuple[int, str]:
    """Run the environment's Python; its exit code, and what it printed on both streams.

    What it makes has the mode that the user's umask says.
    """
    done = processes.run(
        [str(python_of(environment)), "-I", *arguments],
        processes.PLAIN,
        variables=_VARIABLES,
        stderr=processes.OUTPUT,
        umask=processes.OURS,
    )
    return done.returncode, done.stdout.decode("utf-8", "replace")
