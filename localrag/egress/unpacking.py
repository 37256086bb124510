"""Bodies of HTTP responses that come packed, unpacked a little at a time.

httpx unpacks a whole block at once, through as many layers as a header names: five kilobytes
become gigabytes before anybody can count them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import httpx

_BLOCK = 1 << 20
"""Bytes that are unpacked at most before somebody else looks."""


def unpack(response: httpx.Response) -> None:
    """A response hook for clients: what is read from then on is plain, in blocks of bounded size.

    Raises `httpx.DecodingError` for anything but plain and gzip, which is all that is asked for.
    """
    packed = response.headers.get("Content-Encoding", "identity").strip().lower()
    if packed in ("", "identity"):
        return
    if packed not in ("gzip", "x-gzip"):
        raise httpx.DecodingError(f"Content-Encoding: {packed}"[:80], request=response.request)
    del response.headers["Content-Encoding"]
    response.stream = _Unpacked(response)


class _Wrapped(httpx.SyncByteStream):
    """The stream of a response, which reads differently."""

    def __init__(self, response: httpx.Response) -> None:
        assert isinstance(response.stream, httpx.SyncByteStream)  # noqa: S101 - of a client
        self._stream = response.stream
        self._request = response.request

    def close(self) -> None:
        self._stream.close()


class _Unpacked(_Wrapped):
    def __iter__(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj(wbits=31)
        try:
            for block in self._stream:
                rest = block
                while rest and not unpacker.eof:
                    yield unpacker.decompress(rest, _BLOCK)
                    rest = unpacker.unconsumed_tail
            while not unpacker.eof and (left := unpacker.decompress(b"", _BLOCK)):
                yield left
        except zlib.error as error:
            raise httpx.DecodingError(str(error), request=self._request) from error
        if not unpacker.eof:
            raise httpx.ReadError("the connection was cut", request=self._request)


def bound(response: httpx.Response, most: int) -> None:
    """Let so many bytes be read of a response, and no more; then `TooLongError` is raised."""
    response.stream = _Bound(response, most)


class TooLongError(httpx.DecodingError):
    """A response has more bytes than it may."""


class _Bound(_Wrapped):
    def __init__(self, response: httpx.Response, most: int) -> None:
        super().__init__(response)
        self._room = most

    def __iter__(self) -> Iterator[bytes]:
        for block in self._stream:
            self._room -= len(block)
            if self._room < 0:
                raise TooLongError("too long", request=self._request)
            yield block
