"""An address that holds a secret, opened in the user's browser."""

from __future__ import annotations

import html
from collections.abc import Iterator
from contextlib import contextmanager

from localrag.egress import proxies
from localrag.system import processes
from localrag.system.files import scratch_folder, write_output

_PAGE = """<!doctype html>
<html><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}"><title>localrag</title></head>
<body><a href="{url}">localrag</a></body></html>
"""


@contextmanager
def opened(url: str) -> Iterator[bool]:
    """Have the browser open it; whether there is one. What leads there is gone with the block.

    Other users see the arguments of every program, so the browser is given a file that only this
    user can read, which sends it on.
    """
    with scratch_folder() as folder:
        page = folder / "localrag.html"
        write_output(page, _PAGE.format(url=html.escape(url)))
        # It connects as the user has set it up.
        yield processes.show(str(page), proxies.named())
