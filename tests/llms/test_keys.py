from __future__ import annotations

import pickle
import sys
import types
from pathlib import Path

import pytest

from localrag.errors import ConfigError
from localrag.models.llms.openai.keys import Secret, find_key

KEY = "sk-canary-4711"


class Ring(types.ModuleType):
    """A keyring with one entry; `fault` is raised instead where it is set."""

    fault: Exception | None = None

    def get_password(self, service: str, user: str) -> str | None:
        if self.fault:
            raise self.fault
        return f" {KEY}\n" if (service, user) == ("models/eu", "ada") else None


@pytest.fixture
def ring(monkeypatch: pytest.MonkeyPatch) -> Ring:
    keyring, errors = Ring("keyring"), types.ModuleType("keyring.errors")
    errors.KeyringError = type("KeyringError", (Exception,), {})  # type: ignore[attr-defined]
    keyring.errors = errors  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    monkeypatch.setitem(sys.modules, "keyring.errors", errors)
    return keyring


def test_the_environment_comes_first_then_the_keyring(ring: Ring) -> None:
    assert find_key("K", "models/eu/ada", {"K": "other"}).reveal() == "other"
    assert find_key("K", "models/eu/ada", {"K": " "}).reveal() == KEY
    assert not find_key("K", "", {})


def test_a_file_comes_before_the_keyring(ring: Ring, tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(" from-a-file\n")
    assert find_key("K", "models/eu/ada", {"K": "other"}, file=str(file)).reveal() == "other"
    assert find_key("K", "models/eu/ada", {}, file=str(file)).reveal() == "from-a-file"
    file.unlink()
    with pytest.raises(ConfigError, match=r"in .*key cannot be read"):
        find_key("K", "models/eu/ada", {}, file=str(file))


@pytest.mark.parametrize(
    ("entry", "said"),
    [("ada", "must look like service/user"), ("/ada", "must look"), ("x/ada", "has no entry")],
)
def test_an_entry_that_is_not_there(ring: Ring, entry: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        find_key("K", entry, {})


def test_a_locked_keyring(ring: Ring) -> None:
    ring.fault = ring.errors.KeyringError("locked")  # type: ignore[attr-defined]
    with pytest.raises(ConfigError, match=r"cannot be read: locked\. Unlock it"):
        find_key("K", "models/eu/ada", {})


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(ConfigError, match="pip install keyring"):
        find_key("K", "models/eu/ada", {})


def test_a_secret_shows_itself_nowhere() -> None:
    secret = Secret(KEY)
    assert KEY not in f"{secret} {secret!r} {[secret]}"
    with pytest.raises(TypeError, match="not written"):
        pickle.dumps(secret)
