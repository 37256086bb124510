"""A llama.cpp that carries several processor variants gets the one that suits, from its folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from localrag.errors import BackendError
from localrag.models.llms.llama_cpp import native

pytestmark = pytest.mark.skipif(os.name == "nt", reason="only where libraries share their symbols")


class Function:
    """A C function as ctypes shows it: attributes may be set, and it is called."""

    def __init__(self, calls: list[tuple[Any, ...]], name: str, result: int = 0) -> None:
        self._calls, self._name, self._result = calls, name, result

    def __call__(self, *arguments: object) -> int:
        self._calls.append((self._name, *arguments))
        return self._result


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[Any, ...]]:
    """What is asked of a stand-in for llama_cpp, in order; its libraries lie in `tmp_path`."""
    records: list[tuple[Any, ...]] = []
    library = SimpleNamespace(
        ggml_backend_load_all_from_path=Function(records, "load"),
        ggml_backend_reg_count=Function(records, "count", 1),
    )
    stand_in = SimpleNamespace(
        llama_cpp=SimpleNamespace(_base_path=tmp_path, _lib=library),
        llama_log_callback=lambda function: function,
        llama_log_set=lambda *_: records.append(("log",)),
        llama_backend_init=lambda: records.append(("init",)),
    )
    monkeypatch.setitem(sys.modules, "llama_cpp", stand_in)  # type: ignore[arg-type]
    monkeypatch.setattr(native, "_log_callback", None)
    return records


def test_variants_are_looked_for_in_the_packages_own_folder_before_anywhere_else(
    calls: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (tmp_path / "libggml-cpu-haswell.so").touch()
    native.load()
    assert calls == [("log",), ("load", os.fsencode(tmp_path)), ("count",), ("init",)]


def test_a_llama_cpp_with_its_processor_code_linked_in_is_left_alone(
    calls: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (tmp_path / "libggml-cpu.so").touch()
    native.load()
    assert calls == [("log",), ("init",)]


def test_variants_of_which_none_runs_are_an_error_and_not_a_crash_later(
    calls: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    (tmp_path / "libggml-cpu-haswell.so").touch()
    library = sys.modules["llama_cpp"].llama_cpp._lib
    library.ggml_backend_reg_count = Function(calls, "count", 0)
    with pytest.raises(BackendError, match="ggml-cpu"):
        native.load()
    assert ("init",) not in calls
