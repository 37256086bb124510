"""`ask` and `chat` against a local server that speaks OpenAI's protocol: no model is loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
REPLY = "Frank Rosenblatt presented the perceptron in 1958."


class Chat(BaseHTTPRequestHandler):
    prompts: list[str]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.prompts.append(body["messages"][-1]["content"])
        rewriting = "Rewrite" in self.prompts[-1]
        text = "Who presented the perceptron?" if rewriting else REPLY
        if body.get("stream"):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            for piece in (*text.split(" "), None):
                delta = {} if piece is None else {"content": piece + " "}
                choice = {"index": 0, "delta": delta, "finish_reason": None if piece else "stop"}
                self.wfile.write(f"data: {json.dumps({'choices': [choice]})}\n\n".encode())
            self.wfile.write(b"data: [DONE]\n\n")
            return
        message = {"role": "assistant", "content": text}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        payload = json.dumps({"choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    prompts: list[str] = []
    handler = type("Handler", (Chat,), {"prompts": prompts})
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=running.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{running.server_port}/v1", prompts
    running.shutdown()
    thread.join()
    running.server_close()


@pytest.fixture
def run(
    server: tuple[str, list[str]], models_dir: Callable[[str], Path], tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    models_dir("use-multilingual-v3")
    environment = os.environ | {
        "LOCALRAG_LLM_BACKEND": "openai",
        "LOCALRAG_LIBRARY": str(tmp_path / "library"),
    }

    def localrag(
        *arguments: str, typed: str = "", base_url: str = server[0]
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "localrag", *arguments],
            env=environment | {"LOCALRAG_LLM_BASE_URL": base_url},
            input=typed,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=120,
        )

    added = localrag("add", str(ROOT / "data" / "ai-overview.en.pdf"))
    assert added.returncode == 0, added.stderr
    return localrag


@pytest.mark.models
def test_ask_json_has_everything_a_program_needs(run: Callable[..., Any]) -> None:
    done = run("ask", "Who presented the perceptron, and when?", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["grounded"] is True
    assert answer["language"] == "en"
    assert answer["answer"].startswith(REPLY.rstrip("."))
    (citation,) = answer["citations"]
    assert Path(citation["source"]).name == "ai-overview.en.pdf"
    assert "perceptron" in citation["quote"].lower()
    cited = answer["contexts"][citation["marker"] - 1]
    assert citation["quote"] in cited["text"]
    assert cited["page"] <= citation["page"] <= cited["last_page"]
    assert {"source", "page", "score", "text"} <= set(cited)
    assert answer["trace"][0]["name"] == "retrieve"
    assert answer["seconds"] > 0


@pytest.mark.models
def test_ask_prints_answer_citation_and_trace(run: Callable[..., Any]) -> None:
    done = run("ask", "Who presented the perceptron, and when?", "--explain")
    assert done.returncode == 0
    assert "1958 [" in done.stdout
    assert "ai-overview.en.pdf, p. " in done.stdout
    assert "check citations" in done.stdout


@pytest.mark.models
def test_chat_understands_a_follow_up(
    run: Callable[..., Any], server: tuple[str, list[str]]
) -> None:
    done = run("chat", typed="What is the perceptron?\nWho presented it?\n")
    assert done.returncode == 0, done.stderr
    assert "Understood as: Who presented the perceptron?" in done.stderr
    rewriting = [prompt for prompt in server[1] if "Rewrite" in prompt]
    assert len(rewriting) == 1
    assert "What is the perceptron?" in rewriting[0]


@pytest.mark.models
def test_a_host_elsewhere_is_refused_with_the_way_to_allow_it(run: Callable[..., Any]) -> None:
    done = run("ask", "Who?", base_url="https://models.example/v1")
    assert done.returncode == 1
    assert "models.example" in done.stderr
    assert "allow_network" in done.stderr
    assert "Traceback" not in done.stderr
