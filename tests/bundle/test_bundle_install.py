"""From a bundle to a working installation, and what is left when it is cut off."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from install_fixtures import make_bundle, make_delta, wheel, write_manifest, zipped

from localrag.bundle.installer import environments, installation, machine, program, pythons, storage
from localrag.bundle.installer.installation import Installer
from localrag.bundle.installer.verification import verify
from localrag.errors import BundleError

ON_WINDOWS = os.name == "nt"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "bundle")


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "to here" / "it goes"


def install(bundle: Path, target: Path, *more: str) -> int:
    return program.main([str(bundle), "--to", str(target), "--yes", *more], bundle / "install.py")


def launch(target: Path, *words: str) -> list[str]:
    launcher = target / "bin" / ("localrag.bat" if ON_WINDOWS else "localrag")
    environment = {k: v for k, v in os.environ.items() if k != "LOCALRAG_MODELS"}
    result = subprocess.run(
        [str(launcher), *words], env=environment, capture_output=True, text=True, check=True
    )
    return result.stdout.splitlines()


def state(target: Path) -> dict[str, bytes]:
    """Every file that is not Python's own, by its path."""
    return {
        path.relative_to(target).as_posix(): path.read_bytes()
        for path in sorted(target.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_install_and_again(bundle: Path, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(bundle, there) == 0
    output = capsys.readouterr().out
    assert [line.rpartition("localrag")[2][-12:] for line in output.splitlines()[-3:]] == [
        "' doctor",
        "' add FOLDER"[-12:],
        'k "QUESTION"',
    ]
    assert launch(there, "a b", "$HOME", "c")[0] == "['a b', '$HOME', 'c']"
    assert Path(launch(there)[1]).resolve() == (there / "models").resolve()
    assert (there / "models/tiny/model.gguf").read_bytes() == b"weights" * 1000
    before, times = state(there), (there / "models/tiny/model.gguf").stat().st_mtime_ns
    assert install(bundle, there) == 0
    assert state(there) == before
    assert (there / "models/tiny/model.gguf").stat().st_mtime_ns == times
    assert "Unpacking" not in capsys.readouterr().out


def test_with_the_pip_of_the_bundle_and_without(tmp_path: Path) -> None:
    for kind in ("real", "none"):
        bundle = make_bundle(tmp_path / kind, pip=kind)  # type: ignore[arg-type]
        assert install(bundle, tmp_path / f"there {kind}") == 0
        assert launch(tmp_path / f"there {kind}", "--version")[0] == "localrag 9.9.9"


def test_from_an_archive(bundle: Path, there: Path, tmp_path: Path) -> None:
    assert install(zipped(bundle, tmp_path / "b.zip", "bundle/"), there) == 0
    assert launch(there, "--version")[0] == "localrag 9.9.9"
    assert (there / "models/other/deep/model.onnx").read_bytes() == b"other weights"


def test_damage_is_repaired_by_a_second_run(bundle: Path, there: Path) -> None:
    assert install(bundle, there) == 0
    (there / "models/tiny/model.gguf").unlink()
    (there / "models/tiny/model.gguf").write_bytes(b"rubbish" * 1000)
    (there / "models/other/deep/model.onnx").unlink()
    code = next((there / "venv").rglob("helper/__init__.py"))
    code.write_text("VALUE = 2\n")
    launcher = next((there / "bin").iterdir())
    launcher.write_text("exit 1\n")
    assert install(bundle, there) == 0
    assert (there / "models/tiny/model.gguf").read_bytes() == b"weights" * 1000
    assert (there / "models/other/deep/model.onnx").is_file()
    assert next((there / "venv").rglob("helper/__init__.py")).read_text() == "VALUE = 1\n"
    assert launch(there, "--version")[0] == "localrag 9.9.9"


def test_a_bundle_that_is_written_over_does_not_change_the_installation(
    bundle: Path, there: Path
) -> None:
    """As `cp` does it: into the file that is there, and so into every name that it has."""
    assert install(bundle, there) == 0
    for path in bundle.rglob("*"):
        if path.is_file():
            with path.open("r+b") as stream:
                stream.write(b"of a newer bundle")
    assert (there / "models/tiny/model.gguf").read_bytes() == b"weights" * 1000
    assert (there / "models/other/deep/model.onnx").read_bytes() == b"other weights"
    assert launch(there, "--version")[0] == "localrag 9.9.9"


@pytest.mark.parametrize(
    "spoilt",
    [
        b"\xff\xfe",
        b"a\x00b,sha256=x,1\n",
        b"a" * 200_000,
        b"\x00" * 500,
        b"",
        b"helper/__init__.py,sha256=\xe4\xbd\xa0,1\n",
        b"..,sha256=x,1\n",
    ],
    ids=["encoding", "null byte", "field too long", "zeros", "empty", "hash", "folder"],
)
def test_a_damaged_record_is_repaired(bundle: Path, there: Path, spoilt: bytes) -> None:
    assert install(bundle, there) == 0
    environment = next((there / "venv").iterdir())
    assert environments.is_whole(environment, 3)
    record = next(environment.rglob("helper-1.0.dist-info/RECORD"))
    sound = record.read_bytes()
    record.write_bytes(spoilt)
    assert not environments.is_whole(environment, 3)
    assert install(bundle, there) == 0
    assert next((there / "venv").rglob("helper-1.0.dist-info/RECORD")).read_bytes() == sound


@pytest.mark.parametrize("name", ["wheels/helper-1.0-py3-none-any.whl", "models/tiny/model.gguf"])
def test_what_is_changed_after_the_check_is_not_installed(
    bundle: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
) -> None:
    """By somebody who may write in the bundle's folder, in place and with the same size."""
    run = Installer.run

    def running(self: Installer) -> Path:
        path = bundle / name
        path.write_bytes(bytes(path.stat().st_size))
        return run(self)

    monkeypatch.setattr(Installer, "run", running)
    assert install(bundle, there) == 1
    assert f"{name} changed while it was read" in capsys.readouterr().err
    assert not (there / "bin").exists()


@pytest.mark.parametrize("error", [zipfile.BadZipFile("x"), zlib.error("x"), EOFError("x")])
def test_an_archive_that_spoils_after_the_check_is_named(
    bundle: Path,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: Exception,
) -> None:
    archive = zipped(bundle, tmp_path / "bundle.zip")
    run = Installer.run

    def spoilt(self: storage.Archive, name: str) -> None:
        raise error

    def running(self: Installer) -> Path:
        monkeypatch.setattr(storage.Archive, "open", spoilt)
        return run(self)

    monkeypatch.setattr(Installer, "run", running)
    assert install(archive, there) == 1
    # Models are copied while packages are unpacked: either comes to it first.
    names = ("models/other/deep/model.onnx", "wheels/helper-1.0-py3-none-any.whl")
    printed = capsys.readouterr().err
    assert any(f"{name} changed while it was read" in printed for name in names)
    assert not list(there.rglob("*.part"))


def test_models_that_cannot_be_copied_leave_no_environment_behind(
    bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(self: Installer) -> None:
        raise BundleError("The disk is full.", hint="Free some space.")

    with monkeypatch.context() as patched:
        patched.setattr(Installer, "_fetch_models", refused)
        assert install(bundle, there) == 1
    assert "The disk is full. Free some space." in capsys.readouterr().err
    assert not list((there / "venv").iterdir())
    assert install(bundle, there) == 0


def test_an_upgrade_keeps_what_is_the_users(there: Path, tmp_path: Path) -> None:
    # Bundles of 0.1 carry a wheel of the former name.
    assert install(make_bundle(tmp_path / "older", distribution="localrag"), there) == 0
    own_files = {
        "models/mine/my.gguf": b"mine",
        "library/catalogue.sqlite": b"mine",
        "config.toml": b"x",
    }
    for path, content in own_files.items():
        (there / path).parent.mkdir(parents=True, exist_ok=True)
        (there / path).write_bytes(content)
    (there / "models/tiny/installed.json").write_bytes(b'{"changed": "in use"}')
    newer = make_bundle(tmp_path / "newer", version="10.0.0")
    assert install(newer, there) == 0
    assert launch(there, "--version")[0] == "localrag 10.0.0"
    assert {path: (there / path).read_bytes() for path in own_files} == own_files
    assert (there / "models/tiny/installed.json").read_bytes() == b'{"changed": "in use"}'
    assert len(list((there / "venv").iterdir())) == 1
    assert json.loads((there / "installed.json").read_text())["localrag"] == "10.0.0"


def test_a_delta_with_its_base(bundle: Path, there: Path, tmp_path: Path) -> None:
    newer = make_bundle(tmp_path / "newer", version="10.0.0", model=b"new weights")
    delta = make_delta(bundle, newer, tmp_path / "delta")
    assert install(delta, there) == 1
    assert not there.exists()
    assert install(delta, there, "--base", str(zipped(bundle, tmp_path / "base.zip"))) == 0
    assert launch(there, "--version")[0] == "localrag 10.0.0"
    assert (there / "models/tiny/model.gguf").read_bytes() == b"new weights"
    assert (there / "models/other/deep/model.onnx").read_bytes() == b"other weights"


class Cut(BaseException):
    """The process ends here."""


def cutting(real: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The function, but that the process ends before or after one of its calls."""
    calls = 0

    def cut(*arguments: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == (count + 1) // 2 and count % 2:
            raise Cut
        result = real(*arguments, **more)
        if calls == (count + 1) // 2:
            raise Cut
        return result

    return cut


STEPS: list[tuple[Any, str]] = [
    (os, "link"),
    (os, "fsync"),
    (os, "replace"),
    (shutil, "rmtree"),
    (environments, "_run"),
    (installation, "write"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("place", "name"), STEPS, ids=lambda value: str(value))
@pytest.mark.parametrize("upgrade", [False, True], ids=["new", "upgrade"])
def test_cut_off_anywhere_it_works_as_before_or_is_completed(
    bundle: Path,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    place: Any,
    name: str,
    upgrade: bool,
) -> None:
    """Before and after each call of `name`, the process ends."""
    newer = make_bundle(tmp_path / "newer", version="10.0.0", model=b"new weights")
    real = getattr(place, name)
    for count in range(1, 30):
        shutil.rmtree(there, ignore_errors=True)
        if upgrade:
            assert install(bundle, there) == 0
        monkeypatch.setattr(place, name, cutting(real, count))
        try:
            finished = install(newer, there) == 0
        except Cut:
            finished = False
        monkeypatch.undo()
        if upgrade:
            version = launch(there, "--version")[0]
            assert version in ("localrag 9.9.9", "localrag 10.0.0")
        if finished:
            break
        assert install(newer, there) == 0
        assert launch(there, "--version")[0] == "localrag 10.0.0"
        assert (there / "models/tiny/model.gguf").read_bytes() == b"new weights"
        assert not list(there.rglob("*.part"))
        assert len(list((there / "venv").iterdir())) == 1
    else:
        pytest.fail("never came to its end")


def prepare(bundle: Path, target: Path) -> str:
    with pytest.raises(BundleError) as error:
        Installer(verify(bundle), target, print).prepare()
    return str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"system": "beos"}, "The bundle is for beos-"),
        ({"machine": "vax"}, "-vax; this machine"),
        ({"python": "3.1"}, "The bundle is for Python 3.1"),
    ],
)
def test_another_machine_is_refused(
    bundle: Path, there: Path, change: dict[str, str], said: str
) -> None:
    target = json.loads((bundle / "manifest.json").read_text())["target"]
    write_manifest(bundle, target=target | change)
    assert said in prepare(bundle, there)
    assert install(bundle, there) == 1
    assert not there.exists()


def test_an_older_bundle_replaces_a_newer_one_only_if_that_is_said(
    bundle: Path, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its signature is good as well, and so are the faults that the newer one has mended."""
    write_manifest(bundle, created="2026-03-01T00:00:00Z")
    assert install(bundle, there) == 0
    write_manifest(bundle, created="2026-02-28T23:59:59Z")
    assert install(bundle, there) == 1
    stderr = capsys.readouterr().err
    assert "of 2026-02-28T23:59:59Z is older than the one that is installed" in stderr
    assert "--older" in stderr
    record = (there / "installed.json").read_bytes()
    write_manifest(bundle, created="2026-03-01T00:00:00+00:00")
    assert install(bundle, there) == 0
    write_manifest(bundle, created="2026-02-28T23:59:59Z")
    assert install(bundle, there, "--older") == 0
    assert (there / "installed.json").read_bytes() != record


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux is there a glibc")
def test_a_wheel_for_a_newer_system_is_named(bundle: Path, there: Path) -> None:
    wheel = next((bundle / "wheels").glob("helper*"))
    processor = machine.this_machine()[1]
    old = wheel.rename(wheel.with_name(f"helper-1.0-py3-none-manylinux2014_{processor}.whl"))
    write_manifest(bundle)
    Installer(verify(bundle), there, print).prepare()
    old.rename(old.with_name(f"helper-1.0-py3-none-manylinux_2_99_{processor}.whl"))
    write_manifest(bundle)
    assert "helper-1.0-py3-none-manylinux_2_99" in prepare(bundle, there)
    assert "needs glibc 2.99 or newer" in prepare(bundle, there)


def test_a_folder_with_other_things_is_left_alone(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").write_text("mine")
    assert "contains other files" in prepare(bundle, tmp_path / "full")
    assert "contains other files" in prepare(bundle, tmp_path / "full" / "letter.txt")
    assert "is inside the bundle" in prepare(bundle, bundle / "there")
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["letter.txt"]


def test_too_little_space_is_said_before_anything_is_written(
    bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(9, 9, 5_000_000))
    message = prepare(bundle, there)
    assert "5.0 MB are free" in message
    assert not there.exists()


@pytest.mark.parametrize(("place", "name"), [(os, "replace"), (os, "fsync")])
def test_a_full_disk_is_said_and_leaves_the_old_one(
    bundle: Path,
    there: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    place: Any,
    name: str,
) -> None:
    assert install(bundle, there) == 0
    newer = make_bundle(tmp_path / "newer", version="10.0.0", model=b"new weights")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", str(there))

    monkeypatch.setattr(place, name, full)
    assert install(newer, there) == 1
    monkeypatch.undo()
    assert "No space left on device" in capsys.readouterr().err
    assert launch(there, "--version")[0] == "localrag 9.9.9"
    assert install(newer, there) == 0


@pytest.mark.skipif(ON_WINDOWS, reason="only where a process can be kept from large files")
def test_what_a_file_took_is_given_back_where_it_does_not_fit(
    bundle: Path, there: Path, tmp_path: Path
) -> None:
    import resource

    assert install(bundle, there) == 0
    newer = make_bundle(tmp_path / "newer", version="10.0.0", model=os.urandom(3_000_000))
    archive = zipped(newer, tmp_path / "newer.zip")
    result = subprocess.run(
        [sys.executable, str(newer / "install.py"), str(archive), "--to", str(there), "--yes"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000)),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "Check the free space" in result.stderr
    assert not list(there.rglob("*.part"))
    assert launch(there, "--version")[0] == "localrag 9.9.9"
    assert install(archive, there) == 0
    assert launch(there, "--version")[0] == "localrag 10.0.0"


def test_a_home_that_takes_no_folder_is_said_with_the_way_out(
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As a read-only one does, also for root."""
    home = tmp_path / "home 主目录"
    home.touch()
    monkeypatch.setattr(Path, "home", lambda: home)
    assert program.main([str(bundle), "--yes"], bundle / "install.py") == 1
    message = capsys.readouterr().err
    assert str(home) in message
    assert "another folder with --to" in message
    assert "Traceback" not in message


def test_an_archive_that_was_cut_off_is_named(
    bundle: Path, there: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = zipped(bundle, tmp_path / "离线 bundle.zip")
    archive.write_bytes(archive.read_bytes()[:-200])
    assert install(archive, there) == 1
    message = capsys.readouterr().err
    assert "离线 bundle.zip is not a readable archive" in message
    assert "Copy the bundle again" in message
    assert not there.exists()


@pytest.mark.skipif(ON_WINDOWS or os.geteuid() == 0, reason="only where rights bind")
def test_a_place_where_nobody_may_write(bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert install(bundle, tmp_path / "closed" / "there") == 1


def test_a_package_that_does_not_start(
    bundle: Path, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(bundle, localrag="9.9.8")
    assert install(bundle, there) == 1
    assert "does not start: localrag 9.9.9" in capsys.readouterr().err
    assert not (there / "bin").exists()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGILL)", "this processor does not have"),
        ("raise ImportError('libfoo.so is not there')", "libfoo.so is not there"),
    ],
)
@pytest.mark.skipif(ON_WINDOWS, reason="only where signals end a process")
def test_machine_code_is_tried_before_it_counts(
    tmp_path: Path, there: Path, capsys: pytest.CaptureFixture[str], code: str, said: str
) -> None:
    from install_fixtures import wheel

    bundle = make_bundle(tmp_path / "bundle")
    path = wheel(bundle / "wheels", "llama_cpp", "1.0", {"__init__.py": code})
    path.rename(path.with_name("llama_cpp_python-1.0-py3-none-any.whl"))
    write_manifest(bundle)
    assert install(bundle, there) == 1
    assert said in capsys.readouterr().err
    assert not (there / "bin").exists()


def test_two_at_a_time(bundle: Path, there: Path) -> None:
    there.mkdir(parents=True)
    with installation.alone(there):
        command = [sys.executable, str(bundle / "install.py"), "--to", str(there), "--yes"]
        result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "Another installation" in result.stderr
    assert install(bundle, there) == 0


def test_nobody_to_ask(bundle: Path, there: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, str(bundle / "install.py"), "--to", str(there)]
    result = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert result.returncode == 1
    assert "--yes" in result.stderr
    assert not there.exists()


@pytest.mark.parametrize(("answer", "installed"), [("n", False), ("", True), ("是", True)])
def test_asking(
    bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch, answer: str, installed: bool
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    ask: Callable[[str], str] = lambda question: answer  # noqa: E731
    monkeypatch.setattr("builtins.input", ask)
    assert program.main([str(bundle), "--to", str(there)], bundle / "install.py") == (
        0 if installed else 1
    )
    assert there.exists() == installed


def test_pip_of_the_machine_is_not_asked(
    bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://example.invalid")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    calls = []
    real = subprocess.Popen

    def watching(command: list[str], **more: Any) -> Any:
        calls.append((command, more.get("env") or {}))
        return real(command, **more)

    monkeypatch.setattr(subprocess, "Popen", watching)
    assert install(bundle, there) == 0
    pip = [(command, env) for command, env in calls if "install" in command]
    assert len(pip) == 1
    command, environment = pip[0]
    assert {"-I", "--no-index", "--no-deps", "--disable-pip-version-check"} <= set(command)
    assert environment["PIP_CONFIG_FILE"] == os.devnull
    assert "PIP_INDEX_URL" not in environment


def test_the_python_that_is_wanted_takes_over_if_it_is_there(
    bundle: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system, processor, _ = machine.this_machine()
    monkeypatch.setattr(program, "this_machine", lambda: (system, processor, "2.7"))
    versions = []

    def other(names: list[str]) -> list[str]:
        versions.extend(names)
        return [sys.executable]

    monkeypatch.setattr(pythons, "find", other)
    monkeypatch.chdir(bundle.parent)
    assert program.main(["bundle", "--to", str(there), "--yes"], bundle / "install.py") == 0
    assert versions == ["{}.{}".format(*sys.version_info[:2])]
    assert launch(there, "--version")[0] == "localrag 9.9.9"


def test_looking_for_another_python() -> None:
    assert pythons.find(["3.99"]) is None
    version = "{}.{}".format(*sys.version_info[:2])
    interpreter = pythons.find(["3.99", version])
    if interpreter is not None:
        ask = "import sys; print('{}.{}'.format(*sys.version_info[:2]))"
        result = subprocess.run(
            [*interpreter, "-c", ask], capture_output=True, text=True, check=True
        )
        assert result.stdout.strip() == version


def test_a_python_without_pip_of_its_own(
    tmp_path: Path,
    there: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As Debian's without python3-venv."""
    import venv

    def fails(*_: Any) -> None:
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(venv.EnvBuilder, "_setup_pip", fails)
    assert install(make_bundle(tmp_path / "without", pip="none"), there) == 1
    assert "cannot make an environment with pip" in capsys.readouterr().err
    assert install(make_bundle(tmp_path / "with", pip="quick"), there) == 0
    assert launch(there, "--version")[0] == "localrag 9.9.9"


def test_a_database_client_that_does_not_load_is_named(
    bundle: Path, there: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel(bundle / "wheels", "psycopg", "3.3", {"__init__.py": "raise ImportError('no libpq')"})
    wheel(bundle / "wheels", "psycopg_binary", "3.3", {"__init__.py": ""})
    write_manifest(bundle)
    assert install(bundle, there) == 1
    output = capsys.readouterr()
    assert "Extras: postgres" in output.out
    assert "The package psycopg_binary does not run here: " in output.err
    assert "no libpq" in output.err
