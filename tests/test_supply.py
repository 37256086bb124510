"""What is installed: the lock files, the installer that reads them, the scan and the SBOM."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
import venv
import zipfile
from importlib.metadata import PackageNotFoundError, metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from bundle.fake_wheels import make_wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from localrag.bundle import wheels
from localrag.bundle.wheel import licence_of

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "scripts" / "locks"
ENTRY = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([^\s;]+)([^\n]*(?:\n [^\n]*)*)", re.M)
INSTALLED = {
    "": ("run", "torch-cpu"),
    "bundle": ("run", "bundle"),
    "dev": ("run", "dev"),
    "keyring": ("run", "keyring"),
    "postgres": ("run", "postgres"),
    "prebuilt": ("run", "prebuilt"),
    "vault": ("run", "vault"),
}


def script(name: str) -> ModuleType:
    spec = spec_from_file_location(f"scripts_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


environment, scan = script("environment"), script("scan")


def entries(*names: str) -> dict[str, list[tuple[Version, str]]]:
    versions: dict[str, list[tuple[Version, str]]] = {}
    for name in names:
        for package, version, rest in ENTRY.findall((LOCKS / f"{name}.txt").read_text("utf-8")):
            versions.setdefault(canonicalize_name(package), []).append((Version(version), rest))
    return versions


# The lock files


@pytest.mark.parametrize("extra", INSTALLED)
def test_the_locks_hold_what_is_asked_for(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = project["optional-dependencies"][extra] if extra else project["dependencies"]
    locked = entries(*INSTALLED[extra])
    for requirement in map(Requirement, requirements):
        versions = locked[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version, _ in versions), requirement


def test_building_is_locked_too() -> None:
    requirements = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"][
        "requires"
    ]
    locked = entries("build")
    for requirement in map(Requirement, requirements):
        assert requirement.specifier.contains(locked[requirement.name][0][0])
    assert {"pip", "scikit-build-core", "cmake", "ninja", "setuptools"} <= locked.keys()


def test_every_entry_has_a_hash_and_no_index_is_named() -> None:
    files = sorted(LOCKS.glob("*.txt"))
    lock_names = {"run", "binding", "build", "lock", "torch-cpu", "torch-cuda"}
    assert {path.stem for path in files} == lock_names | (INSTALLED.keys() - {""})
    for path in files:
        text = path.read_text("utf-8")
        assert "://" not in text
        assert not re.search(r"^-", text, re.M)
        for _, rest in (pin for pins in entries(path.stem).values() for pin in pins):
            hashes = re.findall(r"--hash=(\S+)", rest)
            assert hashes
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes)


def test_torch_is_locked_for_each_system_and_python() -> None:
    lines = (LOCKS / "torch-cpu.txt").read_text("utf-8").splitlines()
    requirements = [
        Requirement(line.partition(" --hash")[0]) for line in lines if not line.startswith("#")
    ]
    assert all(
        str(requirement.specifier) == environment.TORCH.removeprefix("torch")
        for requirement in requirements
    )
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")):
        for python in ("3.11", "3.12", "3.13"):
            marker_environment = {
                "sys_platform": system,
                "platform_machine": machine,
                "python_version": python,
            }
            fitting = [
                requirement
                for requirement in requirements
                if requirement.marker and requirement.marker.evaluate(marker_environment)
            ]
            assert len(fitting) == 1, marker_environment


# Installing


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder, with_pip=True)
    return environment.python_of(folder)


def test_a_package_with_another_hash_is_not_installed(
    empty: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    wheel = make_wheel(tmp_path / "wheels", "harmless", requires=("not-locked",))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setattr(environment, "LOCKS", tmp_path)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    lock = tmp_path / "run.txt"

    lock.write_text(f"harmless==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(SystemExit, match="The installation failed at: pip install --require-hash"):
        environment._install(empty, "run")
    assert "DO NOT MATCH THE HASHES" in capfd.readouterr().err
    lock.write_text("harmless==1.0\n")
    with pytest.raises(SystemExit):
        environment._install(empty, "run")
    assert environment._version(empty, "harmless") == ""

    lock.write_text(f"harmless==1.0 --hash=sha256:{digest}\n")
    environment._install(empty, "run")
    assert environment._version(empty, "harmless") == "1.0"


def test_the_distribution_of_the_former_name_goes(empty: Path, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "localrag", "0.1.52")
    environment._pip(empty, "install", "--no-index", "--no-deps", str(wheel))
    environment._remove_former(empty)
    assert environment._version(empty, "localrag") == ""
    environment._remove_former(empty)


def test_every_installation_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, ...]] = []
    monkeypatch.setattr(environment, "ENVIRONMENT", tmp_path / "venv")
    monkeypatch.setattr(
        environment,
        "_pip_succeeds",
        lambda _, *arguments, **__: calls.append(arguments) or True,
    )
    monkeypatch.setattr(environment, "_works", lambda _: (tmp_path / "venv").mkdir() or True)
    monkeypatch.setattr(environment, "_imports", lambda *_: True)
    monkeypatch.setattr(environment, "_try_llama", lambda *_: "")
    monkeypatch.setattr(
        environment, "_version", lambda _, name: "2.13.0" if name == "torch" else ""
    )
    environment.ready("dev")
    *locked, own = [call for call in calls if call[0] == "install"]
    assert own == ("install", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    assert [call[:4] for call in locked] == [("install", *environment.LOCKED)] * 3
    assert "--require-hashes" in environment.LOCKED
    names = [Path(word).stem for call in locked for word in call if word.endswith(".txt")]
    assert names == ["build", "binding", "run", "dev"]


Calls = list[tuple[list[str], dict[str, str]]]


@pytest.fixture
def llama(monkeypatch: pytest.MonkeyPatch) -> tuple[Calls, set[str]]:
    """What pip is told of llama.cpp; and what is there: "library", "compiler", "compiles".

    And "no wheel": pip finds no prebuilt one.
    """
    calls: Calls = []
    missing_parts: set[str] = set()

    def pip(_: Path, *arguments: str, **variables: str) -> bool:
        calls.append(([Path(word).stem for word in arguments], variables))
        if "prebuilt" in calls[-1][0]:
            return "no wheel" not in missing_parts
        return "compiles" in missing_parts or "binding" not in calls[-1][0] or bool(variables)

    for name in ("LOCALRAG_COMPILE", "LOCALRAG_PREBUILT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(environment, "_pip_succeeds", pip)
    monkeypatch.setattr(environment, "_imports", lambda *_: "library" in missing_parts)
    monkeypatch.setattr(environment, "finds_compiler", lambda: "compiler" in missing_parts)
    monkeypatch.setattr(environment, "_version", lambda *_: "")
    return calls, missing_parts


@pytest.mark.parametrize(
    ("there", "asked", "library"),
    [
        ({"compiler", "compiles"}, "", "prebuilt"),
        ({"compiler", "compiles"}, "prebuilt", "prebuilt"),
        ({"compiler", "compiles"}, "compiled", "compiled"),
        ({"compiler", "compiles", "no wheel"}, "", "compiled"),
        ({"library", "compiles"}, "", "compiled"),  # an earlier one stays
        ({"library"}, "", "prebuilt"),  # of another version, and compiling fails
        (set(), "", "prebuilt"),
    ],
)
def test_llama_cpp_is_prebuilt_unless_it_is_asked_for_or_cannot_be_had(
    llama: tuple[Calls, set[str]], there: set[str], asked: str, library: str
) -> None:
    calls, now = llama
    now |= there
    assert environment._install_llama(Path("python"), asked) == library
    assert ("prebuilt" in calls[-1][0]) == (library == "prebuilt")
    if "no wheel" in there:
        return
    bare = [(words, variables) for words, variables in calls if variables]
    if library == "prebuilt":
        # pip's cache knows a wheel by its name: it must not hold one without a library.
        ((words, variables),) = bare
        assert variables == {"SKBUILD_WHEEL_CMAKE": "false"}
        assert "--no-cache-dir" in words
    else:
        assert not bare


def test_llama_cpp_that_has_to_be_compiled_and_cannot_be(llama: tuple[Calls, set[str]]) -> None:
    with pytest.raises(SystemExit, match=r"C\+\+ compiler is needed .* LOCALRAG_COMPILE=1"):
        environment._install_llama(Path("python"), "compiled")
    assert not any("prebuilt" in words for words, _ in llama[0])


def test_a_prebuilt_llama_cpp_that_is_refused_by_its_hash(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Such as one that was cut off on its way."""
    wheels = tmp_path / "wheels"
    binding = make_wheel(wheels, "llama-cpp-python")
    whole = make_wheel(wheels, "xllamacpp")
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (binding, whole)]
    whole.write_bytes(whole.read_bytes()[:-20])
    monkeypatch.setattr(environment, "LOCKS", tmp_path)
    monkeypatch.setattr(environment, "finds_compiler", lambda: False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    (tmp_path / "binding.txt").write_text(f"llama-cpp-python==1.0 --hash=sha256:{digests[0]}\n")
    (tmp_path / "prebuilt.txt").write_text(f"xllamacpp==1.0 --hash=sha256:{digests[1]}\n")
    with pytest.raises(SystemExit, match=r"C\+\+ compiler"):
        environment._install_llama(empty, "")
    assert environment._version(empty, "xllamacpp") == ""
    assert "xllamacpp" in capfd.readouterr().err


def test_only_one_llama_cpp_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_PREBUILT", "1")
    monkeypatch.setenv("LOCALRAG_COMPILE", "0")
    assert environment._asked_library() == "prebuilt"
    monkeypatch.setenv("LOCALRAG_COMPILE", "1")
    with pytest.raises(SystemExit, match="exclude each other"):
        environment._asked_library()


@pytest.mark.parametrize(
    ("flags", "machine", "faster"),
    [
        ("fpu avx2 fma", "x86_64", False),
        ("fpu avx2 fma avx512f", "x86_64", True),
        ("fpu avx2 avx_vnni", "x86_64", True),
        ("fp asimd", "aarch64", False),  # not measured
    ],
)
def test_an_own_llama_cpp_is_faster_where_there_is_more_than_avx2(
    monkeypatch: pytest.MonkeyPatch, flags: str, machine: str, faster: bool
) -> None:
    text = f"processor : 0\nflags\t\t: {flags}\n"
    monkeypatch.setattr(environment, "Path", lambda _: SimpleNamespace(read_text=lambda *_: text))
    stand_in = SimpleNamespace(system=lambda: "Linux", machine=lambda: machine)
    monkeypatch.setattr(environment, "platform", stand_in)
    assert environment._own_build_is_faster() == faster


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of an environment with a prebuilt llama.cpp, where compiling would gain."""
    monkeypatch.setattr(environment, "ENVIRONMENT", tmp_path)
    monkeypatch.setattr(environment, "_own_build_is_faster", lambda: True)
    monkeypatch.setattr(environment, "finds_compiler", lambda: True)
    monkeypatch.setattr(environment, "_asked_library", lambda: "")
    stamp = tmp_path / "localrag-installed.json"
    stamp.write_text('{"files": "known", "llama.cpp": "prebuilt"}')
    return stamp


@pytest.mark.parametrize(
    ("compiles", "works", "library"),
    [
        (True, True, "compiled"),
        (True, False, "prebuilt"),
        (False, True, "prebuilt"),
        (KeyboardInterrupt, True, "prebuilt"),
    ],
)
def test_a_faster_llama_cpp_takes_the_place_of_the_prebuilt_one(
    installed: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    compiles: object,
    works: bool,
    library: str,
) -> None:
    calls: list[str] = []

    def pip(_: Path, command: str, *words: str) -> bool:
        calls.append(command)
        if compiles is KeyboardInterrupt and command == "wheel":
            raise KeyboardInterrupt
        if command == "wheel":
            (Path(words[-1]) / "llama_cpp_python-1-py3-none-any.whl").touch()
            return bool(compiles)
        if command == "cache":  # else pip would take the same again
            return True
        # Killed here, the next run installs again what is missing.
        assert json.loads(installed.read_text())["files"] == ""
        return words[-1].endswith("llama_cpp_python-1-py3-none-any.whl")

    monkeypatch.setattr(environment, "_pip_succeeds", pip)
    monkeypatch.setattr(environment, "_remove_llama", lambda _: calls.append("removed"))
    monkeypatch.setattr(environment, "_try_llama", lambda *_: "" if works else "it ended with -4")
    monkeypatch.setattr(environment, "_install_llama", lambda _, kind: calls.append(kind) or kind)
    environment.take_own_build(Path("python"))
    state = {"files": "known", "llama.cpp": library, "own build": "tried"}
    assert json.loads(installed.read_text()) == state
    replaced = ["removed", "install"] if compiles is True else []
    assert calls == ["wheel", *replaced, *([] if works else ["cache", "prebuilt"])]
    assert ("The prebuilt llama.cpp stays" in capsys.readouterr().out) == (library == "prebuilt")
    environment.take_own_build(Path("python"))  # a second run re-uses what is there
    assert calls.count("wheel") == 1


@pytest.mark.parametrize("reason", ["asked", "compiler", "slower", "compiled"])
def test_llama_cpp_is_not_compiled_where_nothing_is_gained(
    installed: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    if reason == "asked":
        monkeypatch.setattr(environment, "_asked_library", lambda: "prebuilt")
    if reason == "compiler":
        monkeypatch.setattr(environment, "finds_compiler", lambda: False)
    if reason == "slower":
        monkeypatch.setattr(environment, "_own_build_is_faster", lambda: False)
    if reason == "compiled":
        installed.write_text('{"files": "known", "llama.cpp": "compiled"}')
    monkeypatch.setattr(environment, "_pip_succeeds", lambda *_: pytest.fail("pip was called"))
    environment.take_own_build(Path("python"))


@pytest.mark.parametrize(
    ("code", "stderr", "reason"),
    [
        (1, "Traceback\nIt wrote (9,) instead of (1,).\n", "It wrote (9,) instead of (1,)."),
        (-4, "", "it ended with -4"),
    ],
)
def test_what_is_wrong_with_a_prebuilt_llama_cpp_is_said(
    monkeypatch: pytest.MonkeyPatch, code: int, stderr: str, reason: str
) -> None:
    result = SimpleNamespace(returncode=code, stderr=stderr)
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: result)
    fault = environment._try_llama(Path("python"), "prebuilt")
    assert fault == f"The prebuilt llama.cpp does not work here: {reason}"


@pytest.mark.parametrize(
    ("library", "compiler", "asked", "state"),
    [
        ("prebuilt", True, "", "compiled"),
        ("prebuilt", True, "prebuilt", None),
        ("prebuilt", False, "", None),
        ("compiled", True, "", "prebuilt"),
        ("compiled", True, "compiled", None),
        ("both", True, "", None),
    ],
)
def test_a_llama_cpp_that_does_not_work_is_replaced_or_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    library: str,
    compiler: bool,
    asked: str,
    state: str | None,
) -> None:
    place = tmp_path / "with space 目录"
    place.mkdir()
    first = "prebuilt" if library == "both" else library
    monkeypatch.setattr(environment, "ENVIRONMENT", place)
    monkeypatch.setattr(environment, "_asked_library", lambda: asked)
    for name in ("_remove_former", "_install", "_install_torch", "_pip"):
        monkeypatch.setattr(environment, name, lambda *_, **__: None)
    calls: list[str] = []
    monkeypatch.setattr(environment, "_remove_llama", lambda _: calls.append("library"))
    monkeypatch.setattr(
        environment, "_pip_succeeds", lambda _, *words: calls.append(" ".join(words))
    )
    monkeypatch.setattr(environment, "_works", lambda _: True)
    monkeypatch.setattr(environment, "finds_compiler", lambda: compiler)
    monkeypatch.setattr(environment, "_install_llama", lambda _, kind: kind or first)
    monkeypatch.setattr(
        environment,
        "_try_llama",
        lambda _, library_name: (
            f"{library_name}: it ended with -4" if library in (library_name, "both") else ""
        ),
    )
    if state is None:
        with pytest.raises(SystemExit, match="it ended with -4"):
            environment.ready()
        assert not (place / "localrag-installed.json").exists()
        return
    environment.ready()
    anew = ["library", "cache remove llama_cpp_python"]  # else pip installs the same again
    assert calls == (anew if library == "compiled" else [])
    output = capsys.readouterr().out
    assert f"{library}: it ended with -4\n" in output
    assert environment._INSTEAD_OF_FAILING[library] in output
    assert json.loads((place / "localrag-installed.json").read_text())["llama.cpp"] == state


CLANG = "#define __GNUC__ 4\n#define __GNUC_MINOR__ 2\n#define __clang__ 1"
"""What Clang says for the sake of programs that ask for GCC."""


@pytest.mark.parametrize(
    ("system", "machine", "macros", "left_out"),
    [
        ("Linux", "x86_64", "#define __GNUC__ 12\n#define __GNUC_MINOR__ 2", True),
        ("Linux", "x86_64", "#define __GNUC__ 13\n#define __GNUC_MINOR__ 2", True),
        ("Linux", "x86_64", "#define __GNUC__ 12\n#define __GNUC_MINOR__ 4", False),
        ("Linux", "x86_64", "#define __GNUC__ 13\n#define __GNUC_MINOR__ 3", False),
        ("Linux", "x86_64", "#define __GNUC__ 15\n#define __GNUC_MINOR__ 1", False),
        ("Linux", "x86_64", CLANG, False),
        ("Linux", "x86_64", None, False),  # refused by a compiler that is older than AMX
        ("Linux", "aarch64", "", False),
        ("Windows", "AMD64", "", False),
    ],
)
def test_amx_is_left_out_where_a_compiler_may_set_it_up_wrongly(
    monkeypatch: pytest.MonkeyPatch,
    system: str,
    machine: str,
    macros: str | None,
    left_out: bool,
) -> None:
    stand_in = SimpleNamespace(system=lambda: system, machine=lambda: machine)
    monkeypatch.setattr(environment, "platform", stand_in)
    monkeypatch.setattr(environment.shutil, "which", str)
    result = SimpleNamespace(returncode=macros is None, stdout=f"#define EMPTY\n{macros}\n")
    monkeypatch.setattr(environment.subprocess, "run", lambda *_, **__: result)
    flags = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16" if left_out else ""
    assert environment._without_amx() == flags


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file in place of the folder is refused to root as well."""
    (tmp_path / "read-only 只读").touch()
    place = tmp_path / "read-only 只读" / ".venv"
    monkeypatch.setattr(environment, "ENVIRONMENT", place)
    with pytest.raises(SystemExit, match="cannot be made: Not a directory") as error:
        environment.ready()
    assert str(place) in str(error.value)


def test_a_lean_installation_leaves_out_what_nothing_else_imports(tmp_path: Path) -> None:
    lock = environment._shortened(LOCKS / "run.txt", environment.LEFT_OUT, tmp_path)
    whole = {
        canonicalize_name(name) for name, _, _ in ENTRY.findall((LOCKS / "run.txt").read_text())
    }
    names = {canonicalize_name(name) for name, _, _ in ENTRY.findall(lock.read_text())}
    assert whole - names == environment.LEFT_OUT & whole
    assert environment.LEFT_OUT - whole <= {"torch"}  # which has lock files of its own
    assert set(wheels.LEFT_OUT) <= environment.LEFT_OUT  # of bundles, with what only those need
    for name in names:
        try:
            requires = metadata(name).get_all("Requires-Dist") or []
        except PackageNotFoundError:  # of another system
            continue
        requirements = {
            canonicalize_name(requirement.name)
            for requirement in map(Requirement, requires)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        }
        # Only what fetches tokenizers from the net asks for it.
        exceptions = {"tokenizers": {"huggingface-hub"}}.get(name, set())
        assert requirements & environment.LEFT_OUT == exceptions, name


def test_a_lean_installation_becomes_whole_but_not_the_other_way_round(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stamp = tmp_path / "localrag-installed.json"
    monkeypatch.setattr(environment, "ENVIRONMENT", tmp_path)
    python = environment.python_of(tmp_path)
    python.parent.mkdir()
    python.touch()
    torch: list[str] = []
    for name in ("_remove_former", "_pip", "_install"):
        monkeypatch.setattr(environment, name, lambda *_, **__: None)
    monkeypatch.setattr(environment, "_install_torch", lambda _: torch.append("torch"))
    monkeypatch.setattr(environment, "_install_llama", lambda *_: "compiled")
    monkeypatch.setattr(environment, "_try_llama", lambda *_: "")
    monkeypatch.setattr(environment, "_works", lambda _: stamp.exists())
    monkeypatch.setattr(environment.venv, "create", lambda *_, **__: None)
    for lean, lean_after, installations in ((True, True, 0), (False, False, 1), (True, False, 1)):
        environment.ready(lean=lean)
        assert json.loads(stamp.read_text())["lean"] == lean_after
        assert len(torch) == installations


def test_nothing_of_the_folder_at_hand_is_run(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pip", "llama_cpp", "json", "runpy"):
        (tmp_path / name).mkdir()
        for file in ("__init__.py", "__main__.py"):
            (tmp_path / name / file).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    assert environment._works(empty)
    environment._pip(empty, "list")
    assert not environment._imports(empty, "llama_cpp")
    assert environment._version(empty, "localrag") == ""
    assert not (tmp_path / "ran").exists()


def test_every_script_starts_python_isolated_or_in_the_checkout() -> None:
    for script in sorted((ROOT / "scripts").glob("*.py")):
        text = script.read_text("utf-8")
        for start in re.finditer(r'(?:python\)?|executable), "-[mc]"', text):
            assert "cwd=ROOT" in text[start.start() : start.start() + 600], (script, start[0])


# Advisories


def advisory(name: str = "one", **affected: Any) -> dict[str, Any]:
    package = {"package": {"ecosystem": "PyPI", "name": name}, **affected}
    return {
        "id": "PYSEC-2026-1",
        "aliases": ["CVE-2026-1"],
        "summary": "It \x1b[31mbreaks",
        "modified": "2026-11-20T00:00:00Z",
        "affected": [package],
    }


def ranges(*events: dict[str, str], kind: str = "ECOSYSTEM") -> list[dict[str, Any]]:
    return [{"type": kind, "events": list(events)}]


@pytest.mark.parametrize(
    ("affected", "answer"),
    [
        ({"ranges": ranges({"introduced": "0"})}, True),
        ({"ranges": ranges({"introduced": "0"}, {"fixed": "1.5"})}, False),
        ({"ranges": ranges({"introduced": "0"}, {"fixed": "1.5.1"})}, True),
        ({"ranges": ranges({"fixed": "1.10"}, {"introduced": "1.2"})}, True),
        ({"ranges": ranges({"introduced": "1.6"})}, False),
        ({"ranges": ranges({"introduced": "0"}, {"last_affected": "1.5"})}, True),
        ({"ranges": ranges({"introduced": "0"}, {"last_affected": "1.4"})}, False),
        (
            {
                "ranges": ranges(
                    {"introduced": "0"}, {"fixed": "1.0"}, {"introduced": "1.5"}, {"fixed": "2"}
                )
            },
            True,
        ),
        ({"ranges": ranges({"introduced": "0"}, {"fixed": "1.2"}), "versions": ["1.5.0"]}, True),
        ({"versions": ["1.4", "2004-old"]}, False),
        ({"ranges": ranges({"introduced": "0"}, kind="GIT")}, None),
        ({"ranges": ranges({"introduced": "what"})}, None),
        ({}, None),
    ],
)
def test_which_versions_an_advisory_means(affected: dict[str, Any], answer: bool | None) -> None:
    assert scan.affects(affected, Version("1.5")) is answer


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    folder = tmp_path / "locks"
    folder.mkdir()
    (folder / "run.txt").write_text("One_And.two==1.5 ; python_version > '3' \\\n    --hash=x\n")
    return folder


@pytest.mark.parametrize("form", ["file", "list", "folder", "zip"])
def test_a_scan_finds_in_every_form(
    form: str, locks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = advisory("one-and-two", ranges=ranges({"introduced": "0"}, {"fixed": "1.6"}))
    path = tmp_path / "advisories"
    if form == "folder":
        path.mkdir()
        (path / "a.json").write_text(json.dumps(record))
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.json", json.dumps(record))
    else:
        path.write_text(json.dumps([record, advisory("other")] if form == "list" else record))
    assert scan.main(["--advisories", str(path), "--locks", str(locks)]) == 1
    first, last = capsys.readouterr().out.splitlines()
    assert first == ("one-and-two 1.5: PYSEC-2026-1, CVE-2026-1: It ?[31mbreaks; fixed in: 1.6")
    assert last.startswith("Known vulnerabilities: 1 found (1 locked versions, ")
    assert "the newest of 2026-11-20" in last


def test_a_scan_without_advisories_says_so(
    locks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert scan.main(["--locks", str(locks)]) == 0
    assert "not scanned" in capsys.readouterr().out
    withdrawn = advisory("one-and-two") | {"withdrawn": "2026-01-01T00:00:00Z"}
    crate = advisory("one-and-two")
    crate["affected"][0]["package"]["ecosystem"] = "crates.io"
    for number, content in enumerate(
        ["", "[]", "{}", "3", '{"affected": 3}', json.dumps(withdrawn), json.dumps([crate])]
    ):
        path = tmp_path / f"{number}.json"
        path.write_text(content)
        assert scan.main(["--advisories", str(path), "--locks", str(locks)]) == 2, content
        output = capsys.readouterr()
        assert "not scanned" in output.err
        assert "none found" not in output.out + output.err
    assert scan.main(["--advisories", str(tmp_path / "none"), "--locks", str(locks)]) == 2


def test_a_scan_that_finds_nothing_says_against_what(
    locks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(advisory("other", versions=["1.5"])))
    assert scan.main(["--advisories", str(path), "--locks", str(locks)]) == 0
    output = capsys.readouterr().out
    assert "none found (1 locked versions, 1 advisories, the newest of 2026-11-20)" in output


def test_a_scan_knows_every_locked_package() -> None:
    names = {name for name, _ in scan.locked(LOCKS)}
    assert {"torch", "llama-cpp-python", "pip", "cmake", "cyclonedx-python-lib", "uv"} <= names


# Licences

FITS = re.compile(r"\b(?:MIT|BSD|Apache|MPL-2\.0|PSF|ISC|AFFERO GPL 3\.0)", re.IGNORECASE)
"""What may be part of a work under AGPL-3.0-or-later."""


def test_what_is_needed_to_run_has_a_licence_that_fits() -> None:
    licences = {}
    for name in entries("run"):
        try:
            licences[name] = licence_of(metadata(name))
        except PackageNotFoundError:
            continue  # of another system
    assert {"rapidocr", "opencv-python-headless", "lxml", "watchfiles"} <= licences.keys()
    unclear = {name for name, licence in licences.items() if not FITS.search(licence)}
    # Empty packages of PyMuPDF's, without a word.
    assert unclear <= {"pymupdf-layout", "pymupdf4llm"}


# The SBOM


def test_the_sbom_of_what_is_installed(tmp_path: Path) -> None:
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    from localrag import __version__
    from localrag.bundle import sbom

    try:
        bom = sbom.installed()
    except PackageNotFoundError:
        pytest.skip("localrag is not installed here under its own name: run scripts/test.py")
    sbom.write(bom, tmp_path / sbom.SBOM)
    text = (tmp_path / sbom.SBOM).read_text("utf-8")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    listing = json.loads(text)
    assert listing["metadata"]["component"]["purl"] == f"pkg:pypi/localrag-offline@{__version__}"
    needs = {dependency["ref"].split("==")[0]: dependency for dependency in listing["dependencies"]}
    assert {"torch", "faiss-cpu", "llama-cpp-python", "sympy"} <= needs.keys()
    assert "pytest" not in needs
    licences = {
        component["name"].lower(): component.get("licenses") for component in listing["components"]
    }
    assert licences["click"] == [{"license": {"id": "BSD-3-Clause"}}]
