"""The view of a page: its text, its image with what is quoted marked, and links with a key."""

from __future__ import annotations

import io
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlencode

import httpx
import numpy as np
import PIL.Image
import pymupdf
import pytest
from library.library_fixtures import add
from server.conftest import GARDEN, TOKEN, Served
from waiting import until

from localrag.documents.files import parse_file
from localrag.indexing.viewing import PageView
from localrag.library.library import Library
from localrag.server.pages import Pages
from localrag.server.views import View, Views

QUOTED = "It has two hundred orchids."


@pytest.fixture
def paper(served: Served, tmp_path: Path) -> Path:
    """A PDF in the library."""
    path = tmp_path / "house.pdf"
    document = pymupdf.open()
    document.new_page(width=400, height=300).insert_text((40, 40), "A title page.")
    document.new_page(width=400, height=300).insert_text((40, 160), GARDEN)
    document.save(path)
    add(served.engine.library, parse_file(path), size=200)
    return path


def asked(served: Served, path: Path, quoted: str = QUOTED, **changes: object) -> dict[str, object]:
    library = served.engine.library
    (document,) = (record.id for record in library.documents() if str(path) in record.sources)
    start = library.text(document, 0, 10**6).index(quoted)
    return {"document": document, "start": start, "end": start + len(quoted), **changes}


def yellow(response: httpx.Response) -> int:
    assert response.status_code == 200
    assert response.headers["content-type"] == "image/png"
    pixels = np.asarray(PIL.Image.open(io.BytesIO(response.content)).convert("RGB")).astype(int)
    return int((pixels[..., 0] - pixels[..., 2] > 60).sum())


def test_a_page_is_shown_with_what_is_quoted_marked(served: Served, paper: Path) -> None:
    with served.client() as http:
        view = http.get("/api/view", params=asked(served, paper)).json()
        assert {key: view[key] for key in ("source", "page", "pages", "unit", "label")} == {
            "source": "house.pdf",
            "page": 2,
            "pages": 2,
            "unit": "page",
            "label": "",
        }
        assert (view["place"], view["state"], view["marked"]) == ("p. 2", "same", True)
        assert (view["before"] + view["quoted"] + view["after"], view["quoted"]) == (
            GARDEN,
            QUOTED,
        )
        assert 0.4 < view["top"] < 0.6
        assert yellow(http.get(view["image"])) > 500
        assert str(paper.parent) not in http.get("/api/view", params=asked(served, paper)).text
        chinese = {"accept-language": "zh-CN"}
        view_chinese = http.get("/api/view", params=asked(served, paper), headers=chinese).json()
        assert view_chinese["place"] == "第 2 页"


def test_without_a_span_nothing_is_marked(served: Served, paper: Path) -> None:
    with served.client() as http:
        view = http.get("/api/view", params=asked(served, paper, start=0, end=0)).json()
        assert (view["page"], view["marked"], view["quoted"]) == (1, False, "")
        assert yellow(http.get(view["image"])) == 0


def test_text_without_pages_has_no_image(served: Served) -> None:
    with served.client() as http:
        where = asked(served, Path("garden.txt"))
        view = http.get("/api/view", params=where).json()
        assert (view["source"], view["quoted"], view["image"]) == ("garden.txt", QUOTED, None)
        assert view["state"] == "gone"
        assert http.get("/api/view.png", params=where).status_code == 404


def test_a_changed_file_is_shown_as_the_text_that_was_read(served: Served, paper: Path) -> None:
    paper.write_bytes(b"%PDF-1.7 another")
    with served.client() as http:
        view = http.get("/api/view", params=asked(served, paper)).json()
        assert (view["state"], view["image"], view["quoted"]) == ("changed", None, QUOTED)
        paper.unlink()
        view = http.get("/api/view", params=asked(served, paper, "orchids")).json()
        assert (view["state"], view["image"], view["quoted"]) == ("gone", None, "orchids")


def test_what_is_removed_is_shown_no_more(served: Served, paper: Path) -> None:
    where = asked(served, paper)
    with served.client() as http:
        assert http.get("/api/view", params=where).status_code == 200
        served.engine.library.remove(sources=[str(paper)])
        assert http.get("/api/view", params=where).status_code == 404
        assert http.get("/api/view.png", params=where).status_code == 404


@pytest.mark.parametrize("path", ["/api/view", "/api/view.png"])
@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"start": "-1"}, 400),
        ({"end": "1e3"}, 400),
        ({"start": "٣"}, 400),
        ({"end": "9" * 30}, 400),
        ({"start": ""}, 400),
        ({"document": "../../etc/passwd"}, 404),
        ({"document": ""}, 404),
        ({"library": "other"}, 404),
        ({"start": 10**15 - 1, "end": 10**15 - 1}, 200),
        ({"start": 9, "end": 0}, 200),
    ],
)
def test_hostile_questions_are_refused(
    served: Served, paper: Path, path: str, changes: dict[str, object], status: int
) -> None:
    with served.client() as http:
        assert http.get(path, params=asked(served, paper, **changes)).status_code == status


def test_a_key_opens_its_view_and_its_image_and_nothing_else(served: Served, paper: Path) -> None:
    where = asked(served, paper)
    start, end = int(str(where["start"])), int(str(where["end"]))
    view = View("garden", str(where["document"]), start, end)
    fields = {"library": "garden", **where, "key": Views(TOKEN, "").key(view)}
    with served.client(authorization="") as http:
        response = http.get("/api/view", params=fields)
        assert response.status_code == 200
        image = response.json()["image"]
        assert parse_qs(image.partition("?")[2])["key"] == [fields["key"]]
        assert yellow(http.get(image)) > 500
        for changes in ({"end": end + 1}, {"start": 0}, {"library": ""}, {"key": "x"}, {"key": ""}):
            for path in ("/api/view", "/api/view.png"):
                assert http.get(path, params=fields | changes).status_code == 401
        twice = f"{urlencode(fields)}&document=other"
        assert http.get(f"/api/view?{twice}").status_code == 401
        for path in ("/api/status", "/api/documents", "/api/search", "/metrics"):
            assert http.get(path, params=fields).status_code == 401


def test_searches_go_on_while_a_page_is_drawn(
    served: Served, paper: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drawing is for one thread, and is not in the way of the rest."""
    views_drawn, let_go, draw = list[View](), threading.Event(), Pages._draw

    def held(pages: Pages, library: Library, view: View) -> PageView | None:
        views_drawn.append(view)
        assert let_go.wait(60)
        return draw(pages, library, view)

    monkeypatch.setattr(Pages, "_draw", held)
    monkeypatch.setattr("localrag.server.pages.KEPT", 600.0)
    with served.client() as http, served.client() as other:
        parameters = asked(served, paper)
        view = threading.Thread(target=lambda: other.get("/api/view", params=parameters))
        view.start()
        until(lambda: views_drawn)
        assert http.post("/api/search", json={"question": "orchids"}).status_code == 200
        let_go.set()
        view.join()
        assert http.get("/api/view.png", params=parameters).status_code == 200
    assert len(views_drawn) == 1, "it was kept"
