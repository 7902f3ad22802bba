"""Reviews over HTTPS. Whoever can reach the port may send anything: bodies, time and memory all have limits."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from pumice.errors import BadInput
from pumice.webhooks.reviews import PATHS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from pumice.telemetry.meters import Meters
    from pumice.webhooks.admission import Admission
    from pumice.webhooks.reviews import Path

BODY_BYTES_MAX: Final = 3 * 2**20  # the most that an API server itself takes
BUFFERED_BYTES_MAX: Final = 64 * 2**20  # of all bodies that are being read at a time
BUFFER_BYTES: Final = 2**14  # that a connection may be ahead of its reader
BODY_S_MAX: Final = 5.0  # an API server sends its body at once
REVIEW_S_MAX: Final = 4.5  # after 5 s nobody waits any more
KEEP_ALIVE_S: Final = 3600.0  # an API server keeps connections and would not notice that we closed one
DRAIN_S: Final = 10.0  # for reviews under way when we stop
API_VERSION: Final = "admission.k8s.io/v1"


class _Request(msgspec.Struct):
    """As much of a request as must be there."""

    uid: str
    kind: dict[str, str]
    operation: str


class _Review(msgspec.Struct, rename="camel"):
    api_version: str
    kind: str
    request: _Request


class ReviewServer:
    """Serves the reviews of all paths on one address, until stopped."""

    def __init__(self, admission: Admission, meters: Meters) -> None:
        self._admission = admission
        self._meters = meters
        self._buffered = 0
        self._runner: web.AppRunner | None = None

    async def start(self, address: str, context: ssl.SSLContext) -> int:
        """Listen on `host:port` (port 0: a free one); the port."""
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise BadInput(f"--bind {address!r}: expected host:port, such as 0.0.0.0:8443")
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        for path in PATHS:
            application.router.add_post(path.path, self._handler(path))
        self._runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=KEEP_ALIVE_S,
            shutdown_timeout=DRAIN_S,
            read_bufsize=BUFFER_BYTES,
            lingering_time=0.0,  # who sends too much is not listened to
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, host.strip("[]") or "0.0.0.0", int(port), ssl_context=context)  # noqa: S104  asked for by `:8443`
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Closes the port first, then waits for the reviews under way."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _handler(self, path: Path) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began = time.perf_counter()
            verdict = "failed"
            try:
                # Neither the body nor the review has a name here: both are gone while the answer waits for the API server.
                answering = self._admission.answer(path, _decoded(await self._body(request))["request"])
                async with asyncio.timeout(REVIEW_S_MAX):
                    response = await answering
                verdict = "allowed" if response["allowed"] else "refused"
                answer = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response}
                return web.Response(body=msgspec.json.encode(answer), content_type="application/json")
            except TimeoutError as error:
                raise web.HTTPServiceUnavailable(text="the review took too long") from error
            finally:
                seconds = time.perf_counter() - began
                self._meters.count("pumice_admission_reviews_total", path=path.path, verdict=verdict)
                self._meters.observe("pumice_admission_seconds", seconds, path=path.path)

        return handle

    async def _body(self, request: web.Request) -> bytes:
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="send application/json")
        if (request.content_length or 0) > BODY_BYTES_MAX:
            raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, request.content_length or 0)
        read = bytearray()
        try:
            async with asyncio.timeout(BODY_S_MAX):
                async for chunk in request.content.iter_any():
                    read += chunk
                    self._buffered += len(chunk)
                    if len(read) > BODY_BYTES_MAX:
                        raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, len(read))
                    if self._buffered > BUFFERED_BYTES_MAX:
                        raise web.HTTPServiceUnavailable(text="too many large bodies at a time")
        except TimeoutError as error:
            raise web.HTTPRequestTimeout(text=f"the body took more than {BODY_S_MAX:.0f} s") from error
        finally:
            self._buffered -= len(read)
        return bytes(read)


_REVIEW = msgspec.json.Decoder(_Review)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def _decoded(body: bytes) -> dict[str, Any]:
    try:
        review = _REVIEW.decode(body)
        whole: dict[str, Any] = _OBJECT.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise web.HTTPBadRequest(text=f"expected an AdmissionReview of {API_VERSION}")
    return whole
