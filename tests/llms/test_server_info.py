"""What a server on this machine says that it serves."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from http_server import Exchange, serving

from localrag.config.settings import OpenAISettings, Settings
from localrag.evaluator.pipeline import model_fingerprint
from localrag.models.llms.openai.server_info import parallel_calls, served_model


@dataclass
class Listing:
    """What the server says: `body`, with `status`; of itself (/props) `properties`, if not None."""

    url: str = ""
    body: bytes = b""
    status: int = 200
    properties: bytes | None = None

    def lists(self, *entries: object) -> None:
        self.body = json.dumps({"object": "list", "data": entries}).encode()


@pytest.fixture
def server() -> Iterator[Listing]:
    listing = Listing()

    def respond(exchange: Exchange) -> None:
        assert exchange.path in ("/v1/models", "/props")
        if exchange.path == "/props" and listing.properties is not None:
            exchange.send(listing.properties)
        else:
            exchange.send(listing.body, listing.status)

    with serving(respond) as running:
        listing.url = f"{running.url}/v1"
        yield listing


def test_other_weights_at_the_same_address_have_another_fingerprint(server: Listing) -> None:
    settings = Settings(llm=OpenAISettings(base_url=server.url, model="default"))
    fingerprints = []
    for path, created in (("a.gguf", 1), ("a.gguf", 2), ("b.gguf", 3)):
        server.lists({"id": path, "created": created, "meta": {"n_params": 5}})
        fingerprints.append(model_fingerprint(settings))
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    server.lists({"id": "b.gguf", "meta": {"n_params": 6}})
    assert model_fingerprint(settings) not in fingerprints


def test_of_several_models_the_one_that_is_named_counts(server: Listing) -> None:
    server.lists({"id": "a"}, {"id": "b"})
    first = served_model(server.url, "b")
    server.lists({"id": "c"}, {"id": "b"})
    assert served_model(server.url, "b") == first != ""
    assert served_model(server.url, "default") == ""


@pytest.mark.parametrize(
    "body", [b"", b"no json", b"[]", b"{}", b'{"data": 5}', b'{"data": ["a"]}', b'{"data": []}']
)
def test_a_server_that_does_not_tell_is_no_error(server: Listing, body: bytes) -> None:
    server.body = body
    assert served_model(server.url, "m") == ""


@pytest.mark.parametrize(
    ("properties", "at_once"),
    [
        (b'{"total_slots": 3}', 3),
        (b'{"total_slots": 64}', 4),
        (b'{"total_slots": 0}', 1),
        (b'{"total_slots": "many"}', 1),
        (b"[]", 1),
        (b"no json", 1),
    ],
)
def test_no_more_calls_than_a_server_here_has_slots(
    server: Listing, properties: bytes, at_once: int
) -> None:
    server.lists({"id": "m"})
    server.properties = properties
    assert parallel_calls(server.url) == at_once


def test_calls_at_once_without_a_word_about_slots(server: Listing) -> None:
    server.lists({"id": "m", "owned_by": "me"})
    assert parallel_calls(server.url) == 1
    server.lists({"id": "m", "owned_by": "vllm"})
    assert parallel_calls(server.url) == 4
    server.status = 404
    assert parallel_calls(server.url) == 1
    assert parallel_calls("http://127.0.0.1:9/v1") == 1  # nobody listens
    assert parallel_calls("https://models.invalid/v1") == 4  # elsewhere: not asked
    assert parallel_calls("http://[/v1") == 4


def test_a_refusal_or_no_server_is_no_error(server: Listing) -> None:
    server.lists({"id": "m"})
    server.status = 401
    assert served_model(server.url, "m") == ""
    assert served_model("http://127.0.0.1:9/v1", "m") == ""


@pytest.mark.parametrize("url", ["https://judge.example/v1", "nonsense", "http://[", ""])
def test_other_machines_are_not_asked(url: str) -> None:
    # The suite has no network: an attempt would be an error.
    assert served_model(url, "m") == ""
