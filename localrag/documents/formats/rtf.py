"""Rich Text Format, read with striprtf: a paragraph is a line, a table's row is one."""

from __future__ import annotations

from localrag.documents.formats.sheets import row_text
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import Line, build, empty, squeeze
from localrag.errors import CorruptFileError
from localrag.text.normalize import clean
from localrag.types import Document


def read(file: SourceFile) -> Document:
    """Raises CorruptFileError, EmptyFileError if there is no text."""
    import striprtf.striprtf as striprtf

    try:
        text = str(
            striprtf.rtf_to_text(  # type: ignore[no-untyped-call]
                file.data.decode("latin-1"), encoding="cp1252", errors="replace"
            )
        )
    except (ValueError, LookupError, IndexError, KeyError, RecursionError) as error:
        raise CorruptFileError(
            "{source} is damaged ({reason}).",
            hint="Copy or download it again, or open it in its own program and save a new copy.",
            source=file.source,
            reason=f"{type(error).__name__}: {error}",
        ) from error
    lines = []
    for each in clean(text).split("\n"):
        line = row_text([squeeze(cell) for cell in each.split("|")]) if "|" in each else each
        if squeezed := squeeze(line):
            lines.append(Line(squeezed))
    if not lines:
        raise empty(file.source)
    return build(file, [lines], unit="text")
