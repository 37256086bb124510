"""A llama.cpp that somebody else compiled, for machines on which it cannot be.

llama-cpp-python is then installed as Python code alone, and binds the library of another
package (scripts/locks/prebuilt.txt). That one is of another version than its own would be: it is
bound only if it is the version that was compared, function by function and field by field.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from collections.abc import Sequence
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from localrag.errors import BackendError

VERSION = "0.4.1-dev"
LIBRARIES = {
    "xllamacpp": ("xllamacpp", "xllamacpp.abi3.so"),
    "llama-cpp-py-sync": ("llama_cpp_py_sync", "llama.dll"),  # for Windows
}
"""Package and file of the library, by distribution."""

RELEASES = {"xllamacpp": "2026.9.11063", "llama-cpp-py-sync": "0.11067"}
"""The releases that were compared, by distribution."""

SHA256 = {
    "xllamacpp": (
        "329ac1478b66be40d8338d15272bcd9aebfe09834ca4daf7813cc2c8c1bdad90",  # Linux, x86_64
        "b88a42b2d586b91e707f81a3e6faabfaf0c604a726af517ba214a2f3d00fae6e",  # Linux, arm64
        "895429a281cb18da2e34108758c1950749d6c4ab47d56574ea7d79a11c5e727c",  # macOS, arm64
        "1870ddaeac4f3f178df09055e7355e9216de95e89780671864756c9840c0f074",  # macOS, x86_64
    ),
    "llama-cpp-py-sync": (
        "f28285f1fcd80dbe135fe417b14be0ab86831e772b835dfd3e5bacebddc0685b",  # Windows, x86_64
    ),
}
"""Their wheels, by distribution."""

_CALLED = """
llama_backend_init llama_batch_free llama_batch_get_one llama_batch_init
llama_context_default_params llama_decode
llama_free llama_get_logits_ith llama_get_memory llama_init_from_model
llama_log_set llama_memory_clear llama_memory_seq_cp llama_memory_seq_rm
llama_model_chat_template llama_model_default_params llama_model_free llama_model_get_vocab
llama_model_load_from_file llama_model_n_ctx_train llama_model_n_embd llama_model_n_head
llama_model_n_head_kv llama_model_n_layer
llama_n_batch llama_print_system_info llama_sampler_chain_add llama_sampler_chain_default_params
llama_sampler_chain_init llama_sampler_free llama_sampler_init_dist llama_sampler_init_grammar
llama_sampler_init_greedy llama_sampler_init_min_p llama_sampler_init_temp
llama_sampler_init_top_k llama_sampler_init_top_p llama_sampler_sample
llama_state_seq_get_data llama_state_seq_get_size llama_state_seq_set_data
llama_supports_gpu_offload llama_token_to_piece llama_tokenize llama_vocab_bos llama_vocab_eos
llama_vocab_get_add_bos llama_vocab_get_attr llama_vocab_is_control llama_vocab_is_eog
llama_vocab_n_tokens
"""
FUNCTIONS = frozenset(_CALLED.split())
"""What localrag calls. The others that llama-cpp-python binds may be missing."""

TENSOR_FUNCTIONS = frozenset({"ggml_backend_tensor_get", "ggml_get_name", "ggml_nelements"})
"""The same of ggml, which is a library of its own on Windows (`tensor_library`)."""

INSTRUCTIONS = ("avx2", "bmi2", "f16c", "fma")
"""What the library takes for granted on x86, as Linux names it."""

_CPUINFO = Path("/proc/cpuinfo")
_LARGEST = 1024  # bytes that are looked at behind a structure's beginning
_HINT = (
    "Install the one that fits: pip install -r scripts/locks/prebuilt.txt. Or install a C++ "
    "compiler, then: pip install --force-reinstall --no-deps llama-cpp-python"
)


def find() -> Path | None:
    """The library to bind, if llama-cpp-python was installed without its own."""
    if "llama_cpp" in sys.modules or "LLAMA_CPP_LIB_PATH" in os.environ:
        return None
    binding = find_spec("llama_cpp")
    if binding is None or binding.origin is None:
        return None
    if any((Path(binding.origin).parent / "lib").glob("*llama.*")):
        return None
    for package, name in LIBRARIES.values():
        spec = find_spec(package)
        if spec is not None and spec.origin is not None:
            path = Path(spec.origin).with_name(name)
            if path.is_file():
                return path
    return None


def of_system(system: str) -> str:
    """The distribution whose library is bound on "linux", "macos" or "windows"."""
    return "llama-cpp-py-sync" if system == "windows" else "xllamacpp"


def distribution(path: Path) -> str:
    """The distribution that brought the library in `path`."""
    files = {file: name for name, (_, file) in LIBRARIES.items()}
    return files[path.name]


def bind(path: Path) -> None:
    """Have `import llama_cpp` bind the library in `path`. Raises `BackendError`, `OSError`."""
    _check_processor(path)
    library = Library(str(path))
    _check_version(library, path)
    ggml = Library(str(tensor_library(path)))
    missing = [name for name in FUNCTIONS if not library.exports(name)]
    missing += [name for name in TENSOR_FUNCTIONS if not ggml.exports(name)]
    if missing:
        raise _lacking(path, sorted(missing))
    binding = find_spec("llama_cpp")
    assert binding is not None and binding.origin is not None  # noqa: PT018, S101
    # llama-cpp-python opens its library while it is imported, by this module's only hook.
    name = "llama_cpp._ctypes_extensions"
    source = Path(binding.origin).with_name("_ctypes_extensions.py")
    spec = spec_from_file_location(name, source)
    assert spec is not None and spec.loader is not None  # noqa: PT018, S101
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    module.load_shared_library = lambda *_: library  # type: ignore[attr-defined]
    sys.modules[name] = module


def tensor_library(path: Path) -> Path:
    """The library that has ggml's tensors, for llama.cpp in `path`.

    But on Windows, llama.cpp leads to it.
    """
    return path.with_name(path.name.replace("llama", "ggml-base")) if os.name == "nt" else path


def _lacking(path: Path, names: Sequence[str]) -> BackendError:
    return BackendError(
        "The prebuilt llama.cpp in {path} lacks functions: {names}",
        hint=_HINT,
        path=path,
        names=", ".join(names),
    )


class Library(ctypes.CDLL):
    """A library that may lack functions: calling one raises `BackendError`, binding it does not.

    The binding declares all functions of its own version while it is imported.
    """

    def exports(self, name: str) -> bool:
        """Whether the function is there."""
        try:
            super().__getattr__(name)
        except AttributeError:
            return False
        return True

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or self.exports(name):
            return super().__getattr__(name)

        def missing(*_: object) -> None:
            raise _lacking(Path(self._name), [name])

        return missing


def check_structures(c: Any, path: Path) -> None:
    """Compare the sizes of the structures that are passed. Raises `BackendError`."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return  # elsewhere no argument says where a structure goes that is returned
    library = ctypes.CDLL(str(path))  # its functions, without what the binding says of them
    for part in ("model", "context"):
        name = f"llama_{part}_params"
        size = _size(library[f"llama_{part}_default_params"])
        wanted = ctypes.sizeof(getattr(c, name))
        if not wanted - 8 < size <= wanted:  # what pads the end is not written
            raise BackendError(
                "The prebuilt llama.cpp in {path} has another {name}: {size} bytes instead of "
                "{wanted}.",
                hint=_HINT,
                path=path,
                name=name,
                size=size,
                wanted=wanted,
            )


def _size(function: Any) -> int:
    """Bytes of the structure that a C function returns: what it writes where it is told to."""
    function.restype = None
    written = 0
    for filling in (0xA5, 0x5A):
        buffer = (ctypes.c_uint8 * _LARGEST)(*[filling] * _LARGEST)
        function(buffer)
        ends = (at + 1 for at in range(_LARGEST) if buffer[at] != filling)
        written = max((written, *ends))
    return written


def _check_version(library: Library, path: Path) -> None:
    version = "?"
    if library.exports("llama_version"):
        function = library.llama_version
        function.restype = ctypes.c_char_p
        version = function().decode("utf-8", "replace")
    if version != VERSION:
        raise BackendError(
            "The prebuilt llama.cpp in {path} is version {version}, not {wanted}.",
            hint=_HINT,
            path=path,
            version=version,
            wanted=VERSION,
        )


def unused_instructions() -> list[str] | None:
    """What our own build would use of this processor and the library does not, or None.

    None stands for a system or processor that does not say it in a file.
    """
    flags = _flags()
    return None if flags is None else sorted(flags & {"avx512f", "avx_vnni"})


def _flags() -> set[str] | None:
    if platform.machine() != "x86_64" or not _CPUINFO.is_file():
        return None
    lines = _CPUINFO.read_text("utf-8", "replace").splitlines()
    return next((set(line.split()) for line in lines if line.startswith("flags")), None)


def _check_processor(path: Path) -> None:
    """Only Linux says it in a file; elsewhere the trial after installing shows it."""
    flags = _flags()
    if flags is not None and (missing := sorted(set(INSTRUCTIONS) - flags)):
        raise BackendError(
            "The prebuilt llama.cpp in {path} needs a processor with {names}.",
            hint="Install a C++ compiler, then: pip install --force-reinstall --no-deps "
            "llama-cpp-python",
            path=path,
            names=", ".join(missing),
        )
