"""What a server on this machine says of itself: the weights behind an address, and its slots."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from localrag.egress import clients, network
from localrag.egress.addresses import is_loopback

_SECONDS = 5.0
_BYTES = 1 << 20
_SEVERAL = 4
"""Calls at once to a server that is known to read several together."""


def served_model(base_url: str, model: str) -> str:
    """The model behind that name as JSON, as far as the server tells: its id, size and shape.

    A server with a single model answers to every name. "" where nothing is told, and for hosts
    other than this machine, which are not asked: their models have versions in their names.
    """
    entries = _models(base_url)
    named = [entry for entry in entries if entry.get("id") == model]
    chosen = named or (entries if len(entries) == 1 else [])
    # Not all of the entry: some servers put the present time into it.
    told = [{name: entry.get(name) for name in ("id", "meta")} for entry in chosen]
    return json.dumps(told, sort_keys=True, ensure_ascii=False) if told else ""


def parallel_calls(base_url: str) -> int:
    """How many calls the server is worth having under way.

    On this machine the slots of llama.cpp's server (`total_slots` of /props), several for vLLM,
    and one otherwise: a server that reads one prompt after the other would only lose its cache,
    and calls that wait might take it for dead. Several for a host elsewhere.
    """
    if not is_here(base_url):
        return _SEVERAL
    if any(entry.get("owned_by") == "vllm" for entry in _models(base_url)):
        return _SEVERAL
    properties = _told(base_url.strip().rstrip("/").removesuffix("/v1") + "/props")
    slots = properties.get("total_slots") if isinstance(properties, Mapping) else None
    return min(max(slots, 1), _SEVERAL) if isinstance(slots, int) else 1


def is_here(base_url: str) -> bool:
    """Whether the server is on this machine; in doubt it is not."""
    try:
        return is_loopback(urlsplit(base_url.strip()).hostname or "")
    except ValueError:
        return False


def is_elsewhere(base_urls: Iterable[str], model: str, *, hosted: bool) -> bool:
    """Whether what is sent to a model goes to another machine, as far as is known or `hosted` says.

    A server on this machine may hand it on: so does Ollama for models called "gpt-oss:120b-cloud".
    """
    name = model.rpartition(":")[2].lower()
    passed_on = hosted or name == "cloud" or name.endswith("-cloud")
    return passed_on or not all(map(is_here, base_urls))


def _models(base_url: str) -> list[Mapping[str, Any]]:
    """The entries of /models; none of a host elsewhere, which is not asked."""
    if not is_here(base_url):
        return []
    listed = _told(base_url.strip().rstrip("/") + "/models")
    entries = listed.get("data") if isinstance(listed, Mapping) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _told(url: str) -> object:
    """The JSON behind an address of this machine; None where there is none."""
    import httpx

    try:
        with network.allow([url]), clients.local_client(_SECONDS) as client:
            reply = client.get(url)
        return json.loads(reply.content[:_BYTES]) if reply.is_success else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
        return None
