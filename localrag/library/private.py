"""Which documents are private: of these nothing goes to a language model on another machine."""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import translate
from pathlib import PurePath

from localrag.library.library import Library
from localrag.library.records import SourceRecord

_Identity = tuple[int, int]

_ANY = re.compile(r"(?<![^/\\])\*\*[/\\]")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MOST_FORMS = 1000
"""Of one pattern; `{a,b}` twenty times over would be a million."""


class PrivateSources:
    """Patterns for paths, with `*`, `?` and `[...]`; `*` stands for folders too.

    A pattern counts from the start of any name in a path and to the end of any: "contracts",
    "./contracts", "contracts/*" and "/home/ada/contracts" all mean everything below that folder.
    `**/` also stands for no folder, and `{a,b}` for each of the two, as in a shell.
    Small and capital letters are one, as are all ways of writing a character; brackets also stand
    for themselves.

    What a document was added under counts, where that led to when its bytes were read (the
    library keeps it), and where it leads now. A document that has several paths is private if one
    of them is. Of a file that is gone and that a version before 0.2 has added, nobody knows what
    its path led to: it is private too. In doubt, nothing is sent.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        globs = [os.path.expanduser(pattern.strip()) for pattern in patterns if pattern.strip()]  # noqa: PTH111
        globs = list(dict.fromkeys(path for pattern in globs for path in _expanded(pattern)))
        forms = [form for pattern in globs for form in _forms(pattern)]
        for pattern in patterns:
            for path in _expanded(pattern.strip()):
                forms += _of_any_home(path)
        self._matches = re.compile("|".join(forms)).match if forms else None
        # Another name of the same folder, by a mount, say, is known by what the system says of it.
        self._folders = [pattern for pattern in globs if _leads(pattern)]

    def __bool__(self) -> bool:
        return self._matches is not None

    def holds(self, path: str) -> bool:
        """Whether a path, or what it leads to now, is private."""
        return self._is_named(path) or self._leads_there(path, self._identities(), {})

    def documents(self, library: Library) -> frozenset[str]:
        """Ids of the private documents of a library."""
        if self._matches is None:
            return frozenset()
        identities, seen = self._identities(), dict[str, bool]()
        return frozenset(
            record.document_id
            for record in library.sources()
            if any(map(self._is_named, (record.state.path, *record.state.origins)))
            or _nowhere(record)
            or self._leads_there(record.state.path, identities, seen)
        )

    def names(self, library: Library) -> frozenset[str]:
        """Paths and bare file names under which a library holds private documents."""
        private = self.documents(library)
        paths = [source.state.path for source in library.sources() if source.document_id in private]
        return frozenset([*paths, *(re.split(r"[/\\]", path)[-1] for path in paths)])

    def unknown(self, library: Library) -> int:
        """How many documents count as private because nobody knows where they lay."""
        if self._matches is None:
            return 0
        return len({source.document_id for source in library.sources() if _nowhere(source)})

    def _is_named(self, path: str) -> bool:
        matches = self._matches
        return matches is not None and any(matches(form) for form in _spellings(path))

    def _leads_there(self, path: str, private: set[_Identity], seen: dict[str, bool]) -> bool:
        if self._matches is None or _is_remote(path):
            return False
        real = os.path.realpath(path)
        if real != path and self._is_named(real):
            return True
        for ancestor in (real, *map(str, PurePath(real).parents)):
            if ancestor not in seen:
                seen[ancestor] = _identity(ancestor) in private
            if seen[ancestor]:
                return True
        return False

    def _identities(self) -> set[_Identity]:
        return {identity for folder in self._folders if (identity := _identity(folder)) is not None}


def _nowhere(record: SourceRecord) -> bool:
    state = record.state
    return not state.origins and (_is_remote(state.path) or not os.path.exists(state.path))  # noqa: PTH110


def _is_remote(path: str) -> bool:
    """Whether to look at a path would be to call a server, named by whoever wrote the path."""
    return os.name == "nt" and path.replace("/", "\\").startswith("\\\\")


def _identity(path: str) -> _Identity | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a path of another system, perhaps
    except (OSError, ValueError):
        return None
    return (status.st_dev, status.st_ino) if status.st_ino else None


def _leads(pattern: str) -> bool:
    """Whether a pattern names a place, on this machine, and not only a name."""
    return pattern.startswith((".", "/", "\\")) or os.path.isabs(pattern)  # noqa: PTH117


def _forms(pattern: str) -> Iterator[str]:
    """The pattern as regular expressions over whole paths."""
    names = {pattern}
    if _leads(pattern):
        # A path that leads over a link, or from here, is also the one that it leads to.
        names |= {os.path.abspath(pattern), os.path.realpath(pattern)}  # noqa: PTH100
    for name in names:
        for spelling in _spellings(name):
            plain = spelling.strip("/")
            if not name.strip("/\\"):  # the root: everything
                yield r"(?s:.*)\Z"
            if plain in ("", ".", ".."):
                continue
            yield translate(f"*/{plain}")
            yield translate(f"*/{plain}/*")
            yield rf"(?s:.*/{re.escape(plain)}(?:/.*)?)\Z"


def _expanded(pattern: str) -> set[str]:
    """The pattern as it is, which may be a name, and what `{a,b}` and `**/` in it stand for."""
    every, left = {pattern}, [pattern]
    while left:
        if len(every) > _MOST_FORMS:
            return {"*"}  # in doubt, everything
        form = left.pop()
        expansions = {
            f"{form[: folders.start()]}{form[folders.end() :]}" for folders in _ANY.finditer(form)
        }
        if braces := _BRACES.search(form):
            before, after = form[: braces.start()], form[braces.end() :]
            expansions |= {f"{before}{inner}{after}" for inner in braces.group(1).split(",")}
        left += expansions - every
        every |= expansions
    return every


def _of_any_home(pattern: str) -> Iterable[str]:
    """The pattern below whatever a home is called: a library may come from another machine."""
    below = re.fullmatch(r"~[/\\](.+)", pattern)
    if below is None:
        return []
    return [
        form
        for home in ("home/*", "users/*", "root")
        for form in _forms(f"{home}/{below.group(1)}")
    ]


def _spellings(path: str) -> set[str]:
    """A path in one way of writing: as it is given, and without what goes back (`..`).

    Both, as a name may hold on one system what leads back on another.
    """
    slashes = path.replace("\\", "/")
    return {_plain(slashes), _plain(posixpath.normpath(slashes))}


def _plain(path: str) -> str:
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", path).casefold())
    folded = re.sub(r"^[/\\]{2}[?.][/\\]", "/", folded.replace("\\", "/"))
    # Windows opens "a. " as "a".
    folded = re.sub(r"(?<=[^/. ])[. ]+(?=/|\Z)", "", folded)
    return re.sub(r"/(?:\./|/)*", "/", f"/{folded}")
