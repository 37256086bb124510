"""Makes `.venv` and installs localrag into it, with the standard library only.

Every package is installed from `scripts/locks`, by its SHA-256, also those that building needs:
nothing is resolved, and nothing else is fetched.
"""

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
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv"
LOCKS = ROOT / "scripts" / "locks"
LOCKED = ("--require-hashes", "--no-deps", "--no-build-isolation")
"""pip's options for a lock file: an isolated build would fetch what it needs without hashes."""
TORCH = "torch==2.13.0"
# PyTorch publishes its CPU builds for Linux beside, not in, the public package index.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OLDEST_PYTHON = (3, 11)


def ready(*layers: str) -> Path:
    """Set up what is missing and return the environment's Python. A second call is instant.

    `layers` are the lock files beside `run` to install, such as "dev".
    """
    if sys.version_info < OLDEST_PYTHON:
        found = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"localrag needs Python 3.11 or newer; this is {found}. 需要 Python 3.11 或更新版本。"
        )
    stamp = ENVIRONMENT / "localrag-installed.json"
    wanted = {
        "python": platform.python_version(),
        "root": str(ROOT),
        "files": _digest(ROOT / "pyproject.toml", *sorted(LOCKS.glob("*.txt"))),
    }
    python = python_of(ENVIRONMENT)
    found = json.loads(stamp.read_text("utf-8")) if python.exists() and stamp.exists() else {}
    had = found.pop("layers", [])
    if found == wanted and set(layers) <= set(had):
        return python

    started = time.monotonic()
    if not _works(python):
        print(f"Making the environment {ENVIRONMENT.name} ...", flush=True)
        venv.create(ENVIRONMENT, with_pip=True, clear=ENVIRONMENT.exists())
        had = []
    layers = tuple(sorted({*layers, *had}))
    _remove_former(python)
    _install(python, "build")
    _install_torch(python)
    _need_compiler(python)
    print("Installing localrag; llama.cpp is compiled once, which takes minutes ...", flush=True)
    _install(python, "run", *layers)
    _pip(python, "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    stamp.write_text(json.dumps(wanted | {"layers": layers}), encoding="utf-8")
    print(f"Installed in {time.monotonic() - started:.0f} s.", flush=True)
    return python


def models_folder() -> Path:
    """Where the models of this checkout lie."""
    return Path(os.environ.get("LOCALRAG_MODELS", ROOT / "models"))


def python_of(environment: Path) -> Path:
    """The Python of a virtual environment."""
    if os.name == "nt":
        return environment / "Scripts" / "python.exe"
    return environment / "bin" / "python"


def _works(python: Path) -> bool:
    if not python.exists():
        return False
    return _imports(python, "pip")


def _imports(python: Path, module: str) -> bool:
    # Isolated, as all that follows: what lies in the folder at hand is neither found nor run.
    command = [python, "-I", "-c", f"import {module}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _digest(*files: Path) -> str:
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _install(python: Path, *locks: str, index: tuple[str, ...] = ()) -> None:
    """Install lock files. A package that has another hash than its lock is not installed."""
    files = [word for lock in locks for word in ("-r", str(LOCKS / f"{lock}.txt"))]
    _pip(python, "install", *LOCKED, *files, *index)


def _pip(python: Path, *arguments: str) -> None:
    command = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    # The vision half of llama.cpp is not used here; leaving it out shortens the build.
    environment = {"CMAKE_ARGS": "-DLLAVA_BUILD=OFF"} | os.environ
    done = subprocess.run(command, env=environment, check=False)
    if done.returncode:
        sys.exit(
            f"\nThe installation failed at: pip {' '.join(arguments)}\n"
            "pip's own message stands above. Mend it and run the same command again: what has "
            "been downloaded and built is kept.\n安装失败，原因见上；修复后重新运行同一条命令即可。"
        )


def _remove_former(python: Path) -> None:
    """Until 0.1 the distribution was called localrag; both would own the same command."""
    if _version(python, "localrag"):
        _pip(python, "uninstall", "--yes", "localrag")


def _version(python: Path, distribution: str) -> str:
    """The installed version of a distribution, or ""."""
    ask = (
        "import importlib.metadata as m, sys\n"
        "try: print(m.version(sys.argv[1]))\n"
        "except m.PackageNotFoundError: pass"
    )
    command = [python, "-I", "-c", ask, distribution]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _install_torch(python: Path) -> None:
    """Install torch; on a machine without a GPU, a CPU build (0.2 GB instead of several)."""
    wanted = TORCH.partition("==")[2]
    if _version(python, "torch").partition("+")[0] == wanted:
        return
    print("Installing PyTorch ...", flush=True)
    linux = platform.system() == "Linux"
    if linux and shutil.which("nvidia-smi"):
        _install(python, "torch-cuda")
    elif not linux or _finds_cpu_build(python):
        _install(python, "torch-cpu")
    else:
        _install(python, "torch-cpu", index=("--index-url", TORCH_CPU_INDEX))
    if not _version(python, "torch"):  # no line of the lock is for this machine
        sys.exit(
            f"There is no build of {TORCH} for Python {platform.python_version()} on "
            f"{platform.system()} {platform.machine()}; scripts/locks/torch-cpu.txt lists what "
            "there is.\n此系统与 Python 版本没有可用的 torch，已有的列在该文件中。"
        )


def _finds_cpu_build(python: Path) -> bool:
    """Whether pip, as the user has configured it, would take a build of torch without CUDA."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        _pip(python, "install", TORCH, "--no-deps", "--dry-run", "--report", str(report))
        (planned,) = json.loads(report.read_text("utf-8"))["install"]
    return "+cpu" in unquote(planned["download_info"]["url"])


def _need_compiler(python: Path) -> None:
    """llama-cpp-python comes as source: say so before pip fails after minutes."""
    compilers = ("c++", "g++", "clang++", "cl")
    if _imports(python, "llama_cpp") or os.environ.get("CXX") or any(map(shutil.which, compilers)):
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
