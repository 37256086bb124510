"""Summaries of documents: chosen from all of it, written, checked, kept, gone on with, gone."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pytest
from library.library_fixtures import add, bytes_on_disk, document
from summaries.summary_fixtures import PAGES, Repeating, engine, llm

from localrag.api import LocalRAG
from localrag.engine import AskOptions, Engine
from localrag.errors import LibraryLockedError, RemovedError, StoppedError, UsageError
from localrag.library.records import NotKept
from localrag.presentation.summaries import (
    begun_text,
    coverage_lines,
    numbered,
    section_text,
    section_title,
    state_text,
    summary_json,
    total_line,
)
from localrag.summaries.documents import LEAST_WRITTEN
from localrag.summaries.outline import MOST_PARTS
from localrag.summaries.records import Event, SectionDone, Summary, SummaryBegun

__all__ = ["engine", "llm"]


def events_of(engine: Engine, *patterns: str, about: str = "", **how: object) -> list[Event]:
    return list(engine.summarise(patterns, about, **how))  # type: ignore[arg-type]


def summary_of(engine: Engine, *patterns: str, about: str = "", **how: object) -> Summary:
    last = events_of(engine, *patterns, about=about, **how)[-1]
    assert isinstance(last, Summary)
    return last


def test_all_of_a_document_is_told_in_its_own_words_and_then_written(
    engine: Engine, llm: Repeating
) -> None:
    beginning, *between, last = events_of(engine, "elm.txt")
    assert isinstance(beginning, SummaryBegun)
    assert isinstance(last, Summary)
    (own,), (document,) = beginning.summary.documents, last.documents
    assert {section.state for section in own.sections} == {"not written"}
    assert [section.first_page for section in own.sections] == sorted(
        section.first_page for section in own.sections
    )
    assert 1 < len(own.sections) <= MOST_PARTS
    assert (own.pages, own.sections[-1].last_page) == (8, 8)
    assert beginning.to_write == len(own.sections) == len(between) == llm.calls
    assert "to write, about" in begun_text(beginning)
    for section in document.sections:
        assert section.state == "written"
        assert section.replaced == 0
        (statement,) = section.statements
        assert statement.rating == "fully supported"
        (mark,) = statement.citations
        assert mark.citation.source == "/books/elm.txt"
        assert mark.citation.quote == statement.text.strip()
        text = engine.library.text(document.document_id, 0, 10_000)
        assert mark.citation.place
        start = mark.citation.place.start
        assert text[start : start + len(mark.citation.quote)] == mark.citation.quote
    assert last.final


def test_what_the_document_does_not_say_is_replaced_by_its_own_sentence(
    engine: Engine, llm: Repeating
) -> None:
    llm.invents = "It was sold in 1999 for 700 pounds."
    summary = summary_of(engine, "elm.txt")
    for section in summary.documents[0].sections:
        assert section.replaced == 1
        assert "1999" not in section_text(section)
        assert all(statement.rating == "fully supported" for statement in section.statements)
        assert all(statement.citations for statement in section.statements)
    assert "had no support" in "\n".join(coverage_lines(summary.documents[0]))


def test_what_was_written_is_not_written_again_unless_topic_or_document_change(
    engine: Engine, llm: Repeating
) -> None:
    first = summary_of(engine, "elm.txt")
    calls = llm.calls
    beginning, *_, again = events_of(engine, "elm.txt")
    assert isinstance(beginning, SummaryBegun)
    assert (beginning.kept, beginning.to_write) == (calls, 0)
    assert isinstance(again, Summary)
    assert again.documents == first.documents
    assert llm.calls == calls
    summary_of(engine, "elm.txt", about="the workers from the north")
    assert llm.calls > calls


def test_a_run_that_was_cut_off_goes_on_where_it_was(engine: Engine, llm: Repeating) -> None:
    run = engine.summarise(["elm.txt"])
    beginning = next(run)
    assert isinstance(beginning, SummaryBegun)
    assert isinstance(next(run), SectionDone)
    assert isinstance(next(run), SectionDone)  # the first is kept by now
    run.close()  # type: ignore[attr-defined]
    beginning = events_of(engine, "elm.txt")[0]
    assert isinstance(beginning, SummaryBegun)
    assert beginning.kept == 1
    assert llm.calls == 2 + beginning.to_write


def test_after_its_time_the_rest_stays_in_the_documents_words(
    engine: Engine, llm: Repeating
) -> None:
    summary = summary_of(engine, "elm.txt", seconds=1e-9)
    assert llm.calls == 0
    assert not summary.final
    for section in summary.documents[0].sections:
        assert (section.state, section.reason) == ("not written", "budget")
        assert len(section.statements) >= LEAST_WRITTEN
        assert "the time was over" in state_text(section)
    assert "not written yet" in "\n".join(coverage_lines(summary.documents[0]))


def test_a_stop_is_heard_between_two_sections(engine: Engine, llm: Repeating) -> None:
    stop = threading.Event()
    stop.set()
    summary = summary_of(engine, "elm.txt", options=AskOptions(stopped=stop))
    assert llm.calls == 0
    assert {section.reason for section in summary.documents[0].sections} == {"stopped"}


def test_a_stop_is_heard_between_two_documents(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("oak", "ash", "yew"):
        text = f"The {name} was planted behind the old mill by the river in spring."
        add(engine.library, document(text, source=f"/books/{name}.txt"))
    stop, read = threading.Event(), list[str]()
    library, outline = engine.library, engine.library.outline

    def outlined(document_id: str) -> object:
        read.append(document_id)
        if len(set(read)) == 2:
            stop.set()
        return outline(document_id)

    monkeypatch.setattr(library, "outline", outlined)
    summary = summary_of(engine, options=AskOptions(stopped=stop))
    assert (len(summary.documents), summary.total, len(set(read))) == (2, 4, 2)
    assert total_line(summary) == "The first 2 of 4 documents."
    stop.clear()
    read.clear()
    with pytest.raises(StoppedError):
        summary_of(engine, about="planted by the river in spring", options=AskOptions(stopped=stop))
    assert len(set(read)) == 2
    assert len(summary_of(engine).documents) == 4


def test_where_the_model_fails_the_section_stays_in_the_documents_words(
    engine: Engine, llm: Repeating
) -> None:
    llm.fails = True
    summary = summary_of(engine, "elm.txt")
    assert {section.reason for section in summary.documents[0].sections} == {"failed"}
    llm.fails = False
    assert summary_of(engine, "elm.txt").final


def test_where_nothing_can_be_kept_it_is_said_and_goes_on(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: object, **__: object) -> None:
        raise LibraryLockedError("Another process writes.")

    monkeypatch.setattr(engine.library, "keep_cells", locked)
    events = events_of(engine, "elm.txt")
    assert any(isinstance(event, NotKept) for event in events)
    assert isinstance(events[-1], Summary)
    assert events[-1].final


def test_what_was_written_goes_with_its_document_to_the_last_byte(
    engine: Engine, llm: Repeating
) -> None:
    summary_of(engine, "elm.txt")
    assert b"until the evening" in bytes_on_disk(engine.library.directory)
    assert engine.library.remove(sources=["/books/elm.txt"]).purged
    content = bytes_on_disk(engine.library.directory)
    assert b"until the evening" not in content
    assert b"sisters from the coast" not in content


def test_a_document_that_is_removed_meanwhile_is_not_told(engine: Engine) -> None:
    run = engine.summarise(["elm.txt"])
    next(run)
    engine.library.remove(sources=["/books/elm.txt"])
    with pytest.raises(RemovedError):
        list(run)


def test_a_topic_leaves_the_sections_that_are_about_it(engine: Engine) -> None:
    summary = summary_of(engine, "elm.txt", about="harbour")
    quotes = [
        mark.citation.quote
        for section in summary.documents[0].sections
        for statement in section.statements
        for mark in statement.citations
    ]
    assert quotes
    assert all("harbour" in quote for quote in quotes)
    assert summary.documents[0].skipped == ()
    none = summary_of(engine, "elm.txt", about="quantum chromodynamics")
    assert none.documents[0].sections == ()
    assert coverage_lines(none.documents[0], none.about) == ["No sentence on this topic was found."]


def test_pages_leave_what_stands_on_them(engine: Engine) -> None:
    (part,) = summary_of(engine, "elm.txt", pages=(3, 4)).documents
    pages = {
        mark.citation.page
        for section in part.sections
        for statement in section.statements
        for mark in statement.citations
    }
    assert pages <= {3, 4}
    assert {section.first_page for section in part.sections} <= {3, 4}
    assert summary_of(engine, "elm.txt", pages=(90, None)).documents[0].sections == ()
    add(engine.library, document("Another text.", source="/books/b.txt"))
    with pytest.raises(UsageError, match="--pages needs a single document"):
        events_of(engine, "books", pages=(1, 2))


def test_pages_without_a_sentence_are_named(engine: Engine) -> None:
    filler = ["12 | 13 | 14"] * 40
    add(engine.library, document(*PAGES[:2], *filler, *PAGES[2:4], source="/long.txt"), size=1000)
    (part,) = summary_of(engine, "long.txt", seconds=1e-9).documents
    assert all(first <= last for first, last in part.skipped)
    pages = {
        mark.citation.page
        for section in part.sections
        for statement in section.statements
        for mark in statement.citations
    }
    for first, last in part.skipped:
        assert not pages & set(range(first, last + 1))
    assert part.skipped == () or "Only skimmed: p. " in "\n".join(coverage_lines(part))


def test_a_folder_is_told_a_sentence_for_each_document(engine: Engine, llm: Repeating) -> None:
    add(engine.library, document("The lease of Elm costs 90 a month.", source="/books/lease.txt"))
    summary = summary_of(engine, "books")
    assert [entry.source for entry in summary.documents] == ["/books/elm.txt", "/books/lease.txt"]
    assert [len(entry.sections[0].statements) for entry in summary.documents] == [1, 1]
    assert summary.documents[1].card.kind == "contract"
    assert llm.calls == 0
    assert summary.final
    about = summary_of(engine, "books", about="lease")
    assert [entry.source for entry in about.documents] == ["/books/lease.txt"]
    assert total_line(about) == "1 of 2 documents have a sentence on this."


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Word", "Word"),
        ("茶", "茶"),
        ("12 | 13\n14 | 15", "12 | 13"),
        ("x" * 5000, ""),
    ],
)
def test_a_document_of_hardly_any_words_is_quoted(
    engine: Engine, llm: Repeating, text: str, words: str
) -> None:
    add(engine.library, document(text, source="/odd.txt"), size=6000)
    summary = summary_of(engine, "odd.txt")
    assert llm.calls == 0
    assert summary.final
    content = "".join(section_text(section) for section in summary.documents[0].sections)
    assert words in content
    assert coverage_lines(summary.documents[0])


def test_sections_are_told_in_their_own_language(engine: Engine, llm: Repeating) -> None:
    chinese = "茶园有四个山坡，共有两百亩。" + "".join(
        f"{place}的茶树在{month}月采摘，由村里的{count}位老人手工完成。"
        for place in ("东坡", "西坡", "南坡", "北坡", "溪边", "林下")
        for month, count in ((3, 12), (4, 20), (5, 31), (9, 8), (10, 17))
    )
    add(engine.library, document(*PAGES[:3], chinese, source="/both.txt"), size=500)
    prompts: list[str] = []
    stream = llm.stream

    def heard(messages: Sequence[object], options: object) -> Iterator[str]:
        prompts.append(messages[-1].content)  # type: ignore[attr-defined]
        if "请用中文" in prompts[-1]:
            return iter(["东坡的茶树在3月采摘，由村里的12位老人手工完成。"])
        return stream(messages, options)

    llm.stream = heard
    summary = summary_of(engine, "both.txt")
    assert {"请用中文" in prompt for prompt in prompts} == {True, False}
    text = "".join(section_text(section) for section in summary.documents[0].sections)
    assert "东坡的茶树在3月采摘，由村里的12位老人手工完成[" in text


def test_records_are_plain_and_markers_count_over_all_sections(engine: Engine) -> None:
    summary = summary_of(engine, "elm.txt")
    (record,) = summary_json(summary)["documents"]
    markers = [
        citation["marker"] for section in record["sections"] for citation in section["citations"]
    ]
    assert markers == list(range(1, len(markers) + 1))
    assert "[1]" in record["sections"][0]["text"]
    assert record["sections"][0]["support"][0]["rating"] == "fully supported"
    document = numbered(summary.documents[0])
    assert section_title(document, 0).startswith("p. 1")


def test_a_topic_has_to_be_a_question_that_can_be_asked(engine: Engine) -> None:
    with pytest.raises(UsageError, match="too long"):
        events_of(engine, "elm.txt", about="x" * 9000)
    with pytest.raises(UsageError, match="none matches"):
        events_of(engine, "letters")


def test_private_documents_are_not_given_to_a_hosted_model(
    engine: Engine, llm: Repeating, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag import hosted

    class Private:
        def documents(self, library: object) -> frozenset[str]:
            return frozenset(record.id for record in engine.library.documents())

    monkeypatch.setattr(hosted, "private_sources", lambda _: Private())
    summary = summary_of(engine, "elm.txt")
    assert llm.calls == 0
    assert {section.reason for section in summary.documents[0].sections} == {"private"}
    assert "may not read it" in state_text(summary.documents[0].sections[0])


def test_the_api_gives_the_summary_and_tells_events(engine: Engine) -> None:
    events: list[Event] = []
    rag = LocalRAG(engine)
    summary = rag.summarise(["elm.txt"], about="harbour", on_event=events.append)
    assert events[-1] is summary
    assert isinstance(events[0], SummaryBegun)
