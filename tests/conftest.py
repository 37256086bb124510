"""Fixtures that every room's tests share."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def models_dir() -> Callable[[str], Path]:
    """The folder of a pulled model by id; skips, with the reason, where it is not on disk."""
    base = Path(os.environ.get("LOCALRAG_MODELS", ROOT / "models"))

    def folder(model: str) -> Path:
        path = base / model
        if not path.is_dir():
            pytest.skip(f"model {model} is not on disk: run `localrag models pull {model}`")
        return path

    return folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Evaluation data that is not part of the project; skips where it is not beside it."""
    path = ROOT.parent / "shared" / "data"
    if not path.is_dir():
        pytest.skip("no evaluation data in ../shared/data beside the checkout")
    return path


@pytest.fixture(autouse=True)
def _own_user_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's own settings, and messages are in English."""
    monkeypatch.setenv("LOCALRAG_CONFIG", str(tmp_path_factory.mktemp("config") / "config.toml"))
    monkeypatch.setenv("LOCALRAG_LANG", "en")
    monkeypatch.delenv("LOCALRAG_LIBRARY", raising=False)
