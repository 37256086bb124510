"""The `localrag` command: which commands there are, each loaded only when it is wanted."""

from __future__ import annotations

import re
from difflib import get_close_matches
from importlib import import_module

import click

from localrag import __version__
from localrag.cli import hosted, passphrases
from localrag.cli.output import CONTEXT_LIBRARY
from localrag.messages import tr
from localrag.system.key_memory import asking

COMMANDS = (
    "add",
    "ask",
    "search",
    "table",
    "tables",
    "compute",
    "summarise",
    "compare",
    "chat",
    "serve",
    "mcp",
    "status",
    "watch",
    "ahead",
    "show",
    "page",
    "remove",
    "rebuild",
    "jobs",
    "check",
    "export",
    "import",
    "migrate",
    "share",
    "vault",
    "users",
    "grant",
    "audit",
    "models",
    "config",
    "bench",
    "eval",
    "doctor",
    "prove-offline",
    "bundle",
    "completion",
)
"""In the order of first use; `localrag/cli/<name>.py` holds the command, with `_` for `-`."""

MODULES = {
    "export": "transfer:export_library",
    "import": "transfer:import_library",
    "migrate": "transfer:migrate",
    "grant": "users:grant",
    "audit": "users:audit",
}
"""Module and name of those that have not their own."""


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is named."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command of that name, or None."""
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module, _, name = MODULES.get(cmd_name, f"{name}:{name}").partition(":")
        command: click.Command = getattr(import_module(f"localrag.cli.{module}"), name)
        for subcommand in (command, *getattr(command, "commands", {}).values()):
            subcommand.options_metavar = tr("[OPTIONS]")
            # The first sentence whole, which lists of commands wrap; click breaks it off.
            first = re.split(r"(?<=。)|(?<=\.) ", subcommand.help or "", maxsplit=1)[0]
            subcommand.short_help = subcommand.short_help or first
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named. Raises click's error, with the names that are like it."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            near = get_close_matches(args[0], COMMANDS)
            if not near:
                raise
            hint = tr("Did you mean `localrag {name}`?", name=near[0])
            message = f"{error.message} {hint}".replace("。 ", "。")
            raise click.UsageError(message, ctx) from None


@click.group(
    cls=LazyGroup,
    options_metavar=tr("[OPTIONS]"),
    subcommand_metavar=tr("COMMAND [ARGS]..."),
    context_settings={"help_option_names": ["-h", "--help"]},
    help=tr(
        "Ask your own documents, offline: grounded answers with page citations, in English and "
        "Chinese. Nothing leaves this machine."
    ),
    epilog=tr(
        "Begin with: localrag models pull starter, localrag add FOLDER, localrag ask QUESTION."
    ),
)
@click.option(
    "--library",
    metavar=tr("DIR"),
    help=tr("Folder of the library, or postgresql://HOST/DATABASE#NAME (or LOCALRAG_LIBRARY)."),
)
@click.option("--debug", is_flag=True, help=tr("Show the traceback of an error."))
@click.option(
    "--yes", is_flag=True, help=tr("Confirm beforehand what goes to a model on another machine.")
)
@click.option(
    "--show-outgoing",
    is_flag=True,
    help=tr("Show the whole text of what goes to a model on another machine."),
)
@click.option(
    "--passphrase-fd",
    type=click.IntRange(0),
    metavar=tr("NUMBER"),
    help=tr("File descriptor to read the passphrase of a vault from, one per line."),
)
@click.version_option(__version__, "--version", "-V", message="localrag %(version)s")
@click.pass_context
def cli(
    context: click.Context,
    library: str | None,
    debug: bool,
    yes: bool,
    show_outgoing: bool,
    passphrase_fd: int | None,
) -> None:
    """Remember the library, and who is asked before anything leaves this machine.

    `--debug` is read by the entry point too.
    """
    context.ensure_object(dict)[CONTEXT_LIBRARY] = library
    context.obj[passphrases.CONTEXT_DESCRIPTOR] = passphrase_fd
    asking(passphrases.ask)
    hosted.begin(context.invoked_subcommand or "", yes=yes, texts=show_outgoing or debug)
