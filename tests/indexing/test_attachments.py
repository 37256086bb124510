"""What is attached to a mail is a document of its own, below the path of the mail."""

from __future__ import annotations

import os
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from indexing.test_indexer import Room

from localrag.documents.attachments import safe_name
from localrag.documents.files import parse_file
from localrag.documents.formats.table import shown_name
from localrag.errors import EmptyFileError, SlowFileError, UnsupportedFileError
from localrag.indexing.events import Committed, Failed, FilesFound, Linked, Unchanged
from localrag.indexing.inside import DEEPEST, MOST_ATTACHED, MOST_SLOW
from localrag.library.private import PrivateSources
from localrag.types import Document


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def mail(body: str = "see below", **attachments: str | bytes | EmailMessage) -> EmailMessage:
    """A mail; the names of attachments are written with "_" for the dot."""
    message = EmailMessage()
    message["Subject"], message["From"] = "Offer", "Ann <ann@example.invalid>"
    message.set_content(body)
    for name, content in attachments.items():
        filename = name.replace("_", ".")
        match content:
            case EmailMessage():
                message.add_attachment(content, filename=filename)
            case str():
                message.add_attachment(content, filename=filename)
            case bytes():
                message.add_attachment(
                    content, maintype="application", subtype="octet-stream", filename=filename
                )
    return message


def write(room: Room, name: str, message: EmailMessage) -> Path:
    return room.write(name, message.as_bytes().decode("ascii"))


def held(room: Room) -> list[str]:
    """The sources of the library, below the folder of the files, with "/"."""
    start = len(str(room.files)) + 1
    return [source.state.path[start:].replace(os.sep, "/") for source in room.library.sources()]


def test_attachments_are_documents_below_their_mail(room: Room) -> None:
    write(room, "m.eml", mail(a_txt="apples", b_md="# Pears", c_bin=b"\0\1", d_txt=b""))
    report = room.add()
    assert held(room) == ["m.eml", "m.eml/a.txt", "m.eml/b.md"]
    assert room.finds("apples") == ["a.txt"]
    assert [type(error) for error in report.skipped] == [UnsupportedFileError]
    assert report.skipped[0].values["source"] == str(room.files / "m.eml" / "c.bin")
    assert [(Path(failure.source).name, type(failure.error)) for failure in report.failed] == [
        ("d.txt", EmptyFileError)
    ]
    total = sum(event.files for event in room.events if isinstance(event, FilesFound))
    outcomes = [
        event for event in room.events if isinstance(event, Committed | Failed | Linked | Unchanged)
    ]
    assert total == len(outcomes) == 4


def test_an_unchanged_mail_is_not_read_and_a_changed_one_says_what_it_holds(room: Room) -> None:
    path = write(room, "m.eml", mail(a_txt="apples", b_txt="pears"))
    room.add()

    def never(*_: object, **__: object) -> Any:
        raise AssertionError("an unchanged mail was read")

    report = room.add(read=never, parse=never)
    assert len(report.unchanged) == 3
    os.utime(path, (1_000_000, 1_000_000))
    assert len(room.add(parse=never).unchanged) == 3
    assert len({source.state.mtime_ns for source in room.library.sources()}) == 1

    write(room, "m.eml", mail("another", a_txt="apples", c_txt="plums"))
    report = room.add()
    assert held(room) == ["m.eml", "m.eml/a.txt", "m.eml/c.txt"]
    assert [Path(source).name for source in report.removed] == ["b.txt"]
    assert [Path(source).name for source in report.unchanged] == ["a.txt"]
    assert not room.finds("pears")
    assert not report.vanished


def test_what_could_not_be_read_is_remembered_and_tried_again_when_asked_for(room: Room) -> None:
    inner = mail("the inner one", y_txt=b"")
    path = write(room, "m.eml", mail(a_txt="apples", x_txt=b"", b_bin=b"\0", fwd_eml=inner))
    names = ["m.eml/x.txt", "m.eml/fwd.eml/y.txt"]
    for path_added, flag in ((room.files, True), (room.files, False), (path, True)):
        report = room.add(path_added)
        assert {failure.source: failure.tried for failure in report.failed} == {
            str(room.files / name): flag for name in names
        }
        assert {file.state.path for file in room.library.unread()} == {
            *(str(room.files / name) for name in names),
            str(room.files / "m.eml" / "*.bin"),
        }
    assert len(report.unchanged) == 3
    write(room, "m.eml", mail("fewer"))
    room.add()
    assert room.library.unread() == []


def test_what_cannot_be_read_any_more_leaves_what_was_there(room: Room) -> None:
    write(room, "m.eml", mail(a_txt="apples"))
    room.add()
    room.write("m.eml", " ")
    report = room.add(prune=True)
    assert [Path(failure.source).name for failure in report.failed] == ["m.eml"]
    assert held(room) == ["m.eml", "m.eml/a.txt"]


def test_a_mail_that_goes_takes_its_attachments_along(room: Room) -> None:
    path = write(room, "m.eml", mail(a_txt="apples"))
    room.write("b.txt", "pears")
    room.add()
    path.unlink()
    assert [Path(source).name for source in room.add().vanished] == ["m.eml", "a.txt"]
    assert [Path(source).name for source in room.add(prune=True).removed] == ["m.eml", "a.txt"]
    assert held(room) == ["b.txt"]


def test_an_attachment_of_many_mails_is_one_document(room: Room) -> None:
    message = mail(a_txt="apples")
    write(room, "m.eml", message)
    write(room, "n.eml", mail("other words", a_txt="apples"))
    write(room, "same.eml", message)
    room.write("saved.txt", "apples\n")
    report = room.add()
    sources = [len(record.sources) for record in room.library.documents()]
    assert sorted(sources) == [1, 2, 4]
    assert len(report.linked) == 4
    write(room, "later.eml", message)
    assert [Path(link.source).name for link in room.add().linked] == ["a.txt", "later.eml"]
    assert "later.eml/a.txt" in held(room)


def test_mails_within_mails(room: Room) -> None:
    inner = mail("the inner one", x_txt="plums")
    write(room, "m.eml", mail(fwd_eml=inner))
    room.add()
    assert held(room) == ["m.eml", "m.eml/fwd.eml", "m.eml/fwd.eml/x.txt"]
    assert shown_name(str(room.files / "m.eml" / "fwd.eml" / "x.txt")) == "m.eml/fwd.eml/x.txt"
    assert shown_name(str(room.files / "a.txt")) == "a.txt"


def test_what_mails_hold_is_bounded(room: Room) -> None:
    inner = mail("innermost", x_txt="plums")
    for _ in range(DEEPEST + 1):
        inner = mail(f_eml=inner)
    write(room, "deep.eml", inner)
    wide = mail(**{f"a{number}_txt": f"apples {number}" for number in range(MOST_ATTACHED + 2)})
    write(room, "wide.eml", wide)
    report = room.add()
    assert [error.values["count"] for error in report.skipped] == [1, 2]
    assert sum(path.startswith("wide.eml/") for path in held(room)) == MOST_ATTACHED
    assert max(path.count("/") for path in held(room)) == DEEPEST


def test_a_mail_made_to_hang_the_reader_is_given_up_after_a_few(room: Room) -> None:
    write(room, "m.eml", mail(**{f"a{number}_txt": f"apples {number}" for number in range(8)}))
    hangs, tried = {"a1.txt", "a3.txt", "a4.txt", "a5.txt"}, []

    def parse(path: Path, data: bytes, **options: Any) -> Document:
        tried.append(path.name)
        if path.name in hangs:
            raise SlowFileError("Gave up on {source}", source=str(path))
        return parse_file(path, data, **options)

    report = room.add(parse=parse)
    assert held(room) == ["m.eml", "m.eml/a0.txt", "m.eml/a2.txt"]
    assert len(report.failed) == MOST_SLOW
    (left_out,) = report.skipped
    assert (left_out.values["count"], left_out.values["slow"]) == (3, MOST_SLOW)
    assert "a5.txt" not in tried
    hangs.clear()
    room.add(parse=parse)
    assert len(held(room)) == 9


def test_rules_for_private_mails_cover_their_attachments(room: Room) -> None:
    write(room, "m.eml", mail(a_txt="apples"))
    (room.files / "link.eml").symlink_to(room.files / "m.eml")
    room.add()
    for pattern in ("m.eml", "*.eml", str(room.files / "m.eml"), str(room.files / "link.eml")):
        assert len(PrivateSources([pattern]).documents(room.library)) == 2, pattern
    assert len(PrivateSources(["a.txt"]).documents(room.library)) == 1
    (room.files / "link.eml").unlink()
    (room.files / "m.eml").rename(room.files / "moved.eml")
    assert len(PrivateSources(["m.eml"]).documents(room.library)) == 2


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("report.pdf", "report.pdf"),
        ("../../etc/passwd.txt", "passwd.txt"),
        ("C:\\Users\\ann\\a.docx", "a.docx"),
        ("a\0b?.txt", "ab_.txt"),
        ("..", "attachment"),
        ("", "attachment"),
        ("con.txt", "_con.txt"),
        ("LPT1", "_LPT1"),
        (".hidden", "hidden"),
        ("gpj.\u202etxt.exe", "gpj.txt.exe"),
        ("合同 （最终）.docx", "合同 （最终）.docx"),
        ("x" * 500 + ".pdf", "x" * 116 + ".pdf"),
        ("a. ", "a"),
    ],
)
def test_names_are_one_component_of_a_path(name: str, safe: str) -> None:
    assert safe_name(name) == safe
