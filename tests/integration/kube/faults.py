"""A network between a client and its server that a test can harm."""

import asyncio

import msgspec

from pumice.kube.errors import Unreachable
from pumice.kube.http import CALL_S_MAX


class Faulty:
    """Carries calls while `mode` is "ok"; else refuses them, loses their replies, or lets them hang.

    `mode` is looked at when a call is made, so a call that hangs stays so: a stream for ever, any other call until a
    transport over HTTP would give up.
    """

    MODES = ("ok", "refuse", "lose", "hang")

    def __init__(self, transport) -> None:
        self._transport = transport
        self.mode = "ok"
        self.calls = 0
        self.slice_bytes = 0  # streams are cut into chunks of so many bytes; 0: as they come
        self.wires: list[Wire] = []

    async def call(self, request):
        self.calls += 1
        mode = self.mode
        if mode == "refuse":
            raise Unreachable("connection refused", acted=False)
        if mode == "hang":
            await asyncio.sleep(CALL_S_MAX if "watch" not in request.query else float("inf"))
            raise Unreachable("no answer came", acted=True)
        response = await self._transport.call(request)
        if mode == "lose":
            raise Unreachable("the reply was lost", acted=True)
        if response.stream is None:
            return response
        self.wires.append(Wire(response.stream, self.slice_bytes))
        return msgspec.structs.replace(response, stream=self.wires[-1])

    async def close(self) -> None:
        pass


class Wire:
    """One stream on its way; `harm` breaks it off, perhaps in the middle of a line, or silences it for ever."""

    def __init__(self, stream, slice_bytes: int) -> None:
        self._stream = stream
        self._slice_bytes = slice_bytes
        self._rest = b""
        self._harmed = asyncio.get_running_loop().create_future()

    def harm(self, how: str) -> None:
        if not self._harmed.done():
            self._harmed.set_result(how)

    def __aiter__(self) -> "Wire":
        return self

    async def __anext__(self) -> bytes:
        if not self._rest:
            self._rest = await self._next()
        size = self._slice_bytes or len(self._rest)
        chunk, self._rest = self._rest[:size], self._rest[size:]
        return chunk

    async def _next(self) -> bytes:
        reading = asyncio.ensure_future(anext(self._stream))
        try:
            await asyncio.wait({reading, self._harmed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait({reading})
        if not self._harmed.done():
            return reading.result()
        if self._harmed.result() == "silence":
            await asyncio.get_running_loop().create_future()
        raise Unreachable("the connection broke")

    async def aclose(self) -> None:
        await self._stream.aclose()
