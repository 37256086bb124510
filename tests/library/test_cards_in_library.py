"""What passages inherit from their document, in a library that changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from library_fixtures import Where, add, document, open_library

from localrag.documents.cards import HEAD, card_of, card_text
from localrag.library.check import check_library
from localrag.library.derived import Indexes
from localrag.library.indexes.base import NAMING
from localrag.library.indexes.faiss import FaissVectors
from localrag.library.indexes.inverted import InvertedKeywords
from localrag.library.records import FileState
from localrag.text.titles import bounded_title
from localrag.text.tokenize import Tokenizer

TOKENIZER = Tokenizer()
INDEXES = Indexes(
    FaissVectors,
    InvertedKeywords,
    TOKENIZER,
    lambda chunk: chunk.text,
    card_text=lambda title, source, head: card_text(card_of(title, source, head)),
    head=HEAD,
)
TEXT = "The total liability of either party is limited. " * 3


def test_passages_are_found_by_what_their_document_is(where: Where) -> None:
    with open_library(where(), indexes=INDEXES) as library:
        lease = replace(document(TEXT), title="Lease")
        add(library, lease, "/x/contracts/ottway.txt")
        add(library, replace(document("Milk."), title="Milk"), "/x/milk.txt")
        chunks = [chunk.id for chunk in library.document_chunks(lease.id)]
        assert len(chunks) > 1
        for word in ("ottway", "leas", "contract"):
            hits = library.keywords.search([word], 9)
            assert sorted(hit.chunk_id for hit in hits) == sorted(chunks)
        assert library.keywords.holders(NAMING + "ottway").tolist() == [chunks[0]]
        assert library.keywords.frequencies([NAMING, NAMING + "x"])[1] == [2, 2]
        assert library.chunk_ids_of([lease.id]).tolist() == sorted(chunks)


def test_a_renamed_file_is_found_by_its_new_name_alone(where: Where) -> None:
    with open_library(where(), indexes=INDEXES) as library:
        lease = replace(document(TEXT), title="Lease")
        add(library, lease, "/x/ottway.txt")
        before = library.document_vectors(lease.id)
        assert library.keywords.search(["ottway"], 9)
        assert library.set_sources([(FileState("/x/brenn.txt", 1, 1, 2), lease.id)])
        library.remove(sources=["/x/ottway.txt"])
        assert not library.keywords.search(["ottway"], 9)
        hits = library.keywords.search(["brenn"], 9)
        chunks = [chunk.id for chunk in library.document_chunks(lease.id)]
        assert sorted(hit.chunk_id for hit in hits) == sorted(chunks)
        after = library.document_vectors(lease.id)
        assert before.keys() == after.keys()
        assert all(np.array_equal(before[chunk], after[chunk]) for chunk in before)
        assert library.chunk_set().size == len(after)
    assert not check_library(where(), INDEXES).findings


def test_a_long_title_that_the_catalogue_has_is_bounded_wherever_it_is_read(where: Where) -> None:
    title = "glass house opened when " * 900
    with open_library(where(), indexes=INDEXES) as library:
        lease = replace(document(TEXT), title=title)
        add(library, lease, "/x/ottway.txt")
        record, whole = library.document_record(lease.id), library.document(lease.id)
        assert record is not None
        assert whole is not None
        titles = {chunk.title for chunk in library.document_chunks(lease.id)}
        assert titles | {record.title, whole.title} == {bounded_title(title)}
        library.sync()
        assert library.keywords.search(["glass"], 9)
    assert not check_library(where(), INDEXES).findings
