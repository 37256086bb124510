"""Programs are started in one way: isolated, elsewhere, with a named environment, ended with us."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from waiting import has_ended, until

from localrag.system import processes

PACKAGE = Path(__file__).resolve().parents[1] / "localrag"
LAUNCHER = PACKAGE / "system" / "processes.py"
FINDER = PACKAGE / "bundle" / "installer" / "pythons.py"
"""Runs in a Python that is too old for the launcher, to go on with another one."""

STARTING_MODULES = {
    *("subprocess", "_posixsubprocess", "_winapi", "multiprocessing", "pty", "popen2", "pexpect"),
    *("concurrent.futures.process", "asyncio.subprocess", "webbrowser"),
}
OF_OS = ("system", "popen", "startfile", "fork", "posix_spawn", "exec", "spawn")
"""The beginnings of the names in `os` that start a program."""
ANYWHERE = {
    *("Popen", "create_subprocess_exec", "create_subprocess_shell", "ProcessPoolExecutor"),
    *("subprocess_exec", "subprocess_shell", "QProcess"),
}


def starts(path: Path) -> list[str]:
    """Where a file could start a program in a way of its own."""
    places = []
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names: list[str] = []
        match node:
            case ast.Import():
                names = [alias.name for alias in node.names]
                names += [f"{alias.name} as" for alias in node.names if alias.asname]
            case ast.ImportFrom():
                names = [f"{node.module}.{alias.name}" for alias in node.names]
                names.append(node.module or "")
            case ast.Call(func=ast.Name(id="__import__")):
                names = ["subprocess"]
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                names = [name]
            case ast.Attribute(value=ast.Name(id=owner), attr=attribute):
                names = [f"{owner}.{attribute}", attribute]
            case ast.Name(id=attribute):
                names = [attribute]
        places += [f"{path.name}:{node.lineno}: {name}" for name in names if starting(name)]
    return places


def starting(name: str) -> bool:
    """Whether a name, with its module or without, is one by which programs are started."""
    if name in ("os as", "posix", "nt") or name in ANYWHERE:
        return True
    module, _, rest = name.partition(".")
    if module == "os" and rest.startswith(OF_OS):
        return True
    return any(
        name == starting_module or name.startswith(f"{starting_module}.")
        for starting_module in STARTING_MODULES
    )


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path not in (LAUNCHER, FINDER))


def test_no_program_is_started_in_another_way() -> None:
    assert [start for path in FILES for start in starts(path)] == []


@pytest.mark.parametrize(
    "code",
    [
        "import subprocess",
        "from subprocess import run",
        "import os; os.system('x')",
        "import os; os.execv('x', [])",
        "from os import spawnl; spawnl(0, 'x')",
        "import os; start = os.posix_spawn",
        "import os; os.fork()",
        "import os; os.popen('x')",
        "import multiprocessing",
        "from concurrent.futures import ProcessPoolExecutor; ProcessPoolExecutor()",
        "import asyncio; asyncio.create_subprocess_exec('x')",
        "import pty",
        "__import__('subprocess')",
        "import importlib; importlib.import_module('subprocess')",
        "def f():\n    import subprocess as s",
    ],
)
def test_the_check_sees_other_ways(code: str, tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(code)
    assert starts(sample)


def said(program: str, *arguments: str, **more: object) -> str:
    command = processes.python(program, *arguments)
    result = processes.run(command, processes.PLAIN, stdout=processes.PIPE, stderr=processes.PIPE)
    assert result.returncode == 0, result.stderr
    return result.stdout.decode().strip()


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder whose modules and programs leave a note when they run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in ("localrag", "pip", "json", "msgspec", "sitecustomize", "usercustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a')")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    monkeypatch.setenv("PYTHONSTARTUP", str(folder / "json.py"))
    monkeypatch.setenv("PYTHONHOME", str(folder))
    monkeypatch.setenv("LD_PRELOAD", str(folder / "json.py"))
    monkeypatch.setenv("SECRET_TOKEN", "x")
    return folder


def test_python_is_isolated_and_finds_localrag(hostile: Path, tmp_path: Path) -> None:
    program = (
        "import json, os, sys, msgspec, localrag.types\n"
        "names = sorted(os.environ)\n"
        "print(json.dumps([os.getcwd(), localrag.__file__, sys.argv[1:], sys.path, names]))"
    )
    folder, origin, arguments, path, names = __import__("json").loads(said(program, "a b", "ä"))
    assert folder == processes.NEUTRAL != str(hostile)
    assert Path(origin) == PACKAGE / "__init__.py"
    assert arguments == ["a b", "ä"]
    assert str(hostile) not in path
    assert "" not in path
    dropped = {"PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "LD_PRELOAD", "SECRET_TOKEN"}
    assert not dropped & set(names)
    assert "PATH" in names
    assert not (tmp_path / "ran").exists()


def test_an_installed_module_is_run(hostile: Path, tmp_path: Path) -> None:
    command = processes.module("pip", "--version")
    result = processes.run(command, processes.PIP, stdout=processes.PIPE)
    assert result.stdout.startswith(b"pip ")
    assert not (tmp_path / "ran").exists()


def test_localrag_in_the_users_own_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They come before the system's, as they do without isolation, also in a grandchild."""
    users = tmp_path / "users"
    users.mkdir()
    (users / "of_the_user.py").write_text("where = 'users'")
    (users / "msgspec.py").write_text("where = 'users'")
    monkeypatch.setattr("site.USER_SITE", str(users))
    program = "import of_the_user, msgspec; print(msgspec.where, of_the_user.where)"
    with pytest.raises(AssertionError, match="of_the_user"):
        said(program)  # they are not in use here
    monkeypatch.syspath_prepend(str(users))
    assert said(program) == "users users"
    again = (
        "import sys\nfrom localrag.system import processes as p\n"
        f"done = p.run(p.python({program!r}), p.PLAIN, stdout=p.PIPE)\n"
        "print(done.stdout.decode())"
    )
    assert said(again) == "users users"


def test_the_environment_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ca.pem").touch()
    (tmp_path / "wheels").mkdir()
    variables = {
        "PIP_INDEX_URL": "https://example.invalid/simple",
        "PIP_CERT": "ca.pem",
        "PIP_FIND_LINKS": "wheels https://example.invalid/links",
        "https_proxy": "http://proxy:8080",
        "CMAKE_ARGS": "-DGGML_CUDA=on",
        "SSH_AUTH_SOCK": "/agent",
        "OPENAI_API_KEY": "secret",
        "PYTHONPATH": "x",
        "LD_LIBRARY_PATH": os.pathsep.join(["", ".", "lib", str(tmp_path)]),
        "PATH": os.pathsep.join(["", ".", "bin", str(tmp_path)]),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    pip = processes.environment(processes.PIP)
    assert pip["PIP_CERT"] == str(tmp_path / "ca.pem")
    assert pip["PIP_FIND_LINKS"] == f"{tmp_path / 'wheels'} https://example.invalid/links"
    assert pip["PATH"] == pip["LD_LIBRARY_PATH"] == str(tmp_path)
    assert pip["HOME"] == os.environ["HOME"]
    of_ours = {
        "PIP": {"PIP_INDEX_URL", "PIP_CERT", "PIP_FIND_LINKS", "https_proxy"},
        "COMPILING": {"PIP_INDEX_URL", "PIP_CERT", "PIP_FIND_LINKS", "https_proxy", "CMAKE_ARGS"},
        "SSH": {"SSH_AUTH_SOCK"},
        "PLAIN": set(),
        "LOCALRAG": set(),
    }
    for name, expected in of_ours.items():
        names = set(processes.environment(getattr(processes, name)))
        assert names & (variables.keys() - {"PATH", "LD_LIBRARY_PATH"}) == expected, name


@pytest.mark.skipif(sys.platform == "win32", reason="only where a file is a program by its rights")
def test_programs_are_found_in_absolute_folders_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "ssh-keygen"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(program.parent)
    for path in ("", ".", "../bin", f":.:{os.pathsep}"):
        monkeypatch.setenv("PATH", path)
        assert processes.find("ssh-keygen") is None
    monkeypatch.setenv("PATH", f".:{program.parent}")
    assert processes.find("ssh-keygen") == str(program)
    with pytest.raises(ValueError, match="absolute"):
        processes.run(["ssh-keygen"], processes.SSH)


def test_input_and_time_limit() -> None:
    program = "import sys; print(sys.stdin.read())"
    command = processes.python(program)
    result = processes.run(command, processes.PLAIN, given=b"given", stdout=processes.PIPE)
    assert result.stdout.strip() == b"given"
    assert said(program) == ""  # nothing to read, and nobody to wait for
    command = processes.python("import time; time.sleep(60)")
    with pytest.raises(processes.TimedOutError):
        processes.run(command, processes.PLAIN, seconds=0.5)


def test_a_program_ends_where_the_one_who_watches_it_says_so() -> None:
    numbers: list[int] = []

    def watch(number: int) -> None:
        assert psutil.pid_exists(number)
        numbers.append(number)
        raise MemoryError

    command = processes.python("import time; time.sleep(60)")
    with pytest.raises(MemoryError):
        processes.run(command, processes.PLAIN, watch=watch, seconds=50)
    assert not psutil.pid_exists(numbers[0])


@pytest.mark.skipif(os.name == "nt", reason="only where files have modes")
def test_what_a_program_makes_is_ours_alone_unless_it_is_said_otherwise(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        for umask, mode in ((processes.PRIVATE, 0o600), (processes.OURS, 0o644)):
            path = tmp_path / oct(mode)
            command = processes.python("import sys; open(sys.argv[1], 'w').close()", str(path))
            processes.run(command, processes.PLAIN, umask=umask)
            assert path.stat().st_mode & 0o777 == mode
    finally:
        os.umask(before)


STARTS_ANOTHER = """
import sys, time
from localrag.system import processes as p
child = (
    "import sys, time; from pathlib import Path; from localrag.system import processes;"
    "processes.end_with_parent(); Path(sys.argv[1]).touch(); time.sleep(600)"
)
print(p.start(p.python(child, sys.argv[1]), p.PLAIN).pid, flush=True)
time.sleep(600)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: sessions")
def test_a_program_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    watching = tmp_path / "watching"
    command = [sys.executable, "-c", STARTS_ANOTHER, str(watching)]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=PACKAGE.parent)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    os.kill(child, 0)
    assert os.getsid(child) == child
    until(watching.exists)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: has_ended(child))
