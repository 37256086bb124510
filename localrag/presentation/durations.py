"""Times as a person says them."""

from __future__ import annotations

from localrag.messages import tr


def duration(seconds: float) -> str:
    """In seconds, minutes or hours."""
    if seconds < 90:
        return tr("{count} s", count=round(seconds))
    if seconds < 5400:
        return tr("{count} min", count=round(seconds / 60))
    return tr("{count:.1f} h", count=seconds / 3600)
