"""The server on a socket: HTTP/1.1 by aiohttp, TLS, client certificates and bearer tokens."""

from __future__ import annotations

import asyncio
import base64
import functools
import ssl
from typing import TYPE_CHECKING, Any

import aiohttp
from aiohttp import web

from pumice.kube import listener
from pumice.kube.transport import BODY_BYTES_MAX, Request
from pumice.local.apiserver import failures
from pumice.local.apiserver.request_parsing import ANONYMOUS, Caller
from pumice.local.apiserver.store import encode
from pumice.local.streams import Streams
from pumice.values import Value

if TYPE_CHECKING:
    from pathlib import Path

    from pumice.local.apiserver.authentication import Authenticator
    from pumice.local.apiserver.server import Server

READ_TIMEOUT_S = 30.0  # for a whole request's body
STREAMS_MAX = 8_192  # watches and followed logs; each node agent and controller holds a few
LIMITS = listener.Limits(
    connections=2 * STREAMS_MAX,
    request_s=30.0,  # the event loop may be a cycle late
    keep_alive_s=90.0,  # as kube-apiserver: clients close first, so no call meets a closing connection
    drain_s=1.0,
    buffer_bytes=2**17,
    lingering_s=10.0,
)
TRUSTS_KEPT_MAX = 64  # bundles of webhooks' authorities
WEBHOOK_ANSWER_BYTES_MAX = 3 * 2**20
_JSON = {"content-type": "application/json"}


class Address(Value):
    """Where to listen. `certificate`, `key` and `client_authority` are files in PEM; without them there is no TLS."""

    host: str = "127.0.0.1"
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    client_authority: Path | None = None


def tls_context(address: Address) -> ssl.SSLContext | None:
    if address.certificate is None or address.key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(address.certificate, address.key)
    if address.client_authority is not None:
        context.load_verify_locations(address.client_authority)
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


class Listener:
    """One server on one address. `port` is known once it has started; while there is no `server`, every call gets 503."""

    def __init__(self, address: Address, server: Server | None = None) -> None:
        self.server = server
        self._address = address
        self._streams = Streams()
        self.port = address.port
        self._listener: listener.Listener | None = None

    async def start(self) -> None:
        """An OSError where the port cannot be had."""
        self._listener = listener.Listener(self._answer, LIMITS, context=tls_context(self._address))
        self.port = await self._listener.listen(self._address.host, self._address.port)

    async def stop(self) -> None:
        """Ends watches first: they would otherwise hold their connections until the timeout. Requests from now on are turned away."""
        self.server = None
        self._streams.cancel()
        if self._listener is not None:
            await self._listener.stop()

    async def _answer(self, received: web.BaseRequest) -> web.StreamResponse:
        try:
            server = self._ready()
            caller = self._caller(server.authenticator, received)
            request = await self._read(received)
            response = await server.handle(request, caller)
        except failures.Failure as failure:
            body = encode(failure.as_status())
            return web.Response(status=failure.status, body=body, headers=_JSON | failure.headers)
        if response.stream is not None:
            if len(self._streams) >= STREAMS_MAX:
                busy = failures.too_many_requests(
                    f"{STREAMS_MAX} watches and logs are open; ask again later", retry_after_s=5
                )
                return web.Response(status=busy.status, body=encode(busy.as_status()), headers=_JSON | busy.headers)
            answer = web.StreamResponse(status=response.status, headers=response.headers)
            return await self._streams.send(received, answer, response.stream)
        return web.Response(status=response.status, body=response.body, headers=response.headers)

    def _ready(self) -> Server:
        if self.server is None:
            raise failures.Failure(
                503, "ServiceUnavailable", "the server is starting or stopping; ask again in a moment"
            )
        return self.server

    async def _read(self, received: web.BaseRequest) -> Request:
        if (received.content_length or 0) > BODY_BYTES_MAX:
            raise failures.too_large(BODY_BYTES_MAX)
        body = await self._body(received) if received.body_exists else b""
        headers = {name.lower(): value for name, value in received.headers.items()}
        url = received.rel_url
        return Request(received.method, url.path, dict(url.query), headers, body)

    async def _body(self, received: web.BaseRequest) -> bytes:
        parts, size = [], 0
        try:
            async with asyncio.timeout(READ_TIMEOUT_S):
                async for chunk in received.content.iter_any():
                    size += len(chunk)
                    if size > BODY_BYTES_MAX:
                        raise failures.too_large(BODY_BYTES_MAX)
                    parts.append(chunk)
        except TimeoutError:
            text = f"the request's body did not arrive within {READ_TIMEOUT_S:.0f} seconds"
            raise failures.Failure(408, "Timeout", text) from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _caller(self, authenticator: Authenticator, received: web.BaseRequest) -> Caller:
        """A bearer token wins over a certificate; wrong credentials are refused, none at all is anonymous."""
        header = received.headers.get("Authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            caller = authenticator.by_token(token.strip()) if scheme.lower() == "bearer" else None
            if caller is None:
                raise failures.unauthorized()
            return self._impersonated_caller(received, caller)
        transport = received.transport
        peer = transport.get_extra_info("peercert") if transport is not None else None
        caller = _by_certificate(authenticator, peer) if peer else None
        return self._impersonated_caller(received, caller or ANONYMOUS)

    def _impersonated_caller(self, received: web.BaseRequest, caller: Caller) -> Caller:
        """`kubectl --as`: only for users who may impersonate all others anyway."""
        user = received.headers.get("Impersonate-User")
        if user is None:
            return caller
        if "system:masters" not in caller.groups:
            raise failures.forbidden(
                "users",
                "",
                user,
                f'User "{caller.name}" cannot impersonate resource "users" in API group "" at the cluster scope',
            )
        groups = tuple(received.headers.getall("Impersonate-Group", []))
        if user.startswith("system:serviceaccount:") and not groups:
            groups = ("system:serviceaccounts", f"system:serviceaccounts:{user.split(':')[2]}")
        return Caller(user, (*groups, "system:authenticated"))


def _by_certificate(authenticator: Authenticator, peer: dict[str, Any]) -> Caller | None:
    parts = [part for relative in peer.get("subject", ()) for part in relative]
    name = next((value for key, value in parts if key == "commonName"), "")
    organisations = tuple(value for key, value in parts if key == "organizationName")
    return authenticator.by_certificate(name, organisations)


@functools.lru_cache(TRUSTS_KEPT_MAX)
def _trusting(bundle: str) -> ssl.SSLContext:
    """Kept, because connections are kept for as long as their context is the same one."""
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode() if bundle else None)


class WebhookClient:
    """Calls admission webhooks over HTTPS; the answer is capped and timed."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def __call__(self, config: dict[str, Any], body: bytes, seconds: float) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        context = _trusting(config.get("caBundle", ""))
        timeout = aiohttp.ClientTimeout(total=seconds)
        async with self._session.post(
            _url(config), data=body, headers=_JSON, timeout=timeout, ssl=context, allow_redirects=False
        ) as answer:
            if answer.status != 200:
                raise OSError(f"the webhook answered with HTTP status {answer.status}")
            parts, size = [], 0
            async for chunk in answer.content.iter_any():
                size += len(chunk)
                if size > WEBHOOK_ANSWER_BYTES_MAX:
                    raise OSError(f"the webhook's answer is larger than {WEBHOOK_ANSWER_BYTES_MAX} bytes")
                parts.append(chunk)
        return b"".join(parts)

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


def _url(config: dict[str, Any]) -> str:
    if config.get("url"):
        return str(config["url"])
    key = f"{config['service']['namespace']}/{config['service']['name']}"
    raise LookupError(f"service {key} has no address on this machine; give the webhook a url instead")
