"""Mail: what its reader finds, in mails as programs write them and as they should not."""

from __future__ import annotations

import base64
import time
from email.message import EmailMessage
from pathlib import Path

import pytest
from outlook_file import ole, properties, texts

from localrag.documents.files import parse_file
from localrag.documents.formats.table import Attachment
from localrag.errors import CorruptFileError
from localrag.types import Document

TEXT = "请查收附件中的报价单，如有问题请联系我们。"


def read(data: bytes | EmailMessage, name: str = "m.eml") -> tuple[Document, dict[str, bytes]]:
    """The document, and what is attached."""
    attachments: list[Attachment] = []
    data = data if isinstance(data, bytes) else data.as_bytes()
    document = parse_file(Path(name), data, attach=attachments.append)
    return document, {attachment.name: attachment.data for attachment in attachments}


def lines(data: bytes | EmailMessage, name: str = "m.eml") -> list[str]:
    return read(data, name)[0].text.split("\n")


def plain(body: bytes, kind: str = "text/plain", more: bytes = b"") -> bytes:
    return b"Subject: s\r\n" + more + f"Content-Type: {kind}\r\n\r\n".encode() + body


def test_headers_and_body() -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"] = "关于报价", "王芳 <w@example.invalid>"
    mail["To"], mail["Cc"] = "b@x.invalid", "c@x.invalid"
    mail["Date"] = "Mon, 21 Sep 2026 10:00:00 +0800"
    mail.set_content(f"您好，\n\n{TEXT}\n\n> 我们需要报价。\n> 谢谢。\n")
    document, _ = read(mail)
    assert (document.title, document.unit) == ("关于报价", "text")
    assert document.text.split("\n") == [
        "关于报价",
        "From: 王芳 <w@example.invalid>",
        "To: b@x.invalid",
        "Cc: c@x.invalid",
        "Date: Mon, 21 Sep 2026 10:00:00 +0800",
        "您好，",
        TEXT,
        "> 我们需要报价。",
        "> 谢谢。",
    ]


@pytest.mark.parametrize(
    ("encoding", "declared"),
    [
        (encoding, declared)
        for encoding in ("utf-8", "gb18030", "big5")
        for declared in ("", "gb2312", "us-ascii", "iso-8859-1", "x-unknown", "utf-8")
        # Every byte of these is of the declared encoding, too.
        if (encoding, declared) not in {("big5", "gb2312"), ("utf-8", "gb2312")}
    ],
)
def test_bodies_are_read_whatever_encoding_they_declare(encoding: str, declared: str) -> None:
    text = "請查收附件中的報價單，如有問題請聯絡我們。" if encoding == "big5" else TEXT
    kind = f"text/plain; charset={declared}" if declared else "text/plain"
    body = (text * 3).encode(encoding)
    assert lines(plain(body, kind)) == ["s", text * 3]
    coded = base64.encodebytes(body)
    assert lines(plain(coded, kind, b"Content-Transfer-Encoding: base64\r\n")) == ["s", text * 3]


@pytest.mark.parametrize(
    ("header", "shown"),
    [
        (b"=?UTF-8?B?5YWz5LqO5oql5Lu3?=", "关于报价"),
        (b"=?gb2312?B?" + base64.b64encode("朱镕基".encode("gbk")) + b"?=", "朱镕基"),
        (b"=?utf-8?B?5YWz5A==?=\r\n =?utf-8?B?uo4=?=", "关于"),  # a character in two words
        (b"=?utf-8?Q?a_=E5=85=B3?= b", "a 关 b"),
        ("关于报价的回复".encode("gb18030"), "关于报价的回复"),
        ("关于报价的回复".encode(), "关于报价的回复"),
        (b"=?no-such?Q?abc?=", "abc"),
        (b"=?utf-8?B?!!!?= =?utf-8?B?", "=?utf-8?B?"),
    ],
)
def test_subjects(header: bytes, shown: str) -> None:
    assert read(b"Subject: " + header + b"\r\n\r\nbody")[0].title == shown


def test_flowed_text_is_joined() -> None:
    body = b"one \r\ntwo\r\n> a \r\n> b\r\n-- \r\nAnn\r\n"
    assert lines(plain(body, "text/plain; format=flowed")) == ["s", "one two", "> a b", "--", "Ann"]
    body = "中文 \r\n不断".encode()
    kind = 'text/plain; charset="utf-8"; format=flowed; delsp=yes'
    assert lines(plain(body, kind)) == ["s", "中文不断"]


def test_html_where_plain_text_is_none_or_a_stub() -> None:
    html = "<p>The quotation is 330,435.30 EUR, valid until the end of the month.</p>"
    for text in ("See HTML.", "The quotation is 330,435.30 EUR."):
        mail = EmailMessage()
        mail["Subject"] = "s"
        mail.set_content(text)
        mail.add_alternative(html, subtype="html")
        assert lines(mail)[1:] == [html[3:-4] if text == "See HTML." else text]
    assert lines(plain(html.encode(), "text/html"))[1:] == [html[3:-4]]


def test_attachments_and_their_names() -> None:
    mail = EmailMessage()
    mail["Subject"] = "s"
    mail.set_content("text")
    mail.add_attachment(b"\x89PNG", "image", "png", filename="photo.png")
    mail.add_attachment(b"%PDF-", "application", "pdf", filename="../../报价单.pdf")
    mail.add_attachment(b"%PDF-", "application", "pdf")
    mail.add_attachment(
        "a,b", filename="=?gb2312?B?" + base64.b64encode("表.csv".encode("gbk")).decode() + "?="
    )
    document, attachments = read(mail)
    assert list(attachments) == ["photo.png", "报价单.pdf", "attachment.pdf", "表.csv"]
    assert document.text.split("\n")[1] == (
        "Attachments: photo.png, 报价单.pdf, attachment.pdf, 表.csv"
    )


def test_small_pictures_of_the_body_are_left_out_and_large_ones_are_not() -> None:
    mail = EmailMessage()
    mail["Subject"] = "s"
    mail.set_content("<p>text</p>", subtype="html")
    mail.add_related(b"\x89PNG", "image", "png", cid="<logo>", filename="logo.png")
    mail.add_related(bytes(50_000), "image", "png", cid="<chart>", filename="chart.png")
    document, attachments = read(mail)
    assert list(attachments) == ["chart.png"]
    [note] = document.pages[0].notes
    assert (note.kind, note.values, note.problem) == ("small pictures", {"count": 1}, False)


def test_text_in_several_parts_is_read_in_order() -> None:
    mail = EmailMessage()
    mail["Subject"] = "s"
    mail.set_content("first")
    mail.add_attachment(b"%PDF-", "application", "pdf", filename="a.pdf")
    mail.add_attachment("second", disposition="inline")
    assert lines(mail)[2:] == ["first", "second"]


def test_mails_within_are_files_of_their_own() -> None:
    inner = EmailMessage()
    inner["Subject"] = "内部"
    inner.set_content(TEXT)
    mail = EmailMessage()
    mail["Subject"] = "s"
    mail.set_content("forwarded")
    mail.add_attachment(inner)
    _, attachments = read(mail)
    assert lines(attachments["内部.eml"]) == ["内部", TEXT]
    assert read(mail)[1] == attachments


@pytest.mark.parametrize(
    ("part", "how"),
    [
        (b"Content-Type: application/pkcs7-mime; name=smime.p7m\n\nAAAA", "S/MIME"),
        (b"Content-Type: multipart/encrypted; boundary=y\n\n--y\n\nx\n--y--", "PGP"),
        (b"\n-----BEGIN PGP MESSAGE-----\n\nAAAA\n-----END PGP MESSAGE-----", "PGP"),
    ],
)
def test_encrypted_mails_are_named(part: bytes, how: str) -> None:
    mail = b"Subject: s\nContent-Type: multipart/mixed; boundary=x\n\n--x\n" + part + b"\n--x--"
    document, attachments = read(mail)
    assert [(note.kind, note.values) for note in document.pages[0].notes] == [
        ("encrypted", {"how": how})
    ]
    assert (document.text, attachments) == ("s", {})


def test_invitations() -> None:
    event = (
        "BEGIN:VEVENT\r\nSUMMARY:Tea\\, cake\r\nDTSTART;TZID=Asia/Shanghai:20260921T1000\r\n"
        "LOCATION:Ro\r\n om 4\r\nUID:1\r\n"
    )
    assert lines(plain(event.encode(), "text/calendar"))[1:] == [
        "SUMMARY: Tea, cake",
        "DTSTART: 20260921T1000",
        "LOCATION: Room 4",
    ]


def outlook(**streams: bytes) -> bytes:
    return ole({"__properties_version1.0": properties(32, {0x3FFD: 936, 0x3FDE: 936}), **streams})


def test_outlook_in_unicode_and_in_a_code_page() -> None:
    for code_page in ("", "gb18030"):
        mail = outlook(**texts(code_page, x0037="报价：朱镕", x0C1A="王芳", x1000=TEXT))
        assert lines(mail, "m.msg") == ["报价：朱镕", "From: 王芳", TEXT]


def test_outlook_html_and_packed_text() -> None:
    html = {"__substg1.0_10130102": f"<p>{TEXT}</p>".encode("gb18030")}
    assert lines(outlook(**texts(x0037="s"), **html), "m.msg") == ["s", TEXT]
    # The example of MS-OXRTFCP, 4.1
    compressed = bytes.fromhex(
        "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d"
        "0a800fa0"
    )
    stream = {"__substg1.0_10090102": compressed}
    assert lines(outlook(**texts(x0037="s"), **stream), "m.msg") == ["s", "hello world"]


def test_outlook_attachments_and_mails_within() -> None:
    content = b"a,b\n" * 2000
    within = {"__properties_version1.0": properties(24, {}), **texts(x0037="内部", x1000=TEXT)}
    mail = outlook(
        **texts(x0037="s"),
        **{
            "__attach_version1.0_#00000000": {
                "__properties_version1.0": properties(8, {0x3705: 1}),
                **texts(x3707="表.csv", x370E="text/csv"),
                "__substg1.0_37010102": content,
            },
            "__attach_version1.0_#00000001": {
                "__properties_version1.0": properties(8, {0x3705: 5}),
                "__substg1.0_3701000D": within,
            },
        },
    )
    _, attachments = read(mail, "m.msg")
    assert attachments["表.csv"] == content
    assert lines(attachments["内部.eml"]) == ["内部", TEXT]
    assert read(mail, "m.msg")[1] == attachments


def test_a_damaged_outlook_file_is_named() -> None:
    with pytest.raises(CorruptFileError, match="is damaged"):
        read(outlook(**texts(x0037="s"))[:3000], "m.msg")


def test_files_handed_over(shared_data: Path) -> None:
    for name in ("eml_simple.eml", "msg_simple.msg"):
        document = parse_file(shared_data / "files" / "email" / name)
        assert document.title == "Simple Email"
        assert "To: Bob Example <bob@example.com>" in document.text
        assert document.text.endswith("Hello Bob,\nThis is a simple email body.")


def nested(depth: int) -> bytes:
    parts = (
        f"Content-Type: multipart/mixed; boundary=b{level}\n\n--b{level}\n".encode()
        for level in range(depth)
    )
    return b"Subject: s\n" + b"".join(parts) + b"\ntext"


@pytest.mark.parametrize(
    "data",
    [
        nested(10_000),
        b"".join(b"X-%d: a\n" % number for number in range(100_000)) + b"Subject: s\n\ntext",
        b"Subject: " + b"=?utf-8?B?5YWz?= " * 200_000 + b"\n\ntext",
        b"Subject: s\nTo: " + b"=?utf-8?Q?" * 200_000 + b"\n\ntext",
        b"Subject: s\n\n" + b"> " * 1_000_000,
        b"Subject: s\n\n" + b"-----BEGIN PGP MESSAGE-----\n" * 50_000,
        b"Subject: s\nContent-Type: text/calendar\n\n" + b"SUMMARY:a\n \n" * 100_000,
        b"Subject: s\nContent-Type: multipart/mixed; boundary=x\n\n" + b"--x\n\na\n" * 20_000,
        b"Subject: s\n" + b"Content-Type: text/plain; charset=" + b"a" * 1_000_000 + b"\n\ntext",
        b"Subject: s\nContent-Type: text/plain;" + b" a*0=b;" * 500_000 + b"\n\ntext",
    ],
    ids=[
        "nested",
        "headers",
        "words",
        "openings",
        "quotes",
        "armour",
        "folds",
        "parts",
        "charset",
        "parameters",
    ],
)
def test_mails_made_to_harm_cost_little(data: bytes) -> None:
    start = time.thread_time()
    try:
        assert read(data)[0].title
    except CorruptFileError as error:
        assert "nested too deeply" in str(error)  # noqa: PT017 - one of ten
    assert time.thread_time() - start < 30
