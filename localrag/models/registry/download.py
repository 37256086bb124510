"""Bring one file over HTTP, resuming where an earlier attempt stopped.

Knows nothing about models: a URL, a partial file, and what the file must be.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from localrag.egress import network
from localrag.egress.addresses import is_loopback
from localrag.egress.http_replies import retry_after
from localrag.errors import ModelCorruptError, SourceFailedError
from localrag.system import files

if TYPE_CHECKING:
    import httpx

ByteProgress = Callable[[int, int], None]
"""Called with the bytes there are by now and the bytes in all (0: not known)."""

Result = TypeVar("Result")

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_WAIT = 30.0

LARGEST_PAGE = 16 << 20
"""Bytes of a page, unpacked: some take a thousand times the room that they came in."""


class _PassingError(Exception):
    """A failure that is worth another attempt, after `wait` seconds if the server said so."""

    def __init__(self, failure: SourceFailedError, wait: float = 0.0) -> None:
        super().__init__(failure)
        self.failure = failure
        self.wait = wait


@dataclass(frozen=True, slots=True)
class Expected:
    """What the bytes must be: `size` 0 and None mean not known.

    `git_sha1` is the name git gives a blob, which hubs publish for small files. `most` bounds
    what is fetched where the size is not known: a server may never come to an end.
    """

    size: int = 0
    sha256: str | None = None
    git_sha1: str | None = None
    most: int = 0

    @property
    def known(self) -> bool:
        """Whether a hash was published at all."""
        return bool(self.sha256 or self.git_sha1)

    @property
    def key(self) -> str:
        """A name for the partial file: the same bytes resume, whatever the source."""
        return self.sha256 or self.git_sha1 or ""

    def fault(self, path: Path) -> ModelCorruptError | None:
        """What is wrong with a file, or None."""
        size = path.stat().st_size
        if self.size and size != self.size:
            return ModelCorruptError(
                "{size} bytes instead of {expected}", size=size, expected=self.size
            )
        if self.sha256 and (digest := sha256_of(path)) != self.sha256:
            return ModelCorruptError(
                "SHA-256 {found} instead of {expected}", found=digest, expected=self.sha256
            )
        if self.git_sha1 and (digest := git_sha1_of(path)) != self.git_sha1:
            return ModelCorruptError(
                "git SHA-1 {found} instead of {expected}", found=digest, expected=self.git_sha1
            )
        return None


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def git_sha1_of(path: Path) -> str:
    """The name git gives the file's bytes as a blob, in hexadecimal."""
    head = hashlib.sha1(b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, lambda: head).hexdigest()


def refused(path: Path, name: str, fault: ModelCorruptError) -> SourceFailedError:
    """What is said of a file that is not what it must be; deletes it."""
    path.unlink()
    return SourceFailedError("{file} is not the published file: {fault}", file=name, fault=fault)


def joined(reasons: Sequence[SourceFailedError]) -> SourceFailedError:
    """Several reasons, of which there is at least one, as one."""
    return reduce(
        lambda first, then: SourceFailedError("{first}; {then}", first=first, then=then), reasons
    )


class Downloader:
    """Downloads with one HTTP client; each hop's host is let through the door for that hop.

    `attempts` counts tries in a row that bring no byte; `pause` is the seconds
    before the second of them, doubled each time.
    """

    def __init__(self, client: httpx.Client, *, attempts: int = 5, pause: float = 0.5) -> None:
        self._client = client
        self._attempts = attempts
        self._pause = pause

    def published(self, url: str) -> Expected:
        """The size and hash that a hub publishes for a file, without its bytes.

        Raises `SourceFailedError` when it cannot be asked or publishes no hash.
        """

        def ask() -> Expected:
            with _exchange(self._client, "HEAD", url, {}) as response:
                expected = _published(response)
                if not expected.known:
                    _check_status(response)
                    raise SourceFailedError("no hash is published for {url}", url=url)
                return expected

        return self._persist(ask, lambda: 0)

    def page(self, url: str, accept: str) -> httpx.Response:
        """A page of text, read whole. Raises `SourceFailedError`."""
        from localrag.egress.unpacking import bound

        def ask() -> httpx.Response:
            headers = {"Accept": accept, "Accept-Encoding": "gzip"}
            with _exchange(self._client, "GET", url, headers) as response:
                _check_status(response)
                bound(response, LARGEST_PAGE)
                response.read()
                return response

        return self._persist(ask, lambda: 0)

    def fetch(self, url: str, partial: Path, expected: Expected, progress: ByteProgress) -> None:
        """Bring `partial` to its whole length; the hash is the caller's to check.

        Raises `SourceFailedError`.
        """

        def have() -> int:
            return partial.stat().st_size if partial.exists() else 0

        def receive() -> None:
            if expected.size and have() > expected.size:
                partial.unlink()
            if expected.size == 0 or have() < expected.size:
                self._receive(url, partial, have(), expected, progress)
            progress(have(), expected.size or have())

        self._persist(receive, have)

    def _persist(self, action: Callable[[], Result], have: Callable[[], int]) -> Result:
        """Repeat after passing faults, as long as bytes arrive now and then."""
        failures = 0
        while True:
            before = have()
            try:
                return action()
            except _PassingError as fault:
                failures = 1 if have() > before else failures + 1
                if failures >= self._attempts:
                    raise fault.failure from fault
                time.sleep(min(fault.wait or self._pause * 2 ** (failures - 1), _LONGEST_WAIT))

    def _receive(
        self, url: str, partial: Path, have: int, expected: Expected, progress: ByteProgress
    ) -> None:
        headers = {"Range": f"bytes={have}-"} if have else {}
        with _exchange(self._client, "GET", url, headers, expected) as response:
            if response.status_code == 416:
                # Either the file was whole already, or it is not the one it was.
                if _number(response, "Content-Range", r"/(\d+)$") != have:
                    partial.unlink()
                    raise _PassingError(SourceFailedError("the file changed on the server"))
                return
            _check_status(response)
            first = _number(response, "Content-Range", r"bytes (\d+)-")
            if response.status_code != 206 or first != have:
                have = 0
            length = _number(response, "Content-Length", r"^(\d+)$")
            total = expected.size or (0 if length is None else have + length)
            most = expected.size or expected.most
            with (files.append_file if have else files.overwrite_file)(partial) as stream:
                # No block size of our own: what httpx still gathers is lost when it is cut.
                for block in response.iter_bytes():
                    have += len(block)
                    if most and have > most:
                        raise SourceFailedError("more than the {most} bytes expected", most=most)
                    stream.write(block)
                    progress(have, total)
            if total and have < total:
                raise _PassingError(SourceFailedError("the connection was cut"))


@contextmanager
def _exchange(
    client: httpx.Client,
    method: str,
    url: str,
    headers: dict[str, str],
    expected: Expected | None = None,
) -> Iterator[httpx.Response]:
    """One request with its redirects; a HEAD ends where a hash is published.

    Behind a hub's redirect stands a plain file store, which publishes nothing
    that could be trusted as a hash.
    """
    import httpx

    from localrag.egress.unpacking import TooLongError

    try:
        here = first = httpx.URL(url)
        for _ in range(10):
            _check_scheme(here, first)
            with (
                network.allow([str(here)]),
                client.stream(method, here, headers=headers) as response,
            ):
                linked = _published(response, linked_only=True).sha256
                if expected and expected.sha256 and linked not in (None, expected.sha256):
                    raise SourceFailedError(
                        "SHA-256 {found} instead of {expected}",
                        found=linked,
                        expected=expected.sha256,
                    )
                if response.status_code not in _REDIRECTS or (
                    method == "HEAD" and _published(response).known
                ):
                    yield response
                    return
            here = here.join(response.headers.get("Location", ""))
    except TooLongError as error:
        raise SourceFailedError(
            "the page from {host} has more than {size} bytes", host=here.host, size=LARGEST_PAGE
        ) from error
    except httpx.DecodingError as error:
        raise SourceFailedError(
            "what {host} sent cannot be unpacked: {reason}", host=here.host, reason=error
        ) from error
    except httpx.HTTPError as error:
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            raise SourceFailedError(
                "the certificate of {host} is not trusted (see SSL_CERT_FILE)", host=here.host
            ) from error
        detail = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        failure = SourceFailedError("{host}: {detail}", host=here.host, detail=detail)
        raise _PassingError(failure) from error
    except httpx.InvalidURL as error:
        raise SourceFailedError("no valid address at {host}", host=here.host) from error
    raise SourceFailedError("too many redirects from {host}", host=first.host)


def _check_status(response: httpx.Response) -> None:
    status = response.status_code
    if status in (200, 206):
        return
    failure = SourceFailedError("HTTP {status} from {host}", status=status, host=response.url.host)
    if status in _PASSING:
        raise _PassingError(failure, retry_after(response) or 0.0)
    raise failure


def _check_scheme(url: httpx.URL, first: httpx.URL) -> None:
    if url.scheme not in ("http", "https") or not url.host:
        raise SourceFailedError("no valid address at {host}", host=url.host)
    if is_loopback(url.host) and not is_loopback(first.host):
        raise SourceFailedError("a redirect to this machine, from {host}", host=first.host)
    if first.scheme == "https" and url.scheme == "http":
        raise SourceFailedError("a redirect from https to http, to {host}", host=url.host)


def _published(response: httpx.Response, *, linked_only: bool = False) -> Expected:
    """What a hub says of a file: X-Linked-Etag (SHA-256), or ETag (git's SHA-1) when small."""
    linked = response.headers.get("X-Linked-Etag")
    tag = linked or ("" if linked_only else response.headers.get("ETag", ""))
    tag = tag.removeprefix("W/").strip('"').lower()
    size = _number(response, "X-Linked-Size", r"^(\d+)$")
    if size is None and response.status_code not in _REDIRECTS:
        size = _number(response, "Content-Length", r"^(\d+)$")
    if re.fullmatch(r"[0-9a-f]{64}", tag):
        return Expected(size or 0, sha256=tag)
    if re.fullmatch(r"[0-9a-f]{40}", tag):
        return Expected(size or 0, git_sha1=tag)
    return Expected(size or 0)


def _number(response: httpx.Response, header: str, pattern: str) -> int | None:
    match = re.search(pattern, response.headers.get(header, ""))
    return int(match[1]) if match else None
