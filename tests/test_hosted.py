"""Private documents and a model on another machine: every way in which text could get there."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result
from fakes import HashEmbedder
from hosted_server import HOST, Hosted, serving

from localrag import LocalRAG, Turn, factory, hosted
from localrag.cli import hosted as asking
from localrag.cli.group import cli
from localrag.config.settings import HostedSettings, LLMReranking, OpenAISettings, Settings
from localrag.egress import consent
from localrag.errors import NetworkBlockedError, UsageError
from localrag.library.catalogue.filters import Filter
from localrag.models.llms.openai import server_info
from localrag.types import Step

KEY = "sk-canary-51c0de"
PUBLIC = (
    "# The lighthouse of Greyholm\n\nThe lamp of the lighthouse of Greyholm was changed to "
    "electric light in 1931. Its keeper was Ada Brook, telephone 13912345678.\n"
)
PRIVATE = (
    "# Contract about the lighthouse of Greyholm\n\nThe lamp of the lighthouse of Greyholm was "
    "sold in secret to the brothers Quillfeather in 1931 for nine hundred crowns, and the harbour "
    "board never heard of this sale.\n"
)
MARKER = "Quillfeather"
QUESTION = "What happened to the lamp of the lighthouse of Greyholm in 1931?"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hosted]:
    monkeypatch.setattr(factory, "make_embedder", lambda *_: HashEmbedder())
    monkeypatch.setattr("platformdirs.user_state_path", lambda *_, **__: tmp_path / "state")
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: tmp_path / "cache")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    documents = tmp_path / "documents"
    (documents / "contracts").mkdir(parents=True)
    (documents / "light.md").write_text(PUBLIC, encoding="utf-8")
    (documents / "contracts" / "sale.md").write_text(PRIVATE, encoding="utf-8")
    with serving(monkeypatch) as state:
        yield state
    consent.begin("python", ask=None, show=None)


def settings(server: Hosted, **changes: object) -> Settings:
    base = Settings(
        allow_network=True,
        llm=OpenAISettings(base_url=server.url, model="big", timeout_seconds=20.0, max_retries=0),
        hosted=HostedSettings(private=("contracts/*",), redact=(r"\d{11}",), confirm=False),
    )
    return msgspec.structs.replace(base, **changes)


@pytest.fixture
def library(server: Hosted, tmp_path: Path) -> Path:
    with LocalRAG.open(tmp_path / "library", settings=settings(server)) as rag:
        report = rag.add([tmp_path / "documents"])
        assert len(report.committed) == 2
    return tmp_path / "library"


def calls(tmp_path: Path) -> list[dict[str, object]]:
    path = tmp_path / "state" / "hosted-calls.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_which_models_are_on_another_machine(server: Hosted) -> None:
    assert not hosted.is_hosted(Settings())
    assert hosted.is_hosted(settings(server))
    for url in ("http://127.0.0.1:1/v1", "http://localhost/v1", "http://[::1]:8080/v1"):
        assert not hosted.is_hosted(settings(server, llm=OpenAISettings(base_url=url)))
    for url in ("http://192.168.1.2/v1", "https://localhost.example/v1", "nonsense", "http://["):
        assert hosted.is_hosted(settings(server, llm=OpenAISettings(base_url=url)))


@pytest.mark.parametrize(
    "given",
    [
        {"model": "gpt-oss:120b-cloud"},
        {"model": "glm-4.6:cloud"},
        {"model": "GLM-4.6:Cloud"},
        {"model": "big", "hosted": True},
    ],
    ids=str,
)
def test_a_gateway_on_this_machine_is_under_the_rules_of_hosted_models(
    server: Hosted, library: Path, tmp_path: Path, given: dict[str, object]
) -> None:
    local_url = server.url.replace(HOST, "127.0.0.1")
    gateway = OpenAISettings(base_url=local_url, max_retries=0, **given)  # type: ignore[arg-type]
    changed_settings = settings(server, llm=gateway, allow_network=False)
    assert hosted.is_hosted(changed_settings)
    with LocalRAG.open(library, settings=changed_settings, create=False) as rag:
        rag.ask(QUESTION)
    assert MARKER not in server.heard
    assert "13912345678" not in server.heard
    hosts = [call["host"] for call in calls(tmp_path) if call["event"] == "sent"]
    assert set(hosts) == {"127.0.0.1"}
    for name in ("cloudy:7b", "cloud-reader", "big"):
        local = msgspec.structs.replace(gateway, model=name, hosted=False)
        assert not hosted.is_hosted(settings(server, llm=local))


def test_what_a_server_here_says_that_it_hands_on_is_hosted(
    server: Hosted, library: Path, tmp_path: Path
) -> None:
    """Ollama says it of a model that runs in its cloud, whatever that is called here."""
    server.remote_hosts["mine"] = "https://ollama.example:443"
    local_url = server.url.replace(HOST, "127.0.0.1")
    gateway = OpenAISettings(base_url=local_url, model="mine", max_retries=0)
    changed_settings = settings(server, llm=gateway, allow_network=False)
    assert hosted.is_hosted(changed_settings)
    with LocalRAG.open(library, settings=changed_settings, create=False) as rag:
        rag.ask(QUESTION)
    assert server.bodies
    assert MARKER not in server.heard
    assert "13912345678" not in server.heard
    assert {call["host"] for call in calls(tmp_path) if call["event"] == "sent"} == {"127.0.0.1"}
    other = msgspec.structs.replace(gateway, model="another")
    assert not hosted.is_hosted(settings(server, llm=other))


def test_what_is_handed_on_from_now_on_gets_nothing_unguarded(
    server: Hosted, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model of that name was on this machine when the library was opened."""
    monkeypatch.setattr(server_info, "_ASKED_AGAIN", 0.0)
    local_url = server.url.replace(HOST, "127.0.0.1")
    local = OpenAISettings(base_url=local_url, model="mine", max_retries=0)
    with LocalRAG.open(library, settings=settings(server, llm=local), create=False) as rag:
        rag.ask(QUESTION)
        count = len(server.bodies)
        assert count
        server.remote_hosts["mine"] = "https://ollama.example:443"
        with pytest.raises(NetworkBlockedError, match=r"hands on .*ollama\.example"):
            rag.ask("When was the lamp of the lighthouse changed?")
    assert len(server.bodies) == count


def test_one_server_elsewhere_makes_the_model_hosted(server: Hosted) -> None:
    local_url, elsewhere = server.url.replace(HOST, "127.0.0.1"), server.url
    for urls in ((local_url, elsewhere), (elsewhere, local_url)):
        assert hosted.is_hosted(settings(server, llm=OpenAISettings(base_url=urls)))
    assert not hosted.is_hosted(
        settings(server, llm=OpenAISettings(base_url=(local_url, local_url)))
    )


def test_what_is_private_goes_to_no_server_where_one_is_elsewhere(
    server: Hosted, library: Path, tmp_path: Path
) -> None:
    local_url = server.url.replace(HOST, "127.0.0.1")
    llm_settings = OpenAISettings(base_url=(local_url, server.url), model="big", max_retries=0)
    with LocalRAG.open(library, settings=settings(server, llm=llm_settings), create=False) as rag:
        for _ in range(2):
            rag.ask(QUESTION)
    assert server.bodies
    assert MARKER not in server.heard
    assert "13912345678" not in server.heard
    assert {call["host"] for call in calls(tmp_path) if call["event"] == "sent"} == {
        HOST,
        "127.0.0.1",
    }


def test_calls_at_once() -> None:
    local_url, elsewhere = "http://127.0.0.1:9/v1", "https://models.example/v1"
    assert hosted.calls_at_once(Settings()) == 1
    for urls, calls, count in (
        (local_url, 0, 1),  # nobody says anything
        (elsewhere, 0, 4),
        ((local_url, elsewhere, elsewhere), 0, 5),
        ((local_url, elsewhere), 8, 16),
    ):
        llm = OpenAISettings(base_url=urls, calls=calls)
        assert hosted.calls_at_once(Settings(llm=llm)) == count


def test_doctor_says_which_servers_are_there(server: Hosted, tmp_path: Path) -> None:
    from localrag.cli.doctor import _language_model

    local_url, nobody = server.url.replace(HOST, "127.0.0.1"), "http://[::1]:9/v1"

    def states(*urls: str, quick: bool = False) -> list[str]:
        configuration = settings(server, llm=OpenAISettings(base_url=urls))
        return [
            finding.state
            for finding in _language_model(configuration, factory.make_models(), quick)
        ]

    assert states(local_url, nobody) == ["ok", "ok", "warning"]
    assert states(nobody) == ["ok", "problem"]
    assert states(local_url, server.url) == ["ok", "ok", "ok"]
    assert server.bodies == [b""] * 3
    outgoing_calls = [call for call in calls(tmp_path) if call["event"] == "sent"]
    assert [(call["host"], call["bytes_out"]) for call in outgoing_calls] == [
        ("127.0.0.1", 0),
        (HOST, 0),
    ]
    assert states(local_url, nobody, quick=True) == ["ok"]
    assert len(server.bodies) == 3


def test_a_search_without_the_model_finds_private_documents(server: Hosted, library: Path) -> None:
    with LocalRAG.open(library, settings=settings(server), create=False) as rag:
        hits = rag.search(QUESTION, k=5)
    assert any(MARKER in hit.chunk.text for hit in hits)
    assert server.bodies == []


@pytest.mark.parametrize("mode", ["standard", "self-rag"])
@pytest.mark.parametrize("expansion", ["none", "multi-query", "hyde"])
@pytest.mark.parametrize("reranker", ["none", "llm"])
def test_an_answer_is_made_without_private_passages_and_says_so(
    server: Hosted, library: Path, tmp_path: Path, mode: str, expansion: str, reranker: str
) -> None:
    server.reply = lambda prompt: "Ada Brook kept it; call [REDACTED-1]. [1]"
    configuration = settings(server)
    configuration = msgspec.structs.replace(
        configuration,
        answer=msgspec.structs.replace(configuration.answer, mode=mode),
        retrieval=msgspec.structs.replace(configuration.retrieval, expansion=expansion),
        reranker=LLMReranking() if reranker == "llm" else configuration.reranker,
    )
    with LocalRAG.open(library, settings=configuration, create=False) as rag:
        answer = rag.ask(QUESTION)
        rag.standalone("And who was its keeper?", [Turn(QUESTION, answer.text)])
    assert server.bodies
    assert MARKER not in server.heard
    assert "13912345678" not in server.heard
    assert "electric light" in server.heard
    assert all(MARKER not in context.chunk.text for context in answer.contexts)
    steps = [step.values["left_out"] for step in answer.trace if step.kind == "private"]
    assert steps == [1]
    outgoing_calls = [call for call in calls(tmp_path) if call["event"] == "sent"]
    assert [call["bytes_out"] for call in outgoing_calls] == [len(body) for body in server.bodies]


def test_rows_of_private_sheets_are_computed_by_no_hosted_model(
    server: Hosted, tmp_path: Path
) -> None:
    for folder, name in (("contracts", MARKER), ("open", "Oakley")):
        (tmp_path / "documents" / folder).mkdir(exist_ok=True)
        sheet = tmp_path / "documents" / folder / f"{folder}.csv"
        sheet.write_text(f"Name,Wage\n{name},40000\nBrook,30000\n", encoding="utf-8")
    server.reply = lambda prompt: "SELECT Name FROM data WHERE Wage = 40000"
    private = tmp_path / "documents" / "contracts" / "contracts.csv"
    with LocalRAG.open(tmp_path / "library", settings=settings(server)) as rag:
        rag.add([tmp_path / "documents"])
        dataset, _ = rag.compute("Who earns 40000?")
        assert [Path(source).name for source in dataset.sources] == ["open.csv"]
        for files in (["contracts.csv"], [private]):
            with pytest.raises(UsageError):
                rag.compute("Who earns 40000?", files)
    assert "Oakley" in server.heard
    assert MARKER not in server.heard


def test_three_things_keep_them_back_each_by_itself(
    server: Hosted, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from localrag.rag.private import Outgoing

    with LocalRAG.open(library, settings=settings(server), create=False) as rag:
        monkeypatch.setattr(hosted, "sendable", lambda _, __, wanted=None, tell=None: wanted)
        answer = rag.ask(QUESTION)  # the search finds them, the pipeline leaves them out
        assert server.bodies
        assert all(MARKER not in context.chunk.text for context in answer.contexts)
        monkeypatch.setattr(Outgoing, "sendable", lambda _, chunks: list(chunks))
        with pytest.raises(NetworkBlockedError, match="quotes a private document"):
            rag.ask(QUESTION)  # they are in the prompt, the guard stops it
    assert MARKER not in server.heard


def test_a_model_on_this_machine_reads_everything_and_logs_nothing(
    server: Hosted, library: Path, tmp_path: Path
) -> None:
    local = OpenAISettings(base_url=server.url.replace(HOST, "127.0.0.1"), model="big")
    with LocalRAG.open(library, settings=settings(server, llm=local), create=False) as rag:
        answer = rag.ask(QUESTION)
    assert MARKER in server.heard
    assert "13912345678" in server.heard
    assert not (tmp_path / "state").exists()
    assert all(step.kind != "private" for step in answer.trace)


def test_a_search_reranked_by_the_model_leaves_them_out_and_says_so(
    server: Hosted, library: Path
) -> None:
    server.reply = lambda prompt: '{"relevance": 7}'
    notes: list[str] = []
    configuration = settings(server, reranker=LLMReranking())
    with LocalRAG.open(library, settings=configuration, create=False, on_note=notes.append) as rag:
        hits = rag.search(QUESTION, k=5)
    assert hits
    assert MARKER not in server.heard
    assert "1 passages of private documents were left out" in " ".join(notes)


def test_comparing_rerankers_and_modes_sends_none(server: Hosted, library: Path) -> None:
    from localrag.evaluation.comparisons.base import ComparedQuestion

    with LocalRAG.open(library, settings=settings(server), create=False) as rag:
        rag.compare(QUESTION, reference="It was changed to electric light.")
        list(rag.compare_modes([ComparedQuestion(QUESTION)], ("standard", "self-rag")))
    assert server.bodies
    assert MARKER not in server.heard


def test_a_question_that_quotes_a_private_document_is_refused(
    server: Hosted, library: Path
) -> None:
    quoting = PRIVATE.partition("\n\n")[2][:90]
    with LocalRAG.open(library, settings=settings(server), create=False) as rag:
        with pytest.raises(NetworkBlockedError, match="quotes a private document"):
            rag.ask(f"Is this true: {quoting}?")
        with pytest.raises(NetworkBlockedError, match="quotes a private document"):
            rag.model.llm.complete([consent_message(PRIVATE)], factory.Options())
    assert server.bodies == []


def consent_message(text: str) -> object:
    from localrag.types import Message

    return Message("user", text)


def test_a_document_with_a_private_and_another_path_is_private(
    server: Hosted, library: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "documents" / "copy.md"
    copy.write_text(PRIVATE, encoding="utf-8")
    with LocalRAG.open(library, settings=settings(server)) as rag:
        assert len(rag.add([copy]).linked) == 1
        rag.ask(QUESTION, filter=Filter(sources=("copy.md", "light.md")))
    assert server.bodies
    assert MARKER not in server.heard


def test_what_was_labelled_while_the_library_is_open_counts_at_once(
    server: Hosted, library: Path, tmp_path: Path
) -> None:
    new = tmp_path / "documents" / "contracts" / "more.md"
    with LocalRAG.open(library, settings=settings(server)) as rag:
        rag.ask(QUESTION)
        new.write_text(PRIVATE.replace(MARKER, "Quillmaker"), encoding="utf-8")
        rag.add([new])
        steps: list[Step] = []
        rag.ask(QUESTION, on_step=steps.append)
        assert [s.values["left_out"] for s in steps if s.kind == "private"] == [2]
        with pytest.raises(NetworkBlockedError, match="quotes a private document"):
            rag.model.llm.complete(
                [consent_message(new.read_text(encoding="utf-8"))], factory.Options()
            )
    assert "Quillmaker" not in server.heard


# -- the command line -----------------------------------------------------------------


@pytest.fixture
def run(server: Hosted, library: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    config = Path(os.environ["LOCALRAG_CONFIG"])
    config.write_text(
        f'allow_network = true\n[llm]\nbackend = "openai"\nbase_url = "{server.url}"\n'
        'model = "big"\nmax_retries = 0\n[hosted]\nprivate = ["contracts/*"]\n'
        "redact = ['\\d{11}']\n",
        encoding="utf-8",
    )
    monkeypatch.setenv("LOCALRAG_LIBRARY", str(library))

    def invoke(*arguments: str, reply: str | None = None) -> Result:
        monkeypatch.setattr(asking, "_interactive", lambda: reply is not None)
        return CliRunner().invoke(cli, list(arguments), input=reply)

    return invoke


def test_without_a_terminal_a_yes_is_needed_beforehand(run, server: Hosted, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    output = run("ask", QUESTION)
    assert isinstance(output.exception, NetworkBlockedError)
    assert "localrag --yes" in str(output.exception)
    assert server.bodies == []
    result = run("--yes", "ask", QUESTION)
    assert result.exit_code == 0, result.output
    assert f"To be sent to big at {HOST}" in result.stderr
    assert "1 passages of private documents were left out" in result.stderr
    monkeypatch.setenv("LOCALRAG_HOSTED_CONFIRM", "false")
    assert run("ask", QUESTION).exit_code == 0


def test_in_a_terminal_the_person_decides(run, server: Hosted) -> None:  # type: ignore[no-untyped-def]
    no = run("ask", QUESTION, reply="\n")
    assert isinstance(no.exception, NetworkBlockedError)
    assert server.bodies == []
    yes = run("ask", QUESTION, reply="y\n")
    assert yes.exit_code == 0, yes.output
    assert yes.stderr.count("[y/N]") == 1
    assert "unencrypted" in yes.stderr
    assert "light.md, p. 1, " in yes.stderr
    assert "never sent: 1 passages of private documents" in yes.stderr
    assert "redacted by your patterns: 1 places" in yes.stderr
    assert "electric light" not in yes.stderr
    assert MARKER not in server.heard


@pytest.mark.parametrize("option", ["--show-outgoing", "--debug"])
def test_the_whole_text_is_shown_where_wanted(run, server: Hosted, option: str) -> None:  # type: ignore[no-untyped-def]
    result = run("--yes", option, "ask", QUESTION)
    assert "electric light in 1931" in result.stderr
    assert "[REDACTED-1]" in result.stderr
    assert result.stderr.count("Sent to big at") == len(server.bodies)


@pytest.mark.parametrize("judge", ["one's own", "of a file"])
def test_a_judge_on_another_machine_is_shown_no_answer_from_private_passages(  # type: ignore[no-untyped-def]
    run, server: Hosted, tmp_path: Path, judge: str
) -> None:
    server.reply = lambda prompt: '{"statements": ["x"], "verdict": "yes", "reason": "r"}'
    rows = [
        ("public", "Ada Brook was the keeper.", PUBLIC, "light.md"),
        ("private", f"It was sold to {MARKER}.", PRIVATE, "documents/contracts/sale.md"),
        ("unknown", "Nobody knows Umbrafell.", "A passage about Umbrafell.", ""),
    ]
    data = tmp_path / "questions.json"
    data.write_text(
        json.dumps(
            [
                {
                    "id": name,
                    "question": QUESTION,
                    "answer": answer,
                    "contexts": [{"text": text, "source": source}],
                }
                for name, answer, text, source in rows
            ]
        ),
        encoding="utf-8",
    )
    arguments = ["--yes", "eval", "run", str(data), "--metric", "faithfulness", "--json"]
    if judge == "of a file":  # which says nothing of private documents; one's own settings do
        other = tmp_path / "judge.toml"
        other.write_text(
            f'allow_network = true\n[llm]\nbackend = "openai"\nbase_url = "{server.url}"\n'
            'model = "judge"\nmax_retries = 0\n',
            encoding="utf-8",
        )
        arguments += ["--judge", str(other)]
    result = run(*arguments)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "2 answers are not judged" in result.stderr
    assert "Ada Brook" in server.heard
    assert MARKER not in server.heard
    assert "Umbrafell" not in server.heard


def test_questions_are_not_drafted_from_private_passages(run, server: Hosted) -> None:  # type: ignore[no-untyped-def]
    server.reply = lambda prompt: '{"question": "Who was it?", "answer": "Ada Brook"}'
    result = run("--yes", "eval", "make", "--questions", "2")
    assert result.exit_code == 0, (result.output, result.exception)
    assert server.bodies
    assert MARKER not in server.heard


def test_the_key_is_in_no_output_log_or_file(  # type: ignore[no-untyped-def]
    run, server: Hosted, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    results = []
    for arguments in (
        ("--yes", "--debug", "ask", QUESTION, "--explain"),
        ("config",),
        ("config", "--json"),
        ("doctor", "--quick"),
        ("status",),
    ):
        results.append(run(*arguments))
    server.status = 403  # an error of the server that repeats the key
    results.append(run("--yes", "--debug", "ask", QUESTION))
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    for result in results:
        assert KEY not in result.output + result.stderr + str(result.exception)
    assert KEY not in caplog.text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    files += list(Path(os.environ["LOCALRAG_CONFIG"]).parent.iterdir())
    assert len(files) > 5
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_config_and_doctor_say_where_the_log_is(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    log = str(tmp_path / "state" / "hosted-calls.jsonl")
    assert log in run("config").output
    assert json.loads(run("config", "--json").output)["audit_log"] == log
    output = run("doctor", "--quick", "--json").output
    findings = [finding["text"] for finding in json.loads(output)["findings"]]
    assert any(log in text for text in findings)
    assert any("1 documents are private" in text for text in findings)
