from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from fakes import HashEmbedder
from scripted_llm import ScriptedLLM

from localrag.errors import UsageError
from localrag.models.llms.base import Options
from localrag.models.llms.choices import LogitChooser
from localrag.rag.base import Toolkit
from localrag.rag.budget import Budget
from localrag.rag.faithfulness import Unsupported
from localrag.rag.grading import Grader
from localrag.rag.pipeline import AnswerRun, AnswerStage, Pieces, Pipeline, Trace
from localrag.rag.reading import Bounds, Evidence, PassageReader
from localrag.rag.self_rag import self_rag
from localrag.rag.stages.check import check
from localrag.rag.stages.compare import compare
from localrag.rag.stages.complete import complete
from localrag.rag.stages.draft import AnswerDrafter
from localrag.rag.stages.explain import NotFoundExplainer
from localrag.rag.stages.find import find
from localrag.rag.stages.grade import GradedPassages, SelfRAGOptions
from localrag.rag.stages.guard import InstructionGuard
from localrag.rag.stages.read import EvidenceReader
from localrag.rag.stages.show import show
from localrag.rag.stages.understand import RetrievalDecision
from localrag.rag.stages.write import write
from localrag.rag.standard import standard_rag
from localrag.rag.statements import own_sentence
from localrag.rag.wordings import SearchTools
from localrag.text.sentences import told_and_asked
from localrag.text.tokenize import Tokenizer
from localrag.types import Answer, Chunk, Message, Place, ScoredChunk, Statement, Step

OPENED = "The glass house was opened in 1907."
QUESTION = "When was the glass house opened?"
OPTIONS = SelfRAGOptions(
    min_retrieval=0.3,
    min_relevance=0.2,
    min_best_relevance=0.5,
    min_support=0.5,
    min_partial_support=0.3,
    good_utility=3.8,
    enough=1.0,
    early_stop=True,
    strict=True,
)


def hits(*texts: str) -> list[ScoredChunk]:
    return [
        ScoredChunk(Chunk(n, f"d{n}", n, text, "", 1, 1, 0, len(text)), 1 / n, f"{n}.txt")
        for n, text in enumerate(texts, start=1)
    ]


def run_over(
    *texts: str, llm: ScriptedLLM | None = None, unsupported: Unsupported = "mark"
) -> AnswerRun:
    llm = llm or ScriptedLLM()
    tools = Toolkit(
        retrieve=lambda _, k: hits(*texts)[:k],
        llm=llm,
        tokenize=Tokenizer(None),
        embedder=HashEmbedder(),
        place_of=lambda chunk, offset: Place(0, number=1),
        k=3,
        generation=Options(max_tokens=50),
    )
    grader = Grader(LogitChooser(llm))
    run = AnswerRun(QUESTION, tools, grader, unsupported, Budget(0.0), Trace())
    run.passages = hits(*texts)
    return run


def kinds(pieces: Sequence[Statement | Step]) -> list[str]:
    return [piece.kind for piece in pieces]


def answering(text: str) -> AnswerStage:
    def stage(run: AnswerRun) -> Pieces:
        run.tools.retrieve(run.question, 3)
        run.statements = (Statement(text),)
        yield run.statements[0]
        yield from complete(run)

    return stage


def test_a_pipeline_records_the_steps_of_its_stages() -> None:
    run = run_over()

    def stage(run: AnswerRun) -> Pieces:
        yield Step("write", {}, None, 0.0)
        assert len(run.trace.steps) == 1

    rag = Pipeline(run.tools, run.grader, [stage, answering(OPENED)])
    *pieces, answer = rag.stream(QUESTION)
    assert isinstance(answer, Answer)
    assert (answer.text, answer.trace) == (OPENED, tuple(pieces[:1]))
    assert answer.seconds > 0
    with pytest.raises(UsageError):
        list(rag.stream(" "))


def test_the_modes_share_what_finds_compares_and_completes() -> None:
    modes = standard_rag(Bounds(0.8, 0.5)), self_rag(OPTIONS)
    for stages in modes:
        assert {find, compare, complete} <= set(stages)


def test_understand_needs_documents_where_it_is_strict() -> None:
    run = run_over()
    assert kinds(list(RetrievalDecision(0.3, strict=True)(run))) == ["retrieval decision"]
    assert run.needed


def test_find_searches_only_where_documents_are_needed() -> None:
    run = run_over(OPENED)
    run.passages, run.needed = (), False
    assert list(find(run)) == []
    run.needed = True
    assert kinds(list(find(run))) == ["retrieve"]
    assert len(run.passages) == 1


def test_read_leaves_the_evidence() -> None:
    run = run_over(OPENED, llm=ScriptedLLM(scores=[{"Yes": 9, "No": 1}]))
    assert kinds(list(EvidenceReader(Bounds(0.8, 0.5))(run))) == ["relevance"]
    assert run.evidence is not None
    assert run.evidence.numbers == (1,)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("The school has rung again. What do they pay?", "What do they pay?"),
        ("空调又坏了，今年第三回。找谁修？", "找谁修？"),
        ("The tenant\nhas rung. What do they\npay?!", "What do they pay?!"),
        ("What do they pay? Who rang?", ""),
        ("What do they pay? Tell me. Who rang?", ""),
        ("What do they pay? The school has rung.", ""),
        ("What schools pay", ""),
    ],
)
def test_a_story_is_told_from_what_is_asked(question: str, asked: str) -> None:
    told, asking = told_and_asked(question)
    assert (bool(told), asking) == (bool(asked), asked or question)


def test_read_grades_without_the_story_what_the_whole_question_found() -> None:
    llm = ScriptedLLM(scores=[{"No": 1}, {"Yes": 1}])
    run = run_over(OPENED, llm=llm)
    run.question = "My aunt has a headache. When was the glass house opened?"
    steps = list(EvidenceReader(Bounds(0.8, 0.5))(run))
    assert kinds(steps) == ["relevance", "answerable", "parts", "relevance"]
    assert run.evidence is not None
    assert ["headache" in messages[-1].content for messages, _ in llm.scored] == [True, False]
    assert "headache" not in run.evidence.messages[-1].content


def test_strictly_no_question_is_read_without_its_story() -> None:
    run = run_over(OPENED, llm=ScriptedLLM(scores=[{"No": 1}]), unsupported="remove unchecked")
    run.question = "My aunt has a headache. When was the glass house opened?"
    list(EvidenceReader(Bounds(0.8, 0.5))(run))
    assert run.evidence is None


def test_what_an_answer_is_written_from_counts_as_read() -> None:
    run = run_over(OPENED, "The pond is deep.", "Dogs are kept out.")
    reader = PassageReader(run.tools, run.grader, Bounds(0.8, 0.5))
    reader.alone(run.question, 2, run.passages, "en")
    assert reader.seen == {run.passages[1].chunk.id}
    reader.several(run.question, (1, 2), run.passages, "en")
    assert reader.seen == {passage.chunk.id for passage in run.passages[:2]}


def test_grade_keeps_what_is_relevant() -> None:
    run = run_over(OPENED, llm=ScriptedLLM(scores=[{"Yes": 9, "No": 1}]))
    stage = GradedPassages(run, OPTIONS, run.passages)
    assert kinds(list(stage.grade(stop=True))) == ["relevance"]
    assert (stage.answerable, stage.relevant) == (True, run.passages)


def test_draft_refuses_where_nothing_was_found() -> None:
    run = run_over()
    assert kinds(list(AnswerDrafter(OPTIONS)(run))) == ["refusal"]
    assert (run.evidence, run.grounded) == (None, False)


def test_compare_tells_what_passages_differ_in() -> None:
    run = run_over("The deposit for a locker is 20 euros.", "A locker needs a deposit of 35 euros.")
    run.question = "How much is the deposit for a locker?"
    assert list(compare(run)) == []
    run.evidence = Evidence((1,), [], keep=1)
    assert kinds(list(compare(run))) == ["disagreement"]


def test_write_streams_with_citations() -> None:
    run = run_over(OPENED, llm=ScriptedLLM([f"{OPENED[:-1]} [1]."]))
    run.evidence = Evidence((1,), [Message("user", "Answer.")], keep=1)
    *statements, _, _ = pieces = list(write(run))
    assert kinds(pieces)[-2:] == ["write", "check citations"]
    assert "".join(piece.written for piece in statements if isinstance(piece, Statement)) == (
        f"{OPENED[:-1]} [1]."
    )


def test_check_takes_out_what_has_no_support() -> None:
    run = run_over(OPENED, unsupported="remove")
    run.evidence = Evidence((1,), [Message("user", "Answer.")], keep=1)
    run.statements = (Statement("It holds 312 palms."),)
    assert kinds(list(check(run))) == ["check sentences"]
    assert run.statements == ()


def test_show_cites_what_it_shows() -> None:
    run = run_over(OPENED)
    run.evidence, run.statements = Evidence((1,), [], keep=1), (Statement(OPENED),)
    list(compare(run))
    (statement,) = show(run)
    assert isinstance(statement, Statement)
    assert [mark.citation.marker for mark in statement.citations] == [1]


def test_complete_refuses_or_says_what_is_missing() -> None:
    run = run_over(OPENED)
    assert kinds(list(complete(run))) == ["refusal"]
    run.statements, run.missing = (Statement(OPENED),), ("Who built it?",)
    assert kinds(list(complete(run))) == ["missing"]
    assert [part.question for part in run.answer.not_found] == ["Who built it?"]


def test_explain_says_that_few_documents_were_read() -> None:
    run = run_over(OPENED)
    list(answering(OPENED)(run))
    run.answer = replace(run.answer, grounded=True)
    around = SearchTools(
        run.tools.tokenize,
        run.tools.attributor,
        run.tools.retrieve,
        lambda term, edits, k: [],
        lambda terms: (0, []),
    )
    assert kinds(list(NotFoundExplainer(around, few=True)(run))) == ["notice"]
    assert run.answer.statements[-1].text == own_sentence("from_few", "en").text


def test_guard_lets_through_what_nothing_could_steer() -> None:
    run = run_over(OPENED)
    pieces = list(InstructionGuard([answering(OPENED)])(run))
    assert [piece.text for piece in pieces if isinstance(piece, Statement)] == [OPENED]
    assert run.answer.text == OPENED
