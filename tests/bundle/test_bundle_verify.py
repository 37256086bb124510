"""What is not as it was made is found, named, and never ends in a traceback."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from install_fixtures import make_bundle, make_delta, wheel, write_manifest, zipped

from localrag import messages
from localrag.bundle.installer import program, storage
from localrag.bundle.installer.manifest import LARGEST
from localrag.bundle.installer.verification import verify
from localrag.cli.bundle import verify as verify_command
from localrag.errors import BundleError
from localrag.messages import spoken


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "bundle")


def problem(path: Path, **more: Any) -> str:
    with pytest.raises(BundleError) as error:
        verify(path, **more)
    return spoken(error.value)


def verify_only(path: Path) -> int:
    return program.main([str(path), "--verify-only"], Path())


def change(bundle: Path, alter: Callable[[dict[str, Any]], None]) -> None:
    manifest = json.loads((bundle / "manifest.json").read_text("utf-8"))
    alter(manifest)
    (bundle / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def set_path(path: object) -> Callable[[dict[str, Any]], None]:
    def alter(manifest: dict[str, Any]) -> None:
        manifest["files"][0]["path"] = path

    return alter


def test_a_sound_bundle_as_folder_and_as_archive(bundle: Path, tmp_path: Path) -> None:
    for place in (
        bundle,
        zipped(bundle, tmp_path / "a.zip"),
        zipped(bundle, tmp_path / "b.zip", "bundle/"),
    ):
        checked = verify(place)
        assert len(checked.manifest.files) == 8
        assert not checked.signed
        assert [model.path for model in checked.manifest.models] == [
            "models/other/deep/model.onnx",
            "models/tiny/installed.json",
            "models/tiny/model.gguf",
        ]


def test_what_file_managers_leave_behind_is_not_looked_at(bundle: Path) -> None:
    for name in (".DS_Store", "wheels/._helper.whl", "docs/Thumbs.db"):
        (bundle / name).write_bytes(b"litter")
    verify(bundle)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "not of its size"),
        (lambda path: path.write_bytes(b"\x00" + path.read_bytes()[1:]), "altered"),
        (lambda path: path.unlink(), "missing"),
        (lambda path: path.rename(path.with_name("x")), "not in the manifest"),
    ],
    ids=["cut short", "flipped bit", "missing", "extra"],
)
def test_a_spoilt_file_is_named(
    bundle: Path, tmp_path: Path, spoil: Callable[[Path], None], fault: str, packed: bool
) -> None:
    spoil(bundle / "models/tiny/model.gguf")
    place = zipped(bundle, tmp_path / "bundle.zip") if packed else bundle
    with pytest.raises(BundleError) as error:
        verify(place)
    assert fault in {
        fault_text for _, fault_text in cast(list[tuple[str, str]], error.value.values["faults"])
    }
    assert "models/tiny" in spoken(error.value)


@pytest.mark.parametrize(
    "path",
    [
        "../x",
        "/etc/x",
        "a/../../x",
        "a//b",
        "./a",
        "C:/x",
        "a\\b",
        "con",
        "docs/NUL.txt",
        "a/com1.log",
        "a.",
        "a ",
        "a\x1b[2J",
        "a\u202eb",
        "manifest.json",
        "models/x.gguf",
        "wheels/HELPER-1.0-py3-none-any.whl",
        "x" * 500,
        "",
        7,
        None,
    ],
)
def test_paths_that_lead_elsewhere_are_refused(bundle: Path, path: object) -> None:
    change(bundle, set_path(path))
    message = problem(bundle)
    assert "manifest.json" in message
    assert "\x1b" not in message


@pytest.mark.parametrize(
    "alter",
    [
        lambda m: m.update(format="1"),
        lambda m: m.update(format=True),
        lambda m: m.pop("target"),
        lambda m: m.update(target=[]),
        lambda m: m["files"][0].update(bytes=-1),
        lambda m: m["files"][0].update(bytes=1.5),
        lambda m: m["files"][0].update(sha256="0" * 63),
        lambda m: m["files"][0].update(in_base=True),
        lambda m: m.update(base={"manifest_sha256": "no"}),
        lambda m: m.update(files=[7]),
        lambda m: m.update(files=None),
        lambda m: m.update(localrag="\x1b[2J"),
        lambda m: m["target"].update(python="2.7"),
        lambda m: m["target"].update(python="3.11 -c pass"),
        lambda m: m["target"].update(python="3.11\n"),
        lambda m: m["target"].update(python="V:Company/3.11"),
        lambda m: m["files"].append(m["files"][0]),
        lambda m: m["files"].append(m["files"][0] | {"path": "wheels"}),
    ],
)
def test_a_manifest_that_says_nonsense(bundle: Path, alter: Callable[[Any], None]) -> None:
    change(bundle, alter)
    assert "manifest.json is not the manifest of a bundle" in problem(bundle)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[]", b"[" * 100_000, b'{"a":1,"a":2}', b"null"])
def test_a_manifest_that_is_none(bundle: Path, raw: bytes) -> None:
    (bundle / "manifest.json").write_bytes(raw)
    assert "is not the manifest of a bundle" in problem(bundle)


def test_a_newer_format_says_which_installer_to_use(bundle: Path) -> None:
    change(bundle, lambda m: m.update(format=2, files="of another shape"))
    message = problem(bundle)
    assert "format 2" in message
    assert "install.py" in message


def test_no_bundle(tmp_path: Path) -> None:
    assert "There is no bundle" in problem(tmp_path / "nothing")
    assert "contains no manifest.json" in problem(tmp_path)
    (tmp_path / "file.zip").write_bytes(b"PK\x03\x04 rubbish")
    assert "not a readable archive" in problem(tmp_path / "file.zip")


@pytest.mark.skipif(os.name == "nt", reason="only where anybody may make links")
@pytest.mark.parametrize("target", ["README.md", "..", "/etc/passwd"])
def test_links_are_refused(bundle: Path, target: str) -> None:
    (bundle / "docs" / "link").symlink_to(target)
    assert "docs/link is a link" in problem(bundle)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="only where there are such files")
def test_pipes_are_refused_and_not_waited_for(bundle: Path) -> None:
    os.mkfifo(bundle / "docs" / "pipe")
    assert "docs/pipe is a link or a device" in problem(bundle)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="only where there are such files")
@pytest.mark.parametrize("name", ["manifest.json", "manifest.json.sig"])
def test_pipes_and_links_are_refused_before_they_are_opened(bundle: Path, name: str) -> None:
    path = bundle / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    assert f"{name} is a link or a device" in problem(bundle)
    assert "There is no bundle" in problem(path)
    with pytest.raises(BundleError, match="There is no bundle"):
        storage.read_manifest(path)
    path.unlink()
    path.symlink_to(bundle / "docs")
    assert f"{name} is a link or a device" in problem(bundle)


def test_a_crowd_of_files_is_refused_in_time(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zip_path = zipped(bundle, tmp_path / "a.zip")
    monkeypatch.setattr(storage, "MOST_FILES", 8)
    for place in (bundle, zip_path):
        verify(place)
    for number in range(9):
        (bundle / f"more-{number}").touch()
    for place in (bundle, zipped(bundle, tmp_path / "b.zip")):
        assert "contains more files than a bundle may" in problem(place)


def test_many_files_of_one_folder_take_time_in_proportion(tmp_path: Path) -> None:
    for number in range(12_000):
        (tmp_path / f"{number}").touch()
    start = time.process_time()
    assert len(storage.Folder(tmp_path).files()) == 12_000
    assert time.process_time() - start < 3.0  # 0.2 s; compared with each other, 10 s


def test_a_manifest_that_is_too_large_is_refused_unread(bundle: Path, tmp_path: Path) -> None:
    path = bundle / "manifest.json"
    path.write_text('{"format":1,"files":[' + "{}," * (LARGEST // 3) + "{}]}")
    assert "manifest.json in a way that localrag never uses" in problem(bundle)
    with pytest.raises(BundleError, match="too large"):
        storage.read_manifest(path)


def archive(path: Path, *files: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as zip_file:
        for name, content in files:
            zip_file.writestr(name, content)
    return path


def test_archives_that_lead_out_or_hold_links(tmp_path: Path) -> None:
    for name in ("../x", "/x", "a/../../x", "nul", "a\\..\\x"):
        place = archive(tmp_path / "a.zip", ("manifest.json", b"{}"), (name, b"x"))
        assert "a name that no bundle has" in problem(place)
    place = archive(tmp_path / "a.zip", ("one/manifest.json", b"{}"), ("two/x", b"x"))
    assert "a name that no bundle has" in problem(place)
    link = zipfile.ZipInfo("docs/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    place = archive(tmp_path / "a.zip", ("manifest.json", b"{}"), (link, b"/etc/passwd"))
    assert "is a link" in problem(place)


@pytest.mark.parametrize("offset", [1 << 62, (1 << 63) - 1, (1 << 64) - 1])
def test_an_archive_with_an_impossible_offset_is_damaged(
    bundle: Path, tmp_path: Path, offset: int, capsys: pytest.CaptureFixture[str]
) -> None:
    zip_path = zipped(bundle, tmp_path / "a.zip")
    with zipfile.ZipFile(zip_path, "a") as zip_file:
        for info in zip_file.infolist():
            info.header_offset = offset
        zip_file._didModify = True  # type: ignore[attr-defined]
    assert "is damaged" in problem(zip_path)
    assert verify_only(zip_path) == 1
    assert "--to" not in capsys.readouterr().err


def test_a_check_that_cannot_read_names_no_folder_to_install_into(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(storage.Folder, "open", failing)
    assert verify_only(bundle) == 1
    stderr = capsys.readouterr().err
    assert f"{bundle}: Input/output error" in stderr
    assert "--to" not in stderr
    assert program.main([str(bundle)], Path()) == 1
    assert "--to" in capsys.readouterr().err


@pytest.mark.filterwarnings("ignore:Duplicate name:UserWarning")  # made on purpose
def test_an_archive_that_holds_a_name_twice(tmp_path: Path) -> None:
    place = archive(tmp_path / "a.zip", ("manifest.json", b"{}"), ("x", b"1"), ("x", b"2"))
    assert "a name that no bundle has" in problem(place)


def test_bombs_are_refused_before_they_unfold(bundle: Path, tmp_path: Path) -> None:
    place = archive(tmp_path / "a.zip", ("manifest.json", b"{}"), ("x", bytes(300 << 20)))
    assert "in a way that localrag never uses" in problem(place)
    # Files that lie over each other: the directory names the same bytes again and again.
    place = archive(tmp_path / "b.zip", ("manifest.json", b"{}"), ("x", os.urandom(50_000)))
    with zipfile.ZipFile(place, "a") as zip_file:
        for number in range(3):
            again = zip_file.getinfo("x")
            other = zipfile.ZipInfo(f"x{number}")
            for field in ("header_offset", "compress_size", "file_size", "CRC", "compress_type"):
                setattr(other, field, getattr(again, field))
            zip_file.filelist.append(other)
            zip_file.NameToInfo[other.filename] = other
        zip_file._didModify = True  # type: ignore[attr-defined]
    assert "in a way that localrag never uses" in problem(place)


def test_a_flipped_bit_in_an_archive(bundle: Path, tmp_path: Path) -> None:
    place = zipped(bundle, tmp_path / "bundle.zip")
    sound, digest = place.read_bytes(), verify(place).manifest.sha256
    for position in range(100, len(sound), len(sound) // 60):
        place.write_bytes(sound[:position] + bytes([sound[position] ^ 64]) + sound[position + 1 :])
        # What no reader looks at (times, say) may differ; what is read may not.
        if verify_only(place) != 1:
            assert verify(place).manifest.sha256 == digest
    for length in range(0, len(sound), len(sound) // 20):
        place.write_bytes(sound[:length])
        assert verify_only(place) == 1


def test_a_delta_and_its_base(bundle: Path, tmp_path: Path) -> None:
    new = make_bundle(tmp_path / "new", version="10.0.0")
    delta = make_delta(bundle, new, tmp_path / "delta")
    assert not (delta / "models").exists()
    assert verify(delta).base is None
    assert verify(delta, bundle).base is not None
    assert verify(delta, zipped(bundle, tmp_path / "base.zip")).base is not None
    assert "is not the bundle that this one builds on" in problem(delta, base=new)
    assert "This bundle is complete" in problem(bundle, base=new)
    (bundle / "models/tiny/model.gguf").write_bytes(b"other")
    assert "models/tiny/model.gguf (not of its size)" in problem(delta, base=bundle)


def test_the_command_says_the_same_as_json(bundle: Path) -> None:
    result = CliRunner().invoke(verify_command, [str(bundle), "--json"])
    report = json.loads(result.output)
    assert (result.exit_code, report["ok"], report["files"], report["signed"]) == (
        0,
        True,
        8,
        False,
    )
    (bundle / "docs/README.md").write_bytes(b"more")
    result = CliRunner().invoke(verify_command, [str(bundle), "--json"])
    report = json.loads(result.output)
    assert (result.exit_code, report["ok"]) == (1, False)
    assert report["faults"] == [{"path": "docs/README.md", "fault": "not of its size"}]
    assert CliRunner().invoke(verify_command, [str(bundle)]).exit_code == 1
    assert CliRunner().invoke(verify_command, [str(bundle / "none"), "--json"]).exit_code == 1


def test_extras_are_named(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify_only(bundle) == 0
    assert "Extras" not in capsys.readouterr().out
    wheel(bundle / "wheels", "psycopg", "3.3", {"__init__.py": ""})
    wheel(bundle / "wheels", "psycopg_binary", "3.3", {"__init__.py": ""})
    write_manifest(bundle)
    assert verify_only(bundle) == 0
    assert "\nExtras: postgres\n" in capsys.readouterr().out
    result = CliRunner().invoke(verify_command, [str(bundle), "--json"])
    assert json.loads(result.output)["extras"] == ["postgres"]


def test_it_runs_from_the_bundle_alone(bundle: Path) -> None:
    command = [sys.executable, "-I", str(bundle / "install.py"), "--verify-only"]
    result = subprocess.run(
        command, cwd=bundle, env={**os.environ, "LOCALRAG_LANG": "zh"}, capture_output=True
    )
    assert result.returncode == 0
    assert "每个文件都与制作时一致" in result.stdout.decode("utf-8")
    shutil.rmtree(bundle / "docs")
    result = subprocess.run(command, cwd=bundle, capture_output=True, text=True, encoding="utf-8")
    assert result.returncode == 1
    assert "docs/README.md (missing)" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_is_wrong_is_said_in_whole_chinese_sentences(
    bundle: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(messages, "interface_language", lambda: "zh")
    assert verify_only(bundle) == 0
    assert re.search(r"适用于 [a-z]+-\w+，Python 3\.\d+；", capsys.readouterr().out)
    (bundle / "docs/README.md").write_bytes(b"more")
    (bundle / "models/tiny/model.gguf").unlink()
    message = problem(bundle)
    assert "：docs/README.md（大小不符）、models/tiny/model.gguf（缺失）。请" in message
    (tmp_path / "x.zip").write_bytes(b"no archive")
    message = problem(tmp_path / "x.zip")
    assert "不是可以读取的压缩包（原因：File is not a zip file）。请" in message


def test_an_old_python_is_told_which_one_is_needed(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_manifest(
        bundle,
        target={**json.loads((bundle / "manifest.json").read_text())["target"], "python": "3.99"},
    )
    assert program.main([str(bundle), "--to", str(bundle.parent / "there"), "--yes"], Path()) == 1
    stderr = capsys.readouterr().err
    assert "The bundle is for Python 3.99" in stderr
    assert not (bundle.parent / "there").exists()
