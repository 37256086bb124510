"""One search is one transaction: how often it waits for a server, and what it then sees."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from library_fixtures import EMBEDDER, Where, add, document
from relay import relayed
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.config.settings import Settings
from localrag.egress.databases import Database, read_url
from localrag.engine import AskOptions, Engine
from localrag.library.backends.postgres.catalogue import PostgresCatalogue
from localrag.library.catalogue.filters import Filter
from localrag.library.library import Library
from localrag.library.location import Location

SETTINGS = Settings()
QUESTION = "old harbour and 7 ships"


def opened(place: Location, *, create: bool = False) -> Library:
    return Library.open(
        place,
        create=create,
        embedding=factory.identity_of(EMBEDDER, SETTINGS),
        indexes=factory.make_indexes(SETTINGS),
    )


def filled(place: Location) -> Library:
    library = opened(place, create=True)
    with library.writing():
        for number in range(12):
            text = f"the old harbour holds {number * 7919 % 101} ships, {number} times told\nhere"
            add(library, document(text, source=f"{number}.txt"), size=30)
    library.sync()
    return library


def engine_of(library: Library) -> Engine:
    return Engine(library, SETTINGS, embedder=EMBEDDER)


def transactions(library: Library) -> int:
    """How many this thread has begun and not ended, in a database."""
    catalogue = library._catalogue
    assert isinstance(catalogue, PostgresCatalogue)
    return len(catalogue._used.__dict__.get("held", ()))


def test_a_warm_search_waits_for_the_server_a_few_times(postgres: str, tmp_path: Path) -> None:
    with relayed(postgres) as (url, relay):
        engine = engine_of(filled(read_url(f"{url}#{tmp_path.name}")))
        filtered_options = AskOptions(filter=Filter(types=("text",)))
        with closing(engine):
            first = engine.search(QUESTION)
            for options, most in ((AskOptions(), 10), (filtered_options, 11)):
                engine.search(QUESTION, options)
                before, connections = relay.waits, relay.connections
                assert engine.search(QUESTION, options) == first
                assert 5 < relay.waits - before <= most
                assert relay.connections == connections
    assert len(first) == SETTINGS.retrieval.k


def test_an_answer_waits_for_little_more_until_its_passages_are_there(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits_for(act: Callable[[], object]) -> int:
        before = relay.waits
        act()
        return relay.waits - before

    class FoundError(Exception):
        pass

    def stop(_: object) -> None:
        raise FoundError

    def ask() -> None:
        with pytest.raises(FoundError):
            list(engine.stream(QUESTION, AskOptions(k=SETTINGS.retrieval.k, on_found=stop)))

    llm = ScriptedLLM([])
    monkeypatch.setattr(factory, "make_model", lambda *_: factory.Model(llm, llm, lambda: None))
    with relayed(postgres) as (url, relay):
        engine = engine_of(filled(read_url(f"{url}#{tmp_path.name}")))
        with closing(engine):
            engine.search(QUESTION)
            ask()
            # More than a search: the state, the settings, and whether there is more than one text.
            assert waits_for(ask) <= waits_for(lambda: engine.search(QUESTION)) + 4


def test_only_what_has_the_state_that_is_read_is_at_hand(where: Where) -> None:
    with filled(where()) as library, opened(where()) as other:
        legs = library.legs_at_hand()
        assert legs is not None
        hits = legs.keywords.search(["harbour"], 50)
        assert hits == library.keywords.search(["harbour"], 50)
        with library.one_state():
            assert library.counts().documents == 12
            add(other, document("a windmill by the harbour", source="mill.txt"))
            assert library.legs_at_hand() is not None  # this is still the state of before
        assert library.legs_at_hand() is None
        library.vectors.current()
        assert library.legs_at_hand() is None  # one of both is not enough
        library.keywords.current()
        assert library.legs_at_hand() is not None
        # What is in hand goes on answering.
        assert {hit.chunk_id for hit in hits} <= {
            hit.chunk_id for hit in legs.keywords.search(["harbour"], 50)
        }


def test_nobody_waits_long_in_a_transaction_for_who_brings_an_index_up(where: Where) -> None:
    began, end = threading.Event(), threading.Event()

    def bring_up() -> None:
        with library.keywords._guard:
            began.set()
            end.wait(120)

    with filled(where()) as library:
        thread = threading.Thread(target=bring_up)
        thread.start()
        assert began.wait(60)
        assert library.legs_at_hand() is None
        end.set()
        thread.join()
        assert library.legs_at_hand() is not None


def test_a_search_finds_what_another_node_has_added(where: Where) -> None:
    with filled(where()) as library, opened(where()) as other:
        engine = engine_of(library)
        engine.search(QUESTION)
        add(other, document("a windmill on the hill", source="mill.txt"))
        assert engine.search("windmill on the hill")[0].source == "mill.txt"
        other.remove(sources=["mill.txt"])
        assert all(hit.source != "mill.txt" for hit in engine.search("windmill on the hill"))


def test_an_index_that_another_search_brings_up_meanwhile_hides_nothing(
    where: Where, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(where()) as library, opened(where()) as other:
        engine = engine_of(library)
        engine.search(QUESTION)
        embed, starts = EMBEDDER.embed_queries, []

        def embed_while_others_write(texts: Any) -> Any:
            if not starts:
                starts.append(threading.Thread(target=replace_all))
                starts[0].start()
                starts[0].join()
            return embed(texts)

        def replace_all() -> None:
            for number in range(12):
                other.remove(sources=[f"{number}.txt"])
                text = f"the old harbour holds {number} ships again"
                add(other, document(text, source=f"{number}.txt"))
            library.vectors.current()
            library.keywords.current()

        monkeypatch.setattr(EMBEDDER, "embed_queries", embed_while_others_write)
        hits = engine.search(QUESTION)
        assert starts
        assert len(hits) == SETTINGS.retrieval.k
        assert all("again" in hit.chunk.text for hit in hits)


@pytest.mark.parametrize("kind", ["hyde", "multi-query"])
def test_no_transaction_lasts_while_a_language_model_writes(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    lasting: list[int] = []

    class Watching(ScriptedLLM):
        def complete(self, *arguments: Any) -> Any:
            lasting.append(transactions(library))
            return super().complete(*arguments)

    llm = Watching(["the old harbour holds ships"])
    monkeypatch.setattr(factory, "make_model", lambda *_: factory.Model(llm, llm, lambda: None))
    place: Database = read_url(f"{postgres}#{tmp_path.name}")
    with filled(place) as library:
        assert engine_of(library).search(QUESTION, AskOptions(expand=kind))
        assert lasting == [0]
        with library.one_state():
            assert transactions(library) == 1


def test_no_transaction_lasts_while_a_model_is_loaded(
    postgres: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lasting: list[int] = []

    def make(*_: object) -> Any:
        lasting.append(transactions(library))
        return EMBEDDER

    monkeypatch.setattr(factory, "make_embedder", make)
    with filled(read_url(f"{postgres}#{tmp_path.name}")) as library:
        engine = Engine(library, SETTINGS)
        assert engine.search(QUESTION) == engine.search(QUESTION)
        engine.release_embedder()
        assert engine.search(QUESTION)
    assert lasting == [0, 0]
