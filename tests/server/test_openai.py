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
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=TOKEN, max_retries=0) as opened:
        yield opened


def ask(client: openai.OpenAI, **more: object) -> openai.types.chat.ChatCompletion:
    asked = {"model": "localrag", "messages": [{"role": "user", "content": QUESTION}], **more}
    return client.chat.completions.create(**asked)  # type: ignore[call-overload,no-any-return]


def test_libraries_are_models(client: openai.OpenAI) -> None:
    names = ["localrag", "localrag:self-rag", "localrag/garden", "localrag/garden:self-rag"]
    assert [model.id for model in client.models.list()] == names
    assert client.models.retrieve("localrag/garden").id == "localrag/garden"
    with pytest.raises(openai.NotFoundError, match="no library nothing"):
        client.models.retrieve("localrag/nothing")


def test_an_answer_cites_with_an_address(client: openai.OpenAI, served: Served) -> None:
    done = ask(client)
    message = done.choices[0].message
    assert message.content == "It was opened in 1907 [1]."
    assert message.annotations is not None
    (cited,) = (one.url_citation for one in message.annotations)
    assert message.content[cited.start_index : cited.end_index] == "[1]"
    assert cited.title == "garden.txt, p. 1"
    assert cited.url.startswith(f"{served.url}/view#library=garden&")
    assert done.model_extra is not None
    assert done.model_extra["localrag"]["citations"][0]["quote"] in GARDEN
    assert done.usage is not None
    count = served.llm.count_tokens
    assert done.usage.prompt_tokens == count(QUESTION)
    assert done.usage.completion_tokens == count(message.content)
    assert done.usage.total_tokens == count(QUESTION) + count(message.content)


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
    asked = [{"role": "user", "content": "Compare when the glass house 茶园 opened and 采摘."}]
    message = ask(client, messages=asked).choices[0].message
    stream = ask(client, messages=asked, stream=True)
    deltas = [chunk.choices[0].delta for chunk in stream if chunk.choices]
    assert message.content is not None
    assert re.findall(r"\[(\d)\]", message.content) == ["1", "2", "1", "2"]
    assert message.content.endswith("a[2] = 1\n```"), "code has no markers"
    assert "".join(delta.content or "" for delta in deltas) == message.content
    assert message.annotations is not None
    cited = [one.url_citation for one in message.annotations]
    assert [message.content[one.start_index : one.end_index] for one in cited] == [
        "[1]",
        "[2]",
        "[1]",
    ]
    assert [one.title for one in cited] == ["tea.txt, p. 1", "garden.txt, p. 1", "tea.txt, p. 1"]
    assert cited[0].url == cited[2].url, "one source"
    record = ask(client, messages=asked).model_extra["localrag"]  # type: ignore[index]
    assert {one["marker"]: one["source"] for one in record["citations"]} == {
        1: "tea.txt",
        2: "garden.txt",
    }
    assert record["answer"] == message.content


def test_a_stream_says_the_same(client: openai.OpenAI) -> None:
    whole = ask(client).choices[0].message
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == whole.content
    (found,) = (delta.annotations for delta in deltas if hasattr(delta, "annotations"))
    assert whole.annotations is not None
    assert [one["url_citation"]["title"] for one in found] == [
        one.url_citation.title for one in whole.annotations
    ]
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"
    assert chunks[-1].usage is not None


def test_a_stream_ends_with_done(served: Served) -> None:
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with served.client() as http:
        lines = http.post("/v1/chat/completions", json=body).text.splitlines()
    assert [line for line in lines if line][-1] == "data: [DONE]"


def test_self_rag_by_the_model_s_name(client: openai.OpenAI) -> None:
    done = ask(client, model="localrag/garden:self-rag")
    assert done.model_extra is not None
    assert "relevance" in {step["name"] for step in done.model_extra["localrag"]["trace"]}


def test_a_follow_up_is_understood(client: openai.OpenAI, served: Served) -> None:
    served.llm.replies.append("How many orchids does the glass house have?")
    said = [
        {"role": "system", "content": "Be a pirate."},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "In 1907."},
        {"role": "user", "content": [{"type": "text", "text": "And how many orchids has it?"}]},
    ]
    done = ask(client, messages=said)
    assert done.model_extra is not None
    assert "orchids" in done.model_extra["localrag"]["question"]


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
        with pytest.raises(openai.APIStatusError) as refused:
            ask(client, stream=stream, **more)
        assert refused.value.status_code == status
        assert refused.value.type == "invalid_request_error"
        assert refused.value.code == ("model_not_found" if status == 404 else REFUSED)
        assert refused.value.param is None


def test_settings_of_a_model_are_ignored(client: openai.OpenAI) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    settings = {"temperature": 2, "max_tokens": 1, "stop": ["opened"], "seed": 7}
    done = ask(client, tools=[tool], response_format={"type": "text"}, **settings)
    assert done.choices[0].message.content == "It was opened in 1907 [1]."


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
        refused = http.request(
            method, path, content=body, headers={"content-type": "application/json"}
        )
    assert refused.status_code == status
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["code"]) == ("invalid_request_error", code)
    assert error["message"]


def test_what_goes_wrong_here_keeps_its_form_and_its_reason(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    served.engine.search = None  # type: ignore[assignment,method-assign]
    with served.client() as http:
        failed = http.post("/v1/vector_stores/default/search", json={"query": "x"})
    assert failed.status_code == 500
    assert failed.json()["error"]["type"] == "server_error"
    assert "NoneType" not in failed.text
    assert "A request failed." in caplog.text


def test_responses_with_their_search_and_citations(client: openai.OpenAI, served: Served) -> None:
    done = client.responses.create(model="localrag", input=QUESTION)
    assert done.output_text == "It was opened in 1907 [1]."
    search, message = done.output
    assert search.type == "file_search_call"
    assert search.results is not None
    assert search.results[0].text == GARDEN
    assert message.type == "message"
    (text,) = message.content
    assert text.type == "output_text"
    (cited,) = text.annotations
    assert cited.type == "file_citation"
    assert cited.filename == "garden.txt"
    assert done.output_text[: cited.index].endswith("[1]")
    assert done.usage is not None
    assert done.usage.input_tokens == served.llm.count_tokens(QUESTION)


def test_a_response_comes_in_the_order_of_the_reference(client: openai.OpenAI) -> None:
    with client.responses.stream(model="localrag", input=QUESTION) as stream:
        events = list(stream)
        whole = stream.get_final_response()
    deltas = [each.delta for each in events if each.type == "response.output_text.delta"]
    assert "".join(deltas) == whole.output_text == "It was opened in 1907 [1]."
    kinds = [each.type.removeprefix("response.") for each in events]
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
    assert [each.sequence_number for each in events] == list(range(len(events)))
    ids = {each.item_id for each in events if each.type == "response.output_text.delta"}
    assert ids == {whole.output[1].id}


def test_a_response_that_fails_says_so(client: openai.OpenAI, served: Served) -> None:
    def fail(*_: object) -> Iterator[str]:
        raise GenerationError("The model stopped.", hint="Ask again.")

    served.llm.stream = fail  # type: ignore[method-assign]
    events = list(client.responses.create(model="localrag", input=QUESTION, stream=True))
    assert [each.type for each in events[-2:]] == ["error", "response.failed"]
    failed = events[-1]
    assert failed.type == "response.failed"
    assert failed.response.status == "failed"
    assert failed.response.error is not None
    assert "The model stopped." in failed.response.error.message


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
        packed = http.post("/v1/embeddings", json=body).json()["data"][0]["embedding"]
    floats = struct.unpack(f"<{len(plain[0].embedding)}f", base64.b64decode(packed))
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
    assert [one["index"] for one in results] == [1]


def test_a_client_that_leaves_frees_the_model(served: Served) -> None:
    served.llm.pieces, served.llm.pause = LONG, LONG_PAUSE
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with served.client() as http:
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            next(line for line in response.iter_lines() if "word1" in line)
        started = time.monotonic()
        served.llm.pieces, served.llm.pause = ("It was opened in 1907 [1].",), 0.0
        done = http.post("/v1/chat/completions", json={**body, "stream": False}).json()
    assert done["choices"][0]["message"]["content"] == "It was opened in 1907 [1]."
    assert time.monotonic() - started < len(LONG) * LONG_PAUSE / 2
