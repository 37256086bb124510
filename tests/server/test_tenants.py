"""Some of what `benchmarks/tenants.py` asks: nothing foreign is found, and holes are."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from localrag import factory
from localrag.egress.databases import read_url
from localrag.library.backends.postgres import policies

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture
def tenants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (BENCHMARKS / "tenants.py").is_file():
        pytest.skip("benchmarks/ is not here")
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import tenants.finding
    import tenants.holes
    import tenants.timing
    import tenants.world

    monkeypatch.setattr(factory, "make_model", tenants.world.quoting)
    return tenants


@pytest.fixture
def database(postgres: str, tmp_path: Path) -> Iterator[str]:
    """One of its own: where there are users, nothing is done for nobody."""
    from localrag.library.backends.postgres.catalogue import PostgresCatalogue

    name = re.sub(r"\W", "_", f"tenants_{tmp_path.name}".lower())
    server = PostgresCatalogue(read_url(f"{postgres}#none"))
    with closing(server), server.session() as inner:
        inner.execute(f"CREATE DATABASE {name}")
        yield postgres.replace("/postgres?", f"/{name}?").replace("/postgres#", f"/{name}#")
        inner.execute(f"DROP DATABASE {name} WITH (FORCE)")
        inner.execute(f"DROP ROLE IF EXISTS {policies.MEMBER}, {policies.SERVER}")


def found(tenants: ModuleType, database: str, count: int) -> Any:
    async def run() -> Any:
        async with tenants.world.world(database) as world:
            return await tenants.finding.requests(world, count, seed=3)

    return asyncio.run(run())


def test_nobody_finds_what_is_in_a_library_of_others(tenants: ModuleType, database: str) -> None:
    result = found(tenants, database, 300)
    assert result.leaks == []
    assert result.foreign > 60
    assert result.twins > 50
    assert result.own > 500


@pytest.mark.parametrize("leak", ["both", "names", "context"])
def test_a_hole_made_by_hand_is_found(tenants: ModuleType, database: str, leak: str) -> None:
    with tenants.holes.leaking(leak):
        assert found(tenants, database, 300).leaks


def test_a_difference_in_time_is_found_where_there_is_one(tenants: ModuleType) -> None:
    noise = [0.001 + 0.0001 * ((n * 7919) % 100) / 100 for n in range(400)]
    slower = [value + 0.00001 for value in reversed(noise)]
    assert tenants.timing.difference("", slower, noise).p < 0.01
    assert tenants.timing.difference("", [*reversed(noise)], noise).p > 0.05
