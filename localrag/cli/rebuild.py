"""`localrag rebuild`: derived files anew, or all that settings or this version do otherwise."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.embedding import embedding_option
from localrag.cli.jobs import expect_queue, put, queue_options
from localrag.cli.output import UNREAD, common_options, emit_json, note, note_list, note_tr, say_tr
from localrag.messages import spoken, tr

if TYPE_CHECKING:
    from localrag.indexing.events import AddReport
    from localrag.library.location import Location
    from localrag.models.registry.advice import Advice


@click.command(
    help=tr(
        "Rebuild the search indexes; after a change of embedding model or chunking, split "
        "and embed every document again from the text in the library. Documents that an older "
        "version has read are read again where their files are still there. Exit code 3 if some "
        "could not be."
    )
)
@embedding_option(tr("Switch to this embedding model: its name or a preset (english)."))
@queue_options(tr("Let a server of this library in a database do it, with its settings."))
@common_options
def rebuild(
    embedding: str | None, queue: bool, user: str, library: Location, as_json: bool
) -> None:
    """Rebuild and report."""
    if queue:
        put(library, "rebuild", user=user, embedding=embedding, as_json=as_json)
        return
    expect_queue(user)
    from localrag.api import LocalRAG
    from localrag.cli.embedding import settings_with
    from localrag.cli.progress import Bars, say_waiting

    started = time.monotonic()
    settings = settings_with(embedding)
    with LocalRAG.open(library, settings=settings, create=False) as rag, Bars() as bars:
        report = rag.rebuild(bars.tell, on_wait=say_waiting)
        status = rag.status()
        advice = rag.embedding_advice() if embedding else None
    values = {
        "documents": len(report.committed),
        "embedding": status.embedding.name,
        "chunks": status.counts.chunks,
        "seconds": round(time.monotonic() - started, 3),
    }
    if as_json:
        from localrag.presentation.records import picked

        emit_json(
            values
            | {
                "read_again": [
                    picked(e, "source", "chunks", "embedded") for e in report.read_again
                ],
                "kept": list(report.kept),
                "failed": [{"source": e.source, "reason": spoken(e.error)} for e in report.failed],
            }
        )
    else:
        _print(report, values, embedding, advice)
    if report.failed:
        raise click.exceptions.Exit(UNREAD)


def _print(
    report: AddReport, values: Mapping[str, Any], embedding: str | None, advice: Advice | None
) -> None:
    from localrag.models.registry.spec import catalogue
    from localrag.presentation.advice import advice_text

    if report.read_again:
        say_tr(
            "{documents} documents read again; {embedded} of their {chunks} passages changed "
            "and were embedded.",
            documents=len(report.read_again),
            embedded=sum(document.embedded for document in report.read_again),
            chunks=sum(document.chunks for document in report.read_again),
        )
    if report.committed:
        say_tr(
            "{documents} documents split and embedded again with {embedding}, {chunks} "
            "passages; {seconds:.1f} s.",
            **values,
        )
    else:
        say_tr("Indexes rebuilt over {chunks} passages; {seconds:.1f} s.", **values)
    if advice is not None and advice.kind == "unserved":
        note(advice_text(advice))
    if embedding and (reranker := catalogue().of_task(embedding, "reranker")) != embedding:
        note_tr(
            "The preset also has a reranker, {model}, which takes a second or more a question: "
            "localrag search --rerank cross-encoder",
            model=reranker,
        )
    note_list(
        tr(
            "These were read by an older version, and their files are gone or have changed; they "
            "stay as they are:"
        ),
        report.kept,
    )
    note_list(
        tr("These could not be read again and stay as they are:"),
        [spoken(failure.error) for failure in report.failed],
    )
