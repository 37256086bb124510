"""`install.py`: what is packed into it, and that it needs nothing but Python."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from install_fixtures import make_bundle

from localrag.bundle import packing

PACKED = packing.contents()
SOURCES = {name: path.read_text("utf-8") for name, path in PACKED.items() if name.endswith(".py")}


def imported(source: str) -> set[str]:
    """The modules that a source imports when it runs, also inside functions."""
    tree = ast.parse(source)
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and node not in for_types:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node not in for_types:
            names |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def modules() -> set[str]:
    """What can be imported from the archive."""
    return {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in SOURCES
    }


@pytest.mark.parametrize("name", SOURCES)
def test_it_imports_the_standard_library_and_itself_only(name: str) -> None:
    for module in imported(SOURCES[name]):
        if module.startswith("localrag"):
            assert {module, module.rpartition(".")[0]} & modules(), module
        else:
            assert module.partition(".")[0] in sys.stdlib_module_names


def test_the_check_sees_what_is_not_packed() -> None:
    source = "def f():\n    import psutil\n    from localrag.system import files\n"
    assert {"psutil", "localrag.system.files"} <= imported(source)
    assert "localrag.system.files" not in modules()
    assert not imported("if TYPE_CHECKING:\n    import psutil\n")


def test_every_module_imports_without_any_package(tmp_path: Path) -> None:
    """Also without those that are installed, and without localrag."""
    program = packing.pack(tmp_path / "install.py")
    code = "import sys; sys.path.insert(0, sys.argv[1])\n"
    code += "".join(f"import {module}\n" for module in sorted(modules() - {"__main__"}))
    code += "assert localrag.__file__.startswith(sys.argv[1]), localrag.__file__\n"
    code += "from localrag.messages import translations; assert translations('zh')\n"
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(program)], capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_the_same_sources_give_the_same_bytes_which_can_be_read(tmp_path: Path) -> None:
    installer, repeat = packing.pack(tmp_path / "install.py"), packing.pack(tmp_path / "other.py")
    assert installer.read_bytes() == repeat.read_bytes()
    assert installer.read_bytes().startswith(b"# A zip archive of Python files.")
    with zipfile.ZipFile(installer) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == list(PACKED)
        for info in archive.infolist():
            assert (info.date_time[0], info.compress_type) == (1980, zipfile.ZIP_STORED)
            assert archive.read(info) == PACKED[info.filename].read_bytes()


def test_nothing_beside_it_and_no_other_localrag_is_imported(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path / "bundle")
    for path in (bundle / "localrag.py", bundle / "argparse.py", tmp_path / "localrag.py"):
        path.write_text("raise SystemExit('not this one')")
    command = [sys.executable, str(bundle / "install.py"), "--help"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "LOCALRAG_LANG": "en"}
    result = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "Check a localrag bundle" in result.stdout


@pytest.mark.parametrize(
    "name", ["__main__.py", "localrag/bundle/installer/pythons.py", "localrag/__init__.py"]
)
def test_a_python_that_is_too_old_can_read_what_finds_a_newer_one(name: str) -> None:
    ast.parse(SOURCES[name], feature_version=(3, 6))
    assert imported(SOURCES[name]) - {"localrag.bundle.installer"} <= {
        *("os", "subprocess", "sys", "typing", "typing.TYPE_CHECKING", "collections.abc"),
        *("collections.abc.Iterable", "importlib", "importlib.import_module"),
        *("pathlib", "pathlib.Path"),  # these two from 3.11 on
        *("localrag.bundle.installer.program", "localrag.bundle.installer.pythons"),
    }


@pytest.mark.skipif(os.name == "nt", reason="only where a script can be a program")
@pytest.mark.parametrize("there", [True, False])
def test_an_old_python_goes_on_with_a_newer_one_or_says_which_it_needs(
    tmp_path: Path, there: bool
) -> None:
    program = packing.pack(tmp_path / "install.py")
    folder = tmp_path / "programs"
    folder.mkdir()
    if there:
        version = "{}.{}".format(*sys.version_info)
        (folder / f"python{version}").symlink_to(sys.executable)
    code = (
        "import runpy, sys; sys.argv = sys.argv[1:]; sys.version_info = (3, 8)\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    command = [sys.executable, "-c", code, str(program), "--help"]
    environment = {"PATH": f"relative:{folder}", "LOCALRAG_LANG": "en"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if there:
        assert result.returncode == 0, result.stderr
        assert "Check a localrag bundle" in result.stdout
    else:
        assert result.returncode == 1
        assert "install.py needs Python 3.11 or newer" in result.stderr
