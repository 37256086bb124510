"""`localrag compare --modes`: the run with its progress, and the result as text and JSON."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from localrag.cli.output import Item, emit_json, note, note_rebuilding, stdout_console
from localrag.messages import tr
from localrag.printable import as_name

if TYPE_CHECKING:
    from rich.console import Console

    from localrag.api import LocalRAG
    from localrag.evaluation.comparisons.modes import Asked, Compared, ModeComparison, Stage
    from localrag.evaluation.comparisons.modes_judge import Verdict
    from localrag.types import Answer


def run(
    library: Path,
    questions: Sequence[Asked],
    modes: tuple[str, str],
    *,
    k: int | None,
    page: Path | None,
    as_json: bool,
) -> None:
    """Compare, then show what was done, also where the run was stopped or failed on the way."""
    from localrag.api import LocalRAG
    from localrag.errors import LocalragError
    from localrag.evaluation.comparisons.modes import ModeComparison

    done: list[Compared] = []
    stopped: BaseException | None = None
    with LocalRAG.open(library, create=False, on_note=note, on_damage=note_rebuilding) as rag:
        try:
            _collect(rag, questions, modes, done, k)
        except (KeyboardInterrupt, LocalragError) as error:
            if not done:
                raise
            stopped = error
        judge = rag.model.llm.name
    comparison = ModeComparison(modes, judge, len(questions), tuple(done))
    if page:
        from localrag.cli.compare import write_page
        from localrag.evaluation.comparisons.modes_page import render_modes_page

        write_page(page, render_modes_page(comparison))
    if as_json:
        emit_json(comparison_json(comparison))
    elif not page:
        _print(stdout_console(), comparison)
    if stopped is not None:
        raise stopped


def _collect(
    rag: LocalRAG,
    questions: Sequence[Asked],
    modes: tuple[str, str],
    done: list[Compared],
    k: int | None,
) -> None:
    from localrag.cli.eval_work import duration
    from localrag.evaluation.comparisons.modes import JUDGE
    from localrag.evaluation.comparisons.modes_analysis import mode_name

    def tell(stage: Stage) -> None:
        name = tr("judging") if stage.name == JUDGE else mode_name(stage.name)
        note(
            tr(
                "question {number} of {all}: {name} …",
                number=stage.number,
                all=len(questions),
                name=name,
            )
        )

    note(tr("Reading …"))
    with closing(rag.compare_modes(questions, modes, tell, k=k)) as comparing:  # type: ignore[type-var]
        started = time.monotonic()
        for compared in comparing:
            done.append(compared)
            if len(done) < len(questions):
                left = (time.monotonic() - started) / len(done) * (len(questions) - len(done))
                note(
                    tr(
                        "{done} of {asked} questions, {time} left",
                        done=len(done),
                        asked=len(questions),
                        time=duration(left),
                    )
                )


def comparison_json(comparison: ModeComparison) -> dict[str, Any]:
    """A comparison of modes as JSON."""
    from localrag.evaluation.comparisons.modes import SELF_RAG
    from localrag.evaluation.comparisons.modes_analysis import analysis
    from localrag.evaluation.comparisons.modes_facts import gather

    modes = comparison.modes
    return {
        "modes": list(modes),
        "judge": comparison.judge,
        "asked": comparison.asked,
        "done": len(comparison.questions),
        "questions": [_question_json(one, modes) for one in comparison.questions],
        "facts": asdict(gather(comparison, modes.index(SELF_RAG))),
        "analysis_language": comparison.language,
        "analysis": [asdict(section) for section in analysis(comparison)],
    }


def _question_json(one: Compared, modes: tuple[str, str]) -> dict[str, Any]:
    from localrag.cli.render import answer_json
    from localrag.evaluation.comparisons.modes_facts import better_way

    better = better_way(one)
    return {
        "question": one.asked.question,
        "language": one.language,
        "reference": one.asked.reference,
        "answerable": one.asked.answerable,
        "answers": {
            mode: answer_json(one.answers[way]) | {"outcome": one.outcome(way)}
            for way, mode in enumerate(modes)
        },
        "verdicts": [_verdict_json(verdict, modes) for verdict in one.verdicts],
        "better": "equal" if better is None else modes[better],
        "judge_seconds": round(one.judge_seconds, 3),
    }


def _verdict_json(verdict: Verdict, modes: tuple[str, str]) -> dict[str, Any]:
    chances = None
    if verdict.probability is not None:
        first = verdict.probability
        chances = {modes[0]: round(first, 3), modes[1]: round(1 - first, 3)}
    better = "equal" if verdict.better is None else modes[verdict.better]
    return {
        "criterion": verdict.criterion,
        "better": better if chances else None,
        "probabilities": chances,
        "basis": verdict.basis,
    }


def _print(console: Console, comparison: ModeComparison) -> None:
    from rich.text import Text

    from localrag.evaluation.comparisons.modes_analysis import analysis

    for number, one in enumerate(comparison.questions, start=1):
        _print_question(console, number, one, comparison.modes)
    console.print()
    for section in analysis(comparison):
        console.print(Text(section.heading, style="bold"))
        for line in section.lines:
            console.print(Text("  " + line))


def _print_question(console: Console, number: int, one: Compared, modes: tuple[str, str]) -> None:
    from rich.table import Table
    from rich.text import Text

    from localrag.evaluation.comparisons.modes_analysis import (
        basis_name,
        capitalised,
        criterion_name,
        verdict_line,
    )

    console.print()
    console.print(Text(f"{number}. {as_name(one.asked.question)}", style="bold"))
    if one.asked.reference:
        label = tr("Reference answer")
        console.print(Text(f"{label}: {as_name(one.asked.reference)}", style="dim"))
    for way, mode in enumerate(modes):
        _print_answer(console, mode, one, way)
    table = Table(box=None, header_style="dim", pad_edge=False, show_edge=False)
    for heading in (tr("Criterion"), tr("Better"), tr("By")):
        table.add_column(heading)
    for verdict in one.verdicts:
        cells = capitalised(criterion_name(verdict.criterion)), verdict_line(verdict, modes)
        table.add_row(*(Text(cell) for cell in (*cells, basis_name(verdict.basis))))
    console.print(table)


def _print_answer(console: Console, mode: str, one: Compared, way: int) -> None:
    from rich.text import Text

    from localrag.cli.render import marked_text
    from localrag.evaluation.comparisons.modes_analysis import (
        capitalised,
        decisions_line,
        mode_name,
        outcome_name,
    )

    answer: Answer = one.answers[way]
    about = tr("{seconds:.1f} s", seconds=answer.seconds)
    title = Text(capitalised(mode_name(mode)), style="bold cyan")
    console.print(title.append(f"  {about} · {outcome_name(one.outcome(way))}", style="dim"))
    text = marked_text(answer) if answer.support else answer.text
    console.print(Text(text))
    for citation in answer.citations:
        place = tr("{name}, p. {page}", name=PurePath(citation.source).name, page=citation.page)
        console.print(Item(Text(f"[{citation.marker}] {place}", style="cyan")))
    if line := decisions_line(answer):
        console.print(Text(line, style="dim"))
