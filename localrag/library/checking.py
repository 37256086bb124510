"""What is wrong with a library: the catalogue against itself, both indexes against the catalogue.

Nothing is changed, but that an older catalogue gets the tables of this version, as on opening.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from localrag.errors import LibraryDamagedError, LocalragError
from localrag.library.catalogue.catalogue import Catalogue
from localrag.library.catalogue.checking_rows import catalogue_findings
from localrag.library.catalogue.reads import Snapshot
from localrag.library.findings import Finding, repair_by_rebuild
from localrag.library.gate import KEYWORDS, POINTER, VECTORS, parts, states
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.indexes.following import PassageText, Terms, Tokenize
from localrag.library.indexes.tantivy import TantivyKeywords, load_pointer
from localrag.library.locking import WriteLock
from localrag.library.media import in_our_words, is_read_only, modes_warning, network_warning
from localrag.library.opening import CATALOGUE, PATIENCE, identity, require_library
from localrag.library.records import Counts, Stamp
from localrag.library.sealing import DamagedIndexError, ForeignIndexError
from localrag.library.sharing import seal_of
from localrag.messages import tr, translate
from localrag.system.seals import Seal


@dataclass(slots=True)
class Inspection:
    """What a check found; `counts` is None where the catalogue could not be read."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counts | None = None

    @property
    def ok(self) -> bool:
        """Whether nothing is damaged; notes do not count."""
        return not any(finding.damage for finding in self.findings)


def check_library(
    directory: Path,
    *,
    tokenize: Tokenize,
    passage_text: PassageText,
    keyword_engine: Literal["tantivy", "rank-bm25"] = "tantivy",
) -> Inspection:
    """Look at everything; `tokenize` and `passage_text` are those that the library is used with.

    Raises LibraryNotFoundError where there is no library, LibraryError where the folder cannot
    be used for reasons that lie outside its files (rights, disk).
    """
    with in_our_words(directory):
        return _inspected(directory, tokenize, passage_text, keyword_engine)


def _inspected(
    directory: Path, tokenize: Tokenize, passage_text: PassageText, keyword_engine: str
) -> Inspection:
    inspection = Inspection()
    try:
        directory = require_library(directory)
    except LibraryDamagedError as error:
        inspection.findings.append(_from_error(error, "missing"))
        return inspection
    seal, _ = seal_of(directory)
    catalogue = Catalogue(directory / CATALOGUE, read_only=is_read_only(directory))
    try:
        if catalogue.needs_migration():
            with WriteLock(directory).hold(PATIENCE):
                catalogue.migrate()
        # The files before the state they are compared with: they cannot be ahead of it then.
        vectors = _Opened.of(lambda: FaissVectors.load(directory / VECTORS, None, seal))
        keywords = _open_keywords(directory / KEYWORDS, tokenize, keyword_engine, seal)
        with catalogue.read() as snapshot:
            inspection.findings += catalogue_findings(snapshot)
            identity(snapshot)
            inspection.counts = snapshot.counts()
            _compare_vectors(snapshot, vectors, inspection)
            if keyword_engine == "tantivy":
                terms = Terms(tokenize, passage_text)
                _compare_keywords(snapshot, keywords, terms, inspection)
    except LibraryDamagedError as error:
        inspection.findings.append(_from_error(error, "unreadable"))
    finally:
        catalogue.close()
    inspection.findings += _foreign_states(directory, seal)
    inspection.findings += _leftovers(directory)
    return inspection


@dataclass(frozen=True, slots=True)
class _Opened:
    """An index from disk: it, or why there is none ("" where there is no file)."""

    index: FaissVectors | TantivyKeywords | None
    reason: str = ""
    foreign: bool = False

    @classmethod
    def of(cls, load: Callable[[], FaissVectors | TantivyKeywords]) -> _Opened:
        try:
            return cls(load())
        except FileNotFoundError:
            return cls(None)
        except (ForeignIndexError, PermissionError) as error:
            return cls(None, str(error), foreign=True)
        except DamagedIndexError as error:
            return cls(None, str(error))


def _open_keywords(directory: Path, tokenize: Tokenize, engine: str, seal: Seal) -> _Opened:
    if engine != "tantivy" or not directory.is_dir():
        return _Opened(None)

    def opened() -> TantivyKeywords:
        pointer = load_pointer(directory, seal)
        if pointer is None:
            raise DamagedIndexError(f"{POINTER} is missing")
        if pointer.terms != tokenize.fingerprint:
            raise FileNotFoundError
        return TantivyKeywords(directory, pointer.terms, seal)

    return _Opened.of(opened)


def _from_error(error: LocalragError, code: str) -> Finding:
    return Finding(
        "catalogue",
        code,
        translate(error.message).format(**error.values),
        translate(error.hint).format(**error.values),
    )


def _foreign_states(directory: Path, seal: Seal) -> Iterator[Finding]:
    foreign = sum(not seal.fits_file(path) for path in states(directory))
    if foreign:
        yield Finding(
            "files",
            "foreign",
            tr(
                "{count} states of the language model in kv were not made under this account, "
                "were made by an earlier version, or were altered.",
                count=foreign,
            ),
            tr("Nothing need be done: they are never used."),
            damage=False,
        )


def _leftovers(directory: Path) -> Iterator[Finding]:
    if warning := network_warning(directory):
        yield Finding("files", "network-drive", *warning, damage=False)
    if warning := modes_warning(directory):
        yield Finding("files", "no-modes", *warning, damage=False)
    for part in parts(directory):
        yield Finding(
            "files",
            "leftover",
            tr("{name} was left by a process that was ended while it wrote.", name=part.name),
            tr("Nothing need be done: the next change of the library deletes it."),
            damage=False,
        )


# The indexes


def _compare_vectors(snapshot: Snapshot, opened: _Opened, inspection: Inspection) -> None:
    name = tr("the vector index (vectors.faiss)")
    index = opened.index
    usable = _state("vectors", name, snapshot, opened, inspection)
    if not usable or not isinstance(index, FaissVectors):
        return
    ids = index.ids()
    compared = _compare_ids("vectors", name, snapshot, index.stamp, ids.tolist(), inspection)
    dimension = identity(snapshot).dimension
    if index.dimension != dimension:
        inspection.findings.append(
            Finding(
                "vectors",
                "dimension",
                tr(
                    "The vectors of {name} have {found} dimensions, those of the catalogue "
                    "{dimension}.",
                    name=name,
                    found=index.dimension,
                    dimension=dimension,
                ),
                repair_by_rebuild(),
            )
        )
        return
    order, codes = np.argsort(ids), index.codes()
    ids = ids[order]
    wrong = 0
    for some, packed in snapshot.packed_embeddings():
        here = [place for place, chunk_id in enumerate(some) if chunk_id in compared]
        if not here:
            continue
        places = order[np.searchsorted(ids, np.array(some, dtype=np.int64)[here])]
        sizes_fit = all(len(packed[place]) == 2 * dimension for place in here)
        if not sizes_fit:  # the catalogue has said so already
            continue
        stored = np.frombuffer(b"".join(packed[place] for place in here), dtype=np.uint8)
        wrong += int((codes[places] != stored.reshape(len(here), -1)).any(axis=1).sum())
    if wrong:
        inspection.findings.append(
            Finding(
                "vectors",
                "values",
                tr(
                    "{count} vectors of {name} differ from those of the catalogue.",
                    count=wrong,
                    name=name,
                ),
                repair_by_rebuild(),
            )
        )


def _compare_keywords(
    snapshot: Snapshot, opened: _Opened, terms: Terms, inspection: Inspection
) -> None:
    name = tr("the keyword index (keywords)")
    index = opened.index
    usable = _state("keywords", name, snapshot, opened, inspection)
    if not usable or not isinstance(index, TantivyKeywords):
        return
    try:
        held = {chunk_id: _digest(found) for chunk_id, found in index.documents()}
    except DamagedIndexError as error:
        inspection.findings.append(_unreadable("keywords", name, str(error)))
        return
    compared = _compare_ids("keywords", name, snapshot, index.stamp, list(held), inspection)
    expected = terms.of(snapshot.chunks_since(-1))
    wrong = sum(
        chunk_id in compared and held[chunk_id] != _digest(found) for chunk_id, found in expected
    )
    if wrong:
        inspection.findings.append(
            Finding(
                "keywords",
                "terms",
                tr(
                    "The terms of {count} passages in {name} are not those of their text.",
                    count=wrong,
                    name=name,
                ),
                repair_by_rebuild(),
            )
        )


def _digest(terms: Sequence[str]) -> int:
    return zlib.crc32("\0".join(sorted(terms)).encode("utf-8", "surrogatepass"))


def _state(
    part: Literal["vectors", "keywords"],
    name: str,
    snapshot: Snapshot,
    opened: _Opened,
    inspection: Inspection,
) -> bool:
    """Whether the index can be compared; says why not, and whether it is behind."""
    if opened.index is None:
        if opened.foreign:
            inspection.findings.append(
                Finding(
                    part,
                    "foreign",
                    tr(
                        "{name} was not made under this account, or by an earlier version.",
                        name=_capital(name),
                    ),
                    tr(
                        "Nothing need be done: it is not used, and the next search makes one "
                        "from the catalogue."
                    ),
                    damage=False,
                )
            )
        elif opened.reason:
            inspection.findings.append(_unreadable(part, name, opened.reason))
        elif snapshot.chunks():
            inspection.findings.append(
                Finding(
                    part,
                    "missing",
                    tr("There is no file of {name}, or one of other settings.", name=name),
                    tr("The next search builds it anew; `localrag rebuild` does so now."),
                )
            )
        return False
    (epoch, generation), (wanted, newest) = opened.index.stamp, snapshot.stamp()
    if epoch != wanted or generation > newest:
        inspection.findings.append(
            Finding(
                part,
                "other-state",
                tr("{name} belongs to another state of the catalogue.", name=_capital(name)),
                tr(
                    "If the catalogue was restored from a backup, this is expected. The next "
                    "search builds the index anew; `localrag rebuild` does so now."
                ),
            )
        )
        return False
    if generation < newest:
        inspection.findings.append(
            Finding(
                part,
                "behind",
                tr(
                    "{name} is {count} changes behind the catalogue.",
                    name=_capital(name),
                    count=newest - generation,
                ),
                tr("Nothing need be done: the next search catches up."),
                damage=False,
            )
        )
    return True


def _unreadable(part: Literal["vectors", "keywords"], name: str, reason: str) -> Finding:
    return Finding(
        part,
        "unreadable",
        tr("{name} is damaged: {reason}.", name=_capital(name), reason=reason.rstrip(".")),
        repair_by_rebuild(),
    )


def _capital(name: str) -> str:
    return name[:1].upper() + name[1:]


def _compare_ids(
    part: Literal["vectors", "keywords"],
    name: str,
    snapshot: Snapshot,
    stamp: Stamp,
    held: Sequence[int],
    inspection: Inspection,
) -> set[int]:
    """The ids that both hold and that the index is to hold; says what else there is."""
    newer = set(snapshot.added_ids_since(stamp[1]))
    wanted = set(snapshot.added_ids_since(-1)) - newer
    # What went away, or went and came back, after the index was written may still be in it; and
    # what came later is in a keyword index whose pointer was not written any more.
    allowed = wanted | newer | set(snapshot.removed_since(stamp[1]))
    present = set(held)
    lost, foreign = len(wanted - present), len(present - allowed)
    twice = len(held) - len(present)
    if lost or foreign or twice:
        inspection.findings.append(
            Finding(
                part,
                "ids",
                tr(
                    "In {name}, {lost} passages of the catalogue are missing, {foreign} are not "
                    "in the catalogue, and {twice} stand there twice.",
                    name=name,
                    lost=lost,
                    foreign=foreign,
                    twice=twice,
                ),
                repair_by_rebuild(),
            )
        )
    return wanted & present
