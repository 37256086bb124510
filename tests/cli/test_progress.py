"""What an add says of files that take long, where standard error is no terminal."""

from __future__ import annotations

import pytest

from localrag.cli import progress
from localrag.indexing.events import FilesFound, PageRecognised


def test_a_total_that_is_not_known_yet_is_not_a_hundred(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress.Bars() as bars:
        bars.tell(FilesFound(2))
        bars.tell(PageRecognised("/folder/talk.pptx", 1, 3))
    stderr = capsys.readouterr().err
    assert "0/2" in stderr
    assert "0/?" in stderr
    assert "100" not in stderr


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
        bars.tell(FilesFound(2))
        bars.tell(PageRecognised("/folder/talk.pptx", page, pages))
    assert capsys.readouterr().err.splitlines()[-1] == f"0 of 2 files, 0 passages embedded; {said}"
