"""A Transport over HTTP/1.1: one session, TLS as the connection says, streams passed on as they come.

HTTP/2 is left off on purpose (rapid-reset attacks; nothing here needs it). Redirects are not followed: an API server sends
none, and a token must not follow one to another host.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Self

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from pumice.kube.closing import leave
from pumice.kube.connection import Connection, TlsContexts
from pumice.kube.credentials import send_with_retry
from pumice.kube.errors import Malformed, Unreachable
from pumice.kube.transport import (
    CALL_S_MAX,
    CONNECT_S_MAX,
    CONNECTIONS_MAX,
    HEADER_BYTES_MAX,
    KEEP_ALIVE_S,
    RESPONSE_BYTES_MAX,
    Request,
    Response,
    cause_text,
    is_stream,
    join_headers,
    target,
)

if TYPE_CHECKING:
    from pumice.kube.credentials import Access

READ_S_MAX = 60.0  # silence in the middle of an answer that is no stream

_CALL_TIMEOUT = aiohttp.ClientTimeout(total=CALL_S_MAX, connect=CONNECT_S_MAX, sock_read=READ_S_MAX)
# Who reads a stream knows how long it may be silent; a dead peer is found by TCP itself.
_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=CONNECT_S_MAX, sock_read=None)
_TCP_KEEP_ALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))


class HttpTransport:
    """Carries calls to one API server. Close it, or use it in `async with`."""

    def __init__(self, connection: Connection, *, user_agent: str) -> None:
        self._connection = connection
        self._server = connection.server.rstrip("/")
        self._tls = TlsContexts(connection)
        self._headers = CIMultiDict([("user-agent", user_agent), *connection.headers])
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, request: Request) -> Response:
        return await send_with_retry(
            self._connection.credentials, lambda access: self._send(request, access), request.guard
        )

    async def _send(self, request: Request, access: Access) -> Response:
        stream = is_stream(request)
        try:
            answer = await self._open().request(
                request.method,
                self._url(request),
                data=request.body or None,
                headers=self._headers_of(request, access, stream=stream),
                timeout=_STREAM_TIMEOUT if stream else _CALL_TIMEOUT,
                ssl=self._tls.current(access),
                server_hostname=self._connection.tls_server_name or None,
                proxy=self._connection.proxy or None,
                allow_redirects=False,
            )
            headers = join_headers(answer.headers.items())
            if stream and answer.status == 200:
                return Response(answer.status, headers, stream=_Chunks(answer, self._server))
            async with answer:
                return Response(answer.status, headers, await _whole(answer, request))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise self._unreachable(request, error) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=CONNECTIONS_MAX, keepalive_timeout=KEEP_ALIVE_S, socket_factory=_socket
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=self._headers,
                max_line_size=HEADER_BYTES_MAX,
                max_field_size=HEADER_BYTES_MAX,
            )
            # aiohttp would by itself repeat a PUT or a DELETE whose connection broke; whether that is safe is our business.
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    def _url(self, request: Request) -> URL:
        return URL(f"{self._server}{target(request)}", encoded=True)

    def _headers_of(self, request: Request, access: Access, *, stream: bool) -> dict[str, str]:
        headers = dict(request.headers)
        # A compressed watch would sit in the compressor until its window is full.
        wants_gzip = self._connection.compress and request.method == "GET" and not stream
        headers["accept-encoding"] = "gzip" if wants_gzip else "identity"
        if access.authorization:
            headers["authorization"] = access.authorization
        return headers

    def _unreachable(self, request: Request, error: Exception) -> Unreachable:
        return Unreachable(
            f"{self._server} gave no answer to {request.method} {request.path}: {_cause(error)}; check the address and "
            f"the certificates in {self._connection.origin}, and that the API server runs",
            acted=not isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError),
        )


class _Chunks:
    """A stream's bytes as they arrive; closing it, or its end, gives the connection back."""

    def __init__(self, answer: aiohttp.ClientResponse, server: str) -> None:
        self._answer = answer
        self._server = server

    def __aiter__(self) -> _Chunks:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._answer.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            await self.aclose()
            raise Unreachable(f"{self._server} broke off a stream: {_cause(error)}; open it again") from error
        if not chunk:
            await self.aclose()
            raise StopAsyncIteration
        return chunk

    async def aclose(self) -> None:
        leave(self._answer)


async def _whole(answer: aiohttp.ClientResponse, request: Request) -> bytes:
    """The body, read only as far as the limit allows."""
    if (
        "content-encoding" not in answer.headers
        and (answer.content_length or RESPONSE_BYTES_MAX + 1) <= RESPONSE_BYTES_MAX
    ):
        return await answer.read()
    chunks = []
    size = 0
    async for chunk in answer.content.iter_any():
        size += len(chunk)
        if size > RESPONSE_BYTES_MAX:
            raise Malformed(
                f"the answer to {request.method} {request.path} is beyond {RESPONSE_BYTES_MAX} bytes; ask for smaller pages"
            )
        chunks.append(chunk)
    return b"".join(chunks)


def _cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection"
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"no connection within {CONNECT_S_MAX:g} s"
    if isinstance(error, TimeoutError):
        return f"no data for {READ_S_MAX:g} s, or not all of it within {CALL_S_MAX:g} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return cause_text(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return cause_text(error.os_error)
    return cause_text(error)


def _socket(address: tuple[int, int, int, str, tuple[object, ...]]) -> socket.socket:
    """A socket that notices within a minute that its peer is gone."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _TCP_KEEP_ALIVE:
        if hasattr(socket, option):  # other systems have other names, or none
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return made
