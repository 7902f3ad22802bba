"""How a request reaches an API server: over HTTP, or by a call within this process.

The embedded server answers these very Requests with these very Responses, so that a client cannot tell the two apart.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlencode

import msgspec

from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping


class Request(Value):
    """One call: `path` without query, header names in lower case, a body of at most BODY_BYTES_MAX.

    `guard` raises where the call must not leave any more. Who makes the call has asked it; a transport asks again before it sends
    a second time, or where fetching credentials took its time.
    """

    method: str
    path: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    guard: Callable[[], None] | None = None


class Response(Value):
    """An answer: a whole body, or for a watch and a log that is followed a stream of chunks that the reader must exhaust or close.

    Chunks of a watch need not end at line ends. Header names are in lower case.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    stream: AsyncIterator[bytes] | None = None


BODY_BYTES_MAX = 3 * 2**20  # kube-apiserver's own limit for a request
CONNECT_S_MAX = 5.0  # name, connection and TLS: no longer than a leader's margin between its last check and its write
CONNECTIONS_MAX = 256  # of one transport, to the API server
KEEP_ALIVE_S = 60.0  # kube-apiserver closes idle connections after 90 s: we are first, so no call meets a closing one
CALL_S_MAX = 65.0  # kube-apiserver gives up by itself after 60 s
RESPONSE_BYTES_MAX = 256 * 2**20  # a page of 500 objects; the largest object is 3 MiB
HEADER_BYTES_MAX = 64 * 2**10  # warnings are headers

_PATH_SAFE = "/:@!$&'()*+,;=~"


class Transport(Protocol):
    """Carries one request to one API server; raises kube.errors.Unreachable where no answer came."""

    async def call(self, request: Request) -> Response: ...

    async def close(self) -> None: ...


def cause_text(error: BaseException) -> str:
    """What a person calls it: `Connection refused`, and not the socket's address, an errno or a context of the TLS library."""
    if isinstance(error, ConnectionError) and error.errno:
        return os.strerror(error.errno)
    return (isinstance(error, OSError) and error.strerror) or str(error) or type(error).__name__


def is_stream(request: Request) -> bool:
    """Whether the answer goes on until either side ends it: a watch, or a log that is followed."""
    query = request.query
    return request.method == "GET" and (
        _true(query.get("watch")) or (_true(query.get("follow")) and request.path.endswith("/log"))
    )


def _true(value: str | None) -> bool:
    return value in {"true", "1"}


def target(request: Request) -> str:
    """Path and query as they stand in a URL."""
    query = f"?{urlencode(request.query)}" if request.query else ""
    return f"{quote(request.path, safe=_PATH_SAFE)}{query}"


def join_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Header names in lower case; values of one that comes several times joined by commas, as HTTP has it."""
    joined: dict[str, str] = {}
    for name, value in pairs:
        key = name.lower()
        joined[key] = f"{joined[key]}, {value}" if key in joined else value
    return joined
