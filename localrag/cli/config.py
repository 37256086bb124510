"""`localrag config`: every setting, its value, and where to change it."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from localrag.cli.output import emit_json, json_option, note_tr, say, say_tr, stdout_console, table
from localrag.messages import tr
from localrag.printable import as_json, as_name


@click.group(
    invoke_without_command=True,
    subcommand_metavar=tr("[COMMAND] [ARGS]..."),
    help=tr("Show or change settings."),
)
@json_option
@click.pass_context
def config(context: click.Context, as_json: bool) -> None:
    """Without a sub-command: list all settings."""
    if context.invoked_subcommand is None:
        _show(as_json)


@config.command(help=tr("List every setting with its value."))
@json_option
def show(as_json: bool) -> None:
    """Print all settings."""
    _show(as_json)


@config.command(help=tr("Print where the settings file is."))
def path() -> None:
    """Print the path, whether or not the file exists."""
    from localrag.config.settings import settings_path

    say(settings_path())


@config.command(name="set", help=tr("Change a setting, for example: answer.k 6."))
@click.argument("key", metavar=tr("KEY"))
@click.argument("value", metavar=tr("VALUE"))
def set_(key: str, value: str) -> None:
    """Check the value, then write it; other lines and comments of the file stay."""
    from localrag.config.settings import set_in_file

    written = set_in_file(key, value)
    say_tr("{key} is now {value} ({path}).", key=key, value=value, path=written)


@config.command(help=tr("Return a setting to its default."))
@click.argument("key", metavar=tr("KEY"))
def unset(key: str) -> None:
    """Remove the line from the settings file."""
    from localrag.config.settings import unset_in_file

    written = unset_in_file(key)
    say_tr("{key} is back to its default ({path}).", key=key, path=written)


@config.command(
    help=tr(
        "Write localrag's prompts into a folder so that you can change their wording; "
        "answer.prompts names the folder."
    )
)
@click.argument("folder", metavar=tr("DIR"), type=click.Path(file_okay=False, path_type=Path))
def prompts(folder: Path) -> None:
    """Write the prompts, and say how they come into use."""
    from localrag.prompts.own import write_prompts

    for file in write_prompts(folder):
        say(file)
    note_tr(
        "Edit the ones you want to change and delete the others, then run: localrag "
        "config set answer.prompts {path}",
        path=shlex.quote(str(folder.resolve())),
    )


def _show(as_json: bool) -> None:
    from localrag.config.settings import (
        Settings,
        flat,
        load_settings,
        settings_path,
        settings_table,
    )
    from localrag.hosted import audit_log

    effective = settings_table(load_settings())
    log = audit_log().path
    if as_json:
        emit_json({"path": str(settings_path()), "audit_log": str(log), "settings": effective})
        return
    defaults = dict(flat(settings_table(Settings())))
    rows = [
        (key, _text(value), "" if value == defaults.get(key) else _text(defaults.get(key)))
        for key, value in flat(effective)
    ]
    stdout_console().print(table((tr("Setting"), tr("Value"), tr("Default")), rows))
    say_tr("Settings file: {path}", path=settings_path())
    say_tr("Log of calls to models on other machines: {path}", path=log)


def _text(value: object) -> str:
    if isinstance(value, bool | list | tuple):
        return as_json(value)
    return "" if value is None else as_name(value)
