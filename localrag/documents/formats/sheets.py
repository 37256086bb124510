"""Spreadsheets (xlsx, xlsm, xls, ods): a sheet is a page, a row is a line.

Files of Excel's and OpenDocument's XML are read by `xlsx` and `opendocument`, which know what a
sheet hides; the older binary one by calamine, which does not tell of hidden rows.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePath

from localrag.documents.formats import opendocument
from localrag.documents.formats.archive import ZipArchive, core_title, part_of
from localrag.documents.formats.cells import MOST_CELLS, Sheet, cell_text, repeat_merged, tables
from localrag.documents.formats.table import SourceFile, damaged, encrypted
from localrag.documents.formats.xlsx import Workbook
from localrag.documents.lines import Line, PageLines, build, hidden_notes, squeeze, table_lines
from localrag.documents.pictures import Pictures, stored
from localrag.text.normalize import clean
from localrag.types import Document, PageNote


def read(file: SourceFile) -> Document:
    """Raises what `ZipArchive` raises, EmptyFileError if no shown sheet has a value."""
    title, archive = "", None
    if file.data.startswith(b"PK"):
        archive = ZipArchive(file)
        main = part_of(archive.related(""), "officeDocument") or "xl/workbook.xml"
        if main.endswith(".xml") and main in archive:
            title = core_title(archive)
            hidden_too = file.options.hidden_text
            sheets = Workbook(archive, hidden_too, file.page_done, main).sheets()
        elif "content.xml" in archive:
            sheets = opendocument.sheets(archive, file)
        else:
            sheets = _calamine(file)
    else:
        sheets = _calamine(file)
    pages = []
    for sheet in sheets:
        pages.append(_page(sheet))
        file.page_done()
    if archive is not None and pages:
        pages[-1] = Pictures(file, archive).on(pages[-1], stored(archive, "xl/media/"))
    # Its first heading is the name of a tab, which often says no more than "Sheet1" or a year.
    return build(file, pages, clean(title) or clean(PurePath(file.source).stem), unit="sheet")


def _page(sheet: Sheet) -> PageLines:
    lines = []
    for table in sheet.tables:
        rows = table_lines([row for _, row in table], numbers=[number for number, _ in table])
        alone = len(table) == 1 and len(table[0][1]) == 1
        lines += [replace(rows[0], table=None)] if alone else rows
    lines += map(Line, sheet.remarks)
    notes = [note for what, n in sheet.hidden.items() for note in hidden_notes(n, what)]
    if sheet.formulas:
        notes.append(PageNote("left out", {"what": "formulas", "count": sheet.formulas}))
    if sheet.cut_short:
        notes.append(PageNote("cut short", {"limit": MOST_CELLS}))
    named = [Line(sheet.name, 1), *lines] if lines else []
    return PageLines(named, sheet.name, notes=tuple(notes))


def _calamine(file: SourceFile) -> Iterator[Sheet]:
    import python_calamine as calamine

    left = MOST_CELLS
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(file.data))
        for metadata in book.sheets_metadata:
            sheet = Sheet(squeeze(clean(metadata.name)))
            is_visible = metadata.visible == calamine.SheetVisibleEnum.Visible
            if not is_visible and not file.options.hidden_text:
                sheet.hidden["sheet"] = 1
            elif metadata.typ == calamine.SheetTypeEnum.WorkSheet:
                worksheet = book.get_sheet_by_name(metadata.name)
                rows: dict[int, dict[int, str]] = {}
                for number, row in enumerate(worksheet.iter_rows(), (worksheet.start or (0, 0))[0]):
                    texts = ((column, cell_text(cell)) for column, cell in enumerate(row))
                    if cells := {column: text for column, text in texts if text}:
                        rows[number] = cells
                        left -= len(cells)
                    if left < 0:
                        sheet.cut_short = True
                        break
                merged = worksheet.merged_cell_ranges or []
                # Its rows begin with the first that has a value, and so do its columns.
                first = (worksheet.start or (0, 0))[1]
                repeat_merged(
                    rows, [(a, max(0, b - first), c, d - first) for (a, b), (c, d) in merged]
                )
                sheet.tables = tables(rows)
            yield sheet
    except calamine.PasswordError as error:
        raise encrypted(file.source) from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise damaged(file.source, error) from error
