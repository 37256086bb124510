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
from types import ModuleType
from typing import Any

import pytest
from bundle.fake_wheels import make_wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

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
    found: dict[str, list[tuple[Version, str]]] = {}
    for name in names:
        for each, version, rest in ENTRY.findall((LOCKS / f"{name}.txt").read_text("utf-8")):
            found.setdefault(canonicalize_name(each), []).append((Version(version), rest))
    return found


# The lock files


@pytest.mark.parametrize("extra", INSTALLED)
def test_the_locks_hold_what_is_asked_for(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"][extra] if extra else project["dependencies"]
    locked = entries(*INSTALLED[extra])
    for requirement in map(Requirement, wanted):
        versions = locked[canonicalize_name(requirement.name)]
        assert all(requirement.specifier.contains(version) for version, _ in versions), requirement


def test_building_is_locked_too() -> None:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    locked = entries("build")
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(locked[requirement.name][0][0])
    assert {"pip", "scikit-build-core", "cmake", "ninja", "setuptools"} <= locked.keys()


def test_every_entry_has_a_hash_and_no_index_is_named() -> None:
    files = sorted(LOCKS.glob("*.txt"))
    others = {"run", "build", "lock", "torch-cpu", "torch-cuda"}
    assert {path.stem for path in files} == others | (INSTALLED.keys() - {""})
    for path in files:
        text = path.read_text("utf-8")
        assert "://" not in text
        assert not re.search(r"^-", text, re.M)
        for _, rest in (one for each in entries(path.stem).values() for one in each):
            hashes = re.findall(r"--hash=(\S+)", rest)
            assert hashes
            assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", each) for each in hashes)


def test_torch_is_locked_for_each_system_and_python() -> None:
    lines = (LOCKS / "torch-cpu.txt").read_text("utf-8").splitlines()
    found = [
        Requirement(line.partition(" --hash")[0]) for line in lines if not line.startswith("#")
    ]
    assert all(str(each.specifier) == environment.TORCH.removeprefix("torch") for each in found)
    for system, machine in (("linux", "x86_64"), ("linux", "aarch64"), ("darwin", "arm64")):
        for python in ("3.11", "3.12", "3.13"):
            here = {
                "sys_platform": system,
                "platform_machine": machine,
                "python_version": python,
            }
            fitting = [each for each in found if each.marker and each.marker.evaluate(here)]
            assert len(fitting) == 1, here


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
    monkeypatch.setattr(environment, "_pip", lambda _, *arguments: calls.append(arguments))
    monkeypatch.setattr(environment, "_works", lambda _: (tmp_path / "venv").mkdir() or True)
    monkeypatch.setattr(environment, "_need_compiler", lambda _: None)
    monkeypatch.setattr(
        environment, "_version", lambda _, name: "2.13.0" if name == "torch" else ""
    )
    environment.ready("dev")
    *locked, own = [call for call in calls if call[0] == "install"]
    assert own == ("install", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    assert [call[:4] for call in locked] == [("install", *environment.LOCKED)] * 2
    assert "--require-hashes" in environment.LOCKED
    named = [Path(word).stem for call in locked for word in call if word.endswith(".txt")]
    assert named == ["build", "run", "dev"]


def test_nothing_of_the_folder_at_hand_is_run(
    empty: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("pip", "llama_cpp", "json", "runpy"):
        (tmp_path / name).mkdir()
        for file in ("__init__.py", "__main__.py"):
            (tmp_path / name / file).write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.setenv("CXX", "c++")
    assert environment._works(empty)
    environment._pip(empty, "list")
    environment._need_compiler(empty)
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
    found = advisory("one-and-two", ranges=ranges({"introduced": "0"}, {"fixed": "1.6"}))
    path = tmp_path / "advisories"
    if form == "folder":
        path.mkdir()
        (path / "a.json").write_text(json.dumps(found))
    elif form == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.json", json.dumps(found))
    else:
        path.write_text(json.dumps([found, advisory("other")] if form == "list" else found))
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
        said = capsys.readouterr()
        assert "not scanned" in said.err
        assert "none found" not in said.out + said.err
    assert scan.main(["--advisories", str(tmp_path / "none"), "--locks", str(locks)]) == 2


def test_a_scan_that_finds_nothing_says_against_what(
    locks: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(advisory("other", versions=["1.5"])))
    assert scan.main(["--advisories", str(path), "--locks", str(locks)]) == 0
    said = capsys.readouterr().out
    assert "none found (1 locked versions, 1 advisories, the newest of 2026-11-20)" in said


def test_a_scan_knows_every_locked_package() -> None:
    names = {name for name, _ in scan.locked(LOCKS)}
    assert {"torch", "llama-cpp-python", "pip", "cmake", "cyclonedx-python-lib", "uv"} <= names


# Licences

FITS = re.compile(r"\b(?:MIT|BSD|Apache|MPL-2\.0|PSF|ISC|AFFERO GPL 3\.0)", re.IGNORECASE)
"""What may be part of a work under AGPL-3.0-or-later."""


def test_what_is_needed_to_run_has_a_licence_that_fits() -> None:
    said = {}
    for name in entries("run"):
        try:
            said[name] = licence_of(metadata(name))
        except PackageNotFoundError:
            continue  # of another system
    assert {"rapidocr", "opencv-python-headless", "lxml", "watchfiles"} <= said.keys()
    unclear = {name for name, licence in said.items() if not FITS.search(licence)}
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
    needs = {each["ref"].split("==")[0]: each for each in listing["dependencies"]}
    assert {"torch", "faiss-cpu", "llama-cpp-python", "sympy"} <= needs.keys()
    assert "pytest" not in needs
    licences = {each["name"].lower(): each.get("licenses") for each in listing["components"]}
    assert licences["click"] == [{"license": {"id": "BSD-3-Clause"}}]
