"""The proof finds nothing where nothing leaks, and names who leaks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from http_server import chat, serving

from localrag.cli import prove_offline, proving
from localrag.cli.group import cli
from localrag.cli.proving import STAGES
from localrag.documents.files import parse_file

LEAKY = """
import sqlite3
import leaky_plugin

connect = sqlite3.connect

def leaking(*arguments, **options):
    leaky_plugin.phone_home()
    return connect(*arguments, **options)

sqlite3.connect = leaking
"""
IN_PYTHON = """
import socket

def phone_home():
    try:
        socket.create_connection(("collector.invalid", 443), timeout=1)
    except OSError:
        pass  # as such code does
"""
IN_A_CHILD = """
import subprocess, sys

CODE = "import socket; socket.socket().connect_ex(('203.0.113.7', 443))"

def phone_home():
    subprocess.run([sys.executable, "-S", "-c", CODE])
"""

Run = Callable[..., tuple[int, dict[str, object]]]


def environment(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment with all that is installed here; the folder of its own packages."""
    venv.create(folder, symlinks=os.name != "nt")
    paths = {name: str(folder) for name in ("base", "platbase")}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    site_folders = "\n".join(path for path in sys.path if path.endswith("site-packages"))
    (packages / "here.pth").write_text(site_folders)
    scripts = Path(sysconfig.get_path("scripts", "venv", paths))
    monkeypatch.setattr(sys, "executable", str(scripts / Path(sys.executable).name))
    return packages


@pytest.fixture
def prove(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("LOCALRAG_LLM_MODEL", str(tmp_path / "none.gguf"))

    def run(plugin: str = "") -> tuple[int, dict[str, object]]:
        if plugin:
            packages = environment(tmp_path / "venv", monkeypatch)
            (packages / "sitecustomize.py").write_text(LEAKY)
            (packages / "leaky_plugin.py").write_text(plugin)
        result = CliRunner().invoke(cli, ["prove-offline", "--json"])
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return result.exit_code, json.loads(result.output)

    return run


def stages(proof: dict[str, object]) -> dict[str, str]:
    entries = proof["stages"]
    assert isinstance(entries, list)
    return {stage["name"]: stage["problem"] for stage in entries}


def test_the_samples_are_a_scan_and_office_with_addresses_in_it(tmp_path: Path) -> None:
    samples = proving._samples(tmp_path / "samples")
    pages = {path.name: parse_file(path).pages[0] for path in samples.iterdir()}
    assert {name: page.how for name, page in pages.items() if page.how != "text"} == {
        "scan.pdf": "ocr",
        "scan.png": "ocr",
    }
    assert "Ingrid Solberg" in pages["lighthouse.docx"].text
    with zipfile.ZipFile(samples / "lighthouse.docx") as archive:
        links = [archive.read(name) for name in archive.namelist() if name.endswith(".xml.rels")]
    assert all(b"https://" in link for link in links)
    assert len(links) == 2


@pytest.mark.models("use-multilingual-v3")
def test_nothing_leaks_and_a_missing_model_is_named(
    prove: Run, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    code, proof = prove()
    assert proof["attempts"] == []
    problems = stages(proof)
    runs = ("settings", "add", "search", "check", "doctor", "remove")
    assert [problems[name] for name in runs] == [""] * 6
    assert all(
        "localrag models" in problems[name] for name in ("ask", "self-rag", "eval", "server")
    )
    # What could not run has not been proven.
    assert (code, proof["ok"]) == (1, False)


@pytest.mark.models("use-multilingual-v3", "smollm2-135m-instruct-q4")
@pytest.mark.slow
def test_every_stage_runs_where_the_models_are(
    prove: Run, models_dir: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    models_dir("use-multilingual-v3")
    models_dir("smollm2-135m-instruct-q4")
    monkeypatch.setenv("LOCALRAG_LLM_MODEL", "smollm2-135m-instruct-q4")
    # What so small a model writes does not end by itself, and it takes any question for one of all.
    monkeypatch.setenv("LOCALRAG_ANSWER_MAX_TOKENS", "24")
    monkeypatch.setenv("LOCALRAG_ANSWER_TABLES", "false")
    code, proof = prove()
    problems = stages(proof)
    assert set(problems.values()) == {""}
    assert {"ask", "self-rag", "eval", "check", "doctor"} <= set(problems)
    assert (code, proof["ok"], proof["attempts"]) == (0, True, [])


@pytest.mark.models("use-multilingual-v3")
def test_a_leaky_plugin_is_caught_and_named(prove: Run, models_dir: Callable[[str], Path]) -> None:
    models_dir("use-multilingual-v3")
    code, proof = prove(IN_PYTHON)
    assert (code, proof["ok"]) == (1, False)
    attempts = proof["attempts"]
    assert isinstance(attempts, list)
    first = attempts[0]
    assert first["stage"] == "add"
    assert first["host"] == "collector.invalid"
    assert "leaky_plugin" in first["caller"]
    assert first["origin"].startswith("leaky_plugin.phone_home (")


@pytest.mark.models("use-multilingual-v3")
def test_a_leak_that_python_cannot_see_is_caught_too(
    prove: Run, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    _, proof = prove(IN_A_CHILD)
    if proof["isolation"]:
        pytest.skip("only where the system lets a process have a network of its own")
    attempts = proof["attempts"]
    assert isinstance(attempts, list)
    assert {attempt["event"] for attempt in attempts} == {"kernel"}
    assert sys.executable in attempts[0]["origin"]


def test_a_watched_process_that_dies_proves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = environment(tmp_path / "venv", monkeypatch)
    (packages / "sitecustomize.py").write_text("import os, sys\nos._exit(3)\n")
    result = CliRunner().invoke(cli, ["prove-offline"])
    assert result.exit_code == 1
    assert "exit code 3" in result.output
    assert "not every stage" in result.output


WRITES = """
import sys
from pathlib import Path
report, nonce = sys.argv[1:3]
"""
WHOLE = """
import json
from localrag.cli.proving import STAGES
from localrag.documents.files import parse_file
proof = {"nonce": nonce, "stages": [{"name": name} for name in STAGES]}
"""


@pytest.mark.parametrize(
    ("program", "problem"),
    [
        pytest.param("", "complete report", id="no report"),
        pytest.param("Path(report).write_text('')", "complete report", id="empty"),
        pytest.param("Path(report).write_text('{}')", "complete report", id="nothing in it"),
        pytest.param(
            WHOLE + "Path(report).write_text(json.dumps(proof)[:-30])",
            "complete report",
            id="cut off",
        ),
        pytest.param(
            WHOLE + "proof['nonce'] = '0' * 32; Path(report).write_text(json.dumps(proof))",
            "complete report",
            id="of another run",
        ),
        pytest.param(
            WHOLE + "del proof['nonce']; Path(report).write_text(json.dumps(proof))",
            "complete report",
            id="of nobody",
        ),
        pytest.param(
            WHOLE + "proof['stages'] = []; Path(report).write_text(json.dumps(proof))",
            "did not run",
            id="without stages",
        ),
        pytest.param(
            WHOLE + "del proof['stages'][3]; Path(report).write_text(json.dumps(proof))",
            "did not run",
            id="without one stage",
        ),
        pytest.param(
            WHOLE + "Path(report).write_text(json.dumps(proof)); sys.exit(1)",
            "exit code 1",
            id="whole, and an exit code",
        ),
        pytest.param(
            WHOLE + "proof['unseen'] = ['helper']; Path(report).write_text(json.dumps(proof))",
            "that was not watched: helper",
            id="a process unwatched",
        ),
    ],
)
def test_a_proof_needs_evidence(
    program: str, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove_offline, "PROGRAM", WRITES + program)
    result = CliRunner().invoke(cli, ["prove-offline"])
    assert result.exit_code == 1
    assert problem in result.output
    result = CliRunner().invoke(cli, ["prove-offline", "--json"])
    proof = json.loads(result.output)
    assert (result.exit_code, proof["ok"]) == (1, False)
    # Every stage is named, those too that nobody has heard of.
    assert set(STAGES) <= set(stages(proof))


def test_with_all_of_it_a_proof_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        prove_offline, "PROGRAM", WRITES + WHOLE + "Path(report).write_text(json.dumps(proof))"
    )
    result = CliRunner().invoke(cli, ["prove-offline"])
    assert result.exit_code == 0, result.output


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A language model on this machine that always says the same, set as the one to use."""

    answer = "The lamp was changed to electric light in 1931. [1]"
    with serving(chat(lambda _: answer)) as running:
        monkeypatch.setenv("LOCALRAG_LLM_BACKEND", "openai")
        monkeypatch.setenv("LOCALRAG_LLM_BASE_URL", f"{running.url}/v1")
        yield running.url.removeprefix("http://")


ANOTHER = """
import socket

def phone_home():
    try:
        socket.create_connection(("127.0.0.1", 7890), timeout=1)
    except OSError:
        pass
"""


@pytest.mark.models("use-multilingual-v3")
def test_the_language_model_on_this_machine_is_reported_and_no_failure(
    prove: Run, models_dir: Callable[[str], Path], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models_dir("use-multilingual-v3")
    monkeypatch.delenv("LOCALRAG_LLM_MODEL")
    # A proxy that nobody is to ask.
    for name in ("http_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    code, proof = prove()
    assert server in str(proof["isolation"])
    loopback = proof["loopback"]
    assert isinstance(loopback, list)
    assert {connection["address"] for connection in loopback if not connection["own"]} == {server}
    # The proof's own client and its server are told apart from that.
    assert {connection["stage"] for connection in loopback if connection["own"]} == {"server"}
    assert {"ask", "self-rag"} <= {connection["stage"] for connection in loopback}
    assert (proof["attempts"], proof["unseen"]) == ([], [])
    # The file reader was started, and has answered for itself.
    assert proof["processes"]
    assert stages(proof)["ask"] == stages(proof)["server"] == ""
    assert (code, proof["ok"]) == (0, True), stages(proof)


@pytest.mark.models("use-multilingual-v3")
def test_any_other_server_on_this_machine_is_a_failure(
    prove: Run, models_dir: Callable[[str], Path]
) -> None:
    models_dir("use-multilingual-v3")
    code, proof = prove(ANOTHER)
    attempts = proof["attempts"]
    assert isinstance(attempts, list)
    assert attempts[0]["host"] == "127.0.0.1:7890"
    assert (code, proof["ok"]) == (1, False)


@pytest.mark.models("use-multilingual-v3")
def test_without_a_network_of_its_own_every_process_must_answer_for_itself(
    prove: Run, models_dir: Callable[[str], Path], server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models_dir("use-multilingual-v3")
    monkeypatch.delenv("LOCALRAG_LLM_MODEL")
    code, proof = prove(IN_A_CHILD)
    assert server in str(proof["isolation"])
    unseen = proof["unseen"]
    assert isinstance(unseen, list)
    assert any("203.0.113.7" in name for name in unseen)
    assert (code, proof["ok"]) == (1, False)


def test_counted_packets_start_at_none() -> None:
    code = (
        "from localrag.cli import namespace\n"
        "try:\n    namespace.enter()\nexcept OSError:\n    print('none')\n"
        "else:\n"
        "    import socket\n"
        "    before = namespace.lost_packets()\n"
        "    socket.socket().connect_ex(('203.0.113.7', 9))\n"
        "    print(before, namespace.lost_packets() - before)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    if result.stdout == "none\n":
        pytest.skip("only where the system lets a process have a network of its own")
    assert result.stdout == "0 1\n"
