"""A llama.cpp that somebody else compiled is bound only if it is the one that was compared."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from localrag.errors import BackendError
from localrag.models.llms.llama_cpp import native, prebuilt

ROOT = Path(__file__).resolve().parents[2]
X86 = platform.machine().lower() in ("x86_64", "amd64")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages: llama-cpp-python without a library, and a package that has one."""
    folder = tmp_path / "with space 目录"
    for package, files in {
        "llama_cpp": ("__init__.py", "_ctypes_extensions.py"),
        "xllamacpp": ("__init__.py", "xllamacpp.abi3.so"),
    }.items():
        (folder / package).mkdir(parents=True)
        for file in files:
            (folder / package / file).touch()
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.partition(".")[0] == "llama_cpp"]:
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    return folder


class StandIn:
    """A library as `prebuilt.bind` sees it."""

    def __init__(self, version: str, missing: str = "") -> None:
        self._version, self._missing = version, missing

    def exports(self, name: str) -> bool:
        return name != self._missing

    @property
    def llama_version(self) -> Callable[[], bytes]:
        def function() -> bytes:
            return self._version.encode()

        return function


# Finding it


def test_it_is_found_where_the_binding_has_no_library(site: Path) -> None:
    path = prebuilt.find()
    assert path == site / "xllamacpp" / "xllamacpp.abi3.so"
    assert prebuilt.distribution(path) == "xllamacpp"


@pytest.mark.parametrize("name", ["libllama.so", "libllama.dylib", "llama.dll"])
def test_the_library_that_was_compiled_here_comes_first(site: Path, name: str) -> None:
    (site / "llama_cpp" / "lib").mkdir()
    (site / "llama_cpp" / "lib" / name).touch()
    assert prebuilt.find() is None


def test_the_library_that_the_user_names_comes_first(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLAMA_CPP_LIB_PATH", str(site))
    assert prebuilt.find() is None


def test_without_any_library_llama_cpp_says_so_itself(site: Path) -> None:
    shutil.rmtree(site / "xllamacpp")
    importlib.invalidate_caches()
    path = prebuilt.find()
    assert path is None or path.parent != site / "xllamacpp"


def test_the_releases_are_those_that_are_locked() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    names = {
        requirement.partition(";")[0]
        for requirement in project["optional-dependencies"]["prebuilt"]
    }
    assert names == {f"{name}=={version}" for name, version in prebuilt.RELEASES.items()}
    lock = (ROOT / "scripts" / "locks" / "prebuilt.txt").read_text("utf-8")
    assert prebuilt.RELEASES.keys() == prebuilt.SHA256.keys() == prebuilt.LIBRARIES.keys()
    for hashes in prebuilt.SHA256.values():
        assert all(f"--hash=sha256:{digest}" in lock for digest in hashes)


# What is refused


@pytest.mark.parametrize(
    ("version", "missing", "reason"),
    [
        ("0.6.0-dev", "", r"0\.6\.0-dev, not 0\.4\.1-dev"),
        ("0.4.1-dev", "llama_version", r"version \?, not"),
        ("0.4.1-dev", "llama_state_seq_set_data", "lacks functions: llama_state_seq_set_data"),
    ],
)
def test_another_version_or_a_missing_function(
    site: Path, monkeypatch: pytest.MonkeyPatch, version: str, missing: str, reason: str
) -> None:
    monkeypatch.setattr(prebuilt, "Library", lambda path: StandIn(version, missing))
    monkeypatch.setattr(prebuilt, "_CPUINFO", site / "none")
    with pytest.raises(BackendError, match=reason) as refusal:
        prebuilt.bind(site / "xllamacpp" / "xllamacpp.abi3.so")
    assert "C++ compiler" in str(refusal.value.hint)
    assert "llama_cpp._ctypes_extensions" not in sys.modules


def test_a_library_that_is_cut_off(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "xllamacpp" / "xllamacpp.abi3.so").write_bytes(b"\x7fELF\x02\x01\x01")
    monkeypatch.setattr(native, "_log_callback", None)
    monkeypatch.setattr(native, "_prebuilt", None)
    with pytest.raises(BackendError, match=r"cannot be loaded: .*xllamacpp\.abi3\.so"):
        native.load()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only where Linux names these flags")
@pytest.mark.parametrize(
    ("flags", "unused"),
    [("avx2 fma", []), ("avx2 avx512f avx512bw avx_vnni", ["avx512f", "avx_vnni"]), (None, None)],
)
def test_what_only_our_own_build_would_use_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: str | None, unused: list[str] | None
) -> None:
    path = tmp_path / "cpuinfo"
    if flags is not None:
        path.write_text(f"processor : 0\nflags\t\t: fpu {flags}\n")
    monkeypatch.setattr(prebuilt, "_CPUINFO", path)
    monkeypatch.setattr(prebuilt.platform, "machine", lambda: "x86_64")
    assert prebuilt.unused_instructions() == unused


def test_a_processor_that_is_too_old(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cpuinfo = site / "cpuinfo"
    cpuinfo.write_text("processor : 0\nflags\t\t: fpu sse4_2 avx f16c fma\n")
    monkeypatch.setattr(prebuilt, "_CPUINFO", cpuinfo)
    with pytest.raises(BackendError, match=r"a processor with avx2, bmi2\."):
        prebuilt.bind(site / "xllamacpp" / "xllamacpp.abi3.so")


@pytest.mark.skipif(not X86, reason="only where sizes are measured")
@pytest.mark.parametrize("size", [24, 37, 160])
def test_the_size_of_a_structure_is_what_a_function_writes(size: int) -> None:
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    function = prototype(lambda where: ctypes.memmove(where, b"\xa5" * size, size) and None)
    assert prebuilt._size(function) == size


@pytest.mark.skipif(not X86, reason="only where sizes are measured")
def test_structures_of_another_size() -> None:
    c = native.load()
    path = Path(c.llama_cpp._lib._name)
    prebuilt.check_structures(c, path)

    class Longer(ctypes.Structure):
        _fields_ = (*c.llama_context_params._fields_, ("more", ctypes.c_size_t))

    stand_in = SimpleNamespace(llama_model_params=c.llama_model_params, llama_context_params=Longer)
    with pytest.raises(BackendError, match=r"another llama_context_params: 160 bytes .* 168"):
        prebuilt.check_structures(stand_in, path)


def test_the_functions_that_are_checked_are_those_that_are_called() -> None:
    no_functions = {"llama_cpp", "llama_log_callback", "llama_token", "llama_grammar"}
    called = {"llama_vocab_eos"}  # `token_text` puts the names of two together
    for path in (ROOT / "localrag").rglob("*.py"):
        if path.name != "prebuilt.py":
            called |= set(
                re.findall(r"(?:\bc|\b_c|_lib|llama_cpp)\.(llama_\w+)", path.read_text("utf-8"))
            )
    assert called - no_functions - {"llama_version"} == prebuilt.FUNCTIONS
    code = (ROOT / "localrag/models/llms/llama_cpp/hidden_states.py").read_text("utf-8")
    assert set(re.findall(r"ggml\.(ggml_\w+)", code)) == prebuilt.TENSOR_FUNCTIONS


# Binding it


BOUND = """
from localrag.errors import BackendError
from localrag.models.llms.llama_cpp import native, prebuilt
prebuilt.VERSION = {version!r}
c = native.load()
print(native.build().package, native.identity(), c.llama_max_devices() > 0, sep="|")
try:
    c.llama_cpp._lib.llama_of_tomorrow()
except BackendError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only where a library finds others beside it")
def test_a_library_of_another_package_is_bound(tmp_path: Path) -> None:
    """The one compiled here plays the prebuilt one, in a folder of another name."""
    spec = find_spec("llama_cpp")
    assert spec is not None
    assert spec.origin is not None
    binding = Path(spec.origin).parent
    version = native.build().version
    site = tmp_path / "with space 目录"
    shutil.copytree(binding, site / "llama_cpp", ignore=shutil.ignore_patterns("lib", "__pyc*"))
    library = Path(native.load().llama_cpp._lib._name)
    if library.parent.name != "lib":
        pytest.skip("llama.cpp is prebuilt here already")
    shutil.copytree(library.parent, site / "xllamacpp", symlinks=True)
    (site / "xllamacpp" / "__init__.py").write_text("raise AssertionError('it is not imported')")
    (site / "xllamacpp" / library.name).rename(site / "xllamacpp" / "xllamacpp.abi3.so")
    about = site / "xllamacpp-1.0.dist-info" / "METADATA"
    about.parent.mkdir()
    about.write_text("Metadata-Version: 2.4\nName: xllamacpp\nVersion: 1.0\n")
    result = subprocess.run(
        [sys.executable, "-c", BOUND.format(version=version)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.stderr == ""
    bound, missing = result.stdout.splitlines()
    assert re.fullmatch(r"xllamacpp 1\.0\|llama-cpp-python \S+ with xllamacpp 1\.0\|True", bound)
    assert "lacks functions: llama_of_tomorrow" in missing


# The trial after installing


def trial() -> ModuleType:
    spec = spec_from_file_location("llama_trial", ROOT / "scripts" / "llama_trial.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_llama_cpp_that_is_compiled_here_writes_the_known_tokens() -> None:
    trial().main()


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ((118, True, (130, 197, 43, 25, 104)), "118 tokens were read instead of 119"),
        ((119, False, (130, 197, 43, 25, 104)), "prefix"),
        ((119, True, (130, 197, 43, 25, 9)), r"It wrote .*9\) instead of"),
    ],
)
def test_any_other_token_is_named(
    monkeypatch: pytest.MonkeyPatch, result: tuple[int, bool, tuple[int, ...]], reason: str
) -> None:
    module = trial()
    monkeypatch.setattr(module, "read_and_write", lambda path: result)
    with pytest.raises(SystemExit, match=reason):
        module.main()
