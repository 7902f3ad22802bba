import json

import numpy as np
import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    an_object,
    binds,
    evicted,
    plan_for,
    policy,
    report,
    session_for,
    started,
)

from pumice.api import changes
from pumice.cluster.intake import Intake
from pumice.cluster.requests import is_guaranteed
from pumice.cluster.tasks import Status
from pumice.scheduling.core import cycle
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.verdict import Cure

NAME = "numa-aware"
ALONE = policy("allocate", f"gang {NAME}")
POLICY = "volcano.sh/numa-topology-policy"
DECISION, CPUSETS = "volcano.sh/topology-decision", "pumice.dev/cpusets"


def topology(
    node="n1",
    *,
    free="0-7",
    topology_policy="single-numa-node",
    manager="static",
    numa=2,
    reserved=None,
    pods=(),
    per=4,
):
    """NUMA nodes of `per` CPUs each, one thread per core; `pods` maps uids to the CPUs that the exporter has seen them take."""
    return an_object(
        "nodeinfo.volcano.sh/v1alpha1",
        "Numatopology",
        {
            "metadata": {"name": node, "uid": node},
            "spec": {
                "policies": {"CPUManagerPolicy": manager, "TopologyManagerPolicy": topology_policy},
                "resReserved": {"cpu": reserved} if reserved else {},
                "numares": {"cpu": {"allocatable": free, "capacity": numa * per}},
                "cpuDetail": {
                    str(cpu): {"numa": cpu // per, "socket": cpu // per, "core": cpu % per} for cpu in range(numa * per)
                },
                "podAllocations": [
                    {"uid": uid, "containerAllocations": [{"name": "main", "allocations": {"cpu": cpus}}]}
                    for uid, cpus in dict(pods).items()
                ],
            },
        },
    )


def own_cpus(cpu="2"):
    """What makes a pod Guaranteed."""
    limits = {"cpu": cpu, "memory": "1Gi"}
    return {"spec": {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}}


def a_pinned_gang(name, size, cpu="2", *, wish=None, **more):
    annotations = {**({POLICY: wish} if wish else {}), **more.pop("annotations", {})}
    return a_gang(name, size, cpu=None, annotations=annotations, **own_cpus(cpu), **more)


def nodes(*names, cpu="8"):
    return [a_node(name, cpu=cpu) for name in names]


def chosen(decisions):
    """Pod -> (CPUs of its container, CPUs by NUMA node)."""
    found = {}
    for commit in decisions.commits:
        for bind in commit.binds:
            sets = json.loads(bind.annotations[CPUSETS])
            numa = json.loads(bind.annotations[DECISION])["numa"]
            found[bind.task.name] = (sets["main"], {key: own["cpu"] for key, own in numa.items()})
    return found


def reasons(decisions, gang):
    return {reason.text: (reason.nodes, reason.cure) for reason in report(decisions, gang).reasons}


# ------------------------------------------------------------------------------------------------- choosing


def test_a_pod_gets_cpus_of_one_numa_node_and_takes_the_decision_along():
    decisions = plan_for(nodes("n1"), topology(), a_pinned_gang("g", 1, "3"), policy=ALONE)
    assert chosen(decisions) == {"g-w-0": ("0-2", {"0": "3"})}


def test_no_two_pods_get_the_same_cpu():
    decisions = plan_for(nodes("n1"), topology(), a_pinned_gang("g", 4, "2"), policy=ALONE)
    assert sorted(cpus for cpus, _ in chosen(decisions).values()) == ["0-1", "2-3", "4-5", "6-7"]


def test_a_gang_starts_only_if_all_its_members_get_their_cpus():
    """Eight CPUs are enough for two pods of three, and for no third."""
    assert started(plan_for(nodes("n1"), topology(), a_pinned_gang("g", 2, "3"), policy=ALONE)) == {"g": 2}
    decisions = plan_for(nodes("n1", cpu="9"), topology(), a_pinned_gang("g", 3, "3"), policy=ALONE)
    assert started(decisions) == {}
    assert "container main cannot be assigned by numa" in reasons(decisions, "g")


def test_cpus_that_the_exporter_reports_as_taken_are_not_given():
    decisions = plan_for(nodes("n1"), topology(free="2-3,6-7"), a_pinned_gang("g", 1, "2"), policy=ALONE)
    assert chosen(decisions) == {"g-w-0": ("2-3", {"0": "2"})}


def test_reserved_cpus_are_not_given():
    decisions = plan_for(nodes("n1"), topology(reserved="1500m"), a_pinned_gang("g", 1, "2"), policy=ALONE)
    assert chosen(decisions) == {"g-w-0": ("2-3", {"0": "2"})}


@pytest.mark.parametrize("reserved", ["lots", "-3", "999"])
def test_a_reservation_that_makes_no_sense_stops_nobody(reserved):
    assert started(plan_for(nodes("n1"), topology(reserved=reserved), a_pinned_gang("g", 1), policy=ALONE)) == {"g": 1}


def test_what_an_earlier_cycle_chose_is_taken_until_the_exporter_has_seen_it():
    old = a_gang("old", 1, cpu=None, running=["n1"], annotations={CPUSETS: '{"main": "0-1"}'}, **own_cpus("2"))
    decisions = plan_for(nodes("n1"), topology(), old, a_pinned_gang("g", 1), policy=ALONE)
    assert chosen(decisions)["g-w-0"][0] == "2-3"
    seen = topology(free="0-1,4-7", pods={"default/old-w-0": "2-3"})
    decisions = plan_for(nodes("n1"), seen, old, a_pinned_gang("g", 1), policy=ALONE)
    assert chosen(decisions)["g-w-0"][0] == "0-1"


def test_what_was_chosen_counts_from_the_moment_the_bind_is_on_its_way():
    things = [nodes("n1"), topology(), a_pinned_gang("first", 1), a_pinned_gang("second", 1)]
    cluster = a_cluster(things)
    intake = Intake(cluster)
    for task in list(cluster.tasks.values()):
        intake.apply(changes.Upserted(task.pod))
    ref = changes.PodRef(namespace="default", name="first-w-0", uid="default/first-w-0")
    sets = {CPUSETS: '{"main": "0-1"}'}
    intake.apply(changes.Assumed(pod=ref, node="n1", attempt="1-a", at=NOW, annotations=sets))
    decisions = cycle.plan(cluster.snapshot(), ALONE, now=NOW)
    assert chosen(decisions)["second-w-0"][0] == "2-3"


@pytest.mark.parametrize("text", ["no json", "[1]", '{"main": 7}', '{"main": "0-99999999"}'])
def test_what_a_stranger_writes_into_the_annotation_stops_nobody(text):
    old = a_gang("old", 1, running=["n1"], annotations={CPUSETS: text})
    assert started(plan_for(nodes("n1"), topology(), old, a_pinned_gang("g", 1), policy=ALONE)) == {"g": 1}


# ------------------------------------------------------------------------------------------------- who is concerned


def test_pods_that_share_cpus_are_none_of_its_business():
    for pod in (a_pod("p", cpu="2"), a_pod("q", cpu=None, **own_cpus("1500m"))):
        decisions = plan_for(nodes("n1"), topology(free=""), pod, policy=ALONE)
        assert binds(decisions) == {pod.metadata.name: "n1"}
        (commit,) = decisions.commits
        assert commit.binds[0].annotations == {}


def test_only_pods_bounded_in_every_container_are_guaranteed():
    both = {"cpu": "1", "memory": "1Gi"}

    def pod(*containers, init=()):
        spec = {
            "containers": [{"resources": each} for each in containers],
            "initContainers": [{"resources": each} for each in init],
        }
        return an_object("v1", "Pod", {"metadata": {"name": "p"}, "spec": spec})

    assert is_guaranteed(pod({"limits": both}))
    assert is_guaranteed(pod({"limits": both, "requests": both}))
    assert not is_guaranteed(pod({"limits": both}, {}))
    assert not is_guaranteed(pod({"limits": both}, init=[{}]))
    assert not is_guaranteed(pod({"limits": {"cpu": "1"}}))
    assert not is_guaranteed(pod({"limits": both, "requests": {"cpu": "500m"}}))


def test_nodes_without_an_active_policy_take_pods_that_name_none():
    for given in (topology(topology_policy="none", free=""), topology(manager="none", free=""), []):
        assert started(plan_for(nodes("n1"), given, a_pinned_gang("g", 1), policy=ALONE)) == {"g": 1}


def test_a_pod_that_names_a_policy_runs_only_where_the_kubelet_keeps_it():
    things = [
        nodes("unknown", "lax", "other", "right"),
        topology("lax", manager="none"),
        topology("other", topology_policy="restricted"),
        topology("right", topology_policy="best-effort"),
    ]
    wish = a_pinned_gang("g", 1, wish="best-effort")
    assert binds(plan_for(things, wish, policy=ALONE)) == {"g-w-0": "right"}
    decisions = plan_for(nodes("unknown", "lax", "other"), things[1:3], wish, policy=ALONE)
    assert started(decisions) == {}
    found = reasons(decisions, "g")
    assert found["numa info is empty"] == (1, Cure.CHANGE)
    assert found["cpu manager policy isn't static"] == (1, Cure.CHANGE)
    assert found["task topology policy[best-effort] is different with node[restricted]"] == (1, Cure.CHANGE)


def test_the_policy_none_is_no_wish():
    assert started(plan_for(nodes("n1"), a_pinned_gang("g", 1, wish="none"), policy=ALONE)) == {"g": 1}


# ------------------------------------------------------------------------------------------------- policies


@pytest.mark.parametrize(
    ("kept", "starts"), [("best-effort", True), ("restricted", False), ("single-numa-node", False)]
)
def test_only_best_effort_lets_a_pod_be_spread_though_one_numa_node_could_hold_it(kept, starts):
    given = topology(free="2-3,6-7", topology_policy=kept)
    assert bool(started(plan_for(nodes("n1"), given, a_pinned_gang("g", 1, "4"), policy=ALONE))) is starts


@pytest.mark.parametrize(("kept", "starts"), [("best-effort", True), ("restricted", True), ("single-numa-node", False)])
def test_only_single_numa_node_refuses_what_no_numa_node_could_hold(kept, starts):
    given = topology(topology_policy=kept)
    assert bool(started(plan_for(nodes("n1"), given, a_pinned_gang("g", 1, "6"), policy=ALONE))) is starts


# ------------------------------------------------------------------------------------------------- scores


def test_a_node_that_needs_fewer_numa_nodes_is_preferred():
    things = [
        nodes("apart", "together"),
        topology("apart", free="2-3,6-7", topology_policy="best-effort"),
        topology("together", topology_policy="best-effort"),
    ]
    assert binds(plan_for(things, a_pinned_gang("g", 1, "4", wish="best-effort"), policy=ALONE)) == {
        "g-w-0": "together"
    }


def test_the_score_is_the_distance_to_the_worst_times_the_weight():
    things = [
        nodes("apart", "together"),
        topology("apart", free="2-3,6-7", topology_policy="best-effort"),
        topology("together", topology_policy="best-effort"),
    ]
    heavy = policy("allocate", [{"name": NAME, "arguments": {"weight": 3}}])
    session = session_for(things, a_pinned_gang("g", 1, "4", wish="best-effort"), policy=heavy)
    (task,) = session.gangs["default/g"].tasks
    scores = session.placer.scores(session.shape(task), task, np.array([0, 1]))
    assert dict(zip(session.room.table.names, scores.tolist(), strict=True)) == {"apart": 0, "together": 150}


# ------------------------------------------------------------------------------------------------- evictions


def test_evicting_a_pod_frees_its_cpus_for_another():
    preempting = policy("preempt", "priority gang", f"predicates {NAME}")
    seen = topology(free="4-5", pods={"default/old-w-0": "0-3"})
    old = a_pinned_gang("old", 1, "4", min_member=0, running=["n1"], group={"phase": "Running"})
    rest = a_pinned_gang("rest", 1, "2", running=["n1"], group={"priority_class": "high"})
    new = a_pinned_gang("new", 1, "3", group={"priority_class": "high"})
    decisions = plan_for(nodes("n1"), seen, a_priority_class("high", 9), old, rest, new, policy=preempting)
    assert evicted(decisions) == ["old-w-0"]


def test_nobody_is_evicted_where_not_even_an_empty_node_would_do():
    preempting = policy("preempt", "priority gang", f"predicates {NAME}")
    old = a_pinned_gang("old", 1, "4", min_member=0, running=["n1"], group={"phase": "Running"})
    new = a_pinned_gang("new", 1, "6", group={"priority_class": "high"})
    seen = topology(free="4-7", pods={"default/old-w-0": "0-3"})
    decisions = plan_for(nodes("n1"), seen, a_priority_class("high", 9), old, new, policy=preempting)
    assert evicted(decisions) == []


def test_rolling_back_gives_every_cpu_back():
    seen = topology(free="4-7", pods={"default/old-w-0": "0-3"})
    old = a_pinned_gang("old", 1, "4", running=["n1"])
    session = session_for(nodes("n1"), seen, old, a_pinned_gang("g", 2, "4"), a_pod("plain"), policy=ALONE)
    (hook,) = session.points.annotate.hooks
    plugin = hook.call.__self__
    node = plugin.nodes[0]
    before = node.free
    statement = session.statement()
    gang, victim = session.gangs["default/g"], session.gangs["default/old"]
    first, second = gang.tasks
    statement.place(Placement(gang, session.shape(first), [first], [0], Status.ALLOCATED))
    statement.evict(victim.tasks[0], "preempt")
    statement.place(Placement(gang, session.shape(second), [second], [0], Status.PIPELINED))
    assert node.free == 0
    statement.rollback()
    assert node.free == before
    statement.place(Placement(gang, session.shape(first), [first], [0], Status.ALLOCATED))
    assert plugin.annotate(first)[CPUSETS] == '{"main":"4-7"}'


def test_a_pod_with_several_containers_gets_cpus_for_each_that_wants_its_own():
    limits = [{"cpu": "2", "memory": "1Gi"}, {"cpu": "500m", "memory": "1Gi"}, {"cpu": "4", "memory": "1Gi"}]
    containers = [{"name": f"c{number}", "resources": {"limits": each}} for number, each in enumerate(limits)]
    pod = a_pod("p", gang="g", cpu=None, spec={"containers": containers})
    decisions = plan_for(nodes("n1"), topology(), a_group("g", 1), pod, policy=ALONE)
    (commit,) = decisions.commits
    assert json.loads(commit.binds[0].annotations[CPUSETS]) == {"c0": "0-1", "c2": "4-7"}
