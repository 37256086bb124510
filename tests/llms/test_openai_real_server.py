"""The adapter against a real server that is not ours: the one of llama-cpp-python."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from localrag.errors import BackendError, ContextOverflowError
from localrag.models.llms.base import Options
from localrag.models.llms.openai.model import OpenAICompatibleModel
from localrag.types import Message

pytestmark = pytest.mark.models("smollm2-135m-instruct-q4")

KEY = "sk-only-for-this-test"
CHAT = [Message("user", "Name one colour.")]


@pytest.fixture(scope="module")
def url(
    models_dir: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    pytest.importorskip("fastapi", reason="needs the dev extra")
    model = next(models_dir("smollm2-135m-instruct-q4").glob("*.gguf"))
    log = tmp_path_factory.mktemp("server") / "log.txt"
    command = [sys.executable, "-m", "llama_cpp.server", "--model", str(model)]
    command += ["--host", "127.0.0.1", "--port", "0", "--n_ctx", "512", "--n_threads", "1"]
    command += ["--n_threads_batch", "1", "--api_key", KEY]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + 60
        text = ""
        # Port 0: the system chooses one, which the server names once it listens there.
        while not (match := re.search(r"running on (http://127\.0\.0\.1:\d+)", text)):
            running = process.poll() is None and time.monotonic() < deadline
            assert running, text[-2000:]
            time.sleep(0.1)
            text = log.read_text(errors="replace")
        yield f"{match[1]}/v1"
    finally:
        process.terminate()
        process.wait(20)


@pytest.fixture
def model(url: str) -> Iterator[OpenAICompatibleModel]:
    model = OpenAICompatibleModel(url, "tiny", api_key=KEY, timeout_seconds=60)
    yield model
    model.close()


def test_streaming_and_completion_agree(model: OpenAICompatibleModel) -> None:
    options = Options(max_tokens=12)
    completion = model.complete(CHAT, options)
    pieces = list(model.stream(CHAT, options))
    assert completion.text
    assert "".join(pieces) == completion.text
    assert len(pieces) > 3
    assert 0 < completion.completion_tokens <= 12
    assert completion.finish_reason in ("stop", "length")
    assert 5 < completion.prompt_tokens < 60


def test_a_schema(model: OpenAICompatibleModel) -> None:
    schema = {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "blue"]}},
        "required": ["colour"],
    }
    completion = model.complete(CHAT, Options(max_tokens=40, schema=schema))
    assert json.loads(completion.text)["colour"] in ("red", "blue")


def test_a_prompt_that_is_too_long(model: OpenAICompatibleModel) -> None:
    with pytest.raises(ContextOverflowError):
        model.complete([Message("user", "word " * 2000)], Options(max_tokens=4))


def test_a_closed_stream_leaves_the_server_usable(model: OpenAICompatibleModel) -> None:
    stream = model.stream(CHAT, Options(max_tokens=200))
    assert next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert model.complete(CHAT, Options(max_tokens=2)).text


def test_a_wrong_key(url: str) -> None:
    with pytest.raises(BackendError, match="status 401"):
        OpenAICompatibleModel(url, "tiny", api_key="sk-wrong").complete(CHAT, Options())
