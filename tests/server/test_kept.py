"""Kept conversations over the server's own interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest
from answers import answer as answered
from library.library_fixtures import add, bytes_on_disk, document, open_library
from server.conftest import Served
from server.test_own import events

from localrag.library.catalogue.filters import Filter
from localrag.rag.parts import JoinedAnswer
from localrag.server import history
from localrag.server.answers import told_step
from localrag.types import Basis, Citation, Plain, ScoredChunk, Step, StepKind

HISTORY = "/api/history"
FOLLOW_UP = "And how many orchids does it have?"


@pytest.fixture
def http(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


def keep(http: httpx.Client) -> None:
    assert http.post(HISTORY, json={"on": True}).json() == {"on": True, "conversations": []}


def ask(http: httpx.Client, **fields: Any) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The answer, and what was told of its being kept."""
    parts: dict[str, Any] = dict(events(http, **fields))
    return parts["answer"], parts.get("kept")


def follow_up(
    served: Served, http: httpx.Client, before: dict[str, Any], conversation: str
) -> dict[str, Any] | None:
    served.llm.replies.append("How many orchids does the glass house have?")
    served.llm.pieces = ("It has two hundred orchids [1].",)
    turn = {"question": before["question"], "answer": before["answer"]}
    _, record = ask(http, question=FOLLOW_UP, history=[turn], conversation=conversation)
    return record


def test_nothing_is_kept_unless_it_is_wanted(served: Served, http: httpx.Client) -> None:
    _, record = ask(http)
    assert record is None
    assert http.get(HISTORY).json() == {"on": False, "conversations": []}
    http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "Elm?"}]})
    assert served.engine.library.conversations() == []


def test_a_refusal_goes_with_the_document_that_came_closest(
    served: Served, http: httpx.Client
) -> None:
    keep(http)
    served.llm.pieces = ("The documents do not contain the answer to this question.",)
    answer, record = ask(http, question="When was the glass hause opened?")
    assert record is not None
    (report,) = answer["not_found"]
    assert report["closest"]["quote"] == "The glass house was opened in 1907."
    assert report["closest"]["source"] == "garden.txt"
    assert [suggestion["question"] for suggestion in report["suggestions"]] == [
        "When was the glass house opened?"
    ]
    (turn,) = http.get(f"{HISTORY}/{record['conversation']}").json()["answers"]
    (again,) = turn["answer"]["not_found"]
    assert again["closest"] == report["closest"]
    assert again["reason"] == report["reason"]
    assert again["suggestions"] == [], "they are of that day, and may name other documents"
    garden = report["closest"]["view"]["document"]
    assert http.delete(f"/api/documents/{garden}").status_code == 200
    assert http.get(HISTORY).json()["conversations"] == []


def test_a_conversation_is_kept_opened_and_gone_on_with(served: Served, http: httpx.Client) -> None:
    keep(http)
    answer, record = ask(http)
    assert record is not None
    key = record["conversation"]
    assert follow_up(served, http, answer, key) == {"conversation": key, "reason": ""}
    (conversation,) = http.get(HISTORY).json()["conversations"]
    assert (conversation["key"], conversation["title"], conversation["answers"]) == (
        key,
        "When was the glass house opened?",
        2,
    )
    turns = http.get(f"{HISTORY}/{key}").json()["answers"]
    assert [turn["asked"] for turn in turns] == [conversation["title"], FOLLOW_UP]
    for name in ("answer", "question", "sentences", "views", "cited", "seconds", "grounded"):
        assert turns[0]["answer"][name] == answer[name]
    assert [citation["source"] for citation in turns[0]["answer"]["citations"]] == ["garden.txt"]
    assert [context["source"] for context in turns[0]["answer"]["contexts"]] == ["garden.txt"]
    chinese = http.get(f"{HISTORY}/{key}", headers={"accept-language": "zh-CN"}).json()
    assert chinese["answers"][0]["answer"]["cited"] == ["garden.txt，第 1 页"]
    assert http.get(f"{HISTORY}/0123456789abcdef").status_code == 404


def test_what_began_unkept_stays_unkept(served: Served, http: httpx.Client) -> None:
    answer, _ = ask(http)
    keep(http)
    assert follow_up(served, http, answer, "") == {"conversation": "", "reason": ""}
    assert http.get(HISTORY).json()["conversations"] == []


def test_it_goes_with_the_document_that_it_cites_and_stays_without_another(
    served: Served, http: httpx.Client
) -> None:
    keep(http)
    ask(http)
    tea, garden = (entry["id"] for entry in http.get("/api/documents").json()["documents"])
    # A reader of the answer before may still be there: it stays due then.
    library = served.engine.library
    assert http.delete(f"/api/documents/{tea}").json()["purged"] or library.purge()
    assert len(http.get(HISTORY).json()["conversations"]) == 1
    assert "茶园" not in bytes_on_disk(served.engine.library.directory).decode(errors="replace")
    assert http.delete(f"/api/documents/{garden}").json()["purged"] or library.purge()
    assert http.get(HISTORY).json()["conversations"] == []
    assert b"1907" not in bytes_on_disk(served.engine.library.directory)


def test_a_sentence_that_cites_nothing_may_rest_on_all_that_was_read(
    served: Served, http: httpx.Client
) -> None:
    keep(http)
    served.llm.pieces = ("It was opened in 1907 [1]. ", "Spring is when the tea is best.")
    ask(http)
    tea, _ = (entry["id"] for entry in http.get("/api/documents").json()["documents"])
    http.delete(f"/api/documents/{tea}")
    assert http.get(HISTORY).json()["conversations"] == []


def test_an_answer_in_parts_goes_with_what_was_read_for_a_sentence_that_cites_nothing(
    tmp_path: Path,
) -> None:
    with open_library(tmp_path) as library:
        library.keep_history(on=True)
        hits = []
        for name, text in (("agent", "The agent is Marsh."), ("end", "Zanzibar ended it in 2019.")):
            add(library, entry := document(text, source=f"/p/{name}.txt"))
            (chunk,) = library.document_chunks(entry.id)
            hits.append(ScoredChunk(chunk, 1.0, f"/p/{name}.txt"))
        citation = Citation(1, hits[0].chunk.id, "/p/agent.txt", 1, "The agent is Marsh.")
        part = answered(
            "The agent is Marsh [1]. Zanzibar ended it.", (citation,), contexts=tuple(hits)
        )
        joined = JoinedAnswer("Who is the agent, and until when?")
        joined.add("Who is the agent?", "Who is the agent?", part)
        answer = joined.finished()
        assert [hit.source for hit in answer.contexts] == ["/p/agent.txt"]
        assert history.keep(library, answer.question, answer, "en", "", 0)
        (conversation,) = library.conversations()
        (entry_kept,) = library.kept_answers(conversation.key)
        assert hits[1].chunk.document_id not in entry_kept.record
        library.remove(sources=["/p/end.txt"])
        assert library.conversations() == []
        assert b"Zanzibar" not in bytes_on_disk(tmp_path)


def test_what_the_documents_do_not_say_rests_on_none_of_them(
    served: Served, http: httpx.Client
) -> None:
    keep(http)
    missing = "The documents do not say: What does it cost?"
    served.llm.pieces = ("It was opened in 1907 [1].", f"\n\n{missing}")
    answer, _ = ask(http)
    assert answer["answer"].endswith(missing)
    tea, garden = (entry["id"] for entry in http.get("/api/documents").json()["documents"])
    http.delete(f"/api/documents/{tea}")
    assert len(http.get(HISTORY).json()["conversations"]) == 1
    http.delete(f"/api/documents/{garden}")
    assert http.get(HISTORY).json()["conversations"] == []


def test_a_figure_that_the_answer_does_not_cite_is_not_kept(
    served: Served, http: httpx.Client
) -> None:
    library = served.engine.library
    library.keep_history(on=True)
    step = Step("disagreement", {"passages": ("1", "2"), "figures": ("1907", "1912")}, None, 0.0)
    chunks = library.chunks(library.chunk_ids(Filter()).tolist())
    (chunk,) = (candidate for candidate in chunks.values() if "1907" in candidate.text)
    answer = answered(
        "It was opened in 1907 [1].",
        [Citation(1, chunk.id, "garden.txt", 1, "The glass house was opened in 1907.")],
        question="When?",
        contexts=(ScoredChunk(chunk, 1.0, "garden.txt"),),
        trace=(step,),
    )
    record = history.keep(library, "When?", answer, "en", "", 0)
    assert record is not None
    assert b"1912" not in bytes_on_disk(library.directory)
    (turn,) = http.get(f"{HISTORY}/{record['conversation']}").json()["answers"]
    assert turn["answer"]["steps"][-1]["said"] == "[1], [2]"


STEPS: dict[StepKind, dict[str, Plain]] = {
    "scope": {"all": True},
    "plan": {"files": ("Zwickel.csv",)},
    "columns": {"questions": ("Who pays?",)},
    "cell": {"file": "Zwickel.csv", "state": "found", "left": 2},
    "compute": {"sure": False, "sql": "tenant = 'Zwickel'", "doubt": "nothing"},
    "filter": {"allowed": 1, "total": 2},
    "private": {"left_out": 1},
    "expand": {"failed": "Zwickel is not there"},
    "parts": {"missing": ("Who pays?",)},
    "first asked": {"asked": "Who pays?", "name": "Zwickel"},
    "retrieve": {"passages": 2},
    "rerank": {"reranker": "bge", "kept": 1, "read": 2},
    "answerable": {"answer": True, "calibrated": True, "probability": 0.9, "part": 1},
    "write": {"passages": 1},
    "check citations": {"cited": 1, "removed": 0, "added": 0},
    "check sentences": {"checked": 1, "unchecked": 0, "unsupported": 0, "asked": 1},
    "disagreement": {"passages": ("1", "2"), "figures": ("1907", "Zwickel")},
    "retrieval decision": {"needed": True, "close": True},
    "relevance": {"passage": 1, "relevant": True, "calibrated": False, "lacks": ("pays",)},
    "draft": {"passage": 1},
    "says": {"passage": 1, "says": True},
    "decides": {"passage": 1, "decides": True},
    "point": {"passage": 1, "sure": True},
    "support of a sentence": {"rating": "no support"},
    "support": {"rating": "no support"},
    "utility": {"unread": True},
    "choose": {"answer": 1},
    "budget": {"skipped": "sentences", "count": 2},
    "instructions": {"left_out": 1},
    "cost": {"read": 1.5, "written": 0.5, "kept": 3.0, "least": 2.0, "most": 9.0, "budget": 30.0},
}


def test_a_conversation_keeps_no_words_of_documents_that_only_its_steps_have(
    served: Served, http: httpx.Client
) -> None:
    assert set(STEPS) == set(get_args(StepKind))
    library = served.engine.library
    library.keep_history(on=True)
    private = {"file", "files", "sql", "name", "figures", "failed"}
    trace = [Step(kind, {**values, "new": "Zwickel"}, 0.5, 0.0) for kind, values in STEPS.items()]
    answer = answered("It was opened in 1907.", trace=tuple(trace))
    entry = history.keep(library, "When?", answer, "en", "", 0)
    assert entry is not None
    assert b"Zwickel" not in bytes_on_disk(library.directory)
    (turn,) = http.get(f"{HISTORY}/{entry['conversation']}").json()["answers"]
    assert "Zwickel" not in str(turn)
    for step, record in zip(trace, turn["answer"]["steps"], strict=True):
        if step.values.keys() & private:
            assert record["said"]
        else:
            assert record == told_step(replace(step, values=STEPS[step.kind]), "en")


def test_what_is_deleted_is_gone(served: Served, http: httpx.Client) -> None:
    keep(http)
    _, record = ask(http)
    assert record is not None
    ask(http)
    assert http.delete(f"{HISTORY}/{record['conversation']}").json() == {"purged": True}
    assert len(http.get(HISTORY).json()["conversations"]) == 1
    assert http.post(HISTORY, json={"on": False}).json()["on"] is False
    assert http.delete(HISTORY).json() == {"purged": True}
    assert b"When was the glass" not in bytes_on_disk(served.engine.library.directory)


def test_a_record_that_is_none_of_ours_is_damage(served: Served, http: httpx.Client) -> None:
    library = served.engine.library
    library.keep_history(on=True)
    for number, record in enumerate(("{", "[" * 100_000, '{"question": 1}')):
        library.keep_answer(f"{number}", "asked", record, [], after=0)
        response = http.get(f"{HISTORY}/{number}")
        assert response.status_code == 500
        assert "catalogue" in response.json()["error"]["message"]


def altered(record: str, step: dict[str, Any]) -> str:
    """A kept answer with another step."""
    values = {"values": {}, "score": None, "seconds": 0.0}
    return json.dumps(json.loads(record) | {"trace": [values | step]})


def test_a_step_that_cannot_be_told_is_damage(served: Served, http: httpx.Client) -> None:
    library = served.engine.library
    library.keep_history(on=True)
    record = history._encode_answer(answered("It was opened in 1907."))
    note = {"kind": "index damaged", "values": {}}
    steps: list[dict[str, Any]] = [
        {"kind": "rerank"},
        {"kind": "columns", "values": {"questions": "x"}},
        {"kind": "cost", "values": {"most": "x", "least": 1}},
        {"kind": "disagreement", "values": {"passages": 1}},
        {"kind": "scope", "values": {"all": True}, "notes": [note]},
    ]
    for number, step in enumerate(steps):
        library.keep_answer(f"{number}", "asked", altered(record, step), [], after=0)
        reply = http.get(f"{HISTORY}/{number}")
        assert reply.status_code == 500
        assert "catalogue" in reply.json()["error"]["message"]
    for kind in get_args(StepKind):
        library.keep_answer(kind, "asked", altered(record, {"kind": kind}), [], after=0)
        response = http.get(f"{HISTORY}/{kind}")
        assert response.status_code == 200 or "catalogue" in response.json()["error"]["message"]


def test_what_no_model_wrote_is_kept_as_such_and_not_known_of_earlier_records() -> None:
    answer = answered("It was opened in 1907.")
    (statement,) = answer.statements
    record = history._encode_answer(
        replace(answer, statements=(replace(statement, copied=("1907",)),))
    )
    (kept,) = history._decode_answer(record).statements
    assert kept.copied == ("1907",)
    (earlier,) = history._decode_answer(record.replace(',"copied":["1907"]', "")).statements
    assert (earlier.text, earlier.copied) == (statement.text, None)


def test_an_answer_that_was_computed_goes_with_whatever_it_was_computed_from(
    tmp_path: Path,
) -> None:
    with open_library(tmp_path) as library:
        library.keep_history(on=True)
        texts = [document(f"name{number}", source=f"/p/{number}.csv") for number in range(2)]
        for text in texts:
            add(library, text)
        (chunk,) = library.document_chunks(texts[0].id)
        citation = Citation(1, chunk.id, "/p/0.csv", 1, "name0")
        answer = answered("name0 [1]", (citation,), contexts=(ScoredChunk(chunk, 1.0, "/p/0.csv"),))
        trace = (Step("plan", {"files": ("TRIED.csv",)}, 0.9, 0.1),)
        basis = Basis(("/p/0.csv", "/p/1.csv"), 2, 2, documents=tuple(entry.id for entry in texts))
        answer = replace(answer, trace=trace, basis=basis)
        assert history.keep(library, "Which names?", answer, "en", "", 0)
        assert b"TRIED.csv" not in bytes_on_disk(tmp_path)
        library.remove(sources=["/p/1.csv"])
        assert library.conversations() == []
    assert b"/p/1.csv" not in bytes_on_disk(tmp_path)
