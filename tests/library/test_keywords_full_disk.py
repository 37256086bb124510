from __future__ import annotations

from pathlib import Path

import pytest

from localrag.errors import LibraryError
from localrag.library.indexes import tantivy as keywords


def test_a_full_disk_is_said_in_our_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index = keywords.TantivyKeywords(tmp_path)

    def full(*_: object) -> None:
        raise ValueError('An IO error: "No space left on device" at path "/x/.tmp1"')

    monkeypatch.setattr(keywords, "_fill", full)
    with pytest.raises(LibraryError, match="No space left") as caught:
        index.add([1], [["term"]])
    assert "free disk space" in str(caught.value)
    assert ".tmp1" not in str(caught.value)
