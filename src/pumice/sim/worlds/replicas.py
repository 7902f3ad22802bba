"""The processes of a world, as their commands put them together, over a Line instead of HTTP."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import msgspec

from pumice import instant
from pumice.api import names
from pumice.dispatch.memory_store import MemoryPlace
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.lease import RETRY_S, Election
from pumice.local.apiserver.request_parsing import Caller
from pumice.local.nodes.claims import FolderClaims
from pumice.local.nodes.lifecycle import NodeLifecycle
from pumice.local.nodes.pretend import PretendAgent
from pumice.processes.controller_settings import ControllerSettings
from pumice.processes.controllers import Controllers
from pumice.processes.scheduler import Scheduler, Served
from pumice.record.settings import RecordSettings
from pumice.runtime import Runtime
from pumice.sim.worlds.devices import ClaimKeeper
from pumice.sim.worlds.loop import Replica
from pumice.sim.worlds.network import Line
from pumice.sim.worlds.volumes import ScratchKeeper
from pumice.telemetry.meters import Unread
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from pumice.clock import VirtualClock
    from pumice.instant import Instant
    from pumice.local.nodes.registration import NodeFacts
    from pumice.scheduling.core.policy import Policy
    from pumice.sim.worlds.network import Network

LEASE_NAMESPACE = "kube-system"
SCHEDULER_LEASE = names.SCHEDULER_LEASE
CONTROLLERS_LEASE = names.CONTROLLERS_LEASE
SCHEDULER = "scheduler"
CONTROLLERS = "controllers"
WEBHOOKS = "webhooks-0"
ADMINISTRATORS = ("system:masters", "system:authenticated")
CONTROLLERS_USED = frozenset({"job", "podgroup", "queue", "garbage"})
UNREAD = Unread()
# Run where there are flows and CronJobs: each costs several watches.
FLOW_CONTROLLERS = frozenset({"jobflow", "jobtemplate"})
CRON_CONTROLLERS = frozenset({"cronjob"})


class SkewedClock:
    """The world's clock as one machine has it: its time of day is off by `skew_s`, its seconds are as long as everybody's."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self.skew_s = 0.0

    def now(self) -> Instant:
        return self._clock.now() + round(self.skew_s * instant.SECOND)

    def monotonic(self) -> float:
        return self._clock.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Machine(Mutable, eq=False):
    """Where one process lives: its name, clock and line stay when the process dies and starts again."""

    name: str
    clock: SkewedClock
    line: Line
    chance: random.Random
    fail_point: Callable[[str], None]
    log: Callable[..., None]
    replica: Replica = msgspec.field(default_factory=lambda: Replica(""))
    lives: int = 0
    renews_s: float = RETRY_S  # how often it renews its lease
    restart: Callable[[], object] = lambda: None
    main: asyncio.Task[None] | None = None
    worker: Any = None  # the Scheduler or the Controllers, once it is there

    def client(self) -> Client:
        return Client(self.line, clock=self.clock, chance=self.chance)

    def runtime(self) -> Runtime:
        return Runtime(clock=self.clock, chance=self.chance, log=self.log, fail_point=self.fail_point)

    @property
    def identity(self) -> str:
        return f"{self.name}-{self.lives}"


def machine(
    name: str,
    network: Network,
    clock: VirtualClock,
    seed: str,
    *,
    is_shaken: bool,
    fail_point: Callable[[str], None],
    log: Callable[..., None],
) -> Machine:
    chance = random.Random(f"{seed}/{name}")  # noqa: S311  chance is what worlds are made of
    line = Line(
        network,
        name,
        Caller(name, ADMINISTRATORS),
        random.Random(f"{seed}/{name}/line"),  # noqa: S311  as above
        is_shaken=is_shaken,
    )
    return Machine(name, SkewedClock(clock), line, chance, fail_point, log)


async def scheduler(own: Machine, policy: Policy, served: Served) -> None:
    """As `pumice scheduler`."""

    def work(client: Client, informers: Informers, runtime: Runtime) -> Coroutine[Any, Any, None]:
        own.worker = Scheduler(client, informers, lambda: policy, runtime, served)
        return own.worker.run()  # type: ignore[no-any-return]

    await _lead(own, names.SCHEDULER_LEASE, work)


async def controllers(own: Machine, more: frozenset[str], *, record_url: str = "") -> None:
    """As `pumice controllers`, with some more of them than all worlds have."""
    used = CONTROLLERS_USED | more
    record = RecordSettings(record_url, keeps_logs=False) if record_url else None  # pretend nodes have no logs
    settings = ControllerSettings(enabled=used, workers=dict.fromkeys(used, 2), record=record)

    def work(client: Client, informers: Informers, runtime: Runtime) -> Coroutine[Any, Any, None]:
        own.worker = Controllers(client, informers, runtime, settings, UNREAD)
        return own.worker.run()  # type: ignore[no-any-return]

    await _lead(own, names.CONTROLLERS_LEASE, work)


async def _lead(
    own: Machine, lease: str, work: Callable[[Client, Informers, Runtime], Coroutine[Any, Any, None]]
) -> None:
    client = own.client()
    informers = Informers(client, clock=own.clock, chance=own.chance, log=own.log)
    election = Election(
        client,
        namespace=LEASE_NAMESPACE,
        name=lease,
        identity=own.identity,
        clock=own.clock,
        chance=own.chance,
        log=own.log,
        retry_s=own.renews_s,
    )
    runtime = msgspec.structs.replace(own.runtime(), guard=election.check)
    watching = asyncio.create_task(informers.run())
    try:
        await election.lead(lambda: work(client, informers, runtime))
    finally:
        watching.cancel()
        await asyncio.wait({watching})


async def nodes(own: Machine, facts: list[NodeFacts], *, has_devices: bool, has_volumes: bool) -> None:
    """The kubelets, and what watches over them, their devices and volumes."""
    client = own.client()
    informers = Informers(client, clock=own.clock, chance=own.chance, log=own.log)
    own.worker = PretendAgent(client, informers, facts, own.runtime())
    async with asyncio.TaskGroup() as crew:
        crew.create_task(informers.run())
        crew.create_task(own.worker.run())
        crew.create_task(NodeLifecycle(client, informers, own.runtime()).run())
        if has_devices:
            crew.create_task(ClaimKeeper(client, informers).run())
        if has_volumes:
            crew.create_task(FolderClaims(client, informers, own.runtime()).run())
            crew.create_task(ScratchKeeper(client, informers).run())


def memory_place() -> MemoryPlace:
    return MemoryPlace(LEASE_NAMESPACE, names.SCHEDULER_LEASE)
