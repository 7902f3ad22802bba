"""The built-in policy keeps whole GPU nodes free, whatever pods ask for beside GPUs."""

import collections

import pytest
from tests.unit.scheduling.clusters import a_gang, a_hyper_node, a_node, a_pod, binds, plan_for

from pumice.scheduling.core import builtin

POLICY = builtin.parse(builtin.TEXT, "built-in policy")
ASKS = {"cpu": "8", "memory": "64Gi", "gpu": 1}


def four_nodes(**room):
    return [a_node(f"n{number}", **{"cpu": "96", "memory": "768Gi", "gpu": 8, **room}) for number in range(4)]


def per_node(decisions):
    return sorted(collections.Counter(binds(decisions).values()).values(), reverse=True)


@pytest.mark.parametrize("asks", [ASKS, {"gpu": 1}, {"cpu": "1", "gpu": 1}, {"memory": "90Gi", "gpu": 1}])
def test_eight_lone_pods_of_one_gpu_leave_three_of_four_nodes_whole(asks):
    lone = [a_gang(f"lone-{number}", 1, **asks) for number in range(8)]
    assert per_node(plan_for(*four_nodes(), *lone, policy=POLICY)) == [8]


def test_a_gang_of_eight_one_gpu_workers_leaves_three_of_four_nodes_whole():
    assert per_node(plan_for(*four_nodes(), a_gang("g", 8, **ASKS), policy=POLICY)) == [8]


def test_a_gpu_pod_goes_where_gpus_are_in_use_though_the_cpus_there_are_busier():
    others = {"spec": {"schedulerName": "other"}}
    busy = a_pod("busy", cpu="80", memory="600Gi", gpu=1, node="n2", **others)
    assert binds(plan_for(*four_nodes(), busy, a_gang("g", 1, **ASKS), policy=POLICY)) == {"g-w-0": "n2"}
    servers = [a_pod(f"web-{each}", cpu="80", memory="600Gi", node=f"n{each}", **others) for each in (0, 1, 3)]
    idle = a_pod("idle", cpu="1", gpu=1, node="n2", **others)
    assert binds(plan_for(*four_nodes(), *servers, idle, a_gang("g", 1, **ASKS), policy=POLICY)) == {"g-w-0": "n2"}


def test_a_pod_without_gpus_stays_off_gpu_nodes_while_others_have_room():
    busy = a_pod("busy", cpu="1", memory="95Gi", node="plain", spec={"schedulerName": "other"})
    world = [*four_nodes(), a_node("plain", cpu="10", memory="100Gi", gpu=0), busy]
    assert binds(plan_for(*world, a_gang("web", 2, cpu="4"), policy=POLICY)) == {"web-w-0": "plain", "web-w-1": "plain"}
    assert len(binds(plan_for(*world, a_gang("web", 3, cpu="4"), policy=POLICY))) == 3


def test_what_a_pod_prefers_outweighs_packing():
    preferred = [
        {
            "weight": 1,
            "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]},
        }
    ]
    spec = {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}
    nodes = [a_node("n0", cpu="96", gpu=8), a_node("n1", cpu="96", gpu=8, labels={"zone": "b"})]
    busy = a_pod("busy", gpu=6, node="n0", spec={"schedulerName": "other"})
    found = binds(plan_for(*nodes, busy, a_gang("g", 1, gpu=1, spec=spec), policy=POLICY))
    assert found == {"g-w-0": "n1"}


def shared(name, number=2):
    """A node whose cards pods share, 1,000 of memory each."""
    listed = "".join(f"{name}-{each},10,1000,NVIDIA,true,hami-core:" for each in range(number))
    return a_node(name, cpu="96", gpu=0, annotations={"volcano.sh/node-vgpu-register": listed})


def a_part(name, memory, **more):
    asked = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory), "cpu": "1"}
    spec = {"containers": [{"name": "main", "resources": {"requests": asked, "limits": asked}}]}
    return a_pod(name, cpu=None, spec=spec, **more)


def test_parts_of_cards_share_one_and_leave_the_others_whole():
    parts = [a_part(f"p{each}", 500) for each in range(4)]
    assert per_node(plan_for(shared("n0"), shared("n1"), *parts, policy=POLICY)) == [4]


def test_a_card_that_is_full_takes_no_further_part():
    parts = [a_part(f"p{each}", 600) for each in range(3)]
    assert len(binds(plan_for(shared("n0"), *parts, policy=POLICY))) == 2


def test_pods_without_gpus_stay_off_nodes_with_shared_cards_while_others_have_room():
    world = [shared("cards"), a_node("plain", cpu="10", memory="100Gi", gpu=0)]
    assert binds(plan_for(*world, a_gang("web", 2, cpu="4"), policy=POLICY)) == {"web-w-0": "plain", "web-w-1": "plain"}


# ----------------------------------------------------------------------------------------------------- whole hyper nodes


OTHERS = {"spec": {"schedulerName": "other"}}


def two_hyper_nodes(size=2, **room):
    """Hyper nodes a and b, with nodes a0, a1 ... and b0, b1 ..."""
    room = {"cpu": "96", "memory": "768Gi", "gpu": 8, **room}
    names = {hyper: [f"{hyper}{number}" for number in range(size)] for hyper in "ab"}
    nodes = [a_node(name, **room) for listed in names.values() for name in listed]
    return [*nodes, *(a_hyper_node(hyper, 1, nodes=listed) for hyper, listed in names.items())]


def test_a_hyper_node_whose_gpus_are_all_free_stays_whole_however_busy_its_cpus_are():
    servers = [a_pod(f"web-{node}", cpu="60", memory="500Gi", node=node, **OTHERS) for node in ("a0", "a1")]
    small = a_pod("small", cpu="1", gpu=1, node="b0", **OTHERS)
    found = binds(plan_for(*two_hyper_nodes(), *servers, small, a_gang("g", 1, cpu="8", gpu=8), policy=POLICY))
    assert found == {"g-w-0": "b1"}


def test_one_gpu_in_use_of_many_is_enough_to_spare_the_hyper_node_without_any():
    busy = [a_pod(f"web-b{node}", cpu="80", memory="600Gi", node=f"b{node}", **OTHERS) for node in range(1, 16)]
    small = a_pod("small", cpu="1", gpu=1, node="b0", **OTHERS)
    world = [*two_hyper_nodes(16), *busy, small]
    (node,) = binds(plan_for(*world, a_gang("g", 1, cpu="8", gpu=8), policy=POLICY)).values()
    assert node.startswith("b")


@pytest.mark.parametrize("asks", [{"cpu": "8", "gpu": 8}, {"cpu": "96"}], ids=["gpus", "cpu only"])
def test_lone_pods_leave_a_hyper_node_whole_for_the_gang_that_comes_next(asks):
    world = two_hyper_nodes(gpu=asks.get("gpu"))
    lone = [a_gang(f"lone-{number}", 1, **asks) for number in range(2)]
    close = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    placed = binds(plan_for(*world, *lone, policy=POLICY))
    assert len({node[0] for node in placed.values()}) == 1
    running = [a_gang(f"lone-{number}", 1, running=[placed[f"lone-{number}-w-0"]], **asks) for number in range(2)]
    gang = a_gang("close", 2, group={"spec": close}, **asks)
    assert len(binds(plan_for(*world, *running, gang, policy=POLICY))) == 2


def test_pods_without_gpus_gather_in_one_hyper_node():
    lone = [a_gang(f"lone-{number}", 1, cpu="40") for number in range(4)]
    placed = binds(plan_for(*two_hyper_nodes(gpu=None), *lone, policy=POLICY))
    assert len({node[0] for node in placed.values()}) == 1
