"""The steps of `localrag eval run`: say how long, produce the answers, score them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from localrag.cli.output import note
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.config.settings import Settings
    from localrag.evaluation.dataset import Sample
    from localrag.evaluation.remembered import CallStore
    from localrag.evaluation.reports.report import Report
    from localrag.evaluation.runs import EvaluatedRun
    from localrag.evaluation.scoring import Response

PASSAGE_TOKENS = 190
"""Of the language model, in a passage of the default size."""


def say_estimate(
    samples: list[Sample],
    named: list[tuple[str, Settings]],
    judging: Settings | None,
    store: CallStore,
    *,
    reasons: bool,
) -> None:
    """How long it will take, by the model's speed on this machine, measured once."""
    from localrag.cli import eval_work as work
    from localrag.evaluation.estimate import Speed, estimate_seconds, measure_speed
    from localrag.evaluation.remembered import key_of

    measured = judging or named[0][1]
    key = key_of("speed", work.model_fingerprint(measured))
    known = store.get(key)
    if known is None:
        from localrag import factory

        model = factory.make_model(measured, factory.make_models())
        try:
            speed = measure_speed(model.llm)
        finally:
            model.close()
        store.put(key, [speed.reading, speed.writing], 0.0)
    else:
        speed = Speed(*known[0])
    seconds = sum(
        estimate_seconds(
            samples,
            speed,
            passages=settings.answer.k,
            passage_tokens=PASSAGE_TOKENS,
            graded=_graded(settings),
            judged=judging is not None,
            reasons=reasons,
        )
        for _, settings in named
    )
    note(
        tr(
            "{count} question(s), {runs} configuration(s): about {time}; what an earlier run has "
            "paid for is not done again.",
            count=len(samples),
            runs=len(named),
            time=work.duration(seconds),
        )
    )


def _graded(settings: Settings) -> int:
    """Passages of a question that the language model grades: to rerank them, or in Self-RAG."""
    from localrag.config.settings import LLMReranking

    reranked = settings.reranker.candidates if isinstance(settings.reranker, LLMReranking) else 0
    # What both grade is read once.
    return max(reranked, settings.answer.k if settings.answer.mode == "self-rag" else 0)


def produce(
    samples: list[Sample],
    named: list[tuple[str, Settings]],
    library: Path,
    documents: tuple[Path, ...],
    folder: Path,
    store: CallStore,
) -> list[tuple[str, list[Response]]]:
    """Answers of each configuration; one model is in memory at a time."""
    from localrag.cli import eval_work as work
    from localrag.evaluation.runs import answers

    complete = all(one.answer is not None and one.contexts is not None for one in samples)
    found: list[tuple[str, list[Response]]] = []
    for name, settings in named:
        with work.Progress(tr("Answers of {name}", name=name)) as progress:
            if complete:
                found.append((name, answers(samples, None, store, "", progress)))
                continue
            with work.open_pipeline(settings, library, documents, folder, store) as pipeline:
                identity = pipeline.identity()
                found.append((name, answers(samples, pipeline, store, identity, progress)))
    return found


def score(
    dataset: str,
    samples: list[Sample],
    responses: list[tuple[str, list[Response]]],
    metrics: list[str],
    judging: Settings | None,
    store: CallStore,
    folder: Path,
    *,
    reasons: bool,
    own_work: tuple[str, ...],
    library: Path,
) -> Report:
    """Every configuration's answers, scored by one judge, which is loaded once."""
    from localrag import factory
    from localrag.cli import eval_work as work
    from localrag.evaluation.judging.calibration import load_trust, trust_key
    from localrag.evaluation.judging.judge import Judge
    from localrag.evaluation.reports.report import Report
    from localrag.evaluation.runs import evaluate
    from localrag.evaluation.scoring import Scorer

    def scored(scorer: Scorer, workers: int) -> tuple[EvaluatedRun, ...]:
        runs = []
        for name, given in responses:
            with work.Progress(tr("Scores of {name}", name=name)) as progress:
                runs.append(evaluate(name, samples, given, scorer, progress, workers=workers))
        return tuple(runs)

    if judging is None:
        return Report(dataset, "", None, scored(Scorer(None, None, metrics), 1))
    embedder = factory.make_embedder(judging, factory.make_models())
    withheld = work.withheld_from(judging, library)
    pairs = [pair for _, given in responses for pair in zip(samples, given, strict=True)]
    count = sum(withheld(*pair) for pair in pairs)
    if count:
        note(
            tr(
                "{count} answers are not judged: their passages are of private documents, or of "
                "unknown origin, and the judge is on another machine.",
                count=count,
            )
        )
    with work.open_judge(judging, store) as opened:
        trust = load_trust(trust_key(opened.fingerprint, embedder.fingerprint), folder)
        judge = Judge(opened.model, opened.model.chooser, reasons=reasons)
        runs = scored(Scorer(judge, embedder, metrics, withheld), opened.workers)
        return Report(
            dataset=dataset,
            judge=opened.model.name,
            trust=trust,
            runs=runs,
            own_work=own_work,
            judge_seconds=opened.model.seconds,
        )


def own_work(
    named: list[tuple[str, Settings]], judging: Settings | None, samples: list[Sample]
) -> tuple[str, ...]:
    """The configurations whose answers were written by the model that judges them."""
    from localrag.cli.eval_work import model_fingerprint

    if judging is None or all(sample.answer is not None for sample in samples):
        return ()
    judge = model_fingerprint(judging)
    return tuple(name for name, settings in named if model_fingerprint(settings) == judge)
