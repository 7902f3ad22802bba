"""A Transport that speaks HTTP/1.1 itself: a call costs half of what it costs through an HTTP library.

It is what processes write with, hundreds of pods a second; and commands that ask a question or two are done before the library would have
been imported. Connections are kept for the next call, and one call at a time is on each. Streams and proxies are left to HttpTransport,
which is imported when the first of them comes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

from pumice.kube.answers import Answer
from pumice.kube.connection import Connection, TlsContexts
from pumice.kube.credentials import send_with_retry
from pumice.kube.errors import Malformed, Unreachable
from pumice.kube.transport import (
    CALL_S_MAX,
    CONNECT_S_MAX,
    CONNECTIONS_MAX,
    KEEP_ALIVE_S,
    Request,
    Response,
    cause_text,
    is_stream,
    target,
)

if TYPE_CHECKING:
    import ssl

    from pumice.kube.credentials import Access
    from pumice.kube.http import HttpTransport

_SECOND_ADDRESS_S = 0.25  # how long the first of several addresses may keep the next one waiting


class DirectTransport:
    """Carries calls to one API server. Close it, or use it in `async with`."""

    def __init__(self, connection: Connection, *, user_agent: str, connections_max: int = CONNECTIONS_MAX) -> None:
        self._connection = connection
        self._server = urlsplit(connection.server.rstrip("/"))
        self._user_agent = user_agent
        host = self._server.netloc.rpartition("@")[2]
        headers = [("host", host), ("user-agent", user_agent), *connection.headers]
        self._headers = [f"{name}: {value}" for name, value in headers]
        self._tls = TlsContexts(connection)
        self._kept: list[_Line] = []  # nobody uses them; the one that was used last is the next one to be
        self._free = asyncio.Semaphore(connections_max)
        self._library: HttpTransport | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        kept, self._kept = self._kept, []
        for line in kept:
            line.hang_up()
        await asyncio.sleep(0.0)  # sockets are closed in the loop's next round
        if self._library is not None:
            await self._library.close()
            self._library = None

    async def call(self, request: Request) -> Response:
        if self._connection.proxy or is_stream(request):
            return await self._by_library().call(request)
        return await send_with_retry(
            self._connection.credentials, lambda access: self._send(request, access), request.guard
        )

    def _by_library(self) -> HttpTransport:
        if self._library is None:
            from pumice.kube.http import HttpTransport

            self._library = HttpTransport(self._connection, user_agent=self._user_agent)
        return self._library

    async def _send(self, request: Request, access: Access) -> Response:
        context = self._tls.current(access)
        secure = None if isinstance(context, bool) else context
        asked = f"{request.method} {request.path}"
        message = self._head(request, access) + request.body
        line: _Line | None = None
        try:
            async with asyncio.timeout(CONNECT_S_MAX) as limit, self._free:
                line = self._reusable(secure) or await self._connect(secure)
                limit.reschedule(line.loop.time() + CALL_S_MAX)
                response = await line.ask(message, Answer(asked))
        except BaseException as error:  # also when we are cancelled in the middle: no call may read on from there
            if line is not None:
                line.hang_up()
            if isinstance(error, OSError):
                raise self._unreachable(asked, _cause(error, line), acted=line is not None) from error
            raise
        if line.is_open and response.headers.get("connection", "").lower() != "close":
            line.rests_since = line.loop.time()
            self._kept.append(line)
        else:
            line.hang_up()
        return response

    def _reusable(self, secure: ssl.SSLContext | None) -> _Line | None:
        while self._kept:
            line = self._kept.pop()
            if line.is_open and line.secure is secure and line.loop.time() - line.rests_since < KEEP_ALIVE_S:
                return line
            line.hang_up()
        return None

    async def _connect(self, secure: ssl.SSLContext | None) -> _Line:
        host = self._server.hostname or ""
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(
            lambda: _Line(secure, loop),
            host,
            self._server.port or (443 if secure else 80),
            ssl=secure,
            server_hostname=(self._connection.tls_server_name or host) if secure else None,
            happy_eyeballs_delay=_SECOND_ADDRESS_S,
        )
        return line

    def _head(self, request: Request, access: Access) -> bytes:
        gzip = self._connection.compress and request.method == "GET"
        lines = [
            f"{request.method} {self._server.path}{target(request)} HTTP/1.1",
            *self._headers,
            f"accept-encoding: {'gzip' if gzip else 'identity'}",
            *(f"{name}: {value}" for name, value in request.headers.items()),
        ]
        if access.authorization:
            lines.append(f"authorization: {access.authorization}")
        if request.body or request.method in {"POST", "PUT", "PATCH"}:
            lines.append(f"content-length: {len(request.body)}")
        head = "\r\n".join([*lines, "", ""])
        if head.count("\n") + head.count("\r") != 2 * len(lines) + 2:
            raise Malformed(
                f"{self._connection.origin}: a header holds a line break; correct the token or the user's name"
            )
        return head.encode()

    def _unreachable(self, asked: str, cause: str, *, acted: bool) -> Unreachable:
        return Unreachable(
            f"{self._connection.server.rstrip('/')} gave no answer to {asked}: {cause}; check the address and the "
            f"certificates in {self._connection.origin}, and that the API server runs",
            acted=acted,
        )


class _Line(asyncio.Protocol):
    """A connection, and the TLS context that it began with."""

    def __init__(self, secure: ssl.SSLContext | None, loop: asyncio.AbstractEventLoop) -> None:
        self.secure = secure
        self.loop = loop
        self.rests_since = 0.0
        self.is_open = True
        self._transport: asyncio.Transport | None = None
        self._answer: Answer | None = None
        self._whole: asyncio.Future[Response] | None = None

    def ask(self, message: bytes, answer: Answer) -> asyncio.Future[Response]:
        self._answer, self._whole = answer, self.loop.create_future()
        if self._transport is None or not self.is_open:
            raise ConnectionResetError
        self._transport.write(message)
        return self._whole

    def hang_up(self) -> None:
        """At once: TLS would say goodbye and wait for an answer."""
        self.is_open = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # one that is written to

    def data_received(self, data: bytes) -> None:
        answer, whole = self._answer, self._whole
        if answer is None or whole is None or whole.done():
            self.hang_up()  # nobody has asked
            return
        try:
            response = answer.feed(data)
        except Malformed as error:
            whole.set_exception(error)
            return
        if response is not None:
            whole.set_result(response)
            self._answer = self._whole = None
            if answer.has_more:
                self.hang_up()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        if self._answer is None or self._whole is None or self._whole.done():
            return
        response = self._answer.end() if exc is None else None
        if response is not None:
            self._whole.set_result(response)
        else:
            self._whole.set_exception(exc or ConnectionResetError())


def _cause(error: OSError, line: _Line | None) -> str:
    if isinstance(error, TimeoutError):
        return f"no connection within {CONNECT_S_MAX:g} s" if line is None else f"not all of it within {CALL_S_MAX:g} s"
    if isinstance(error, ConnectionError) and line is not None:
        return "the server closed the connection"
    return cause_text(error)
