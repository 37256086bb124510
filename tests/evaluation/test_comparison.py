"""Comparing rerankers: one search, shared answers, and a page that nothing can break out of."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser

import pytest
from scripted_llm import ScriptedLLM

from localrag.errors import ContextOverflowError
from localrag.evaluation.comparison import Comparison, compare
from localrag.evaluation.comparison_page import render_page
from localrag.messages import interface_language
from localrag.rerankers.base import Notes, Reranking, best
from localrag.types import Answer, Chunk, Citation, ScoredChunk

TEXTS = (
    "Tea is grown on hills.",
    "The perceptron was presented in 1958.",
    "The museum opens at nine.",
    "Backpropagation became known in 1986.",
)
VICIOUS = "<script>alert(1)</script><img src=x onerror=alert(2)> ${title} $$ & \" ' </p>"


def passages(texts: Sequence[str] = TEXTS, source: str = "ai.pdf") -> list[ScoredChunk]:
    return [
        ScoredChunk(Chunk(n, "d", n, text, "", n, n, 0, len(text)), 1.0 - n / 10, source)
        for n, text in enumerate(texts, start=1)
    ]


class Reverse:
    def rerank(self, query: str, chunks: Sequence[ScoredChunk], k: int) -> list[ScoredChunk]:
        return best(chunks, list(range(len(chunks))), k)


class Same:
    def rerank(self, query: str, chunks: Sequence[ScoredChunk], k: int) -> list[ScoredChunk]:
        return best(chunks, [-rank for rank in range(len(chunks))], k)


def reranking(name: str, reranker: Reverse | Same, candidates: int) -> Reranking:
    return Reranking(name, reranker, candidates, Notes(lambda _: None))


class Answering:
    """Writes the text of the first passage, and counts."""

    def __init__(self) -> None:
        self.calls: list[list[int]] = []

    def __call__(self, question: str, contexts: Sequence[ScoredChunk]) -> Answer:
        self.calls.append([context.chunk.id for context in contexts])
        first = contexts[0]
        cited = (Citation(1, first.chunk.id, first.source, 1, first.chunk.text),)
        text = f"{first.chunk.text[:60]} [1]"
        return Answer(question, text, "en", True, cited, tuple(contexts), (), 1.5)


def run(
    judge: ScriptedLLM | None = None,
    reference: str = "",
    found: Sequence[ScoredChunk] | None = None,
    question: str = "When was the perceptron presented?",
) -> tuple[Comparison, Answering, list[int]]:
    write, depths = Answering(), []

    def retrieve(_: str, k: int) -> list[ScoredChunk]:
        depths.append(k)
        return list(found or passages())[:k]

    comparison = compare(
        question,
        retrieve,
        [
            ("none", None),
            ("keyword", reranking("keyword", Same(), 3)),
            ("llm", reranking("llm", Reverse(), 4)),
        ],
        write,
        k=2,
        judge=judge or ScriptedLLM(),
        reference=reference,
    )
    return comparison, write, depths


def test_one_search_serves_all_ways_and_ranks_before_and_after_are_kept() -> None:
    comparison, write, depths = run()
    assert depths == [4], "as deep as the way that reads most"
    before = {way.name: [placed.before for placed in way.passages] for way in comparison.ways}
    assert before == {"none": [1, 2], "keyword": [1, 2], "llm": [4, 3]}
    assert [way.answer.text for way in comparison.ways] == [
        "Tea is grown on hills. [1]",
        "Tea is grown on hills. [1]",
        "Backpropagation became known in 1986. [1]",
    ]
    assert write.calls == [[1, 2], [4, 3]], "the same passages are not answered from twice"
    assert [way.same_answer_as for way in comparison.ways] == [None, "none", None]
    assert comparison.verdict == ""


def test_with_a_reference_the_model_compares_in_the_language_of_the_question() -> None:
    judge = ScriptedLLM(["1. Relevance of context: ..."])
    comparison, _, _ = run(judge, "In 1958.")
    assert comparison.verdict == "1. Relevance of context: ..."
    prompt = judge.history[0][0][0].content
    assert "In 1958." in prompt
    assert prompt.count("Tea is grown on hills.") == 3, "once as a passage, twice as an answer"
    expected = 'Way "llm"\nOrder of passages: 3, 4\nAnswer: Backpropagation became known in 1986.'
    assert expected in prompt
    assert "1986. [1]" not in prompt, "a way's own markers would mislead"
    for point in ("Relevance of context", "Accuracy", "Completeness", "Overall"):
        assert point in prompt

    judge = ScriptedLLM(["……"])
    comparison, _, _ = run(judge, "1958年", question="感知机是哪一年提出的？")
    assert comparison.language == "zh"
    for point in ("上下文相关性", "准确性", "完整性", "总体"):
        assert point in judge.history[0][0][0].content


def test_long_passages_are_shortened_for_the_judge_and_the_impossible_is_refused() -> None:
    long = [passages()[0], *passages(["t " * 4000] * 4)[1:]]
    judge = ScriptedLLM(["fine"], context_window=2048)
    comparison, _, _ = run(judge, "In 1958.", found=long)
    assert comparison.verdict == "fine"
    assert "…" in judge.history[0][0][0].content
    judge = ScriptedLLM(["fine"], context_window=2048)
    with pytest.raises(ContextOverflowError):
        run(judge, "In 1958. " * 4000, found=long)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_shows_ways_ranks_and_the_verdict() -> None:
    comparison, _, _ = run(ScriptedLLM(["They differ."]), "In 1958.")
    page = Page(render_page(comparison))
    for shown in ("none", "keyword", "llm", "▲3", "▲1", "They differ.", "In 1958.", "ai.pdf, p. 4"):
        assert shown in page.text
    assert "$" not in page.text


def test_the_page_needs_nothing_from_elsewhere_and_escapes_everything() -> None:
    comparison, _, _ = run(
        ScriptedLLM([VICIOUS]),
        VICIOUS,
        found=passages([VICIOUS] * 4, source=VICIOUS),
        question=VICIOUS,
    )
    text = render_page(comparison)
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
    assert VICIOUS in page.text, "shown as it is"


def test_the_page_speaks_chinese(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCALRAG_LANG", "zh")
    interface_language.cache_clear()
    comparison, _, _ = run()
    text = render_page(comparison)
    interface_language.cache_clear()
    assert '<html lang="zh-CN">' in text
    assert "同一个问题" in text
