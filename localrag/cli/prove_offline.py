"""`localrag prove-offline`: add, search, ask and evaluate on samples, with the network watched."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import click

from localrag import processes
from localrag.cli.output import emit_json, json_option, printable
from localrag.messages import tr


@click.command(
    name="prove-offline",
    short_help=tr("Watch the network while localrag works, and report every attempt."),
    help=tr(
        "Add, search, ask and evaluate on sample documents with the network watched, and report "
        "every attempt to connect. Exit code 1 if there was one, or if a stage could not run."
    ),
)
@json_option
def prove_offline(as_json: bool) -> None:
    """Run the watched process and report."""
    proof = watched()
    ok = not proof["attempts"] and not any(stage["problem"] for stage in proof["stages"])
    if as_json:
        emit_json({"ok": ok} | proof)
    else:
        _print(proof)
    if not ok:
        raise click.exceptions.Exit(1)


def watched() -> dict[str, Any]:
    """What the watched process reports (`localrag.cli.proving`), as plain values."""
    with tempfile.TemporaryDirectory(prefix="localrag-") as folder:
        report = Path(folder, "report.json")
        # Its own output would mix with ours; its report says all.
        program = "from localrag.cli.proving import main; main()"
        process = processes.run(
            processes.python(program, str(report.absolute()), os.getcwd()),  # noqa: PTH109
            processes.LOCALRAG,
            stderr=processes.PIPE,
        )
        try:
            proof: dict[str, Any] = json.loads(report.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            proof = {"isolation": "", "stages": [], "attempts": [], "processes": []}
        if process.returncode:
            last = process.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
            problem = tr(
                "The watched process ended with exit code {code}: {reason}",
                code=process.returncode,
                reason=last,
            )
            proof["stages"].append({"name": "process", "seconds": 0.0, "problem": problem})
        return proof


def _print(proof: dict[str, Any]) -> None:
    if proof["isolation"]:
        click.echo(
            tr(
                "Watched: every socket of Python. A network of its own cannot be had here "
                "({reason}), so that C code and child processes go unseen.",
                reason=proof["isolation"],
            )
        )
    else:
        click.echo(
            tr(
                "Watched: every socket of Python, and, in a network of its own with loopback "
                "only, everything else."
            )
        )
    for stage in proof["stages"]:
        state = stage["problem"] or tr("ran through")
        click.echo(printable(f"  {stage['name']:<10}{stage['seconds']:8.1f} s  {state}"))
    for one in proof["attempts"]:
        click.echo(printable(_attempt(one)))
    if proof["attempts"]:
        click.echo(tr("{count} attempts to connect.", count=len(proof["attempts"])))
    elif any(stage["problem"] for stage in proof["stages"]):
        click.echo(tr("No attempt to connect, but not every stage could run."))
    else:
        click.echo(tr("No attempt to connect."))


def _attempt(one: dict[str, str]) -> str:
    if one["event"] == "kernel":
        return tr(
            "{stage}: C code or a child process tried to connect. Processes started: {processes}.",
            stage=one["stage"],
            processes=one["origin"] or "-",
        )
    return tr(
        "{stage}: {caller} tried to reach {host}, from {origin}.",
        stage=one["stage"],
        caller=one["caller"],
        host=one["host"],
        origin=one["origin"],
    )
