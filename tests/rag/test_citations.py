from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from localrag.models.embeddings.base import Progress, Vectors
from localrag.rag.citations import Attributor, CitedStream, hide_markers, marked, without_markers
from localrag.types import Chunk, Columns, Place, ScoredChunk

EN = (
    "The glass house was opened in 1907 by the city council. It holds two hundred orchids. "
    "Tickets cost four crowns."
)
EN_OTHER = "The tea room serves green tea from the southern hills. It closes at six."
ZH = "玻璃温室由市议会于1907年开放。里面有两百株兰花。门票四克朗。"


def words(text: str) -> list[str]:
    return re.findall(r"[a-z]+|\d+|[\u4e00-\u9fff]", text.lower())


class MeaningEmbedder:
    """Puts texts that share a number in one direction: a stand-in for meaning across languages."""

    dimension = 8
    fingerprint = "meaning"
    max_tokens = 1000

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        return [len(text) for text in texts]

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> Vectors:
        rows = np.zeros((len(texts), 8), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            row[1 if "1907" in text else 2 if "200" in text or "两百" in text else 3] = 1.0
        return rows

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        return self.embed_documents(texts)


def context(text: str, number: int, pages: tuple[int, int] = (1, 1)) -> ScoredChunk:
    chunk = Chunk(number, "d", number, text, "", *pages, 0, len(text))
    return ScoredChunk(chunk, 1.0, f"file{number}.pdf")


def attributor(*texts: str) -> Attributor:
    contexts = [context(text, number) for number, text in enumerate(texts, start=1)]
    return Attributor(contexts, words, lambda _, at: Place(at, number=3 + at), MeaningEmbedder())


REFUSAL = "The documents do not say."
QUESTION = "When was the glass house opened?"


def stream_over(*texts: str) -> CitedStream:
    return CitedStream(attributor(*texts), QUESTION, REFUSAL)


def written(stream: CitedStream, text: str, size: int = 2) -> str:
    pieces = [text[start : start + size] for start in range(0, len(text), size)]
    return "".join(piece.written for piece in stream.checked(pieces))


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("reply", "shown"),
    [
        ("The glass house opened in 1907 [1].", "The glass house opened in 1907 [1]."),
        ("The glass house opened in 1907. [1]", "The glass house opened in 1907 [1]."),
        ("The glass house opened in 1907.[1] ", "The glass house opened in 1907 [1]."),
        ("The glass house opened in 1907 [7].", "The glass house opened in 1907 [1]."),
        ("The glass house opened in 1907 [2].", "The glass house opened in 1907 [1]."),
        ("The glass house opened in 1907.", "The glass house opened in 1907 [1]."),
        ("The glass house opened in 1907 [1, 2].", "The glass house opened in 1907 [1]."),
        ("The moon is made of cheese [1].", "The moon is made of cheese."),
        ("The tea room closes at six 【2】.", "The tea room closes at six [2]."),
        ("Holds 3.5 m of orchids.", "Holds 3.5 m of orchids."),
        (
            "The glass house opened in 1907 [1]. The tea room closes at six [2]!",
            "The glass house opened in 1907 [1]. The tea room closes at six [2]!",
        ),
        ("The glass house opened in 1907 [1", "The glass house opened in 1907 [1]"),
        (
            "- opened in 1907 by the city council\n- tea\n",
            "- opened in 1907 by the city council [1]\n- tea\n",
        ),
    ],
)
def test_markers_are_kept_moved_added_or_removed(reply: str, shown: str, size: int) -> None:
    assert written(stream_over(EN, EN_OTHER), reply, size) == shown


@pytest.mark.parametrize("held", [True, False])
def test_a_paraphrase_is_cited_where_only_what_holds_the_answer_was_read(held: bool) -> None:
    stream = CitedStream(attributor(EN, EN_OTHER).only([1], alone=held), QUESTION, REFUSAL)
    reply = "1. That year, 1907, the mayor unlocked our glass house.\n2. The tea room is small."
    expected = reply.replace("house.", "house [1].") if held else reply
    assert written(stream, reply) == expected


def test_the_mark_of_a_list_is_no_word_of_a_sentence() -> None:
    attribution = attributor("It grew by 9 percent.", "The tea room has 3 tables.")
    assert [citation.marker for citation in attribution.attribute("3. It grew.", [])] == [1]


def test_chinese_markers_stand_before_the_full_stop() -> None:
    stream = stream_over(ZH)
    assert (
        written(stream, "玻璃温室于1907年开放。[1]门票四克朗【1】。")
        == "玻璃温室于1907年开放[1]。门票四克朗[1]。"
    )


def test_a_citation_carries_page_and_the_supporting_sentence() -> None:
    stream = stream_over(EN)
    written(stream, "It holds two hundred orchids [1].")
    (citation,) = stream.citations
    assert citation.quote == "It holds two hundred orchids."
    assert citation.quote in EN
    assert citation.page == 3 + EN.index("It holds")
    assert (citation.marker, citation.source) == (1, "file1.pdf")


def test_what_was_done_to_markers_is_counted() -> None:
    stream = stream_over(EN, EN_OTHER)
    written(stream, "The glass house opened in 1907 [9]. The moon is cheese [2].")
    assert (stream.removed, stream.added) == ({9, 2}, {1})


def test_across_languages_the_embedding_decides() -> None:
    stream = stream_over(ZH)
    assert written(stream, "It was opened in 1907.") == "It was opened in 1907 [1]."
    assert stream.citations[0].quote == "玻璃温室由市议会于1907年开放。"


def test_in_a_passage_of_two_languages_a_shared_small_word_proves_nothing() -> None:
    rules = "Fires may be lit in November only, never in the evening. 温室里可以摆放两百株兰花。"
    assert attributor(rules).cite(1, "Up to 200 orchids may stand there.").quote == (
        "温室里可以摆放两百株兰花。"
    )
    own = "Orchids may stand there, 200 of them, in the evening. 温室里可以摆放两百株兰花。"
    assert attributor(own).cite(1, "Up to 200 orchids may stand there.").quote == (
        "Orchids may stand there, 200 of them, in the evening."
    )


def test_in_a_passage_of_two_languages_the_other_is_cited_only_for_its_own_figures() -> None:
    notice = "Either side may end this agreement by giving the other 35 days' notice in writing."
    contract = f"{notice} 夜间应停泊在北岸三号泊位，泊位费每晚四十五元，由俱乐部承担。"
    sentence = "You have 35 days to tell the marina if you want to leave before September."
    assert attributor(contract).cite(1, sentence).quote == notice


def test_a_quote_is_cited_once() -> None:
    stream = stream_over(EN)
    written(stream, "It holds two hundred orchids. Two hundred orchids it holds.")
    assert len(stream.citations) == 1


@pytest.mark.parametrize(
    ("text", "numbers", "without"),
    [
        ("It stands [1].", [1], "It stands."),
        ("It stands [1, 2].", [1, 2], "It stands."),
        ("It stands [1][2].", [1, 2], "It stands."),
        ("It stands [1-3].", [1, 2, 3], "It stands."),
        ("It stands [3–1], [7].", [1, 2, 3, 7], "It stands,."),
        ("It stands [ 1 ] [Passages 2, 3].", [1, 2, 3], "It stands."),
        ("It stands [source 1].", [1], "It stands."),
        ("它在那里【1】。", [1], "它在那里。"),
        ("它在那里[1，2]、［3］。", [1, 2, 3], "它在那里、。"),
        ("它在那里[资料 1、2]。", [1, 2], "它在那里。"),
        ("It stands [0].", [0], "It stands."),
        ("It stands [99].", [99], "It stands."),
        ("It stands [a].", [], "It stands [a]."),
        ("It stands [].", [], "It stands []."),
        ("It stands (1).", [], "It stands (1)."),
        ("Opened [1907].", [], "Opened [1907]."),
        ("它在那里[甲]。", [], "它在那里[甲]。"),
    ],
)
def test_one_grammar_says_what_a_marker_is(text: str, numbers: list[int], without: str) -> None:
    assert marked(text) == numbers
    assert without_markers(text) == without
    assert marked(hide_markers(text)) == []
    output = written(stream_over("Closed in 200."), text)
    assert marked(output) == []  # no passage bears it out
    assert output.split() == without.split()


def test_a_passages_own_brackets_do_not_pass_for_markers() -> None:
    assert (
        hide_markers("as shown [12] and [3, 4] 【5】, a[i]") == "as shown (12) and (3, 4) (5), a[i]"
    )
    assert hide_markers("[资料1] and\t[ 2-4 ]") == "(资料1) and\t( 2-4 )"


@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_refusal_after_an_answer_is_dropped_and_one_alone_stays(size: int) -> None:
    reply = f"It holds two hundred orchids. {REFUSAL}"
    assert written(stream_over(EN), reply, size).strip() == "It holds two hundred orchids [1]."
    assert written(stream_over(EN), REFUSAL, size) == REFUSAL
    longer = "It holds two hundred orchids. The documents do not lie."
    assert written(stream_over(EN), longer, size).endswith("The documents do not lie.")


def test_a_sentence_that_runs_over_a_page_is_quoted_whole() -> None:
    text = "Between 1964 and 1966 a man wrote a\nprogram that talked. It was short."
    chunk = Chunk(1, "d", 0, text, "", 1, 2, 0, len(text))
    by_page = Attributor(
        [ScoredChunk(chunk, 1.0, "a.pdf")],
        words,
        lambda _, at: Place(at, number=1 + (at > 35)),
        MeaningEmbedder(),
    )
    stream = CitedStream(by_page, QUESTION, REFUSAL)
    written(stream, "A man wrote a program that talked between 1964 and 1966.")
    (citation,) = stream.citations
    assert citation.quote == "Between 1964 and 1966 a man wrote a\nprogram that talked."
    assert citation.place == Place(0, number=1)
    assert citation.page == 1


@pytest.mark.parametrize(
    ("reply", "shown"),
    [("1907", "1907 [1]"), ("1907.", "1907 [1]."), ("1908", "1908"), ("Yes.", "Yes.")],
)
def test_a_bare_answer_is_cited_where_a_sentence_holds_it(reply: str, shown: str) -> None:
    stream = stream_over(EN, "The bridge of 1907 fell down.")
    assert written(stream, reply) == shown
    if "[1]" in shown:
        assert (
            stream.citations[0].quote == "The glass house was opened in 1907 by the city council."
        )


@pytest.mark.parametrize(
    ("question", "answer", "quote"),
    [
        ("How many bicycles fit?", "9", "It carries nine bicycles."),
        ("How many cars fit?", "two", "There is room for 2 cars on deck."),
        ("How many bicycles fit?", "nine bicycles", "It carries nine bicycles."),
        ("How many bicycles fit?", "8", None),
        ("How many trucks fit?", "9 trucks", None),
    ],
)
def test_a_bare_number_is_cited_in_words_or_digits(
    question: str, answer: str, quote: str | None
) -> None:
    attribution = attributor("It carries nine bicycles. There is room for 2 cars on deck.")
    citations = attribution.attribute_short(answer, question)
    assert [citation.quote for citation in citations] == ([quote] if quote else [])


def test_rows_are_cited_one_by_one_by_what_their_header_says() -> None:
    rows = ["TA15 | Ti-6Al. 2Zr | 4.5", "TC4 | Ti-6Al. 4V | 4.43", "TA7 | Ti-5Al | 4.42"]
    text = "\n".join(rows)
    columns = (Columns(0, len(text), ("alloy", "nominal composition", "density")),)
    # Rows do not run on, also not over the end of a page.
    chunk = Chunk(1, "d", 0, text, "", 1, 2, 0, len(text), columns)
    attribution = Attributor(
        [ScoredChunk(chunk, 1.0, "alloys.pdf")],
        words,
        lambda _, at: Place(at, number=1 if at < len(rows[0]) else 2),
        MeaningEmbedder(),
    )
    for answer in (
        "alloy: TC4 | nominal composition: Ti-6Al. 4V | density: 4.43",
        "The alloy TC4 has a density of 4.43",
    ):
        (citation,) = attribution.attribute(answer, [1])
        assert (citation.quote, citation.page) == (rows[1], 2)
    (citation,) = attribution.attribute_short("4.43", "What is the density of TC4?")
    assert citation.quote == rows[1]
    ((sentence, citation),) = attribution.nearest_sentences(
        [1], "What is the density of alloy TC4?", 1
    )
    assert (sentence, citation.quote) == (
        "alloy: TC4 | nominal composition: Ti-6Al. 4V | density: 4.43",
        rows[1],
    )
    assert attribution.attribute("The glass house was opened by the council in 1907", [1]) == []


def test_a_whole_number_is_that_of_a_table_with_decimals() -> None:
    text = "Bank | left\nMinsheng | 173500.00\nBohai | 98000.50"
    chunk = Chunk(
        1, "d", 0, text, "", 1, 1, 0, len(text), (Columns(0, len(text), ("Bank", "left")),)
    )
    contexts = [ScoredChunk(chunk, 1.0, "banks.pdf")]
    attribution = Attributor(contexts, str.split, lambda _, at: Place(at), MeaningEmbedder())
    (citation,) = attribution.attribute_short("173500", "What is left at Minsheng ?")
    assert citation.quote == "Minsheng | 173500.00"
    assert attribution.attribute_short("98000", "What is left at Bohai ?") == []


def test_a_paraphrase_with_another_figure_gets_no_marker() -> None:
    attribution = attributor("The old mill by the river was built in 1870 by the town.")
    passage = attribution.only([1], alone=True)
    sentence = "They built it in {} by the water, a mill."
    assert [citation.marker for citation in passage.attribute(sentence.format(1870), [])] == [1]
    assert passage.attribute(sentence.format(1850), []) == []
