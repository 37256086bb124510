"""Self-RAG over a real local server that speaks OpenAI's protocol, well or badly.

There are no logits: grades are what the model writes. Whatever the server does, a run ends in
an answer whose trace names what could not be read, or in a `GenerationError`, and soon.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from answers import written
from fakes import HashEmbedder
from http_server import Exchange, Respond, body, chat, delta, error, events, serving

from localrag.errors import BackendError, ContextOverflowError, GenerationError
from localrag.models.llms.base import Options
from localrag.models.llms.choices import WrittenChooser
from localrag.models.llms.openai.model import OpenAICompatibleModel
from localrag.rag.base import Toolkit
from localrag.rag.grading import Grader
from localrag.rag.pipeline import Pipeline
from localrag.rag.self_rag import self_rag
from localrag.rag.stages.grade import SelfRAGOptions
from localrag.text.tokenize import Tokenizer
from localrag.types import Answer, Chunk, Place, ScoredChunk, Statement

TEXTS = ["The lighthouse was built in 1871 by the harbour board.", "Tea is served at four."]
WRITTEN = "The tall lighthouse was built in 1871."
QUESTION = "When was the lighthouse built?"


def sensible(body: dict[str, Any]) -> str:
    """What a good model replies: JSON where a schema asks for it."""
    if "response_format" not in body:
        return WRITTEN
    prompt = body["messages"]
    schema = body["response_format"].get("json_schema", body["response_format"])["schema"]
    choices = schema["properties"]["answer"]["enum"]
    about_the_lighthouse = "1871" in prompt[0]["content"]
    replies = {
        "information": "information",
        "Yes": "Yes" if about_the_lighthouse else "No",
        "Fully supported": "Fully supported",
        "1": "5",
    }[choices[0]]
    return json.dumps({"answer": replies})


@dataclass
class Server:
    """`reply` makes the text of a reply, unless there is a fault for the request or its number."""

    url: str = ""
    reply: Callable[[dict[str, Any]], str] = sensible
    faults: dict[int, Respond] = field(default_factory=dict)
    fault: Callable[[dict[str, Any]], Respond | None] = lambda _: None
    requests: list[dict[str, Any]] = field(default_factory=list)
    model: OpenAICompatibleModel | None = None

    def self_rag(
        self, *, timeout: float = 60.0, k: int = 2, budget: float = 0.0, **options: Any
    ) -> Pipeline:
        self.model = OpenAICompatibleModel(self.url, "tiny", timeout_seconds=timeout, max_retries=1)
        defaults: dict[str, Any] = {
            "min_retrieval": 0.3,
            "min_relevance": 0.5,
            "min_best_relevance": 0.5,
            "min_support": 0.5,
            "min_partial_support": 0.3,
            "good_utility": 3.8,
            "enough": 1.0,
            "early_stop": True,
            "strict": False,
        }
        tools = Toolkit(
            retrieve=lambda _, k: [
                ScoredChunk(Chunk(n, "d", n, text, "", 1, 1, 0, len(text)), 0.9 / n, "a.pdf")
                for n, text in enumerate(TEXTS, start=1)
            ][:k],
            llm=self.model,
            tokenize=Tokenizer(None),
            embedder=HashEmbedder(),
            place_of=lambda chunk, offset: Place(0, number=1),
            k=k,
            generation=Options(max_tokens=100),
        )
        grader = Grader(WrittenChooser(self.model))
        return Pipeline(
            tools, grader, self_rag(SelfRAGOptions(**(defaults | options))), budget=budget
        )


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    import tenacity

    monkeypatch.setattr(tenacity, "wait_random_exponential", lambda **_: lambda _state: 0.01)
    state = Server()

    def respond(exchange: Exchange) -> None:
        body = exchange.heard.json
        fault = state.faults.get(len(state.requests)) or state.fault(body)
        state.requests.append(body)
        (fault or chat(state.reply))(exchange)

    with serving(respond) as running:
        state.url = f"{running.url}/v1"
        yield state
        if state.model is not None:
            state.model.close()


def run(rag: Pipeline, question: str = QUESTION) -> Answer:
    *pieces, answer = rag.stream(question)
    assert isinstance(answer, Answer)
    assert written(pieces).strip() == answer.text
    return answer


def notes(answer: Answer) -> list[str]:
    return [step.kind for step in answer.trace if step.values.get("unread")]


DECISION, RELEVANCE, OTHER, WRITE, SUPPORT, UTILITY = range(6)
"""The requests of a normal run, in order."""


def test_a_normal_run(server: Server) -> None:
    answer = run(server.self_rag())
    assert answer.text == "The tall lighthouse was built in 1871 [1]."
    assert answer.grounded
    assert notes(answer) == []
    assert len(server.requests) == 6
    assert [bool(request.get("stream")) for request in server.requests].index(True) == WRITE
    assert answer.metrics is not None
    assert answer.metrics.best_score == 20.0
    assert answer.metrics.relevant_documents == 1
    assert [sentence.rating for sentence in answer.support] == ["fully supported"]
    assert not any("keep" in request for request in server.requests)


def test_reasoning_never_reaches_answers_grades_or_citations(server: Server) -> None:
    thought = (
        '<think>\nNo. {"answer": "No"} Not relevant, No support, 1, chat. The passage [7] is '
        "by the harbour board.\n</think>\n\n"
    )
    server.reply = lambda body: thought + sensible(body)
    answer = run(server.self_rag())
    assert answer.text == "The tall lighthouse was built in 1871 [1]."
    assert answer.metrics is not None
    assert answer.metrics.best_score == 20.0
    assert answer.metrics.relevant_documents == 1
    assert notes(answer) == []
    assert [citation.quote for citation in answer.citations] == [TEXTS[0]]
    assert "think" not in repr(answer)


def test_a_thought_without_an_end_is_no_reply(server: Server) -> None:
    server.reply = lambda _: "<think>Yes yes Fully supported 5 information 1871"
    answer = run(server.self_rag())
    assert notes(answer) == ["retrieval decision", "relevance", "relevance"]
    assert not answer.grounded
    assert answer.text == ""
    strict = run(server.self_rag(strict=True))
    assert strict.text.startswith("The documents do not contain")


@pytest.mark.parametrize(
    "text", ["", "??", '{"answer": "Certainly"}', "{" * 30_000, '{"answer"', "null", "\ud83d"]
)
def test_unreadable_grades_have_their_fallbacks(server: Server, text: str) -> None:
    server.reply = lambda body: text if "response_format" in body else WRITTEN
    answer = run(server.self_rag())
    assert notes(answer) == [
        *("retrieval decision", "relevance", "relevance", "support of a sentence", "utility"),
    ]
    # The similarity made one passage relevant; what nobody could check is not an answer from it.
    assert answer.trace[2].score == 0.9
    assert answer.trace[3].score == pytest.approx(0.45)
    assert not answer.grounded
    assert answer.text == f"Not from your documents:\n\n{WRITTEN}"
    assert answer.metrics is not None
    assert answer.metrics.utility_ratings == (3.0,)


def test_grades_in_plain_words(server: Server) -> None:
    def plain(body: dict[str, Any]) -> str:
        text = sensible(body)
        return f"My answer: {json.loads(text)['answer']}." if text.startswith("{") else text

    server.reply = plain
    answer = run(server.self_rag())
    assert answer.grounded
    assert notes(answer) == []


def test_chinese_grades(server: Server) -> None:
    def chinese(body: dict[str, Any]) -> str:
        if "response_format" not in body:
            return "The tall lighthouse was built in 1871。"
        kind = body["response_format"]["json_schema"]["schema"]["properties"]["answer"]["enum"][0]
        lit = "1871" in body["messages"][0]["content"]
        relevant = "是" if lit else "不是，资料中没有：否"
        return {"信息": "信息", "是": relevant, "完全支持": "完全支持。", "1": "5分"}[kind]

    server.reply = chinese
    answer = run(server.self_rag(), "灯塔是哪一年建的？")
    assert answer.language == "zh"
    assert answer.grounded
    assert answer.metrics is not None
    assert answer.metrics.relevant_documents == 1
    assert notes(answer) == []


def test_a_server_that_knows_no_schemas_is_asked_in_the_other_form(server: Server) -> None:
    def refuse(body: dict[str, Any]) -> Respond | None:
        if body.get("response_format", {}).get("type") != "json_schema":
            return None
        return error(400, "unknown response_format")

    server.fault = refuse
    answer = run(server.self_rag())
    assert answer.grounded
    assert notes(answer) == []
    assert len(server.requests) == 7, "one refusal that is remembered, five grades, one answer"


# -- errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "code"), [*((at, 500) for at in range(6)), (DECISION, 429), (WRITE, 503)]
)
def test_one_failure_is_tried_again(server: Server, at: int, code: int) -> None:
    server.faults = {at: error(code)}
    answer = run(server.self_rag())
    assert answer.grounded
    assert notes(answer) == []


@pytest.mark.parametrize("code", [400, 401, 404, 422, 429, 500])
def test_lasting_failures_end_in_one_clear_error(server: Server, code: int) -> None:
    server.fault = lambda _: error(code)
    with pytest.raises(BackendError, match=str(code)):
        run(server.self_rag())


@pytest.mark.parametrize("at", [DECISION, RELEVANCE, WRITE, SUPPORT])
def test_a_refusal_in_the_middle_is_an_error(server: Server, at: int) -> None:
    rag = server.self_rag()
    server.faults = {n: error(401) for n in range(at, at + 9)}
    with pytest.raises(BackendError, match="401"):
        run(rag)
    assert len(server.requests) == at + 1


def test_a_prompt_too_long_for_the_server(server: Server) -> None:
    server.faults = {n: error(400, "exceeds the context length") for n in range(1, 9)}
    with pytest.raises(ContextOverflowError):
        run(server.self_rag())


def test_a_date_to_wait_for_without_a_zone(server: Server) -> None:
    server.faults = {0: error(429, Retry_After="Wed, 21 Oct 2015 07:28:00 -0000")}
    assert run(server.self_rag()).grounded


@pytest.mark.parametrize("at", [DECISION, RELEVANCE, WRITE, UTILITY])
def test_a_server_that_falls_silent_ends_the_run_in_time(server: Server, at: int) -> None:
    go_on = threading.Event()
    server.faults = {at: lambda _: go_on.wait(60) and None}
    with pytest.raises(BackendError, match=r"sent nothing for 0\.3 seconds"):
        run(server.self_rag(timeout=0.3))
    go_on.set()


def test_silence_in_the_middle_of_an_answer(server: Server) -> None:
    server.faults = {WRITE: events(delta("The lighthouse"), pause=1.5)}
    with pytest.raises(BackendError, match="sent nothing"):
        run(server.self_rag(timeout=0.3))


def test_a_trickle_that_never_ends_is_cut_by_the_budget(server: Server) -> None:
    piece = delta("The lighthouse was built in 1871. ")
    server.faults = {WRITE: events(*[piece] * 2000, pause=0.05)}
    began = time.perf_counter()
    answer = run(server.self_rag(budget=5.0))
    assert time.perf_counter() - began < 50  # of a hundred
    assert any(step.values.get("cut_short") for step in answer.trace)


MALFORMED = [
    b"",
    b"{",
    b"<html>",
    b"[]",
    b"{}",
    b"[" * 100_000,
    b'{"choices": []}',
    b'{"choices": [1]}',
    b'{"choices": [{}]}',
    b'{"choices": [{"message": null}]}',
    b'{"choices": [{"message": {"content": null}}]}',
    b'{"choices": [{"message": {"content": 5}}]}',
    b'{"error": {"message": "out of memory"}}',
    b"\xff\xfe\x00",
]


@pytest.mark.parametrize(
    ("data", "at"), [*((data, RELEVANCE) for data in MALFORMED), (b"{", WRITE), (b"<html>", WRITE)]
)
def test_malformed_json_is_one_clear_error(server: Server, data: bytes, at: int) -> None:
    server.faults = {at: body(data)}
    with pytest.raises(GenerationError, match=r"127\.0\.0\.1"):
        run(server.self_rag())


def test_a_huge_nested_error_page(server: Server) -> None:
    server.fault = lambda _: body(b"[" * 60_000, 400)
    with pytest.raises(BackendError, match="400"):
        run(server.self_rag())


def test_a_cut_reply(server: Server) -> None:
    def cut(exchange: Exchange) -> None:
        exchange.begin(Content_Type="application/json", Content_Length="1000")
        exchange.write(b'{"choices": [{"mess')
        exchange.close_connection = True

    server.faults = {SUPPORT: cut}
    with pytest.raises(BackendError, match="cut off"):
        run(server.self_rag())


@pytest.mark.parametrize("text", ["", "The light", WRITTEN])
def test_a_cut_stream_is_no_answer(server: Server, text: str) -> None:
    server.faults = {WRITE: events(delta(text) if text else b"", chunked=False)}
    with pytest.raises(BackendError, match="cut off"):
        run(server.self_rag())


def test_a_server_that_is_not_there(server: Server) -> None:
    server.url = "http://127.0.0.1:9/v1"
    with pytest.raises(BackendError, match="cannot be reached"):
        run(server.self_rag())


def test_closing_the_stream_hangs_up(server: Server) -> None:
    hung_up = threading.Event()

    def endless(exchange: Exchange) -> None:
        exchange.begin(Content_Type="text/event-stream")
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            if not exchange.write(delta("la ")):
                hung_up.set()
                return
            time.sleep(0.01)

    server.reply = lambda _: '{"answer": "chat"}'
    server.faults = {1: endless}
    stream = server.self_rag().stream("Hello?")
    assert any(isinstance(piece, Statement) for piece in stream)
    stream.close()  # type: ignore[attr-defined]
    assert hung_up.wait(60)
