"""What was read ahead, for a reader and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from localrag.messages import tr

if TYPE_CHECKING:
    from localrag.models.llms.llama_cpp.state_files import AheadState


def kept_text(states: Sequence[AheadState]) -> str:
    """How many sections, megabytes, and when the last one was read."""
    if not states:
        return tr("none")
    last = datetime.fromtimestamp(max(state.made for state in states)).astimezone()
    return tr(
        "{sections} {sections:section|sections}, {megabytes:.0f} MB, the last on "
        "{last:%Y-%m-%d %H:%M}",
        sections=len(states),
        megabytes=sum(state.size for state in states) / 1e6,
        last=last,
    )


def kept_json(states: Sequence[AheadState]) -> dict[str, Any]:
    """The same; `last` in ISO 8601, UTC, null where there is none."""
    timestamp = max((state.made for state in states), default=None)
    last = timestamp and datetime.fromtimestamp(timestamp, UTC).isoformat(timespec="seconds")
    return {
        "sections": len(states),
        "bytes": sum(state.size for state in states),
        "last": last,
    }
