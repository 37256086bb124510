"""Write the answer from its evidence, with citations."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial

from localrag.prompts import render
from localrag.rag.citations import CitedStream
from localrag.rag.faithfulness import Passages
from localrag.rag.pipeline import AnswerRun, Pieces
from localrag.rag.pointing import corrected, told_at_once
from localrag.rag.reading import Evidence
from localrag.rag.statements import uncited
from localrag.rag.verdicts import closest_sentences
from localrag.types import Statement, Step


def write(run: AnswerRun) -> Pieces:
    """Show an answer as it is written, unless something is to be removed from it.

    Raises `GenerationError` from the model.
    """
    if run.evidence is None:
        return
    evidence = run.evidence
    alone = evidence.keep > 0  # else the prompt shows all passages, with their numbers
    sources = run.attributor.only(evidence.numbers, alone=alone)
    citations = CitedStream(sources, run.question, render("refusal", run.language))
    marks_unsupported, begun = run.unsupported == "mark", False
    for piece in _answer_pieces(run, evidence, citations):
        if isinstance(piece, Statement):
            piece = piece if begun else replace(piece, text=piece.text.lstrip())
            begun = begun or bool(piece.text)
        if marks_unsupported or isinstance(piece, Step):
            yield piece
    if begun:
        run.statements = citations.statements
    elif not marks_unsupported:
        yield from uncited(citations.statements)


def _answer_pieces(run: AnswerRun, evidence: Evidence, citations: CitedStream) -> Pieces:
    started = time.perf_counter()
    options = replace(run.tools.generation, keep=evidence.keep)
    drafted = iter([evidence.draft]) if evidence.draft else None
    written = drafted or run.tools.llm.stream(evidence.messages, options)
    closest = partial(closest_sentences, run.attributor, evidence.numbers, run.question)
    states = Passages(run.question, run.passages, run.tools.tokenize).stands_in
    told = told_at_once(run.pointed)
    if told:
        yield from citations.feed(told)
        yield from citations.finish()
    pieces = corrected(
        written, run.pointed, closest, run.question, run.echo, states, at_once=bool(told)
    )
    for piece in pieces:
        yield from citations.feed(piece)
    yield from citations.finish()
    values = {"passages": len(evidence.numbers)}
    yield Step("write", values, None, time.perf_counter() - started)
    values = {
        "cited": len(citations.citations),
        "removed": len(citations.removed),
        "added": len(citations.added),
    }
    yield Step("check citations", values, None, 0.0)
