"""A vault: nothing of it lies on disk in clear, and nothing opens that was altered."""

from __future__ import annotations

import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import traceback
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from library_fixtures import EMBEDDER, add, bytes_on_disk, document, found, indexes, open_library
from waiting import until

from localrag import factory
from localrag.config.settings import Settings
from localrag.errors import (
    LibraryClosedError,
    LibraryDamagedError,
    LibraryError,
    UsageError,
    WrongKeyError,
)
from localrag.evaluation.call_cache import CallCache
from localrag.library.check import check_library
from localrag.library.computed import computed_key
from localrag.library.conversion import decrypt_library, encrypt_library
from localrag.library.folder import vaults
from localrag.library.library import Library
from localrag.library.transfer import export_library, import_library
from localrag.models.llms.llama_cpp.state_files import StateFiles
from localrag.system import files
from localrag.system.ciphers import BLOCK, AlteredError, Cipher, derived
from localrag.system.key_memory import KernelKeys, LockedBytes

pytest.importorskip("sqlcipher3", reason="only where sqlcipher3 is installed")

PASSPHRASE = "correct horse battery"
ENCODINGS = ("utf-8", "utf-16-le", "utf-16-be", "gb18030")


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Passphrases are stretched a little only, no kernel is asked, and all is closed after."""
    monkeypatch.setattr(vaults, "_COST", {"memory_kib": 64, "iterations": 1, "lanes": 1})
    monkeypatch.setattr(vaults.KernelKeys, "_call", lambda *_: -1)
    monkeypatch.setattr(files._Scratch, "in_memory", False)
    yield
    for number in list(vaults._opened.vaults):
        vaults.close_here(number)


def made(directory: Path) -> str:
    """A new vault, opened; its recovery key."""
    recovery = vaults.create(directory, PASSPHRASE)
    vaults.open_here(directory, PASSPHRASE)
    return recovery


def closed(directory: Path) -> None:
    assert vaults.close_here(vaults.header_of(directory).id)


def sentences(seed: int, count: int) -> list[str]:
    draw = random.Random(seed)
    words = ["harbour", "灯塔", "tariff", "合同", "ledger", "码头", "notice", "租约"]
    return [
        f"{draw.choice(words)} {draw.getrandbits(48):012x} {draw.choice(words)} 第{n}条"
        for n in range(count)
    ]


def traces(content: bytes, texts: list[str]) -> list[str]:
    return [text for text in texts if any(text.encode(name) in content for name in ENCODINGS)]


# Files


@pytest.mark.parametrize("length", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK])
def test_a_file_says_what_was_written_and_any_part_of_it(length: int) -> None:
    content = random.Random(length).randbytes(length)
    cipher = Cipher(b"k" * 32)
    data = b"".join(cipher.encrypted("name", [content[:7], content[7:]]))
    assert len(data) == Cipher.size_of(length)
    assert Cipher.length_of(len(data)) == length
    assert cipher.read("name", io.BytesIO(data)) == content
    for begin, count in ((0, 1), (length // 2, BLOCK), (length - 1, 5), (BLOCK, 1)):
        if begin >= 0:
            part = cipher.read("name", io.BytesIO(data), begin, count)
            assert part == content[begin : begin + count]
    if length:
        assert bytes(cipher.mapped("name", io.BytesIO(data))) == content


def test_what_is_altered_in_any_byte_or_cut_or_moved_does_not_open() -> None:
    cipher, draw = Cipher(b"k" * 32), random.Random(7)
    content = draw.randbytes(2 * BLOCK + 100)
    data = b"".join(cipher.encrypted("name", [content]))
    block = BLOCK + 16
    start = len(data) - len(content) - 3 * 16
    places = {0, 7, 8, 39, start, len(data) - 1} | {draw.randrange(len(data)) for _ in range(60)}
    wrong = [data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :] for place in places]
    wrong += [data[:-1], data[: start + block], data[: start + 2 * block], data + b"x", b""]
    first, second = data[start : start + block], data[start + block : start + 2 * block]
    wrong.append(data[:start] + second + first + data[start + 2 * block :])
    wrong.append(data[: start + block] + first + data[start + 2 * block :])
    other = b"".join(cipher.encrypted("name", [content]))
    wrong.append(other[: start + block] + data[start + block :])
    for altered in wrong:
        with pytest.raises(AlteredError):
            cipher.read("name", io.BytesIO(altered))
    with pytest.raises(AlteredError):
        cipher.read("another", io.BytesIO(data))
    with pytest.raises(AlteredError):
        Cipher(b"l" * 32).read("name", io.BytesIO(data))


def test_the_format_is_what_it_was() -> None:
    """A file of version 1, written by `cryptography` from the description of the format alone."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    start, content = b"lrvault\x01" + bytes(range(32)), b"a" * BLOCK + b"b"
    aead = AESGCM(derived(b"k" * 32, "file", salt=bytes(range(32))))
    bound = start + b"name"
    data = start + aead.encrypt(bytes(12), content[:BLOCK], bound)
    data += aead.encrypt(bytes(10) + b"\x01\x01", content[BLOCK:], bound)
    assert Cipher(b"k" * 32).read("name", io.BytesIO(data)) == content
    assert derived(b"k" * 32, "file", salt=bytes(range(32))).hex() == HKDF_OF_IT


HKDF_OF_IT = "830e42b93ea61cb6637b121111225447f78f2c4bbdde223eb49b4c53ff7c9d31"


# Keys


def test_a_passphrase_opens_it_and_another_does_not(tmp_path: Path) -> None:
    vaults.create(tmp_path / "lib", PASSPHRASE)
    with pytest.raises(LibraryClosedError, match="localrag vault open"):
        open_library(tmp_path / "lib")
    with pytest.raises(WrongKeyError):
        vaults.open_here(tmp_path / "lib", "correct horse batterY")
    with pytest.raises(LibraryClosedError):
        open_library(tmp_path / "lib")
    vaults.open_here(tmp_path / "lib", PASSPHRASE)
    open_library(tmp_path / "lib").close()


def test_a_passphrase_is_the_same_however_its_accents_are_typed(tmp_path: Path) -> None:
    vaults.create(tmp_path, "caf\u00e9 au lait")
    vaults.open_here(tmp_path, "cafe\u0301 au lait")


def test_a_short_passphrase_makes_no_vault(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="8 characters"):
        vaults.create(tmp_path / "lib", "seven77")
    assert not (tmp_path / "lib").exists()


def test_the_recovery_key_opens_it_as_somebody_types_it(tmp_path: Path) -> None:
    recovery = vaults.create(tmp_path, PASSPHRASE)
    header = vaults.header_of(tmp_path)
    assert len(recovery.replace("-", "")) == 32
    input_text = recovery.lower().replace("-", " ")
    assert vaults.key_by_recovery(header, input_text) == vaults.key_by_passphrase(
        header, PASSPHRASE
    )
    for wrong in ("", "AAAA", "A" * 32, recovery[:-1], recovery[:-1] + "!"):
        with pytest.raises(WrongKeyError):
            vaults.key_by_recovery(header, wrong)


def test_another_passphrase_takes_the_place_of_the_first(tmp_path: Path) -> None:
    recovery = vaults.create(tmp_path, PASSPHRASE)
    key = vaults.key_by_recovery(vaults.header_of(tmp_path), recovery)
    vaults.change_passphrase(tmp_path, key, "another passphrase")
    header = vaults.header_of(tmp_path)
    assert vaults.key_by_passphrase(header, "another passphrase") == key
    assert vaults.key_by_recovery(header, recovery) == key
    with pytest.raises(WrongKeyError):
        vaults.key_by_passphrase(header, PASSPHRASE)
    newer = vaults.change_recovery(tmp_path, key)
    header = vaults.header_of(tmp_path)
    assert vaults.key_by_recovery(header, newer) == key
    with pytest.raises(WrongKeyError):
        vaults.key_by_recovery(header, recovery)


def test_a_header_that_was_altered_opens_nothing(tmp_path: Path) -> None:
    recovery = vaults.create(tmp_path, PASSPHRASE)
    path = tmp_path / "vault.json"
    fields = json.loads(path.read_bytes())
    changes: list[dict[str, object]] = [
        {"id": "0" * 32},
        {"slots": fields["slots"][:1]},
        {"slots": [fields["slots"][0] | {"iterations": 2}, fields["slots"][1]]},
        {"seal": "0" * 64},
    ]
    for change in changes:
        header = vaults.read_header(json.dumps(fields | change).encode())
        with pytest.raises(WrongKeyError):
            vaults.key_by_passphrase(header, PASSPHRASE)
        with pytest.raises(WrongKeyError):
            vaults.key_by_recovery(header, recovery)
    first, second = fields["slots"]
    costly = (
        [first | {"memory_kib": 1 << 40}, second],
        [first | {"memory_kib": 1 << 21, "iterations": 64}, second],
        [first] * 90 + [second],  # each would be tried with the passphrase
    )
    headers = [json.dumps(fields | {"slots": slots}).encode() for slots in costly]
    deep = b'{"x":' + b"[" * 60_000
    odd = json.dumps(fields | {"seal": "é" * 64}).encode()
    for wrong in (b"", b"{", *headers, b"[]", b"\xff", deep, odd):
        path.write_bytes(wrong)
        with pytest.raises(LibraryDamagedError):
            vaults.vault_of(tmp_path)
    path.write_bytes(json.dumps(fields | {"format": "localrag-vault-2"}).encode())
    with pytest.raises(LibraryError, match="Update localrag"):
        vaults.vault_of(tmp_path)


# A whole library


def test_it_answers_as_the_same_library_that_is_none(tmp_path: Path) -> None:
    made(tmp_path / "vault")
    for name in ("plain", "vault"):
        with open_library(tmp_path / name) as library:
            for number in range(30):
                add(library, document(f"term{number} the harbour", source=f"{number}.txt"))
            library.remove(sources=["3.txt", "4.txt"])
            library.sync()
    with open_library(tmp_path / "plain") as plain, open_library(tmp_path / "vault") as vault:
        for question in ("harbour", "term5", "term3"):
            assert found(vault, question) == found(plain, question)
        assert vault.counts() == plain.counts()
    assert check_library(tmp_path / "vault", indexes()).ok


def test_nothing_of_it_lies_in_its_folder(tmp_path: Path) -> None:
    texts = sentences(1, 400)
    made(tmp_path)
    with open_library(tmp_path) as library:
        for begin in range(0, 400, 20):
            name = f"contract of {texts[begin]}.txt"
            add(library, document("\n".join(texts[begin : begin + 20]), source=name))
        library.sync()
        found(library, texts[200])
        StateFiles(tmp_path / "kv", 1 << 20, "weights", library.seal).put(
            b"tokens", texts[0].encode() + texts[1].encode("utf-16-le")
        )
        assert not traces(bytes_on_disk(tmp_path), texts)
        library.remove(sources=[source.path for source in sources(library)[:10]])
        assert not traces(bytes_on_disk(tmp_path), texts)
        names = "\n".join(str(path) for path in tmp_path.rglob("*"))
        assert not traces(names.encode(), texts)
    assert not traces(bytes_on_disk(tmp_path), texts)
    assert b"SQLite format 3" not in bytes_on_disk(tmp_path)


def sources(library: Library) -> list[object]:
    return [record.state for record in library.sources()]


def test_a_state_comes_back_and_an_altered_one_does_not(tmp_path: Path) -> None:
    made(tmp_path)
    with open_library(tmp_path) as library:
        states = StateFiles(tmp_path / "kv", 1 << 20, "weights", library.seal)
        states.put(b"tokens", b"what was read" * 99)
        (path,) = (tmp_path / "kv").iterdir()
        assert bytes(states.get(b"tokens")) == b"what was read" * 99
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
        assert states.get(b"tokens") is None
        assert not path.exists()


def test_every_altered_page_and_segment_is_noticed(tmp_path: Path) -> None:
    made(tmp_path / "sound")
    with open_library(tmp_path / "sound") as library:
        for number in range(30):
            add(library, document(f"term{number} the harbour " * 50, source=f"{number}.txt"))
        library.sync()
        answers = [found(library, question) for question in ("harbour", "term5")]
    draw, folder = random.Random(3), tmp_path / "altered"
    for path in sorted((tmp_path / "sound").rglob("*")):
        if path.suffix not in (".vault", ".segment"):
            continue
        size = path.stat().st_size
        step = 8192 if path.suffix == ".vault" else BLOCK
        for begin in range(0, size, step):
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(tmp_path / "sound", folder)
            victim = folder / path.relative_to(tmp_path / "sound")
            data = bytearray(victim.read_bytes())
            data[min(size - 1, begin + draw.randrange(step))] ^= 1 << draw.randrange(8)
            victim.write_bytes(data)
            inspection = check_library(folder, indexes())
            if path.suffix == ".vault":
                assert not inspection.ok, f"{path.name} at {begin}"
            else:  # it is derived: made anew, and never answered from
                assert any(
                    finding.part in ("vectors", "keywords") for finding in inspection.findings
                )
                with open_library(folder) as library:
                    assert [found(library, word) for word in ("harbour", "term5")] == answers


@pytest.mark.parametrize("cut", [1, 4096, 8192])
def test_a_catalogue_that_is_cut_short_is_noticed(tmp_path: Path, cut: int) -> None:
    made(tmp_path)
    with open_library(tmp_path) as library:
        for number in range(30):
            add(library, document(f"term{number} the harbour " * 50, source=f"{number}.txt"))
    path = tmp_path / "catalogue.vault"
    path.write_bytes(path.read_bytes()[:-cut])
    assert not check_library(tmp_path, indexes()).ok


def test_without_its_header_it_is_said_to_be_damaged(tmp_path: Path) -> None:
    made(tmp_path)
    with open_library(tmp_path) as library:
        add(library, document("harbour"))
        library.sync()
    (tmp_path / "vault.json").unlink()
    with pytest.raises(LibraryDamagedError, match=r"vault\.json"):
        open_library(tmp_path)


def test_closing_it_ends_what_it_answers(tmp_path: Path) -> None:
    made(tmp_path)
    with open_library(tmp_path) as library:
        add(library, document("harbour"))
    closed(tmp_path)
    with pytest.raises(LibraryClosedError):
        open_library(tmp_path)


def test_a_person_is_asked_where_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    vaults.create(tmp_path, PASSPHRASE)
    folders: list[Path] = []

    def ask(folder: Path) -> str:
        folders.append(folder)
        return PASSPHRASE

    monkeypatch.setattr(vaults, "ask_passphrase", ask)
    open_library(tmp_path).close()
    open_library(tmp_path).close()
    assert folders == [tmp_path]  # once a process


# Made of a library, and a library again


def filled(directory: Path, texts: list[str]) -> None:
    with open_library(directory) as library:
        for begin in range(0, len(texts), 20):
            add(library, document("\n".join(texts[begin : begin + 20]), source=f"{begin}.txt"))
        library.sync()
        StateFiles(directory / "kv", 1 << 20, "weights", library.seal).put(
            b"tokens", texts[0].encode()
        )
        upload = directory / "uploads" / "notes.txt"
        upload.parent.mkdir()
        text = "The lease ends in May 2031."
        upload.write_text(text, encoding="utf-8")
        add(library, document(text, source=str(upload)), path=str(upload))


def answers(directory: Path, texts: list[str]) -> tuple[object, ...]:
    with open_library(directory) as library:
        uploads = [(upload.name, upload.data) for upload in library.uploads.all(library.sources())]
        counts = library.counts()
        return uploads, counts, *(found(library, text) for text in texts[::100])


def test_a_library_becomes_a_vault_and_a_library_again(tmp_path: Path) -> None:
    texts = sentences(2, 300)
    filled(tmp_path, texts)
    before = answers(tmp_path, texts)
    assert before[0]
    assert traces(bytes_on_disk(tmp_path), texts)
    header, key, _ = vaults.new_header(PASSPHRASE)
    encrypt_library(tmp_path, header, key)
    assert not traces(bytes_on_disk(tmp_path), texts)
    assert not list(tmp_path.rglob("notes*"))
    assert answers(tmp_path, texts) == before
    assert not traces(bytes_on_disk(tmp_path), texts)
    assert check_library(tmp_path, indexes()).ok
    decrypt_library(tmp_path)
    assert not vaults.is_vault(tmp_path)
    assert not list(tmp_path.glob("*.vault*"))
    assert answers(tmp_path, texts) == before
    assert check_library(tmp_path, indexes()).ok


@pytest.mark.parametrize("becomes", ["vault", "library"])
def test_who_had_it_open_writes_nothing_into_what_took_its_place(
    tmp_path: Path, becomes: str
) -> None:
    header, key, _ = vaults.new_header(PASSPHRASE)
    with open_library(tmp_path) as library:
        add(library, document("the harbour", source="a.txt"))
    if becomes == "library":
        encrypt_library(tmp_path, header, key)
    with open_library(tmp_path) as before:
        before.vectors.current()
        if becomes == "vault":
            encrypt_library(tmp_path, header, key)
        else:
            decrypt_library(tmp_path)
        for write in (
            lambda: add(before, document("zebrasecret", source="b.txt")),
            before.sync,
            lambda: before.remove(sources=["a.txt"]),
        ):
            with pytest.raises(LibraryError, match="was replaced while it was open"):
                write()
    assert b"zebrasecret" not in bytes_on_disk(tmp_path)
    with open_library(tmp_path) as after:
        assert after.counts().documents == 1
        after.sync()
    assert check_library(tmp_path, indexes()).ok


def test_a_vault_is_not_made_twice_nor_shared(tmp_path: Path) -> None:
    made(tmp_path / "vault")
    header, key, _ = vaults.new_header(PASSPHRASE)
    open_library(tmp_path / "vault").close()
    with pytest.raises(UsageError, match="already"):
        encrypt_library(tmp_path / "vault", header, key)
    open_library(tmp_path / "plain").close()
    with pytest.raises(UsageError, match="not a vault"):
        decrypt_library(tmp_path / "plain")


@pytest.mark.skipif(sys.platform == "win32", reason="only on systems with fork")
@pytest.mark.parametrize("back", [False, True])
def test_a_conversion_that_is_killed_leaves_one_of_the_two(tmp_path: Path, back: bool) -> None:
    """Killed at each call by which it changes the folder, in turn, until it ends by itself."""
    texts = sentences(4, 40)
    filled(tmp_path / "plain", texts)
    before = answers(tmp_path / "plain", texts)
    header, key, _ = vaults.new_header(PASSPHRASE)
    if back:
        encrypt_library(tmp_path / "plain", header, key)
    outcomes, at = set(), 0
    while True:
        at += 1
        folder = tmp_path / f"killed{at}"
        shutil.copytree(tmp_path / "plain", folder)
        finished = killed_at(at, folder, header, key, back=back)
        if vaults.is_vault(folder):
            vaults.remember(folder, key)
        is_vault = vaults.is_vault(folder)
        outcomes.add(is_vault)
        now = answers(folder, texts)
        assert now == before, f"killed at {at}"
        names = {path.name for path in folder.glob("catalogue.*")} - {"catalogue.sqlite-swept"}
        assert names == {"catalogue.vault" if is_vault else "catalogue.sqlite"}
        if is_vault:
            assert not list(folder.rglob("notes*"))
            assert not traces(bytes_on_disk(folder), texts), f"killed at {at}"
        shutil.rmtree(folder)
        if finished:
            break
    assert outcomes == {False, True}
    assert at > 10


def killed_at(number: int, folder: Path, header: vaults.Header, key: bytes, *, back: bool) -> bool:
    """Convert in a child that ends before its so-manieth change of the folder; whether it did."""
    child = os.fork()
    if not child:
        countdown = number

        def count(event: str, _: object) -> None:
            nonlocal countdown
            if event in ("os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir") or (
                event == "sqlite3.connect"
            ):
                countdown -= 1
                if not countdown:
                    os.kill(os.getpid(), signal.SIGKILL)

        try:
            sys.addaudithook(count)
            if back:
                decrypt_library(folder)
            else:
                encrypt_library(folder, header, key)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert not os.WIFEXITED(status) or not os.WEXITSTATUS(status)
    return os.WIFEXITED(status)


# Uploads, what is computed, and exports


def sent(library: Library, scratch: Path, text: str, name: str) -> None:
    file = scratch / "sent"
    file.write_text(text, encoding="utf-8")
    settings = Settings()
    report = factory.make_indexer(settings, library, EMBEDDER).upload(file, name)
    assert report.committed
    file.unlink()


def opened(place: Path) -> Library:
    settings = Settings()
    return open_library(
        place,
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )


def test_an_upload_lies_nowhere_in_clear_and_goes_with_its_document(tmp_path: Path) -> None:
    text, name = "The lease ends in May 2031.", "Kündigung 租约.txt"
    made(tmp_path / "lib")
    with opened(tmp_path / "lib") as library:
        sent(library, tmp_path, text, name)
        sent(library, tmp_path, "Another text.", name)
        (first, second) = sorted(source.state.path for source in library.sources())
        assert Path(second).name == "Kündigung 租约 (2).txt" or Path(first).name.endswith("(2).txt")
        texts = {library.uploads.kept(path) for path in (first, second)}
        assert texts == {text.encode(), b"Another text."}
        lies = list((tmp_path / "lib").rglob("*"))
        assert not traces(bytes_on_disk(tmp_path / "lib"), [text])
        assert not [path for path in lies if "租约" in path.name]
        library.remove(sources=[first, second])
        assert not list((tmp_path / "lib" / "uploads").iterdir())


def test_what_is_computed_with_it_is_encrypted(tmp_path: Path) -> None:
    made(tmp_path / "lib")
    with open_library(tmp_path / "lib") as library:
        key, file = computed_key(library.backend), tmp_path / "calls.sqlite"
    with CallCache(file, key=key) as cache:
        cache.put("one", "a sentence of the judge", 1.0)
        assert b"sentence" not in bytes_on_disk(tmp_path)
    with CallCache(file, key=key) as cache:
        assert cache.get("one") == ("a sentence of the judge", 1.0)
    with pytest.raises(UsageError):
        CallCache(file, key="0" * 64)
    with pytest.raises(UsageError):
        CallCache(file)


@pytest.mark.parametrize("source", ["plain", "vault"])
@pytest.mark.parametrize("target", ["plain", "vault"])
def test_an_encrypted_export_travels_and_shows_nothing(
    tmp_path: Path, source: str, target: str
) -> None:
    for name, kind in (("source", source), ("target", target)):
        if kind == "vault":
            made(tmp_path / name)
    text = "The lease ends in May 2031."
    with opened(tmp_path / "source") as library:
        sent(library, tmp_path, text, "租约.txt")
        before = library.counts(), found(library, "lease")
    header, key, _ = vaults.new_header("of the export", recovery=False)
    archive = tmp_path / "export.zip"
    export_library(tmp_path / "source", archive, "0", protection=(header, key))
    with zipfile.ZipFile(archive) as zip_file:
        content = b"".join(zip_file.read(name) for name in zip_file.namelist())
        assert not any("租约" in name for name in zip_file.namelist())
    assert not traces(content, [text])
    bring = partial(import_library, archive, tmp_path / "target", indexes=indexes())
    with pytest.raises(LibraryClosedError, match="encrypted"):
        bring()
    with pytest.raises(WrongKeyError):
        bring(unlock=lambda archive_header: vaults.key_by_passphrase(archive_header, "another one"))
    bring(unlock=lambda archive_header: vaults.key_by_passphrase(archive_header, "of the export"))
    with opened(tmp_path / "target") as library:
        assert (library.counts(), found(library, "lease")) == before
        ((name, data),) = (
            (upload.name, upload.data) for upload in library.uploads.all(library.sources())
        )
        assert (name, data) == ("租约.txt", text.encode())


def test_an_export_for_an_age_recipient_opens_with_their_identity(tmp_path: Path) -> None:
    age = pytest.importorskip("pyrage", reason="only where pyrage is installed").x25519
    identity, other = age.Identity.generate(), age.Identity.generate()
    header, key, _ = vaults.new_header("", [str(identity.to_public())], recovery=False)
    assert [slot.kind for slot in header.slots] == ["age"]
    assert vaults.key_by_identity(header, f"# mine\n{identity}\n") == key
    with pytest.raises(WrongKeyError):
        vaults.key_by_identity(header, str(other))
    for wrong in ("", "AGE-SECRET-KEY-1NONE"):
        with pytest.raises(WrongKeyError):
            vaults.key_by_identity(header, wrong)
    with pytest.raises(UsageError, match="age1"):
        vaults.new_header("", ["somebody"], recovery=False)


def test_a_vault_is_not_exported_in_clear_unasked(tmp_path: Path) -> None:
    made(tmp_path / "lib")
    with open_library(tmp_path / "lib") as library:
        add(library, document("harbour"))
    with pytest.raises(UsageError, match="--encrypt"):
        export_library(tmp_path / "lib", tmp_path / "a.zip", "0")
    export_library(tmp_path / "lib", tmp_path / "a.zip", "0", in_clear=True)
    import_library(tmp_path / "a.zip", tmp_path / "new", indexes=indexes())
    with open_library(tmp_path / "new") as library:
        assert found(library, "harbour")[1]


# Keys in memory


def test_a_wiped_key_is_gone() -> None:
    secret = LockedBytes(b"k" * 32)
    assert bytes(secret) == b"k" * 32
    secret.wipe()
    with pytest.raises(ValueError, match="wiped"):
        bytes(secret)


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")
def test_a_process_with_an_open_vault_leaves_no_core_and_no_file_in_clear(tmp_path: Path) -> None:
    vaults.create(tmp_path / "lib", PASSPHRASE)
    code = f"""
import resource, ctypes
from pathlib import Path
from localrag.library.folder import vaults
from localrag.system.files import scratch_folder
vaults.open_here(Path({str(tmp_path / "lib")!r}), {PASSPHRASE!r})
assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
assert ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) == 0  # PR_GET_DUMPABLE
with scratch_folder() as folder:
    assert folder.is_relative_to("/dev/shm"), folder
with scratch_folder(encrypted=True) as folder:
    assert not folder.is_relative_to("/dev/shm"), folder
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.skipif(sys.platform != "linux", reason="only on Linux")
def test_the_kernel_keeps_a_key_until_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    keys, name = KernelKeys(), f"localrag:test:{os.getpid()}"
    if not keys.available:
        pytest.skip("only where the kernel keeps keys for this process")
    assert keys.get(name) is None
    assert keys.put(name, b"secret", 60)
    assert keys.get(name, seconds=60) == b"secret"
    assert keys.put(name, b"another", 60)
    assert keys.drop(name)
    assert keys.get(name) is None
    assert not keys.drop(name)
    assert keys.put(name, b"secret", 1)
    until(lambda: keys.get(name) is None)
