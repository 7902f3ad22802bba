"""A network between a client and its server that a test can harm."""

import asyncio

from pumice.kube.errors import Unreachable


class Faulty:
    """Carries calls while `mode` is "ok"; else refuses them, loses their replies, or lets them hang.

    `mode` is looked at when a call is made, so a call that hangs stays so.
    """

    MODES = ("ok", "refuse", "lose", "hang")

    def __init__(self, transport) -> None:
        self._transport = transport
        self.mode = "ok"
        self.calls = 0

    async def call(self, request):
        self.calls += 1
        mode = self.mode
        if mode == "refuse":
            raise Unreachable("connection refused", acted=False)
        if mode == "hang":
            await asyncio.get_running_loop().create_future()
        response = await self._transport.call(request)
        if mode == "lose":
            raise Unreachable("the reply was lost", acted=True)
        return response

    async def close(self) -> None:
        pass
