"""`localrag completion`: the line that turns on shell completion."""

from __future__ import annotations

import click

from localrag.cli.output import say_text
from localrag.messages import tr


@click.command(help=tr("Print the shell completion script for bash, zsh or fish."))
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script; `eval "$(localrag completion bash)"` turns it on."""
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(shell)
    root = context.find_root()
    say_text(kind(root.command, {}, "localrag", "_LOCALRAG_COMPLETE").source())
