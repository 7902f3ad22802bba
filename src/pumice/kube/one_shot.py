"""A Transport for commands that ask a question or two: it is ready before an HTTP library would have been imported.

Importing aiohttp takes as long as everything else that `pumice job list` does. One connection is kept, and calls take turns
on it. Streams and proxies are left to HttpTransport, which is imported when the first of them comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import zlib
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from pumice.kube.connection import Connection, TlsContexts
from pumice.kube.credentials import send_with_retry
from pumice.kube.errors import Malformed, Unreachable
from pumice.kube.transport import (
    CALL_S_MAX,
    CONNECT_S_MAX,
    HEADER_BYTES_MAX,
    RESPONSE_BYTES_MAX,
    Request,
    Response,
    cause_text,
    is_stream,
    join_headers,
    target,
)

if TYPE_CHECKING:
    import ssl

    from pumice.kube.credentials import Access
    from pumice.kube.http import HttpTransport

_SECOND_ADDRESS_S = 0.25  # how long the first of several addresses may keep the next one waiting
_GZIP = 16 + zlib.MAX_WBITS
_BODILESS = frozenset({204, 304})


class BriefTransport:
    """Carries calls to one API server, one after the other. Close it, or use it in `async with`."""

    def __init__(self, connection: Connection, *, user_agent: str) -> None:
        self._connection = connection
        self._server = urlsplit(connection.server.rstrip("/"))
        self._user_agent = user_agent
        self._tls = TlsContexts(connection)
        self._kept: _Line | None = None
        self._turn = asyncio.Lock()
        self._library: HttpTransport | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        await self._hang_up()
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
        connected = False
        async with self._turn:
            try:
                line = await self._line(secure)
                connected = True
                async with asyncio.timeout(CALL_S_MAX):
                    line.writer.write(self._head(request, access) + request.body)
                    response = await _answer(line.reader, asked)
            except BaseException as error:  # also when we are cancelled in the middle: no call may read on from there
                await self._hang_up()
                if isinstance(error, OSError | EOFError | asyncio.LimitOverrunError):
                    raise self._unreachable(asked, _cause(error, connected=connected), acted=connected) from error
                raise
            if response.headers.get("connection", "").lower() == "close":
                await self._hang_up()
        return response

    async def _line(self, secure: ssl.SSLContext | None) -> _Line:
        if self._kept is not None and self._kept.secure is secure:
            return self._kept
        await self._hang_up()
        host = self._server.hostname or ""
        async with asyncio.timeout(CONNECT_S_MAX):
            reader, writer = await asyncio.open_connection(
                host,
                self._server.port or (443 if secure else 80),
                ssl=secure,
                server_hostname=(self._connection.tls_server_name or host) if secure else None,
                limit=HEADER_BYTES_MAX,
                happy_eyeballs_delay=_SECOND_ADDRESS_S,
            )
        self._kept = _Line(secure, reader, writer)
        return self._kept

    async def _hang_up(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.writer.transport.abort()  # TLS would say goodbye and wait for an answer
            with contextlib.suppress(OSError):
                await kept.writer.wait_closed()

    def _head(self, request: Request, access: Access) -> bytes:
        gzip = self._connection.compress and request.method == "GET"
        headers = [
            ("host", self._server.netloc.rpartition("@")[2]),
            ("user-agent", self._user_agent),
            ("accept-encoding", "gzip" if gzip else "identity"),
            *self._connection.headers,
            *request.headers.items(),
        ]
        if access.authorization:
            headers.append(("authorization", access.authorization))
        if request.body or request.method in {"POST", "PUT", "PATCH"}:
            headers.append(("content-length", str(len(request.body))))
        lines = [f"{request.method} {self._server.path}{target(request)} HTTP/1.1", *(f"{n}: {v}" for n, v in headers)]
        if any("\r" in line or "\n" in line for line in lines):
            raise Malformed(
                f"{self._connection.origin}: a header holds a line break; correct the token or the user's name"
            )
        return "\r\n".join([*lines, "", ""]).encode()

    def _unreachable(self, asked: str, cause: str, *, acted: bool) -> Unreachable:
        return Unreachable(
            f"{self._connection.server.rstrip('/')} gave no answer to {asked}: {cause}; check the address and the "
            f"certificates in {self._connection.origin}, and that the API server runs",
            acted=acted,
        )


class _Line(NamedTuple):
    """An open connection, and the TLS context that it began with."""

    secure: ssl.SSLContext | None
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


async def _answer(reader: asyncio.StreamReader, asked: str) -> Response:
    """One whole answer; a peer that speaks no HTTP is an error of ours."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("utf-8", "surrogateescape").rstrip("\r\n").split("\r\n")
    version, _, rest = first.partition(" ")
    if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
        raise Malformed(f"the answer to {asked} is no HTTP: it begins with {first[:40]!r}; is this an API server?")
    status, headers = int(rest[:3]), join_headers(map(_header, lines))
    try:
        body = b"" if status in _BODILESS else await _body(reader, headers, asked)
        if headers.get("content-encoding") == "gzip":
            body = _unpack(body, asked)
    except (ValueError, zlib.error) as error:
        raise Malformed(f"the answer to {asked} is garbled: {error}; is this an API server?") from error
    return Response(status, headers, body)


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name.strip(), value.strip()


async def _body(reader: asyncio.StreamReader, headers: dict[str, str], asked: str) -> bytes:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        chunks: list[bytes] = []
        total = 0
        while size := int((await reader.readline()).partition(b";")[0], 16):
            total += size
            _check_size(total, asked)
            chunks.append(await reader.readexactly(size))
            await reader.readexactly(2)
        while (await reader.readline()).strip():
            pass  # trailers say nothing to us
        return b"".join(chunks)
    length = int(headers.get("content-length", "0"))
    _check_size(length, asked)
    return await reader.readexactly(length)


def _unpack(body: bytes, asked: str) -> bytes:
    packed = zlib.decompressobj(_GZIP)
    unpacked = packed.decompress(body, RESPONSE_BYTES_MAX)
    _check_size(len(unpacked) + len(packed.unconsumed_tail), asked)
    return unpacked


def _check_size(size: int, asked: str) -> None:
    if size > RESPONSE_BYTES_MAX:
        raise Malformed(f"the answer to {asked} is beyond {RESPONSE_BYTES_MAX} bytes; ask for smaller pages")


def _cause(error: BaseException, *, connected: bool) -> str:
    if isinstance(error, TimeoutError):
        return f"not all of it within {CALL_S_MAX:g} s" if connected else f"no connection within {CONNECT_S_MAX:g} s"
    if isinstance(error, EOFError | ConnectionError) and connected:
        return "the server closed the connection"
    return cause_text(error)
