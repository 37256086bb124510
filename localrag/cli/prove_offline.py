"""`localrag prove-offline`: add, search, ask and evaluate on samples, with the network watched."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from localrag.cli.output import emit_json, json_option, say, say_tr
from localrag.messages import tr
from localrag.system import processes
from localrag.system.files import scratch_folder

if TYPE_CHECKING:
    from localrag.cli.proving import Proof


PROGRAM = "from localrag.cli.proving import main; main()"


@click.command(
    name="prove-offline",
    short_help=tr("Watch the network while localrag works, and report every attempt to connect."),
    help=tr(
        "Add, search, ask and evaluate on sample documents with the network watched, and report "
        "every attempt to connect. Exit code 1 if there was one, if a stage could not run, or if a "
        "process was not watched."
    ),
)
@json_option
def prove_offline(as_json: bool) -> None:
    """Run the watched process and report."""
    proof = watched()
    problems = any(stage["problem"] for stage in proof["stages"])
    ok = not (proof["attempts"] or proof["unseen"] or problems)
    if as_json:
        emit_json({"ok": ok} | proof)
    else:
        _print(proof)
    if not ok:
        raise click.exceptions.Exit(1)


def watched() -> dict[str, Any]:
    """What the watched process reports (`localrag.cli.proving`), as plain values.

    Every stage is in it; one that the process does not answer for has a problem.
    """
    from localrag.cli.proving import STAGES, ProofStage

    nonce = secrets.token_hex(16)
    with scratch_folder() as folder:
        report = folder / "report.json"
        # Its own output would mix with ours; its report says all.
        process = processes.run(
            processes.python(
                PROGRAM,
                str(report.absolute()),
                nonce,
                os.getcwd(),  # noqa: PTH109
                *_server(),
            ),
            processes.LOCALRAG,
            stderr=processes.PIPE,
        )
        proof, is_complete = _read(report, nonce)
        if process.returncode:
            last = process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            problem = tr(
                "The watched process ended with exit code {code}: {reason}",
                code=process.returncode,
                reason=last,
            )
            proof.stages.append(ProofStage("process", problem=problem))
        elif not is_complete:
            problem = tr("The watched process ended without a complete report of this run.")
            proof.stages.append(ProofStage("process", problem=problem))
        seen = {stage.name for stage in proof.stages}
        missing = [name for name in STAGES if name not in seen]
        proof.stages += [ProofStage(name, problem=tr("did not run")) for name in missing]
        plain = asdict(proof)
        del plain["nonce"]
        return plain


def _server() -> list[str]:
    """The addresses of the language model, where it is another program on this machine."""
    from localrag.config.settings import OpenAISettings, load_settings
    from localrag.errors import LocalragError
    from localrag.hosted import is_hosted

    try:
        settings = load_settings()
    except LocalragError:
        return []  # the watched process says it
    if isinstance(settings.llm, OpenAISettings) and not is_hosted(settings):
        return [", ".join(settings.llm.base_urls)]
    return []


def _read(report: Path, nonce: str) -> tuple[Proof, bool]:
    """What is in the report, and whether it is whole and from this run."""
    import msgspec

    from localrag.cli.proving import Proof

    try:
        proof = msgspec.json.decode(report.read_bytes(), type=Proof)
    except (OSError, msgspec.MsgspecError):
        return Proof(nonce), False
    return (proof, True) if secrets.compare_digest(proof.nonce, nonce) else (Proof(nonce), False)


def _print(proof: dict[str, Any]) -> None:
    if proof["isolation"]:
        say_tr(
            "Watched: every Python socket. A separate network is not available here "
            "({reason}), so C code and child processes go unseen.",
            reason=proof["isolation"],
        )
    else:
        say_tr(
            "Watched: every Python socket and, in a separate network with loopback only, "
            "everything else."
        )
    for stage in proof["stages"]:
        state = stage["problem"] or tr("completed")
        say(f"  {stage['name']:<10}{stage['seconds']:8.1f} s  {state}")
    for line in _local(proof["loopback"]):
        say(line)
    for name in proof["unseen"]:
        say_tr("A process was started that was not watched: {name}", name=name)
    for attempt in proof["attempts"]:
        say(_attempt(attempt))
    if proof["attempts"]:
        say_tr("{count} attempts to connect.", count=len(proof["attempts"]))
    elif proof["unseen"]:
        say_tr("No attempt to connect was seen, but not every process was watched.")
    elif any(stage["problem"] for stage in proof["stages"]):
        say_tr("No attempt to connect, but not every stage could run.")
    else:
        say_tr("No attempt to connect.")


def _local(connections: list[dict[str, Any]]) -> Iterator[str]:
    """A line for every server on this machine that was reached."""
    counts: Counter[tuple[str, bool]] = Counter()
    for connection in connections:
        counts[connection["address"], connection["own"]] += connection["count"]
    for (address, own), count in counts.items():
        yield tr(
            "On this machine: {count} connections to {address} ({what}).",
            count=count,
            address=address,
            what=tr("localrag's own") if own else tr("named in the settings"),
        )


def _attempt(attempt: dict[str, str]) -> str:
    if attempt["event"] == "kernel":
        return tr(
            "{stage}: C code or a child process tried to connect. Processes started: {processes}.",
            stage=attempt["stage"],
            processes=attempt["origin"] or "-",
        )
    return tr("{stage}: {caller} tried to reach {host}, from {origin}.", **attempt)
