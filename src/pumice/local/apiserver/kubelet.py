"""Logs from nodes: the server asks the node's agent for them, on the port that the node announces, as it would a kubelet."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING
from urllib.parse import quote

import aiohttp

from pumice.kube.closing import leave
from pumice.local.apiserver import failures
from pumice.local.apiserver.pod_subresources import no_logs

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping
    from pathlib import Path

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.store import Object

CONNECT_S_MAX = 5.0
ERROR_BYTES_MAX = 4_096
_PASSED_ON = ("follow", "previous", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "timestamps", "stream")
# A follower reads as long as the container lives; only connecting is timed.
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S_MAX)


class KubeletLogs:
    """Reads containers' output from nodes' agents over HTTPS, proving who asks with a client certificate."""

    def __init__(self, backend: Backend, certificate: Path, key: Path) -> None:
        self._backend = backend
        # Like a real server without --kubelet-certificate-authority: the agent must know us, we need not know it.
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname = False
        self._context.verify_mode = ssl.CERT_NONE
        self._context.load_cert_chain(certificate, key)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def read(self, pod: Object, container: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]:
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        address = self._address(node)
        if not address:
            return _nothing(node)
        where = "/".join(quote(part, safe="") for part in (metadata["namespace"], metadata["name"], container))
        url = f"{address}/containerLogs/{where}"
        query = {name: options[name] for name in _PASSED_ON if name in options}
        if self._session is None:
            self._session = aiohttp.ClientSession()
        try:
            answer = await self._session.get(
                url, params=query, ssl=self._context, timeout=_TIMEOUT, allow_redirects=False
            )
        except (aiohttp.ClientError, TimeoutError) as error:
            raise failures.internal(f"the agent of node {node} cannot be asked: {error}") from error
        if answer.status != 200:
            text = (await answer.content.read(ERROR_BYTES_MAX)).decode(errors="replace").strip()
            leave(answer)
            raise failures.Failure(answer.status if 400 <= answer.status < 600 else 500, "BadRequest", text)
        return _chunks(answer)

    def _address(self, node: str) -> str:
        """Where the node's agent answers; empty for one that keeps no logs."""
        status = (self._backend.find("nodes", "", node) or {}).get("status") or {}
        port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
        address = next((a["address"] for a in status.get("addresses") or () if a["type"] == "InternalIP"), "")
        if not port or not address:
            return ""
        host = f"[{address}]" if ":" in address else address
        return f"https://{host}:{port}"


async def _nothing(node: str) -> AsyncGenerator[bytes, None]:
    """What stands in for a log that nothing writes: a client that asks for it is no error."""
    yield no_logs(node)


async def _chunks(answer: aiohttp.ClientResponse) -> AsyncGenerator[bytes, None]:
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    finally:
        leave(answer)
