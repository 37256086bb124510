"""The one place where llama.cpp is loaded, quietly and with threads that wait politely."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from localrag.errors import BackendError
from localrag.models.llms.llama_cpp import prebuilt

KVType = Literal["f16", "q8_0"]
"""Numbers of the KV cache: 16 bits, or 8 with a scale for every 32 (half the memory)."""

_LOG: deque[str] = deque(maxlen=200)
_log_callback: Any = None

_prebuilt: Path | None = None

_NO_BACKTRACE = "GGML_NO_BACKTRACE"
"""Set, ggml does not start a debugger over this process, with all that it holds, when it ends it.
It looks once as it is loaded, and again when it comes to that."""

_WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "GOMP_SPINCOUNT": "500"}
"""How its threads wait for each other. Those that spin for long are many times slower as soon as
another program wants a core; those that sleep at once write a third fewer tokens a second."""


def load() -> Any:
    """The `llama_cpp` module, whose log is kept in memory instead of printed.

    Nothing else in localrag may import it first. Raises `BackendError`.
    """
    global _log_callback, _prebuilt  # llama.cpp has one log for the whole process
    if _log_callback is not None:
        import llama_cpp

        return llama_cpp
    os.environ.setdefault(_NO_BACKTRACE, "1")
    # OpenMP reads these once, when it is loaded.
    ours = {} if _WAITING.keys() & os.environ.keys() else _WAITING
    os.environ.update(ours)
    try:
        _prebuilt = prebuilt.find()
        if _prebuilt:
            prebuilt.bind(_prebuilt)
        import llama_cpp

        if _prebuilt:
            prebuilt.check_structures(llama_cpp, _prebuilt)
    except (ImportError, OSError, RuntimeError) as error:
        raise _unloadable(error) from error
    finally:
        for name in ours:
            del os.environ[name]

    def remember(_level: int, text: bytes, _data: object) -> None:
        _LOG.append(text.decode("utf-8", "replace"))

    _log_callback = llama_cpp.llama_log_callback(remember)
    llama_cpp.llama_log_set(_log_callback, ctypes.c_void_p(0))
    _load_variant(llama_cpp)
    llama_cpp.llama_backend_init()
    return llama_cpp


def ggml() -> Any:
    """The library of ggml that llama.cpp itself uses, with the functions of tensors.

    Raises `BackendError`.
    """
    library = load().llama_cpp._lib
    path = Path(library._name)
    beside = prebuilt.tensor_library(path)
    try:
        ggml = library if beside == path else ctypes.CDLL(str(beside))
        for name in prebuilt.TENSOR_FUNCTIONS:
            getattr(ggml, name)
    except (AttributeError, OSError) as error:
        raise _unloadable(error) from error
    return ggml


@dataclass(frozen=True, slots=True)
class Build:
    """Which llama.cpp is loaded; `package` is the one that brought it prebuilt, with its version.

    `instructions` are those that it uses, such as "AVX2".
    """

    version: str
    package: str
    instructions: tuple[str, ...]


def build() -> Build:
    """The llama.cpp that runs here. Raises `BackendError`."""
    c = load()
    function = c.llama_cpp._lib.llama_version
    function.restype = ctypes.c_char_p
    features = c.llama_print_system_info().decode("utf-8", "replace")
    return Build(
        function().decode("utf-8", "replace"),
        _package(),
        tuple(re.findall(r"(\w+) = 1", features)),
    )


def identity() -> str:
    """What states are known by that another llama.cpp may read otherwise."""
    binding = f"llama-cpp-python {load().__version__}"
    return f"{binding} with {_package()}" if _prebuilt else binding


def _package() -> str:
    if _prebuilt is None:
        return ""
    name = prebuilt.distribution(_prebuilt)
    return f"{name} {version(name)}"


def _load_variant(llama_cpp: Any) -> None:
    """Load the processor variant that suits this machine, where the wheel carries several.

    Left to itself llama.cpp would look for them in the current folder and beside Python,
    which is nobody's business, and not beside itself. Raises `BackendError` if none runs.
    """
    folder = llama_cpp.llama_cpp._base_path
    if not any(folder.glob("*ggml-cpu-*")):
        return
    # Everywhere but on Windows this finds the copy of ggml that llama.cpp itself uses.
    library = llama_cpp.llama_cpp._lib
    if os.name == "nt":
        library = ctypes.CDLL(str(folder / "ggml.dll"))
    library.ggml_backend_load_all_from_path.argtypes = [ctypes.c_char_p]
    library.ggml_backend_load_all_from_path.restype = None
    library.ggml_backend_reg_count.restype = ctypes.c_size_t
    library.ggml_backend_load_all_from_path(os.fsencode(folder))
    if not library.ggml_backend_reg_count():
        raise _unloadable(f"{folder}: ggml-cpu-*")


def _unloadable(reason: object) -> BackendError:
    return BackendError(
        "llama.cpp cannot be loaded: {reason}",
        hint="Reinstall it with: pip install --force-reinstall llama-cpp-python",
        reason=reason,
    )


def refused_grammar(reason: str) -> BackendError:
    """The schema says more than llama.cpp can hold a reply to."""
    return BackendError(
        "llama.cpp does not accept the grammar of this JSON schema: {reason}",
        hint="Simplify the schema.",
        reason=reason,
    )


@contextmanager
def interrupts_wait() -> Iterator[None]:
    """Let Ctrl-C wait until the block ends.

    While a model is loaded llama.cpp calls our log all the time, and a KeyboardInterrupt that is
    raised inside a C callback is printed and lost.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def forget_log() -> None:
    """Begin a new log."""
    _LOG.clear()


def log_lines() -> list[str]:
    """What llama.cpp said last, oldest first."""
    return [line.strip() for line in "".join(_LOG).splitlines() if line.strip(" .")]


def log_reason() -> str:
    """What llama.cpp said last that reads like a reason, shortened."""
    lines = log_lines()
    telling = [line for line in lines if re.search(r"error|fail|unable|invalid|cannot", line, re.I)]
    return " / ".join(dict.fromkeys(telling or lines[-2:]))[-600:]
