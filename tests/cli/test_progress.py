"""What an add says of files that take long, where standard error is no terminal."""

from __future__ import annotations

import pytest

from localrag.cli import progress
from localrag.indexing.events import Found, PageRead


@pytest.mark.parametrize(
    ("page", "pages", "said"),
    [(3, 10, "talk.pptx: page 3 of 10"), (3, 0, "talk.pptx: picture 3")],
)
def test_a_long_file_is_named(
    page: int,
    pages: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(progress, "PLAIN_EVERY", -1.0)
    with progress.Bars() as bars:
        bars.tell(Found(2))
        bars.tell(PageRead("/folder/talk.pptx", page, pages))
    assert capsys.readouterr().err.splitlines()[-1] == f"0 of 2 files, 0 passages embedded; {said}"
