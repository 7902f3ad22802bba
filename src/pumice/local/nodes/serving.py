"""A node's port, where an API server asks for containers' logs, as it asks a kubelet.

    GET /containerLogs/{namespace}/{pod}/{container}?follow=true&tailLines=10...

On loopback and TLS. Who asks must prove who it is, by a certificate of the cluster's authority or by a token, and the API
server must say that it may: the same rule as a kubelet's (get on nodes/proxy).
"""

from __future__ import annotations

import datetime as dt
import ssl
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from aiohttp import web

from pumice import certificates
from pumice.api.kinds import Kind
from pumice.errors import BadInput, NotFound
from pumice.kube import errors
from pumice.kube.closing import end
from pumice.local.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from pumice.kube.client import Client

SHUTDOWN_S_MAX = 1.0
_TOKEN_REVIEW = Kind("authentication.k8s.io", "v1", "TokenReview", "tokenreviews", namespaced=False)
_ACCESS_REVIEW = Kind("authorization.k8s.io", "v1", "SubjectAccessReview", "subjectaccessreviews", namespaced=False)


class LogSource(Protocol):
    """What an agent offers: a container's output, NotFound or BadInput with a kubelet's words where there is none."""

    def open_log(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]: ...


class Asker(NamedTuple):
    user: str
    groups: tuple[str, ...]
    uid: str = ""


class LogServer:
    """Listens while it is open; `port` is known then."""

    def __init__(
        self, source: LogSource, client: Client, *, node: str, address: str, folder: Path, authority: bytes = b""
    ) -> None:
        self._source = source
        self._client = client
        self._node = node
        self._address = address
        self._folder = folder
        self._authority = authority  # PEM; certificates that it signed prove who asks
        self._streams = Streams()
        self._runner = web.ServerRunner(web.Server(self._answer, access_log=None), shutdown_timeout=SHUTDOWN_S_MAX)
        self.port = 0

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._address, 0, ssl_context=self._tls())
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        return self

    async def __aexit__(self, *_: object) -> None:
        self._streams.cancel()
        await end(self._runner)

    def _tls(self) -> ssl.SSLContext:
        now = dt.datetime.now(dt.UTC)
        pair = certificates.serving_pair(
            certificates.authority("pumice-node", now=now), [self._node, self._address], now=now
        )
        self._folder.mkdir(parents=True, exist_ok=True)
        certificate, key = self._folder / "node.crt", self._folder / "node.key"
        pair.write(certificate, key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(certificate, key)
        if self._authority:
            context.load_verify_locations(cadata=self._authority.decode("ascii"))
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    # ------------------------------------------------------------------------------------------------------ answering

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/healthz":
            return web.Response(text="ok")
        match request.path.strip("/").split("/"):
            case ["containerLogs", namespace, pod, container] if request.method == "GET":
                pass
            case _:
                return web.Response(status=404, text="a process node answers /containerLogs and /healthz only")
        try:
            asker = await self._who(request)
            if asker is None:
                return web.Response(status=401, text="Unauthorized")
            if not await self._may(asker):
                return web.Response(status=403, text=f"{asker.user} may not get nodes/proxy of {self._node}")
            chunks = self._source.open_log(namespace, pod, container, dict(request.query))
        except NotFound as error:
            return web.Response(status=404, text=str(error))
        except BadInput as error:
            return web.Response(status=400, text=str(error))
        except errors.KubeError as error:
            return web.Response(status=503, text=f"the API server cannot be asked whether this is allowed: {error}")
        answer = web.StreamResponse(headers={"content-type": "text/plain"})
        return await self._streams.send(request, answer, chunks)

    # ------------------------------------------------------------------------------------------------------ asking

    async def _who(self, request: web.BaseRequest) -> Asker | None:
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token:
            return await self._by_token(token.strip())
        peer = request.transport.get_extra_info("peercert") if request.transport is not None else None
        parts = [part for relative in (peer or {}).get("subject", ()) for part in relative]
        user = next((value for key, value in parts if key == "commonName"), "")
        groups = tuple(value for key, value in parts if key == "organizationName")
        return Asker(user, (*groups, "system:authenticated")) if user else None

    async def _by_token(self, token: str) -> Asker | None:
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        status = (await self._client.create(_TOKEN_REVIEW, body)).json().get("status") or {}
        user = status.get("user") or {}
        if not status.get("authenticated"):
            return None
        return Asker(user.get("username", ""), tuple(user.get("groups") or ()), user.get("uid", ""))

    async def _may(self, asker: Asker) -> bool:
        wanted = {"verb": "get", "resource": "nodes", "subresource": "proxy", "name": self._node}
        spec = {"user": asker.user, "groups": asker.groups, "uid": asker.uid, "resourceAttributes": wanted}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = (await self._client.create(_ACCESS_REVIEW, body)).json().get("status") or {}
        return bool(status.get("allowed"))
