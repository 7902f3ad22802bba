import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_group,
    a_node,
    a_pod,
    binds,
    plan_for,
    policy,
    report,
    session_for,
    started,
)

from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.verdict import Cure

TYPE, WEIGHT = "volcano.sh/resource-strategy-scoring-type", "volcano.sh/resource-strategy-weight"
MOST, LEAST = {"type": "MostAllocated"}, {"type": "LeastAllocated"}


def fit(**arguments):
    return policy("allocate", ["gang", {"name": "resource-strategy-fit", "arguments": arguments}])


def scores(*objects, chosen=None, **pod):
    """Score per node for one pod; whatever else runs is in the objects."""
    session = session_for(*objects, a_group("g"), a_pod("p", gang="g", **pod), policy=chosen or fit())
    (task,) = session.gangs["default/g"].tasks
    nodes = np.arange(len(session.room.table))
    found = session.placer.scores(session.shape(task), task, nodes)
    return dict(zip(session.room.table.names, found.round(6).tolist(), strict=True))


def a_resident(node, **pod):
    return [a_group(f"on-{node}", phase="Running"), a_pod(f"on-{node}", gang=f"on-{node}", node=node, **pod)]


# ----------------------------------------------------------------------------------------------- strategies


def test_by_default_cpu_and_memory_are_spread():
    nodes = [
        a_node("a", cpu="4", memory="4Gi"),
        a_node("b", cpu="4", memory="4Gi"),
        a_resident("b", cpu="1", memory="2Gi"),
    ]
    # a: three quarters of both stay free; b: half of the cpu, a quarter of the memory.
    assert scores(*nodes, cpu="1", memory="1Gi") == {"a": 750, "b": 375}


def test_each_resource_goes_by_its_own_strategy_and_weight():
    chosen = fit(resourceStrategyFitWeight=1, resources={"cpu": LEAST, "nvidia.com/gpu": {**MOST, "weight": 3}})
    nodes = [a_node("a", cpu="4", gpu="4"), a_node("b", cpu="4", gpu="4"), a_resident("b", cpu="1", gpu="2")]
    # a: cpu 3/4 free, gpu 1/4 used. b: cpu 2/4 free, gpu 3/4 used.
    assert scores(*nodes, chosen=chosen, cpu="1", gpu="1") == {"a": 37.5, "b": 68.75}


def test_resources_without_a_strategy_have_no_influence():
    chosen = fit(resources={"nvidia.com/gpu": MOST})
    assert scores(a_node("a"), a_node("b"), a_resident("b"), chosen=chosen) == {"a": 0, "b": 0}


def test_a_prefix_covers_a_family_and_longer_ones_and_exact_names_win():
    chosen = fit(
        resourceStrategyFitWeight=1,
        resources={"example.com/*": LEAST, "example.com/fast-*": MOST, "example.com/fast-x": LEAST},
    )

    def score(name):
        return scores(a_node("a", more={name: "4"}), chosen=chosen, cpu=None, more={name: "1"})["a"]

    assert score("example.com/slow") == 75
    assert score("example.com/fast-y") == 25
    assert score("example.com/fast-x") == 75
    assert score("other.com/fast-x") == 0


def test_a_weight_of_nothing_counts_as_one():
    chosen = fit(
        resourceStrategyFitWeight=1, resources={"cpu": {**LEAST, "weight": 0}, "memory": {**LEAST, "weight": 1}}
    )
    assert scores(a_node("a", cpu="4", memory="4Gi"), chosen=chosen, cpu="1", memory="2Gi") == {"a": 62.5}


def test_a_node_on_which_anything_overflows_scores_nothing():
    """Room that is being released: the pod may be promised the node, but it is no better than any other."""
    leaving = a_pod("old", gang="o", cpu="4", node="a", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert scores(a_node("a", cpu="4"), a_group("o"), leaving, cpu="1", memory="1Gi") == {"a": 0}


def test_a_pod_may_choose_its_own_strategy_and_weights():
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="4"), a_resident("b")]
    notes = {TYPE: "MostAllocated", WEIGHT: '{"cpu": 1}'}
    found = scores(*nodes, annotations=notes)
    assert found == {"a": 250, "b": 500}


@pytest.mark.parametrize("weights", [None, "", "[]", '{"cpu": "much"}'])
def test_a_pod_that_chooses_without_readable_weights_has_no_opinion(weights):
    notes = {TYPE: "MostAllocated", **({WEIGHT: weights} if weights is not None else {})}
    assert scores(a_node("a"), a_node("b"), a_resident("b"), annotations=notes) == {"a": 0, "b": 0}


def test_a_strategy_that_does_not_exist_is_as_good_as_none():
    notes = {TYPE: "Random", WEIGHT: '{"cpu": 1}'}
    assert scores(a_node("a", cpu="4"), annotations=notes) == scores(a_node("a", cpu="4"))


def test_a_batch_decides_what_single_placements_would():
    nodes = [a_node("a", cpu="8", gpu="8"), a_node("b", cpu="16", gpu="4"), a_node("c", cpu="6", gpu="8")]
    chosen = fit(resources={"cpu": LEAST, "nvidia.com/gpu": {**MOST, "weight": 2}})
    batch = binds(plan_for(*nodes, a_gang("g", 10, gpu="1"), policy=chosen))
    single = binds(plan_for(*nodes, a_gang("g", 10, gpu="1", min_member=1), policy=chosen))
    assert sorted(batch.values()) == sorted(single.values())
    assert len(batch) == 10


def test_a_weight_of_zero_switches_the_score_off():
    session = session_for(a_node(), policy=fit(resourceStrategyFitWeight=0))
    assert not session.points.load_score.hooks


# ----------------------------------------------------------------------------------------------- scarce resources


def sra(**more):
    arguments = {"enable": True, "resources": "nvidia.com/gpu, rdma/hca", "weight": 1, **more}
    return fit(resourceStrategyFitWeight=0, sra=arguments)


def test_pods_stay_away_from_nodes_that_own_scarce_resources():
    nodes = [a_node("both", gpu="8", more={"rdma/hca": "1"}), a_node("gpu", gpu="8"), a_node("plain")]
    assert scores(*nodes, chosen=sra()) == {"both": 0, "gpu": 50, "plain": 100}
    weighted = sra(weight=2, resourceWeight={"nvidia.com/gpu": 3})
    assert scores(*nodes, chosen=weighted) == {"both": 0, "gpu": 50, "plain": 200}


def test_a_node_that_lacks_what_the_pod_asks_for_scores_nothing():
    nodes = [a_node("gpu", gpu="8"), a_node("plain")]
    assert scores(*nodes, chosen=sra(), gpu="1") == {"gpu": 50, "plain": 0}


def test_avoidance_is_off_unless_it_is_enabled_with_a_weight_and_a_list():
    nodes = [a_node("gpu", gpu="8"), a_node("plain")]
    for off in ({"enable": False}, {"weight": 0}, {"resources": ""}):
        assert scores(*nodes, chosen=sra(**off)) == {"gpu": 0, "plain": 0}


# ----------------------------------------------------------------------------------------------- proportions


def proportional(cpu=4, memory=8, **more):
    proportion = {"nvidia.com/gpu.cpu": cpu, "nvidia.com/gpu.memory": memory}
    return fit(proportional={"enable": True, "resources": "nvidia.com/gpu", "resourceProportion": proportion, **more})


def test_ordinary_pods_leave_cpu_for_the_idle_gpus():
    """Two idle GPUs keep eight of ten cpus; one of them in use, only four."""
    node = a_node("a", cpu="10", memory="100G", gpu="2")
    gang = a_gang("g", 9, min_member=1)
    assert started(plan_for(node, gang, policy=proportional())) == {"g": 2}
    trainer = a_resident("a", cpu=None, gpu="1")
    assert started(plan_for(node, trainer, gang, policy=proportional())) == {"g": 6}


def test_memory_is_kept_in_gigabytes_for_each_card():
    node = a_node("a", cpu="100", memory="20G", gpu="1")
    gang = a_gang("g", 9, min_member=1, cpu="1", memory="5G")
    assert started(plan_for(node, gang, policy=proportional(cpu=0))) == {"g": 2}


def test_a_whole_gang_keeps_to_it_in_one_go():
    nodes = [a_node("a", cpu="10", memory="100G", gpu="2"), a_node("b", cpu="3", memory="100G")]
    decisions = plan_for(*nodes, a_gang("g", 5), policy=proportional())
    assert sorted(binds(decisions).values()) == ["a", "a", "b", "b", "b"]


def test_a_refusal_says_why_and_passes_with_time():
    decisions = plan_for(a_node("a", cpu="8", memory="100G", gpu="2"), a_gang("g", 1), policy=proportional())
    own = [(reason.text, reason.cure) for reason in report(decisions, "g").reasons]
    assert own == [("proportional of resource nvidia.com/gpu check failed", Cure.WAITING)]


def test_pods_that_ask_for_the_scarce_resource_are_not_held_back():
    node = a_node("a", cpu="2", memory="4G", gpu="2")
    assert started(plan_for(node, a_gang("g", 2, gpu="1"), policy=proportional())) == {"g": 2}


def test_nodes_without_the_resource_are_not_concerned():
    assert started(plan_for(a_node("a", cpu="1"), a_gang("g", 1), policy=proportional())) == {"g": 1}


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"resources": {"cpu": {"type": "Balanced"}}}, "Invalid enum value 'Balanced'"),
        ({"resources": {"*": {"type": "MostAllocated"}}}, r"write a longer prefix, such as nvidia\.com/\*"),
        ({"sra": {"enabled": True}}, "enabled"),
        ({"proportional": {"resourceProportion": {"nvidia.com/gpu.cpu": -1}}}, ">= 0"),
        ({"resourceStrategyFitWeight": -1}, ">= 0"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments, complaint):
    with pytest.raises(PolicyError, match=complaint):
        plan_for(a_node(), policy=fit(**arguments))
