"""What pretend nodes must do on any API server."""

import asyncio
import random

from tests.bodies.world import World, running

from pumice.api.coordination import Lease
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.kube.requests import PatchType
from pumice.local.nodes.pretend import PretendAgent, Trouble, pretend_nodes
from pumice.runtime import Runtime

GPU = "nvidia.com/gpu"


def an_agent(world: World, prefix: str, count: int = 2, **settings) -> PretendAgent:
    nodes = pretend_nodes(count, prefix=f"{prefix}-", gpus=8)
    return PretendAgent(
        world.client, world.informers, nodes, Runtime(clock=world.clock, chance=random.Random(0)), **settings
    )


def ready(node) -> str:
    return next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready")


async def nodes_register_with_room_readiness_and_a_lease(world: World) -> None:
    async with running(an_agent(world, "registers", 3)):
        node = await world.node("registers-2")
        assert node["status"]["allocatable"][GPU] == "8"
        assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "registers-2"
        assert ready(node) == "True"
        lease = await lease_of(world, "registers-2")
        assert lease["spec"]["holderIdentity"] == "registers-2"
        assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def lease_of(world, name):
    """The node's lease, as soon as there is one."""
    leases = world.informers.of(Lease)
    there = asyncio.Event()
    leave = leases.subscribe(lambda _: there.set() if leases.get("kube-node-lease", name) else None)
    async with asyncio.timeout(world.patience_s):
        await there.wait()
    leave()
    return (await world.client.get(Lease, name, namespace="kube-node-lease")).json()


async def a_second_agent_takes_over_the_nodes_of_the_first(world: World) -> None:
    async with running(an_agent(world, "taken")):
        uid = (await world.node("taken-0"))["metadata"]["uid"]
        await world.submit("kept", "taken-0")
        before = await world.phase("kept", "Running")
    async with running(an_agent(world, "taken")):
        assert (await world.node("taken-0"))["metadata"]["uid"] == uid
        await world.client.patch(
            Pod,
            "kept",
            {"metadata": {"annotations": {"pumice.dev/pretend-run": "0s"}}},
            namespace=world.namespace,
        )
        after = await world.phase("kept", "Succeeded")
        assert after["podIP"] == before["podIP"]
        assert after["startTime"] == before["startTime"]


async def pods_run_end_and_go_as_annotated(world: World) -> None:
    async with running(an_agent(world, "phases")):
        await world.submit("stays", "phases-0")
        await world.submit("succeeds", "phases-0", annotations={"pumice.dev/pretend-run": "300ms"})
        fails = {"pumice.dev/pretend-run": "300ms", "pumice.dev/pretend-exit-code": "3"}
        await world.submit("fails", "phases-1", annotations=fails)
        stays = await world.phase("stays", "Running")
        conditions = {each["type"]: each["status"] for each in stays["conditions"]}
        assert conditions["Ready"] == conditions["ContainersReady"] == conditions["Initialized"] == "True"
        assert stays["podIP"]
        assert stays["containerStatuses"][0]["state"]["running"]["startedAt"]
        assert (await world.phase("succeeds", "Succeeded"))["containerStatuses"][0]["state"]["terminated"][
            "exitCode"
        ] == 0
        assert (await world.phase("fails", "Failed"))["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


async def a_deleted_pod_says_how_it_ended_and_is_removed(world: World) -> None:
    async with running(an_agent(world, "deletes")):
        finalizer = {"metadata": {"finalizers": ["pumice.dev/test"]}}
        await world.submit("held", "deletes-0", annotations={"pumice.dev/pretend-stop": "300ms"})
        await world.submit("plain", "deletes-0", annotations={"pumice.dev/pretend-stop": "10h"})
        await world.client.patch(Pod, "held", finalizer, namespace=world.namespace)
        await world.phase("held", "Running")
        await world.phase("plain", "Running")
        await world.client.delete(Pod, "held", namespace=world.namespace)
        await world.client.delete(Pod, "plain", namespace=world.namespace, grace_s=1)
        await world.gone("plain")
        ended = await world.phase("held", "Failed")
        assert ended["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 143
        await world.client.patch(
            Pod, "held", {"metadata": {"finalizers": None}}, namespace=world.namespace, how=PatchType.MERGE
        )
        await world.gone("held")


async def a_pod_beyond_the_nodes_room_is_rejected_until_somebody_leaves(world: World) -> None:
    big = {"resources": {"limits": {GPU: "8"}, "requests": {GPU: "8"}}}
    async with running(an_agent(world, "full")):
        await world.submit("first", "full-0", container=big)
        await world.phase("first", "Running")
        await world.submit("second", "full-0", container=big)
        rejected = await world.phase("second", "Failed")
        assert rejected["reason"] == "OutOfnvidia.com/gpu"
        assert rejected["message"] == (
            "Pod was rejected: Node didn't have enough resource: nvidia.com/gpu, requested: 8, used: 8, capacity: 8"
        )
        await world.client.delete(Pod, "first", namespace=world.namespace)
        await world.gone("first")
        await world.submit("third", "full-0", container=big)
        await world.phase("third", "Running")


async def a_node_in_trouble_says_so_or_falls_silent(world: World) -> None:
    async with running(an_agent(world, "trouble")) as agent:
        down = {"metadata": {"annotations": {"pumice.dev/pretend-down": "true"}}}
        await world.client.patch(Node, "trouble-0", down)
        await world.node_until("trouble-0", lambda node: ready(node) == "False")
        await world.client.patch(Node, "trouble-0", {"metadata": {"annotations": {"pumice.dev/pretend-down": None}}})
        await world.node_until("trouble-0", lambda node: ready(node) == "True")
        agent.trouble("trouble-1", Trouble.NOT_READY)
        await world.node_until("trouble-1", lambda node: ready(node) == "False")
        agent.trouble("trouble-1", Trouble.GONE)
        await world.submit("unheard", "trouble-1")
        await world.submit("heard", "trouble-0")
        await world.phase("heard", "Running")
        assert (await world.pod("unheard"))["status"]["phase"] == "Pending"
        agent.trouble("trouble-1", Trouble.NONE)
        await world.phase("unheard", "Running")


BODIES = [
    nodes_register_with_room_readiness_and_a_lease,
    a_second_agent_takes_over_the_nodes_of_the_first,
    pods_run_end_and_go_as_annotated,
    a_deleted_pod_says_how_it_ended_and_is_removed,
    a_pod_beyond_the_nodes_room_is_rejected_until_somebody_leaves,
    a_node_in_trouble_says_so_or_falls_silent,
]
