"""OpenAI's own client against the running server, and the protocol below it."""

from __future__ import annotations

import base64
import struct
import time
from collections.abc import Iterator

import openai
import pytest
from server.conftest import GARDEN, TOKEN, Served

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
    assert message.content[cited.start_index : cited.end_index].strip() == "[1]"
    assert cited.title == "garden.txt, p. 1"
    assert cited.url.startswith(f"{served.url}/view#library=garden&")
    assert done.model_extra is not None
    assert done.model_extra["localrag"]["citations"][0]["quote"] in GARDEN
    assert done.usage is not None
    assert done.usage.completion_tokens > 0


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
    ],
)
def test_what_cannot_be_asked_is_said(
    client: openai.OpenAI, more: dict[str, object], status: int
) -> None:
    with pytest.raises(openai.APIStatusError) as refused:
        ask(client, **more)
    assert refused.value.status_code == status


def test_responses_with_their_search_and_citations(client: openai.OpenAI) -> None:
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
    with client.responses.stream(model="localrag", input=QUESTION) as stream:
        written = [event.delta for event in stream if event.type == "response.output_text.delta"]
        assert "".join(written) == stream.get_final_response().output_text == done.output_text


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
    served.llm.pieces, served.llm.pause = [f"word{n} " for n in range(200)], 0.05
    body = {"messages": [{"role": "user", "content": QUESTION}], "stream": True}
    with served.client() as http:
        with http.stream("POST", "/v1/chat/completions", json=body) as response:
            next(line for line in response.iter_lines() if "word1" in line)
        started = time.monotonic()
        served.llm.pieces, served.llm.pause = ("It was opened in 1907 [1].",), 0.0
        done = http.post("/v1/chat/completions", json={**body, "stream": False}).json()
    assert done["choices"][0]["message"]["content"] == "It was opened in 1907 [1]."
    assert time.monotonic() - started < 5
