"""Signing a bundle with the user's own OpenSSH key, by the `ssh-keygen` of the system.

The signature is about the bytes of the manifest, which names every other file with its hash.
Checking one is the installer's work, so that it can be done where localrag is not installed.
"""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

from localrag.bundle import installer
from localrag.errors import BundleError
from localrag.system import files, processes


def sign(bundle: Path, key: Path) -> str:
    """Put a signature by `key` into a bundle, a folder or a .zip; what ssh-keygen says of it.

    `key` is a private key, or the public half of one that the SSH agent holds. Asks for its
    passphrase on the terminal. The bundle is checked first: what is damaged is not signed.
    Raises `installer.Problem` for such a bundle or without ssh-keygen, and `BundleError`.
    """
    installer.verify(bundle)
    place = installer.opened(bundle)
    with place.open(installer.MANIFEST) as stream:
        manifest = stream.read()
    program = installer.find_ssh_keygen()
    with files.scratch_folder() as scratch:
        copy = scratch / installer.MANIFEST
        files.write_output(copy, manifest)
        options = ("-Y", "sign", "-n", installer.NAMESPACE, "-f", str(key.expanduser().absolute()))
        done = processes.run(
            [program, *options, str(copy)],
            processes.SSH,
            stderr=processes.PIPE,
            terminal=True,
        )
        signature = copy.with_name(installer.SIGNATURE)
        if done.returncode or not signature.is_file():
            raise _unsigned(key, done)
        signed = signature.read_bytes()
        check = ("-Y", "check-novalidate", "-n", installer.NAMESPACE, "-s", str(signature))
        checked = processes.run(
            [program, *check],
            processes.SSH,
            given=manifest,
            stdout=processes.PIPE,
            stderr=processes.PIPE,
        )
        if checked.returncode:
            raise _unsigned(key, checked)
    if isinstance(place, installer.Folder):
        files.replace_content(bundle / installer.SIGNATURE, signed)
    else:
        place.close()
        _into_archive(bundle, signed)
    return checked.stdout.decode("utf-8", "replace").strip()


def _unsigned(key: Path, done: processes.Ended) -> BundleError:
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return BundleError(
        "The bundle cannot be signed with {key}: {reason}.",
        hint="Name a private key of OpenSSH, such as ~/.ssh/id_ed25519; "
        "`ssh-keygen -t ed25519` makes one.",
        key=key,
        reason=installer.printable(said[-1] if said else str(done.returncode)).rstrip("."),
    )


def _into_archive(bundle: Path, signature: bytes) -> None:
    """Write the archive anew with this signature, in the place of one that it may have."""
    part = bundle.with_name(f"{bundle.name}.part")
    try:
        with (
            zipfile.ZipFile(bundle) as old,
            files.overwrite_file(part) as stream,
            zipfile.ZipFile(stream, "w") as new,
        ):
            top = ""
            for info in old.infolist():
                folder, _, name = info.filename.rpartition("/")
                if name == installer.MANIFEST and folder.count("/") == 0:
                    top = f"{folder}/" if folder else ""
                if name == installer.SIGNATURE:
                    continue
                with old.open(info) as read, new.open(info, "w") as copy:
                    shutil.copyfileobj(read, copy, 1 << 20)
            new.writestr(top + installer.SIGNATURE, signature)
        with files.append_file(part) as file:
            os.fsync(file.fileno())
        shutil.copymode(bundle, part)
        part.replace(bundle)
    finally:
        part.unlink(missing_ok=True)
