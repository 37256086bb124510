"""Keys of JSON and their order, which people's programs read."""

from __future__ import annotations

import json
from dataclasses import replace

from answers import answer
from evaluation.mode_answers import compared, comparison, self_rag, standard

from localrag.evaluation.comparisons.base import (
    Compared,
    ComparedQuestion,
    Comparison,
    Output,
    Ranked,
)
from localrag.evaluation.comparisons.rerankers import Graded
from localrag.evaluation.dataset import Context, Sample
from localrag.evaluation.judging.calibration import MetricTrust, Trust
from localrag.evaluation.judging.judgements import Judged, Judgement
from localrag.evaluation.metric import JudgeEvidence, Response, Score
from localrag.evaluation.results import EvaluatedRun, Report
from localrag.evaluation.scoring import Scored
from localrag.presentation.comparisons import of_modes, of_rerankers
from localrag.presentation.records import plain
from localrag.presentation.reports import report_json, trust_json
from localrag.types import (
    Chunk,
    Citation,
    LegRank,
    NotFound,
    Place,
    ScoredChunk,
    Step,
    Suggestion,
)

HIT = [
    *("source", "page", "last_page", "place", "heading", "score", "text", "columns", "ranks"),
    "chunk_id",
]
ANSWER = [
    *("question", "answer", "language", "grounded", "citations", "contexts", "trace", "seconds"),
    *("support", "unchecked", "metrics", "left_out", "not_found", "basis"),
]
TRY = Suggestion("Tea?", "without", "2031")
FINDING = ["verdict", "probability", "reason"]
FOUND = ScoredChunk(
    Chunk(7, "d", 0, "Tea.", "Hills", 2, 3, 0, 4), 0.5, "tea.md", (LegRank("dense", 1, 0.9),)
)


def test_an_answer() -> None:
    step = Step("retrieve", {"passages": 1}, None, 0.12345)
    citations = (Citation(1, 7, "tea.md", 2, "Tea.", Place(40, "sheet", 2, "Sales", row=12)),)
    record = plain(answer("Tea. [1]", citations, contexts=(FOUND,), trace=(step,), seconds=1.23456))
    assert list(record) == ANSWER
    assert list(record["contexts"][0]) == HIT
    assert record["contexts"][0]["ranks"] == {"dense": {"rank": 1, "score": 0.9}}
    place = {"start": 40, "unit": "sheet", "number": 2, "label": "Sales", "row": 12}
    place |= {"heading": "", "paragraph": None}
    assert record["citations"] == [
        {"marker": 1, "source": "tea.md", "page": 2, "place": place, "quote": "Tea."}
    ]
    assert record["contexts"][0]["place"] is None
    assert record["trace"] == [
        {
            "name": "retrieve",
            "decision": "1 passage",
            "values": {"passages": 1},
            "score": None,
            "seconds": 0.123,
        }
    ]
    assert record["seconds"] == 1.235
    assert record["not_found"] == []
    missing = NotFound("q", ("tea", "2031"), citations[0], ("2031",), ("2031",), None, (TRY,))
    (entry,) = plain(replace(self_rag("Tea."), not_found=(missing,)))["not_found"]
    assert entry == {
        "question": "q",
        "looked_for": ["tea", "2031"],
        "closest": {"source": "tea.md", "page": 2, "place": place, "quote": "Tea."},
        "missing": ["2031"],
        "absent": ["2031"],
        "probability": None,
        "reason": "None of the passages found contains “2031”.",
        "suggestions": [{"question": "Tea?", "kind": "without", "word": "2031", "instead": ""}],
    }
    self_rag_record = plain(self_rag("Tea."))
    assert list(self_rag_record["support"][0]) == ["text", "rating", "share"]
    assert list(self_rag_record["metrics"]) == [
        *("retrieval_needed", "documents_retrieved", "relevant_documents"),
        *("response_support_ratings", "utility_ratings", "best_score", "used_retrieval"),
    ]


def test_a_comparison_of_rerankers() -> None:
    tea = answer("Tea.", contexts=(FOUND,))
    step = Step("rerank", {"reranker": "llm", "kept": 1, "read": 4}, None, 0.25)
    way = Output("llm", tea, 1.5, (Ranked(FOUND, 4),), step, "none")
    grade = Graded("llm", None, 0.5, None, 0.25)
    question = Compared(ComparedQuestion("q", "Tea."), "en", (way,), (grade,), 0.5, (FOUND,), 0.125)
    record = of_rerankers(Comparison(("llm",), "small", 1, (question,))).record()
    assert list(record) == [
        *("question", "language", "reference", "search_seconds", "candidates", "ways", "grades"),
        *("verdict", "verdict_seconds"),
    ]
    (way_record,) = record["ways"]
    assert list(way_record["passages"][0]) == ["rank", "rank_before", *HIT]
    assert (way_record["passages"][0]["rank"], way_record["passages"][0]["rank_before"]) == (1, 4)
    assert {
        key: value for key, value in way_record.items() if key not in ("passages", "answer")
    } == {
        "name": "llm",
        "rerank_seconds": 0.25,
        "answer_seconds": 1.5,
        "remark": "llm: 1 of 4 passages",
        "same_answer_as": "none",
    }
    assert list(way_record) == [
        *("name", "passages", "answer", "rerank_seconds", "answer_seconds", "remark"),
        "same_answer_as",
    ]
    assert record["grades"] == [
        {"name": "llm", "rank": None, "agrees": 0.5, "complete": None, "overlap": 0.25}
    ]
    assert record["verdict"].count("\n") == 4


def test_a_comparison_of_modes() -> None:
    question = compared(standard("Two."), self_rag("Three."), 0.9, 0.1, 0.5, None, answerable=True)
    record = of_modes(comparison(question)).record()
    assert list(record) == [
        *("modes", "judge", "asked", "done", "questions", "facts", "analysis_language"),
        "analysis",
    ]
    (question_record,) = record["questions"]
    assert list(question_record) == [
        *("question", "language", "reference", "answerable", "answers", "verdicts", "better"),
        "judge_seconds",
    ]
    assert list(question_record["answers"]) == ["standard", "self-rag"]
    assert list(question_record["answers"]["standard"]) == [*ANSWER, "outcome"]
    assert [list(verdict) for verdict in question_record["verdicts"]] == [
        ["criterion", "better", "probabilities", "basis"]
    ] * 4
    assert question_record["verdicts"][3]["better"] is None
    facts = record["facts"]
    assert list(facts) == [
        *("overall", "criteria", "unread", "kinds", "ways", "decisions", "better", "reasons")
    ]
    assert list(facts["ways"][0]) == ["seconds", "outcomes", "answerable", "unanswerable", "f1"]
    assert facts["ways"][0]["answerable"] == {
        "refused": 0,
        "without documents": 0,
        "from documents": 1,
    }
    assert list(facts["decisions"]) == [
        *("not_needed", "not_needed_wrongly", "passages", "relevant", "none_relevant"),
        *("none_relevant_rightly", "none_relevant_wrongly", "candidates", "rejected"),
        *("sentences", "unsupported", "check_share"),
    ]
    # True is 1 in Python, and no number in JSON.
    assert "true" not in json.dumps(facts)
    assert "false" not in json.dumps(facts)
    assert list(record["analysis"][0]) == ["heading", "lines"]


def test_a_report_and_its_calibration() -> None:
    by_kind = {"right": 1.0}
    plainly = MetricTrust("faithfulness", 9, 1, 0.9, 0.8, (0.5, 0.9), None, by_kind)
    ordered = MetricTrust(
        "answer_relevancy", 9, 0, 0.9, 0.8, (0.5, 0.9), 0.1, by_kind, 0.7, (0.5, 0.8)
    )
    trust = Trust("small", "key", (plainly, ordered))
    keys = [
        *("name", "items", "unreadable", "accuracy", "kappa", "kappa_interval"),
        *("calibration_error", "accuracy_by_kind", "trusted"),
    ]
    trust_record = trust_json(trust)
    assert list(trust_record) == ["judge", "metrics"]
    assert [list(metric) for metric in trust_record["metrics"]] == [
        keys,
        [*keys, "ordering", "ordering_interval"],
    ]
    judgements = (Judged("Tea.", Judgement(True, 0.9, "so")),)
    scored_answer = Scored(
        Sample("1", "q", references=("Tea.",), answerable=True),
        Response("No.", (Context("Tea.", "tea.md", 1, 1),), 2.0),
        {"f1": Score(0.1, "scored"), "refusal": Score(0.0, "scored")},
        JudgeEvidence(
            judgements,
            judgements,
            judgements,
            judgements,
            asked=(("who?", 0.5),),
            evasive=Judgement(False),
        ),
        True,
    )
    runs = (EvaluatedRun("a", (scored_answer,)), EvaluatedRun("b", (scored_answer,)))
    report_record = report_json(Report("set", "small", trust, runs, ("a",), 1.25))
    assert list(report_record) == [
        *("dataset", "questions", "judge", "judge_seconds", "calibration", "metrics", "runs"),
        *("differences", "wrote_the_answers_itself"),
    ]
    assert list(report_record["calibration"]) == ["judge", "metrics", "untrustworthy"]
    assert list(report_record["metrics"][0]) == [
        *("name", "mean", "interval", "unreadable", "undefined", "scored")
    ]
    run = report_record["runs"][0]
    assert list(run) == ["name", "metrics", "bad_cases", "questions"]
    assert run["bad_cases"] == [
        {
            "id": "1",
            "cause": "refused",
            "tried": [{"run": "b", "metric": "refusal", "before": 0.0, "after": 0.0}],
        }
    ]
    (question,) = run["questions"]
    assert list(question) == [
        *("id", "question", "references", "answerable", "answer", "refused", "seconds", "scores"),
        *("contexts", "statements", "reference_statements", "useful_contexts", "citations"),
        *("asked", "evasive"),
    ]
    assert question["scores"]["f1"] == {"value": 0.1, "state": "scored"}
    assert list(question["contexts"][0]) == ["text", "source", "first_page", "last_page"]
    assert list(question["statements"][0]) == ["text", *FINDING]
    assert list(question["useful_contexts"][0]) == FINDING
    assert question["asked"] == [{"question": "who?", "cosine": 0.5}]
    assert question["evasive"] is False
    assert list(report_record["differences"][0]) == [
        *("metric", "better", "worse", "mean", "interval", "questions", "ranked")
    ]
