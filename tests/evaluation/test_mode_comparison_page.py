"""The page of two ways to answer: complete, self-contained, and nothing breaks out of it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from answers import answer
from comparison_page import Page
from mode_answers import REFUSAL, compared, comparison, self_rag, standard

from localrag.evaluation.comparisons.base import Comparison
from localrag.evaluation.comparisons.pairs import Verdict
from localrag.messages import environment_language
from localrag.presentation.comparisons import of_modes, render_page
from localrag.types import Citation, Step

VICIOUS = "<script>alert(1)</script><img src=x onerror=alert(2)> ${title} $$ & \" ' </p>"


def example() -> Comparison[Verdict]:
    return comparison(
        compared(
            standard("Two floors. [1]"),
            self_rag("Three floors, and a cellar. [1]"),
            *(0.3, 0.5, 0.1, None),
            reference="Three floors and a cellar.",
            answerable=True,
        ),
        compared(standard("300 crowns. [1]"), self_rag(REFUSAL, relevant=0, used=False)),
        asked=5,
    )


def test_the_page_shows_answers_verdicts_decisions_and_the_analysis() -> None:
    page = Page(render_page(of_modes(example())))
    for text in (
        "2 of 5 questions",
        "judged by small",
        "Two floors.",
        "Three floors, and a cellar.",
        "Reference answer",
        "mill.pdf, p. 3",
        "Self-RAG (70%)",
        "equal",
        "not judged",
        "2 of 5 passages relevant",
        "relevance: passage 1 relevant",
        "says that the documents do not contain the answer",
        "What to use when",
    ):
        assert text in page.text
    assert "$" not in page.text
    marks = [attributes for tag, attributes in page.tags if tag == "mark"]
    full = {"class": "full", "title": "fully supported"}
    unchecked = {"class": "unchecked", "title": "not checked"}  # the standard answers of this run
    assert marks == [unchecked, full, unchecked]


def test_the_page_needs_nothing_from_elsewhere_and_escapes_everything() -> None:
    citations = (Citation(1, 7, VICIOUS, 3, VICIOUS),)
    first = answer(f"{VICIOUS} [1]", citations)
    second = replace(self_rag(VICIOUS), trace=(Step("expand", {"passage": VICIOUS}, None, 0.0),))
    entry = compared(first, second, reference=VICIOUS, question=VICIOUS)
    text = render_page(of_modes(replace(comparison(entry), judge=VICIOUS)))
    page = Page(text)
    assert not {"script", "img", "link", "iframe", "object", "form", "base"} & {
        tag for tag, _ in page.tags
    }
    attributes = [(name, value) for _, attrs in page.tags for name, value in attrs.items()]
    assert not [name for name, _ in attributes if name.startswith("on") or name in ("src", "href")]
    assert "url(" not in text
    assert "@import" not in text
    assert re.findall(r"https?://", text) == []
    assert "default-src 'none'" in text
    assert page.text.count(VICIOUS) >= 5, "shown as it is"


def test_the_page_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "zh")
    environment_language.cache_clear()
    text = render_page(of_modes(example()))
    environment_language.cache_clear()
    assert '<html lang="zh-CN">' in text
    assert "两种回答方式的比较" in text
    assert "Where Self-RAG is better" in text, "the analysis keeps to the questions' language"
