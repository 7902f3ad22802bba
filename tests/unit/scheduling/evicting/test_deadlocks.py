"""Gangs that hold while they wait: who is told what, who leaves, and when."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    plan_for,
    policy,
    when,
)

from pumice import instant
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.evicting.deadlocks import SLOT, Known, Pause

BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")
GRACE = BUILT_IN.deadlock_grace
VOLCANO = policy("enqueue, allocate, backfill", "priority gang conformance", "drf predicates proportion nodeorder")
BREAKING = msgspec.structs.replace(VOLCANO, break_deadlocks=True)
OWNED = {
    "ownerReferences": [
        {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    ]
}


def started(seconds):
    """The status of a pod that runs since then."""
    return {"startTime": when(seconds)}


def half(name, alive, *, size=8, since=0, owned=True, **pods):
    """A gang that runs and has lost members with their nodes: the first ones are left, new ones wait."""
    manifest = {"metadata": OWNED} if owned else {}
    return [
        a_group(name, size, phase="Running"),
        *(
            a_pod(f"{name}-w-{n}", gang=name, gpu=1, cpu=None, node=node, status=started(since), **manifest, **pods)
            for n, node in enumerate(alive)
        ),
        *(
            a_pod(f"{name}-w-{n}", gang=name, gpu=1, cpu=None, **manifest, **pods)
            for n in range(len(alive), size)
        ),
    ]  # fmt: skip


def gpu_node(name, gpus=4):
    return a_node(name, gpu=gpus, cpu="64")


def codes(decisions, gang):
    return [reason.code for reason in decisions.gangs[f"default/{gang}"].reasons]


def texts(decisions, gang):
    return [reason.text for reason in decisions.gangs[f"default/{gang}"].reasons]


def over_time(*things, policy=BUILT_IN, wait=GRACE):
    """Two cycles over the same objects, so far apart."""
    snapshot = a_cluster(*things).snapshot()
    first = cycle.plan(snapshot, policy, now=NOW)
    return first, cycle.plan(snapshot, policy, first.memory, now=NOW + wait)


def victims(decisions):
    return sorted(each.task.name for each in decisions.evictions)


TWO_HALVES = (gpu_node("n1"), gpu_node("n2"), half("a", ["n1"] * 4, since=600), half("b", ["n2"] * 4, since=1800))


def test_two_halves_are_named_with_numbers_and_the_one_that_loses_least_leaves_after_the_grace_time():
    first, second = over_time(*TWO_HALVES)
    assert victims(first) == []
    at = instant.format_instant(NOW + GRACE)
    assert texts(first, "b")[0] == (
        "holds 4 nvidia.com/gpu with 4 of the 8 members that must start together, and the others find no place;"
        f" with that room default/a would start; unless that changes, it gives its room up at {at}"
    )
    assert texts(first, "a")[0].endswith(
        "; it would start with the room that default/b holds, which waits as well;"
        f" unless that changes, default/b gives its room up at {at}"
    )
    assert first.next_change is not None
    assert first.next_change <= NOW + GRACE
    assert victims(second) == [f"b-w-{n}" for n in range(4)]
    assert {each.claimant for each in second.evictions} == {"default/a"}
    assert {each.rule for each in second.evictions} == {"deadlock"}
    assert second.evictions[0].story.why == (
        "gang default/b held its room with 4 of 8 members for 300 s and could not become whole; default/a can start with it"
    )
    assert {node for pod, node in second.pipelined.items() if pod.startswith("default/a")} == {"n2"}


def test_a_moment_before_the_grace_time_is_over_nobody_leaves():
    _, second = over_time(*TWO_HALVES, wait=GRACE - 1)
    assert victims(second) == []


def test_a_policy_that_does_not_say_so_breaks_nothing_and_names_it_all_the_same():
    first, second = over_time(*TWO_HALVES, policy=VOLCANO)
    assert victims(second) == []
    assert codes(first, "a")[0] is codes(second, "b")[0] is Code.HOLDS_WHILE_WAITING
    assert "gives its room up" not in texts(second, "b")[0]


def test_the_condition_comes_with_the_deadlock_and_goes_with_it():
    first, _ = over_time(*TWO_HALVES)
    told = {each.type: each for each in first.gangs["default/a"].conditions}
    assert (told["Deadlocked"].status, told["Deadlocked"].reason) == (True, "HoldsWhileWaiting")
    assert told["Deadlocked"].message == texts(first, "a")[0]
    free = a_gang(
        "c",
        1,
        running=["n1"],
        cpu="1",
        group={"phase": "Running", "conditions": [{"type": "Deadlocked", "status": "True"}]},
    )
    after = plan_for(a_node("n1"), free, policy=BUILT_IN)
    assert [(each.type, each.status) for each in after.gangs["default/c"].conditions if each.type == "Deadlocked"] == [
        ("Deadlocked", False)
    ]


def test_half_a_gang_leaves_for_one_that_waits_as_a_whole():
    waits = a_gang("c", 4, gpu=1, cpu=None)
    taken = half("b", ["n2"] * 4, size=4)
    first, second = over_time(gpu_node("n1"), gpu_node("n2"), half("a", ["n1"] * 4), taken, waits)
    assert codes(first, "a")[0] is Code.HOLDS_WHILE_WAITING
    assert Code.HOLDS_WHILE_WAITING not in codes(first, "b")
    assert victims(second) == [f"a-w-{n}" for n in range(4)]
    assert {each.claimant for each in second.evictions} == {"default/c"}


def test_half_a_gang_that_is_in_nobodys_way_stays():
    first, second = over_time(gpu_node("n1"), half("a", ["n1"] * 4))
    assert texts(first, "a")[0].endswith("and the others find no place")
    assert victims(second) == []


@pytest.mark.parametrize(
    "left_alone",
    [
        pytest.param({"owned": False}, id="nobody would make its pods anew"),
        pytest.param({"annotations": {"volcano.sh/preemptable": "false"}}, id="its pods are not preemptable"),
        pytest.param({"spec": {"priorityClassName": "system-node-critical"}}, id="its pods are critical"),
    ],
)
def test_whoever_must_not_be_evicted_stays(left_alone):
    things = gpu_node("n1"), half("a", ["n1"] * 4, **left_alone), a_gang("c", 4, gpu=1, cpu=None)
    first, second = over_time(*things)
    assert codes(first, "a")[0] is Code.HOLDS_WHILE_WAITING
    assert victims(second) == []


def test_nobody_leaves_for_a_gang_of_lower_priority():
    above = [each for each in half("a", ["n1"] * 4) if each.metadata.name != "a"]
    group = a_group("a", 8, phase="Running", priority_class="high")
    things = gpu_node("n1"), a_priority_class("high", 5), group, above, a_gang("c", 4, gpu=1, cpu=None)
    first, second = over_time(*things)
    assert codes(first, "a")[0] is Code.HOLDS_WHILE_WAITING
    assert victims(second) == []


def test_a_gang_that_is_whole_again_is_forgotten():
    first, _ = over_time(*TWO_HALVES)
    later = a_cluster(*TWO_HALVES, gpu_node("n3", 8)).snapshot()
    whole = cycle.plan(later, BUILT_IN, first.memory, now=NOW + GRACE)
    assert victims(whole) == []
    assert {commit.gang for commit in whole.commits} == {"default/a", "default/b"}
    again = cycle.plan(a_cluster(*TWO_HALVES).snapshot(), BUILT_IN, whole.memory, now=NOW + GRACE + 1)
    assert victims(again) == []


# ----------------------------------------------------------------------------------------------------- admitted in vain

GPU = "nvidia.com/gpu"
QUOTA = (
    gpu_node("n1", 4),
    gpu_node("n2", 4),
    a_queue("q", capability={GPU: "8", "cpu": "100", "memory": "100Gi"}),
    # Its pods ask for a zone that does not exist: it was admitted, and three quarters of the quota are promised to it.
    a_group("stuck", 2, queue="q", minimum={GPU: "6"}, created=1),
    [
        a_pod(f"stuck-w-{n}", gang="stuck", gpu=3, cpu=None, spec={"nodeSelector": {"zone": "nowhere"}})
        for n in range(2)
    ],
    a_group("next", 2, queue="q", phase="Pending", minimum={GPU: "4"}, created=2),
)


def test_a_gang_that_was_admitted_in_vain_gives_its_admission_back():
    first, second = over_time(*QUOTA, policy=BREAKING)
    at = instant.format_instant(NOW + GRACE)
    held = next(reason for reason in first.gangs["default/stuck"].reasons if reason.code is Code.QUOTA_HELD)
    assert held.text == (
        "was admitted, finds no room, and keeps default/next out: 6 nvidia.com/gpu are promised to it;"
        f" unless that changes, it gives its admission back at {at}"
    )
    assert first.gangs["default/stuck"].phase == "Inqueue"
    assert second.gangs["default/stuck"].phase == "Pending"
    told = next(each for each in second.gangs["default/stuck"].conditions if each.type == "Deadlocked")
    assert (told.status, told.reason) == (False, "QuotaGivenBack")
    assert told.message.startswith("gave its admission back: it found no room for 300 s and kept default/next out")


def test_members_that_fit_one_by_one_do_not_make_a_gang_that_never_will_look_as_if_it_had_places():
    """Preemption within the gang once held room for those members, so that the gang kept others out for ever."""
    preempting = msgspec.structs.replace(BREAKING, actions=("enqueue", "allocate", "preempt", "backfill"))
    stuck = a_gang("stuck", 3, gpu=3, cpu=None, group={"queue": "q", "minimum": {GPU: "6"}, "phase": "Inqueue"})
    cluster = [gpu_node("n1"), gpu_node("n2"), *QUOTA[-1:], stuck, a_queue("q", capability={GPU: "8"})]
    _, second = over_time(*cluster, policy=preempting)
    assert second.gangs["default/stuck"].phase == "Pending"


def test_who_gave_its_admission_back_stays_out_for_a_while_and_lets_others_in():
    _, second = over_time(*QUOTA, policy=BREAKING)
    back = [each for each in QUOTA if getattr(each, "metadata", None) is None or each.metadata.name != "stuck"]
    back.append(a_group("stuck", 2, queue="q", phase="Pending", minimum={GPU: "6"}, created=1))
    snapshot = a_cluster(*back).snapshot()
    third = cycle.plan(snapshot, BREAKING, second.memory, now=NOW + GRACE + 1)
    assert third.gangs["default/next"].phase == "Inqueue"
    assert third.gangs["default/stuck"].phase == "Pending"
    assert texts(third, "stuck")[1] == (
        "gave its admission back: it found no room for 300 s and kept default/next out; "
        f"it may be admitted again from {instant.format_instant(NOW + 2 * GRACE)} on"
    )
    later = cycle.plan(snapshot, BREAKING, second.memory, now=NOW + 2 * GRACE)
    assert Code.QUOTA_GIVEN_BACK not in codes(later, "stuck")


def test_the_built_in_policy_lets_those_outside_in_once_their_patience_is_over():
    """Its quotas are counted where pods are placed: a promise keeps nobody out for longer than that."""
    first, _ = over_time(*QUOTA)
    assert first.gangs["default/next"].phase == "Inqueue"


def test_without_leave_to_break_deadlocks_an_admission_is_kept():
    _, second = over_time(*QUOTA, policy=VOLCANO)
    assert second.gangs["default/stuck"].phase == "Inqueue"
    assert Code.QUOTA_HELD in codes(second, "stuck")


def test_an_admission_is_kept_where_there_is_no_room_for_those_outside():
    full = a_gang("runs", 5, running=["n1"] * 4 + ["n2"], gpu=1, cpu=None, group={"phase": "Running"})
    _, second = over_time(*QUOTA, full, policy=BREAKING)
    assert second.gangs["default/stuck"].phase == "Inqueue"


def test_others_that_keep_a_gang_out_have_their_time_too_when_the_first_gives_its_admission_back():
    nowhere = {"cpu": None, "spec": {"nodeSelector": {"zone": "nowhere"}}}

    def cluster(*sent_back):
        def stuck(name, created):
            phase = "Pending" if name in sent_back else "Inqueue"
            return a_gang(name, 1, gpu=3, created=created, group={"queue": "q", "minimum": {GPU: "3"}, "phase": phase}, **nowhere)  # fmt: skip

        outside = a_group("next", 2, queue="q", phase="Pending", minimum={GPU: "6"}, created=3)
        return a_cluster(*QUOTA[:3], stuck("a", 1), stuck("b", 2), outside).snapshot()

    first = cycle.plan(cluster(), BREAKING, now=NOW)
    second = cycle.plan(cluster(), BREAKING, first.memory, now=NOW + GRACE)
    assert [second.gangs[f"default/{name}"].phase for name in ("a", "b")] == ["Inqueue", "Pending"]
    assert second.next_change == NOW + GRACE + instant.SECOND
    third = cycle.plan(cluster("b"), BREAKING, second.memory, now=NOW + GRACE)
    assert third.gangs["default/a"].phase == "Pending"
    fourth = cycle.plan(cluster("a", "b"), BREAKING, third.memory, now=NOW + GRACE)
    assert fourth.gangs["default/next"].phase == "Inqueue"


OVERCOMMITTING = msgspec.structs.replace(
    policy("enqueue, allocate", "priority gang", "overcommit predicates proportion"), break_deadlocks=True
)


def two_queues(*, sent_back=(), full=4, waiting=1):
    """Eight cards, four for each queue: `full` has all of its own and was promised two more, `other` has two and wants two."""

    def of(queue, name, size=1, *, phase="Running", running=(), created=0):
        group = {"queue": queue, "minimum": {GPU: str(size)}, "phase": phase}
        return a_gang(name, size, gpu=1, cpu=None, running=running, created=created, group=group)

    return a_cluster(
        gpu_node("n1", 8),
        a_queue("full"),
        a_queue("other"),
        [of("full", f"full-{n}", running=["n1"]) for n in range(full)],
        of("other", "other", 2, running=["n1"] * 2),
        of("full", "a", phase="Inqueue", created=1),
        of("full", "b", phase="Pending" if "b" in sent_back else "Inqueue", created=2),
        [of("full", f"many-{n:02}", phase="Pending", created=3) for n in range(waiting - 1)],
        of("other", "next", 2, phase="Pending", created=4),
    ).snapshot()


def test_who_could_not_use_free_room_for_want_of_a_share_lets_another_queue_have_it_at_once():
    first = cycle.plan(two_queues(), OVERCOMMITTING, now=NOW)
    assert [first.gangs[f"default/{name}"].phase for name in ("next", "a", "b")] == ["Pending", "Inqueue", "Pending"]
    assert codes(first, "b")[0] is Code.QUOTA_GIVEN_BACK
    assert first.next_change == NOW + instant.SECOND
    second = cycle.plan(two_queues(sent_back=["b"]), OVERCOMMITTING, first.memory, now=NOW)
    assert [each.gang for each in second.commits] == ["default/next"]


def test_an_admission_that_was_given_back_stays_so_until_the_cluster_knows():
    first = cycle.plan(two_queues(), OVERCOMMITTING, now=NOW)
    again = cycle.plan(two_queues(), OVERCOMMITTING, first.memory, now=NOW + 1)
    assert [again.gangs[f"default/{name}"].phase for name in ("a", "b")] == ["Inqueue", "Pending"]
    assert first.gangs["default/b"].reasons[0] == again.gangs["default/b"].reasons[0]


def test_a_gang_is_not_kept_out_for_as_long_as_the_clock_was_ahead_by_which_it_gave_its_admission_back():
    waits = a_gang("b", 2, gpu=1, cpu=None, group={"minimum": {GPU: "2"}, "phase": "Pending"})
    snapshot = a_cluster(gpu_node("n1"), waits).snapshot()
    uid = snapshot.gangs["default/b"].spec.uid

    def commits(until):
        memory, _ = EMPTY.after([(SLOT, Known(pauses={uid: Pause(until, ("default/a",), seconds=0)}))])
        return [each.gang for each in cycle.plan(snapshot, BREAKING, memory, now=NOW).commits]

    assert [commits(NOW + wait) for wait in (GRACE, GRACE + 1)] == [[], ["default/b"]]


def test_who_has_given_its_admission_back_and_is_not_known_to_have_goes_before_others_that_keep_the_same_gang_out():
    """`b` is the last in line: it would give its admission back, too, for what one of them makes room for."""
    snapshot = two_queues()
    pause = Pause(NOW + GRACE, ("default/next",), seconds=0, for_share=True)
    memory, _ = EMPTY.after([(SLOT, Known(pauses={snapshot.gangs["default/a"].spec.uid: pause}))])
    decisions = cycle.plan(snapshot, OVERCOMMITTING, memory, now=NOW)
    assert [decisions.gangs[f"default/{name}"].phase for name in ("a", "b")] == ["Pending", "Inqueue"]


def test_a_long_line_before_one_queue_does_not_hide_who_waits_before_another():
    decisions = cycle.plan(two_queues(waiting=40), OVERCOMMITTING, now=NOW)
    assert codes(decisions, "many-00") == [Code.QUOTA_GIVEN_BACK, Code.QUEUE_SHARE_USED]  # it was let in in this cycle


def test_who_gave_its_admission_back_for_want_of_a_share_may_come_in_when_its_queue_has_one():
    first = cycle.plan(two_queues(), OVERCOMMITTING, now=NOW)
    again = cycle.plan(two_queues(sent_back=["b"]), OVERCOMMITTING, first.memory, now=NOW + 1)
    assert Code.QUOTA_GIVEN_BACK in codes(again, "b")
    freed = cycle.plan(two_queues(sent_back=["b"], full=2), OVERCOMMITTING, first.memory, now=NOW + 1)
    assert "default/b" in [each.gang for each in freed.commits]
