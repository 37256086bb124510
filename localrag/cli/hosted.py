"""What a person is shown and asked before something goes to a model on another machine."""

from __future__ import annotations

import sys
from textwrap import indent
from typing import TYPE_CHECKING

from localrag.cli.output import note, note_tr, say_text
from localrag.documents.formats.table import shown_name
from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.egress.consent import Excerpt, Preview

SHOWN = 20
"""Passages that are named; of more, only the number is said."""


def begin(command: str, *, yes: bool, texts: bool) -> None:
    """Set who is asked in this run; `yes`: nobody; `texts`: whole messages are shown each time."""
    from localrag.egress import consent

    def show(preview: Preview, first: bool) -> None:
        if first:
            _show_summary(preview)
        if texts:
            _show_texts(preview)

    prompt = (lambda _: True) if yes else _ask if _interactive() else None
    consent.begin(command, ask=prompt, show=show)


def _interactive() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _ask(_: Preview) -> bool:
    # A line of its own: a progress view would hold back a prompt until its line ends.
    note_tr("Send this, and what this run has to send after it? [y/N]")
    reply = sys.stdin.readline().strip().casefold()
    return reply in ("y", "yes", "是", "好")


def _show_summary(preview: Preview) -> None:
    note_tr("To be sent to {model} at {server}, which is not this machine:", **_names(preview))
    if not preview.encrypted:
        note_tr("  unencrypted: anyone along the way can read it")
    note_tr(
        "  {characters} characters: instructions, your question, and {count} passages",
        characters=preview.characters,
        count=len(preview.passages),
    )
    for passage in preview.passages[:SHOWN]:
        note(_line(passage))
    if len(preview.passages) > SHOWN:
        note("  …")
    if preview.redactions:
        note_tr("  redacted by your patterns: {count} places", count=preview.redactions)
    if preview.withheld is not None:
        note_tr("  never sent: {count} passages of private documents", count=preview.withheld)
    note_tr("Later calls of this run may send other passages found for your questions.")


def _line(passage: Excerpt) -> str:
    return tr(
        "  - {name}, p. {page}, {characters} characters"
        if passage.first_page == passage.last_page
        else "  - {name}, pp. {first}-{last}, {characters} characters",
        name=shown_name(passage.source),
        page=passage.first_page,
        first=passage.first_page,
        last=passage.last_page,
        characters=len(passage.text),
    )


def _show_texts(preview: Preview) -> None:
    note_tr("Sent to {model} at {server}:", **_names(preview))
    for message in preview.messages:
        note(f"--- {message.role}")
        say_text(indent(message.content, "    "), err=True)  # no line of it passes for ours
    note("---")


def _names(preview: Preview) -> dict[str, str]:
    return {"model": preview.model, "server": preview.server}
