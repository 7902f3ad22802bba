"""kill -9 of real schedulers and controllers while Jobs come and go: every gang once in the record, and usage that is hardly off.

The embedded server and its pretend nodes live in the test; the scheduler and the controllers are the processes that people start.
"""

import asyncio
import contextlib
import random
import sys
import time

from tests.bodies.patience import PATIENCE_S
from tests.bodies.record import rows_of
from tests.bodies.recorded import a_job

from pumice import instant
from pumice.api.batch import Job
from pumice.api.changes import Upserted
from pumice.api.core import ConfigMap
from pumice.api.pods import Pod
from pumice.clock import RealClock
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.serving import EmbeddedServer, Place
from pumice.local.nodes.lifecycle import NodeLifecycle
from pumice.local.nodes.pretend import PretendAgent, pretend_nodes
from pumice.local.up import install_kinds
from pumice.record.store import Store
from pumice.runtime import Runtime, silent
from pumice.scheduling.core.memory import object_name
from pumice.scheduling.sharing import decayed_usage

NODES, GPUS, PODS = 4, 8, 4
MINUTE_S = 60
ENDED = {"Succeeded", "Failed"}


class Process:
    """One of our commands, which dies and is started again."""

    def __init__(self, name, kubeconfig, log, *arguments):
        self._command = [sys.executable, "-m", "pumice.cli", name, "-k", str(kubeconfig), "--no-leader-elect", "--listen", "127.0.0.1:0", *arguments]  # fmt: skip
        self._log = log
        self._process = None
        self.deaths = 0

    async def start(self):
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(*self._command, stdout=log, stderr=log)

    async def kill(self):
        self._process.kill()
        await self._process.wait()
        self.deaths += 1

    async def stop(self):
        """In good order: what is remembered is written."""
        if self._process is not None and self._process.returncode is None:
            self._process.terminate()
            await self._process.wait()


class Ledger:
    """What really happened, as the API server tells it: which Jobs are done, and what pods have held and for how long."""

    def __init__(self):
        self.done = {}  # Job name -> uid
        self.bound, self.ended = {}, {}  # pod uid -> second
        self._news = asyncio.Event()

    def hear(self, news):
        for change in news:
            if not isinstance(change, Upserted):
                continue
            thing, now = change.object, time.time()
            if isinstance(thing, Job) and thing.status.state.phase == "Completed":
                self.done[thing.metadata.name] = thing.metadata.uid
            elif isinstance(thing, Pod) and thing.spec.node_name:
                self.bound.setdefault(thing.metadata.uid, now)
                if thing.status.phase in ENDED:
                    self.ended.setdefault(thing.metadata.uid, now)
        self._news.set()

    async def until_done(self, count):
        while len(self.done) < count:
            self._news.clear()
            async with asyncio.timeout(PATIENCE_S):
                await self._news.wait()

    def held_gpu_s(self, now):
        return sum(self.ended.get(uid, now) - since for uid, since in self.bound.items())

    def held_max(self):
        """The most GPUs at a time."""
        steps = sorted([(at, 1) for at in self.bound.values()] + [(at, -1) for at in self.ended.values()])
        held = most = 0
        for _, step in steps:
            held += step
            most = max(most, held)
        return most


@contextlib.asynccontextmanager
async def a_server(folder):
    """A kubeconfig, a client and a ledger; nodes that pretend."""
    runtime = Runtime(clock=RealClock(), chance=random.Random(), log=silent)
    async with EmbeddedServer(Place(folder)) as embedded, asyncio.TaskGroup() as group:
        client = Client(LocalTransport(embedded.server), clock=runtime.clock, chance=runtime.chance)
        await install_kinds(client)
        informers = Informers(client, clock=runtime.clock, chance=runtime.chance, log=silent)
        ledger = Ledger()
        for kind in (Job, Pod):
            informers.of(kind).subscribe(ledger.hear)
        agent = PretendAgent(client, informers, pretend_nodes(NODES, gpus=GPUS), runtime)
        works = [group.create_task(each) for each in (informers.run(), agent.run(), NodeLifecycle(client, informers, runtime).run())]  # fmt: skip
        await agent.ready.wait()
        yield embedded.kubeconfig, client, ledger
        for work in works:
            work.cancel()


async def jobs_survive(folder, url, *, jobs, deaths, run_s, seed):
    """Processes die at random, `deaths` times each on average over all Jobs; returns what was found, in figures."""
    chance = random.Random(seed)
    async with a_server(folder / "server") as (kubeconfig, client, ledger):
        scheduler = Process("scheduler", kubeconfig, folder / "scheduler.log")
        controllers = Process("controllers", kubeconfig, folder / "controllers.log", "--record", url, "--no-record-logs")  # fmt: skip
        try:
            for process in (scheduler, controllers):
                await process.start()
            for number in range(jobs):
                body = a_job(f"train-{number}", pods=PODS, run=f"{chance.uniform(0.5, 1.5) * run_s:.1f}s")
                await client.create(Job, body, namespace="default")
            moments = sorted(chance.randint(1, max(jobs - PODS, 1)) for _ in range(2 * deaths))
            for number, moment in enumerate(moments):
                await ledger.until_done(moment)
                victim = (scheduler, controllers)[number % 2]
                await victim.kill()
                await victim.start()
            await ledger.until_done(jobs)
            await _until_recorded(url, jobs)
        finally:
            for process in (scheduler, controllers):
                await process.stop()
        found = await client.get(
            ConfigMap, object_name("pumice-scheduler", decayed_usage.SLOT.name), namespace="kube-system"
        )
        memory = decayed_usage.SLOT.decode(found.into(ConfigMap).data["memory.json"])
    assert (scheduler.deaths, controllers.deaths) == (deaths, deaths)
    return _judged(ledger, memory, url, jobs, seed)


async def _until_recorded(url, jobs):
    """The record is a few seconds behind; who keeps it must not be stopped before it has heard of the last end."""
    store = Store(url)
    store.open()
    async with asyncio.timeout(PATIENCE_S):
        while sum(row["state"] == "Completed" for row in rows_of(store, "gangs")) < jobs:  # noqa: ASYNC110  another process writes it
            await asyncio.sleep(0.2)
    store.close()


def _judged(ledger, memory, url, jobs, seed):
    store = Store(url)
    store.open()
    gangs, runs = rows_of(store, "gangs"), rows_of(store, "runs")
    store.close()
    where = f"seed {seed}"
    assert sorted(row["name"] for row in gangs) == sorted(ledger.done), f"{where}: each gang once"
    assert {row["uid"] for row in gangs} == set(ledger.done.values()), where
    assert {row["state"] for row in gangs} == {"Completed"}, where
    assert len(runs) == len({row["uid"] for row in runs}) == len(ledger.bound), f"{where}: each pod once"
    now = memory.at / instant.SECOND
    truth, most = ledger.held_gpu_s(now), ledger.held_max()
    recorded = sum(row["ended"] - row["bound"] for row in runs)
    usage, share = memory.queues["default"]
    remembered = usage * NODES * GPUS  # the half-life is a week: nothing has decayed that counts here
    figures = {
        "jobs": jobs,
        "gpu_s_held": round(truth, 1),
        "gpus_at_most": most,
        "recorded_off_s": round(abs(recorded - truth) / most, 2),
        "remembered_off_s": round(abs(remembered - truth) / most, 2),
        "still_held": share,
    }
    assert figures["recorded_off_s"] <= MINUTE_S, f"{where}: {figures}"
    assert figures["remembered_off_s"] <= MINUTE_S, f"{where}: {figures}"
    return figures
