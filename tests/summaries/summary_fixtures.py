"""A library with a document of some pages, and a model that repeats what it reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from library.library_fixtures import EMBEDDER, add, document, open_library
from scripted_llm import ScriptedLLM

from localrag import factory
from localrag.config.settings import Settings
from localrag.engine import Engine
from localrag.errors import BackendError

NAMES = ("mill", "school", "harbour", "garden", "quarry", "chapel", "bridge", "market")
PAGES = [
    f"The {name} of Elm was built in {1800 + at} by the people of the valley. "
    f"About {40 + at} workers of the {name} came from the towns of the north. "
    f"The oldest drawing of the {name} hangs above the door of the town hall. "
    f"The walls of the {name} were made of grey stone that came by river. "
    f"The workers of the {name} rested at noon and began again at one. "
    f"About {20 + at} horses brought timber for the {name} over the hill. "
    f"The children of the {name} learned to read from an old sailor. "
    f"The {name} had a bell that was heard from dawn until the evening. "
    f"The river rose to the steps of the {name} in the spring of {1850 + at}. "
    f"The accounts of the {name} were kept by two sisters from the coast. "
    f"The {name} lost its roof in a storm and got another one of slate. "
    f"The {name} was closed in {1900 + at} after a long and cold winter."
    for at, name in enumerate(NAMES)
]
"""Each of about 800 code points, twelve sentences."""


class Repeating(ScriptedLLM):
    """Writes the first sentence that it is given, and one that stands nowhere, if it is to."""

    invents = ""
    calls = 0
    fails = False

    def stream(self, messages: Sequence[object], options: object) -> Iterator[str]:  # type: ignore[override]
        if self.fails:
            raise BackendError("It broke.")
        self.calls += 1
        passage = messages[0].content.rsplit("\n\n", 1)[-1]  # type: ignore[attr-defined]
        passage = passage.partition("Passage:\n")[2] or passage
        first = next(line for line in passage.split("\n") if line.startswith(("The ", "About ")))
        yield f"{first} {self.invents}"


@pytest.fixture
def llm() -> Repeating:
    return Repeating()


@pytest.fixture
def engine(tmp_path: Path, llm: Repeating, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    monkeypatch.setattr(factory, "make_model", lambda *_: factory.Model(llm, llm, lambda: None))
    settings = Settings()
    library = open_library(
        tmp_path / "library",
        tokenize=factory.make_tokenizer(settings),
        embedding=factory.identity_of(EMBEDDER, settings),
    )
    add(library, document(*PAGES, source="/books/elm.txt"), size=1000)
    new_engine = Engine(library, settings, embedder=EMBEDDER)
    yield new_engine
    new_engine.close()
