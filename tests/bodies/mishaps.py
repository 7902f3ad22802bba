"""What befalls a scheduler in the middle of its work, on every API server: leaders change, nodes vanish, recovery finds odd gangs.

A body gets a Place: a way to open connections to one server, and a namespace. Schedulers run beside the test, each over a
connection and by a clock of its own. Nodes have no agent, so nobody but the schedulers and the test writes.
"""

import asyncio
import contextlib
import dataclasses
import random
from collections.abc import Callable
from typing import Any

import msgspec
from tests.bodies.crashes import witnessed

from pumice.api import kinds, names
from pumice.api.coordination import Lease
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.clock import RealClock
from pumice.kube import lease
from pumice.kube.client import Client
from pumice.kube.informer import Informers
from pumice.kube.lease import Election, NotLeading
from pumice.processes.scheduler import Scheduler, Served
from pumice.runtime import Runtime
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.evicting import mend

SIZE = 8
FIRST = 3  # so many binds arrive before something happens
HOUR_S = 3600.0


@dataclasses.dataclass
class Place:
    connect: Callable[[], Any]  # another connection to the server, which the place closes in the end
    namespace: str


class Skewed(RealClock):
    """A clock that can be set ahead, as after a machine has slept."""

    def __init__(self):
        self.ahead_s = 0.0

    def now(self):
        return super().now() + int(self.ahead_s * 1e9)

    def monotonic(self):
        return super().monotonic() + self.ahead_s


class Line:
    """A Transport that notes which pods it binds. From bind number `hold_from` on, binds stay on the way until `go`.

    What is on the way arrives, also if the one who has sent it does not live to see it.
    """

    def __init__(self, transport, *, hold_from=None):
        self._transport = transport
        self._hold_from = hold_from
        self._sent = 0
        self._under_way = set()
        self.bound = []
        self.answers = []
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    async def call(self, request):
        if not request.path.endswith("/binding"):
            return await self._transport.call(request)
        self._sent += 1
        held = self._hold_from is not None and self._sent >= self._hold_from
        arriving = asyncio.create_task(self._bind(request, held=held))
        self._under_way.add(arriving)
        return await asyncio.shield(arriving)

    async def _bind(self, request, *, held):
        if held:
            self.reached.set()
            await self.go.wait()
        answer = await self._transport.call(request)
        self.answers.append(answer.status)
        if answer.status == 201:
            self.bound.append(request.path.split("/")[-2])
        return answer

    async def arrived(self):
        """Returns when nothing is on the way any more."""
        self.go.set()
        await asyncio.wait(self._under_way)

    async def hang_up(self):
        """Whatever is still on the way is lost."""
        for task in self._under_way:
            task.cancel()
        if self._under_way:
            await asyncio.wait(self._under_way)

    async def close(self):
        await self._transport.close()


@contextlib.asynccontextmanager
async def scheduling(line, *, clock=None, identity="", fail_point=lambda _: None):
    """A scheduler at work; with an identity it works only while it leads. Its work as a task, and the scheduler."""
    clock, chance = clock or RealClock(), random.Random(1)
    client = Client(line, clock=clock, chance=chance)
    informers = Informers(client, clock=clock, chance=chance)
    policy = builtin.parse(builtin.TEXT, "built-in policy")
    runtime = Runtime(clock=clock, chance=chance, fail_point=fail_point)
    election = None
    if identity:
        election = Election(client, namespace="default", name="mishaps", identity=identity, clock=clock, chance=chance)
        runtime = msgspec.structs.replace(runtime, guard=election.check)
    scheduler = Scheduler(client, informers, lambda: policy, runtime, Served())
    work = scheduler.run() if election is None else election.lead(scheduler.run)
    tasks = [asyncio.create_task(informers.run()), asyncio.create_task(work)]
    try:
        yield tasks[1], scheduler
    finally:
        for task in reversed(tasks):
            task.cancel()
        await asyncio.wait(tasks)
        await line.hang_up()


async def leads(world, identity):
    async def held():
        leases = await world.client.list_json(kinds.by_struct(Lease), namespace="default")
        return any(each["spec"].get("holderIdentity") == identity for each in leases)

    await world.until(held, f"{identity} should lead")


async def work_ends(task, error):
    await asyncio.wait({task})
    assert isinstance(task.exception(), error), task.exception()


# ------------------------------------------------------------------------------------------------- changes of leaders


async def test_a_leader_deposed_between_two_binds_binds_nobody_more_and_the_next_one_finishes(place):
    """The machine sleeps between the third bind and the fourth for so long that its lease runs out."""
    slow, quick = Skewed(), Skewed()
    one, two = Line(place.connect()), Line(place.connect())
    reached = 0

    def fall_asleep(step):
        nonlocal reached
        reached += step == "binding"
        if reached == FIRST + 1 and slow.ahead_s == 0:
            slow.ahead_s = lease.RENEW_S

    async with witnessed(place.connect(), place.namespace, {"a": SIZE}) as (world, witness):
        async with scheduling(one, clock=slow, identity="one", fail_point=fall_asleep) as (work, _):
            await leads(world, "one")
            async with scheduling(two, clock=quick, identity="two"):
                await world.gang("train", size=SIZE)
                await work_ends(work, NotLeading)
                assert len(await world.bound("train")) == FIRST
                quick.ahead_s = lease.LEASE_S
                await world.until_bound("train", SIZE)
                await until_running(world, "train")
        assert (len(one.bound), len(two.bound)) == (FIRST, SIZE - FIRST)
        assert not set(one.bound) & set(two.bound)
        assert (witness.wrong, witness.lost) == ([], set())
        await world.client.delete(Lease, "mishaps", namespace="default")


async def test_binds_of_a_former_leader_that_arrive_late_change_nothing(place):
    """Its last binds are on the way while another one takes over, finishes the gang, and starts a second one."""
    slow, quick = Skewed(), Skewed()
    one, two = Line(place.connect(), hold_from=FIRST + 1), Line(place.connect())
    async with witnessed(place.connect(), place.namespace, {"a": SIZE, "b": SIZE}) as (world, witness):
        async with scheduling(one, clock=slow, identity="one") as (work, _):
            await leads(world, "one")
            async with scheduling(two, clock=quick, identity="two"):
                await world.gang("train", size=SIZE)
                await one.reached.wait()
                slow.ahead_s = lease.RENEW_S
                await work_ends(work, NotLeading)
                quick.ahead_s = lease.LEASE_S
                await world.until_bound("train", SIZE)
                await world.gang("next", size=SIZE)
                await world.until_bound("next", SIZE)
                await one.arrived()
        assert sorted(one.answers) == [201] * FIRST + [409] * (SIZE - FIRST)
        assert (witness.wrong, witness.lost) == ([], set())
        await world.client.delete(Lease, "mishaps", namespace="default")


async def until_running(world, gang):
    async def is_running():
        return (await world.group(gang)).get("status", {}).get("phase") == "Running"

    await world.until(is_running, f"{gang} should say Running")


# ------------------------------------------------------------------------------------------------- lost members


@contextlib.asynccontextmanager
async def remaking(world, witness):
    """Who makes every pod anew that is deleted, as its controller would."""
    await world.have_controller()

    async def remake():
        while True:
            name = await witness.losses.get()
            await world.pod(name, gang=name.split("-")[0])

    working = asyncio.create_task(remake())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.wait({working})


async def test_members_bound_to_a_node_that_was_deleted_meanwhile_find_another_one(place):
    line = Line(place.connect(), hold_from=FIRST + 1)
    async with (
        witnessed(place.connect(), place.namespace, {"a": 4, "b": 4}) as (world, witness),
        remaking(world, witness),
        scheduling(line),
    ):
        await world.gang("train", size=SIZE)
        await line.reached.wait()
        await world.client.delete(Node, f"{world.namespace}-b")
        witness.room[f"{world.namespace}-c"] = 4
        await world.node("c", gpus=4)
        line.go.set()

        async def whole():
            nodes = sorted((await world.bound("train")).values())
            return nodes == [f"{world.namespace}-a"] * 4 + [f"{world.namespace}-c"] * 4

        await world.until(whole, "the gang should be whole, and on nodes that are there")
        await until_running(world, "train")
        assert witness.wrong == []
        assert len(witness.lost) == 4


async def overtaken(world, witness, line):
    """A gang of eight on eight slots, of which somebody else has taken one while half of the binds were on the way."""
    node = await world.node("a", gpus=SIZE)
    witness.room[node] = SIZE + 1  # the API server minds it as little as the kubelet likes it
    await world.gang("train", size=SIZE)
    await line.reached.wait()
    await world.pod("theirs-0", scheduler="somebody-else", nodeName=node)
    line.go.set()
    await world.until_bound("train", SIZE)


async def refuse(world, name):
    """What a kubelet says to a pod for which it has no room."""
    status = {"phase": "Failed", "reason": "OutOfnvidia.com/gpu", "message": "Node didn't have enough resource"}
    await world.client.patch(Pod, name, {"status": status}, namespace=world.namespace, subresource="status")


async def test_a_member_that_its_node_refuses_is_placed_anew(place):
    line = Line(place.connect(), hold_from=FIRST + 1)
    async with (
        witnessed(place.connect(), place.namespace, {}) as (world, witness),
        remaking(world, witness),
        scheduling(line),
    ):
        await overtaken(world, witness, line)
        before = {pod["metadata"]["uid"] for pod in await world.pods("train")}
        await refuse(world, "train-worker-5")
        witness.room[f"{world.namespace}-b"] = 1
        other = await world.node("b", gpus=1)

        async def whole():
            bound = await world.bound("train")
            return len(bound) == SIZE and bound["train-worker-5"] == other

        await world.until(whole, "the refused member should be placed anew")
        await until_running(world, "train")
        left = {pod["metadata"]["uid"] for pod in await world.pods("train")}
        assert (len(before & left), witness.lost) == (SIZE - 1, {"train-worker-5"})
        assert witness.wrong == []


async def test_a_gang_whose_start_a_node_belied_is_given_up_and_starts_again_when_there_is_room(place):
    """It was recorded as running when the refusal came; a slot too few for longer than the grace time, and nobody keeps any."""
    clock = Skewed()
    line = Line(place.connect(), hold_from=FIRST + 1)
    async with (
        witnessed(place.connect(), place.namespace, {}) as (world, witness),
        remaking(world, witness),
        scheduling(line, clock=clock),
    ):
        await overtaken(world, witness, line)
        await until_running(world, "train")
        await refuse(world, "train-worker-5")

        async def is_struck():
            group = await world.group("train")
            return (
                names.ATTEMPT not in group["metadata"].get("annotations", {}) and group["status"]["phase"] != "Running"
            )

        await world.until(is_struck, "the record of a start that was none should be struck out")

        async def is_made_anew():
            waiting = [pod["metadata"]["name"] for pod in await world.pods("train") if not pod["spec"].get("nodeName")]
            return waiting == ["train-worker-5"]

        await world.until(is_made_anew, "the refused member should be made anew")
        clock.ahead_s = 2 * cycle.GRACE_SECONDS

        async def is_released():
            leaving = [pod for pod in await world.pods("train") if pod["metadata"].get("deletionTimestamp")]
            return len(leaving) == SIZE - 1

        await world.until(is_released, "the others should be released")
        await world.client.delete(Pod, "theirs-0", namespace=world.namespace, grace_s=0)
        await world.until_bound_as_pods_leave("train", SIZE)
        await until_running(world, "train")


# ------------------------------------------------------------------------------------------------- recovery


async def lose(world, *pods):
    """Pods that are gone for good, and successors that will never find a node."""
    for name in pods:
        await world.client.delete(Pod, name, namespace=world.namespace, grace_s=0)
        await world.pod(name, gang=name.split("-")[0], gpus=1000)


async def bind(world, name, node, note):
    """By hand, as another scheduler or a former life of ours would."""
    pod = (await world.client.get(Pod, name, namespace=world.namespace)).json()
    annotations = {names.ATTEMPT: note} if note else {}
    await world.client.bind(
        name, namespace=world.namespace, uid=pod["metadata"]["uid"], node=node, annotations=annotations
    )


async def run_again(world, gang, size):
    """Its Job is restarted: all pods go, new ones come under the old names and in the old group, and run."""
    for number in range(size):
        await world.client.delete(Pod, f"{gang}-worker-{number}", namespace=world.namespace, grace_s=0)

    async def is_idle():
        return (await world.group(gang))["status"]["phase"] != "Running"

    await world.until(is_idle, "the group of a gang without pods should not say Running")
    for number in range(size):
        await world.pod(f"{gang}-worker-{number}", gang=gang)
    await world.until_bound(gang, size)
    await until_running(world, gang)


async def test_what_a_leader_with_a_clock_an_hour_ahead_has_cut_short_is_released_after_the_grace_time(place):
    """A gang is bound whole or not at all, whatever the time was where it was begun."""
    clock = Skewed()
    async with witnessed(place.connect(), place.namespace, {"a": 100}) as (world, _):
        await world.have_controller()
        await world.gang("cut", size=2, minimum=3)
        await world.pod("cut-worker-2", gang="cut", gpus=1000)
        note = mend.attempt_id(RealClock().now() + int(HOUR_S * 1e9), "cut")
        for number in range(2):
            await bind(world, f"cut-worker-{number}", f"{world.namespace}-a", note)
        async with scheduling(Line(place.connect()), clock=clock) as (_, world.scheduler):
            await world.until_said("cut", "tasks in gang unschedulable")
            assert not any(pod["metadata"].get("deletionTimestamp") for pod in await world.pods("cut"))
            clock.ahead_s = 2 * cycle.GRACE_SECONDS

            async def is_released():
                pods = await world.pods("cut")
                return sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in pods) == 2

            await world.until(is_released, "what was cut short should be released")


async def test_of_gangs_that_lack_members_recovery_gives_up_only_those_that_never_started(place):
    """An hour after everything: elastic, degraded, with a raised minimum, restarted, started by others, and one cut short."""
    clock = Skewed()
    async with witnessed(place.connect(), place.namespace, {"a": 100}) as (world, _):
        await world.have_controller()
        async with scheduling(Line(place.connect())):
            for gang, size, minimum in (("elastic", 4, 2), ("degraded", 3, 3), ("raised", 2, 2), ("again", 2, 2)):
                await world.gang(gang, size=size, minimum=minimum)
                await world.until_bound(gang, size)
                await until_running(world, gang)
            await run_again(world, "again", 2)
        await lose(world, "elastic-worker-3", "degraded-worker-2", "again-worker-1")
        await world.client.patch(PodGroup, "raised", {"spec": {"minMember": 5}}, namespace=world.namespace)
        note = mend.attempt_id(RealClock().now(), "cut")
        for gang, own in (("theirs", ""), ("cut", note)):
            await world.gang(gang, size=2, minimum=3)
            await world.pod(f"{gang}-worker-2", gang=gang, gpus=1000)
            for number in range(2):
                await bind(world, f"{gang}-worker-{number}", f"{world.namespace}-a", own)
        started = {
            pod["metadata"]["uid"]: pod["metadata"]["name"]
            for pod in await world.pods()
            if pod["spec"].get("nodeName") and not pod["metadata"]["name"].startswith("cut")
        }
        clock.ahead_s = HOUR_S
        async with scheduling(Line(place.connect()), clock=clock) as (_, world.scheduler):

            async def is_released():
                pods = await world.pods("cut")
                return sum(bool(pod["metadata"].get("deletionTimestamp")) for pod in pods) == 2

            await world.until(is_released, "what was cut short should be released")
            await world.stir()
            await world.stir()
        left = {pod["metadata"]["uid"] for pod in await world.pods() if not pod["metadata"].get("deletionTimestamp")}
        assert [name for uid, name in started.items() if uid not in left] == []
        assert len(started) == 3 + 2 + 2 + 1 + 2
