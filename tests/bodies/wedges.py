"""Wedges that are resolved on every API server: the same bodies run on the embedded server and on the real one.

The scheduler's policy is the built-in one with a grace time of one second. What stands in no test here is in
tests/unit/scheduling/test_wedges.py, where no server adds anything.
"""

import contextlib
import itertools

from tests.bodies.scheduler import condition

from pumice.api import kinds
from pumice.api.core import Node
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.policy import PodDisruptionBudget
from pumice.api.priority import PriorityClass
from pumice.kube import errors
from pumice.scheduling.core import builtin

POLICY = builtin.parse(builtin.TEXT + "deadlockGrace: 1s\n", "built-in policy, impatient")


async def until_event(world, name, reason):
    async def told():
        events = await world.client.list_json(kinds.by_struct(CoreEvent), namespace=world.namespace)
        return next(
            (each for each in events if each["reason"] == reason and each["involvedObject"]["name"] == name), None
        )

    return await world.until(told, f"an event {reason} about {name}")


async def lose(world, *nodes):
    """Nodes are gone, and the pods on them; their controller makes those anew."""
    for node in nodes:
        lost = [name for name, where in (await world.bound()).items() if where == node]
        await world.client.delete(Node, node)
        for name in lost:
            with contextlib.suppress(errors.NotFound):
                await world.client.delete(Pod, name, namespace=world.namespace, grace_s=0)
        for name in lost:
            await world.pod(name, gang=name.partition("-")[0])


async def runs(world, gang, size):
    """All members of a gang run."""
    await world.until_bound(gang, size)
    await world.run_bound(gang)

    async def is_told():
        return (await world.group(gang))["status"]["phase"] == "Running"

    await world.until(is_told, f"{gang} should run")


async def test_half_a_gang_that_lost_its_node_leaves_for_one_that_can_start_with_its_room(world):
    await world.have_controller()
    first, second = await world.node("a", gpus=4), await world.node("b", gpus=4)
    await world.gang("train", size=8)
    await runs(world, "train", 8)
    await lose(world, second)  # there is no room for what is made anew
    await world.until_said("train", "holds 4 nvidia.com/gpu with 4 of the 8 members that must start together")
    await world.gang("next", size=4)
    told = await until_event(world, "train", "Deadlocked")
    assert "and the others find no place" in told["message"]
    bound = await world.until_bound_as_pods_leave("next", 4)
    assert set(bound.values()) == {first}
    assert await world.bound("train") == {}


def with_four_each(bound, *gangs):
    """Two nodes without which both gangs are left with four members."""
    for pair in itertools.combinations(sorted(set(bound.values())), 2):
        left = [name.partition("-")[0] for name, node in bound.items() if node not in pair]
        if all(left.count(gang) == 4 for gang in gangs):
            return pair
    raise AssertionError(f"no two nodes have half of each gang: {bound}")


async def test_of_two_halves_in_two_queues_one_becomes_whole_again(world):
    """Each lost half its nodes, and neither queue's share is as large as a gang: for ever, if nobody lets go."""
    await world.have_controller()
    for name in "abcd":
        await world.node(name, gpus=4)
    for gang in ("left", "right"):
        queue = f"{world.namespace}-{gang}"
        await world.queue(queue)
        await world.gang(gang, size=8, queue=queue)
        await runs(world, gang, 8)
    await lose(world, *with_four_each(await world.bound(), "left", "right"))
    for gang in ("left", "right"):
        told = await until_event(world, gang, "Deadlocked")
        assert "holds 4 nvidia.com/gpu with 4 of the 8 members that must start together" in told["message"]

    async def one_is_whole():
        for pod in await world.pods():
            if pod["metadata"].get("deletionTimestamp"):
                with contextlib.suppress(errors.NotFound):
                    await world.client.delete(Pod, pod["metadata"]["name"], namespace=world.namespace, grace_s=0)
        sizes = [len(await world.bound(gang)) for gang in ("left", "right")]
        return sizes if 8 in sizes else None

    assert sorted(await world.until(one_is_whole, "one of the halves should become whole")) == [0, 8]


async def test_the_surplus_of_an_elastic_gang_leaves_for_a_minimum_and_the_gang_stays(world):
    await world.have_controller()
    await world.node("a", gpus=8)
    await world.gang("elastic", size=8, minimum=4)
    await runs(world, "elastic", 8)
    await world.gang("rigid", size=3)
    await world.until_bound_as_pods_leave("rigid", 3)
    stays = await world.bound("elastic")
    assert len(stays) == 5
    left = next(name for name in (f"elastic-worker-{number}" for number in range(8)) if name not in stays)
    told = await until_event(world, left, "Evict")
    assert f"because of deadlock for gang {world.namespace}/rigid" in told["message"]
    assert "keeps its minimum of 4: 5 stay" in told["message"]
    assert (await world.group("elastic"))["status"]["phase"] == "Running"


async def test_a_gang_that_was_admitted_in_vain_gives_the_quota_back_that_keeps_another_one_out(world):
    await world.node("a", gpus=8)
    queue = f"{world.namespace}-q"
    await world.queue(queue, capability={"nvidia.com/gpu": "8"})
    eight = {"nvidia.com/gpu": "8"}
    await world.gang("stuck", size=1, gpus=9, queue=queue, minResources=eight)

    async def admitted():
        return (await world.group("stuck")).get("status", {}).get("phase") == "Inqueue"

    await world.until(admitted, "the gang should be admitted")
    await world.gang("next", size=1, gpus=8, queue=queue, minResources=eight)
    await world.until_bound("next", 1)
    told = await until_event(world, "stuck", "QuotaGivenBack")
    assert f"kept {world.namespace}/next out" in told["message"]
    status = (await world.group("stuck"))["status"]
    assert status["phase"] == "Pending"
    assert condition({"status": status}, "Deadlocked")["status"] == "False"


async def test_a_disruption_budget_that_never_allows_it_is_named_to_the_gang_that_waits_and_not_asked_in_vain(world):
    await world.node("a", gpus=2)
    urgent = f"{world.namespace}-urgent"
    await world.client.create(PriorityClass, {"metadata": {"name": urgent}, "value": 1000})
    await world.gang("low", size=2)
    await world.until_bound("low", 2)
    await world.run_bound("low")
    for name in await world.bound("low"):
        labels = {"metadata": {"labels": {"app": "low"}}}
        await world.client.patch(Pod, name, labels, namespace=world.namespace)
    spec = {"minAvailable": 9, "selector": {"matchLabels": {"app": "low"}}}
    await world.client.create(
        PodDisruptionBudget, {"metadata": {"name": "web"}, "spec": spec}, namespace=world.namespace
    )
    await world.gang("high", size=0, minimum=2, priorityClassName=urgent)
    for number in range(2):
        await world.pod(f"high-worker-{number}", gang="high", priorityClassName=urgent)
    await world.until_said("high", f"PodDisruptionBudget {world.namespace}/web allows no eviction now")
    events = await world.client.list_json(kinds.by_struct(CoreEvent), namespace=world.namespace)
    assert not {each["reason"] for each in events} & {"Evict", "EvictionRefused"}
    await world.client.delete(PodDisruptionBudget, "web", namespace=world.namespace)
    bound = await world.until_bound_as_pods_leave("high", 2)
    assert len(bound) == 2
    await world.client.delete(PriorityClass, urgent)
