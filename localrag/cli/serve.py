"""`localrag serve`: libraries for a page and for other people's clients."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from localrag.cli.output import (
    any_library_option,
    no_empty_path,
    note,
    note_rebuilding,
    note_tr,
    say_tr,
)
from localrag.messages import tr

PORT = 8765
HOST = "127.0.0.1"

if TYPE_CHECKING:
    from localrag.library.location import Location


@click.command(
    help=tr(
        "Serve libraries on this machine: a page in the browser, and an OpenAI-compatible "
        "interface for other clients."
    )
)
@click.argument("folders", nargs=-1, metavar=tr("[DIR...]"), callback=no_empty_path)
@click.option(
    "--host",
    default=HOST,
    metavar=tr("ADDRESS"),
    help=tr(
        "Address to listen at; {host} unless said otherwise. Beyond this machine only with "
        "--tls-cert and --tls-key.",
        host=HOST,
    ),
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=PORT,
    metavar=tr("PORT"),
    help=tr("Port to listen on; {port} unless said otherwise.", port=PORT),
)
@click.option(
    "--tls-cert",
    type=click.Path(path_type=Path),
    metavar=tr("FILE"),
    help=tr("Certificate (PEM) by whose names the server is called, for TLS."),
)
@click.option(
    "--tls-key",
    type=click.Path(path_type=Path),
    metavar=tr("FILE"),
    help=tr("Key of the certificate (PEM)."),
)
@click.option(
    "--behind-proxy",
    metavar="URL",
    help=tr("Address of a reverse proxy on this machine that speaks TLS: https://NAME[:PORT]."),
)
@click.option(
    "--socket",
    "at",
    type=click.Path(path_type=Path),
    metavar=tr("PATH"),
    help=tr("Unix socket to listen on for the reverse proxy, instead of a port."),
)
@click.option(
    "--sign-on-header",
    metavar=tr("NAME"),
    help=tr("Header in which the reverse proxy names who has signed in there."),
)
@click.option(
    "--sign-on-secret",
    type=click.Path(path_type=Path),
    metavar=tr("FILE"),
    help=tr(
        "Secret that the reverse proxy sends in X-Localrag-Secret; or in {variable}.",
        variable="LOCALRAG_SIGN_ON_SECRET",
    ),
)
@click.option(
    "--add-from",
    "add_from",
    multiple=True,
    metavar=tr("FOLDER"),
    type=click.Path(path_type=Path),
    help=tr(
        "Folder of which queued jobs may add files, for libraries in a database; may be repeated."
    ),
)
@click.option(
    "--no-jobs",
    "does_jobs",
    is_flag=True,
    flag_value=False,
    default=True,
    help=tr("Only answer, and leave queued jobs to other servers."),
)
@click.option("--open", "opens", is_flag=True, help=tr("Open the page in the browser."))
@any_library_option
def serve(
    folders: tuple[str, ...],
    host: str,
    port: int,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: str | None,
    at: Path | None,
    sign_on_header: str | None,
    sign_on_secret: Path | None,
    add_from: tuple[Path, ...],
    does_jobs: bool,
    opens: bool,
    library: Location,
) -> None:
    """Serve until interrupted."""
    from localrag.system.memory import wipe_what_is_freed

    wipe_what_is_freed()
    from localrag.cli import browser
    from localrag.config.settings import load_settings
    from localrag.engine import Engine, open_engine
    from localrag.errors import LibraryNotFoundError, UsageError
    from localrag.hosted import calls_at_once, reachable
    from localrag.library.backends.opening import backend_of
    from localrag.library.location import location_of, name_of
    from localrag.server import endpoint
    from localrag.server.access import Access
    from localrag.server.ahead import ReadingAhead
    from localrag.server.app import make_app
    from localrag.server.commands import command_app
    from localrag.server.libraries import Libraries
    from localrag.server.listening import bind, on_socket, run
    from localrag.server.node import Node
    from localrag.server.people import People, sign_on_of, users_of
    from localrag.server.queue import ModelQueue
    from localrag.server.reach import reach
    from localrag.server.token import TOKEN_VARIABLE, own_token, server_folder
    from localrag.system.key_memory import asking

    for path in add_from:
        if not path.is_dir():
            note_tr(
                "The folder {folder} of --add-from is not there: nothing can be added from it "
                "until it is.",
                folder=str(path),
            )
    reached = reach(host, tls_cert, tls_key, behind_proxy, over_socket=at is not None)
    sign_on = sign_on_of(sign_on_header, sign_on_secret, over_socket=at is not None)
    settings = load_settings()
    places = [library, *map(location_of, folders)]
    there = [reachable(place, settings) for place in places]
    users = click.get_current_context().with_resource(users_of(there))
    if sign_on is not None and (users is None or behind_proxy is None):
        raise UsageError(
            "Single sign-on is for libraries in a database that has users, behind a reverse proxy.",
            hint="Name the proxy with --behind-proxy, and add users with `localrag users add`.",
        )
    people = None if users is None else People(users, sign_on)

    begun = False

    def opened(folder: Location) -> Engine:
        try:
            return open_engine(
                folder, settings, create=False, on_damage=note_rebuilding, serving=True
            )
        except LibraryNotFoundError:
            # It was deleted, or its name mistyped.
            if begun or folder != library or backend_of(there[0]).has_others(there[0]):
                raise
            return open_engine(folder, settings, create=True, serving=True)

    place = server_folder() / "token"
    libraries = Libraries(places, opened, shared=people is not None)
    empty = libraries.begin()
    begun = True
    asking(lambda _: None)  # from here, whoever asks is told that a vault is closed
    token = "" if people is not None else own_token(place)
    access = Access(
        token,
        port,
        names=reached.names,
        tls=reached.tls is not None,
        proxy=reached.proxy,
        people=people,
    )
    listening = on_socket(at) if at is not None else bind(reached.host, port)

    def ready() -> None:
        # What is not a terminal may be a log that others read.
        address = url if sys.stdout.isatty() else access.origins[0]
        say_tr("Serving {names} at {url}", names=", ".join(map(name_of, places)), url=address)
        for name in empty:
            note_tr(
                "The library {name} is empty: drop files on the page, or add them with "
                "`localrag add`.",
                name=name,
            )
        if people is not None:
            note_tr(
                "People sign in with their tokens from `localrag users`; the token of this "
                "account does not count here. Ctrl-C ends it."
            )
        else:
            held_in = TOKEN_VARIABLE if TOKEN_VARIABLE in os.environ else place
            note_tr("Clients need the token in {place}. Ctrl-C ends it.", place=held_in)
        if sign_on is not None:
            note_tr(
                "Whom the reverse proxy names in the header {header} is signed in.",
                header=sign_on_header,
            )
        if opens and not stack.enter_context(browser.opened(url)):
            note_tr("No browser was found; open the address above in one.")

    url = f"{access.origins[0]}/" + (f"#token={token}" if token else "")
    queue = ModelQueue(calls_at_once(settings))
    with listening as port_or_socket, ExitStack() as stack:
        # Commands of this account would be asked by nobody in particular.
        way = None if people is not None else stack.enter_context(endpoint.listening(place.parent))
        commands = (command_app(libraries, queue, way[0], token, note), way[1]) if way else None
        node = Node(libraries, add_from) if does_jobs else None
        ahead = ReadingAhead(libraries, queue) if settings.ahead.serve else None
        app = make_app(libraries, access, queue, note, node, ahead)
        run(app, port_or_socket, ready, commands, reached.tls)
