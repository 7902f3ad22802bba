"""The scheduler as a process: watches, plans when something that matters has changed, and carries out what was planned.

An idle scheduler plans at once when news arrives; what arrives while it plans is the next cycle. Planning happens in one worker
thread on an immutable snapshot, so that watches, binds and the lease never wait for it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from pumice.api import core, nodeinfo, pods, policy, priority, scheduling, storage, topology
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.dispatcher import Dispatcher
from pumice.kube import errors
from pumice.kube.recorder import Recorder
from pumice.scheduling import cycle
from pumice.scheduling.ports import Ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.api.changes import Change
    from pumice.api.meta import Struct
    from pumice.cluster.state import Snapshot
    from pumice.dispatch.rim import Rim
    from pumice.kube.client import Client
    from pumice.kube.informer import Informers, News
    from pumice.scheduling.decisions import Decisions
    from pumice.scheduling.plugins import Plugin
    from pumice.scheduling.policy import Policy

# Claims expire, mending has a grace time and deadlines pass without any news: one cycle at least so often.
TICK_S = 1.0
# What arrives this soon after the first piece of news is planned with it: a gang's pods are created one by one.
GATHER_S = 0.005

WATCHED: tuple[type[Struct], ...] = (
    pods.Pod,
    core.Node,
    scheduling.PodGroup,
    scheduling.Queue,
    priority.PriorityClass,
    topology.HyperNode,
    nodeinfo.Numatopology,
    core.Namespace,
    core.ResourceQuota,
    core.PersistentVolumeClaim,
    core.PersistentVolume,
    storage.StorageClass,
    storage.CSINode,
    policy.PodDisruptionBudget,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Served:
    """Whom this scheduler serves, pods that name it and groups that name no queue, and with which plugins from outside."""

    scheduler_names: frozenset[str] = frozenset({"volcano", "pumice"})
    default_queue: str = "default"
    extra_plugins: Mapping[str, type[Plugin]] = dataclasses.field(default_factory=dict)


class Scheduler:
    """One scheduler over one API server."""

    def __init__(
        self, client: Client, informers: Informers, chosen: Callable[[], Policy], rim: Rim, served: Served
    ) -> None:
        self._client = client
        self._informers = informers
        self._policy = chosen
        self._clock = rim.clock
        self._log = rim.log
        self._cluster = Cluster(scheduler_names=served.scheduler_names, default_queue=served.default_queue)
        self._intake = Intake(self._cluster)
        self._news = asyncio.Event()
        self._ports = Ports()
        self._extra_plugins = served.extra_plugins
        self._recorder = Recorder(client, component="pumice-scheduler", clock=rim.clock, log=rim.log)
        self.dispatcher = Dispatcher(client, self._cluster, self._learn, self._recorder, rim)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="plan")
        self.cycles = 0

    # ------------------------------------------------------------------------------------------------- news

    def _learn(self, change: Change) -> None:
        self._intake.apply(change)
        self._news.set()

    def _receive(self, news: Sequence[News]) -> None:
        for change in news:
            self._intake.apply(change)
        self._news.set()

    # ------------------------------------------------------------------------------------------------- life

    async def run(self) -> None:
        """Schedule until cancelled. Informers must be running."""
        for struct in WATCHED:
            self._informers.of(struct).subscribe(self._receive)
        await self._informers.synced()
        gc.freeze()  # what was listed stays: the collector need not look at it again
        await self._make_queues()
        self._log("scheduler_started", nodes=len(self._cluster.nodes), pods=len(self._cluster.tasks))
        recording = asyncio.create_task(self._recorder.run())
        try:
            while True:
                await self._wait_for_news()
                await self._cycle()
        finally:
            recording.cancel()
            await self.dispatcher.stop()
            self._thread.shutdown(wait=False)

    async def _wait_for_news(self) -> None:
        try:
            async with asyncio.timeout(TICK_S):
                await self._news.wait()
        except TimeoutError:
            return
        await self._clock.sleep(GATHER_S)

    async def _cycle(self) -> None:
        self._news.clear()
        snapshot = self._cluster.snapshot()
        chosen = self._policy()
        began = self._clock.monotonic()
        now = self._clock.now()
        loop = asyncio.get_running_loop()
        decisions = await loop.run_in_executor(self._thread, self._plan, snapshot, chosen, now)
        self.cycles += 1
        self.dispatcher.carry_out(decisions)
        if decisions.commits or decisions.evictions:
            self._log(
                "cycle",
                binds=sum(len(commit.binds) for commit in decisions.commits),
                evictions=len(decisions.evictions),
                seconds=round(self._clock.monotonic() - began, 4),
            )

    def _plan(self, snapshot: Snapshot, chosen: Policy, now: int) -> Decisions:
        return cycle.plan(snapshot, chosen, now=now, ports=self._ports, extra_plugins=self._extra_plugins)

    async def _make_queues(self) -> None:
        """The root and the default queue exist, whoever was here before."""
        wanted = {scheduling.ROOT_QUEUE: False, self._cluster.default_queue: True}
        for name, reclaimable in wanted.items():
            if name in self._cluster.queues:
                continue
            body = {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": {"weight": 1, "reclaimable": reclaimable},
            }
            try:
                await self._client.create(scheduling.Queue, body)
            except errors.AlreadyExists:
                continue
