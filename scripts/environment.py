"""Makes `.venv` and installs localrag into it, with the standard library only."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
TORCH = "torch==2.13.0"
# PyTorch publishes its CPU builds for Linux beside, not in, the public package index.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OLDEST_PYTHON = (3, 11)


def ready() -> Path:
    """Set up what is missing and return the environment's Python. A second call is instant."""
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"localrag needs Python 3.11 or newer; this is {found}. 需要 Python 3.11 或更新版本。"
        )
    stamp = ENVIRONMENT / "localrag-installed.json"
    wanted = {
        "python": platform.python_version(),
        "root": str(ROOT),
        "files": _digest(ROOT / "pyproject.toml", CONSTRAINTS),
    }
    python = _python()
    if python.exists() and stamp.exists() and json.loads(stamp.read_text("utf-8")) == wanted:
        return python

    started = time.monotonic()
    if not _works(python):
        print(f"Making the environment {ENVIRONMENT.name} ...", flush=True)
        venv.create(ENVIRONMENT, with_pip=True, clear=ENVIRONMENT.exists())
    _install_torch(python)
    _need_compiler(python)
    print("Installing localrag; llama.cpp is compiled once, which takes minutes ...", flush=True)
    # The vision half of llama.cpp is not used here; leaving it out shortens the build.
    environment = {"CMAKE_ARGS": "-DLLAVA_BUILD=OFF"} | os.environ
    _pip(python, "install", "-e", f"{ROOT}[dev]", "-c", str(CONSTRAINTS), environment=environment)
    stamp.write_text(json.dumps(wanted), encoding="utf-8")
    print(f"Installed in {time.monotonic() - started:.0f} s.", flush=True)
    return python


def models_folder() -> Path:
    """Where the models of this checkout lie."""
    return Path(os.environ.get("LOCALRAG_MODELS", ROOT / "models"))


def _python() -> Path:
    if os.name == "nt":
        return ENVIRONMENT / "Scripts" / "python.exe"
    return ENVIRONMENT / "bin" / "python"


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    probe = subprocess.run([python, "-c", "import pip"], capture_output=True, check=False)
    return probe.returncode == 0


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _pip(python: Path, *arguments: str, environment: dict[str, str] | None = None) -> None:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        sys.exit(
            f"\nThe installation failed at: pip {' '.join(arguments)}\n"
            "pip's own message stands above. Mend it and run the same command again: what has "
            "been downloaded and built is kept.\n安装失败，原因见上；修复后重新运行同一条命令即可。"
        )


def _install_torch(python: Path) -> None:
    """Install torch; on a machine without a GPU, a CPU build (0.2 GB instead of several)."""
    probe = subprocess.run([python, "-c", "import torch"], capture_output=True, check=False)
    if probe.returncode == 0:
        return
    print("Installing PyTorch ...", flush=True)
    if shutil.which("nvidia-smi") or not _pulls_gpu_packages(python):
        _pip(python, "install", TORCH)
    else:
        _pip(python, "install", TORCH, "--index-url", TORCH_CPU_INDEX)


def _pulls_gpu_packages(python: Path) -> bool:
    """Whether pip, as the user has configured it, would bring CUDA along with torch."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _pip(python, "install", TORCH, "--dry-run", "--report", str(report))
        planned = json.loads(report.read_text("utf-8"))["install"]
    names = {item["metadata"]["name"].lower() for item in planned}
    return any(name.startswith(("nvidia-", "triton", "cuda-")) for name in names)


def _need_compiler(python: Path) -> None:
    """llama-cpp-python comes as source: say so before pip fails after minutes."""
    probe = subprocess.run([python, "-c", "import llama_cpp"], capture_output=True, check=False)
    compilers = ("c++", "g++", "clang++", "cl")
    if probe.returncode == 0 or os.environ.get("CXX") or any(map(shutil.which, compilers)):
        return
    advice = {
        "Linux": "for example `apt install g++` or `dnf install gcc-c++`",
        "Darwin": "`xcode-select --install`",
        "Windows": "the Build Tools for Visual Studio, with C++",
    }.get(platform.system(), "one for your system")
    sys.exit(
        f"A C++ compiler is needed to build llama.cpp. Install {advice}, then run this again.\n"
        "编译 llama.cpp 需要 C++ 编译器，请安装后重新运行。"
    )
