"""Which wheels a target needs, and where they come from."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import partial
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from fake_wheels import FakePip, Maker, make_wheel
from waiting import has_ended, until

from localrag.bundle import llama_cpp, localrag_wheel, pip_runner, targets
from localrag.bundle.installer.manifest import Target
from localrag.bundle.wheel import read_wheel
from localrag.bundle.wheels import TORCH_CPU_INDEX, WheelCollector, versions_here
from localrag.errors import BundleError, UsageError
from localrag.system import processes

WINDOWS = Target(system="windows", machine="x86_64", python="3.12")
LINUX_ARM = Target(system="linux", machine="arm64", python="3.12")


def wheel(name: str, version: str = "1.0", tag: str = "py3-none-any", *requires: str) -> Maker:
    return partial(make_wheel, name=name, version=version, tag=tag, requires=requires)


def gather(
    folder: Path,
    wheels: Mapping[str, Maker],
    *requires: str,
    target: Target | None = None,
    versions: Mapping[str, str] | None = None,
    source_only: tuple[str, ...] = (),
) -> tuple[WheelCollector, FakePip]:
    """A gathering whose localrag requires these."""
    pip = FakePip({"pip": wheel("pip", "99.0"), **wheels}, source_only)
    folder.mkdir()
    gathering = WheelCollector(
        target or targets.here(), folder, versions or {}, lambda *_, **__: None, pip
    )
    gathering.add(make_wheel(folder.parent / "own", "localrag-offline", requires=requires))
    return gathering, pip


def test_dependencies_of_dependencies_come_in_versions_here(tmp_path: Path) -> None:
    packages = {
        "one==1.5": wheel("one", "1.5", "py3-none-any", "Two_Two<9"),
        "two-two<9": wheel("two-two", "8.0"),
    }
    gathering, pip = gather(tmp_path / "w", packages, "one>=1", versions={"one": "1.5", "pip": "1"})
    wheels = gathering.complete()
    assert [(package.name, package.version) for package in wheels] == [
        ("localrag-offline", "1.0"),
        ("one", "1.5"),
        ("pip", "99.0"),
        ("two-two", "8.0"),
    ]
    assert {package.path.parent for package in wheels} == {tmp_path / "w"}
    assert sorted(pip.asked) == ["one==1.5", "pip", "two-two<9"]
    assert all("--no-deps" in call for call in pip.calls)


def test_a_tested_version_that_nobody_wants_any_more_is_not_pinned(tmp_path: Path) -> None:
    wheels = {"one>=2": wheel("one", "2.1")}
    gathering, _ = gather(tmp_path / "w", wheels, "one>=2", versions={"one": "1.5"})
    assert [package.version for package in gathering.complete() if package.name == "one"] == ["2.1"]


def test_markers_are_those_of_the_target_not_of_this_machine(tmp_path: Path) -> None:
    requires = (
        "for-windows; sys_platform == 'win32'",
        "for-linux; sys_platform == 'linux'",
        "for-new; python_version >= '3.12'",
        "for-old; python_version < '3.12'",
        "for-arm; platform_machine == 'aarch64'",
    )
    wheels = {name: wheel(name) for name in ("for-windows", "for-linux", "for-new", "for-arm")}
    windows, pip = gather(tmp_path / "w", wheels, *requires, target=WINDOWS)
    names = {package.name for package in windows.complete()}
    assert names == {"localrag-offline", "pip", "for-windows", "for-new"}
    assert all("--only-binary=:all:" in call for call in pip.calls)
    assert all("--platform=win_amd64" in call for call in pip.calls)
    assert all("--python-version=3.12" in call for call in pip.calls)
    arm, pip = gather(tmp_path / "a", wheels, *requires, target=LINUX_ARM)
    assert {package.name for package in arm.complete()} == {
        "localrag-offline",
        "pip",
        "for-linux",
        "for-new",
        "for-arm",
    }
    assert all("--platform=manylinux_2_28_aarch64" in call for call in pip.calls)


def test_extras_bring_what_they_name_and_only_that(tmp_path: Path) -> None:
    package = wheel(
        "one", "1.0", "py3-none-any", "plain", "fast; extra == 'speed'", "odd; extra == 'other'"
    )
    wheels = {"one": package, "plain": wheel("plain"), "fast": wheel("fast")}
    gathering, _ = gather(tmp_path / "w", wheels, "one[speed]")
    names = {member.name for member in gathering.complete()}
    assert names == {"localrag-offline", "pip", "one", "plain", "fast"}


def test_a_contradiction_is_named(tmp_path: Path) -> None:
    wheels = {
        "one": wheel("one", "1.0", "py3-none-any", "two<2"),
        "two": wheel("two", "3.0"),
    }
    gathering, _ = gather(tmp_path / "w", wheels, "one", "two")
    with pytest.raises(
        BundleError, match=r"two 3\.0 is there, but localrag-offline, one asks for two<2"
    ):
        gathering.complete()


def test_pure_python_without_a_wheel_is_built_for_another_system(tmp_path: Path) -> None:
    wheels = {"jieba": wheel("jieba"), "other": wheel("other", "1.0", "cp312-cp312-win_amd64")}
    gathering, pip = gather(
        tmp_path / "w", wheels, "jieba", "other", target=WINDOWS, source_only=("jieba",)
    )
    assert {package.name for package in gathering.complete()} == {
        "localrag-offline",
        "pip",
        "jieba",
        "other",
    }
    built = [call for call in pip.calls if call[0] == "wheel"]
    assert [call[-1] for call in built] == ["jieba"]


def test_a_tested_version_that_was_not_built_for_the_target_gives_way(tmp_path: Path) -> None:
    wheels = {
        "one<3,>=1": wheel("one", "1.9", "cp312-cp312-win_amd64"),
        "jieba==0.42": wheel("jieba", "0.42"),
    }
    versions = {"one": "2.0", "jieba": "0.42"}
    gathering, _ = gather(
        tmp_path / "w",
        wheels,
        "one>=1,<3",
        "jieba",
        target=WINDOWS,
        versions=versions,
        source_only=("jieba",),
    )
    messages: list[str] = []
    gathering._announce = lambda template, **values: messages.append(template.format(**values))
    versions_got = {package.name: package.version for package in gathering.complete()}
    assert (versions_got["one"], versions_got["jieba"]) == ("1.9", "0.42")
    assert "one: 1.9 instead of 2.0, which is not available for windows-x86_64" in messages


def test_what_must_be_compiled_elsewhere_says_how(tmp_path: Path) -> None:
    wheels = {"hard": wheel("hard", "1.0", "cp311-cp311-linux_x86_64")}
    gathering, _ = gather(tmp_path / "w", wheels, "hard", target=WINDOWS, source_only=("hard",))
    with pytest.raises(BundleError, match=r"hard has no wheel for windows-x86_64 .*--wheel"):
        gathering.complete()


@pytest.mark.parametrize(
    ("target", "version", "asked"),
    [
        (Target(system="linux", machine="arm64", python="3.12"), "2.13.0", "torch==2.13.0+cpu"),
        (Target(system="linux", machine="arm64", python="3.12"), "2.13.0+cpu", "torch==2.13.0+cpu"),
        (
            Target(system="linux", machine="x86_64", python="3.12", accelerator="cuda"),
            "2.13.0+cpu",
            "torch===2.13.0",
        ),
        (Target(system="macos", machine="arm64", python="3.12"), "2.13.0+cpu", "torch===2.13.0"),
        (WINDOWS, "2.13.0+cpu", "torch===2.13.0"),
    ],
    ids=["linux", "linux as tested", "cuda", "macos", "windows"],
)
def test_torch_is_the_build_for_what_computes_there(
    target: Target, version: str, asked: str, tmp_path: Path
) -> None:
    wheels = {asked: wheel("torch", asked.rpartition("=")[2])}
    gathering, pip = gather(
        tmp_path / "w", wheels, "torch", target=target, versions={"torch": version}
    )
    gathering.complete()
    assert asked in pip.asked


def test_torch_for_the_cpu_is_fetched_from_its_own_index_where_the_usual_has_none(
    tmp_path: Path,
) -> None:
    class WithoutCpuBuilds(FakePip):
        def __call__(self, *arguments: str, hear: object = None) -> tuple[int, list[str]]:
            if "torch==2.13.0+cpu" in arguments and TORCH_CPU_INDEX not in arguments:
                self.calls.append(arguments)
                return 1, ["ERROR: No matching distribution found for torch==2.13.0+cpu"]
            return super().__call__(*arguments, hear=hear)

    wheels = {"pip": wheel("pip"), "torch==2.13.0+cpu": wheel("torch", "2.13.0+cpu")}
    pip = WithoutCpuBuilds(wheels)
    (tmp_path / "w").mkdir()
    gathering = WheelCollector(
        LINUX_ARM, tmp_path / "w", {"torch": "2.13.0"}, lambda *_, **__: None, pip
    )
    gathering.add(make_wheel(tmp_path, "localrag-offline", requires=("torch",)))
    gathering.complete()
    with_torch = [call for call in pip.calls if "torch==2.13.0+cpu" in call]
    assert [TORCH_CPU_INDEX in call for call in with_torch] == [False, True]


def test_a_wheel_for_another_machine_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    gathering = WheelCollector(WINDOWS, tmp_path / "w", {}, lambda *_, **__: None, FakePip({}))
    with pytest.raises(BundleError, match=r"does not run on windows-x86_64 with Python 3\.12"):
        gathering.add(make_wheel(tmp_path, "one", tag="cp312-cp312-manylinux_2_28_x86_64"))
    with pytest.raises(BundleError, match="does not run on windows"):
        gathering.add(make_wheel(tmp_path, "one", tag="cp313-cp313-win_amd64"))
    for tag in ("cp312-cp312-win_amd64", "cp311-abi3-win_amd64", "py3-none-win_amd64"):
        gathering.add(make_wheel(tmp_path, "one", tag=tag))
    arm = WheelCollector(LINUX_ARM, tmp_path / "w", {}, lambda *_, **__: None, FakePip({}))
    for tag in ("py3-none-linux_aarch64", "py3-none-manylinux_2_34_aarch64"):
        arm.add(make_wheel(tmp_path, "one", tag=tag))
    with pytest.raises(BundleError, match="does not run on linux-arm64"):
        arm.add(make_wheel(tmp_path, "one", tag="py3-none-linux_x86_64"))


def test_a_wheel_that_nobody_needs_is_named(tmp_path: Path) -> None:
    gathering, _ = gather(tmp_path / "w", {})
    gathering.add(make_wheel(tmp_path, "lama-cpp-python"))
    with pytest.raises(UsageError, match="Nothing in the bundle needs lama-cpp-python"):
        gathering.complete()


def test_what_pip_said_is_passed_on(tmp_path: Path) -> None:
    gathering, _ = gather(tmp_path / "w", {}, "gone")
    with pytest.raises(BundleError, match="No matching distribution found for gone"):
        gathering.complete()


def test_a_file_that_is_no_wheel_is_named(tmp_path: Path) -> None:
    path = tmp_path / "one-1.0-py3-none-any.whl"
    path.write_bytes(b"PK but no zip")
    with pytest.raises(BundleError, match=str(path)):
        read_wheel(path)
    path.rename(tmp_path / "one.whl")
    with pytest.raises(BundleError, match=r"one\.whl is not a readable wheel"):
        read_wheel(tmp_path / "one.whl")


@pytest.mark.parametrize(
    ("headers", "licence"),
    [
        ("License-Expression: MIT\nLicense: other\n", "MIT"),
        ("License: BSD\nClassifier: License :: OSI Approved :: MIT License\n", "BSD"),
        ("License: UNKNOWN\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        (
            "License: Copyright (c) 2001 Somebody\n"
            "Classifier: License :: OSI Approved :: BSD License\n",
            "BSD License",
        ),
        ("Classifier: License :: OSI Approved\n", ""),
        ("", ""),
    ],
)
def test_the_licence_is_what_the_wheel_says(headers: str, licence: str, tmp_path: Path) -> None:
    assert read_wheel(make_wheel(tmp_path, "one", headers=headers)).licence == licence


def test_licence_files_are_found_where_projects_put_them(tmp_path: Path) -> None:
    newer = make_wheel(tmp_path, "newer", extra_files={"newer/LICENSE": "inside"})
    assert read_wheel(newer).licence_files() == {"LICENSE": b"Permission is granted."}
    places = {"older-1.0.dist-info/COPYING.txt": "a", "older-1.0.dist-info/NOTICE": "b"}
    older = make_wheel(tmp_path, "older", licence=None, extra_files=places)
    assert read_wheel(older).licence_files() == {"COPYING.txt": b"a", "NOTICE": b"b"}
    places = {"inner/LICENSE": "c", "inner/license.py": "d"}
    inner = make_wheel(tmp_path, "inner", licence=None, extra_files=places)
    assert read_wheel(inner).licence_files() == {"LICENSE": b"c"}
    assert read_wheel(make_wheel(tmp_path, "none", licence=None)).licence_files() == {}


def test_building_takes_what_is_installed_where_it_is() -> None:
    assert pip_runner.build_options("pytest", "packaging") == ["--no-build-isolation"]
    assert pip_runner.build_options("pytest", "not_installed_anywhere") == []


def installed(tmp_path: Path) -> Distribution:
    """A distribution as an installer leaves it: unpacked, with files of the installer's."""
    import zipfile

    site = tmp_path / "site"
    with zipfile.ZipFile(make_wheel(tmp_path / "first", "localrag-offline", "1.0")) as archive:
        archive.extractall(site)
    info = site / "localrag_offline-1.0.dist-info"
    (info / "INSTALLER").write_text("pip\n")
    record = (info / "RECORD").read_text() + "localrag_offline-1.0.dist-info/INSTALLER,,\n"
    (info / "RECORD").write_text(record + "../../bin/localrag,,\n")
    return Distribution.at(info)


def test_an_installed_localrag_is_packed_again_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    repacked_wheel = localrag_wheel.repack(installed(tmp_path), tmp_path / "again")
    assert repacked_wheel.name == "localrag_offline-1.0-py3-none-any.whl"
    first = read_wheel(tmp_path / "first" / repacked_wheel.name)
    assert read_wheel(repacked_wheel).metadata.items() == first.metadata.items()
    import zipfile

    with zipfile.ZipFile(first.path) as original, zipfile.ZipFile(repacked_wheel) as copy:
        assert sorted(original.namelist()) == sorted(copy.namelist())
        for name in original.namelist():
            if not name.endswith("RECORD"):
                assert original.read(name) == copy.read(name)
        rows = {name: sorted(original.read(name).splitlines()) for name in original.namelist()[-1:]}
        assert rows == {name: sorted(copy.read(name).splitlines()) for name in rows}


def test_an_installed_localrag_that_was_changed_is_refused(tmp_path: Path) -> None:
    distribution = installed(tmp_path)
    (tmp_path / "site" / "localrag_offline" / "__init__.py").write_text("changed")
    with pytest.raises(
        BundleError, match=r"localrag_offline/__init__\.py is not as it was installed"
    ):
        localrag_wheel.repack(distribution, tmp_path)
    (tmp_path / "site" / "localrag_offline" / "__init__.py").unlink()
    with pytest.raises(
        BundleError, match=r"localrag_offline/__init__\.py is not as it was installed"
    ):
        localrag_wheel.repack(distribution, tmp_path)


def test_versions_here_are_those_of_this_environment() -> None:
    import click

    assert click.__name__ in versions_here()
    assert "rank-bm25" in versions_here()


def test_variants_of_llama_cpp_are_seen(tmp_path: Path) -> None:
    lib = "llama_cpp_python-1.0.data/platlib/llama_cpp/lib"
    many = {f"{lib}/libggml-cpu-haswell.so": "", "llama_cpp/lib/libggml-cpu-x64.so": ""}
    name = "llama-cpp-python"
    assert llama_cpp.variants(make_wheel(tmp_path, name, extra_files=many)) == [
        "libggml-cpu-haswell.so",
        "libggml-cpu-x64.so",
    ]
    members = {"llama_cpp/lib/libggml-cpu.so": "", "llama_cpp/lib/libggml-cpu.so.0": ""}
    assert llama_cpp.variants(make_wheel(tmp_path, name, extra_files=members)) == []


def test_a_portable_wheel_in_the_cache_is_taken_without_compiling(tmp_path: Path) -> None:
    ready = make_wheel(tmp_path / "portable" / "llama-cpp-python-1.0", "llama-cpp-python")
    assert llama_cpp.make("1.0", tmp_path, lambda *_, **__: None) == ready


def test_a_program_is_heard_line_by_line_and_its_end_is_told() -> None:
    messages: list[str] = []
    code, last = pip_runner.run(
        processes.python("print('ä'); print('b'); exit(3)", utf8=True), hear=messages.append
    )
    assert (code, last, messages) == (3, ["ä", "b"], ["ä", "b"])


@pytest.mark.skipif(sys.platform == "win32", reason="only on POSIX: process groups")
def test_an_interrupt_ends_the_program_and_what_it_started() -> None:
    child = "import time; time.sleep(60)"
    parent = (
        "import subprocess, sys;"
        f"p = subprocess.Popen([sys.executable, '-c', {child!r}]);"
        "print(p.pid, flush=True); p.wait()"
    )
    pids: list[int] = []

    def hear(line: str) -> None:
        pids.append(int(line))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pip_runner.run(processes.python(parent), hear=hear)
    until(lambda: has_ended(pids[0]))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((None, "3.10", None), "run on Python 3.10"),
        ((None, "3", None), "run on Python 3"),
        ((None, "3.x", None), "run on Python 3.x"),
        (("linux-x86_64", None, "metal"), "linux-x86_64 has no metal"),
        (("macos-arm64", None, "cuda"), "macos-arm64 has no cuda"),
    ],
)
def test_a_target_that_cannot_be_is_refused(
    given: tuple[str | None, str | None, str | None], said: str
) -> None:
    with pytest.raises(UsageError, match=said.replace(".", r"\.")):
        targets.chosen(*given)


def test_targets_have_their_usual_accelerator() -> None:
    assert targets.chosen("macos-arm64", "3.13", None).accelerator == "metal"
    assert targets.chosen("macos-x86_64", "3.13", None).accelerator == "cpu"
    assert targets.chosen("windows-x86_64", None, "cuda").accelerator == "cuda"
    assert targets.is_here(targets.chosen(None, None, None))
    assert not targets.is_here(targets.chosen(None, "3.99", None))
