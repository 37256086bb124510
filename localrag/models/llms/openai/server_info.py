"""What a server on this machine says of itself: the weights behind an address, and its slots."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from localrag.egress import clients, network
from localrag.egress.addresses import is_loopback

_SECONDS = 5.0
_BYTES = 1 << 20
_ASKED_AGAIN = 60.0
"""Seconds for which it counts what a server has said of where its model runs."""
_SEVERAL = 4
"""Calls at once to a server that is known to read several together."""


_lock = threading.Lock()
_remote_hosts: dict[tuple[str, str], tuple[str, float]] = {}
"""By address and model: the host that the server named, and until when that counts."""


def served_model(base_url: str, model: str) -> str:
    """The model behind that name as JSON, as far as the server tells: its id, size and shape.

    A server with a single model answers to every name. "" where nothing is told, and for hosts
    other than this machine, which are not asked: their models have versions in their names.
    """
    entries = _models(base_url)
    named = [entry for entry in entries if entry.get("id") == model]
    chosen = named or (entries if len(entries) == 1 else [])
    # Not all of the entry: some servers put the present time into it.
    identities = [{name: entry.get(name) for name in ("id", "meta")} for entry in chosen]
    return json.dumps(identities, sort_keys=True, ensure_ascii=False) if identities else ""


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
    properties = _json_of(base_url.strip().rstrip("/").removesuffix("/v1") + "/props")
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

    A server on this machine may hand it on: so does Ollama for models called "gpt-oss:120b-cloud",
    and it says so of those that have another name.
    """
    name = model.rpartition(":")[2].lower()
    if hosted or name == "cloud" or name.endswith("-cloud"):
        return True
    return any(not is_here(url) or handed_on_to(url, model) for url in base_urls)


def handed_on_to(base_url: str, model: str) -> str:
    """The host to which a server on this machine hands on what that model is sent; "" if unknown.

    Ollama says it (`remote_host` of /api/show); it is asked again when a minute has passed, and at
    once where it did not reply in time.
    """
    key, now = (base_url, model), time.monotonic()
    with _lock:
        host, until = _remote_hosts.get(key, ("", 0.0))
    if now < until:
        return host
    server = base_url.strip().rstrip("/").removesuffix("/v1")
    try:
        details = _json_of(f"{server}/api/show", {"model": model})
    except ConnectionError:  # nothing is there that could hand anything on
        return ""
    except TimeoutError:
        return host
    fields = details if isinstance(details, Mapping) else {}
    named = (fields.get(field) for field in ("remote_host", "remote_model"))
    host = next((value for value in named if isinstance(value, str) and value), "")
    with _lock:
        _remote_hosts[key] = host, now + _ASKED_AGAIN
    return host


def _models(base_url: str) -> list[Mapping[str, Any]]:
    """The entries of /models; none of a host elsewhere, which is not asked."""
    if not is_here(base_url):
        return []
    listed = _json_of(base_url.strip().rstrip("/") + "/models")
    entries = listed.get("data") if isinstance(listed, Mapping) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, Mapping)]


def _json_of(url: str, question: object = None) -> object:
    """The JSON behind an address of this machine; None if there is none.

    `question` is sent along, as JSON. If it is given, raises ConnectionError where nobody listens,
    and TimeoutError where there is no reply in time.
    """
    import httpx

    method = "GET" if question is None else "POST"
    try:
        with network.allow([url]), clients.local_client(_SECONDS) as client:
            reply = client.request(method, url, json=question)
        return json.loads(reply.content[:_BYTES]) if reply.is_success else None
    except httpx.ConnectError as error:
        if question is None:
            return None
        raise ConnectionError from error
    except httpx.TimeoutException as error:
        if question is None:
            return None
        raise TimeoutError from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError):
        return None
