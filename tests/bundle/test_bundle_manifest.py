"""What a manifest holds, and what it refuses."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from localrag.bundle import manifest
from localrag.bundle.manifest import Base, File, Manifest, Target
from localrag.errors import BundleError

SHA = "ab" * 32
TARGET = Target(system="linux", machine="x86_64", python="3.11")


def a_manifest(*files: File, base: Base | None = None) -> Manifest:
    return Manifest(
        localrag="1.2.3",
        created="2026-01-02T03:04:05Z",
        target=TARGET,
        preset="starter",
        base=base,
        files=files,
    )


def as_json(**changes: Any) -> bytes:
    value = json.loads(manifest.encode(a_manifest(File(path="a", bytes=1, sha256=SHA))))
    return json.dumps(value | changes).encode()


def test_what_is_written_is_read_again_and_begins_with_the_format(tmp_path: Path) -> None:
    base = Base(manifest_sha256=SHA)
    written = a_manifest(
        File(path="docs/a.md", bytes=3, sha256=SHA),
        File(path="wheels/x-1.0+cpu-py3-none-any.whl", bytes=0, sha256=SHA, in_base=True),
        base=base,
    )
    path = manifest.write(tmp_path, written)
    assert path == tmp_path / "manifest.json"
    assert manifest.read(tmp_path) == manifest.read(path) == written
    assert list(json.loads(path.read_bytes())) == [
        "format",
        "localrag",
        "created",
        "target",
        "preset",
        "base",
        "files",
    ]
    assert [file.path for file in written.carried] == ["docs/a.md"]
    assert written.size == 3
    assert written.find("docs/a.md") is written.files[0]
    assert written.find("docs") is None


@pytest.mark.parametrize(
    "path",
    [
        "../up",
        "/etc/passwd",
        "a/../b",
        "a//b",
        "./a",
        "",
        "a\\b",
        "C:/x",
        "a:stream",
        "CON",
        "wheels/nul.txt",
        "a ",
        "a.",
        "x\ny",
        "manifest.json",
        "manifest.json.sig",
    ],
)
def test_a_path_that_leads_out_or_is_no_name_everywhere_is_refused(path: str) -> None:
    data = as_json(files=[{"path": path, "bytes": 1, "sha256": SHA, "in_base": False}])
    with pytest.raises(BundleError, match="is not the manifest of a bundle"):
        manifest.decode(data)


@pytest.mark.parametrize(
    "changes",
    [
        {
            "files": [
                {"path": "b", "bytes": 1, "sha256": SHA},
                {"path": "a", "bytes": 1, "sha256": SHA},
            ]
        },
        {
            "files": [
                {"path": "A", "bytes": 1, "sha256": SHA},
                {"path": "a", "bytes": 1, "sha256": SHA},
            ]
        },
        {"files": [{"path": "a", "bytes": -1, "sha256": SHA}]},
        {"files": [{"path": "a", "bytes": 1, "sha256": SHA.upper()}]},
        {"files": [{"path": "a", "bytes": 1, "sha256": SHA, "in_base": True}]},
        {"target": {"system": "amiga", "machine": "x86_64", "python": "3.11"}},
        {"target": {"system": "linux", "machine": "x86_64", "python": "3"}},
        {"base": {"manifest_sha256": "12"}},
        {"more": 1},
    ],
    ids=["order", "twice", "negative", "hash", "no base", "system", "python", "base", "unknown"],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    manifest.decode(as_json())
    with pytest.raises(BundleError, match="is not the manifest of a bundle"):
        manifest.decode(as_json(**changes))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b'{"format": "1"}'])
def test_what_is_no_manifest_is_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(BundleError) as caught:
        manifest.read(tmp_path)
    assert str(tmp_path / "manifest.json") in str(caught.value)


def test_a_later_format_says_what_to_use(tmp_path: Path) -> None:
    with pytest.raises(
        BundleError, match=r"format 2; this localrag reads format 1\. .*install\.py"
    ):
        manifest.decode(as_json(format=2, whatever=[]))


def test_a_folder_without_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="not finished"):
        manifest.read(tmp_path)
    with pytest.raises(BundleError, match=r"folder or \.zip, or its manifest"):
        manifest.read(tmp_path / "none.zip")


def test_all_files_are_hashed_but_the_manifest_and_its_signature(tmp_path: Path) -> None:
    for name in ("b/c", "b.txt", "manifest.json", "manifest.json.sig"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    heard: list[int] = []
    records = manifest.hash_files(tmp_path, heard.append)
    assert [record.path for record in records] == ["b.txt", "b/c"]
    assert records[1].sha256 == hashlib.sha256(b"b/c").hexdigest()
    assert [record.bytes for record in records] == [5, 3]
    assert heard == [5, 8]


def test_a_link_is_no_file_of_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(BundleError, match="is a link"):
        manifest.hash_files(tmp_path)
