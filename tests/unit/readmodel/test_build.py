"""What the view tells of a cycle, from literal clusters."""

import msgspec
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    policy,
)

from pumice.api import names
from pumice.readmodel import build, changes, model
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.gpu_use import GangGpuUse

POLICY = builtin.parse(builtin.TEXT, "built-in policy")


CAPACITY = policy("enqueue, allocate", "gang predicates", "capacity")  # under which what is written as deserved counts


def cycle_of(*things, number=1, policy=POLICY, **more):
    snapshot = a_cluster(a_queue(), *things).snapshot()
    decisions = cycle.plan(snapshot, policy, now=NOW)
    return build.Cycle(
        number=number, at=NOW, snapshot=snapshot, decisions=decisions, policy=policy, leader="me", **more
    )


def views_of(*things, **more):
    views = build.Views()
    views.publish(cycle_of(*things, **more))
    return views


def test_nodes_are_told_with_what_the_cycle_placed_there():
    state = views_of(a_node("n1", cpu="4", gpu=8), a_gang("old", 1, running=["n1"]), a_gang("new", 2, gpu=2)).state()
    [node] = state.nodes
    assert (node.used["cpu"], node.free["cpu"]) == ("3", "1")
    assert (node.used["nvidia.com/gpu"], node.free["nvidia.com/gpu"]) == ("4", "4")
    assert node.gangs == {"default/new": 2, "default/old": 1}
    assert state.totals.used["nvidia.com/gpu"] == "4"
    assert [(each.gang, each.pods, each.nodes) for each in state.attempts] == [("default/new", 2, 1)]


def test_nodes_tell_who_holds_their_devices_where_they_are_and_whether_they_are_closed():
    state = views_of(
        a_node("n1", gpu=8),
        a_node("n2", gpu=8, spec={"unschedulable": True}),
        a_hyper_node("left", 1, nodes=["n1"]),
        a_gang("old", 1, gpu=1, running=["n1"]),
        a_gang("new", 2, gpu=2),
    ).state()
    first, second = state.nodes
    assert first.devices == {"default/new": {"nvidia.com/gpu": "4"}, "default/old": {"nvidia.com/gpu": "1"}}
    assert (first.hyper_node, first.closed) == ("left", False)
    assert (second.devices, second.hyper_node, second.closed) == ({}, "", True)


def test_queues_are_told_with_limits_holdings_promises_and_what_they_borrow():
    state = views_of(
        a_node("n1", cpu="8"),
        a_queue("team", deserved={"cpu": "1"}, capability={"cpu": "6"}),
        a_gang("runs", 3, running=["n1"] * 3, group={"queue": "team", "phase": "Running"}),
        a_group("next", 4, queue="team", phase="Inqueue", minimum={"cpu": "4"}),
        policy=CAPACITY,
    ).state()
    team = next(each for each in state.queues if each.name == "team")
    assert (team.allocated["cpu"], team.promised["cpu"], team.borrowed) == ("3", "4", {"cpu": "2"})
    assert (team.deserved, team.capability, team.state) == ({"cpu": "1"}, {"cpu": "6"}, "Open")
    assert (team.entitled, team.limit["cpu"], team.left["cpu"]) == ({"cpu": "1"}, "6", "3")
    assert state.totals.promised == {"cpu": "4"}


def test_what_gangs_hold_adds_up_to_what_their_queue_holds_with_what_was_just_placed():
    owner = {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Job", "name": "train", "uid": "u"}]}}
    state = views_of(
        a_node("n1", cpu="8"),
        a_gang("old", 3, running=["n1"] * 3, group={"phase": "Running", "annotations": {names.SUBMITTED_BY: "mia"}}),
        a_gang("train-1", 2, group=owner),
    ).state()
    assert {each.name: (each.holds, each.user, each.job) for each in state.gangs} == {
        "old": ({"cpu": "3"}, "mia", ""),
        "train-1": ({"cpu": "2"}, "default", "train"),
    }
    assert [each.allocated for each in state.queues] == [{"cpu": "5"}]


def test_a_label_names_the_user_where_a_plugin_of_the_policy_trusts_it():
    labelled = a_node("n1"), a_gang("g", 1, group={"labels": {names.USER: "tom"}})
    trusting = policy("allocate", [{"name": "user-limits", "arguments": {build.TRUST_USER_LABEL: True}}])
    views = views_of(*labelled)
    assert [each.user for each in views.state().gangs] == ["default"]
    views.publish(cycle_of(*labelled, policy=trusting))
    assert [each.user for each in views.state().gangs] == ["tom"]


def test_waiting_gangs_are_numbered_in_the_order_in_which_their_queue_serves_them():
    state = views_of(
        a_node("n1", cpu="1"),
        a_priority_class("high", 9),
        a_gang("late", 2, created=2),
        a_gang("early", 2, created=1),
        a_gang("dear", 2, created=3, group={"priority_class": "high"}),
        a_gang("runs", 1, running=["n1"], group={"phase": "Running"}),
    ).state()
    assert {each.name: each.position for each in state.gangs} == {"dear": 1, "early": 2, "late": 3, "runs": 0}


def test_since_is_when_the_gang_last_became_schedulable_or_stopped_being_so():
    condition = {"type": "Unschedulable", "status": "True", "lastTransitionTime": "2026-01-01T00:20:00Z"}
    state = views_of(
        a_node("n1", cpu="1"), a_gang("told", 2, group={"conditions": [condition]}), a_gang("new", 2, created=60)
    ).state()
    assert {each.name: each.since for each in state.gangs} == {
        "told": "2026-01-01T00:20:00Z",
        "new": "2026-01-01T00:01:00Z",
    }


def test_a_gang_is_told_with_its_pods_and_the_room_that_its_shapes_have():
    detail = views_of(
        a_node("n1", cpu="2"),
        a_node("n2", cpu="9", taints=["team=a:NoSchedule"]),
        a_gang("big", 3, cpu="1"),
    ).gang("default/big")
    assert detail.room == (
        model.Room(
            each={"cpu": "1"},
            waiting=3,
            fit=2,
            nodes=2,
            may_take=1,
            short=(model.Shortage(resource="cpu", free="2", most_on_one_node="2"),),
        ),
    )
    assert [pod.message for pod in detail.pods] == [
        "Pod default/big-w-0 can possibly be assigned to n1, once minAvailable is satisfied",
        "Pod default/big-w-1 can possibly be assigned to n1, once minAvailable is satisfied",
        "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) had untolerated taint(s).",
    ]
    assert detail.queue is not None
    assert detail.evictable == ()  # it can never start, whoever leaves


def test_members_behind_a_gate_are_told_with_it():
    gates = {"spec": {"schedulingGates": [{"name": "example.com/hold"}]}}
    detail = views_of(a_node("n1"), a_group("held", 2), a_pod("a", gang="held", **gates), a_pod("b", gang="held")).gang(
        "default/held"
    )
    assert detail.gang.reasons[0].reason == "1 of 2 pods are held by the scheduling gate example.com/hold"
    assert [(pod.gates, bool(pod.message)) for pod in detail.pods] == [(("example.com/hold",), False), ((), True)]
    assert detail.gang.members == model.Members(minimum=2, pods=2, waiting=2, gated=1)


def test_a_gang_that_must_stay_close_is_told_where_most_of_it_would_fit():
    topology = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    things = (
        a_node("n1", cpu="1"),
        a_node("n2", cpu="2"),
        a_hyper_node("left", 1, nodes=["n1"]),
        a_hyper_node("right", 1, nodes=["n2"]),
    )
    [room] = views_of(*things, a_gang("near", 3, group=topology)).gang("default/near").room
    assert room.within == model.HyperNodeRoom(tier=1, hyper_node="right", fit=2)
    topology["spec"]["networkTopology"]["highestTierAllowed"] = 0
    [room] = views_of(*things, a_gang("near", 3, group=topology)).gang("default/near").room
    assert room.within == model.HyperNodeRoom(tier=0)


def crowded():
    low = a_gang(
        "low", 4, running=["n1"] * 4, priority=1, min_member=1, group={"priority_class": "low", "phase": "Running"}
    )
    return a_node("n1", cpu="4"), a_priority_class("low", 1), a_priority_class("high", 9), low


def test_evictions_are_told_with_their_cause_and_the_room_that_they_make():
    high = a_gang("high", 2, priority=9, group={"priority_class": "high"})
    views = views_of(*crowded(), high)
    state = views.state()
    assert [(each.gang, each.action, each.claimant) for each in state.evictions] == [
        ("default/low", "preempt", "default/high"),
        ("default/low", "preempt", "default/high"),
    ]
    assert [(each.code, each.facts.gang, each.facts.free, each.facts.wanted) for each in state.evictions] == [
        ("VictimSparedByGang", "default/low", 3, 1),
        ("VictimSparedByGang", "default/low", 2, 1),
    ]
    assert state.evictions[0].why == "gang default/low keeps its minimum of 1: 3 stay"
    [claim] = state.claims
    assert (claim.gang, claim.places, claim.want) == ("default/high", {"n1": 2}, {"n1": {"cpu": "2"}})
    assert [(each.for_pods, each.pods, each.hold) for each in claim.leaving] == [(2, 2, {"cpu": "2"})]
    assert "have got a place that others must leave first" in views.gang("default/high").gang.reasons[0].reason


def test_what_a_gang_is_short_of_is_told_with_those_who_hold_it():
    things = (
        a_queue("greedy", deserved={"cpu": "1"}), *crowded(), a_node("n2", cpu="3"),
        a_gang("more", 3, running=["n2"] * 3, group={"queue": "greedy", "phase": "Running"}),
        a_gang("high", 2, priority=9),
    )  # fmt: skip
    assert views_of(*things, policy=CAPACITY).gang("default/high").evictable == (
        model.Evictable(resource="cpu", lower_priority_pods=4, held_by_them="4", beyond_deserved={"greedy": "2"}),
    )


def test_a_minimum_beyond_its_queue_is_cured_by_a_change_alone():
    group = a_group("capped", 3, queue="tiny", phase="Pending", minimum={"cpu": "3"})
    gang = views_of(a_node("n1"), a_queue("tiny", capability={"cpu": "2"}), group).gang("default/capped").gang
    assert [each.cure for each in gang.reasons] == ["change"]


def test_what_has_not_changed_is_shared_between_views():
    cluster = a_cluster(a_queue(), a_node("n1"), a_node("n2"), a_gang("a", 1, running=["n1"]), a_gang("b", 9))
    views, states = build.Views(), []
    for number in range(2):
        snapshot = cluster.snapshot()
        decisions = cycle.plan(snapshot, POLICY, now=NOW)
        views.publish(build.Cycle(number=number, at=NOW, snapshot=snapshot, decisions=decisions, policy=POLICY))
        states.append(views.state())
    first, second = states
    assert all(one is other for one, other in zip(first.nodes + first.gangs, second.nodes + second.gangs, strict=True))
    assert changes.is_empty(changes.between(first, second))


def test_a_view_is_built_once_and_only_when_asked_for():
    views = views_of(a_node("n1"))
    assert views.state() is views.state()
    assert views.gang("default/nobody") is None
    assert build.Views().state() is None


def test_histories_forget_their_oldest(monkeypatch):
    monkeypatch.setattr(build, "ATTEMPTS_KEPT_MAX", 2)
    views = build.Views()
    for number in range(1, 4):
        views.publish(cycle_of(a_node("n1"), a_gang("g", 1), number=number))
    assert [each.cycle for each in views.state().attempts] == [2, 3]


def test_the_policy_in_force_the_last_refusal_and_failed_attempts_are_told():
    views = views_of(a_node("n1"), a_gang("g", 1), refused="line 3: what", resting={"default/g": "n1 said no"})
    assert views.state().policy.refused == "line 3: what"
    assert views.state().policy.actions == POLICY.actions
    assert views.state().gangs[0].rests == "n1 said no"


def test_json_reads_back_as_it_was():
    state = views_of(*crowded(), a_gang("high", 2, priority=9, group={"priority_class": "high"})).state()
    text = msgspec.json.encode(state)
    assert msgspec.json.encode(msgspec.json.decode(text, type=model.State)) == text
    assert msgspec.json.decode(text)["version"] == model.VERSION


def test_a_stream_begins_with_everything_and_goes_on_with_what_differs():
    before = views_of(a_node("n1", cpu="1"), a_gang("stays", 2), a_gang("goes", 2)).state()
    after = views_of(a_node("n1", cpu="1"), a_gang("stays", 2), a_gang("comes", 2), number=2).state()
    whole = changes.between(None, before)
    assert (whole.nodes, whole.gangs, whole.queues) == (before.nodes, before.gangs, before.queues)
    line = changes.between(before, after)
    assert (line.cycle, [each.name for each in line.gangs], line.gone.gangs) == (
        2,
        ["comes"],
        ("default/goes",),
    )
    assert line.nodes == ()
    other = msgspec.structs.replace(after, leader="another")
    assert changes.between(before, other).nodes == after.nodes  # its numbers mean something else


def test_what_a_gang_uses_of_its_gpus_is_told_and_told_anew_when_it_changes():
    gang = a_gang("g", 1, running=["n1"], gpu=1)
    views = views_of(a_node("n1", gpu=2), gang, gpu_uses={"default/g": GangGpuUse(1, 55.0, 2048, False)})
    assert views.state().gangs[0].gpu_use == model.GpuUse(pods=1, percent=55.0, memory_mib=2048)
    views.publish(cycle_of(a_node("n1", gpu=2), gang, number=2, gpu_uses={"default/g": GangGpuUse(1, 0.0, 9, True)}))
    assert views.state().gangs[0].gpu_use.idle
