"""What a library holds, a part at a time: lists, problems, and pages as they were read."""

from __future__ import annotations

from dataclasses import replace

from library.library_fixtures import add, document
from server.conftest import GARDEN, Served

from localrag.errors import ParsingError
from localrag.indexing.reading import PART
from localrag.library.records import FileState, UnreadFile
from localrag.server.documents import MOST
from localrag.types import PageNote, TableSpan


def test_a_long_list_comes_in_parts_the_newest_first(served: Served) -> None:
    for number in range(MOST + 5):
        add(served.engine.library, document(f"Leaf {number}.", source=f"leaves/{number:03}.txt"))
    with served.client() as http:
        first = http.get("/api/documents").json()
        assert len(first["documents"]) == MOST
        assert first["documents"][0]["sources"] == [f"{MOST + 4:03}.txt"]
        rest = http.get("/api/documents", params={"before": first["next"]}).json()
        assert rest["next"] is None
        assert [entry["sources"][0] for entry in rest["documents"]][-2:] == [
            "tea.txt",
            "garden.txt",
        ]
        ids = {entry["id"] for entry in first["documents"]} | {
            entry["id"] for entry in rest["documents"]
        }
        assert len(ids) == MOST + 7
        listing = http.get("/api/documents", params={"words": "GARDEN"}).json()
        assert [entry["sources"] for entry in listing["documents"]] == [["garden.txt"]]
        assert http.get("/api/documents", params={"words": "100%_"}).json()["documents"] == []
        assert http.get("/api/documents", params={"before": "x"}).status_code == 400


def test_problems_are_those_of_the_documents_shown(served: Served) -> None:
    paper = document("Harbour.", "Silt.", "", source="harbour.pdf")
    notes = (PageNote("doubtful", {"confidence": 0.5}),)
    pages = [
        paper.pages[0],
        *(replace(page, how="ocr", confidence=0.5, notes=notes) for page in paper.pages[1:]),
    ]
    add(served.engine.library, replace(paper, pages=tuple(pages)))
    with served.client() as http:
        (record,) = http.get("/api/documents", params={"problems": "1"}).json()["documents"]
        assert record["sources"] == ["harbour.pdf"]
        assert record["state"] == "gone"
        (problem,) = record["problems"]
        assert (problem["pages"], problem["numbers"]) == ("2-3", [2, 3])
        page = http.get("/api/page", params={"document": record["id"], "number": 2}).json()
        assert page["text"] == "Silt."
        assert page["how"] == "OCR, 50% sure on average"
        assert page["notes"] == [
            {"text": "OCR is not sure of what it read (50% sure on average)", "problem": True}
        ]
        assert page["image"] is None  # its file is gone


def test_files_that_were_not_read_come_in_parts_too(served: Served) -> None:
    files = [
        UnreadFile(
            FileState(f"broken/{number:03}.pdf", 1, 1, 1),
            ParsingError("{source} is broken.", source=f"broken/{number:03}.pdf"),
        )
        for number in range(MOST + 1)
    ]
    served.engine.library.set_unread(files)
    with served.client() as http:
        first = http.get("/api/unread").json()
        assert len(first["unread"]) == MOST
        rest = http.get("/api/unread", params={"after": first["next"]}).json()
        assert [source["source"] for source in rest["unread"]] == [f"{MOST:03}.pdf"]
        assert rest["next"] is None
        assert len(http.get("/api/unread", params={"words": "007"}).json()["unread"]) == 1


def test_a_document_is_read_from_page_to_page_and_part_to_part(served: Served) -> None:
    long = "".join(chr(0x4E00 + number % 1000) for number in range(2 * PART))
    paper = document("First page.", long, "", "Name | Height\nElm | 30", source="trees.pdf")
    start = len(paper.text) - len("Name | Height\nElm | 30")
    paper = replace(paper, tables=(TableSpan(start, len(paper.text), ("Name", "Height")),))
    add(served.engine.library, paper)
    with served.client() as http:

        def page(**at: int) -> dict[str, object]:
            response = http.get("/api/page", params={"document": paper.id, **at})
            record: dict[str, object] = response.raise_for_status().json()
            return record

        texts, offset, numbers = [], 0, []
        while True:
            part = page(offset=offset)
            texts.append(str(part["text"]))
            numbers.append(part["number"])
            if part["behind"] is None:
                break
            offset = int(str(part["behind"]))
        assert numbers == [1, 2, 2, 3, 4]
        assert texts == ["First page.", long[:PART], long[PART:], "", "Name | Height\nElm | 30"]
        assert (part["tables"], part["place"]) == (1, "p. 4")
        back = []
        while part["before"] is not None:
            part = page(offset=int(str(part["before"])))
            back.append(part["number"])
        assert back == [3, 2, 2, 1]
        assert page(number=3)["text"] == ""
        wrong = {"document": paper.id, "number": 9}
        assert http.get("/api/page", params=wrong).status_code == 404
        assert http.get("/api/page", params={"document": "nothing"}).status_code == 404


def test_problems_and_pages_are_told_in_the_reader_s_language(served: Served) -> None:
    (garden,) = (
        entry for entry in served.engine.library.documents() if entry.title.startswith("garden")
    )
    with served.client(**{"accept-language": "zh-CN"}) as http:
        page = http.get("/api/page", params={"document": garden.id, "offset": 3}).json()
    assert page["text"] == GARDEN
    assert page["how"] == "文字层"
