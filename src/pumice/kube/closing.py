"""How connections are left: at once. TLS would say goodbye and wait for an answer, longer than our event loop may live."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import aiohttp
    from aiohttp import web


def leave(answer: aiohttp.ClientResponse) -> None:
    """Ends an answer where it stands, and its connection with it."""
    connection = answer.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()
    answer.close()


async def end(runner: web.BaseRunner) -> None:
    """Stops serving: calls under way have the runner's time to end, and peers that never answer cost no more than that."""
    server = runner.server
    transports = [each.transport for each in server.connections if each.transport is not None] if server else []
    await runner.cleanup()
    for transport in transports:
        transport.abort()
