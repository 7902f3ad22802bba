import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    a_gang,
    a_hyper_node,
    a_node,
    a_pod,
    binds,
    plan_for,
    policy,
    session_for,
)

from pumice.cluster.tasks import Status
from pumice.cluster.topology import ROOT
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.placing import topology

NAME = "network-topology-aware"
ALONE = policy("allocate", NAME)


def arguments(**values):
    return policy(
        "allocate", ["gang", {"name": NAME, "arguments": {key.replace("__", "."): own for key, own in values.items()}}]
    )


def close(tier=3):
    return {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": tier}}}


def pulled(session, gang, member=0):
    """Node -> what the plugin adds for one pod, over all nodes."""
    task = session.gangs[f"default/{gang}"].tasks[member]
    table = session.room.table
    pulls = session.points.pull_score.of(session.shape(task), np.arange(len(table)))
    return dict(zip(table.names, pulls[0].scores.tolist(), strict=True)) if pulls else None


def gradient(session, gang, within=ROOT, *, evicting=False):
    state = session.gangs[f"default/{gang}"]
    assert topology.prepare(session, state) is None
    return topology.gradients(session, state, within, evicting=evicting)


# ------------------------------------------------------------------------------------------------- hyper nodes


def test_a_hyper_node_scores_by_how_full_the_sub_gang_would_make_it():
    things = [
        a_node("a1", cpu="8", memory="8G"),
        a_node("b1", cpu="4", memory="8G"),
        a_hyper_node("a", 1, nodes=["a1"]),
        a_hyper_node("b", 1, nodes=["b1"]),
        a_hyper_node("ab", 2, children=["a", "b"]),
    ]
    session = session_for(things, a_gang("train", 2, cpu="4", memory="4G", group=close()), policy=ALONE)
    (sub,) = session.gangs["default/train"].subs
    (scores,) = session.points.hyper_score.of(sub, ["a", "b", "ab"])
    assert scores == pytest.approx({"a": 100, "b": 0, "ab": (8 / 12 + 8 / 16) / 2 * 100})


def test_weights_decide_which_resources_count():
    things = [a_node("a1", cpu="8", memory="8G", gpu="2"), a_hyper_node("a", 1, nodes=["a1"])]
    gang = a_gang("train", 1, cpu="4", memory="2G", gpu="2", group=close())

    def score(**values):
        session = session_for(things, gang, policy=arguments(**values))
        return session.points.hyper_score.of(session.gangs["default/train"].subs[0], ["a"])[0]["a"]

    assert score() == pytest.approx((0.5 + 0.25) / 2 * 100)
    assert score(weight=3) == pytest.approx((0.5 + 0.25) / 2 * 300)
    assert score(hypernode__binpack__cpu=3) == pytest.approx((1.5 + 0.25) / 4 * 100)
    assert score(hypernode__binpack__cpu=0, hypernode__binpack__memory=0) == 0
    assert score(hypernode__binpack__resources="nvidia.com/gpu") == pytest.approx((0.5 + 0.25 + 1) / 3 * 100)
    several = {"hypernode.binpack.resources": "nvidia.com/gpu", "hypernode.binpack.resources.nvidia.com/gpu": 2}
    assert score(**several) == pytest.approx((0.5 + 0.25 + 2) / 4 * 100)
    assert score(hypernode__binpack__cpu=-5) == score()


def test_a_weight_of_zero_leaves_only_the_gradients():
    session = session_for(a_node(), a_hyper_node("a", 1, nodes=["n1"]), policy=arguments(weight=0))
    assert not session.points.hyper_score.hooks
    assert not session.points.pull_score.hooks
    assert session.points.gradient.hooks


def test_an_argument_with_a_typo_is_refused():
    with pytest.raises(PolicyError, match=r"unknown argument 'wieght'; did you mean weight\?"):
        session_for(policy=arguments(wieght=1))


# ------------------------------------------------------------------------------------------------- gradients

TREE = [
    [a_node(name) for name in ("n1", "n2", "n3")],
    [a_hyper_node(f"leaf{number}", 1, nodes=[f"n{number}"]) for number in (1, 2, 3)],
    a_hyper_node("spine1", 2, children=["leaf1", "leaf2"]),
    a_hyper_node("spine2", 2, children=["leaf3"]),
]


def test_hyper_nodes_are_grouped_by_tier_the_closest_first():
    session = session_for(TREE, a_gang("train", 1, group=close(2)), policy=ALONE)
    assert gradient(session, "train") == [["leaf1", "leaf2", "leaf3"], ["spine1", "spine2"]]
    assert gradient(session, "train", "spine1") == [["leaf1", "leaf2"], ["spine1"]]


def test_a_limit_above_all_tiers_allows_the_root():
    session = session_for(TREE, a_gang("train", 1, group=close(3)), policy=ALONE)
    assert gradient(session, "train")[-1] == [ROOT]


def test_hyper_nodes_that_cannot_hold_the_minimum_are_left_out():
    busy = a_pod("busy", node="n1", cpu="1")
    gang = a_gang("train", 1, group={**close(2), "minimum": {"cpu": "4"}})
    session = session_for(TREE, busy, gang, policy=ALONE)
    assert gradient(session, "train") == [["leaf2", "leaf3"], ["spine1", "spine2"]]
    assert gradient(session, "train", evicting=True) == [["spine1", "spine2"], ["leaf1", "leaf2", "leaf3"]]


def test_room_that_is_being_released_counts():
    leaving = a_pod("leaving", node="n1", cpu="1", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    session = session_for(TREE, leaving, a_gang("train", 1, group={**close(1), "minimum": {"cpu": "4"}}), policy=ALONE)
    assert gradient(session, "train") == [["leaf1", "leaf2", "leaf3"]]


def test_a_gang_that_runs_is_kept_within_the_limit_around_its_members():
    gang = a_gang("train", 2, running=["n1"], group={**close(2), "minimum": {"cpu": "99"}})
    session = session_for(TREE, gang, policy=ALONE)
    assert gradient(session, "train") == [["leaf1", "leaf2"], ["spine1"]]
    assert gradient(session, "train", "leaf2") == [["leaf2"]]
    assert gradient(session, "train", "spine2") == []


def test_evictions_are_considered_in_a_limited_number_of_hyper_nodes_the_widest_first():
    gang = a_gang("train", 1, group=close(2))
    session = session_for(TREE, gang, policy=arguments(**{"hypernode.gradient.evict.max-hypernodes": 4}))
    assert gradient(session, "train", evicting=True) == [["spine1", "spine2"], ["leaf2", "leaf3"]]
    session = session_for(TREE, gang, policy=arguments(**{"hypernode.gradient.evict.max-hypernodes": 1}))
    assert gradient(session, "train", evicting=True) == [["spine2"]]


# ------------------------------------------------------------------------------------------------- members attract members


def test_members_are_drawn_to_the_hyper_node_of_the_others():
    gang = a_gang("train", 4, running=["n1"], group=close(3))
    session = session_for(TREE, a_node("outside"), gang, policy=ALONE)
    assert topology.prepare(session, session.gangs["default/train"]) is None
    assert pulled(session, "train", 1) == {"n1": 100, "n2": 50, "n3": 0, "outside": 0}


def test_the_first_member_is_drawn_nowhere():
    session = session_for(TREE, a_gang("train", 2, group=close(3)), policy=ALONE)
    assert set(pulled(session, "train").values()) == {0}


def test_among_equally_close_hyper_nodes_the_one_with_more_members_draws_more():
    gang = a_gang("train", 4, running=["n1", "n2", "n2"], group=close(3), cpu="100m")
    session = session_for(TREE, gang, policy=ALONE)
    assert topology.prepare(session, session.gangs["default/train"]) is None
    assert pulled(session, "train", 3) == pytest.approx({"n1": 50 + 25, "n2": 50 + 50, "n3": 0})


def test_placing_and_rolling_back_leaves_no_trace_in_the_books():
    gang = a_gang("train", 3, min_member=1, running=["n1"], group=close(3), cpu="1")
    session = session_for(TREE, gang, a_gang("plain", 2), policy=ALONE)
    assert topology.prepare(session, session.gangs["default/train"]) is None
    before = pulled(session, "train", 1), pulled(session, "plain")
    statement = session.statement()
    sheet_of = [task for name in ("train", "plain") for task in session.gangs[f"default/{name}"].tasks[1:]]

    for node, task in enumerate(sheet_of):
        state = session.gangs[task.gang]
        statement.place(Placement(state, session.shape(task), [task], [node], Status.ALLOCATED))
    assert (pulled(session, "train", 1), pulled(session, "plain")) != before
    statement.rollback()
    assert (pulled(session, "train", 1), pulled(session, "plain")) == before


# ------------------------------------------------------------------------------------------------- ordinary pods


def test_an_ordinary_pod_goes_where_a_hyper_node_is_in_use():
    busy = a_pod("busy", node="n3", cpu="1")
    session = session_for(TREE, busy, a_gang("plain", 1, cpu="1"), policy=ALONE)
    weights = [1, 0.8, 0.64]

    def score(leaf, spine, root):
        parts = zip(weights, (leaf, spine, root), strict=True)
        return sum(weight * share for weight, share in parts) / sum(weights) * 100

    assert pulled(session, "plain") == pytest.approx(
        {"n1": score(1 / 4, 1 / 8, 2 / 12), "n2": score(1 / 4, 1 / 8, 2 / 12), "n3": score(2 / 4, 2 / 4, 2 / 12)}
    )


def test_a_node_in_no_hyper_node_is_preferred_by_ordinary_pods():
    session = session_for(TREE, a_node("outside"), a_gang("plain", 1, cpu="1"), policy=ALONE)
    scores = pulled(session, "plain")
    assert max(scores, key=scores.get) == "outside"


def test_a_hyper_node_that_would_overflow_is_worth_nothing_on_its_tier():
    busy = a_pod("busy", node="n3", cpu="4")
    session = session_for(
        TREE, busy, a_gang("plain", 1, cpu="1"), policy=arguments(**{"hypernode.binpack.normal-pod.fading": 0})
    )
    assert pulled(session, "plain") == pytest.approx({"n1": 25, "n2": 25, "n3": 0})


def test_ordinary_pods_can_be_left_alone():
    session = session_for(TREE, a_gang("plain", 1), policy=arguments(**{"hypernode.binpack.normal-pod.enable": False}))
    assert pulled(session, "plain") is None


def test_a_negative_fading_is_the_default():
    gang = a_gang("plain", 1, cpu="1")
    busy = a_pod("busy", node="n3", cpu="1")
    default = pulled(session_for(TREE, busy, gang, policy=ALONE), "plain")
    negative = policy("allocate", [{"name": NAME, "arguments": {"hypernode.binpack.normal-pod.fading": -1}}])
    assert pulled(session_for(TREE, busy, gang, policy=negative), "plain") == default


def test_where_there_are_no_hyper_nodes_the_plugin_has_no_say_in_scores():
    session = session_for(a_node(), a_gang("plain", 1), policy=ALONE)
    assert not session.points.pull_score.hooks
    assert not session.points.hyper_score.hooks


def test_ordinary_gangs_fill_one_leaf_before_they_open_the_next():
    nodes = [a_node(f"{leaf}{number}", cpu="2") for leaf in "ab" for number in range(3)]
    leaves = [a_hyper_node(leaf, 1, nodes=[f"{leaf}{number}" for number in range(3)]) for leaf in "ab"]
    busy = a_pod("busy", node="b0", cpu="1")
    decisions = plan_for(nodes, leaves, busy, a_gang("plain", 5, cpu="1"), policy=policy("allocate", f"gang {NAME}"))
    assert {node[0] for node in binds(decisions).values()} == {"b"}


@pytest.mark.parametrize("fading", [0.8, 1000])
def test_tiers_are_a_users_numbers_and_only_those_that_exist_are_looked_at(fading):
    """A tier of 2147483647 once was two thousand million steps of a loop."""
    racks = [a_hyper_node("rack", 1, nodes=["n1", "n2"]), a_hyper_node("all", 2147483647, children=["rack"])]
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="2")]
    chosen = arguments(**{"hypernode.binpack.normal-pod.fading": fading})
    decisions = plan_for(racks, nodes, a_gang("close", 2, group=close()), a_gang("plain", 2), policy=chosen)
    assert len(binds(decisions)) == 4


def test_a_hyper_node_that_is_in_use_at_all_can_count_for_more_than_a_fuller_one_that_is_not():
    things = [
        *(a_node(name, cpu="10", memory="100G", gpu=10) for name in ("a1", "b1")),
        a_hyper_node("a", 1, nodes=["a1"]),
        a_hyper_node("b", 1, nodes=["b1"]),
        a_pod("web", cpu="8", memory="80G", node="a1"),
        a_pod("small", cpu="1", gpu=1, node="b1"),
        a_gang("g", 1, cpu="1", memory="10G", gpu=1),
    ]
    gpus = {"weight": 1, "hypernode__binpack__resources": "nvidia.com/gpu"}
    gpus |= {"hypernode__binpack__resources__nvidia__com/gpu": 2}
    by_fullness = pulled(session_for(*things, policy=arguments(**gpus)), "g")
    assert by_fullness["a1"] > by_fullness["b1"]  # (90 + 90 + 2 * 10) / 4 percent, and (20 + 10 + 2 * 20) / 4
    in_use = gpus | {"hypernode__binpack__normal-pod__in-use": 0.5}
    by_use = pulled(session_for(*things, policy=arguments(**in_use)), "g")
    assert by_use["a1"] < by_use["b1"]  # half of 50 percent, and half of 17.5 and of 100
