"""Pages of one file: no other file, no script, no address outside.

Everything that comes from documents, models or the command line is text here and never markup,
and what is not seen is shown as `printable` shows it; the pages' own policy forbids scripts and
requests besides.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from localrag.documents.formats.table import shown_name
from localrag.messages import INTERFACES, interface_language, tr
from localrag.presentation.places import cited_as
from localrag.printable import as_text


def render(template: str, /, **values: object) -> str:
    """The page as HTML, in the language of the interface."""
    language = INTERFACES[interface_language()].tag
    return _environment().get_template(template).render(values, language=language)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_escape_unseen,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["tr"] = tr
    environment.filters["file_name"] = shown_name
    environment.filters["cited_as"] = cited_as
    return environment


def _escape_unseen(value: object) -> object:
    """What an expression leaves to be escaped: markup of our own is escaped already."""
    return value if hasattr(value, "__html__") else as_text(value)
