"""What the contract of a library is tested over: a folder, and a database."""

from __future__ import annotations

from pathlib import Path

import pytest
from library_fixtures import Where

from localrag.egress.databases import read_url
from localrag.library.location import Location


@pytest.fixture(params=["folder", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> Where:
    """Places for libraries that only this test uses."""
    if request.param == "folder":
        return lambda name="one", /: tmp_path / name
    url = request.getfixturevalue("postgres")

    def place(name: str = "one", /) -> Location:
        return read_url(f"{url}#{tmp_path.name} {name}")

    return place
