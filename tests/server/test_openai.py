"""OpenAI's own client against the running server, and the protocol below it."""

from __future__ import annotations

import base64
import itertools
import re
import struct
import time
from collections.abc import Iterator

import httpx
import openai
import pytest
from server.conftest import GARDEN, LONG, LONG_PAUSE, TOKEN, Served

from localrag.errors import GenerationError

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
REFUSED = "invalid_request"
QUESTION = "When was the glass house opened?"


@pytest.fixture
def client(served: Served) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=TOKEN, max_retries=0) as new_client:
        yield new_client


def ask(client: openai.OpenAI, **more: object) -> openai.types.chat.ChatCompletion:
    body = {"model": "localrag", "messages": [{"role": "user", "content": QUESTION}], **more}
    return client.chat.completions.create(**body)  # type: ignore[call-overload,no-any-return]


def test_libraries_are_models(client: openai.OpenAI) -> None:
    names = ["localrag", "localrag:self-rag", "localrag/garden", "localrag/garden:self-rag"]
    assert [model.id for model in client.models.list()] == names
    assert client.models.retrieve("localrag/garden").id == "localrag/garden"
    with pytest.raises(openai.NotFoundError, match="no library nothing"):
        client.models.retrieve("localrag/nothing")


def test_an_answer_cites_with_an_address(client: openai.OpenAI, served: Served) -> None:
    completion = ask(client)
    message = completion.choices[0].message
    assert message.content == "It was opened in 1907 [1]."
    assert message.annotations is not None
    (citation,) = (annotation.url_citation for annotation in message.annotations)
    assert message.content[citation.start_index : citation.end_index] == "[1]"
    assert citation.title == "garden.txt, p. 1"
    assert citation.url.startswith(f"{served.url}/view#library=garden&")
    assert completion.model_extra is not None
    assert completion.model_extra["localrag"]["citations"][0]["quote"] in GARDEN
    assert completion.usage is not None
    count = served.llm.count_tokens
    assert completion.usage.prompt_tokens == count(QUESTION)
    assert completion.usage.completion_tokens == count(message.content)
    assert completion.usage.total_tokens == count(QUESTION) + count(message.content)


def test_the_address_opens_for_who_brings_nothing_but_it(
    client: openai.OpenAI, served: Served
) -> None:
    message = ask(client).choices[0].message
    assert message.annotations is not None
    key = message.annotations[0].url_citation.url.partition("#")[2]
    with httpx.Client(base_url=served.url, trust_env=False) as stranger:
        view = stranger.get(f"/api/view?{key}").json()
        assert view["quoted"] == "The glass house was opened in 1907."
        other = key.replace("end=35", "end=36")
        assert stranger.get(f"/api/view?{other}").status_code == 401


def test_markers_count_sources_as_clients_do(client: openai.OpenAI, served: Served) -> None:
    """Open WebUI takes [2] for the second source that it is told of."""
    served.llm.pieces = (
        "春茶在三月采摘 [2]。It was opened in 1907 [1]. 茶园有四个山坡 [2]。\n```\na[2] = 1\n```",
    )
    # Neither passage holds all of it, but each a part.
    served.llm.denied = "Compare"
    served.llm.parts = ("When the glass house opened", "茶园采摘")
    chat = [{"role": "user", "content": "Compare when the glass house 茶园 opened and 采摘."}]
    message = ask(client, messages=chat).choices[0].message
    stream = ask(client, messages=chat, stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    assert message.content is not None
    assert re.findall(r"\[(\d)\]", message.content) == ["1", "2", "1", "2"]
    assert message.content.endswith("a[2] = 1\n```"), "code has no markers"
    assert "".join(delta.content or "" for delta in deltas) == message.content
    assert message.annotations is not None
    citations = [annotation.url_citation for annotation in message.annotations]
    assert [
        message.content[citation.start_index : citation.end_index] for citation in citations
    ] == [
        "[1]",
        "[2]",
        "[1]",
    ]
    assert [citation.title for citation in citations] == [
        "tea.txt, p. 1",
        "garden.txt, p. 1",
        "tea.txt, p. 1",
    ]
    assert citations[0].url == citations[2].url, "one source"
    record = ask(client, messages=chat).model_extra["localrag"]  # type: ignore[index]
    assert {citation["marker"]: citation["source"] for citation in record["citations"]} == {
        1: "tea.txt",
        2: "garden.txt",
    }
    assert record["answer"] == message.content


def test_a_stream_says_the_same(client: openai.OpenAI) -> None:
    whole = ask(client).choices[0].message
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == whole.content
    (notes,) = (delta.annotations for delta in deltas if hasattr(delta, "annotations"))
    assert whole.annotations is not None
    assert [annotation["url_citation"]["title"] for annotation in notes] == [
        annotation.url_citation.title for annotation in whole.annotations
    ]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None


def test_a_stream_ends_with_done(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with served.client() as http:
        lines = http.post("/v1/chat/completions", json=body).text.splitlines()
    assert [line for line in lines if line][-1] == "data: [DONE]"


def test_self_rag_by_the_model_s_name(client: openai.OpenAI) -> None:
    completion = ask(client, model="localrag/garden:self-rag")
    assert completion.model_extra is not None
    assert "relevance" in {step["name"] for step in completion.model_extra["localrag"]["trace"]}


def test_a_follow_up_is_understood(client: openai.OpenAI, served: Served) -> None:
    served.llm.replies.append("How many orchids does the glass house have?")
    chat = [
        {"role": "system", "content": "Be a pirate."},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "In 1907."},
        {"role": "user", "content": [{"type": "text", "text": "And how many orchids has it?"}]},
    ]
    completion = ask(client, messages=chat)
    assert completion.model_extra is not None
    assert "orchids" in completion.model_extra["localrag"]["question"]


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ({"model": "localrag/nothing"}, 404),
        ({"messages": []}, 400),
        ({"messages": [{"role": "assistant", "content": "x"}]}, 400),
        ({"messages": [{"role": "user", "content": "  "}]}, 400),
        ({"messages": "x"}, 400),
        ({"n": 3}, 400),
        ({"response_format": {"type": "json_object"}}, 400),
        ({"tool_choice": "required"}, 400),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, 400),
        ({"messages": [{"role": "user", "content": [IMAGE]}]}, 400),
    ],
)
def test_what_cannot_be_asked_is_said(
    client: openai.OpenAI, more: dict[str, object], status: int
) -> None:
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as error:
            ask(client, stream=stream, **more)
        assert error.value.status_code == status
        assert error.value.type == "invalid_request_error"
        assert error.value.code == ("model_not_found" if status == 404 else REFUSED)
        assert error.value.param is None


def test_settings_of_a_model_are_ignored(client: openai.OpenAI) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    settings = {"temperature": 2, "max_tokens": 1, "stop": ["opened"], "seed": 7}
    completion = ask(client, tools=[tool], response_format={"type": "text"}, **settings)
    assert completion.choices[0].message.content == "It was opened in 1907 [1]."


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/v1/chat/completions", b'{"messages": [', 400, REFUSED),
        ("POST", "/v1/chat/completions", b'"\xff"', 400, REFUSED),
        ("POST", "/v1/chat/completions", b"[" * 100_000, 400, REFUSED),
        ("POST", "/v1/chat/completions", b"x" * (5 * 2**20), 413, None),
        ("GET", "/v1/chat/completions", b"", 405, "unknown_url"),
        ("POST", "/v1/audio/speech", b"{}", 404, "unknown_url"),
        (
            "POST",
            "/v1/rerank",
            b'{"query": "x", "documents": [], "top_n": -1}',
            400,
            "invalid_request",
        ),
        ("POST", "/v1/vector_stores/none/search", b'{"query": "x"}', 404, "model_not_found"),
        ("POST", "/v1/vector_stores/default/search", b'{"query": " "}', 400, REFUSED),
    ],
)
def test_every_error_has_the_form_of_the_protocol(
    served: Served, method: str, path: str, body: bytes, status: int, code: str | None
) -> None:
    with served.client() as http:
        response = http.request(
            method, path, content=body, headers={"content-type": "application/json"}
        )
    assert response.status_code == status
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert error["message"]


def test_what_goes_wrong_here_keeps_its_form_and_its_reason(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.engine.search = None  # type: ignore[assignment,method-assign]
    with served.client() as http:
        response = http.post("/v1/vector_stores/default/search", json={"query": "x"})
    assert response.status_code == 500
    assert response.json()["error"]["type"] == "server_error"
    assert "NoneType" not in response.text
    assert "A request failed." in caplog.text


def test_responses_with_their_search_and_citations(client: openai.OpenAI, served: Served) -> None:
    completion = client.responses.create(model="localrag", input=QUESTION)
    assert completion.output_text == "It was opened in 1907 [1]."
    search, message = completion.output
    assert search.type == "file_search_call"
    assert search.results is not None
    assert search.results[0].text == GARDEN
    assert message.type == "message"
    (text,) = message.content
    assert text.type == "output_text"
    (citation,) = text.annotations
    assert citation.type == "file_citation"
    assert citation.filename == "garden.txt"
    assert completion.output_text[: citation.index].endswith("[1]")
    assert completion.usage is not None
    assert completion.usage.input_tokens == served.llm.count_tokens(QUESTION)


def test_a_response_comes_in_the_order_of_the_reference(client: openai.OpenAI) -> None:
    with client.responses.stream(model="localrag", input=QUESTION) as stream:
        events = list(stream)
        whole = stream.get_final_response()
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text == "It was opened in 1907 [1]."
    kinds = [event.type.removeprefix("response.") for event in events]
    assert [kind for kind, _ in itertools.groupby(kinds)] == [
        "created",
        "in_progress",
        "output_item.added",
        "file_search_call.in_progress",
        "file_search_call.searching",
        "file_search_call.completed",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.annotation.added",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    ids = {event.item_id for event in events if event.type == "response.output_text.delta"}
    assert ids == {whole.output[1].id}


def test_a_response_that_fails_says_so(client: openai.OpenAI, served: Served) -> None:
    def fail(*_: object) -> Iterator[str]:
        raise GenerationError("The model stopped.", hint="Ask again.")

    served.llm.stream = fail  # type: ignore[method-assign]
    events = list(client.responses.create(model="localrag", input=QUESTION, stream=True))
    assert [event.type for event in events[-2:]] == ["error", "response.failed"]
    failure = events[-1]
    assert failure.type == "response.failed"
    assert failure.response.status == "failed"
    assert failure.response.error is not None
    assert "The model stopped." in failure.response.error.message


@pytest.mark.parametrize(
    "more",
    [
        {"previous_response_id": "resp_1"},
        {"background": True},
        {"text": {"format": {"type": "json_object"}}},
        {"tool_choice": {"type": "function", "name": "f"}},
        {"input": []},
    ],
)
def test_responses_refuse_what_is_not_done(client: openai.OpenAI, more: dict[str, object]) -> None:
    with pytest.raises(openai.BadRequestError):
        client.responses.create(**{"model": "localrag", "input": QUESTION, **more})  # type: ignore[call-overload]


def test_embeddings_as_numbers_and_as_bytes(client: openai.OpenAI, served: Served) -> None:
    plain = client.embeddings.create(
        model="localrag", input=["tea", "茶"], encoding_format="float"
    ).data
    assert len(plain) == 2
    with served.client() as http:
        body = {"input": "tea", "encoding_format": "base64"}
        encoded = http.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    floats = struct.unpack(f"<{len(plain[0].embedding)}f", base64.b64decode(encoded))
    assert list(floats) == pytest.approx(plain[0].embedding)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([[9906, 1917]], "check_embedding_ctx_length=False"),
        ([9906, 1917], "tokens of another model"),
        (["tea", " "], "empty text"),
        ([], "empty text"),
        (["tea"] * 2049, "2049 texts"),
        ("tea " * 257, "257 tokens; this model embeds 256"),
    ],
)
def test_what_cannot_be_embedded_is_said(client: openai.OpenAI, given: object, said: str) -> None:
    with pytest.raises(openai.BadRequestError, match=said):
        client.embeddings.create(model="localrag", input=given)  # type: ignore[arg-type]


def test_the_client_s_own_vector_stores(client: openai.OpenAI) -> None:
    (hit,) = client.vector_stores.search("default", query="orchids", max_num_results=1)
    assert hit.filename == "garden.txt"
    assert hit.content[0].text == GARDEN
    with pytest.raises(openai.NotFoundError):
        client.vector_stores.search("none", query="orchids")


def test_a_search_and_an_order(served: Served) -> None:
    with served.client() as http:
        body = {"query": "glass house orchids", "max_num_results": 1}
        for name in ("default", "garden"):
            (hit,) = http.post(f"/v1/vector_stores/{name}/search", json=body).json()["data"]
            assert hit["filename"].endswith("garden.txt")
            assert hit["content"][0]["text"] == GARDEN
        body = {"query": "orchids", "documents": ["tea in spring", "two hundred orchids"]}
        results = http.post("/v1/rerank", json={**body, "top_n": 1}).json()["results"]
    assert [result["index"] for result in results] == [1]


def test_a_client_that_leaves_frees_the_model(served: Served) -> None:
    served.llm.pieces, served.llm.pause = LONG, LONG_PAUSE
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with served.client() as http:
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            next(line for line in response.iter_lines() if "word1" in line)
        start = time.monotonic()
        served.llm.pieces, served.llm.pause = ("It was opened in 1907 [1].",), 0.0
        reply = http.post("/v1/chat/completions", json={**body, "stream": False}).json()
    assert reply["choices"][0]["message"]["content"] == "It was opened in 1907 [1]."
    assert time.monotonic() - start < len(LONG) * LONG_PAUSE / 2
