"""Where a link leads."""

from __future__ import annotations

from answers import answer

from localrag.server.views import View, quoted
from localrag.types import Chunk, Citation, Place, ScoredChunk

TEXT = "It is open. It was built in 1907. It is open."


def test_a_quotation_that_stands_twice_is_the_one_that_was_cited() -> None:
    chunk = Chunk(7, "doc", 0, TEXT, "", 1, 1, 100, 100 + len(TEXT))
    citation = Citation(1, 7, "a.txt", 1, "It is open.", place=Place(100 + TEXT.rindex("It is")))
    yes = answer("Yes [1].", [citation], contexts=(ScoredChunk(chunk, 1.0, "a.txt"),))
    start = 100 + TEXT.rindex("It is")
    assert quoted("library", yes, citation) == View("library", "doc", start, start + 11)
