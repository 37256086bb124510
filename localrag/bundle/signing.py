"""Signing a bundle with the user's own OpenSSH key, by the `ssh-keygen` of the system.

The signature is about the bytes of the manifest, which names every other file with its hash.
Checking one is the installer's work, so that it can be done where localrag is not installed.
"""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import BinaryIO

from localrag.bundle.installer.manifest import MANIFEST, SIGNATURE
from localrag.bundle.installer.storage import Folder, manifest_bytes
from localrag.bundle.installer.verification import run_ssh_keygen, verify
from localrag.errors import BundleError
from localrag.system import files, processes


def sign(bundle: Path, key: Path) -> str:
    """Put a signature by `key` into a bundle, a folder or a .zip; what ssh-keygen says of it.

    `key` is a private key, or the public half of one that the SSH agent holds. Asks for its
    passphrase on the terminal. The bundle is checked first: what is damaged is not signed.
    Raises `BundleError`.
    """
    checked = verify(bundle).bundle
    manifest = manifest_bytes(checked)
    checked.close()
    with files.scratch_folder() as scratch:
        copy = scratch / MANIFEST
        files.write_output(copy, manifest)
        place = key.expanduser().absolute()
        code, output = run_ssh_keygen("sign", "-f", place, copy, keep=processes.SSH, terminal=True)
        signature = scratch / SIGNATURE
        if not code and signature.is_file():
            signed = signature.read_bytes()
            code, output = run_ssh_keygen("check-novalidate", "-s", signature, given=manifest)
        if code or not signature.is_file():
            raise BundleError(
                "The bundle cannot be signed with {key}: {reason}.",
                hint="Name an OpenSSH private key, such as ~/.ssh/id_ed25519; `ssh-keygen -t "
                "ed25519` creates one.",
                key=key,
                reason=(output or str(code)).splitlines()[-1].rstrip("."),
            )
    if isinstance(checked, Folder):
        files.replace_content(bundle / SIGNATURE, signed)
    else:
        _into_archive(bundle, signed)
    return output


def _into_archive(bundle: Path, signature: bytes) -> None:
    """Write the archive anew with this signature, in the place of one that it may have."""

    def write(stream: BinaryIO) -> None:
        with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(stream, "w") as new:
            top = ""
            for info in old.infolist():
                folder, _, name = info.filename.rpartition("/")
                if name == MANIFEST and folder.count("/") == 0:
                    top = f"{folder}/" if folder else ""
                if name == SIGNATURE:
                    continue
                with old.open(info) as read, new.open(info, "w") as copy:
                    shutil.copyfileobj(read, copy, 1 << 20)
            new.writestr(top + SIGNATURE, signature)

    mode = bundle.stat().st_mode
    files.replace_file(bundle, write)
    bundle.chmod(mode & 0o777)
