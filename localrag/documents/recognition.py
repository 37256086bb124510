"""Whether text recognition can be used: an installation may leave it out (`--lean`)."""

from __future__ import annotations

from importlib.util import find_spec

PACKAGES = ("cv2", "rapidocr")


def is_installed() -> bool:
    """Whether the packages are there that read pictures of text."""
    return all(find_spec(name) is not None for name in PACKAGES)
