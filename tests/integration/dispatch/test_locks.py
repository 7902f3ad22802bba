"""Locks on nodes before binds, on the embedded server under virtual time; the test plays the device plugin."""

import asyncio
import random

import pytest
from tests.integration.dispatch.network import LOST, NEVER_SENT, Network, calls_to, nobody_waits

from pumice import instant
from pumice.api.changes import BindFailed, Upserted
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.dispatch.binder import BIND_WINDOW, Binder
from pumice.dispatch.locks import RETRY_S, TAKE_S_MAX, NodeLocks, NotLocked
from pumice.kube.client import Client
from pumice.local.apiserver.local import LocalTransport
from pumice.local.apiserver.server import Server, Settings
from pumice.runtime import Runtime
from pumice.scheduling.core.decisions import Bind, GangCommit

NOON = instant.parse_instant("2026-01-31T12:00:00Z")
LOCK = "hamivgpu"


class Place:
    """A server with node n1, a binder, and what the binder has learnt."""

    def __init__(self, client, clock, network):
        self.client = client
        self.clock = clock
        self.network = network
        self.said = []
        runtime = Runtime(
            clock=clock, chance=random.Random(3), log=lambda event, **facts: self.said.append((event, facts))
        )
        self.locks = NodeLocks(client, runtime)
        self.cluster = Cluster(scheduler_names=frozenset({"volcano"}), default_queue="default")
        self.intake = Intake(self.cluster)
        self.failures = []
        self.binder = Binder(client, self.cluster, self.learn, runtime)

    def learn(self, change):
        if isinstance(change, BindFailed):
            self.failures.append((change.pod.name, change.reason))
        self.intake.apply(change)

    async def lock(self, name="n1"):
        return (await self.client.get(Node, name)).into(Node).metadata.annotations.get(LOCK)

    async def write_lock(self, text):
        await self.client.patch(Node, "n1", {"metadata": {"annotations": {LOCK: text}}})

    async def pods(self, *names):
        for name in names:
            spec = {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]}
            made = await self.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace="default")
            self.intake.apply(Upserted(object=made.into(Pod)))

    def commit(self, *names):
        tasks = {task.name: task for task in self.cluster.tasks.values()}
        binds = tuple(Bind(tasks[name], "n1", lock=LOCK) for name in names)
        made = GangCommit("default/g", binds, len(binds))
        return self.binder.commit(made, self.binder.assume(made))

    async def node_of(self, name):
        return (await self.client.get(Pod, name, namespace="default")).into(Pod).spec.node_name

    async def bound(self):
        listed = await self.client.list(Pod, namespace="default")
        return sorted(pod.metadata.name for pod in listed.items if pod.spec.node_name)


def play(body):
    clock = VirtualClock(NOON)

    async def main():
        async with Server(Settings(now=clock.now, chance=random.Random(0))) as server:
            network = Network(LocalTransport(server))
            client = Client(network, clock=clock, chance=random.Random(1))
            await client.create(Node, {"metadata": {"name": "n1"}})
            await body(Place(client, clock, network))

    clock.run(main())


def test_a_free_lock_is_taken_with_the_time_of_day():
    async def body(place):
        held = await place.locks.take("n1", LOCK)
        assert held.text == await place.lock() == "2026-01-31T12:00:00.000000Z"
        await place.locks.release(held)
        assert await place.lock() is None

    play(body)


@pytest.mark.parametrize("text", ["2026-01-31T11:56:00Z", "2026-01-31T11:56:00Z,team,other-pod", "not a time"])
def test_a_lock_of_somebody_else_is_waited_for_and_then_given_up(text):
    async def body(place):
        await place.write_lock(text)
        with pytest.raises(NotLocked, match=f"node n1 is locked by {LOCK}={text} for another pod"):
            await place.locks.take("n1", LOCK)
        assert TAKE_S_MAX <= place.clock.monotonic() <= TAKE_S_MAX + 2 * RETRY_S
        assert await place.lock() == text

    play(body)


@pytest.mark.parametrize("text", ["2026-01-31T11:54:59Z", "2026-01-31T11:54:59Z,team,other-pod"])
def test_a_lock_older_than_five_minutes_is_taken_over_at_once(text):
    async def body(place):
        await place.write_lock(text)
        held = await place.locks.take("n1", LOCK)
        assert (await place.lock(), place.clock.monotonic()) == (held.text, 0.0)

    play(body)


def test_a_lock_of_a_machine_whose_clock_is_ahead_expires_five_minutes_after_it_was_found():
    async def body(place):
        await place.write_lock("2026-01-31T13:00:00Z")
        with pytest.raises(NotLocked):
            await place.locks.take("n1", LOCK)
        await place.clock.sleep(300)
        held = await place.locks.take("n1", LOCK)
        assert await place.lock() == held.text

    play(body)


def test_a_lock_that_somebody_else_holds_by_now_is_not_released():
    async def body(place):
        held = await place.locks.take("n1", LOCK)
        await place.write_lock("2026-01-31T12:00:03Z")
        await place.locks.release(held)
        assert await place.lock() == "2026-01-31T12:00:03Z"

    play(body)


def test_of_two_schedulers_one_gets_the_lock():
    async def body(place):
        other = NodeLocks(place.client, Runtime(clock=place.clock, chance=random.Random(4)))
        await place.clock.sleep(0.5)
        first = await place.locks.take("n1", LOCK)
        taking = asyncio.create_task(other.take("n1", LOCK))
        await place.clock.sleep(5)
        assert not taking.done()
        await place.locks.release(first)
        assert (await taking).text == await place.lock() != first.text

    play(body)


def test_a_node_that_changes_between_look_and_write_is_looked_at_again():
    async def body(place):
        looks = []
        inner = place.network.inner

        class Busy:
            """Somebody labels the node right after it was first looked at."""

            async def call(self, request):
                response = await inner.call(request)
                if (request.method, request.path) == ("GET", "/api/v1/nodes/n1"):
                    looks.append(request)
                    if len(looks) == 1:
                        await place.client.patch(Node, "n1", {"metadata": {"labels": {"new": "label"}}})
                return response

        place.network.inner = Busy()
        held = await place.locks.take("n1", LOCK)
        assert len(looks) == 2
        assert await place.lock() == held.text

    play(body)


def test_a_lock_whose_answer_was_lost_is_ours_all_the_same():
    async def body(place):
        place.network.harm = calls_to("/nodes/n1", LOST, method="PATCH")
        held = await place.locks.take("n1", LOCK)
        assert await place.lock() == held.text
        assert ("PATCH", "/api/v1/nodes/n1") in place.network.calls

    play(body)


def test_pods_of_a_gang_are_bound_to_a_node_one_by_one_as_the_plugin_hands_out_devices():
    async def body(place):
        await place.pods("p0", "p1", "p2")
        committing = asyncio.create_task(place.commit("p0", "p1", "p2"))
        seen = []
        for _ in range(3):
            await place.clock.sleep(3)
            seen.append(await place.bound())
            await place.write_lock(None)  # the device plugin has served the pod
        await committing
        assert seen == [["p0"], ["p0", "p1"], ["p0", "p1", "p2"]]
        assert place.failures == []

    play(body)


def test_the_lock_stays_after_the_bind_until_the_device_plugin_takes_it_away():
    async def body(place):
        await place.pods("p0")
        await place.commit("p0")
        assert (await place.node_of("p0"), await place.lock()) == ("n1", "2026-01-31T12:00:00.000000Z")

    play(body)


def test_a_member_that_cannot_have_the_lock_fails_and_the_others_are_bound():
    async def body(place):
        await place.pods("p0", "p1")
        await place.commit("p0", "p1")  # nobody serves p0, so p1 never gets its turn
        assert await place.bound() == ["p0"]
        ((name, reason),) = place.failures
        assert (name, "is locked by hamivgpu=2026-01-31T12:00:00.000000Z" in reason) == ("p1", True)
        assert (place.binder.bound, place.binder.failed) == (1, 1)

    play(body)


def test_a_bind_that_fails_gives_the_lock_back():
    async def body(place):
        await place.pods("p0", "p1")
        await place.client.delete(Pod, "p0", namespace="default", grace_s=0)
        await place.commit("p0", "p1")  # p1 gets the lock because p0 gave it back
        assert [name for name, _ in place.failures] == ["p0"]
        assert await place.bound() == ["p1"]
        assert place.clock.monotonic() < TAKE_S_MAX

    play(body)


def test_a_bind_whose_reply_was_lost_keeps_the_lock_if_it_happened():
    async def body(place):
        await place.pods("p0")
        place.network.harm = calls_to("/binding", LOST)
        await place.commit("p0")
        assert (await place.node_of("p0"), await place.lock() is not None) == ("n1", True)

    play(body)


def test_a_bind_that_never_arrived_gives_the_lock_back():
    async def body(place):
        await place.pods("p0")
        place.network.harm = calls_to("/binding", NEVER_SENT)
        await place.commit("p0")
        assert ([name for name, _ in place.failures], await place.lock()) == (["p0"], None)

    play(body)


def test_a_node_that_is_gone_fails_its_member_cleanly():
    async def body(place):
        await place.pods("p0")
        await place.client.delete(Node, "n1")
        await place.commit("p0")
        assert [name for name, _ in place.failures] == ["p0"]
        assert await place.bound() == []

    play(body)


async def cancelled_at(place, step):
    """The lock that is left when a commit is cancelled at a step of it."""
    await place.pods("p0")
    committing = asyncio.create_task(place.commit("p0"))
    reached = asyncio.Event()

    async def wait_there(request):
        if (request.method, request.path.rpartition("/")[2]) == step:
            reached.set()
            await asyncio.sleep(3600)

    place.network.delay = wait_there
    await reached.wait()
    place.network.delay = nobody_waits
    committing.cancel()
    await asyncio.wait([committing])
    assert committing.cancelled()
    return await place.lock()


def test_a_lock_that_was_just_written_when_its_bind_was_called_off_is_given_back():
    async def body(place):
        assert await cancelled_at(place, ("PATCH", "n1")) is None

    play(body)


def test_whoever_waits_for_his_turn_to_bind_gives_the_lock_back_when_he_is_called_off():
    async def body(place):
        await place.pods("p0")
        for _ in range(BIND_WINDOW):
            await place.binder._window.acquire()
        committing = asyncio.create_task(place.commit("p0"))
        await place.clock.sleep(1)
        assert await place.lock() is not None
        committing.cancel()
        await asyncio.wait([committing])
        assert await place.lock() is None

    play(body)


def test_a_bind_that_is_called_off_half_way_keeps_the_lock_because_it_may_have_happened():
    async def body(place):
        assert await cancelled_at(place, ("POST", "binding")) is not None

    play(body)
