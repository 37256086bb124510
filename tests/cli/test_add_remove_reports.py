"""What `add` says of what it passed over, and `remove` of what it could not finish."""

from __future__ import annotations

import errno
import json
import re
from pathlib import Path, PurePath

import pytest
from click.testing import CliRunner
from fakes import HashEmbedder

from localrag.cli.add import report_json
from localrag.cli.output import stdout_console
from localrag.cli.problems import print_problems
from localrag.cli.remove import remove
from localrag.documents.chunking import WindowChunker
from localrag.documents.content import unsupported
from localrag.documents.files import parse_file
from localrag.factory import indexes_of
from localrag.indexing.indexer import Indexer
from localrag.library.library import Library
from localrag.library.records import EmbeddingIdentity, Problem

EMBEDDER = HashEmbedder()
EMBEDDING = EmbeddingIdentity(EMBEDDER.fingerprint, "hash", EMBEDDER.dimension)


class Words:
    fingerprint = "words"

    def __call__(self, text: str) -> list[str]:
        return text.split()


def opened(directory: Path) -> Library:
    return Library.open(directory, create=True, embedding=EMBEDDING, indexes=indexes_of(Words()))


def indexer(library: Library) -> Indexer:
    return Indexer(
        library,
        chunker=WindowChunker(60, 0),
        chunking="window",
        embedder=EMBEDDER,
        embedding=EMBEDDING,
        detect_language=lambda _: "en",
        parse=parse_file,
    )


def test_links_that_were_not_followed_are_named_with_the_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").mkdir()
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data.bin").write_bytes(b"\0")
    try:
        (folder / "notes").symlink_to(tmp_path / "secret", target_is_directory=True)
    except OSError:
        pytest.skip("only where links can be made")
    with opened(tmp_path / "library") as library:
        report = indexer(library).add([folder])
        print_problems(stdout_console(), library.problems())
    output = capsys.readouterr().out
    assert re.search(r"^\*\.bin +files of a type that is not read: 1", output, re.MULTILINE)
    assert re.search(r"^notes +is a link to .*secret, which is outside", output, re.MULTILINE)
    assert f"localrag add {folder / 'notes'}" in output
    assert any(
        "is outside what is being added" in error for error in report_json(report, 0.1)["skipped"]
    )


def test_names_are_whole_and_lines_have_no_blanks_at_their_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = [unsupported(PurePath(f"/a/mail.eml/{name}")) for name in ("b.zip", "b.xyz")]
    problems = [
        Problem(f"/a/{folder}/*{Path(error.values['source']).suffix}", (), None, entry)
        for error, folder in zip(errors, ("mails", "accounts-of-2026"), strict=True)
        for entry in [type(error)(error.message, hint=error.hint, **error.values, count=1)]
    ]
    for columns, longest in (("80", 80), ("", 10_000)):
        monkeypatch.setenv("COLUMNS", columns)
        print_problems(stdout_console(), problems)
        lines = capsys.readouterr().out.splitlines()
        assert all(line == line.rstrip() for line in lines)
        assert max(map(len, lines)) <= longest
        assert (
            sum(line.startswith(("mails/*.zip ", "accounts-of-2026/*.xyz ")) for line in lines) == 2
        )
    assert "Unpack it and add the folder." in lines[-1] + lines[-2]


def test_a_removal_tells_of_the_copies_that_it_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / "none.toml"))
    own = tmp_path / "own.txt"
    copy = tmp_path / "library" / "uploads" / "copy.txt"
    with opened(tmp_path / "library") as library:
        own.write_text("the words of a file of one's own")
        indexer(library).add([own])
        handed = tmp_path / "handed"
        handed.write_text("the words of a file that was dropped")
        indexer(library).upload(handed, copy.name)
        assert copy.exists()
    for path, words in ((own, "files themselves were not touched"), (copy, "are deleted, too")):
        result = CliRunner().invoke(remove, [str(path), "--library", str(tmp_path / "library")])
        assert words in result.stdout.replace("\n", " ")
    assert own.exists()
    assert not copy.exists()


@pytest.mark.parametrize("as_json", [True, False])
def test_a_removal_on_a_full_disk_counts_and_is_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret words")
    with opened(tmp_path / "library") as library:
        indexer(library).add([secret])

    def full(_: object) -> bool:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path / "none.toml"))
    arguments = [str(secret), "--library", str(tmp_path / "library")]
    with monkeypatch.context() as patch:
        patch.setattr("localrag.library.catalogue.catalogue.SqliteCatalogue.purge", full)
        result = CliRunner().invoke(remove, [*arguments, *["--json"] * as_json])
    assert result.exit_code == 0, result.output
    if as_json:
        report = json.loads(result.stdout)
        assert (len(report["documents"]), report["purged"]) == (1, False)
        assert "No space left" in report["reason"]
    else:
        assert "documents: 1" in result.stdout
        assert "No space left" in result.stderr
        assert "until the next command that opens the library" in result.stderr.replace("\n", " ")
    with opened(tmp_path / "library") as library:
        assert library.counts().documents == 0
        with library._catalogue.read() as snapshot:
            assert snapshot.meta("purge due") is None
