"""Entry point of the `localrag` command: guards first, then the command, errors as paragraphs."""

from __future__ import annotations

import io
import os
import sys

# `python -m localrag` would import from the current folder before anything that is installed.
if not sys.flags.safe_path and __name__ == "__main__" and sys.path[0] == os.getcwd():  # noqa: PTH109
    _here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))  # noqa: PTH100, PTH120
    if sys.path[0] != _here:
        del sys.path[0]

from typing import NoReturn

INTERRUPTED = 130
"""The shell's exit code for a process ended by Ctrl-C (128 + SIGINT)."""


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    from localrag.egress import network
    from localrag.system import processes

    network.close_doors()
    # Libraries start programs too; relative entries would find them in the current folder.
    os.environ["PATH"] = processes.search_path() or os.path.dirname(sys.executable)  # noqa: PTH120

    import click

    from localrag.cli.output import guard_streams, note
    from localrag.errors import LocalragError
    from localrag.messages import SOURCE, interface_language, spoken, tr
    from localrag.printable import as_name

    # Chinese must print wherever it goes: a pipe, a Windows console, a terminal with LANG=C.
    # What drives a terminal prints nowhere.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    guard_streams()

    if interface_language() != SOURCE:
        from localrag.cli import click_texts

        click_texts.install()

    # After the line above: a command takes some of click's texts when it is defined.
    from localrag.cli.group import cli

    debug = "--debug" in sys.argv[1:] or os.environ.get("LOCALRAG_DEBUG", "") not in ("", "0")
    try:
        with processes.command_line():
            code = cli.main(prog_name="localrag", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:  # its text is the help, line by line
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.message = as_name(error.message)  # type: ignore[misc] # it may quote what was typed
        error.show()
        sys.exit(error.exit_code)
    except (KeyboardInterrupt, click.Abort):
        note(tr("Stopped. Everything reported as done is kept."))
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`| head`); nothing is left to tell it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if debug:
            _say_where(error)
            sys.exit(1)
        if isinstance(error, LocalragError):
            note(tr("Error: {message}", message=spoken(error)))
            sys.exit(error.exit_code)
        if isinstance(error, PermissionError) and error.filename is not None:
            note(
                tr(
                    "Error: {path} cannot be used: {reason}. Check that you may read and write "
                    "there, or name another place.",
                    path=error.filename,
                    reason=error.strerror,
                )
            )
            sys.exit(1)
        note(
            tr(
                "Error: something went wrong inside localrag ({kind}: {reason}). "
                "Run the same command with --debug to see where, and please report it.",
                kind=type(error).__name__,
                reason=error,
            )
        )
        sys.exit(1)


def _say_where(error: Exception) -> None:
    """The traceback. An error's text may have lines, which are indented: none stands alone."""
    import traceback

    from localrag.cli.output import say_text

    for part in traceback.TracebackException.from_exception(error).format():
        say_text(part.rstrip("\n").replace("\n", "\n    "), err=True)


if __name__ == "__main__":
    main()
