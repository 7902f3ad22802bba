"""HyperNodes on a server: labels that change, a configuration that comes late, and deaths at any write."""

import random

from tests.unit.controllers.stage import Stage, same_after_every_crash

from pumice.api import names
from pumice.api.core import ConfigMap, Namespace, Node
from pumice.api.topology import HyperNode
from pumice.controllers.hypernode import loop
from pumice.kube.informer import Informer

TOR, SPINE = "volcano.sh/tor", "volcano.sh/hypercluster"
CONFIG = """
networkTopologyDiscovery:
- source: label
  enabled: true
  config:
    networkTopologyTypes:
      rail: [{nodeLabel: volcano.sh/hypercluster}, {nodeLabel: volcano.sh/tor}, {nodeLabel: kubernetes.io/hostname}]
"""


def a_stage():
    def maker(known):
        config_maps = Informer(
            stage.client,
            ConfigMap,
            clock=stage.clock,
            chance=random.Random(0),
            namespace="volcano-system",
            fields="metadata.name=volcano-controller-configmap",
        )
        return loop.controller(known, config_maps)

    stage = Stage(maker, kinds=[HyperNode])
    return stage


async def configure(stage, text=CONFIG):
    await stage.client.create(Namespace, {"metadata": {"name": "volcano-system"}})
    data = {"volcano-controller.conf": text}
    await stage.make(ConfigMap, "volcano-controller-configmap", namespace="volcano-system", data=data)


async def node(stage, name, tor, spine):
    await stage.make(Node, name, metadata={"labels": {TOR: tor, SPINE: spine}})


async def tree(stage):
    """value -> (tier, members in values, count)"""
    every = await stage.all(HyperNode)
    value = {
        each["metadata"]["name"]: each["metadata"].get("labels", {}).get(each["spec"].get("tierName")) for each in every
    }
    return {
        value[each["metadata"]["name"]]: (
            each["spec"]["tier"],
            [
                value.get(member["selector"]["exactMatch"]["name"], member["selector"]["exactMatch"]["name"])
                for member in each["spec"]["members"]
            ],
            each.get("status", {}).get("nodeCount", 0),
        )
        for each in every
    }


async def four_nodes(stage):
    await configure(stage)
    for number, (tor, spine) in enumerate([("t1", "s1"), ("t1", "s1"), ("t2", "s1"), ("t3", "s2")]):
        await node(stage, f"n{number}", tor, spine)


def test_labels_make_a_tree_and_follow_the_nodes():
    async def body(stage):
        await four_nodes(stage)
        await stage.settle(5)
        assert await tree(stage) == {
            "t1": (1, ["n0", "n1"], 2),
            "t2": (1, ["n2"], 1),
            "t3": (1, ["n3"], 1),
            "s1": (2, ["t1", "t2"], 3),
            "s2": (2, ["t3"], 1),
        }
        assert stage.executor.writes == {"create HyperNode": 5, "patch HyperNode": 5}
        await stage.patch(Node, "n1", {"metadata": {"labels": {TOR: "t2"}}})
        await stage.remove(Node, "n3")
        await stage.settle(5)
        assert await tree(stage) == {
            "t1": (1, ["n0"], 1),
            "t2": (1, ["n1", "n2"], 2),
            "s1": (2, ["t1", "t2"], 3),
        }

    a_stage().run(body)


def test_what_somebody_deletes_comes_back_and_heartbeats_cost_nothing():
    async def body(stage):
        await four_nodes(stage)
        await stage.settle(5)
        before = await stage.names(HyperNode)
        await stage.remove(HyperNode, before[0])
        await stage.settle(5)
        assert await stage.names(HyperNode) == before
        (driver,) = stage.drivers
        plans, writes = driver.plans, dict(stage.executor.writes)
        for number in range(10):
            await stage.patch(Node, "n0", {"status": {"phase": f"beat-{number}"}}, subresource="status")
            await stage.settle(2)
        assert (driver.plans, stage.executor.writes) == (plans, writes)

    a_stage().run(body)


def test_the_configuration_may_come_late_and_go_without_taking_the_tree_along():
    async def body(stage):
        await node(stage, "n0", "t1", "s1")
        await stage.make(HyperNode, "by-hand", spec={"tier": 1, "members": [_member("n0"), _member("n7")]})
        await stage.settle(5)
        assert await stage.names(HyperNode) == ["by-hand"]
        assert (await stage.get(HyperNode, "by-hand"))["status"] == {"nodeCount": 1}
        await configure(stage)
        await stage.settle(5)
        assert len(await stage.names(HyperNode)) == 3
        await stage.remove(ConfigMap, "volcano-controller-configmap", namespace="volcano-system")
        await node(stage, "n1", "t9", "s9")
        await stage.settle(5)
        assert len(await stage.names(HyperNode)) == 3

    a_stage().run(body)


def _member(name):
    return {"type": "Node", "selector": {"exactMatch": {"name": name}}}


def test_a_source_that_we_do_not_have_is_told_of():
    async def body(stage):
        await configure(stage, CONFIG.replace("source: label", "source: ufm"))
        await stage.settle(5)
        ((reason, message),) = await stage.events()
        assert reason == "DiscoveryProblem"
        assert "discovery from 'ufm' is not supported" in message

    a_stage().run(body)


async def a_changing_tree(stage):
    await four_nodes(stage)
    await stage.settle()
    await stage.patch(Node, "n1", {"metadata": {"labels": {TOR: "t2"}}})
    await stage.remove(Node, "n3")


def test_a_death_at_any_write_changes_nothing_of_the_end():
    assert same_after_every_crash(a_stage(), a_changing_tree, [HyperNode]) > 10


def test_the_labels_source_marks_what_it_owns():
    async def body(stage):
        await four_nodes(stage)
        await stage.settle(5)
        for each in await stage.all(HyperNode):
            assert each["metadata"]["labels"][names.NETWORK_TOPOLOGY_SOURCE] == "label"

    a_stage().run(body)
