"""Files into Documents: PDF, Markdown, HTML and plain text in any usual encoding."""

from localrag.documents.files import SIZE_LIMIT, SUPPORTED_SUFFIXES, parse_file, read_bytes, walk
from localrag.documents.worker import ParsingProcess

__all__ = ["SIZE_LIMIT", "SUPPORTED_SUFFIXES", "ParsingProcess", "parse_file", "read_bytes", "walk"]
