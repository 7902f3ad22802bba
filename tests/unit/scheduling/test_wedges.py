"""A gallery of wedges, each resolved or named: how things look when nothing moves, and what is said then.

Those that need a server are in tests/bodies/wedges.py; docs/guides/deadlocks.md has them all in a table.
"""

import msgspec
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    a_queue,
    an_object,
    plan_for,
    policy,
    when,
)

from pumice.api.flow import Flow, FlowDependency, JobFlow, JobFlowSpec
from pumice.api.meta import ObjectMeta
from pumice.cli import deadlocks
from pumice.controllers.jobflow.plan import View
from pumice.controllers.jobflow.plan import plan as plan_flow
from pumice.controllers.operations import Emit
from pumice.readmodel import model
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.codes import Code
from pumice.scheduling.whatif import single_changes
from pumice.scheduling.whatif.trial import Question

BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")
GRACE = BUILT_IN.deadlock_grace
GPU = {"gpu": 1, "cpu": None}
RUNS = {"phase": "Running"}
OWNER = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j", "controller": True}


def gpu_node(name, gpus=4):
    return a_node(name, gpu=gpus, cpu="64")


def member(gang, number, node="", *, since=0, **pod):
    status = {"status": {"startTime": when(since)}} if node else {}
    owned = {"metadata": {"ownerReferences": [OWNER]}}
    return a_pod(f"{gang}-w-{number}", gang=gang, node=node, **GPU, **owned, **status, **pod)


def codes(decisions, gang):
    return [reason.code for reason in decisions.gangs[f"default/{gang}"].reasons]


def suggested(gang, *things):
    """What `pumice explain` says would start the gang."""
    snapshot = a_cluster(*things).snapshot()
    question = Question(snapshot, BUILT_IN, NOW)
    found = single_changes.suggestions(question, question.plan(snapshot), f"default/{gang}").found
    return [each.text for each in found]


def after_the_grace_time(*things, policy=BUILT_IN):
    snapshot = a_cluster(*things).snapshot()
    first = cycle.plan(snapshot, policy, now=NOW)
    return first, cycle.plan(snapshot, policy, first.memory, now=NOW + GRACE)


def bound(decisions):
    return {commit.gang.removeprefix("default/"): len(commit.binds) for commit in decisions.commits}


def victims(decisions):
    return sorted(each.task.name for each in decisions.evictions)


def test_of_two_gangs_of_64_on_100_gpus_one_starts_whole_and_none_by_half():
    nodes = [gpu_node(f"n{number}", 10) for number in range(10)]
    decisions = plan_for(nodes, a_gang("a", 64, created=1, **GPU), a_gang("b", 64, created=2, **GPU), policy=BUILT_IN)
    assert bound(decisions) == {"a": 64}
    assert Code.QUEUE_SHARE_USED in codes(decisions, "b")


def test_of_two_gangs_of_64_on_100_gpus_in_two_queues_one_starts_though_each_share_is_50():
    nodes = [gpu_node(f"n{number}", 10) for number in range(10)]
    queues = a_queue("left"), a_queue("right")
    gangs = (a_gang(name, 64, created=age, group={"queue": name}, **GPU) for age, name in enumerate(("left", "right")))
    decisions = plan_for(nodes, queues, gangs, policy=BUILT_IN)
    assert bound(decisions) == {"left": 64}
    assert codes(decisions, "right") == [Code.QUEUE_SHARE_TOO_SMALL]


def a_half(name, node, since):
    """Four of eight members run in a queue of its own, the others wait."""
    members = [member(name, number, node, since=since) for number in range(4)]
    return [a_group(name, 8, queue=name, phase="Running"), *members, *(member(name, number) for number in range(4, 8))]


TWO_QUEUES = gpu_node("n1"), gpu_node("n2"), a_queue("a"), a_queue("b")


def test_two_halves_in_two_queues_end_with_one_whole_gang():
    """Each lost a node, and the other one took what was left: 4 of 8 each, on 8 GPUs, and no share is larger than another."""
    things = *TWO_QUEUES, a_half("a", "n1", 60), a_half("b", "n2", 1800)
    without_shares = policy("enqueue, allocate", "priority gang conformance", "predicates nodeorder")
    first, second = after_the_grace_time(*things, policy=msgspec.structs.replace(without_shares, break_deadlocks=True))
    assert codes(first, "a")[0] is codes(first, "b")[0] is Code.HOLDS_WHILE_WAITING
    assert victims(second) == ["b-w-0", "b-w-1", "b-w-2", "b-w-3"]


def test_two_halves_in_two_queues_whose_shares_are_too_small_end_with_one_whole_gang_too():
    """Each queue has 4 of 8 GPUs by right, so neither gang could ever be whole within its share: what is lent makes it so."""
    first, second = after_the_grace_time(*TWO_QUEUES, a_half("a", "n1", 60), a_half("b", "n2", 1800))
    assert codes(first, "a")[0] is codes(first, "b")[0] is Code.HOLDS_WHILE_WAITING
    assert victims(second) == ["b-w-0", "b-w-1", "b-w-2", "b-w-3"]
    assert {each.claimant for each in second.evictions} == {"default/a"}
    made_anew = [a_group("b", 8, queue="b"), *(member("b", number) for number in range(8))]
    snapshot = a_cluster(*TWO_QUEUES, a_half("a", "n1", 60), made_anew).snapshot()
    third = cycle.plan(snapshot, BUILT_IN, second.memory, now=NOW + GRACE)
    assert bound(third) == {"a": 4}
    assert victims(third) == []


def test_halves_whose_queues_may_not_exceed_their_shares_stay():
    to_four = (a_queue(name, capability={"nvidia.com/gpu": "4"}) for name in ("a", "b"))
    first, second = after_the_grace_time(
        gpu_node("n1"), gpu_node("n2"), to_four, a_half("a", "n1", 60), a_half("b", "n2", 1800)
    )
    assert codes(first, "a")[0] is Code.HOLDS_WHILE_WAITING
    assert victims(second) == []


def a_claim(name):
    """A claim for one pod alone, and its volume."""
    claim = {"accessModes": ["ReadWriteOncePod"], "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
    of_claim = {"namespace": "default", "name": name, "uid": name}
    volume = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOncePod"], "claimRef": of_claim}
    where = {"name": name, "namespace": "default", "uid": name}
    return [
        an_object("v1", "PersistentVolumeClaim", {"metadata": where, "spec": claim, "status": {"phase": "Bound"}}),
        an_object("v1", "PersistentVolume", {"metadata": {"name": name, "uid": f"v-{name}"}, "spec": volume}),
    ]


def with_claim(name):
    return {"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]}}


def test_claims_in_a_ring_are_named_and_the_younger_gang_lets_go():
    ring = [
        gpu_node("n1", 8),
        a_claim("left"),
        a_claim("right"),
        a_group("a", 2, phase="Running"),
        member("a", 0, "n1", since=600, **with_claim("left")),
        member("a", 1, **with_claim("right")),
        a_group("b", 2, phase="Running"),
        member("b", 0, "n1", since=1800, **with_claim("right")),
        member("b", 1, **with_claim("left")),
    ]
    first, second = after_the_grace_time(ring)
    assert codes(first, "a") == codes(first, "b") == [Code.HOLDS_WHILE_WAITING, Code.VOLUME_IN_USE]
    assert victims(first) == []
    assert victims(second) == ["b-w-0"]
    assert {each.claimant for each in second.evictions} == {"default/a"}


def in_one_block(name, size, **group):
    topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    return a_gang(name, size, group={"spec": topology, **group}, **GPU)


BLOCKS = (
    gpu_node("n1"),
    gpu_node("n2"),
    a_hyper_node("block-1", 1, nodes=["n1"]),
    a_hyper_node("block-2", 1, nodes=["n2"]),
    a_hyper_node("hall", 2, children=["block-1", "block-2"]),
)


def test_hyper_nodes_that_are_free_in_parts_are_named_with_what_would_help():
    things = (
        *BLOCKS,
        in_one_block("a", 4),
        *(a_gang(f"r{n}", 1, running=[f"n{n}"], group=RUNS, **GPU) for n in (1, 2)),
    )
    decisions = plan_for(*things, policy=BUILT_IN)
    assert codes(decisions, "a")[0] is Code.HYPER_NODE_TOO_FULL
    assert decisions.gangs["default/a"].reasons[0].text.startswith("hyper node block-1 has room for 3 of the 4 members")
    assert "with highestTierAllowed 2 instead of 1" in suggested("a", *things)


def test_half_a_gang_that_may_not_leave_its_hyper_node_leaves_whole():
    """Its other half came back to find a stranger in the block."""
    topology = {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}
    half = [
        a_group("a", 4, phase="Running", spec=topology),
        *(member("a", number, "n1") for number in range(2)),
        *(member("a", number) for number in range(2, 4)),
    ]
    stranger = a_gang("s", 2, running=["n1", "n1"], group=RUNS, **GPU)
    taken = a_gang("t", 4, running=["n2"] * 4, group=RUNS, **GPU)
    first, second = after_the_grace_time(*BLOCKS, half, stranger, taken, a_gang("next", 2, **GPU))
    assert codes(first, "a")[0] is Code.HOLDS_WHILE_WAITING
    assert victims(second) == ["a-w-0", "a-w-1"]
    assert {each.claimant for each in second.evictions} == {"default/next"}


def elastic(size=8, node="n1", since=0, **pod):
    """A gang of two that has grown."""
    members = [member("elastic", number, node, since=since, **pod) for number in range(size)]
    return [a_group("elastic", 2, phase="Running"), *members]


def test_an_elastic_surplus_in_front_of_a_minimum_is_named_and_leaves_after_the_grace_time():
    first, second = after_the_grace_time(gpu_node("n1", 8), elastic(), a_gang("rigid", 4, **GPU))
    told = next(each for each in first.gangs["default/rigid"].reasons if each.code is Code.SURPLUS_AHEAD)
    assert (told.facts.free, told.facts.names) == (4, ("default/elastic",))
    assert victims(first) == []
    assert len(victims(second)) == 4
    assert {(each.rule, each.claimant) for each in second.evictions} == {("deadlock", "default/rigid")}
    assert [claim.gang for claim in second.claims] == ["default/rigid"]
    reserved = [each.gangs["default/rigid"].reservation is not None for each in (first, second)]
    assert reserved == [True, False], "whom others leave for needs none"
    assert Code.RESERVED not in codes(second, "rigid")


def test_of_a_surplus_those_leave_that_have_done_the_least():
    old, young = (elastic(4, since=0)[1:], elastic(8, since=3000)[5:])
    group = elastic()[0]
    _, second = after_the_grace_time(gpu_node("n1", 8), group, old, young, a_gang("rigid", 3, **GPU))
    assert victims(second) == ["elastic-w-5", "elastic-w-6", "elastic-w-7"]


def test_a_surplus_stays_that_is_not_to_be_evicted_or_would_not_be_enough_or_where_the_policy_says_so():
    rigid = a_gang("rigid", 4, **GPU)
    kept = {"annotations": {"volcano.sh/preemptable": "false"}}
    for grown in (
        elastic(**kept),
        elastic(3)[:1] + elastic(8)[1:4] + a_gang("other", 5, running=["n1"] * 5, group=RUNS, **GPU),
    ):
        _, second = after_the_grace_time(gpu_node("n1", 8), grown, rigid)
        assert victims(second) == []
    gentle = msgspec.structs.replace(BUILT_IN, break_deadlocks=False)
    first, second = after_the_grace_time(gpu_node("n1", 8), elastic(), rigid, policy=gentle)
    assert Code.SURPLUS_AHEAD not in codes(first, "rigid")
    assert victims(second) == []


def test_an_elastic_surplus_in_front_of_a_minimum_is_named_with_what_would_help():
    elastic = a_gang("elastic", 8, min_member=2, running=["n1"] * 8, group=RUNS, **GPU)
    things = (gpu_node("n1", 8), elastic, a_gang("rigid", 4, **GPU))
    decisions = plan_for(*things, policy=BUILT_IN)
    assert Code.QUEUE_SHARE_USED in codes(decisions, "rigid")
    assert Code.RESERVED in codes(decisions, "rigid")
    found = suggested("rigid", *things)
    assert "when default/elastic has ended" in found
    assert any("(evicts 4 pods of default/elastic)" in each for each in found)


def test_a_closed_queue_is_named_and_stands_in_nobodys_way():
    things = (
        gpu_node("n1", 8),
        a_queue("closed", state="Closing"),
        a_queue("open"),
        a_gang("runs", 4, running=["n1"] * 4, group={"queue": "closed", **RUNS}, **GPU),
        a_gang("waits", 2, group={"queue": "closed", "phase": "Pending"}, **GPU),
        a_gang("other", 2, group={"queue": "open"}, **GPU),
    )
    decisions = plan_for(*things, policy=BUILT_IN)
    assert bound(decisions) == {"other": 2}
    assert [each.text for each in decisions.gangs["default/waits"].reasons] == [
        "queue closed is Closing: open it to admit gangs"
    ]
    assert "in queue open" in suggested("waits", *things)


def test_parts_of_a_job_flow_that_wait_for_one_another_are_named_by_its_controller_and_by_the_command_line():
    parts = tuple(
        Flow(name=name, depends_on=FlowDependency(targets=(target,)))
        for name, target in (("prepare", "report"), ("train", "prepare"), ("report", "train"))
    )
    flow = JobFlow(metadata=ObjectMeta(name="nightly", namespace="default"), spec=JobFlowSpec(flows=parts))
    said = [each for stage in plan_flow(View(flow), NOW).plan.stages for each in stage if isinstance(each, Emit)]
    ring = "prepare -> report -> train -> prepare"
    assert [each.message for each in said] == [f"these wait for one another: {ring}; remove one of the dependencies"]
    state = model.State(
        version=1, leader="", cycle=1, at="", policy=model.Policy(source="", actions=(), plugins=()),
        totals=model.Totals(nodes=0, allocatable={}, used={}),
    )  # fmt: skip
    assert ring in deadlocks.text(deadlocks.data(state, [flow], "leader"))


def test_two_commits_that_were_cut_short_by_a_crash_do_not_wait_for_one_another():
    """Four of eight members each were bound on 8 GPUs when the scheduler died: the younger attempt is given up."""
    attempts = {"a": f"{NOW - 100 * 10**9}-x", "b": f"{NOW - 60 * 10**9}-y"}
    things = [gpu_node("n1"), gpu_node("n2")]
    for name, node in (("a", "n1"), ("b", "n2")):
        note = {"pumice.dev/attempt": attempts[name]}
        things.append(a_group(name, 8))
        things += [member(name, number, node, annotations=note, phase="Pending") for number in range(4)]
        things += [member(name, number) for number in range(4, 8)]
    decisions = plan_for(*things, policy=BUILT_IN)
    released = [(each.gang, len(each.tasks)) for each in decisions.releases]
    assert ("default/b", 4) in released
    assert Code.HOLDS_WHILE_WAITING not in codes(decisions, "a")
