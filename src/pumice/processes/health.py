"""What a process says of itself over HTTP: /livez, /readyz, /metrics, and (the leader's) why a gang waits.

/livez     the loop has made progress; never depends on the API server
/readyz    caches are filled, or another leads and we would take over
/metrics   Prometheus
/explain/NAMESPACE/NAME    JSON; needs a token of somebody who may `get` that PodGroup
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from aiohttp import web

from pumice.errors import BadInput
from pumice.kube import errors
from pumice.kube.transport import Request
from pumice.telemetry.meters import CONTENT_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.clock import Clock
    from pumice.kube.client import Client
    from pumice.kube.lease import Election
    from pumice.scheduling.core.decisions import GangReport
    from pumice.telemetry.meters import Meters

STALLED_S = 60.0  # a loop that has not come round for so long is not alive
REQUEST_BYTES_MAX = 4096  # nothing here takes a body
_REVIEWS = {"tokenreviews": "authentication.k8s.io/v1", "subjectaccessreviews": "authorization.k8s.io/v1"}


class Pulse:
    """When the loop last came round, and whether it may be sent work."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = clock.monotonic()
        self.ready = False

    def beat(self) -> None:
        self._at = self._clock.monotonic()

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
        client: Client | None = None,
        explain: Callable[[str], GangReport | None] | None = None,
        election: Election | None = None,
    ) -> None:
        self._pulse = pulse
        self._meters = meters
        self._client = client
        self._explain = explain
        self._election = election
        self._runner: web.AppRunner | None = None

    async def start(self, address: str) -> int:
        """Listen on `host:port` (port 0: a free one); the port."""
        host, _, port = address.rpartition(":")
        if not port.isdigit():
            raise BadInput(f"--listen {address!r}: expected host:port, such as 127.0.0.1:8080")
        application = web.Application(client_max_size=REQUEST_BYTES_MAX)
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/healthz", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._metrics)
        if self._explain is not None and self._client is not None:
            application.router.add_get("/explain/{namespace}/{name}", self._explained)
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host.strip("[]") or "0.0.0.0", int(port))  # noqa: S104  asked for by `:8080`
        await site.start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _livez(self, _: web.Request) -> web.Response:
        return _answer(ok=self._pulse.is_alive, otherwise=f"the loop has not come round for {STALLED_S:.0f} s")

    async def _readyz(self, _: web.Request) -> web.Response:
        # A replica that waits to lead would never be ready otherwise, and no update of a Deployment would ever end.
        stands_by = self._election is not None and self._election.stands_by
        return _answer(ok=self._pulse.ready or stands_by, otherwise="caches are not filled yet")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._meters.text(), headers={"content-type": CONTENT_TYPE})

    # ------------------------------------------------------------------------------------------------- explaining

    async def _explained(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return _refusal(401, "send a bearer token of somebody who may get this PodGroup")
        try:
            user = await self._user(token)
            allowed = user is not None and await self._may_get(user, namespace, name)
        except errors.KubeError as error:
            return _refusal(503, f"the API server could not be asked: {error}")
        if user is None:
            return _refusal(401, "the API server does not know this token")
        if not allowed:
            return _refusal(403, f"{user['username']} may not get podgroup {namespace}/{name}")
        assert self._explain is not None
        report = self._explain(f"{namespace}/{name}")
        if report is None:
            return _refusal(404, f"no podgroup {namespace}/{name} was seen in the last cycle of this scheduler")
        return web.Response(body=msgspec.json.encode(as_data(report)), content_type="application/json")

    async def _user(self, token: str) -> dict[str, Any] | None:
        status = await self._review("tokenreviews", "TokenReview", {"token": token})
        return status["user"] if status.get("authenticated") else None

    async def _may_get(self, user: dict[str, Any], namespace: str, name: str) -> bool:
        attributes = {
            "verb": "get",
            "group": "scheduling.volcano.sh",
            "resource": "podgroups",
            "namespace": namespace,
            "name": name,
        }
        spec = {
            "user": user.get("username", ""),
            "groups": user.get("groups", []),
            "uid": user.get("uid", ""),
            "resourceAttributes": attributes,
        }
        status = await self._review("subjectaccessreviews", "SubjectAccessReview", spec)
        return bool(status.get("allowed"))

    async def _review(self, plural: str, kind: str, spec: dict[str, Any]) -> dict[str, Any]:
        assert self._client is not None
        version = _REVIEWS[plural]
        body = msgspec.json.encode({"apiVersion": version, "kind": kind, "spec": spec})
        request = Request("POST", f"/apis/{version}/{plural}", {}, {"content-type": "application/json"}, body)
        reply = await self._client.call(request)
        status: dict[str, Any] = msgspec.json.decode(reply.body).get("status") or {}
        return status


def as_data(report: GangReport) -> dict[str, Any]:
    """Everything that the last cycle knows about one gang."""
    return {
        "gang": report.gang,
        "phase": report.phase,
        "conditions": [
            {"type": each.type, "status": each.status, "reason": each.reason, "message": each.message}
            for each in report.conditions
        ],
        "reasons": [
            {"plugin": each.plugin, "reason": each.text, "nodes": each.nodes, "cure": each.cure.value}
            for each in report.reasons
        ],
        "pods": [
            {"pod": each.task.key, "reason": each.reason, "message": each.message, "nominatedNode": each.nominated_node}
            for each in report.pods
        ],
    }


def _answer(*, ok: bool, otherwise: str) -> web.Response:
    return web.Response(text="ok\n") if ok else web.Response(status=503, text=f"{otherwise}\n")


def _refusal(status: int, cause: str) -> web.Response:
    return web.json_response({"error": cause}, status=status)
