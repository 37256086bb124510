"""Pictures of text (png, jpg, tiff, webp, bmp, gif): read by recognition, a page a picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from localrag.documents.formats.table import SourceFile
from localrag.documents.lines import PageLines, build
from localrag.documents.ocr import Image, page_reader
from localrag.documents.pictures import PictureError, notes, opened, page_lines, pixels
from localrag.errors import CorruptFileError, ImageOnlyFileError, UnsupportedFileError
from localrag.types import Document, PageNote

if TYPE_CHECKING:
    from PIL import Image as Pillow

MOST_PAGES = 5000
"""Of a TIFF; of what moves, the first picture is read."""


def read(file: SourceFile) -> Document:
    """Raises CorruptFileError, UnsupportedFileError.

    And ImageOnlyFileError where no text was found, or none is to be looked for.
    """
    pages: list[PageLines] = []
    with _opened(file) as picture:
        if not file.options.ocr:
            raise _recognition_off(file.source)
        count = getattr(picture, "n_frames", 1) if picture.format == "TIFF" else 1
        if count > MOST_PAGES:
            raise UnsupportedFileError(
                "{source} has {pages} pages, more than the limit of {limit}.",
                hint="Split it into parts.",
                source=file.source,
                pages=count,
                limit=MOST_PAGES,
            )
        for number in range(count):
            picture.seek(number)
            image, size = pixels(picture)
            reading = page_reader().read(image)
            lines = page_lines(reading, size[0] / image.shape[1])
            pages.append(
                PageLines(
                    lines,
                    how="ocr",
                    confidence=round(reading.confidence, 4) if lines else None,
                    notes=notes(reading) if lines else (PageNote("no text"),),
                    size=size,
                )
            )
            file.page_done(number + 1, count, recognised=True)
    if not any(page.lines for page in pages):
        raise ImageOnlyFileError(
            "{source} shows no text: text recognition found none in it.",
            hint="If it does show text, scan or photograph it again: sharper, larger or upright.",
            source=file.source,
        )
    return build(file, pages)


def draw(file: SourceFile, page: int, width: int) -> tuple[Image, tuple[float, float]]:  # noqa: ARG001
    """A picture within the bounds of recognition, and its size. Raises CorruptFileError."""
    with _opened(file) as picture:
        picture.seek(page - 1)
        return pixels(picture)


@contextmanager
def _opened(file: SourceFile) -> Iterator[Pillow.Image]:
    try:
        with opened(file.data) as picture:
            yield picture
    except PictureError as error:
        raise CorruptFileError(
            "{source} cannot be opened as a picture ({reason}).",
            hint="Open it in an image viewer and save it again, as PNG or smaller.",
            source=file.source,
            reason=str(error),
        ) from error


def _recognition_off(source: str) -> ImageOnlyFileError:
    return ImageOnlyFileError(
        "{source} is a picture, and text recognition is switched off.",
        hint="Switch it on: localrag config set parsing.ocr true. `localrag doctor` says whether "
        "it is installed.",
        source=source,
    )
