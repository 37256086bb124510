"""What fuzzing and injected faults have found, so that it stays mended."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest
from fakes import HashEmbedder

from localrag.bundle.installer.manifest import parse
from localrag.config.settings import load_settings
from localrag.documents import worker
from localrag.documents.chunking import WindowChunker
from localrag.documents.files import parse_file
from localrag.errors import (
    BundleError,
    ConfigError,
    LibraryDamagedError,
    ModelCorruptError,
    ModelNotFoundError,
    ParsingError,
    UsageError,
)
from localrag.evaluation.dataset import read_dataset
from localrag.evaluation.retrieval.beir import read_retrieval_set
from localrag.factory import indexes_of
from localrag.indexing.indexer import Indexer
from localrag.library.indexes.base import Storage
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity
from localrag.models.registry.store import ModelStore
from localrag.system.seals import own_seal
from localrag.text.tokenize import Tokenizer

DEEP = '{"a":' * 5000


def test_a_variable_of_the_environment_that_is_not_text(tmp_path: Path) -> None:
    environment = {"LOCALRAG_CONFIG": str(tmp_path / "none"), "LOCALRAG_RETRIEVAL": "\udcff"}
    with pytest.raises(ConfigError, match="LOCALRAG_RETRIEVAL: the value contains bytes"):
        load_settings(environment=environment)


def test_a_manifest_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "registered.json").write_bytes(b'{"\xed\xa0\x80": 1}')
    with pytest.raises(ModelCorruptError, match="cannot be read"):
        ModelStore(tmp_path).statuses()


def test_a_reply_of_the_reading_process_that_is_not_utf_8() -> None:
    with pytest.raises(ParsingError):
        worker._decoded(b"\x92\x94\xa2\xff\xfe\xa0\xa0\x80\x90")


def test_the_name_of_a_model_that_no_file_system_can_hold(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError):
        ModelStore(tmp_path).path("x" * 5000)


def test_a_registered_path_that_no_file_system_can_hold(tmp_path: Path) -> None:
    file = {"path": "a.bin", "size": 3, "sha256": "00", "source": "x", "mtime_ns": 1}
    own = {"name": "own", "task": "llm", "path": "/" + "a" * 5000}
    registered = {"own": own | {"files": [file | {"hash_from": "user"}]}}
    (tmp_path / "registered.json").write_text(json.dumps(registered), encoding="utf-8")
    store = ModelStore(tmp_path)
    assert str(store.verify(["own"])[0].fault) == "not there"
    with pytest.raises(ModelNotFoundError):
        store.path("own")


@pytest.mark.parametrize("path", ["a/\ud800", "a/" + "长" * 90])
def test_a_path_in_a_bundle_that_no_disk_can_hold(path: str) -> None:
    target = {"system": "linux", "machine": "x86_64", "python": "3.11", "accelerator": "cpu"}
    manifest = {"format": 1, "localrag": "1", "created": "x", "target": target, "base": None}
    file = {"path": path, "bytes": 1, "sha256": "0" * 64}
    with pytest.raises(BundleError, match=r"every system|too long"):
        parse(json.dumps(manifest | {"files": [file]}).encode())


@pytest.mark.parametrize("name", ["a.html", "a.md"])
def test_entities_bring_nothing_back_that_was_taken_out(name: str) -> None:
    body = "x&#x1b;[2Jy &#x202e;z&#8203;w&#xE0041;e &#x2028;n &#7; so&shy;ft &#x85;q"
    markup = {
        "a.html": f"<title>T&#x1b;&#x202e;</title><h1>{body}</h1><p>{body}</p><pre>  {body}</pre>"
        f"<table><tr><td>{body}</td></tr></table><ul><li>{body}</ul>",
        "a.md": f"# {body}\n\n{body}\n\n- {body}\n\n<p>{body}</p>\n\n| a |\n|--|\n| {body} |\n",
    }[name]
    document = parse_file(Path(name), markup.encode())
    for text in (document.text, document.title, *(heading.text for heading in document.headings)):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u200b\u2028\u202e\U000e0041]", text)
    assert "\n" not in document.headings[0].text
    assert "soft" in document.text
    assert document.text.count("zwe") >= 4


def test_a_title_that_is_the_name_of_a_file() -> None:
    assert parse_file(Path("名\x1b[2J\u202e.txt"), b"text").title == "名[2J"


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_a_data_set_of_brackets(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(("[" * 5000 if name == "a.json" else DEEP) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not valid JSON"):
        read_dataset(path)


def test_a_data_set_with_an_endless_cell(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("question\n" + "x" * 200_000 + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="not valid CSV: field larger"):
        read_dataset(path)


def test_a_retrieval_set_of_brackets(tmp_path: Path) -> None:
    row = json.dumps({"id": "1", "text": "x"}) + "\n"
    (tmp_path / "corpus.jsonl").write_text(DEEP + "\n", encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text(row, encoding="utf-8")
    (tmp_path / "qrels.tsv").write_text("1\t1\t1\n", encoding="utf-8")
    with pytest.raises(UsageError, match="Line 1 of"):
        read_retrieval_set(tmp_path)


@pytest.mark.parametrize("year", [1961, 1970, 2038, 2286])
def test_files_of_any_time(year: int, tmp_path: Path) -> None:
    files, embedder = tmp_path / "files", HashEmbedder()
    files.mkdir()
    moment = round((year - 1970) * 365.2425 * 86400) * 10**9
    (files / "a.txt").write_text("the lantern by the harbour\n", encoding="utf-8")
    try:
        os.utime(files / "a.txt", ns=(moment, moment))
    except (OSError, OverflowError):
        pytest.skip("only where the file system knows such a time")
    embedding = EmbeddingIdentity(embedder.fingerprint, "hash", embedder.dimension)
    with Library.open(
        tmp_path / "library",
        create=True,
        embedding=embedding,
        indexes=indexes_of(Tokenizer()),
    ) as library:
        indexer = Indexer(
            library,
            chunker=WindowChunker(100, 0),
            chunking="windows",
            embedder=embedder,
            embedding=embedding,
            detect_language=lambda _: "en",
            parse=parse_file,
        )
        assert len(indexer.add([files]).committed) == 1
        again = indexer.add([files])
        assert (len(again.unchanged), len(again.committed)) == (1, 0)
        # A time in the future says nothing: the bytes are read, and a change is seen.
        (files / "a.txt").write_text("the lantern by the station\n", encoding="utf-8")
        os.utime(files / "a.txt", ns=(moment + 1, moment + 1))
        assert len(indexer.add([files]).committed) == 1


def test_a_disk_that_turns_read_only_while_old_indexes_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(tmp_path))

    embedding = EmbeddingIdentity("stand-in", "stand-in", 8)
    with Library.open(
        tmp_path / "library",
        create=True,
        embedding=embedding,
        indexes=indexes_of(Tokenizer()),
    ) as library:
        library.sync()
        (tmp_path / "library" / "keywords" / "bm25-00000000").mkdir()
        monkeypatch.setattr("localrag.system.files.delete_tree", refused)
        assert not library.keywords.erase(library.keywords.current().stamp)
        assert not library.purge()


def test_the_pointer_of_an_index_of_brackets(tmp_path: Path) -> None:
    (tmp_path / "index.json").write_text(DEEP, encoding="utf-8")
    assert InvertedKeywords().saved(Storage(tmp_path, own_seal())) is None


@pytest.mark.parametrize(
    "change", ["UPDATE documents SET metadata = '3'", "UPDATE pages SET \"end\" = 'x'"]
)
def test_rows_that_cannot_have_been_stored(change: str, tmp_path: Path) -> None:
    files, embedder = tmp_path / "files", HashEmbedder()
    files.mkdir()
    (files / "a.txt").write_text("the lantern by the harbour\n", encoding="utf-8")
    embedding = EmbeddingIdentity(embedder.fingerprint, "hash", embedder.dimension)

    def opened() -> Library:
        return Library.open(
            tmp_path / "library",
            create=True,
            embedding=embedding,
            indexes=indexes_of(Tokenizer()),
        )

    with opened() as library:
        Indexer(
            library,
            chunker=WindowChunker(100, 0),
            chunking="windows",
            embedder=embedder,
            embedding=embedding,
            detect_language=lambda _: "en",
            parse=parse_file,
        ).add([files])
    with closing(sqlite3.connect(tmp_path / "library" / "catalogue.sqlite")) as connection:
        connection.execute(change)
        connection.commit()
    document_id = sha256((files / "a.txt").read_bytes()).hexdigest()
    with opened() as library, pytest.raises(LibraryDamagedError, match="cannot have stored"):
        library.document(document_id)
