"""What the client talks to in these tests: an HTTP server on loopback, or a Transport without HTTP, both doing what a test says."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable

from aiohttp import web

from pumice.kube.errors import Unreachable
from pumice.kube.transport import Request, Response

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class LoopbackServer:
    """Remembers its requests and answers them with `handler`, which a test sets."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.handler: Handler | None = None
        self.url = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        await request.read()
        assert self.handler is not None
        return await self.handler(request)


@contextlib.asynccontextmanager
async def serve(ssl_context=None) -> AsyncIterator[LoopbackServer]:
    server = LoopbackServer()
    app = web.Application(client_max_size=8 * 2**20)
    app.router.add_route("*", "/{path:.*}", server.answer)
    # A handler that hangs ends with its client, so that no test waits for another's.
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl_context)
    await site.start()
    port = runner.addresses[0][1]
    server.url = f"{'https' if ssl_context else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        await runner.cleanup()


class Scripted:
    """A Transport that gives the next of its answers to each call, the last one for ever, and remembers the calls.

    An answer is a Response, an exception to raise, or a function of the request that returns a Response.
    """

    def __init__(self, *answers) -> None:
        self.answers = list(answers)
        self.calls: list[Request] = []

    async def call(self, request: Request) -> Response:
        self.calls.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer(request) if callable(answer) else answer

    async def close(self) -> None:
        pass


def ok(body, **headers) -> Response:
    return Response(200, {name.replace("_", "-"): value for name, value in headers.items()}, json.dumps(body).encode())


def failure(code: int, reason: str = "", message: str = "", *, headers=None, **details) -> Response:
    status = {
        "kind": "Status",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }
    return Response(code, headers or {}, json.dumps(status).encode())


class LiveStream:
    """A stream that a test writes while somebody reads it."""

    def __init__(self, *chunks: bytes | BaseException | None) -> None:
        self._queue: asyncio.Queue[bytes | BaseException | None] = asyncio.Queue()
        for chunk in chunks:
            self._queue.put_nowait(chunk)
        self.closed = asyncio.Event()

    def send(self, *events) -> None:
        self._queue.put_nowait(b"".join(json.dumps(event).encode() + b"\n" for event in events))

    def send_bytes(self, chunk: bytes) -> None:
        self._queue.put_nowait(chunk)

    def end(self) -> None:
        self._queue.put_nowait(None)

    def break_off(self) -> None:
        self._queue.put_nowait(Unreachable("the connection broke"))

    def __aiter__(self) -> "LiveStream":
        return self

    async def __anext__(self) -> bytes:
        chunk = await self._queue.get()
        if chunk is None:
            raise StopAsyncIteration
        if isinstance(chunk, BaseException):
            raise chunk
        return chunk

    async def aclose(self) -> None:
        self.closed.set()


def streaming(stream: LiveStream) -> Response:
    return Response(200, {}, stream=stream)


def pod(name: str, version: int, *, uid: str = "", namespace: str = "team", **labels: str) -> dict:
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "labels": labels,
        }
    }


def added(obj: dict) -> dict:
    return {"type": "ADDED", "object": obj}


def modified(obj: dict) -> dict:
    return {"type": "MODIFIED", "object": obj}


def deleted(obj: dict) -> dict:
    return {"type": "DELETED", "object": obj}


def bookmark(version: int, *, ends_list: bool = False) -> dict:
    annotations = {"k8s.io/initial-events-end": "true"} if ends_list else {}
    return {
        "type": "BOOKMARK",
        "object": {"kind": "Pod", "metadata": {"resourceVersion": str(version), "annotations": annotations}},
    }


def listed(version: int, *objects: dict) -> Response:
    return ok({"kind": "PodList", "metadata": {"resourceVersion": str(version)}, "items": list(objects)})
