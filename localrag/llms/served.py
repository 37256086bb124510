"""What a server on this machine says that it serves: the same address may hold other weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from localrag import network

_SECONDS = 5.0
_BYTES = 1 << 20


def served(base_url: str, model: str) -> str:
    """The model behind that name as JSON, as far as the server tells: its id, size and shape.

    A server with a single model answers to every name. "" where nothing is told, and for hosts
    other than this machine, which are not asked: their models have versions in their names.
    """
    import httpx

    try:
        if not network.is_loopback(urlsplit(base_url.strip()).hostname or ""):
            return ""
        # Traffic to this machine must not be led through a proxy.
        with httpx.Client(trust_env=False, timeout=_SECONDS) as client:
            reply = client.get(base_url.strip().rstrip("/") + "/models")
        listed = json.loads(reply.content[:_BYTES])["data"] if reply.is_success else []
        entries = [entry for entry in listed if isinstance(entry, Mapping)]
    except (httpx.HTTPError, ValueError, TypeError, KeyError):
        return ""
    named = [entry for entry in entries if entry.get("id") == model]
    chosen = named or (entries if len(entries) == 1 else [])
    # Not all of the entry: some servers put the present time into it.
    told = [{name: entry.get(name) for name in ("id", "meta")} for entry in chosen]
    return json.dumps(told, sort_keys=True, ensure_ascii=False) if told else ""
