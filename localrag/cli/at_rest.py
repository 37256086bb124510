"""Encryption at rest, as `doctor` and `status` tell it: of what lies where, and how to get it."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from localrag.messages import tr
from localrag.system.disk_encryption import Protection, of_path, of_swap

if TYPE_CHECKING:
    from localrag.library.location import Location


def protections(library: Location, *, ask: bool) -> dict[str, tuple[Path | None, Protection]]:
    """For each place that holds documents, or what was made of them; `ask` as in `of_path`."""
    from localrag.factory import cache_folder, make_models

    places = {
        # A database is its server's affair; what this machine keeps of it lies in the cache.
        **({"library": library} if isinstance(library, Path) else {}),
        "models": make_models().folder,
        "cache": cache_folder(),
        "temporary": Path(tempfile.gettempdir()),
    }
    found: dict[str, tuple[Path | None, Protection]] = {
        name: (path, of_path(path, ask=ask)) for name, path in places.items()
    }
    return found | {"swap": (None, of_swap(ask=ask))}


def as_json(found: Mapping[str, tuple[Path | None, Protection]]) -> dict[str, Any]:
    """`encrypted` is true, false or null, which is: it cannot be told."""
    from localrag.presentation.records import plain

    return {
        name: {"path": path and str(path)} | plain(each) for name, (path, each) in found.items()
    }


def sentence(found: Mapping[str, tuple[Path | None, Protection]]) -> str:
    """One line for a person."""
    names = {
        "library": tr("library"),
        "models": tr("models"),
        "cache": tr("cache"),
        "temporary": tr("temporary files"),
        "swap": tr("swap"),
    }
    return tr("; ").join(
        tr("{name}: {state}", name=names[name], state=_state(each))
        for name, (_, each) in found.items()
    )


def advice() -> str:
    """How to get an encrypted volume on this system."""
    if sys.platform == "darwin":
        return tr("Turn FileVault on: System Settings > Privacy & Security.")
    if sys.platform == "win32":
        return tr(
            "Turn on device encryption or BitLocker: Settings > Privacy & security; or keep them "
            "on a drive that BitLocker or VeraCrypt encrypts."
        )
    return tr(
        "Keep them on a volume made with `cryptsetup luksFormat` (most installers offer it for the "
        "whole disk), or in a folder of `gocryptfs`; encrypt swap as well, or turn it off."
    )


def _state(found: Protection) -> str:
    if found.encrypted is None:
        return tr("cannot be determined")
    if found.encrypted:
        if found.by == "none":
            return tr("none")
        return tr("encrypted ({by})", by=found.by)
    return tr("not encrypted")
