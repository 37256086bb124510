"""Whether a bundle is as it was made, and who signed it.

Signatures are made and checked by the OpenSSH that Linux, macOS and Windows bring along.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from localrag.bundle.installer.manifest import MANIFEST, SIGNATURE, File, Manifest, parse
from localrag.bundle.installer.storage import (
    DAMAGED,
    Bundle,
    manifest_bytes,
    open_bundle,
    small_file,
)
from localrag.errors import BundleError
from localrag.messages import tr
from localrag.system import processes

NAMESPACE = "localrag-bundle"
"""What a signature is for: one made for anything else does not count."""
_SIGNATURE_LIMIT = 64 << 10


@dataclass(frozen=True)
class CheckedBundle:
    """A bundle whose files are those of its manifest; `base` has those of `in_base`.

    `signer` is what OpenSSH says of the signature, "" where it was not checked.
    """

    manifest: Manifest
    bundle: Bundle
    base: Bundle | None
    signed: bool
    signer: str

    @property
    def looked_at(self) -> tuple[File, ...]:
        """The files that were checked."""
        return self.manifest.carried if self.base is None else self.manifest.files

    def holder(self, file: File) -> Bundle:
        """Where a file lies. Raises `BundleError` for a delta without its base."""
        if not file.in_base:
            return self.bundle
        if self.base is None:
            raise BundleError(
                "This bundle contains only what changed since another one.",
                hint="Name that one too: --base OLD_BUNDLE.",
            )
        return self.base


def verify(path: Path, base: Path | None = None, key: Path | None = None) -> CheckedBundle:
    """Check signature, names, sizes and hashes of a bundle; changes nothing.

    `base` is the bundle that a delta builds upon; without it, what lies there is not looked at.
    Raises `BundleError`, whose `values` have `faults`, (path, what) each, where files differ.
    """
    bundle = open_bundle(path)
    raw = manifest_bytes(bundle)
    try:
        signature = small_file(bundle, SIGNATURE, _SIGNATURE_LIMIT)
    except FileNotFoundError:
        signature = b""
    signer = verify_signature(raw, signature, key) if key is not None else ""
    manifest = parse(raw)
    old = _open_base(manifest, base) if base is not None else None
    faults = _faults(bundle, manifest.carried)
    known = {MANIFEST, SIGNATURE, *(file.path for file in manifest.carried)}
    faults += [(name, "not in the manifest") for name in sorted(bundle.files().keys() - known)]
    if old is not None:
        faults += _faults(old, (file for file in manifest.files if file.in_base))
    if faults:
        texts = {
            "missing": tr("missing"),
            "not of its size": tr("not of its size"),
            "altered": tr("altered"),
            "not in the manifest": tr("not in the manifest"),
        }
        shown = [
            tr("{name} ({fault})", name=name, fault=texts[fault]) for name, fault in faults[:6]
        ]
        raise BundleError(
            "The bundle was changed after it was created: {files}{more}.",
            hint="Copy it again from where it was created; nothing was installed.",
            files=tr(", ").join(shown),
            more=tr(" and {count} more", count=len(faults) - 6) if len(faults) > 6 else "",
            faults=faults,
        )
    return CheckedBundle(manifest, bundle, old, bool(signature), signer)


def find_ssh_keygen() -> str:
    """The program's path; never one that lies in the folder where we happen to be."""
    if program := processes.find("ssh-keygen"):
        return program
    raise BundleError(
        "Signatures need ssh-keygen, which is not on this machine.",
        hint="It is part of OpenSSH: on Linux the package is openssh-client, on Windows an "
        "optional feature of the system's settings, and macOS has it.",
    )


def run_ssh_keygen(
    action: str,
    *options: object,
    keep: Iterable[str] = processes.PLAIN,
    given: bytes | None = None,
    terminal: bool = False,
) -> tuple[int, str]:
    """Let OpenSSH sign or check for `NAMESPACE`; its exit code, and what it says."""
    command = [find_ssh_keygen(), "-Y", action, "-n", NAMESPACE, *map(str, options)]
    done = processes.run(command, keep, given=given, stderr=processes.OUTPUT, terminal=terminal)
    return done.returncode, done.stdout.decode("utf-8", "replace").strip()


def verify_signature(raw: bytes, signature: bytes, key: Path) -> str:
    """What OpenSSH says of a signature of the manifest's bytes.

    Raises `BundleError` where it is not by one of the public keys in the file `key`.
    """
    if not signature:
        raise BundleError(
            "The bundle is not signed, but --key requires a signature.",
            hint="Do not install it unless you know by other means who created it.",
        )
    find_ssh_keygen()
    public = _public_keys(key)
    with tempfile.TemporaryDirectory() as scratch:
        allowed, given = Path(scratch, "allowed"), Path(scratch, "signature")
        lines = (f'localrag namespaces="{NAMESPACE}" {line_of_key}\n' for line_of_key in public)
        allowed.write_text("".join(lines), encoding="ascii")
        given.write_bytes(signature)
        files = ("-f", allowed.absolute(), "-s", given.absolute())
        code, output = run_ssh_keygen("verify", "-I", "localrag", *files, given=raw)
    if code:
        raise BundleError(
            "The bundle was not signed with the key {key}: {reason}",
            hint="Do not install it: it comes from somebody else, or has been changed since.",
            key=key,
            reason=output[-300:],
        )
    return output


def _open_base(manifest: Manifest, path: Path) -> Bundle:
    if manifest.base is None:
        raise BundleError("This bundle is complete.", hint="Omit --base.")
    base = open_bundle(path)
    if hashlib.sha256(manifest_bytes(base)).hexdigest() != manifest.base:
        raise BundleError(
            "{path} is not the bundle that this one builds on.",
            hint="Name the bundle that it was created from with --base.",
            path=path,
        )
    return base


def _faults(bundle: Bundle, files: Iterable[File]) -> list[tuple[str, str]]:
    there = bundle.files()
    faults = []
    for file in files:
        if file.path not in there:
            faults.append((file.path, "missing"))
        elif there[file.path] != file.bytes:
            faults.append((file.path, "not of its size"))
        else:
            with suppress(*DAMAGED), bundle.open(file.path) as stream:
                if hashlib.file_digest(stream, "sha256").hexdigest() == file.sha256:
                    continue
            faults.append((file.path, "altered"))
    return faults


def _public_keys(path: Path) -> list[str]:
    """The keys of an OpenSSH public key file, each as "type base64"."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise BundleError(
            "The key {path} cannot be read: {reason}.",
            hint="Name a public key, such as id_ed25519.pub.",
            path=path,
            reason=error.strerror,
        ) from None
    wanted = [line for line in lines if line.strip() and not line.strip().startswith("#")]
    keys = [re.match(r"\s*([A-Za-z0-9@.-]{1,80} AAAA[A-Za-z0-9+/=]+)(\s|$)", key) for key in wanted]
    if not keys or None in keys:
        raise BundleError(
            "{path} is not an OpenSSH public key.",
            hint="Name a public key, such as id_ed25519.pub.",
            path=path,
        )
    return [key[1] for key in keys if key]
