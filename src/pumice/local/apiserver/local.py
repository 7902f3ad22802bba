"""The server as a Transport: clients in the same process call it without a socket in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.local.apiserver.request_parsing import ROOT

if TYPE_CHECKING:
    from pumice.kube.transport import Request, Response
    from pumice.local.apiserver.server import Server


class LocalTransport:
    """Carries requests to a server in this process, as its administrator."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def call(self, request: Request) -> Response:
        return await self._server.handle(request, ROOT)

    async def close(self) -> None:
        """Nothing is held."""
