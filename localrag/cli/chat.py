"""`localrag chat`: questions one after the other; a follow-up is understood in context."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from localrag.cli.output import any_library_option, emit_json, json_option, note_tr, server_option
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(help=tr("Ask a series of questions; follow-ups are understood."))
@click.option("--explain", is_flag=True, help=tr("Show every step, its decision and its time."))
@any_library_option
@server_option
@json_option
def chat(explain: bool, library: Location, as_json: bool, server: bool) -> None:
    """Read questions until the end of input; with `--json`, one object for each."""
    from localrag.cli.ask import print_answer
    from localrag.cli.served import answering
    from localrag.presentation.records import plain
    from localrag.rag.conversation import Turn

    with answering(library, server=server) as rag:
        history: tuple[Turn, ...] = ()
        note_tr("Ask away; an empty line or Ctrl-D exits.")
        while question := _read():
            searched = rag.standalone(question, history)
            if searched != question:
                note_tr("Understood as: {question}", question=searched)
            if as_json:
                answer = rag.ask(searched)
                emit_json({"asked": question, **plain(answer)})
            else:
                answer = print_answer(rag, searched, {}, explain=explain)
            history = (*history, Turn(searched, answer.text))


def _read() -> str:
    # readline gives arrow keys and history where Python was built with it.
    import contextlib

    with contextlib.suppress(ImportError):
        import readline  # noqa: F401
    try:
        return input("> ").strip()
    except EOFError:
        return ""
