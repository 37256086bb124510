"""Spreadsheets (xlsx, xlsm, xls, ods), read with calamine: a sheet is a page, a row is a line."""

from __future__ import annotations

import datetime
import io
from itertools import count

from localrag.documents.formats.archive import Archive
from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import CELL_BREAK, Line, PageLines, build, squeeze, table_lines
from localrag.errors import CorruptFileError, EncryptedFileError
from localrag.text.normalize import clean
from localrag.types import Document


def read(file: SourceFile) -> Document:
    """Raises what `Archive` raises, EmptyFileError if no shown sheet has a value."""
    import python_calamine as calamine

    if file.data.startswith(b"PK"):
        Archive(file)
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.data))
        shown = [
            each.name
            for each in book.sheets_metadata
            if file.options.hidden_text or each.visible == calamine.SheetVisibleEnum.Visible
        ]
        pages: list[PageLines] = []
        for name in shown:
            sheet = book.get_sheet_by_name(name)
            rows = sheet.to_python(skip_empty_area=True)
            numbers = count((sheet.start or (0, 0))[0])
            lines = table_lines(([cell_text(cell) for cell in row] for row in rows), 1, numbers)
            label = squeeze(clean(name))
            pages.append(PageLines([Line(label, 1), *lines] if lines else [], label))
            file.page_done()
    except calamine.PasswordError as error:
        raise EncryptedFileError(
            "{source} is password-protected, so its text cannot be read.",
            hint="Open it in its own program, remove the password and add the new file.",
            source=file.source,
        ) from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise CorruptFileError(
            "{source} is damaged ({reason}).",
            hint="Copy or download it again, or open it in its own program and save a new copy.",
            source=file.source,
            reason=f"{type(error).__name__}: {error}",
        ) from error
    hidden = len(book.sheets_metadata) - len(shown)
    return build(file, pages, "", {"hidden_text": "1"} if hidden else {}, "sheet")


def cell_text(value: object) -> str:
    """A cell as a reader of the sheet sees it: whole numbers without a point, dates as ISO."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime):
        return value.strftime(
            "%Y-%m-%d" if value.time() == datetime.time() else "%Y-%m-%d %H:%M:%S"
        )
    return squeeze(clean(str(value)).replace("\n", " "))


def row_text(cells: list[str]) -> str:
    """A row on one line; empty cells hold their place, those at the end do not."""
    while cells and not cells[-1]:
        cells.pop()
    return CELL_BREAK.join(cells) if any(cells) else ""
