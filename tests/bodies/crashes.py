"""kill -9 of `pumice scheduler` at named steps of dispatch, on every API server.

One process after the other dies, each at a step of its own and some of them while they mend what the one before has left; now and
then one lives and has to finish everything. A witness watches all pods the whole time, so what went wrong and was put right again
is found too. Nodes have no agent: nothing runs, and nobody but the scheduler and the test writes.
"""

import asyncio
import contextlib
import os
import random
import signal
import sys
from pathlib import Path

from tests.bodies.patience import PATIENCE_S
from tests.bodies.scheduler import World

from pumice.api import names
from pumice.api.changes import Deleted, Upserted
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.kube import errors
from pumice.kube.client import Client
from pumice.kube.informer import Informers

SIZE = 8
GANGS_AT_ONCE = 5  # as many as the nodes hold exactly: one pod bound twice over, and a node holds too much
STEPS = (
    "assumed:1",
    *(f"binding:{number}" for number in range(1, SIZE + 1)),
    "bound:1",
    "dispatched:1",
    "dispatched:2",
    "status:1",
    "status:2",
)


class Witness:
    """Sees every version of every pod: none changes its node, no node ever holds more than it has, none is lost unnoticed."""

    def __init__(self, room):
        self.room = room
        self._nodes = {}
        self.losses = asyncio.Queue()
        self.lost = set()
        self.wrong = []

    def see(self, news):
        for each in news:
            if isinstance(each, Upserted):
                self._upserted(each.object)
            elif isinstance(each, Deleted):
                self.forget(each.object.metadata.uid)
                self.lost.add(each.object.metadata.name)
                self.losses.put_nowait(each.object.metadata.name)

    def _upserted(self, pod):
        uid, node = pod.metadata.uid, pod.spec.node_name
        before = self._nodes.get(uid, "")
        if before and before != node:
            self.wrong.append(f"{pod.metadata.name} went from {before} to {node or 'no node'}")
        if node:
            self._nodes[uid] = node
            held = sum(other == node for other in self._nodes.values())
            if held > self.room[node]:
                self.wrong.append(f"{node} holds {held} pods, and has room for {self.room[node]}")

    def forget(self, uid):
        self._nodes.pop(uid, None)


@contextlib.asynccontextmanager
async def witnessed(transport, namespace, room):
    """A world whose pods are watched by a witness; `room` says how many pods each node takes."""
    clock, chance = RealClock(), random.Random(1)
    client = Client(transport, clock=clock, chance=chance)
    world = World(client, namespace, scheduler=None)
    witness = Witness({f"{namespace}-{name}": gpus for name, gpus in room.items()})
    for name, gpus in room.items():
        await world.node(name, gpus=gpus)
    informers = Informers(client, clock=clock, chance=chance)
    informers.of(Pod).subscribe(witness.see)
    watching = asyncio.create_task(informers.run())
    try:
        await informers.synced()
        yield world, witness
    finally:
        watching.cancel()
        await asyncio.wait({watching})
        await world.leave()


class Process:
    """`pumice scheduler`, which dies at its fail point or lives until the block ends."""

    def __init__(self, kubeconfig, log: Path, fail_point=""):
        self._command = [sys.executable, "-m", "pumice.cli", "scheduler", "--kubeconfig", str(kubeconfig)]
        self._command += ["--no-leader-elect", "--listen", "127.0.0.1:0"]
        self._environment = {**os.environ, "PUMICE_FAIL_POINT": fail_point}
        self.fail_point = fail_point
        self._log = log

    async def __aenter__(self):
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, env=self._environment, stdout=log, stderr=log
            )
        return self

    async def __aexit__(self, *_):
        if self._process.returncode is None:
            self._process.terminate()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._process.wait()
            finally:
                if self._process.returncode is None:
                    self._process.kill()
                    await self._process.wait()

    async def death(self):
        """Returns once it has died at its fail point, and of nothing else."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                code = await self._process.wait()
        except TimeoutError:
            raise AssertionError(f"the scheduler should die at {self.fail_point}; {self._last_words()}") from None
        assert code == -signal.SIGKILL, f"the scheduler ended by itself with {code}; {self._last_words()}"

    def _last_words(self):
        return self._log.read_text()[-2000:]


# ---------------------------------------------------------------------------------------------------------- bodies


async def every_gang_ends_whole(transport, kubeconfig, namespace, log, *, deaths, seed):
    """So many deaths at steps of chance; after a handful of them the next process must finish all that was begun."""
    chance = random.Random(seed)
    room = dict.fromkeys("abcde", SIZE)
    async with witnessed(transport, namespace, room) as (world, witness):
        for first in range(0, deaths, GANGS_AT_ONCE):
            story = [chance.choice(STEPS) for _ in range(min(GANGS_AT_ONCE, deaths - first))]
            for number, fail_point in enumerate(story):
                minimum = chance.choice((SIZE, SIZE, SIZE - 3))
                async with Process(kubeconfig, log, fail_point) as doomed:
                    await world.gang(f"g{number}", size=SIZE, minimum=minimum)
                    await doomed.death()
            async with Process(kubeconfig, log):
                for number in range(len(story)):
                    await until_whole(world, f"g{number}", story)
            assert witness.wrong == [], f"after deaths at {story}"
            assert witness.lost == set(), f"after deaths at {story}"
            await clear(world, witness)


async def until_whole(world, gang, story):
    async def whole():
        group = await world.group(gang)
        recorded = group["metadata"].get("annotations", {}).get(names.ATTEMPT)
        is_running = group.get("status", {}).get("phase") == "Running"
        return recorded and is_running and len(await world.bound(gang)) == SIZE

    await world.until(whole, f"after deaths at {story} gang {gang} should be whole", wait_s=PATIENCE_S)


async def clear(world, witness):
    """An empty namespace, and a witness who knows that nothing of this was a loss."""
    pods = await world.pods()
    groups = {pod["metadata"]["annotations"][names.GROUP_NAME] for pod in pods}

    async def delete(struct, name):
        with contextlib.suppress(errors.NotFound):
            await world.client.delete(struct, name, namespace=world.namespace, grace_s=0)

    await asyncio.gather(
        *(delete(Pod, pod["metadata"]["name"]) for pod in pods), *(delete(PodGroup, name) for name in groups)
    )

    async def all_seen():
        return witness.lost >= {pod["metadata"]["name"] for pod in pods}

    await world.until(all_seen, "the witness should see everybody go")
    witness.lost.clear()


async def an_eviction_cut_short_takes_no_more_than_it_needs(transport, kubeconfig, namespace, log, fail_point):
    """Four of eight make room for a better gang of four; the scheduler dies between two of them, and the next one counts right."""
    async with witnessed(transport, namespace, {"a": SIZE}) as (world, witness):
        urgent = f"{namespace}-urgent"
        body = {"metadata": {"name": urgent}, "value": 1000}
        await world.client.create(PriorityClass, body)
        async with Process(kubeconfig, log):
            await world.gang("calm", size=SIZE, minimum=1)
            await until_whole(world, "calm", ["nowhere"])
            await world.run_bound("calm")
        await world.gang("urgent", size=4, priorityClassName=urgent)
        async with Process(kubeconfig, log, fail_point) as doomed:
            await doomed.death()
        async with Process(kubeconfig, log):
            await world.until_bound_as_pods_leave("urgent", 4)
            await world.client.delete(PriorityClass, urgent)
        assert witness.wrong == []
        assert len(witness.lost) == 4
        assert len(await world.bound("calm")) == 4
