from pathlib import Path
from typing import Literal

import pytest
from library.library_fixtures import EMBEDDER, add, document, open_library

from localrag import factory
from localrag.config.settings import Settings
from localrag.library.records import EmbeddingIdentity
from localrag.models.registry.advice import advise
from localrag.models.registry.spec import catalogue

STARTER, BGE_EN = "use-multilingual-v3", "bge-small-en-v1.5-int8"

Shares = dict[Literal["zh", "en"], float]


def advised(model: str, shares: Shares, *present: str) -> tuple[object, ...] | None:
    spec = catalogue().find(model)
    served = spec.languages if spec else ()
    advice = advise(model, served, shares, catalogue(), STARTER, lambda name: name in present)
    return advice and (advice.kind, advice.other, advice.language, advice.share, advice.present)


def test_english_documents_get_the_english_model() -> None:
    shares: Shares = {"zh": 0.02, "en": 0.96}
    pair = f"{STARTER}+{BGE_EN}"
    assert advised(STARTER, shares) == ("better", pair, "en", 0.96, False)
    assert advised(STARTER, shares, BGE_EN) == ("better", pair, "en", 0.96, True)
    assert advised(pair, shares) is None
    assert advised(BGE_EN, shares) is None


@pytest.mark.parametrize(
    "shares",
    [{"zh": 0.0, "en": 0.0}, {"zh": 0.0, "en": 0.8}, {"zh": 0.96, "en": 0.04}, {"zh": 1, "en": 0}],
    ids=["nothing", "a fifth is German", "English titles", "Chinese"],
)
def test_no_other_model_is_suggested_where_none_was_measured(shares: Shares) -> None:
    assert advised(STARTER, shares, BGE_EN) is None


@pytest.mark.parametrize("shares", [{"zh": 0.08, "en": 0.92}, {"zh": 0.6, "en": 0.4}])
def test_documents_in_chinese_too_are_found_with_both_as_before(shares: Shares) -> None:
    pair = f"{STARTER}+{BGE_EN}"
    assert advised(STARTER, shares) == ("better", pair, "en", shares["en"], False)


def test_the_shares_are_those_of_the_librarys_passages(tmp_path: Path) -> None:
    settings, english = Settings(), "The reading room is open to all who have a card. " * 5
    identity = EmbeddingIdentity(EMBEDDER.fingerprint, STARTER, EMBEDDER.dimension)
    with open_library(
        tmp_path / "library", tokenize=factory.make_tokenizer(settings), embedding=identity
    ) as library:
        add(library, document("阅览室每日九点开门，凭证入内。" * 8, source="zh.txt"))
        assert factory.embedding_advice(settings, library, factory.make_models()) is None
        add(library, document(english, source="en.txt"), size=200)
        advice = factory.embedding_advice(settings, library, factory.make_models())
        assert advice is not None
        assert (advice.kind, advice.language) == ("better", "en")


def test_what_was_not_measured_is_mentioned_only_where_it_is() -> None:
    chinese: Shares = {"zh": 1.0, "en": 0.0}
    assert advised(STARTER, chinese, "bge-small-zh-v1.5") == (
        *("untried", "bge-small-zh-v1.5", "zh", 1.0, True),
    )
    language_shares: Shares = {"zh": 0.5, "en": 0.5}
    pair = f"{STARTER}+{BGE_EN}"
    assert advised(STARTER, language_shares, "bge-small-zh-v1.5") == (
        "better",
        pair,
        "en",
        0.5,
        False,
    )
    assert advised(STARTER, language_shares, "bge-m3") == ("untried", "bge-m3", "mixed", 1.0, True)


@pytest.mark.parametrize(
    ("model", "shares", "language"),
    [
        (BGE_EN, {"zh": 0.06, "en": 0.9}, "zh"),
        ("bge-small-zh-v1.5", {"zh": 0.7, "en": 0.3}, "en"),
    ],
)
def test_a_language_that_the_model_does_not_serve(
    model: str, shares: Shares, language: Literal["zh", "en"]
) -> None:
    share = shares[language]
    assert advised(model, shares, STARTER) == ("unserved", STARTER, language, share, True)
    assert advised(model, shares, "bge-m3") == ("unserved", "bge-m3", language, share, True)
    assert advised("a/folder/of/mine", shares) is None


def test_every_model_that_is_named_is_an_embedding() -> None:
    model_catalogue = catalogue()
    for names in (*model_catalogue.better.values(), *model_catalogue.untried.values()):
        assert {model_catalogue.get(name).task for name in names} == {"embedding"}
    assert model_catalogue.of_task("english", "embedding") == BGE_EN
    assert model_catalogue.of_task("english", "llm") == "english"
    assert model_catalogue.of_task("mine", "embedding") == "mine"
