"""How our processes listen: connections are counted, idle ones give way to new ones, and a request must come soon.

A connection costs memory before it has said a word (a quarter of a MiB with TLS), so there is a largest number of them. Where it is
reached, the connection that has been idle for longest is closed for the next one; where every one has a request under way, new ones
wait in the backlog. A client that keeps connections opens another; one that only holds them open keeps no other client out.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import resource
import socket
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web

from pumice.digits import whole_number
from pumice.errors import BadInput, Conflict
from pumice.kube.closing import end
from pumice.values import Value

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

BACKLOG: Final = 1024
PORT_MAX: Final = 65_535
DESCRIPTORS_MAX: Final = 2**16  # as many as we ask for, where the system lets us
ACCEPT_AGAIN_S: Final = 0.1  # after the system had no descriptor or no memory for a connection


class Limits(Value):
    """Of one address."""

    connections: int
    request_s: float = 10.0  # from the connection to the end of its first request's header
    keep_alive_s: float = 75.0
    drain_s: float = 10.0  # for requests under way when we stop
    buffer_bytes: int = 2**14  # that a connection may be ahead of its reader
    line_bytes: int = 2**13  # of a request's first line: method and address
    lingering_s: float = 0.0  # for the rest of a body that is refused: who waits until it is sent hears why


def host_and_port(address: str, *, flag: str = "--listen") -> tuple[str, int]:
    """The flag is the one that asked for the address."""
    host, _, port = address.rpartition(":")
    number = whole_number(port, most=PORT_MAX)
    if number is None:
        raise BadInput(f"{flag} {address!r}: expected host:port, such as 127.0.0.1:8080, with a port up to {PORT_MAX}")
    return host.strip("[]") or "0.0.0.0", number  # noqa: S104  asked for by `:8080`


class Listener:
    """Serves an application, or one function for all requests, on one address, until stopped."""

    def __init__(
        self, application: web.Application | Handler, limits: Limits, *, context: ssl.SSLContext | None = None
    ) -> None:
        self._limits = limits
        self._context = context
        self._connections: dict[_Connection, None] = {}  # the one that has been idle for longest first
        self._by_transport: dict[asyncio.BaseTransport, _Connection] = {}
        self._news = asyncio.Event()  # a connection is gone, or has become idle
        self._tasks: set[asyncio.Task[None]] = set()
        self._socket: socket.socket | None = None
        self._runner = self._runner_of(application)

    def _runner_of(self, application: web.Application | Handler) -> web.BaseRunner:
        limits = self._limits
        options: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": limits.keep_alive_s,
            "read_bufsize": limits.buffer_bytes,
            "max_line_size": limits.line_bytes,
            "lingering_time": limits.lingering_s,
        }
        if isinstance(application, web.Application):
            application.middlewares.append(self._watch)
            return web.AppRunner(application, shutdown_timeout=limits.drain_s, **options)
        serving = web.Server(functools.partial(self._watch, handler=application), **options)
        return web.ServerRunner(serving, shutdown_timeout=limits.drain_s)

    @property
    def connections(self) -> int:
        return len(self._connections)

    async def start(self, address: str, *, flag: str = "--listen") -> int:
        """Listen on `host:port` (port 0: a free one); the port."""
        try:
            return await self.listen(*host_and_port(address, flag=flag))
        except OSError as error:
            raise Conflict(
                f"{flag} {address!r}: nothing can listen there ({error.strerror or error}); choose another"
            ) from error

    async def listen(self, host: str, number: int) -> int:
        """The same; an OSError where the port cannot be had."""
        _raise_descriptor_limit()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, number), family=family, backlog=BACKLOG)
        await self._runner.setup()
        self._socket.setblocking(False)
        self._spawn(self._accept(self._socket))
        return int(self._socket.getsockname()[1])

    async def stop(self) -> None:
        """Closes the port first, then waits for the requests under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._socket is not None:
            self._socket.close()
        await end(self._runner)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ------------------------------------------------------------------------------------------------- connections

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listening)
            except OSError:
                await asyncio.sleep(ACCEPT_AGAIN_S)
                continue
            while len(self._connections) >= self._limits.connections and not self._drop_idle():
                self._news.clear()
                await self._news.wait()
            assert self._runner.server is not None
            connection = _Connection(self, self._runner.server())
            self._connections[connection] = None
            connection.handshake = self._spawn(self._connect(connection, accepted))

    async def _connect(self, connection: _Connection, accepted: socket.socket) -> None:
        """Into the protocol's hands, behind TLS where we speak it."""
        loop = asyncio.get_running_loop()
        seconds = self._limits.request_s if self._context is not None else None
        try:
            await loop.connect_accepted_socket(
                lambda: connection, accepted, ssl=self._context, ssl_handshake_timeout=seconds
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError is an OSError, too
            self.forget(connection)
            accepted.close()
            if isinstance(error, asyncio.CancelledError):
                raise
        else:
            loop.call_later(self._limits.request_s, self._expect_request, connection)

    def _expect_request(self, connection: _Connection) -> None:
        if not connection.has_asked:
            connection.drop()

    def _drop_idle(self) -> bool:
        idle = next((each for each in self._connections if not each.requests), None)
        if idle is None:
            return False
        self.forget(idle)
        idle.drop()
        return True

    def opened(self, connection: _Connection, transport: asyncio.BaseTransport) -> None:
        """The connection can be told by its transport from now on."""
        self._by_transport[transport] = connection

    def forget(self, connection: _Connection) -> None:
        """It does not count any more."""
        self._connections.pop(connection, None)
        if connection.transport is not None:
            self._by_transport.pop(connection.transport, None)
        self._news.set()

    @web.middleware
    async def _watch(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """A connection with a request under way is not idle."""
        connection = self._by_transport.get(request.transport) if request.transport is not None else None
        if connection is None:
            return await handler(request)
        connection.has_asked = True
        connection.requests += 1
        try:
            return await handler(request)
        finally:
            connection.requests -= 1
            if connection in self._connections:  # idle since now
                del self._connections[connection]
                self._connections[connection] = None
            self._news.set()


class _Connection(asyncio.Protocol):
    """A protocol of aiohttp's, and what we know of its connection."""

    def __init__(self, listener: Listener, inner: asyncio.Protocol) -> None:
        self._listener = listener
        self._inner = inner
        self.transport: asyncio.Transport | None = None
        self.handshake: asyncio.Task[None] | None = None
        self.has_asked = False
        self.requests = 0

    def drop(self) -> None:
        """Close it at once."""
        if self.transport is not None:
            self.transport.abort()
        elif self.handshake is not None:
            self.handshake.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._listener.opened(self, transport)
        self._inner.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._listener.forget(self)
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()


def _raise_descriptor_limit() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_MAX)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # the system forbids it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
