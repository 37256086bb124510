"""What a manifest holds, and what it refuses: one set of rules for making and for installing."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from localrag.bundle.creation import hash_files
from localrag.bundle.installer.manifest import File, Manifest, Target, encode, parse, path_fault
from localrag.bundle.installer.storage import read_manifest
from localrag.errors import BundleError

SHA = "ab" * 32


def a_manifest(*files: File, base: str | None = None) -> Manifest:
    return Manifest(
        localrag="1.2.3",
        created="2026-01-02T03:04:05Z",
        target=Target(system="linux", machine="x86_64", python="3.11"),
        preset="starter",
        base=base,
        files=files,
    )


def as_json(**changes: Any) -> bytes:
    value = json.loads(encode(a_manifest(File(path="a", bytes=1, sha256=SHA))))
    return json.dumps(value | changes).encode()


def test_what_is_written_is_read_again_and_begins_with_the_format(tmp_path: Path) -> None:
    manifest = a_manifest(
        File(path="docs/a.md", bytes=3, sha256=SHA),
        File(path="wheels/x-1.0+cpu-py3-none-any.whl", bytes=0, sha256=SHA, in_base=True),
        base=SHA,
    )
    raw = encode(manifest)
    path = tmp_path / "manifest.json"
    path.write_bytes(raw)
    assert read_manifest(tmp_path) == read_manifest(path) == parse(raw) == manifest
    assert parse(raw).sha256 == hashlib.sha256(raw).hexdigest()
    assert list(json.loads(raw)) == [
        "format",
        "localrag",
        "created",
        "target",
        "preset",
        "base",
        "files",
    ]
    assert json.loads(raw)["base"] == {"manifest_sha256": SHA}
    assert [file.path for file in manifest.carried] == ["docs/a.md"]
    assert [file.path for file in manifest.wheels] == ["wheels/x-1.0+cpu-py3-none-any.whl"]


HOSTILE = {
    "../up": "within",
    "/etc/passwd": "within",
    "a/../b": "within",
    "a//b": "within",
    "./a": "within",
    "a/": "within",
    "": "within",
    "a\\b": "every system",
    "C:/x": "every system",
    "a:stream": "every system",
    "CON": "every system",
    "wheels/nul.txt": "every system",
    "conin$": "every system",
    "CONOUT$.log": "every system",
    "com¹.txt": "every system",
    "lpt9": "every system",
    "aux .txt": "every system",
    "a ": "every system",
    "a.": "every system",
    "x\ny": "every system",
    "a\x1b[2J": "every system",
    "a\x85b": "every system",
    "exe\u202efdp.whl": "every system",
    "a\u2066b": "every system",
    "\udcff": "every system",
    "长" * 86: "too long",
    "x" * 304: "too long",
    "/".join(["x" * 20] * 21): "not a path",
    "a/" + "x" * 500: "not a path",
}
FINE = ("a", "cone.d/x", "console", "com10", "长" * 85, "docs/说明 (1).md")


@pytest.mark.parametrize("path", [*HOSTILE, "manifest.json", "MANIFEST.JSON.SIG", "models/x.gguf"])
def test_a_name_that_is_none_everywhere_is_refused_by_maker_and_installer(path: str) -> None:
    assert HOSTILE.get(path, "") in (path_fault(path) or "")
    file = File(path=path, bytes=1, sha256=SHA)
    with pytest.raises(BundleError, match="is not the manifest of a bundle"):
        encode(a_manifest(file))
    data = as_json(files=[{"path": path, "bytes": 1, "sha256": SHA, "in_base": False}])
    with pytest.raises(BundleError, match="is not the manifest of a bundle"):
        parse(data)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("docs/caf\u00e9.md", "docs/cafe\u0301.md"),
        ("docs/CAF\u00c9.md", "docs/cafe\u0301.md"),
        ("docs/\u1e9b\u0323.md", "docs/\u1e61\u0323.md"),
        ("docs/\uac00.md", "docs/\u1100\u1161.md"),
        ("docs/\u00e9", "docs/e\u0301/a.md"),
    ],
)
def test_two_ways_of_writing_one_name_are_one_file(first: str, second: str) -> None:
    """On macOS the second would be written over the first, with another hash."""
    files = [File(path=path, bytes=1, sha256=SHA) for path in sorted((first, second))]
    with pytest.raises(BundleError, match=r"listed twice|a folder too"):
        encode(a_manifest(*files))


@pytest.mark.parametrize("path", FINE)
def test_a_name_that_only_looks_odd_is_taken_by_both(path: str) -> None:
    assert path_fault(path) is None
    manifest = a_manifest(File(path=path, bytes=1, sha256=SHA))
    assert parse(encode(manifest)) == manifest


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
        {
            "files": [
                {"path": "a", "bytes": 1, "sha256": SHA},
                {"path": "a/b", "bytes": 1, "sha256": SHA},
            ]
        },
        {"files": [{"path": "a", "bytes": -1, "sha256": SHA}]},
        {"files": [{"path": "a", "bytes": 1, "sha256": SHA.upper()}]},
        {"files": [{"path": "a", "bytes": 1, "sha256": SHA, "in_base": True}]},
        {"files": [{"path": "a", "bytes": 1, "sha256": SHA, "in_base": 0}]},
        {"target": {"system": "lin\nux", "machine": "x86_64", "python": "3.11"}},
        {"target": {"system": "linux", "machine": "x86_64", "python": "3"}},
        {"base": {"manifest_sha256": "12"}},
        {"more": 1},
    ],
    ids=[
        *("order", "twice", "file and folder", "negative", "hash", "no base", "no yes or no"),
        *("system", "python", "base", "unknown"),
    ],
)
def test_what_contradicts_itself_is_refused(changes: dict[str, Any]) -> None:
    parse(as_json())
    with pytest.raises(BundleError, match="is not the manifest of a bundle"):
        parse(as_json(**changes))


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b'{"format": "1"}'])
def test_what_is_no_manifest_is_named(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_bytes(data)
    with pytest.raises(BundleError) as error:
        read_manifest(tmp_path)
    assert str(tmp_path) in str(error.value)


def test_a_later_format_says_what_to_use() -> None:
    with pytest.raises(
        BundleError, match=r"format 2; this localrag reads format 1\. .*install\.py"
    ):
        parse(as_json(format=2, whatever=[]))


def test_a_folder_without_manifest_is_no_bundle(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="never finished"):
        read_manifest(tmp_path)
    with pytest.raises(BundleError, match=r"folder or \.zip"):
        read_manifest(tmp_path / "none.zip")


def test_all_files_are_hashed_but_the_manifest_and_its_signature(tmp_path: Path) -> None:
    for name in ("b/c", "b.txt", "manifest.json", "manifest.json.sig"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name)
    records = hash_files(tmp_path)
    assert [record.path for record in records] == ["b.txt", "b/c"]
    assert records[1].sha256 == hashlib.sha256(b"b/c").hexdigest()
    assert [record.bytes for record in records] == [5, 3]
    parse(encode(replace(a_manifest(), files=records)))


def test_a_link_is_no_file_of_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/hostname")
    with pytest.raises(BundleError, match="is a link"):
        hash_files(tmp_path)
