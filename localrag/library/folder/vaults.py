"""Vaults: libraries that are encrypted at rest, and the keys that open them.

A vault has a random data key of 32 bytes. The file `vault.json` holds it wrapped, once for each
way to open the vault (a slot): by a passphrase (Argon2id, RFC 9106), by a recovery key, or for an
age recipient. Whoever changes a passphrase replaces a slot; the data key, and all that it has
encrypted, stay. A key derived from the data key seals the file as a whole.

An opened vault is open for this process, or for all of this user's until the kernel forgets its
key (Linux). A closed one answers nothing.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import threading
import time
import unicodedata
from binascii import Error as NoBase64
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from localrag.errors import (
    LibraryClosedError,
    LibraryDamagedError,
    LibraryError,
    UsageError,
    WrongKeyError,
)
from localrag.library.folder.filesystem import VAULT_HEADER
from localrag.system import files
from localrag.system.ciphers import KEY_BYTES, derived
from localrag.system.key_memory import (
    KernelKeys,
    LockedBytes,
    ask_passphrase,
    keep_from_swap,
    leave_no_dump,
)
from localrag.system.seals import VaultSeal

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

FORMAT = "localrag-vault-1"
SHORTEST = 8
"""Characters of a passphrase."""
MINUTES = 15
"""For which an opened vault stays open after its last use, unless somebody says otherwise."""

_LIMIT = 1 << 16
_COST: Any = {"memory_kib": 1 << 16, "iterations": 3, "lanes": 4}
"""Argon2id as RFC 9106 recommends it second: 64 MiB, three passes, four lanes."""
_RECOVERY_BYTES = 20
"""160 bits: 32 characters of base32."""

_Base64 = Annotated[str, msgspec.Meta(max_length=4096)]
_Kind = Literal["passphrase", "recovery", "age"]


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """The data key, wrapped for one way to open the vault."""

    kind: _Kind
    wrapped: _Base64
    salt: _Base64 = ""
    nonce: _Base64 = ""
    # A header may come from elsewhere: at most 256 MiB and some seconds for a passphrase.
    memory_kib: Annotated[int, msgspec.Meta(ge=0, le=1 << 18)] = 0
    iterations: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0
    lanes: Annotated[int, msgspec.Meta(ge=0, le=16)] = 0


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What `vault.json` says; `seal` is over all the rest, by a key that follows from its key."""

    format: Annotated[str, msgspec.Meta(max_length=100)]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    slots: Annotated[tuple[Slot, ...], msgspec.Meta(min_length=1, max_length=100)]
    seal: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{0,64}$")] = ""

    def sealed(self, key: bytes) -> Header:
        """The same, with the seal that this data key makes."""
        return msgspec.structs.replace(self, seal=self._seal(key))

    def fits(self, key: bytes) -> bool:
        """Whether it is as somebody wrote it who had this data key."""
        return hmac.compare_digest(self.seal, self._seal(key))

    def encoded(self) -> bytes:
        """As the file holds it."""
        return msgspec.json.format(msgspec.json.encode(self), indent=1) + b"\n"

    def _seal(self, key: bytes) -> str:
        fields = msgspec.to_builtins(msgspec.structs.replace(self, seal=""))
        content = json.dumps(fields, sort_keys=True).encode()
        return hmac.digest(derived(key, "header"), content, "sha256").hex()


@dataclass(frozen=True, slots=True, eq=False)
class Vault:
    """An opened vault. `key` is what everything in it is encrypted with, by keys made from it."""

    id: str
    seal: VaultSeal
    _key: LockedBytes
    minutes: int = MINUTES
    """After so many without use it is to be closed."""
    from_kernel: bool = False
    """Whether the kernel had the key: then the vault is closed as soon as it has it no more."""

    @staticmethod
    def of(number: str, key: bytes, minutes: int = 0) -> Vault:
        """With its data key; `minutes` where it is the kernel's. Raises LibraryError."""
        try:
            seal = VaultSeal(key)
        except ImportError as error:
            raise lacking("cryptography") from error
        return Vault(number, seal, LockedBytes(key), minutes or MINUTES, bool(minutes))

    def sqlite_key(self, purpose: str) -> str:
        """The key of SQLite files for one purpose, in hexadecimal."""
        return derived(bytes(self._key), f"sqlite {purpose}").hex()

    @property
    def data_key(self) -> bytes:
        """What slots wrap."""
        return bytes(self._key)

    def wipe(self) -> None:
        """Overwrite the key; what libraries hold of it goes with what they have open."""
        self._key.wipe()


class _Opened:
    """The vaults that this process has open, by their numbers."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.vaults: dict[str, Vault] = {}
        self.used: dict[str, float] = {}


_opened = _Opened()
_kernel = KernelKeys()


def is_vault(directory: Path) -> bool:
    """Whether the library in a folder is a vault."""
    return files.is_plain_file(directory / VAULT_HEADER)


def vault_of(directory: Path) -> Vault | None:
    """The opened vault in a folder; None for a library that is none.

    Raises LibraryClosedError for a closed one, LibraryDamagedError.
    """
    if not is_vault(directory):
        return None
    header = header_of(directory)
    with _opened.guard:
        vault = _opened.vaults.get(header.id) or _from_kernel(header)
        if vault is None and (passphrase := ask_passphrase(directory)) is not None:
            vault = _open_in_process(header, key_by_passphrase(header, passphrase))
        if vault is None:
            raise LibraryClosedError(
                "The vault {directory} is closed.",
                hint="Open it with: localrag vault open",
                directory=directory,
            )
        _opened.used[header.id] = time.monotonic()
        return vault


def sqlite_key(directory: Path, purpose: str) -> str:
    """The key of SQLite files of the library in a folder; "" for one that is no vault.

    Raises LibraryClosedError.
    """
    vault = vault_of(directory)
    return vault.sqlite_key(purpose) if vault else ""


def remember(directory: Path, key: bytes) -> Vault:
    """Open a vault for this process with its data key. Raises LibraryDamagedError."""
    header = header_of(directory)
    if not header.fits(key):
        raise _altered(directory)
    return _open_in_process(header, key)


def open_here(directory: Path, passphrase: str) -> Vault:
    """Open a vault for this process. Raises WrongKeyError, LibraryDamagedError."""
    header = header_of(directory)
    return _open_in_process(header, key_by_passphrase(header, passphrase))


def keep_open(directory: Path, minutes: int) -> bool:
    """Have the kernel keep the key of an opened vault for this user; whether it does.

    Until nothing has used it for so many minutes, or somebody closes it.
    """
    vault = vault_of(directory)
    if vault is None:
        return False
    payload = minutes.to_bytes(2, "big") + vault.data_key
    return _kernel.put(_name(vault.id), payload, 60 * minutes)


def close(directory: Path) -> bool:
    """Close a vault, for this process and for the others of this user that begin after this.

    Whether it was open.
    """
    number = header_of(directory).id
    return bool(close_here(number)) | _kernel.drop(_name(number))


def close_here(number: str) -> bool:
    """Forget the key in this process; whether it had it. What is open there is to be closed."""
    with _opened.guard:
        vault = _opened.vaults.pop(number, None)
        _opened.used.pop(number, None)
    if vault is not None:
        vault.wipe()
    return vault is not None


def prolong(number: str) -> None:
    """Say that a vault that is open here is in use."""
    with _opened.guard:
        vault = _opened.vaults.get(number)
        if vault is not None:
            _opened.used[number] = time.monotonic()
    if vault is not None and vault.from_kernel:
        _kernel.get(_name(number), seconds=60 * vault.minutes)


def is_due(number: str) -> bool:
    """Whether a vault that is open here is to be closed: unused for long, or closed by its user."""
    with _opened.guard:
        vault = _opened.vaults.get(number)
        if vault is None:
            return False
        idle = time.monotonic() - _opened.used[number]
    return idle > 60 * vault.minutes or (vault.from_kernel and not _is_kept(number))


def is_open(directory: Path) -> bool:
    """Whether the next command opens a vault without asking."""
    number = header_of(directory).id
    return number in _opened.vaults or _is_kept(number)


# Making and changing


def new_header(
    passphrase: str, recipients: Sequence[str] = (), *, recovery: bool = True
) -> tuple[Header, bytes, str]:
    """The header of a new vault, its data key, and its recovery key ("" without one).

    An empty passphrase makes no slot, where there are recipients. Raises UsageError.
    """
    number, key = secrets.token_hex(16), secrets.token_bytes(KEY_BYTES)
    recovery_key = _spelt(secrets.token_bytes(_RECOVERY_BYTES)) if recovery else ""
    slots = [_for_recipient(key, recipient) for recipient in recipients]
    if passphrase or not slots:
        slots.insert(0, _for_passphrase(number, key, passphrase))
    if recovery:
        slots.append(_for_recovery(number, key, recovery_key))
    return Header(format=FORMAT, id=number, slots=tuple(slots)).sealed(key), key, recovery_key


def change_passphrase(directory: Path, key: bytes, passphrase: str) -> None:
    """Let a vault open by another passphrase, and no more by the one before. Raises UsageError."""
    header = header_of(directory)
    _replace_slot(directory, key, _for_passphrase(header.id, key, passphrase))


def change_recovery(directory: Path, key: bytes) -> str:
    """Another recovery key; the one before opens the vault no more."""
    header, recovery_key = header_of(directory), _spelt(secrets.token_bytes(_RECOVERY_BYTES))
    _replace_slot(directory, key, _for_recovery(header.id, key, recovery_key))
    return recovery_key


def create(directory: Path, passphrase: str) -> str:
    """Make a folder a vault that holds nothing yet; its recovery key, which is kept nowhere.

    Raises UsageError for a short passphrase, LibraryError for a folder that holds anything.
    """
    if directory.is_dir() and any(directory.iterdir()):
        raise LibraryError(
            "The folder {directory} is not empty; a new vault needs an empty folder.",
            hint="Name a new folder with --library.",
            directory=directory,
        )
    header, _, recovery = new_header(passphrase)
    files.make_folder(directory)
    write_header(directory, header)
    return recovery


def write_header(directory: Path, header: Header) -> None:
    """Put a header into a folder: from then on, the library in it is a vault."""
    files.replace_content(directory / VAULT_HEADER, header.encoded())


def _replace_slot(directory: Path, key: bytes, slot: Slot) -> None:
    header = header_of(directory)
    if not header.fits(key):
        raise _altered(directory)
    slots = (*(other for other in header.slots if other.kind != slot.kind), slot)
    write_header(directory, msgspec.structs.replace(header, slots=slots).sealed(key))


# Reading


def header_of(directory: Path) -> Header:
    """What the file says, not yet compared with its seal. Raises LibraryDamagedError."""
    path = directory / VAULT_HEADER
    try:
        with files.open_plain(path) as file:
            return read_header(file.read(_LIMIT))
    except (OSError, ValueError) as error:
        raise LibraryDamagedError(
            "{path} is damaged or cannot be read: without it, this vault cannot be opened.",
            hint="Restore that file from a backup of the folder.",
            path=path,
        ) from error


def read_header(content: bytes) -> Header:
    """A header from its bytes. Raises ValueError, and LibraryError for a later version's."""
    try:
        header = msgspec.json.decode(content, type=Header)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if header.format != FORMAT:
        raise LibraryError(
            "This vault has the format {format}; this version of localrag knows {known}.",
            hint="Update localrag.",
            format=header.format,
            known=FORMAT,
        )
    kinds = [slot.kind for slot in header.slots]
    if max(kinds.count("passphrase"), kinds.count("recovery")) > 1:  # each takes its time
        raise ValueError("more than one slot of a kind")
    return header


def key_by_passphrase(header: Header, passphrase: str) -> bytes:
    """The data key. Raises WrongKeyError, also where only somebody else's slot was altered."""
    return _unwrapped(header, "passphrase", lambda slot: _stretched(slot, passphrase))


def key_by_recovery(header: Header, shown: str) -> bytes:
    """The data key. Raises WrongKeyError."""
    letters = "".join(shown.upper().replace("0", "O").replace("1", "I").split()).replace("-", "")
    try:
        secret = base64.b32decode(letters)
    except NoBase64:
        secret = b""
    if len(secret) != _RECOVERY_BYTES:
        raise WrongKeyError(
            "A recovery key has 32 letters and digits.",
            hint="Type it as it was shown, with or without hyphens.",
        )
    return _unwrapped(
        header, "recovery", lambda slot: derived(secret, "recovery", salt=_bytes(slot.salt))
    )


def key_by_identity(header: Header, identity: str) -> bytes:
    """The data key, by the text of an age identity (AGE-SECRET-KEY-1...). Raises WrongKeyError."""
    age = _age()
    try:
        own = [
            age.x25519.Identity.from_str(line)
            for line in map(str.strip, identity.splitlines())
            if line.startswith("AGE-SECRET-KEY-")
        ]
    except age.IdentityError as error:
        raise WrongKeyError("This is not an age identity.") from error
    for slot in header.slots:
        if slot.kind == "age":
            try:
                key: bytes = age.decrypt(_bytes(slot.wrapped), own)
            except age.DecryptError:
                continue
            if len(key) == KEY_BYTES and header.fits(key):
                return key
    raise _wrong()


def _unwrapped(header: Header, kind: _Kind, stretch: Callable[[Slot], bytes]) -> bytes:
    from cryptography.exceptions import InvalidTag

    for slot in header.slots:
        if slot.kind == kind:
            try:
                aead = _aead(stretch(slot))
                key = aead.decrypt(
                    _bytes(slot.nonce), _bytes(slot.wrapped), _bound(header.id, slot)
                )
            except (InvalidTag, ValueError):
                continue
            if header.fits(key):
                return key
    raise _wrong()


def _wrong() -> WrongKeyError:
    return WrongKeyError(
        "The passphrase or key is wrong.",
        hint="Try again; or open it with its recovery key: localrag vault recover",
    )


def _altered(directory: Path) -> LibraryDamagedError:
    return LibraryDamagedError(
        "{path} was altered.",
        hint="Restore that file from a backup of the folder.",
        path=directory / VAULT_HEADER,
    )


def _for_passphrase(number: str, key: bytes, passphrase: str) -> Slot:
    if len(passphrase) < SHORTEST:
        raise UsageError(
            "A passphrase has at least {least} characters.",
            hint="Six random words are easy to keep and hard to guess.",
            least=SHORTEST,
        )
    slot = Slot(kind="passphrase", wrapped="", salt=_text(secrets.token_bytes(16)), **_COST)
    return _wrapped(number, slot, _stretched(slot, passphrase), key)


def _for_recovery(number: str, key: bytes, recovery_key: str) -> Slot:
    slot = Slot(kind="recovery", wrapped="", salt=_text(secrets.token_bytes(16)))
    secret = base64.b32decode(recovery_key.replace("-", ""))
    return _wrapped(number, slot, derived(secret, "recovery", salt=_bytes(slot.salt)), key)


def _for_recipient(key: bytes, recipient: str) -> Slot:
    age = _age()
    try:
        public = age.x25519.Recipient.from_str(recipient.strip())
    except age.RecipientError as error:
        raise UsageError(
            "{recipient} is not an age recipient.",
            hint="A recipient begins with age1; `age-keygen` creates one with its identity.",
            recipient=recipient,
        ) from error
    # To which vault it belongs is in the seal over the header.
    return Slot(kind="age", wrapped=_text(age.encrypt(key, [public])))


def _wrapped(number: str, slot: Slot, by: bytes, key: bytes) -> Slot:
    slot = msgspec.structs.replace(slot, nonce=_text(nonce := secrets.token_bytes(12)))
    sealed = _aead(by).encrypt(nonce, key, _bound(number, slot))
    return msgspec.structs.replace(slot, wrapped=_text(sealed))


def _bound(number: str, slot: Slot) -> bytes:
    """What a slot says of itself, which its wrapped key is bound to."""
    fields = [FORMAT, number, slot.kind, slot.salt, slot.memory_kib, slot.iterations, slot.lanes]
    return json.dumps(fields).encode()


def _stretched(slot: Slot, passphrase: str) -> bytes:
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    typed = unicodedata.normalize("NFC", passphrase).encode("utf-8", "surrogatepass")
    kdf = Argon2id(
        salt=_bytes(slot.salt),
        length=KEY_BYTES,
        iterations=slot.iterations,
        lanes=slot.lanes,
        memory_cost=slot.memory_kib,
    )
    return kdf.derive(typed)


def _aead(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _age() -> Any:
    try:
        import pyrage
    except ImportError as error:
        raise lacking("pyrage") from error
    return pyrage


def lacking(package: str) -> LibraryError:
    """What whoever uses a vault is told where a package that it takes is not installed."""
    return LibraryError(
        "Vaults need the package {package}, which is not installed.",
        hint="Install it: pip install {package}; without a network, from a bundle.",
        package=package,
    )


def _spelt(secret: bytes) -> str:
    letters = base64.b32encode(secret).decode("ascii")
    return "-".join(letters[place : place + 4] for place in range(0, len(letters), 4))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _name(number: str) -> str:
    return f"localrag:vault:{number}"


def _from_kernel(header: Header) -> Vault | None:
    payload = _kernel.get(_name(header.id))
    if payload is None or len(payload) != 2 + KEY_BYTES or not header.fits(payload[2:]):
        return None
    minutes = int.from_bytes(payload[:2], "big")
    _kernel.get(_name(header.id), seconds=60 * minutes)
    return _open_in_process(header, payload[2:], minutes)


def _is_kept(number: str) -> bool:
    return _kernel.get(_name(number)) is not None


def _open_in_process(header: Header, key: bytes, minutes: int = 0) -> Vault:
    with _opened.guard:
        known = _opened.vaults.get(header.id)
        if known is None:
            leave_no_dump()
            keep_from_swap()
            files.keep_scratch_in_memory()
            known = _opened.vaults[header.id] = Vault.of(header.id, key, minutes)
        _opened.used[header.id] = time.monotonic()
        return known
