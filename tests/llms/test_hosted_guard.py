"""Nothing goes to a model on another machine that has not been through the guard."""

from __future__ import annotations

import json
import logging
import threading
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from hosted_server import HOST, Hosted, serving

import localrag
from localrag.egress import consent
from localrag.egress.audit import AuditLog
from localrag.egress.consent import Consent, Excerpt, Preview
from localrag.egress.redaction import Redactor
from localrag.errors import BackendError, ConfigError, NetworkBlockedError, StoppedError
from localrag.models.llms.base import Options
from localrag.models.llms.openai.guard import Guard
from localrag.models.llms.openai.model import OpenAICompatibleModel
from localrag.types import Message

KEY = "sk-canary-8f3a71"
PASSAGE = "The lamp of the lighthouse was changed to electric light in the spring of 1931."
CHAT = [Message("system", "Be brief."), Message("user", f"{PASSAGE}\n\nWhen? Call 13912345678.")]


@pytest.fixture
def hosted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    consent.begin("test", ask=None, show=None)
    with serving(monkeypatch) as server:
        yield server
    consent.begin("python", ask=None, show=None)


class Known:
    """A `Secrecy` that knows one text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.apart: list[str] = []

    def quoted(self, text: str, apart_from: Iterable[str]) -> bool:
        self.apart = list(apart_from)
        return self.text in text

    def passages(self) -> int:
        return 3


def guard(folder: Path, **options: object) -> Guard:
    defaults = {
        "audit": AuditLog(folder / "log.jsonl"),
        "redactor": Redactor([r"\d{11}"]),
        "confirm": False,
    }
    return Guard(**(defaults | options))  # type: ignore[arg-type]


def model(hosted: Hosted, guarding: Guard, **options: object) -> OpenAICompatibleModel:
    defaults = {"api_key": KEY, "timeout_seconds": 10.0, "max_retries": 0, "allow_network": True}
    return OpenAICompatibleModel(hosted.url, "big", guard=guarding, **(defaults | options))  # type: ignore[arg-type]


def log(folder: Path) -> list[dict[str, object]]:
    path = folder / "log.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def test_another_machine_needs_a_guard() -> None:
    with pytest.raises(ValueError, match="guard"):
        OpenAICompatibleModel(f"https://{HOST}/v1", "big", allow_network=True)


@pytest.mark.parametrize("streamed", [False, True])
def test_what_goes_is_redacted_and_logged_and_what_comes_back_is_restored(
    hosted: Hosted, tmp_path: Path, streamed: bool
) -> None:
    hosted.reply = lambda prompt: "In 1931. Call [REDACTED-1]."
    guarding = guard(tmp_path)
    guarding.offer({7: Excerpt("/docs/light.pdf", 2, 2, PASSAGE)})
    hosted_model = model(hosted, guarding)
    if streamed:
        text = "".join(hosted_model.stream(CHAT, Options()))
    else:
        text = hosted_model.complete(CHAT, Options()).text
    hosted_model.close()
    assert text == "In 1931. Call 13912345678."
    assert "13912345678" not in hosted.heard
    assert "Call [REDACTED-1]." in hosted.heard
    outgoing, incoming = log(tmp_path)
    assert outgoing["host"] == HOST
    assert outgoing["bytes_out"] == len(hosted.bodies[0])
    assert (outgoing["passages"], outgoing["redactions"], outgoing["command"]) == (1, 1, "test")
    assert incoming["call"] == outgoing["call"]
    assert incoming["status"] == 200
    assert isinstance(incoming["bytes_in"], int)
    assert incoming["bytes_in"] > 20
    log_text = (tmp_path / "log.jsonl").read_text(encoding="utf-8")
    assert all(word not in log_text for word in (KEY, "lamp", "Call", "light.pdf", "1391"))


def test_every_attempt_is_a_call_of_its_own(
    hosted: Hosted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tenacity

    monkeypatch.setattr(tenacity, "wait_random_exponential", lambda **_: lambda _state: 0.01)
    hosted.status = 503
    hosted_model = model(hosted, guard(tmp_path), max_retries=2)
    with pytest.raises(BackendError):
        hosted_model.complete(CHAT, Options())
    hosted_model.close()
    assert len(hosted.bodies) == 3
    assert [record["event"] for record in log(tmp_path)] == ["sent", "received"] * 3
    assert [record["status"] for record in log(tmp_path)[1::2]] == [503] * 3


def test_a_call_that_reaches_nobody_is_logged(hosted: Hosted, tmp_path: Path) -> None:
    hosted_model = OpenAICompatibleModel(
        f"http://{HOST}:9/v1", "big", allow_network=True, guard=guard(tmp_path), max_retries=0
    )
    with pytest.raises(BackendError, match="cannot be reached"):
        hosted_model.complete(CHAT, Options())
    hosted_model.close()
    _, incoming = log(tmp_path)
    assert (incoming["bytes_in"], incoming["status"]) == (0, None)


def test_without_the_log_nothing_goes(hosted: Hosted, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    hosted_model = model(hosted, guard(tmp_path, audit=AuditLog(tmp_path / "file" / "log.jsonl")))
    with pytest.raises(BackendError, match="nothing is sent"):
        hosted_model.complete(CHAT, Options())
    hosted_model.close()
    assert hosted.bodies == []


def test_what_quotes_a_private_document_does_not_go(hosted: Hosted, tmp_path: Path) -> None:
    secrecy = Known("electric light")
    hosted_model = model(hosted, guard(tmp_path, secrecy=secrecy))
    for call in (
        lambda: hosted_model.complete(CHAT, Options()),
        lambda: list(hosted_model.stream(CHAT, Options())),
    ):
        with pytest.raises(NetworkBlockedError, match="quotes a private document"):
            call()
    hosted_model.close()
    assert hosted.bodies == []
    assert log(tmp_path) == []


def test_what_is_offered_counts_as_allowed(hosted: Hosted, tmp_path: Path) -> None:
    secrecy = Known("nothing of it")
    guarding = guard(tmp_path, secrecy=secrecy)
    guarding.offer({7: Excerpt("a", 1, 1, PASSAGE), 8: Excerpt("b", 1, 1, "Not in the prompt.")})
    hosted_model = model(hosted, guarding)
    hosted_model.complete(CHAT, Options())
    hosted_model.close()
    assert secrecy.apart == [PASSAGE]


def test_a_redaction_that_cannot_be_made_stops_the_call(hosted: Hosted, tmp_path: Path) -> None:
    slow = Redactor([r"(x+x+)+y"], seconds=0.2)
    hosted_model = model(hosted, guard(tmp_path, redactor=slow))
    with pytest.raises(ConfigError, match="nothing was sent"):
        hosted_model.complete([Message("user", "x" * 5000)], Options())
    hosted_model.close()
    assert hosted.bodies == []


# -- asking ---------------------------------------------------------------------------


def test_with_nobody_to_ask_nothing_goes(hosted: Hosted, tmp_path: Path) -> None:
    hosted_model = model(hosted, guard(tmp_path, confirm=True))
    with pytest.raises(NetworkBlockedError, match="there is nobody to confirm"):
        hosted_model.complete(CHAT, Options())
    hosted_model.close()
    assert hosted.bodies == []
    assert log(tmp_path) == []


def test_one_yes_serves_for_the_run_and_the_preview_tells_all(
    hosted: Hosted, tmp_path: Path
) -> None:
    previews: list[Preview] = []
    firsts: list[bool] = []

    def ask(preview: Preview) -> bool:
        previews.append(preview)
        return True

    consent.begin("test", ask=ask, show=lambda _, first: firsts.append(first))
    guarding = guard(tmp_path, confirm=True, secrecy=Known("nothing"))
    guarding.offer({7: Excerpt("/docs/light.pdf", 2, 3, PASSAGE)})
    for guarded in (guarding, guarding, guard(tmp_path, confirm=True)):
        hosted_model = model(hosted, guarded)
        hosted_model.complete(CHAT, Options())
        hosted_model.close()
    assert firsts == [True, False, False]
    (preview,) = previews
    assert (preview.model, preview.server) == ("big", hosted.url.split("/")[2])
    assert not preview.encrypted
    (passage,) = preview.passages
    assert (passage.source, passage.first_page, passage.last_page) == ("/docs/light.pdf", 2, 3)
    assert passage.text == PASSAGE
    assert (preview.redactions, preview.withheld) == (1, 3)
    assert "13912345678" not in preview.messages[1].content
    assert preview.characters == sum(len(m.content) for m in preview.messages)


def test_a_no_holds_for_the_run_and_another_model_is_asked_about_anew(
    hosted: Hosted, tmp_path: Path
) -> None:
    models: list[str] = []

    def ask(preview: Preview) -> bool:
        models.append(preview.model)
        return False

    consent.begin("test", ask=ask, show=None)
    hosted_model = model(hosted, guard(tmp_path, confirm=True))
    for _ in range(2):
        with pytest.raises(NetworkBlockedError, match="as you decided"):
            hosted_model.complete(CHAT, Options())
    hosted_model.close()
    other = OpenAICompatibleModel(
        hosted.url, "small", allow_network=True, guard=guard(tmp_path, confirm=True)
    )
    with pytest.raises(NetworkBlockedError):
        other.complete(CHAT, Options())
    other.close()
    assert models == ["big", "small"]
    assert hosted.bodies == []


def test_threads_are_asked_once(hosted: Hosted, tmp_path: Path) -> None:
    previews: list[Preview] = []

    def ask(preview: Preview) -> bool:
        previews.append(preview)
        return True

    consent.begin("test", ask=ask, show=None)
    hosted_model = model(hosted, guard(tmp_path, confirm=True))
    threads = [
        threading.Thread(target=hosted_model.complete, args=(CHAT, Options())) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    hosted_model.close()
    assert (len(previews), len(hosted.bodies)) == (1, 4)


def test_a_call_that_brings_its_own_consent_asks_nobody_else(
    hosted: Hosted, tmp_path: Path
) -> None:
    consent.begin("test", ask=lambda _: pytest.fail("asked"), show=None)
    hosted_model = model(hosted, guard(tmp_path, confirm=True))
    yes, no = Consent("yes", ask=lambda _: True), Consent("no", ask=lambda _: False)
    hosted_model.for_call(None, yes).complete(CHAT, Options())
    with pytest.raises(NetworkBlockedError, match="as you decided"):
        hosted_model.for_call(None, no).complete(CHAT, Options())
    hosted_model.for_call(None, yes).complete(CHAT, Options())
    hosted_model.close()
    assert len(hosted.bodies) == 2
    assert [record["command"] for record in log(tmp_path) if record["event"] == "sent"] == [
        "yes"
    ] * 2


def test_a_call_that_was_stopped_sends_nothing(hosted: Hosted, tmp_path: Path) -> None:
    stop = threading.Event()
    hosted_model = model(hosted, guard(tmp_path)).for_call(stop, None)
    stream = hosted_model.stream(CHAT, Options())
    assert next(stream)
    stop.set()
    with pytest.raises(StoppedError):
        list(stream)
    with pytest.raises(StoppedError):
        hosted_model.complete(CHAT, Options())
    hosted_model.close()
    assert len(hosted.bodies) == 1


# -- the key --------------------------------------------------------------------------


def test_the_key_is_in_no_repr_error_traceback_or_log(
    hosted: Hosted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hosted.status = 401  # the server repeats the key in its error
    hosted_model = model(hosted, guard(tmp_path))
    texts = [repr(hosted_model), str(vars(hosted_model))]
    texts += [repr(vars(error)) for error in hosted_model._errors.values()]
    with pytest.raises(BackendError) as failure:
        hosted_model.complete(CHAT, Options())
    texts += ["".join(traceback.format_exception(failure.value)), str(failure.value), caplog.text]
    package = str(Path(localrag.__file__).parent)  # a checkout may be called so, too
    frames: traceback.TracebackException | None
    frames = traceback.TracebackException.from_exception(failure.value, capture_locals=True)
    while frames is not None:
        texts += [str(frame.locals) for frame in frames.stack if frame.filename.startswith(package)]
        frames = frames.__cause__ or frames.__context__
    texts.append((tmp_path / "log.jsonl").read_text(encoding="utf-8"))
    hosted_model.close()
    assert hosted.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert any("payload" in text for text in texts)
    assert [place for place, text in enumerate(texts) if KEY in text] == []
