"""What befalls a world, one function each. Everything that is broken here is mended by `mend_all` when the faults are over."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import kinds
from pumice.api.batch import Action, CronJob, Job
from pumice.api.bus import Command
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue
from pumice.kube import errors
from pumice.kube.requests import PatchType
from pumice.local.nodes import registration
from pumice.local.nodes.pretend import GPU, Trouble
from pumice.sim.worlds import replicas, users
from pumice.sim.worlds.story import CRON_NAME, GPUS, JobPlan

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pumice.sim.worlds.story import Mishap
    from pumice.sim.worlds.world import World

FAIL_POINTS = ("assumed", "binding", "binding", "bound", "dispatched", "status", "evicting")
_BEFORE_WRITES = f"{replicas.SCHEDULER}:assumed"
CONTROLLER_POINTS = ("create", "create", "patch", "apply", "delete")
PAUSE_S_MAX = 40.0  # well beyond a lease
CUT_S_MAX = 40.0
NODE_S_MAX = 50.0
STORE_S_MAX = 6.0
SKEW_S_MAX = 600.0
EXPIRE_S_MAX = 8.0
HOLD_S_MIN, HOLD_S_MAX = 4.0, 14.0
ABORT_S_MAX = 8.0
LOOK_S = 0.25
FLAPS = 4
FLAP_S_MAX = 6.0
_ONE_POD = JobPlan(0.0, "one", size=1, minimum=1, gpus=1, run_s=1, queue="default")


# With these, what a scheduler counts is off by more than what a test can forgive: it hears late, by a wrong clock, or the cluster has another size.
_BLURS_USAGE = frozenset({
    "pause-leader", "pause-leader-at", "cut-scheduler", "skew", "expire-watches", "restart-store", "node-down", "node-flaps", "node-gone",
    "node-deleted", "node-shrinks", "node-cordoned",
})  # fmt: skip


async def befall(world: World, mishap: Mishap) -> None:
    """Lets it happen, unless the faults are over."""
    if world.is_calm:
        return
    world.note(f"mishap {mishap}")
    if mishap.what in _BLURS_USAGE:
        world.witness.ledger.is_whole = False
    world.network.done[mishap.what] += 1
    with contextlib.suppress(errors.KubeError):  # of users: what they wanted to change is gone, or the server is down
        await MISHAPS[mishap.what](world, mishap)


async def mend_all(world: World) -> None:
    """Nothing is broken any more."""
    if not world.server.is_up:
        await world.server.start()
    world.server.journal.is_full = False
    for machine in world.machines.values():
        machine.line.is_cut = False
        machine.replica.spare()
        machine.replica.wake(world.loop)
    for name in world.nodes:
        await _register(world, name)
        await _node(world, name, Trouble.NONE)
        await _resize(world, name, GPUS)
        await world.client.patch(Node, name, {"spec": {"unschedulable": None}})
    for pod in list(world.witness.pods.values()):
        if pod.key.startswith("default/intruder"):
            with contextlib.suppress(errors.NotFound):
                await world.client.delete(Pod, pod.key.partition("/")[2], namespace="default", grace_s=0)


# ------------------------------------------------------------------------------------------------- processes


def _leader(world: World) -> str:
    holder = world.witness.leaders.of(replicas.SCHEDULER_LEASE).identity
    return holder.rpartition("-")[0] or f"{replicas.SCHEDULER}-0"


async def _kill(world: World, mishap: Mishap) -> None:
    world.kill(mishap.who or _leader(world))


async def _kill_at(world: World, mishap: Mishap) -> None:
    """The leader dies at one of its next fail points, or after so many steps of its event loop."""
    number = round(mishap.amount * 1000)
    if number % 3 == 0:
        name = _leader(world)
        world.machines[name].replica.dies_after(number, lambda: world.kill(name))
    else:
        world.armed[f"{replicas.SCHEDULER}:{FAIL_POINTS[number % len(FAIL_POINTS)]}"] = number % 4


async def _kill_controllers_at(world: World, mishap: Mishap) -> None:
    number = round(mishap.amount * 1000)
    if number % 3 == 0:
        world.machines[mishap.who].replica.dies_after(number, lambda: world.kill(mishap.who))
        return
    world.armed[f"{replicas.CONTROLLERS}:{CONTROLLER_POINTS[number % len(CONTROLLER_POINTS)]}"] = number % 4


async def _kill_after_binds(world: World, mishap: Mishap) -> None:
    """The leader dies while its binds wait somewhere on the way; they arrive when another one leads."""
    del mishap
    if world.network.held is not None:
        return
    held = world.network.held = asyncio.Event()
    await held.wait()
    world.network.held = None
    if not world.is_calm:
        world.kill(_leader(world))


async def _hold_binds(world: World, mishap: Mishap) -> None:
    """Binds are not answered, and arrive much later, while whoever sent them lives on."""
    if world.network.held is not None:
        return
    world.network.held = asyncio.Event()
    await asyncio.sleep(HOLD_S_MIN + mishap.amount * (HOLD_S_MAX - HOLD_S_MIN))
    world.network.held = None


def _the_webhooks(do: Callable[[World, Mishap], Awaitable[None]]) -> Callable[[World, Mishap], Awaitable[None]]:
    return lambda world, mishap: do(world, msgspec.structs.replace(mishap, who=replicas.WEBHOOKS))


async def _stop(world: World, mishap: Mishap) -> None:
    world.stop(mishap.who or _leader(world))


async def _pause(world: World, mishap: Mishap) -> None:
    """The machine sleeps, and wakes perhaps after its lease."""
    replica = world.machines[mishap.who or _leader(world)].replica
    replica.pause()
    await asyncio.sleep(mishap.amount * PAUSE_S_MAX)
    replica.wake(world.loop)


async def _pause_at(world: World, mishap: Mishap) -> None:
    """The leader stands still between its plan and what it writes for it, and goes on once another leads: all that it was about to do comes first."""
    stopped: list[str] = []

    def stop(name: str) -> None:
        world.machines[name].replica.pause()
        stopped.append(name)

    world.stops[_BEFORE_WRITES] = stop
    while not stopped and not world.is_calm:  # noqa: ASYNC110  virtual seconds
        await asyncio.sleep(LOOK_S)
    for name in stopped:
        while _leader(world) == name and not world.is_calm:  # noqa: ASYNC110  as above
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(mishap.amount)
        world.machines[name].replica.wake(world.loop)


async def _cut(world: World, mishap: Mishap) -> None:
    line = world.machines[mishap.who].line
    line.is_cut = True
    await asyncio.sleep(mishap.amount * CUT_S_MAX)
    line.is_cut = False


async def _skew(world: World, mishap: Mishap) -> None:
    world.machines[mishap.who].clock.skew_s = (mishap.amount - 0.5) * 2 * SKEW_S_MAX


async def _expire_watches(world: World, mishap: Mishap) -> None:
    """The server has forgotten where the watches of a process were: it sees nothing for a while, and then has to list anew."""
    for wire in world.network.wires_of(mishap.who):
        wire.expire(mishap.amount * EXPIRE_S_MAX)


# ------------------------------------------------------------------------------------------------- the store


async def _restart_store(world: World, mishap: Mishap) -> None:
    await world.server.crash()
    await asyncio.sleep(mishap.amount * STORE_S_MAX)
    if not world.server.is_up:
        await world.server.start()


async def _disk_full(world: World, mishap: Mishap) -> None:
    world.server.journal.is_full = True
    await asyncio.sleep(mishap.amount * STORE_S_MAX)
    world.server.journal.is_full = False


# ------------------------------------------------------------------------------------------------- nodes


async def _node(world: World, name: str, trouble: Trouble) -> None:
    agent = world.machines["nodes"].worker
    if agent is not None:
        agent.trouble(name, trouble)


async def _node_down(world: World, mishap: Mishap) -> None:
    await _node(world, mishap.who, Trouble.NOT_READY)
    await asyncio.sleep(mishap.amount * NODE_S_MAX)
    await _node(world, mishap.who, Trouble.NONE)


async def _node_flaps(world: World, mishap: Mishap) -> None:
    for _ in range(FLAPS):
        await _node(world, mishap.who, Trouble.NOT_READY)
        await asyncio.sleep(mishap.amount * FLAP_S_MAX)
        await _node(world, mishap.who, Trouble.NONE)
        await asyncio.sleep((1 - mishap.amount) * FLAP_S_MAX)


async def _node_gone(world: World, mishap: Mishap) -> None:
    await _node(world, mishap.who, Trouble.GONE)
    await asyncio.sleep(mishap.amount * NODE_S_MAX)
    await _node(world, mishap.who, Trouble.NONE)


async def _node_deleted(world: World, mishap: Mishap) -> None:
    """Whoever sizes the cluster takes the node away, and brings it back under the same name."""
    await world.client.delete(Node, mishap.who)
    await asyncio.sleep(mishap.amount * NODE_S_MAX)
    await _register(world, mishap.who)


async def _register(world: World, name: str) -> None:
    if not world.witness.room[name].now():
        await registration.register(world.client, world.nodes[name], now=world.clock.now())
        await _node(world, name, Trouble.NONE)


async def _resize(world: World, name: str, gpus: int) -> None:
    status = {"status": {"allocatable": {GPU: str(gpus)}, "capacity": {GPU: str(gpus)}}}
    await world.client.patch(Node, name, status, how=PatchType.STRATEGIC, subresource="status")


async def _node_shrinks(world: World, mishap: Mishap) -> None:
    """Cards fall off the bus, and come back."""
    await _resize(world, mishap.who, round(mishap.amount * (GPUS - 1)))
    await asyncio.sleep(mishap.amount * NODE_S_MAX)
    await _resize(world, mishap.who, GPUS)


async def _node_cordoned(world: World, mishap: Mishap) -> None:
    await world.client.patch(Node, mishap.who, {"spec": {"unschedulable": True}})
    await asyncio.sleep(mishap.amount * NODE_S_MAX)
    await world.client.patch(Node, mishap.who, {"spec": {"unschedulable": None}})


async def _intruder(world: World, mishap: Mishap) -> None:
    """Another scheduler puts a pod of its own onto a node."""
    gpus = {GPU: str(1 + round(mishap.amount * (GPUS - 1)))}
    name = f"intruder-{round(mishap.at_s * 100)}"
    container = {"name": "main", "image": "theirs", "resources": {"limits": gpus, "requests": gpus}}
    spec = {"schedulerName": "theirs", "nodeName": mishap.who, "restartPolicy": "Never", "containers": [container]}
    await world.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace="default")
    await asyncio.sleep(mishap.amount * NODE_S_MAX)
    await world.client.delete(Pod, name, namespace="default", grace_s=0)


async def _binds_refused(world: World, mishap: Mishap) -> None:
    """Somebody's admission webhook lets no pod onto the node, until the faults are over."""
    world.network.refuses.add(mishap.who)


# ------------------------------------------------------------------------------------------------- users


async def _delete_job(world: World, mishap: Mishap) -> None:
    await world.client.delete(Job, mishap.who, namespace="default")


async def _recreate_job(world: World, mishap: Mishap) -> None:
    """The same name again, at once, perhaps while pods of the former one are still there."""
    await world.client.delete(Job, mishap.who, namespace="default")
    for plan in world.story.jobs:
        if plan.name == mishap.who:
            await world.client.create(Job, users.manifest(plan), namespace="default")


async def _delete_pod(world: World, mishap: Mishap) -> None:
    """One that runs, if there is one: then its Job starts again."""
    pods = [each for each in world.witness.pods.values() if each.key.startswith(f"default/{mishap.who}-")]
    own = sorted(each.key for each in pods if each.node and not each.is_over) or sorted(each.key for each in pods)
    if own:
        name = own[round(mishap.amount * 1000) % len(own)].partition("/")[2]
        await world.client.delete(Pod, name, namespace="default")


async def _scale_job(world: World, mishap: Mishap) -> None:
    """One pod more, or as many less as the minimum allows."""
    for plan in world.story.jobs:
        if plan.name == mishap.who:
            replicas = plan.size + 1 if mishap.amount < 0.5 else plan.minimum
            patch = [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": replicas}]
            await world.client.patch(Job, plan.name, patch, how=PatchType.JSON, namespace="default")


async def _abort_job(world: World, mishap: Mishap) -> None:
    """Stopped by its owner, and resumed a while later."""
    job = world.witness.jobs.get(f"default/{mishap.who}")
    if job is None:
        return
    for action in (Action.ABORT_JOB, Action.RESUME_JOB):
        await users.insist(world.client.create, Command, _command(job, action), namespace="default")
        await asyncio.sleep(mishap.amount * ABORT_S_MAX)


async def _close_queue(world: World, mishap: Mishap) -> None:
    """Nobody is let in any more, until it is opened again."""
    for action in (Action.CLOSE_QUEUE, Action.OPEN_QUEUE):
        command = _command(world.witness.queues["narrow"], action)
        await users.insist(world.client.create, Command, command, namespace="default")
        await asyncio.sleep(mishap.amount * ABORT_S_MAX)


def _command(target: Job | Queue, action: Action) -> dict[str, Any]:
    metadata = target.metadata
    owner = {**kinds.type_meta(type(target)), "name": metadata.name, "uid": metadata.uid, "controller": True}
    return {"metadata": {"generateName": f"{action.value.lower()}-"}, "action": action.value, "target": owner}


async def _delete_cron(world: World, mishap: Mishap) -> None:
    del mishap
    await world.client.delete(CronJob, CRON_NAME, namespace="default")


async def _bad_job(world: World, mishap: Mishap) -> None:
    """Nobody can start a Job that wants more pods at once than it has: it must never get in, whatever becomes of the webhooks."""
    plan = next(iter(world.story.jobs), _ONE_POD)  # a story that is told again may have none
    bad = users.manifest(msgspec.structs.replace(plan, name=f"bad-{round(mishap.at_s * 100)}"))
    bad["spec"]["minAvailable"] = 1 + bad["spec"]["tasks"][0]["replicas"]
    await world.client.create(Job, bad, namespace="default")
    world.witness.complain(f"job {bad['metadata']['name']} wants more pods at once than it has, and was accepted")


async def _edit_queue(world: World, mishap: Mishap) -> None:
    """Not below its guarantee: admission refuses that, and where it is not asked the guarantee counts."""
    gpus = max(2 + round(mishap.amount * 10), world.story.queues["narrow"].guarantee)
    await world.client.patch(Queue, "narrow", {"spec": {"capability": {GPU: str(gpus)}}})


MISHAPS: dict[str, Callable[[World, Mishap], Awaitable[Any]]] = {
    "kill-scheduler": _kill,
    "kill-leader": _kill,
    "kill-at": _kill_at,
    "kill-controllers": _kill,
    "kill-controllers-at": _kill_controllers_at,
    "kill-after-binds": _kill_after_binds,
    "hold-binds": _hold_binds,
    "stop-scheduler": _stop,
    "stop-leader": _stop,
    "stop-controllers": _stop,
    "pause-leader": _pause,
    "pause-leader-at": _pause_at,
    "pause-controllers": _pause,
    "cut-scheduler": _cut,
    "cut-controllers": _cut,
    "skew": _skew,
    "skew-controllers": _skew,
    "expire-watches": _expire_watches,
    "restart-store": _restart_store,
    "disk-full": _disk_full,
    "node-down": _node_down,
    "node-flaps": _node_flaps,
    "node-gone": _node_gone,
    "node-deleted": _node_deleted,
    "node-shrinks": _node_shrinks,
    "node-cordoned": _node_cordoned,
    "intruder": _intruder,
    "binds-refused": _binds_refused,
    "delete-job": _delete_job,
    "recreate-job": _recreate_job,
    "delete-pod": _delete_pod,
    "scale-job": _scale_job,
    "abort-job": _abort_job,
    "edit-queue": _edit_queue,
    "close-queue": _close_queue,
    "delete-cron": _delete_cron,
    "bad-job": _bad_job,
    "kill-webhooks": _the_webhooks(_kill),
    "cut-webhooks": _the_webhooks(_cut),
    "pause-webhooks": _the_webhooks(_pause),
}
