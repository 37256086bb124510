"""The installer on trees as Windows and macOS have them, which are made up here."""

from __future__ import annotations

import os
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from install_fixtures import make_bundle, wheel, write_manifest

from localrag.bundle.installer import environments, installation, machine, program

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the trees are made of links")

PYTHON = "{}.{}".format(*sys.version_info)


class Posing:
    """The module `os` as it is on Windows, for what asks its name."""

    name = "nt"

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)


def pretend(monkeypatch: pytest.MonkeyPatch, system: str, architecture: str) -> dict[str, str]:
    """Be that machine; returns the target of a bundle for it."""
    for module in (machine, program):
        monkeypatch.setattr(module, "this_machine", lambda: (system, architecture, PYTHON))
    return {
        "system": system,
        "machine": architecture,
        "python": PYTHON,
        "accelerator": "cpu",
    }


@pytest.fixture
def on_windows(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """An environment has its Python in `Scripts`, and programs are started by .bat files."""
    real: Callable[..., None] = venv.EnvBuilder.create

    def create(builder: venv.EnvBuilder, folder: Path) -> None:
        builder.symlinks = True
        real(builder, folder)
        (folder / "bin").rename(folder / "Scripts")
        (folder / "Scripts" / "python").rename(folder / "Scripts" / "python.exe")

    monkeypatch.setattr(venv.EnvBuilder, "create", create)
    for module in (environments, installation, program):
        monkeypatch.setattr(module, "os", Posing())
    return pretend(monkeypatch, "windows", "x86_64")


def install(bundle: Path, target: Path) -> int:
    return program.main([str(bundle), "--to", str(target), "--yes"], bundle / "install.py")


def test_windows(tmp_path: Path, on_windows: dict[str, str]) -> None:
    bundle = make_bundle(tmp_path / "stick 离线")
    write_manifest(bundle, target=on_windows)
    target = tmp_path / "Program Files" / "知识库"
    assert install(bundle, target) == 0
    (environment,) = (target / "venv").iterdir()
    assert (environment / "Scripts" / "python.exe").exists()
    launcher = (target / "bin" / "localrag.bat").read_bytes()
    assert f"%~dp0..\\venv\\{environment.name}\\Scripts\\python.exe".encode() in launcher
    assert b"%~dp0..\\models" in launcher
    assert launcher.count(b"\n") == launcher.count(b"\r\n")
    assert launcher.isascii()  # cmd reads it in a code page of its own
    assert not (target / "bin" / "localrag").exists()
    assert install(bundle, target) == 0
    assert len(list((target / "venv").iterdir())) == 1


def test_macos_and_one_that_is_too_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = pretend(monkeypatch, "macos", "arm64")
    bundle = make_bundle(tmp_path / "Volumes" / "STICK 离线")
    path = wheel(bundle / "wheels", "xllama", "1.0", {"__init__.py": ""})
    path.rename(path.with_name("xllama-1.0-cp310-abi3-macosx_13_0_arm64.whl"))
    write_manifest(bundle, target=target)
    folder = tmp_path / "Users" / "某人" / "localrag"
    monkeypatch.setattr(machine, "platform", SimpleNamespace(mac_ver=lambda: ("12.7", "", "")))
    assert install(bundle, folder) == 1
    assert "needs macOS 13.0 or newer; this machine has 12.7" in capsys.readouterr().err
    monkeypatch.setattr(machine, "platform", SimpleNamespace(mac_ver=lambda: ("14.5", "", "")))
    assert install(bundle, folder) == 0
    assert (folder / "bin" / "localrag").read_text("utf-8").startswith("#!/bin/sh\n")


def test_a_bundle_for_another_system_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    write_manifest(bundle, target=pretend(monkeypatch, "windows", "x86_64"))
    pretend(monkeypatch, "macos", "arm64")
    assert install(bundle, tmp_path / "there") == 1
    assert "is for windows-x86_64; this machine, or its Python, is macos-arm64" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("code", "reason"),
    [("", "no llama.cpp"), ("def load(): raise OSError('is version 9, not 0.4')", "not 0.4")],
)
def test_a_prebuilt_llama_cpp_is_loaded_before_it_counts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: str, reason: str
) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    wheel(bundle / "wheels", "xllamacpp", "1.0", {"__init__.py": ""})
    # llama-cpp-python has no library of its own then: importing it alone would fail.
    binding = wheel(bundle / "wheels", "llama_cpp", "1.0", {"__init__.py": "raise ImportError"})
    binding.rename(binding.with_name("llama_cpp_python-1.0-py3-none-any.whl"))
    native = code or "def load(): raise OSError('no llama.cpp')"
    files = {"native.py": native, "__init__.py": ""}
    wheel(bundle / "wheels", "loader", "1.0", files, "localrag/models/llms/llama_cpp")
    write_manifest(bundle)
    assert install(bundle, tmp_path / "there") == 1
    assert "The package xllamacpp does not run here: " in (stderr := capsys.readouterr().err)
    assert reason in stderr
