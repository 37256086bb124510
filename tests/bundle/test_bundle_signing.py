"""Signing with OpenSSH, and refusing what another key has signed or somebody has changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from install_fixtures import make_bundle, write_manifest, zipped

from localrag.bundle.installer import program
from localrag.bundle.installer.verification import verify
from localrag.bundle.signing import sign
from localrag.cli.bundle import sign as sign_command
from localrag.cli.bundle import verify as verify_command
from localrag.errors import BundleError

needs_openssh = pytest.mark.skipif(
    shutil.which("ssh-keygen") is None, reason="only where OpenSSH is installed"
)


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return make_bundle(tmp_path / "bundle")


def make_key(path: Path) -> Path:
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", 'odd " name', "-f", str(path)]
    subprocess.run(command, check=True)
    return path


def public(key: Path) -> Path:
    return key.with_name(f"{key.name}.pub")


def problem(path: Path, key: Path) -> str:
    with pytest.raises(BundleError) as error:
        verify(path, key=key)
    return str(error.value)


@needs_openssh
@pytest.mark.parametrize("packed", [False, True])
def test_signed_and_checked(bundle: Path, tmp_path: Path, packed: bool) -> None:
    key, other = make_key(tmp_path / "key"), make_key(tmp_path / "other")
    place = zipped(bundle, tmp_path / "b.zip", "bundle/") if packed else bundle
    assert "not signed" in problem(place, public(key))
    assert "localrag-bundle" in sign(place, key)
    checked = verify(place, key=public(key))
    assert checked.signed
    assert "Good" in checked.signer
    assert verify(place).signed  # and not checked
    assert verify(place).signer == ""
    assert "was not signed with the key" in problem(place, public(other))
    sign(place, other)  # signed anew: the last one counts
    verify(place, key=public(other))
    assert "was not signed with the key" in problem(place, public(key))
    key_file = tmp_path / "both.pub"
    key_file.write_text("# ours\n" + public(key).read_text() + public(other).read_text())
    verify(place, key=key_file)


@needs_openssh
def test_what_was_changed_after_signing_is_refused(bundle: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    sign(bundle, key)
    (bundle / "docs/README.md").write_bytes(b"other words")
    write_manifest(bundle)  # the hashes fit again
    verify(bundle)
    assert "was not signed with the key" in problem(bundle, public(key))
    words = [str(bundle), "--to", str(tmp_path / "there"), "--yes", f"--key={public(key)}"]
    code = program.main(words, bundle / "install.py")
    assert code == 1
    assert not (tmp_path / "there").exists()


@needs_openssh
def test_a_signature_for_something_else_does_not_count(bundle: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    manifest = str(bundle / "manifest.json")
    for command in (["-n", "file"], ["-n", "git"]):
        (bundle / "manifest.json.sig").unlink(missing_ok=True)
        subprocess.run(
            ["ssh-keygen", "-q", "-Y", "sign", "-f", str(key), *command, manifest], check=True
        )
        assert "was not signed with the key" in problem(bundle, public(key))
    for rubbish in (b"rubbish", b"\x1b[2J" * 100, b"x" * 100_000):
        (bundle / "manifest.json.sig").write_bytes(rubbish)
        assert "\x1b" not in problem(bundle, public(key))


@needs_openssh
def test_what_is_no_public_key(bundle: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    sign(bundle, key)
    (tmp_path / "empty.pub").write_text("\n# nothing\n")
    (tmp_path / "odd.pub").write_text('* namespaces="x" ssh-ed25519 AAAA\n')
    assert "is not an OpenSSH public key" in problem(bundle, key)
    assert "is not an OpenSSH public key" in problem(bundle, tmp_path / "empty.pub")
    assert "is not an OpenSSH public key" in problem(bundle, tmp_path / "odd.pub")
    assert "cannot be read" in problem(bundle, tmp_path / "none.pub")


@needs_openssh
def test_what_is_damaged_is_not_signed(bundle: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    with pytest.raises(BundleError, match="cannot be signed"):
        sign(bundle, tmp_path / "none")
    (bundle / "docs/README.md").write_bytes(b"other words")
    with pytest.raises(BundleError, match="changed after it was created"):
        sign(bundle, key)
    assert not (bundle / "manifest.json.sig").exists()


@needs_openssh
def test_the_commands(bundle: Path, tmp_path: Path) -> None:
    key = make_key(tmp_path / "key")
    result = CliRunner().invoke(sign_command, [str(bundle), "--key", str(key)])
    assert result.exit_code == 0
    assert "Signed: Good" in result.output
    result = CliRunner().invoke(verify_command, [str(bundle), "--key", str(public(key))])
    assert result.exit_code == 0
    assert "Signed: Good" in result.output
    result = CliRunner().invoke(verify_command, [str(bundle)])
    assert "was not checked" in result.output


def test_without_openssh(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bundle / "manifest.json.sig").write_bytes(b"a signature")
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "need ssh-keygen" in problem(bundle, tmp_path / "key.pub")
    result = CliRunner().invoke(sign_command, [str(bundle), "--key", "key"])
    assert isinstance(result.exception, BundleError)
    assert "need ssh-keygen" in str(result.exception)


@pytest.mark.skipif(os.name == "nt", reason="only where a file is a program by its rights")
def test_a_program_of_that_name_in_the_folder_at_hand_is_not_run(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bundle / "manifest.json.sig").write_bytes(b"a signature")
    (tmp_path / "key.pub").write_text("ssh-ed25519 AAAA\n")
    program = tmp_path / "ssh-keygen"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}")
    assert "need ssh-keygen" in problem(bundle, tmp_path / "key.pub")
