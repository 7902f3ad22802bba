"""What a process says of itself over HTTP: /livez, /readyz, /metrics, and (a leader) what it knows, under /v1.

/livez     the loop has made progress; never depends on the API server
/readyz    caches are filled, or another leads and we would take over
/metrics   Prometheus
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from aiohttp import web

from pumice.kube.listener import Limits, Listener
from pumice.telemetry.meters import CONTENT_TYPE

if TYPE_CHECKING:
    from pumice.clock import Clock
    from pumice.kube.lease import Election
    from pumice.telemetry.meters import Meters

BEAT_S = 1.0
STALLED_S = 60.0  # a loop that has not come round for so long is not alive
# Probes and scrapers come one by one; the address of a question may hold a whole policy.
LIMITS = Limits(connections=64, line_bytes=2**16)
REQUEST_BYTES_MAX = 4096  # nothing here takes a body


class Answers(Protocol):
    """What a leader answers beside that."""

    @property
    def routes(self) -> list[web.RouteDef]: ...

    def close(self) -> None:
        """No more answers: the process ends."""


class Pulse:
    """When the loop last came round, and whether it may be sent work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic()
        self.ready = False

    def beat(self) -> None:
        self._at = self._clock.monotonic()

    async def keep_beating(self) -> None:
        """Beats until cancelled: the event loop comes round, also while another process leads or an API server is slow."""
        while True:
            self.beat()
            await self._clock.sleep(BEAT_S)

    @property
    def is_alive(self) -> bool:
        return self._clock.monotonic() - self._at < STALLED_S


class HealthServer:
    """Serves on one address, until stopped."""

    def __init__(
        self,
        pulse: Pulse,
        meters: Meters,
        *,
        election: Election | None = None,
        view: Answers | None = None,
        record: Answers | None = None,
    ) -> None:
        self._pulse = pulse
        self._meters = meters
        self._election = election
        self._answers = [each for each in (view, record) if each is not None]
        self._listener: Listener | None = None

    async def start(self, address: str) -> int:
        """Listen on `host:port` (port 0: a free one); the port."""
        application = web.Application(client_max_size=REQUEST_BYTES_MAX)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/healthz", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        for each in self._answers:
            application.router.add_routes(each.routes)
        self._listener = Listener(application, LIMITS)
        return await self._listener.start(address)

    async def stop(self) -> None:
        for each in self._answers:
            each.close()
        if self._listener is not None:
            await self._listener.stop()

    async def _livez(self, _: web.Request) -> web.Response:
        return _answer(ok=self._pulse.is_alive, otherwise=f"the loop has not come round for {STALLED_S:.0f} s")

    async def _readyz(self, _: web.Request) -> web.Response:
        # A replica that waits to lead would never be ready otherwise, and no update of a Deployment would ever end.
        stands_by = self._election is not None and self._election.stands_by
        return _answer(ok=self._pulse.ready or stands_by, otherwise="caches are not filled yet")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._meters.text(), headers={"content-type": CONTENT_TYPE})


def _answer(*, ok: bool, otherwise: str) -> web.Response:
    return web.Response(text="ok\n") if ok else web.Response(status=503, text=f"{otherwise}\n")
