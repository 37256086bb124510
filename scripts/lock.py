"""Renew the lock files under `scripts/locks`: each package in one version, by SHA-256.

    python3 scripts/lock.py               # what pyproject.toml changed; all else stays
    python3 scripts/lock.py --upgrade     # everything to the newest version that it admits

Runs uv, which is itself locked, in a temporary environment; it resolves for every system and
Python at once. UV_DEFAULT_INDEX names a mirror. Nothing names an index in what is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from environment import LOCKED, LOCKS, ROOT, TORCH, TORCH_CPU_INDEX, python_of

OLDEST = "3.11"
EXTRAS = ("bundle", "keyring", "postgres", "prebuilt", "vault", "dev")
# PyTorch publishes its builds without CUDA for these.
PYTHONS = ("3.11", "3.12", "3.13")
SYSTEMS = {
    "manylinux_2_28_x86_64": "sys_platform == 'linux' and platform_machine == 'x86_64'",
    "manylinux_2_28_aarch64": "sys_platform == 'linux' and platform_machine == 'aarch64'",
    "macosx_14_0_arm64": "sys_platform == 'darwin' and platform_machine == 'arm64'",
    "win_amd64": "sys_platform == 'win32' and platform_machine == 'AMD64'",
}
# Of localrag itself, of llama-cpp-python and of jieba, which come as source. pip so that every
# Python installs with the same one.
BUILDING = """
pip
hatchling
editables
scikit-build-core
cmake
ninja
setuptools
"""
BOUNDS = f"""
{TORCH}
onnxruntime-extensions<=0.15.0 ; sys_platform == 'win32'  # later ones have no wheel there
"""
GPU = re.compile(r"(torch|triton|nvidia-.*|cuda-.*)")
ENTRY = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^\s;]+).*\n(?: .*\n)*", re.M)

ABOUT = {
    "run": "What running localrag needs, without torch.",
    "binding": "llama-cpp-python alone: it is installed before run.txt, compiled or not.",
    "bundle": "What `localrag bundle create` needs beside run.txt.",
    "keyring": "What keys in the system's keyring need beside run.txt.",
    "postgres": "What a library in PostgreSQL needs beside run.txt.",
    "prebuilt": "The library of llama.cpp, compiled by others, where it cannot be compiled.",
    "vault": "What a library that is encrypted needs beside run.txt.",
    "dev": "What tests and checks need beside run.txt.",
    "build": "What building needs: localrag, and the packages that come as source.",
    "lock": "What scripts/lock.py runs.",
    "torch-cuda": "torch with CUDA, for Linux with an NVIDIA GPU.",
    "torch-cpu": "torch without CUDA; for Linux from PyTorch's own index.",
}


def main() -> None:
    """Write every lock file anew."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--upgrade", action="store_true", help="to the newest versions")
    upgrade = parser.parse_args().upgrade
    LOCKS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        uv = _uv(Path(folder))
        entries = _resolve(uv, Path(folder), upgrade)
        gpu = {text for text in entries["run"] if GPU.fullmatch(_name(text))}
        for layer, texts in entries.items():
            above = entries["run"] if layer in EXTRAS else gpu
            _write(layer, [text for text in texts if text not in above])
        binding = [text for text in entries["run"] if _name(text) == "llama-cpp-python"]
        _write("binding", binding)
        _write("torch-cuda", sorted(gpu))
        _write("torch-cpu", _torch_builds(Path(folder)))  # last: it may end here


def _uv(folder: Path) -> list[str]:
    """The command of uv, installed by its lock; the very first time by name."""
    venv.create(folder / "uv", with_pip=True)
    python = python_of(folder / "uv")
    lock = LOCKS / "lock.txt"
    wanted = [*LOCKED, "-r", str(lock)] if lock.exists() else ["uv"]
    subprocess.run([python, "-I", "-m", "pip", "install", "--quiet", *wanted], check=True)
    return [str(python), "-I", "-m", "uv"]


def _resolve(uv: list[str], folder: Path, upgrade: bool) -> dict[str, list[str]]:
    """The entries of each layer, all of one resolution."""
    names = ("run", "build", "lock", *EXTRAS)
    (folder / "build.in").write_text(BUILDING)
    (folder / "lock.in").write_text("uv\n")
    (folder / "bounds.in").write_text(BOUNDS)
    pyproject = str(ROOT / "pyproject.toml")
    sources = {"build": [str(folder / "build.in")], "lock": [str(folder / "lock.in")]}
    everything = folder / "all.txt"
    if not upgrade:  # uv keeps the versions that it finds in what it writes over
        now = [(LOCKS / f"{name}.txt") for name in names]
        everything.write_text("".join(f.read_text("utf-8") for f in now if f.exists()))
    together = [pyproject, "--all-extras", *sources["build"], *sources["lock"]]
    _compile(uv, everything, *together, "-c", str(folder / "bounds.in"))
    entries = {}
    for name in names:
        source = sources.get(name, [pyproject])
        extra = ["--extra", name] if name in EXTRAS else []
        out = folder / f"{name}.txt"
        _compile(uv, out, *source, *extra, "-c", str(everything))
        text = out.read_text("utf-8")
        entries[name] = [found[0] for found in ENTRY.finditer(text)]
    return entries


def _compile(uv: list[str], out: Path, *arguments: str) -> None:
    options = ("--universal", "--generate-hashes", "--no-header", "--no-annotate")
    universal = (*options, "--no-python-downloads", "--fork-strategy", "fewest")
    command = [*uv, "pip", "compile", *arguments, *universal, "--python-version", OLDEST]
    done = subprocess.run(
        [*command, "--quiet", "--output-file", str(out)],
        stdout=subprocess.DEVNULL,
        cwd=ROOT,
        env=_certificates() | os.environ,
        check=False,
    )
    if done.returncode:
        sys.exit(done.returncode)


def _certificates() -> dict[str, str]:
    """A company's own authority, as pip is told of it."""
    authority = os.environ.get("PIP_CERT")
    return {"SSL_CERT_FILE": authority} if authority else {}


def _torch_builds(folder: Path) -> list[str]:
    """One line for each system and Python: the build that pip takes there, by its hash."""
    lock = LOCKS / "torch-cpu.txt"
    known = set(lock.read_text("utf-8").splitlines(keepends=True)) if lock.exists() else set()
    lines, missing = [], []
    for platform, marker in SYSTEMS.items():
        for version in PYTHONS:
            start = f"{TORCH} ; {marker} and python_version == '{version}' --hash=sha256:"
            before = next((line for line in known if line.startswith(start)), "")
            found = _hash_of_torch(folder, platform, version)
            if found or before:
                lines.append(f"{start}{found}\n" if found else before)
            if not found:
                missing.append(f"{platform}, {version}: {'kept' if before else 'UNKNOWN'}")
    if missing:
        print("torch's builds that could not be asked for here:", *missing, sep="\n  ")
    if any(line.endswith("UNKNOWN") for line in missing):
        sys.exit("Run this where PyTorch's index can be reached; torch-cpu.txt is as it was.")
    return lines


def _hash_of_torch(folder: Path, platform: str, version: str) -> str:
    """The SHA-256 that the index gives for torch's wheel, or "" where it cannot be asked."""
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-I", "-m", "pip", "install", "--dry-run", "--report", str(report)]
    command += ["--no-deps", "--only-binary=:all:", "--target", str(folder / "target")]
    command += [f"--platform={platform}", f"--python-version={version}", "--quiet"]
    if "linux" in platform:
        command += ["--index-url", TORCH_CPU_INDEX, "--retries", "0", "--timeout", "20"]
    done = subprocess.run([*command, TORCH], stderr=subprocess.DEVNULL, check=False)
    if done.returncode:
        return ""
    wheel = json.loads(report.read_text("utf-8"))["install"][0]["download_info"]
    return str(wheel.get("archive_info", {}).get("hashes", {}).get("sha256", ""))


def _name(entry: str) -> str:
    return entry.partition("==")[0]


def _write(name: str, entries: list[str]) -> None:
    head = f"# {ABOUT[name]}\n# Made by scripts/lock.py; install with pip's --require-hashes.\n"
    (LOCKS / f"{name}.txt").write_text(head + "".join(entries), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
