"""What an evaluation came to, as one JSON object."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from localrag.evaluation.judging.calibration import MetricTrust, Trust
from localrag.evaluation.judging.judge import Judged
from localrag.evaluation.reports.advice import BadCase, bad_cases
from localrag.evaluation.runs import Difference, EvaluatedRun, Summary, differences
from localrag.evaluation.scoring import JUDGED, Scored


@dataclass(frozen=True, slots=True)
class Report:
    """All of an evaluation. `judge` "" where only metrics without a judge were wanted.

    `trust` None: the judge was not calibrated. `own_work`: runs whose answers the judge's own
    model wrote. `judge_seconds` is the model's time, paid now or in an earlier run.
    """

    dataset: str
    judge: str
    trust: Trust | None
    runs: tuple[EvaluatedRun, ...]
    own_work: tuple[str, ...] = ()
    judge_seconds: float = 0.0

    def untrusted(self) -> tuple[str, ...]:
        """Metrics of the runs on which the judge does not clearly beat chance."""
        if self.trust is None:
            return ()
        names = [summary.name for summary in self.runs[0].summaries()]
        return tuple(
            name
            for name in names
            if name in JUDGED and (found := self.trust.of(name)) and not found.trusted
        )


def report_json(report: Report) -> dict[str, Any]:
    """The report; `metrics` are those of the first run."""
    first = report.runs[0]
    return {
        "dataset": report.dataset,
        "questions": len(first.scored),
        "judge": report.judge or None,
        "judge_seconds": round(report.judge_seconds, 1),
        "calibration": _trust_json(report),
        "metrics": [summary_json(summary) for summary in first.summaries()],
        "runs": [_run_json(run, report.runs) for run in report.runs],
        "differences": [_difference_json(one) for one in differences(report.runs)],
        "wrote_the_answers_itself": list(report.own_work),
    }


def summary_json(summary: Summary) -> dict[str, Any]:
    """One metric of a run."""
    return {
        "name": summary.name,
        "mean": summary.mean,
        "interval": list(summary.interval) if summary.interval else None,
        "unreadable": summary.unreadable,
        "undefined": summary.undefined,
        "scored": summary.scored,
    }


def trust_json(trust: Trust) -> dict[str, Any]:
    """A calibration."""
    return {"judge": trust.judge, "metrics": [_metric_trust(one) for one in trust.metrics]}


def _trust_json(report: Report) -> dict[str, Any] | None:
    if report.trust is None:
        return None
    return trust_json(report.trust) | {"untrustworthy": list(report.untrusted())}


def _metric_trust(one: MetricTrust) -> dict[str, Any]:
    table: dict[str, Any] = {
        "name": one.metric,
        "items": one.items,
        "unreadable": one.unreadable,
        "accuracy": one.accuracy,
        "kappa": one.kappa,
        "kappa_interval": list(one.kappa_interval),
        "calibration_error": one.calibration_error,
        "accuracy_by_kind": one.by_kind,
        "trusted": one.trusted,
    }
    if one.ordering is not None and one.ordering_interval is not None:
        table |= {"ordering": one.ordering, "ordering_interval": list(one.ordering_interval)}
    return table


def _run_json(run: EvaluatedRun, runs: Sequence[EvaluatedRun]) -> dict[str, Any]:
    others = [other for other in runs if other is not run]
    return {
        "name": run.name,
        "metrics": [summary_json(summary) for summary in run.summaries()],
        "bad_cases": [_case_json(case) for case in bad_cases(run, others)],
        "questions": [_scored_json(scored) for scored in run.scored],
    }


def _difference_json(one: Difference) -> dict[str, Any]:
    return {
        "metric": one.metric,
        "better": one.better,
        "worse": one.worse,
        "mean": one.mean,
        "interval": list(one.interval),
        "questions": one.questions,
        "ranked": one.ranked,
    }


def _case_json(case: BadCase) -> dict[str, Any]:
    return {
        "id": case.scored.sample.id,
        "cause": case.cause,
        "tried": [
            {"run": t.run, "metric": t.metric, "before": t.before, "after": t.after}
            for t in case.trials
        ],
    }


def _scored_json(scored: Scored) -> dict[str, Any]:
    sample, response, evidence = scored.sample, scored.response, scored.evidence
    evasive = evidence.evasive
    return {
        "id": sample.id,
        "question": sample.question,
        "references": list(sample.references),
        "answerable": sample.answerable,
        "answer": response.answer,
        "refused": scored.refused,
        "seconds": response.seconds,
        "scores": {
            name: {"value": score.value, "state": score.state}
            for name, score in scored.scores.items()
        },
        "contexts": [
            {
                "text": context.text,
                "source": context.source,
                "first_page": context.first_page,
                "last_page": context.last_page,
            }
            for context in response.contexts or ()
        ],
        "statements": [_judged_json(one) for one in evidence.statements],
        "reference_statements": [_judged_json(one) for one in evidence.reference],
        "useful_contexts": [_verdict_json(one) for one in evidence.contexts],
        "citations": [_judged_json(one) for one in evidence.citations],
        "asked": [{"question": text, "cosine": cosine} for text, cosine in evidence.asked],
        "evasive": evasive.verdict if evasive else None,
    }


def _judged_json(one: Judged) -> dict[str, Any]:
    return {"text": one.text} | _verdict_json(one)


def _verdict_json(one: Judged) -> dict[str, Any]:
    finding = one.finding
    return {
        "verdict": finding.verdict,
        "probability": finding.probability,
        "reason": finding.reason,
    }
