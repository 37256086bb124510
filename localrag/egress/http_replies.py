"""Reading what a server sends over HTTP, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from localrag.errors import BackendError

if TYPE_CHECKING:
    import httpx


def read(response: httpx.Response, limit: int, *, cut: bool = False) -> bytes:
    """The body, of which more than `limit` bytes is an error, or is left unread with `cut`."""
    parts: list[bytes] = []
    size = 0
    for part in response.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > limit:
            if cut:
                break
            raise too_long(response, limit)
    return b"".join(parts)[:limit]


def too_long(response: httpx.Response, limit: int) -> BackendError:
    """What is said of a body that does not end."""
    return BackendError(
        "{server} sent an answer of more than {limit} bytes.",
        hint="Check that the base URL is that of an OpenAI-compatible server "
        "(it usually ends in /v1).",
        server=response.url.host,
        limit=limit,
    )


def retry_after(response: httpx.Response) -> float | None:
    """Seconds that the server asks us to wait (RFC 9110, section 10.2.3)."""
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    value = response.headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
    except ValueError:
        return None
    if moment.tzinfo is None:  # the zone "-0000"
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - datetime.now(UTC)).total_seconds())
