"""Webhooks in a world: the shipped reviews and rights, registered as operators register them, and asked by the API server without a socket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api.flow import JobFlow
from pumice.api.scheduling import SCHEDULER_NAMES, PodGroup
from pumice.kube.informer import Informers
from pumice.webhooks.access import QueueAccess
from pumice.webhooks.admission import Admission, QueueRights
from pumice.webhooks.ca_bundle import CONFIGURATIONS
from pumice.webhooks.lookups import InformerLookup
from pumice.webhooks.registration import AccessMode, Registration
from pumice.webhooks.reviews import PATHS, Reviewer
from pumice.webhooks.serving import API_VERSION
from pumice.webhooks.submission_limits import SubmissionLimits
from pumice.webhooks.submitters import Submitters
from pumice.webhooks.target_queues import Destinations

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pumice.api.kinds import Kind
    from pumice.local.apiserver.webhooks import Dispatch
    from pumice.sim.worlds.loop import WorldLoop
    from pumice.sim.worlds.replicas import Machine

_PATHS = {path.path: path for path in PATHS}


def configurations(controllers: tuple[str, ...]) -> Iterator[tuple[Kind, dict[str, Any]]]:
    """Both, as `pumice webhooks manifests` prints them where rights to queues are enforced."""
    wanted = Registration(namespace="pumice-system", access=AccessMode.ENFORCE, controllers=controllers)
    return zip(CONFIGURATIONS, wanted.manifests(), strict=True)


async def serve(own: Machine, controllers: tuple[str, ...]) -> None:
    """As `pumice webhooks`, less HTTPS and its keys."""
    client = own.client()
    informers = Informers(client, clock=own.clock, chance=own.chance, log=own.log)
    lookup = InformerLookup(informers)
    for struct in (PodGroup, JobFlow):
        informers.of(struct)
    rights = QueueRights(
        AccessMode.ENFORCE,
        Submitters(controllers),
        Destinations(lookup, lookup.pod_group, lookup.job_flows, SCHEDULER_NAMES),
        QueueAccess(client, clock=own.clock),
        SubmissionLimits(lookup.queue, lookup.pod_groups),
    )
    async with asyncio.TaskGroup() as crew:
        crew.create_task(informers.run())
        await informers.synced()
        own.worker = Admission(Reviewer(lookup), rights)


def dispatch(own: Machine, loop: WorldLoop, failed: Callable[[str], None]) -> Dispatch:
    """How the API server reaches them: whoever is dead or cut off is not reached, and who sleeps does not answer."""

    async def ask(config: dict[str, Any], body: bytes, seconds: float) -> bytes:
        del seconds  # the server itself waits no longer
        if own.worker is None or own.line.is_cut:
            raise ConnectionRefusedError("nobody answers")
        reply: asyncio.Future[bytes] = loop.create_future()
        loop.start(own.replica, _answer(own.worker, config["service"]["path"], body, reply, failed))
        return await reply

    return ask


async def _answer(
    admission: Admission, path: str, body: bytes, reply: asyncio.Future[bytes], failed: Callable[[str], None]
) -> None:
    review: dict[str, Any] = msgspec.json.decode(body)
    try:
        asked: Awaitable[Any] = admission.authorise(admission.judge(_PATHS[path], review["request"]))
        answer = {"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": await asked}
    except Exception as error:  # noqa: BLE001  the world tells of it
        failed(f"admission failed at {path}: {error!r}")
        return
    if not reply.done():
        reply.set_result(msgspec.json.encode(answer))
