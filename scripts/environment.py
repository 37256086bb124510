"""Makes `.venv` and installs localrag into it, with the standard library only.

Every package is installed from `scripts/locks`, by its SHA-256, also those that building needs:
nothing is resolved, and nothing else is fetched.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shlex
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
COMPILED, PREBUILT = "compiled", "prebuilt"
"""Whose llama.cpp runs: the one compiled here, or the one that another package brings."""
LOCKED = ("--require-hashes", "--no-deps", "--no-build-isolation")
"""pip's options for a lock file: an isolated build would fetch what it needs without hashes."""
TORCH = "torch==2.13.0"
# PyTorch publishes its CPU builds for Linux beside, not in, the public package index.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
OLDEST_PYTHON = (3, 11)
LEFT_OUT = frozenset(
    {
        # PyTorch, for embedding models and rerankers that are not in ONNX
        *("cloudpickle", "fsspec", "hf-xet", "huggingface-hub", "joblib", "mpmath", "narwhals"),
        *("safetensors", "scikit-learn", "scipy", "sentence-transformers", "sympy"),
        *("threadpoolctl", "torch", "transformers"),
        # text recognition
        *("colorlog", "omegaconf", "opencv-python-headless", "pyclipper", "rapidocr", "shapely"),
    }
)
"""What a lean installation does without; nothing else that is installed imports these."""


def ready(*layers: str, lean: bool = False) -> Path:
    """Set up what is missing and return the environment's Python. A second call is instant.

    `layers` are the lock files beside `run` to install, such as "dev". llama.cpp is taken prebuilt
    unless that fails; LOCALRAG_COMPILE=1 and LOCALRAG_PREBUILT=1 say which one it has to be. `lean`
    leaves out what is in LEFT_OUT, unless it is there already.
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
    library = found.pop("llama.cpp", COMPILED)
    found.pop("own build", None)
    had_all = bool(found) and not found.pop("lean", False)
    asked = _asked_library()
    complete = set(layers) <= set(had) and (had_all or lean)
    if found == wanted and complete and asked in ("", library):
        return python

    started = time.monotonic()
    if found:  # until all is there again, the next call goes on
        unfinished = {"files": "", "layers": had, "llama.cpp": library, "lean": not had_all}
        stamp.write_text(json.dumps(found | unfinished), encoding="utf-8")
    if not _works(python):
        print(f"Making the environment {ENVIRONMENT.name} ...", flush=True)
        _make_environment()
        had, had_all = [], False
    layers = tuple(sorted({*layers, *had}))
    _remove_former(python)
    lean = lean and not had_all
    _install(python, "build")
    if not lean:
        _install_torch(python)
    library = _install_llama(python, asked)
    print("Installing localrag ...", flush=True)
    _install(python, "run", *layers, without=LEFT_OUT if lean else frozenset())
    _pip(python, "install", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    if fault := _try_llama(python, library):
        other = PREBUILT if library == COMPILED else COMPILED
        if library == COMPILED:  # pip's cache may hold it from before AMX was left out
            _remove_llama(python)
            _pip_succeeds(python, "cache", "remove", "llama_cpp_python")
        if asked or (other == COMPILED and not finds_compiler()):
            sys.exit(f"{fault}\n{_compiler_advice() if other == COMPILED else _AGAIN}")
        print(fault, _INSTEAD_OF_FAILING[library], sep="\n", flush=True)
        library = _install_llama(python, other)
        if fault := _try_llama(python, library):
            sys.exit(fault)
    state = wanted | {"layers": layers, "llama.cpp": library, "lean": lean}
    stamp.write_text(json.dumps(state), encoding="utf-8")
    print(f"Installed in {time.monotonic() - started:.0f} s.", flush=True)
    return python


def _make_environment() -> None:
    try:
        venv.create(ENVIRONMENT, with_pip=True, clear=ENVIRONMENT.exists())
    except OSError as error:
        sys.exit(
            f"{ENVIRONMENT} cannot be made: {error.strerror or error}. Move the checkout to a "
            "folder that you may write to, on a disk with 4 GB free.\n"
            f"无法创建 {ENVIRONMENT}，请把代码放到有写权限、剩余空间不少于 4 GB 的文件夹中。"
        )


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


def _install(
    python: Path,
    *locks: str,
    index: tuple[str, ...] = (),
    without: frozenset[str] = frozenset(),
) -> None:
    """Install lock files. A package that has another hash than its lock is not installed."""
    with tempfile.TemporaryDirectory() as folder:
        files = [LOCKS / f"{lock}.txt" for lock in locks]
        if without:
            files = [_shortened(file, without, Path(folder)) for file in files]
        words = [word for file in files for word in ("-r", str(file))]
        _pip(python, "install", *LOCKED, *words, *index)


def _shortened(lock: Path, without: frozenset[str], folder: Path) -> Path:
    """A copy of a lock file in `folder`, without some packages."""
    lines, kept = [], True
    for line in lock.read_text("utf-8").splitlines(keepends=True):
        if not line.startswith((" ", "#")):  # a package; its hashes are in the lines below it
            kept = line.partition("==")[0] not in without
        if kept:
            lines.append(line)
    copy = folder / lock.name
    copy.write_text("".join(lines), encoding="utf-8")
    return copy


def _pip(python: Path, *arguments: str) -> None:
    if not _pip_succeeds(python, *arguments):
        sys.exit(
            f"\nThe installation failed at: pip {' '.join(arguments)}\n"
            "pip's own message stands above. Mend it and run the same command again: what has "
            "been downloaded and built is kept.\n安装失败，原因见上；修复后重新运行同一条命令即可。"
        )


def _pip_succeeds(python: Path, *arguments: str, **variables: str) -> bool:
    command = [str(python), "-I", "-m", "pip", "--disable-pip-version-check", *arguments, "--quiet"]
    # The vision half of llama.cpp is not used here; leaving it out shortens the build.
    environment = {"CMAKE_ARGS": "-DLLAVA_BUILD=OFF"} | os.environ | variables
    if flags := _without_amx():  # beside what the person has the compiler told
        for name in ("CFLAGS", "CXXFLAGS"):
            environment[name] = f"{environment.get(name, '')} {flags}".strip()
    return subprocess.run(command, env=environment, check=False).returncode == 0


def _without_amx() -> str:
    """What has a compiler for x86 leave out the matrix instructions AMX, or "".

    GCC before 12.4, 13.3 and 14 compiles their set-up wrongly (GCC bug 114098): such a llama.cpp
    is ended by the processor at the first prompt. Clang and later ones keep them, and read 1.6
    times as fast by them (`benchmarks/log/2026-11.md`).
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return ""
    flags = " ".join(f"-mno-amx-{part}" for part in ("tile", "int8", "bf16"))
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    probe = [*compiler, *flags.split(), "-x", "c++", "-dM", "-E", os.devnull]
    if not shutil.which(compiler[0]):
        return ""
    told = subprocess.run(probe, capture_output=True, text=True, check=False)
    if told.returncode:
        return ""  # one that knows nothing of AMX, as GCC before 11, leaves it out by itself
    # As in "#define __GNUC_MINOR__ 2".
    macros = dict(
        line.split(" ", 2)[1:] for line in told.stdout.splitlines() if line.count(" ") > 1
    )
    version = tuple(int(macros.get(name, "0")) for name in ("__GNUC__", "__GNUC_MINOR__"))
    right = version >= (14,) or (13, 3) <= version < (14,) or (12, 4) <= version < (13,)
    return "" if right or "__clang__" in macros else flags


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


def _asked_library() -> str:
    """Which llama.cpp the environment asks for, or ""."""
    names = {"LOCALRAG_COMPILE": COMPILED, "LOCALRAG_PREBUILT": PREBUILT}
    asked = [library for name, library in names.items() if os.environ.get(name) == "1"]
    if len(asked) > 1:
        sys.exit(
            "LOCALRAG_COMPILE=1 and LOCALRAG_PREBUILT=1 exclude each other; set one of them.\n"
            "LOCALRAG_COMPILE=1 与 LOCALRAG_PREBUILT=1 不能同时设置，请只保留一个。"
        )
    return asked[0] if asked else ""


def _install_llama(python: Path, asked: str) -> str:
    """Install llama-cpp-python; says whether its llama.cpp is compiled or prebuilt."""
    complete = _imports(python, "llama_cpp")  # false where it has no library of its own
    if asked:
        order = [asked]
    elif complete:
        order = [COMPILED, PREBUILT]
    else:
        order = [PREBUILT, COMPILED] if finds_compiler() else [PREBUILT]
    for library in order:
        if library == COMPILED:
            print("Installing llama.cpp; it is compiled once, which takes minutes ...", flush=True)
            if not complete:
                _remove_llama(python)
            if _pip_succeeds(python, "install", *LOCKED, "-r", str(LOCKS / "binding.txt")):
                return COMPILED
        elif _install_prebuilt(python):
            return PREBUILT
        if library != order[-1]:
            print(_INSTEAD[library])
    sys.exit(_compiler_advice())


_INSTEAD = {
    COMPILED: "llama.cpp was not compiled (see above); the prebuilt one is taken instead.\n"
    "llama.cpp 编译失败（原因见上），改用预编译的版本。",
    PREBUILT: "No prebuilt llama.cpp was installed (see above); it is compiled instead.\n"
    "未能安装预编译的 llama.cpp（原因见上），改为自行编译。",
}

_AGAIN = "Run the same command again: it is compiled anew.\n请重新运行同一条命令，届时将重新编译。"

_INSTEAD_OF_FAILING = {
    COMPILED: "The prebuilt one is taken instead. 改用预编译的版本。",
    PREBUILT: "It is compiled instead. 改为自行编译。",
}


def _install_prebuilt(python: Path) -> bool:
    print("Installing a prebuilt llama.cpp; nothing is compiled ...", flush=True)
    _remove_llama(python)
    # pip's cache knows a wheel by its name: it must not hold one without a library.
    bare = (*LOCKED, "-r", str(LOCKS / "binding.txt"), "--no-cache-dir")
    return _pip_succeeds(python, "install", *bare, SKBUILD_WHEEL_CMAKE="false") and _pip_succeeds(
        python, "install", *LOCKED, "-r", str(LOCKS / "prebuilt.txt")
    )


def take_own_build(python: Path) -> None:
    """Compile llama.cpp where that is faster, and put it in place of the prebuilt one.

    That one stays where compiling fails or is interrupted, and comes back where what was compiled
    does not work. It is tried once.
    """
    stamp = ENVIRONMENT / "localrag-installed.json"
    state = json.loads(stamp.read_text("utf-8"))
    wanted = finds_compiler() and _own_build_is_faster() and not _asked_library()
    if state["llama.cpp"] != PREBUILT or not wanted or state.get("own build") == "tried":
        return
    print(_OWN_BUILD, flush=True)
    state["own build"] = "tried"
    with tempfile.TemporaryDirectory() as folder:
        lock = ("-r", str(LOCKS / "binding.txt"), "--wheel-dir", folder)
        try:
            compiled = _pip_succeeds(python, "wheel", *LOCKED, *lock)
        except KeyboardInterrupt:
            compiled = False
        if not compiled:
            print(_PREBUILT_STAYS, flush=True)
            stamp.write_text(json.dumps(state), encoding="utf-8")
            return
        stamp.write_text(json.dumps(state | {"files": ""}), encoding="utf-8")
        _remove_llama(python)
        _pip(python, "install", "--no-index", "--no-deps", *map(str, Path(folder).glob("*.whl")))
    library = COMPILED
    if fault := _try_llama(python, library):
        print(fault, _PREBUILT_STAYS, sep="\n", flush=True)
        _pip_succeeds(python, "cache", "remove", "llama_cpp_python")
        library = _install_llama(python, PREBUILT)
    stamp.write_text(json.dumps(state | {"llama.cpp": library}), encoding="utf-8")


_OWN_BUILD = (
    "\nllama.cpp is now compiled for this processor, which takes minutes; prompts are then read "
    "about half as fast again. Ctrl-C keeps the prebuilt one.\n"
    "正在为本机处理器编译 llama.cpp，需要几分钟，之后读取提示词约快一半；"
    "按 Ctrl-C 则保留预编译的版本。"
)
_PREBUILT_STAYS = "The prebuilt llama.cpp stays. 继续使用预编译的 llama.cpp。"


def _own_build_is_faster() -> bool:
    """Whether our own build would use instructions that the prebuilt library lacks.

    That one uses AVX2. Where the processor has no more it reads at .91 of our own build and writes
    at .93, with AVX-512 at .64 and .98 (benchmarks/log/2026-11.md). Not measured but on x86.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    flags = next((line.split() for line in lines if line.startswith("flags")), [])
    return bool({"avx512f", "avx_vnni"} & set(flags))


def _remove_llama(python: Path) -> None:
    for name in ("llama-cpp-python", "xllamacpp", "llama-cpp-py-sync"):
        if _version(python, name):
            _pip(python, "uninstall", "--yes", name)


def _try_llama(python: Path, library: str) -> str:
    """Have llama.cpp read a known prompt; returns what is wrong, or "".

    In a process of its own, which may be ended by it.
    """
    command = [python, "-I", str(ROOT / "scripts" / "llama_trial.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    reason = done.stderr.strip().rpartition("\n")[2] or f"it ended with {done.returncode}"
    return f"The {library} llama.cpp does not work here: {reason}"


def finds_compiler() -> bool:
    """Whether a C++ compiler is there."""
    compilers = ("c++", "g++", "clang++", "cl")
    return bool(os.environ.get("CXX")) or any(map(shutil.which, compilers))


def _compiler_advice() -> str:
    advice = {
        "Linux": "for example `apt install g++` or `dnf install gcc-c++`",
        "Darwin": "`xcode-select --install`",
        "Windows": "the Build Tools for Visual Studio, with C++",
    }.get(platform.system(), "one for your system")
    return (
        f"A C++ compiler is needed to build llama.cpp. Install {advice}, then run this again with "
        "LOCALRAG_COMPILE=1.\n"
        "编译 llama.cpp 需要 C++ 编译器，请安装后以 LOCALRAG_COMPILE=1 重新运行。"
    )
