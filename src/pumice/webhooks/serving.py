"""Reviews over HTTPS. Every process that can reach the port may send anything: bodies, time and memory all have limits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from pumice.api.decoding import UNREADABLE
from pumice.kube.listener import Limits, Listener
from pumice.webhooks.reviews import PATHS

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable

    from pumice.telemetry.meters import Meters
    from pumice.webhooks.admission import Admission, Verdict
    from pumice.webhooks.reviews import Path

BODY_BYTES_MAX: Final = 3 * 2**20  # the most that an API server itself takes
BUFFERED_BYTES_MAX: Final = 64 * 2**20  # of all bodies that are being read at a time
SMALL_BYTES_MAX: Final = 2**17  # of a body that is judged at once; larger ones would keep the others waiting
BODY_S_MAX: Final = 5.0  # an API server sends its body at once
REVIEW_S_MAX: Final = 4.5  # after 5 s the API server waits no longer
# An API server keeps connections, one for each review at a time, and would not notice at once that we closed one.
LIMITS: Final = Limits(connections=256, keep_alive_s=3600.0)
API_VERSION: Final = "admission.k8s.io/v1"


class _Kind(msgspec.Struct):
    kind: str
    group: str = ""


class _Request(msgspec.Struct, rename="camel"):
    """As much of a request as must be there, and be what rules expect."""

    uid: str
    kind: _Kind
    operation: str
    namespace: str = ""
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None


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
        self._listener: Listener | None = None
        self._worker = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="reviews")

    async def start(self, address: str, context: ssl.SSLContext) -> int:
        """Listen on `host:port` (port 0: a free one); the port."""
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        for path in PATHS:
            application.router.add_post(path.path, self._handler(path))
        self._listener = Listener(application, LIMITS, context=context)
        return await self._listener.start(address, flag="--bind")

    async def stop(self) -> None:
        """Closes the port first, then waits for the reviews under way."""
        if self._listener is not None:
            await self._listener.stop()
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _handler(self, path: Path) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began = time.perf_counter()
            verdict = "failed"
            try:
                judged = await self._judge_request(path, request)
                async with asyncio.timeout(REVIEW_S_MAX):
                    response = await self._admission.authorise(judged)
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

    async def _judge_request(self, path: Path, request: web.Request) -> Verdict:
        """What the rules say of the body, which is gone afterwards; a large one is read in a thread, one after another."""
        read = bytearray()
        try:
            await self._read(request, read)
            if len(read) <= SMALL_BYTES_MAX:
                return self._judge(path, read)
            async with asyncio.timeout(REVIEW_S_MAX):
                return await asyncio.get_running_loop().run_in_executor(self._worker, self._judge, path, read)
        finally:
            self._buffered -= len(read)

    def _judge(self, path: Path, body: bytearray) -> Verdict:
        return self._admission.judge(path, _decode(body)["request"])

    async def _read(self, request: web.Request, read: bytearray) -> None:
        """The body; what was read counts until it is gone, however this ends."""
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="send application/json")
        if (request.content_length or 0) > BODY_BYTES_MAX:
            raise web.HTTPRequestEntityTooLarge(BODY_BYTES_MAX, request.content_length or 0)
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


_REVIEW = msgspec.json.Decoder(_Review)
_OBJECT = msgspec.json.Decoder(dict[str, Any])


def _decode(body: bytearray) -> dict[str, Any]:
    try:
        review = _REVIEW.decode(body)
        whole: dict[str, Any] = _OBJECT.decode(body)
    except UNREADABLE as error:
        raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
    if review.api_version != API_VERSION or review.kind != "AdmissionReview":
        raise web.HTTPBadRequest(text=f"expected an AdmissionReview of {API_VERSION}")
    return whole
