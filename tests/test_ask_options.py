"""One engine, several callers: what one asks for never reaches another."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from answers import written
from library.library_fixtures import EMBEDDER, add, document, open_library
from numpy.typing import NDArray
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.api import LocalRAG
from localrag.config.settings import Settings
from localrag.egress.consent import Consent
from localrag.engine import AskOptions, Engine
from localrag.errors import StoppedError, UsageError
from localrag.library.catalogue.filters import Filter
from localrag.models.llms.base import Completion, Options
from localrag.rag import both_sides
from localrag.rag import parts as rag_parts
from localrag.rag.base import Piece, finished
from localrag.rag.conversation import Turn
from localrag.rag.disagreement import disagreement
from localrag.tables import plan
from localrag.tables.answering import LibraryAccess
from localrag.tables.records import Reply
from localrag.types import Answer, Message, ScoredChunk, Statement, Step

GARDEN = "The glass house was opened in 1907. It has two hundred orchids."
TEA = "云溪茶园在三月采摘春茶。茶园有四个山坡。"
ENGLISH, CHINESE = "When was the glass house opened?", "云溪茶园什么时候采摘春茶？"


class Helpful(ScriptedLLM):
    """Says yes to whatever it is asked to choose, and answers from what it reads, slowly."""

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        time.sleep(0.001)
        weights = np.full(len(choices), 0.01)
        weights[-1 if choices[0] == "1" else 0] = 1.0
        return weights / weights.sum()

    def stream(self, messages: Sequence[Message], options: Options) -> Iterator[str]:
        prompt = "\n".join(message.content for message in messages)
        chinese = CHINESE in prompt
        for piece in (
            ("云溪茶园在三月", "采摘春茶。") if chinese else ("It was opened ", "in 1907.")
        ):
            time.sleep(0.001)
            yield piece


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(
        factory, "make_model", lambda *_: factory.Model(llm := Helpful(), llm, lambda: None)
    )
    settings = Settings()
    identity = factory.identity_of(EMBEDDER, settings)
    library = open_library(
        tmp_path / "library", tokenize=factory.make_tokenizer(settings), embedding=identity
    )
    add(library, document(GARDEN, source="garden.txt"), size=200)
    add(library, document(TEA, source="tea.txt"), size=200, language="zh")
    new_engine = Engine(library, settings, embedder=EMBEDDER)
    yield new_engine
    new_engine.close()


def asked(engine: Engine, question: str, options: AskOptions) -> tuple[Answer, list[Step]]:
    *pieces, answer = engine.stream(question, options)
    assert isinstance(answer, Answer)
    assert written(pieces).strip() == answer.text
    steps = [piece for piece in pieces if isinstance(piece, Step)]
    assert tuple(steps) == answer.trace, "each step is told as it is made"
    return answer, steps


def english(engine: Engine) -> None:
    options = AskOptions(k=1, mode="standard", rerank="keyword", filter=Filter(path="*garden*"))
    answer, steps = asked(engine, ENGLISH, options)
    assert answer.language == "en"
    assert "1907" in answer.text
    assert [Path(context.source).name for context in answer.contexts] == ["garden.txt"]
    assert [step.kind for step in steps] == [
        *("filter", "retrieve", "rerank", "relevance", "write"),
        *("check citations", "check sentences"),
    ]
    assert answer.metrics is None


def chinese(engine: Engine) -> None:
    options = AskOptions(k=2, mode="self-rag", strict=True)
    answer, steps = asked(engine, CHINESE, options)
    assert answer.language == "zh"
    assert "三月" in answer.text
    assert answer.metrics is not None
    assert steps[0].values == {"strict": True}
    assert "rerank" not in [step.kind for step in steps]
    assert sum(step.kind == "relevance" for step in steps) == 1  # which is enough


@pytest.mark.parametrize("mode", ["standard", "self-rag"])
@pytest.mark.parametrize(("least", "answered"), [(1.0, False), (0.5, True)])
def test_strictly_the_same_is_asked_of_the_best_passage_in_both_modes(
    engine: Engine, mode: str, least: float, answered: bool
) -> None:
    settings = msgspec.structs.replace(engine.settings.answer, min_answerable_strict=least)
    engine.settings = msgspec.structs.replace(engine.settings, answer=settings)
    answer, _ = asked(engine, CHINESE, AskOptions(k=2, mode=mode, strict=True))
    assert answer.grounded == answered
    assert asked(engine, CHINESE, AskOptions(k=2, mode=mode))[0].grounded


def test_one_after_the_other(engine: Engine) -> None:
    before = engine.settings
    for _ in range(2):
        english(engine)
        chinese(engine)
    assert engine.settings is before


@pytest.mark.parametrize(
    ("question", "said"), [(ENGLISH, "The library is empty"), (CHINESE, "文档库是空的")]
)
def test_an_empty_library_says_that_it_is_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, question: str, said: str
) -> None:
    monkeypatch.delattr(factory, "make_model")
    settings = Settings()
    identity = factory.identity_of(EMBEDDER, settings)
    library = open_library(
        tmp_path / "new", tokenize=factory.make_tokenizer(settings), embedding=identity
    )
    empty = Engine(library, settings, embedder=EMBEDDER)
    text, answer = empty.stream(question)
    assert isinstance(answer, Answer)
    assert isinstance(text, Statement)
    assert text.written.startswith(said)
    assert (answer.grounded, answer.contexts) == (False, ())
    empty.close()


def test_side_by_side(engine: Engine) -> None:
    errors: list[BaseException] = []
    ready = threading.Barrier(6)

    def caller(ask: object) -> None:
        ready.wait()
        try:
            for _ in range(10):
                ask(engine)  # type: ignore[operator]
        except BaseException as error:
            errors.append(error)

    callers = [threading.Thread(target=caller, args=(ask,)) for ask in (english, chinese) * 3]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert errors == []


def test_a_stream_that_is_closed_leaves_the_engine_usable(engine: Engine) -> None:
    pieces = engine.stream(ENGLISH)
    assert any(isinstance(piece, Statement) for piece in pieces)
    pieces.close()  # type: ignore[attr-defined]
    english(engine)


def test_a_follow_up_is_understood_by_the_history_that_comes_with_it(engine: Engine) -> None:
    llm = engine.model.llm
    assert isinstance(llm, Helpful)
    llm.replies.append("How many orchids has the glass house?")
    history = (Turn(ENGLISH, "It was opened in 1907. [1]"),)
    answer, _ = asked(engine, "How many orchids has it?", AskOptions(history=history))
    assert answer.question == "How many orchids has the glass house?"
    assert asked(engine, ENGLISH, AskOptions())[0].question == ENGLISH, "no history, no memory"


@pytest.mark.parametrize(
    "options",
    [
        AskOptions(k=0),
        AskOptions(mode="nonsense"),
        AskOptions(budget=3.0),
        AskOptions(expand="nonsense"),
        AskOptions(mode="self-rag", budget=-1.0),
    ],
)
def test_what_cannot_be_asked_for_is_said(engine: Engine, options: AskOptions) -> None:
    with pytest.raises(UsageError):
        list(engine.stream(ENGLISH, options))


def test_an_answer_from_passages_that_somebody_else_found(engine: Engine) -> None:
    hits = engine.search(ENGLISH, AskOptions(k=1))

    def given(question: str, k: int) -> list[ScoredChunk]:
        return hits

    assert engine.answer_from(ENGLISH, given).grounded


def test_a_stop_ends_one_call_and_no_other(engine: Engine) -> None:
    calls: list[tuple[object, object]] = []

    def view(stopped: threading.Event | None, consent: Consent | None) -> factory.Model:
        calls.append((stopped, consent))
        return replace(model, view=None)

    model = engine.model
    engine._model = replace(model, view=view)
    stop, consent = threading.Event(), Consent()
    asked(engine, ENGLISH, AskOptions(stopped=stop, consent=consent, rerank="llm"))
    assert calls
    assert set(calls) == {(stop, consent)}
    calls.clear()
    asked(engine, ENGLISH, AskOptions())
    assert set(calls) == {(None, None)}, "what it takes is counted by itself, and nothing stops it"


def test_passages_are_not_compared_for_who_has_left(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop = threading.Event()

    def left_during(*arguments: object) -> object:
        stop.set()
        return disagreement(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(both_sides, "disagreement", left_during)
    with pytest.raises(StoppedError) as stopped:
        asked(engine, ENGLISH, AskOptions(stopped=stop))
    assert "both_sides.py" in {Path(entry.path).name for entry in stopped.traceback}


@pytest.mark.parametrize(("computed", "told"), [(False, True), (None, False)])
def test_an_answer_about_all_that_was_not_computed_says_that_it_may_be_incomplete(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, computed: bool | None, told: bool
) -> None:
    def answered(*_: object) -> Iterator[Step]:
        yield from ()
        return computed

    monkeypatch.setattr("localrag.tables.answering.answered", answered)
    answer, _ = asked(engine, ENGLISH, AskOptions())
    assert ("may be incomplete" in answer.text) == told
    assert [statement.kind for statement in answer.statements][-1] == (
        "notice" if told else "claim"
    )


def test_a_side_of_a_comparison_says_which_documents_it_comes_from(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[Reply] = []

    def answered(_: str, access: LibraryAccess, *__: object) -> Iterator[Step]:
        garden = engine.library.paths()[0]
        replies.extend(access.ask(ENGLISH, source) for source in ("", garden))
        yield from ()
        return None

    def stream(*_: object) -> Iterator[str]:
        yield from ("It was opened in 1907 [1]. ", "Spring is when the tea is best.")

    monkeypatch.setattr(Helpful, "stream", stream)
    monkeypatch.setattr("localrag.tables.answering.answered", answered)
    asked(engine, ENGLISH, AskOptions())
    garden, tea = (entry.id for entry in engine.library.documents())
    of_all, of_garden = replies
    assert {citation.quote for citation in of_all.citations} == {
        "The glass house was opened in 1907."
    }
    assert of_all.documents == tuple(sorted((garden, tea)))
    assert of_garden.documents == (garden,)


@pytest.mark.parametrize("is_refused", [True, False])
@pytest.mark.parametrize("is_computed", [True, False])
def test_sheets_are_asked_last_where_no_passage_answers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, *, is_refused: bool, is_computed: bool
) -> None:
    computed = Statement("5 of 44 rows")

    def answered(*_: object) -> Iterator[Piece]:
        yield from ()
        return None

    def answered_after_all(question: str, *_: object) -> Iterator[Piece]:
        yield Step("compute", {}, None, 0.0)
        if is_computed:
            yield computed
            yield finished(question, [computed], (), grounded=True)
        return is_computed

    monkeypatch.setattr("localrag.tables.answering.answered", answered)
    monkeypatch.setattr("localrag.tables.answering.answered_after_all", answered_after_all)
    settings = engine.settings.answer
    settings = msgspec.structs.replace(settings, min_answerable_strict=1.0 if is_refused else 0.5)
    engine.settings = msgspec.structs.replace(engine.settings, answer=settings)
    pieces = list(engine.stream(ENGLISH, AskOptions(mode="standard", strict=True)))
    statements = [piece for piece in pieces if isinstance(piece, Statement)]
    *_, answer = pieces
    assert isinstance(answer, Answer)
    assert "".join(statement.written for statement in statements) == answer.text
    assert ("compute" in [step.kind for step in answer.trace]) == is_refused
    assert (answer.text == computed.text) == (is_refused and is_computed)
    assert answer.grounded == (is_computed or not is_refused)


def test_tables_can_be_left_out(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def answered(*_: object) -> Iterator[Step]:
        raise AssertionError

    monkeypatch.setattr("localrag.tables.answering.answered", answered)
    answer, _ = asked(engine, ENGLISH, AskOptions(tables=False))
    assert answer.text.startswith("It was opened")


class Counting(Helpful):
    """Takes every question for a count, every section for enough, and writes one query."""

    def score_choices(
        self, messages: Sequence[Message], choices: Sequence[str], *, keep: int = 0
    ) -> NDArray[np.float64]:
        weights = np.full(len(choices), 0.001)
        weights[choices.index("COUNT") if "COUNT" in choices else 0] = 1.0
        return weights / weights.sum()

    def complete(self, messages: Sequence[Message], options: Options) -> Completion:
        return Completion("SELECT COUNT(*) FROM data WHERE Way = 'letter'", 1, 1, "stop")


@pytest.mark.models("use-multilingual-v3")
def test_a_section_that_holds_rows_states_nothing_of_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        factory, "make_model", lambda *_: factory.Model(llm := Counting(), llm, lambda: None)
    )
    folder = tmp_path / "in"
    folder.mkdir()
    rows = [f"C{number},{'letter' if number % 3 else 'call'},noise\n" for number in range(1, 10)]
    (folder / "complaints.csv").write_text("No,Way,About\n" + "".join(rows), "utf-8")
    with LocalRAG.open(tmp_path / "library", settings=Settings()) as rag:
        rag.add([folder])
        answer = rag.ask("How many complaints came by letter?")
    assert answer.text.startswith("6 of 9 rows")
    assert answer.basis is not None
    assert answer.basis.counted == 6


def test_parts_of_a_question_keep_its_options_and_share_its_time(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passages of each, by whole paths or names, are not those of the question."""
    question = f"{ENGLISH} When was the tea garden opened?"
    parts = (ENGLISH, "When was the tea garden opened?")
    monkeypatch.setattr(plan, "scope", lambda *_: plan.Scope("SEVERAL", 0.1, is_probed=True))
    monkeypatch.setattr(rag_parts, "proposed", lambda *_: parts)
    budgets, stream = list[float | None](), engine.stream

    def heard(text: str, options: AskOptions) -> Iterator[Piece]:
        budgets.append(options.budget)
        return stream(text, options)

    monkeypatch.setattr(engine, "stream", heard)
    found: list[Sequence[ScoredChunk]] = []
    options = AskOptions(
        mode="self-rag", budget=60, filter=Filter(sources=("garden.txt",)), on_found=found.append
    )
    answer, steps = asked(engine, question, options)
    assert answer.text.startswith(f"- {ENGLISH} It was opened in 1907 [1].\n- When was the tea ")
    assert {citation.source for citation in answer.citations} == {"garden.txt"}
    assert [step.kind for step in steps].count("parts") == 1
    assert found == []
    first, second = (budget for budget in budgets[1:] if budget is not None)
    assert second < first < 60
