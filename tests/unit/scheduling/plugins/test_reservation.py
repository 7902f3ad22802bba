"""reservation: who gets one, who may pass it, when it moves, and what gangs are told."""

import json

import pytest
from tests.unit.scheduling.clusters import (
    DAY,
    NOW,
    a_cluster,
    a_gang,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    evicted,
    plan_for,
    policy,
    promised,
    report,
    started,
    when,
)

from pumice import instant
from pumice.scheduling.core import cycle
from pumice.scheduling.core import memory as memories
from pumice.scheduling.core.policy import PolicyError
from pumice.scheduling.time import reservations

ESTIMATE = "pumice.dev/running-estimate"
MINUTE = 60


def rules(*others, **arguments):
    own = {"name": "reservation", "arguments": {"patience": "0s", **arguments}}
    return policy("enqueue, allocate, backfill", ["priority", "gang", own], ["predicates", *others])


def runs(name, node, until_s, *, size=1, since_s=3000, estimate=None, **more):
    """A gang that runs, and is expected to end at that second of the day; it is second 3,600 now."""
    return a_gang(
        name, size, running=[node] * size, status={"startTime": when(since_s)},
        group={"annotations": {ESTIMATE: estimate or f"{until_s - since_s}s"}, "phase": "Running"}, **more,
    )  # fmt: skip


def waits(name, size, *, length="10m", group=None, **more):
    notes = {"annotations": {ESTIMATE: length} if length else {}}
    return a_gang(name, size, group={**notes, **(group or {})}, **more)


def kept(decisions):
    """Gang -> (second of the day, nodes) of its reservation."""
    return {
        each.gang.partition("/")[2]: ((each.time - DAY) // instant.SECOND, {n: c for part in each.parts for n, c in part.nodes.items()})
        for each in decisions.memory.of(reservations.SLOT).kept
    }  # fmt: skip


def codes(decisions, gang):
    return {reason.code.value for reason in report(decisions, gang).reasons}


TWO = [a_node("n1", cpu="2"), a_node("n2", cpu="2")]
FULL = [runs("x", "n1", 4000, size=2), runs("y", "n2", 5000, cpu="1")]
LARGE = waits("large", 4, created=10)


def test_a_gang_that_finds_no_room_gets_the_time_at_which_there_is_enough():
    decisions = plan_for(*TWO, *FULL, LARGE, policy=rules())
    assert kept(decisions) == {"large": (5000, {"n1": 2, "n2": 2})}
    assert report(decisions, "large").reservation.nodes == 2
    assert "Reserved" in codes(decisions, "large")
    assert decisions.next_change == DAY + 4000 * instant.SECOND


def test_nobody_gets_one_before_patience_is_over_and_the_cluster_sleeps_until_then():
    decisions = plan_for(*TWO, *FULL, waits("large", 4, created=3500), policy=rules(patience="5m"))
    assert kept(decisions) == {}
    assert decisions.next_change == DAY + 3800 * instant.SECOND


@pytest.mark.parametrize(("length", "passes"), [("20m", True), ("1400s", True), ("1401s", False), (None, False)])
def test_a_gang_passes_if_it_is_expected_to_end_before_the_reserved_time(length, passes):
    decisions = plan_for(*TWO, *FULL, LARGE, waits("small", 1, length=length, created=20), policy=rules())
    assert started(decisions) == ({"small": 1} if passes else {})
    assert kept(decisions)["large"][0] == 5000
    if not passes:
        assert {"NodeReserved", "WouldDelay"} <= codes(decisions, "small")


def test_a_gang_that_stays_longer_may_have_what_is_not_reserved():
    third = a_node("n3", cpu="1", labels={"kind": "other"})
    long = waits("long", 1, length="100h", created=20)
    large = waits("large", 4, created=10, spec={"nodeSelector": {"kind": "main"}})
    nodes = [a_node(name, cpu="2", labels={"kind": "main"}) for name in ("n1", "n2")]
    decisions = plan_for(*nodes, third, *FULL, large, long, policy=rules())
    assert {bind.node for commit in decisions.commits for bind in commit.binds} == {"n3"}


def test_a_reservation_makes_way_on_its_nodes_but_not_in_time():
    # Room for three at 4000: n1 (2) and one of n2, n3. A long gang wants the idle slot of n2.
    nodes = [a_node("n1", cpu="2"), a_node("n2", cpu="1"), a_node("n3", cpu="1")]
    first = plan_for(
        *nodes, runs("x", "n1", 4000, size=2), runs("z", "n3", 3900), waits("large", 3, created=10), policy=rules()
    )
    time, there = kept(first)["large"]
    idle = waits("long", 1, length="100h", created=20)
    after = plan_for(
        *nodes, runs("x", "n1", 4000, size=2), runs("z", "n3", 3900), waits("large", 3, created=10), idle,
        policy=rules(), memory=first.memory,
    )  # fmt: skip
    assert (time, sum(there.values())) == (4000, 3)
    assert started(after) == {"long": 1}
    assert kept(after)["large"] == (4000, {"n1": 2, "n3": 1})


@pytest.mark.parametrize(("depth", "expected"), [(1, {"a"}), (2, {"a", "b"}), (5, {"a", "b", "c"})])
def test_depth_says_how_many_have_one(depth, expected):
    gangs = [waits(name, 4, created=number) for number, name in enumerate("abc")]
    decisions = plan_for(*TWO, *FULL, *gangs, policy=rules(depth=depth))
    assert kept(decisions).keys() == expected
    assert [kept(decisions)[name][0] for name in sorted(expected)] == [5000, 5600, 6200][: len(expected)]


def test_queues_may_be_named_and_bounded():
    queues = [a_queue("q1"), a_queue("q2")]
    gangs = [
        waits(f"{queue}-{number}", 4, created=number, group={"queue": queue})
        for queue in ("q1", "q2")
        for number in range(2)
    ]
    things = [*TWO, *FULL, *queues, *gangs, a_queue()]
    assert kept(plan_for(*things, policy=rules(depth=9, queues="q2"))).keys() == {"q2-0", "q2-1"}
    assert kept(plan_for(*things, policy=rules(depth=9, **{"queue-depth": 1}))).keys() == {"q1-0", "q2-0"}


def test_beyond_the_horizon_nothing_is_reserved():
    assert kept(plan_for(*TWO, *FULL, LARGE, policy=rules(horizon="10m"))) == {}
    assert kept(plan_for(*TWO, *FULL, LARGE, policy=rules(horizon="1h"))).keys() == {"large"}


def test_a_gang_that_can_never_start_gets_none():
    assert kept(plan_for(*TWO, *FULL, waits("huge", 5, created=1), LARGE, policy=rules())).keys() == {"large"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"patience": "long"}, "patience"), ({"patience": "-5m"}, "patience"), ({"depth": -1}, "depth"),
        ({"default-estimate": "0s"}, "default-estimate"), ({"horizon": "x"}, "horizon"), ({"dept": 1}, "did you mean depth"),
    ],
)  # fmt: skip
def test_a_bad_argument_is_named(arguments, said):
    with pytest.raises(PolicyError, match=said):
        plan_for(a_node(), policy=rules(**arguments))


# ------------------------------------------------------------------------------------------------------ moves


def test_it_becomes_earlier_when_work_ends_early():
    first = plan_for(*TWO, *FULL, LARGE, policy=rules())
    after = plan_for(*TWO, FULL[0], LARGE, policy=rules(), memory=first.memory)
    assert kept(after)["large"][0] == 4000


def test_it_becomes_later_when_somebody_outlives_an_estimate_and_says_who():
    first = plan_for(*TWO, *FULL, LARGE, policy=rules())
    after = plan_for(*TWO, *FULL, LARGE, policy=rules(), memory=first.memory, now=DAY + 5000 * instant.SECOND)
    assert kept(after)["large"][0] == 5200  # both run on: a tenth of 2,000 s
    reason = next(each for each in report(after, "large").reasons if each.code.value == "ReservationOutlived")
    assert reason.facts.gang == "default/x"
    assert (reason.facts.former, reason.facts.until) == (when(5000), when(5200))


@pytest.mark.parametrize(("until", "told"), [(5000.5, []), (5001, [when(5000)])])
def test_a_move_within_the_second_in_which_times_are_told_is_none_to_tell_of(until, told):
    spare = a_node("n3", cpu="2")
    first = plan_for(*TWO, spare, *FULL, runs("z", "n3", until, size=2), LARGE, policy=rules())
    cluster = (TWO[0], spare, FULL[0], runs("z", "n3", until, size=2), LARGE)
    after = plan_for(*cluster, policy=rules(), memory=first.memory)
    assert (kept(first)["large"][0], kept(after)["large"][0]) == (5000, int(until))
    assert [each.facts.former for each in report(after, "large").reasons if each.facts.former] == told


def test_it_becomes_later_when_a_node_goes_and_says_which():
    spare = a_node("n3", cpu="2")
    first = plan_for(*TWO, spare, *FULL, runs("z", "n3", 9000, size=2), LARGE, policy=rules())
    after = plan_for(TWO[0], spare, FULL[0], runs("z", "n3", 9000, size=2), LARGE, policy=rules(), memory=first.memory)
    assert (kept(first)["large"][0], kept(after)["large"][0]) == (5000, 9000)
    reason = next(each for each in report(after, "large").reasons if each.code.value == "ReservationNodeLost")
    assert reason.facts.node == "n2"


def test_after_several_moves_it_is_told_of_them_until_it_is_as_early_as_before_the_first():
    spare = a_node("n3", cpu="2")
    decisions = plan_for(*TWO, spare, *FULL, runs("z", "n3", 9000, size=2), LARGE, policy=rules())
    told = []
    for until in (9000, 10_000, 8000, 5000):
        cluster = (TWO[0], spare, FULL[0], runs("z", "n3", until, size=2), LARGE)
        decisions = plan_for(*cluster, policy=rules(), memory=decisions.memory)
        formers = [each.facts.former for each in report(decisions, "large").reasons if each.facts.former]
        told.append((kept(decisions)["large"][0], formers))
    assert told == [(9000, [when(5000)]), (10_000, [when(5000)]), (8000, [when(5000)]), (5000, [])]


def test_it_becomes_later_when_the_gang_lacks_more_members_than_before_and_is_told_so():
    """As after a cycle in which some of them were promised places, and the promise comes to nothing."""
    before = plan_for(*TWO, *FULL, waits("large", 4, min_member=3, created=10), policy=rules())
    assert kept(before)["large"][0] == 4000
    after = plan_for(*TWO, *FULL, LARGE, policy=rules(), memory=before.memory)
    assert kept(after)["large"][0] == 5000
    (told,) = [each for each in report(after, "large").reasons if each.code.value == "ReservationGangChanged"]
    assert (told.facts.former, told.facts.until) == (when(4000), when(5000))


def test_a_gang_of_higher_rank_takes_its_place_and_it_is_told_who():
    urgent = waits("urgent", 4, created=50, group={"priority_class": "high"})
    first = plan_for(*TWO, *FULL, LARGE, a_priority_class("high", 9), policy=rules())
    after = plan_for(*TWO, *FULL, LARGE, urgent, a_priority_class("high", 9), policy=rules(), memory=first.memory)
    assert kept(after).keys() == {"urgent"}
    reason = next(each for each in report(after, "large").reasons if each.code.value == "ReservationOutranked")
    assert reason.facts.gang == "default/urgent"


def test_a_gang_of_higher_rank_does_not_lose_it_by_the_places_that_it_is_being_given():
    """By dominant shares a gang that has places ranks behind one that has none: what it was given must not keep it from having it."""
    work = [*TWO, a_queue(capability={"cpu": "4"}), runs("x", "n1", 4000, size=2)]
    rules_of_drf = rules("drf", "proportion")
    first = plan_for(*work, waits("large", 4, created=20), policy=rules_of_drf)
    assert kept(first)["large"][0] == 4000
    older = waits("older", 2, length="100h", created=10)
    second = plan_for(*work, waits("large", 4, created=20), older, policy=rules_of_drf, memory=first.memory)
    assert started(second) == {"older": 2}


def test_no_room_is_promised_twice_when_a_gang_of_higher_rank_reserves_over_another():
    urgent = waits("urgent", 4, created=50, group={"priority_class": "high"})
    first = plan_for(*TWO, *FULL, LARGE, a_priority_class("high", 9), policy=rules(depth=2))
    after = plan_for(
        *TWO, *FULL, LARGE, urgent, a_priority_class("high", 9), policy=rules(depth=2), memory=first.memory
    )
    assert kept(after) == {"urgent": (5000, {"n1": 2, "n2": 2}), "large": (5600, {"n1": 2, "n2": 2})}
    reason = next(each for each in report(after, "large").reasons if each.code.value == "ReservationOutranked")
    assert reason.facts.gang == "default/urgent"


def test_what_a_gang_of_higher_rank_leaves_standing_stays_as_it_is():
    half = waits("half", 1, created=50, group={"priority_class": "high"})
    nodes = [*TWO, a_node("n3", cpu="1")]
    full = [*FULL, runs("z", "n3", 5000)]
    first = plan_for(*nodes, *full, LARGE, a_priority_class("high", 9), policy=rules(depth=2))
    after = plan_for(
        *nodes, *full, LARGE, half, a_priority_class("high", 9), policy=rules(depth=2), memory=first.memory
    )
    assert kept(after)["large"] == kept(first)["large"]


def test_a_younger_gang_of_equal_rank_takes_nothing():
    first = plan_for(*TWO, *FULL, LARGE, policy=rules())
    after = plan_for(*TWO, *FULL, LARGE, waits("late", 4, created=60), policy=rules(), memory=first.memory)
    assert kept(after) == kept(first)


def test_it_survives_a_restart():
    first = plan_for(*TWO, *FULL, LARGE, policy=rules())
    slots = [reservations.SLOT, *[slot for slot, _ in cycle.build_decisions.OWN_MEMORY]]
    read = memories.decode(memories.encode(first.memory, slots), slots)
    after = plan_for(*TWO, *FULL, LARGE, waits("b", 1, length="100h", created=9), policy=rules(), memory=read)
    assert kept(after)["large"] == kept(first)["large"]


def test_memory_names_a_bounded_number_of_nodes(monkeypatch):
    monkeypatch.setattr(reservations, "NODES_MAX", 3)
    gangs = [waits(name, 4, created=number) for number, name in enumerate("abc")]
    assert kept(plan_for(*TWO, *FULL, *gangs, policy=rules(depth=3))).keys() == {"a"}


# ------------------------------------------------------------------------------------------------------ elastic, quota, best effort


def test_only_the_minimum_is_reserved():
    decisions = plan_for(*TWO, *FULL, waits("elastic", 4, min_member=2, created=10), policy=rules())
    assert kept(decisions)["elastic"][0] == 4000


def test_only_the_minimum_is_reserved_where_idle_room_is_part_of_it():
    # n3 is idle, and has room for one: at 4000 the two that it needs are there, and four would fit.
    decisions = plan_for(
        a_node("n1", cpu="3"), a_node("n3", cpu="1"), runs("x", "n1", 4000, size=3),
        waits("elastic", 4, min_member=2, created=10), policy=rules(),
    )  # fmt: skip
    assert kept(decisions)["elastic"] == (4000, {"n1": 2})
    pinned = {"spec": {"nodeSelector": {"kubernetes.io/hostname": "n1"}}}
    decisions = plan_for(
        a_node("n1", cpu="4"), runs("x", "n1", 4000, size=2), waits("elastic", 4, min_member=3, created=10, **pinned),
        policy=rules(),
    )  # fmt: skip
    assert kept(decisions)["elastic"] == (4000, {"n1": 3})


@pytest.mark.parametrize(("racks", "starts"), [([["n1", "n2"]], {"close": 2}), ([["n1"], ["n2"]], {})])
def test_reserved_places_that_are_in_two_hyper_nodes_by_now_are_not_taken(racks, starts):
    rack_rules = rules("network-topology-aware")
    wish = {"spec": {"networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}
    close = waits("close", 2, created=10, group=wish)
    nodes = [a_node("n1", cpu="1"), a_node("n2", cpu="1")]
    busy = [runs("x", "n1", 3700), runs("y", "n2", 3700)]
    first = plan_for(*nodes, *busy, close, a_hyper_node("rack", 1, nodes=["n1", "n2"]), policy=rack_rules)
    assert kept(first)["close"] == (3700, {"n1": 1, "n2": 1})
    now = [a_hyper_node(f"rack-{number}", 1, nodes=names) for number, names in enumerate(racks)]
    then = plan_for(*nodes, close, *now, policy=rack_rules, memory=first.memory, now=NOW + 100 * instant.SECOND)
    assert started(then) == starts


def test_a_queue_keeps_what_a_reservation_will_need_of_its_quota():
    # q may hold 4. Its 2 on n1 end at 4000, so `large` (3) could start then: a long gang of 2 of the same queue would be in its way.
    nodes = [*TWO, a_node("n3", cpu="4")]
    queue = a_queue("q", capability={"cpu": "4"})
    held = runs("x", "n1", 4000, size=2)
    held[0] = a_gang("x", 0, group={"queue": "q", "phase": "Running", "annotations": {ESTIMATE: "1000s"}})[0]
    large = waits("large", 3, created=10, group={"queue": "q"})
    long, short = (
        waits(name, 2, length=length, created=20, group={"queue": "q"})
        for name, length in (("long", "9h"), ("short", "5m"))
    )
    things = [*nodes, queue, a_queue(), held, large]
    group = held[0]
    assert group.spec.queue == "q"
    assert kept(plan_for(*things, policy=rules("capacity")))["large"][0] == 4000
    assert started(plan_for(*things, long, policy=rules("capacity"))) == {}
    assert started(plan_for(*things, short, policy=rules("capacity"))) == {"short": 2}


@pytest.mark.parametrize("actions", ["allocate, preempt", "allocate, reclaim", "allocate"])
@pytest.mark.parametrize("is_being_left", [False, True])
def test_nobody_is_promised_what_a_reservation_will_need_of_its_queues_quota(actions, is_being_left):
    """As above: `long` may not start, so it may not hold places either, by preemption or in room that others leave."""
    queues = [a_queue("q", capability={"cpu": "4"}), a_queue()]
    held = a_gang("x", 2, running=["n1", "n1"], status={"startTime": when(3000)}, group={
        "queue": "q", "phase": "Running", "annotations": {ESTIMATE: "1000s"},
    })  # fmt: skip
    gone = [
        a_pod(f"old-{node}", cpu="2", node=node, metadata={"deletionTimestamp": when(3600)}) for node in ("n2", "n3")
    ]
    large = waits("large", 3, created=10, group={"queue": "q"})
    long = waits("long", 2, length="9h", created=20, group={"queue": "q"})
    own = {"name": "reservation", "arguments": {"patience": "0s"}}
    rules_ = policy(
        actions, ["priority", {"name": "gang", "enablePreemptable": False}, own], ["predicates", "capacity"]
    )
    things = [*TWO, a_node("n3", cpu="2"), *queues, held, *(gone if is_being_left else ())]
    decisions = plan_for(*things, large, long, policy=rules_)
    assert report(decisions, "large").reservation.time == DAY + 4000 * instant.SECOND
    assert not [pod for pod in promised(decisions) if pod.startswith("long")]
    assert codes(decisions, "long") == {"WouldDelay"}


@pytest.mark.parametrize(("length", "victims"), [("9h", []), ("5m", ["z-w-0"])])
def test_nobody_is_evicted_for_a_gang_that_would_delay_one_before_it(length, victims):
    """q may hold 4: `x` has 2 of them until 4000, `large` gets 3 then, and `z` 1. A gang of 2 in place of `z` would leave it 2."""

    def running(name, node, until_s, size, **group):
        notes = {ESTIMATE: f"{until_s - 3000}s"}
        status = {"startTime": when(3000)}
        return a_gang(
            name, size, running=[node] * size, status=status, group={"phase": "Running", "annotations": notes, **group}
        )

    nodes = [a_node(name, cpu="2") for name in ("n1", "n2", "n3")]
    classes = [a_priority_class(name, value) for value, name in enumerate(("low", "middle", "high"), start=1)]
    work = [
        running("x", "n1", 4000, 2, queue="q", priority_class="high"),
        running("y", "n2", 3900, 2, priority_class="high"),
        running("z", "n3", 90000, 1, queue="q", priority_class="low"),
    ]
    large = waits("large", 3, created=10, group={"queue": "q", "priority_class": "high"})
    next_ = waits("next", 2, length=length, created=20, group={"queue": "q", "priority_class": "middle"})
    own = {"name": "reservation", "arguments": {"patience": "0s"}}
    preempting = policy(
        "allocate, preempt", ["priority", {"name": "gang", "enablePreemptable": False}, own], ["predicates", "capacity"]
    )
    queues = [a_queue("q", capability={"cpu": "4"}), a_queue()]
    decisions = plan_for(*classes, *nodes, *queues, *work, large, next_, policy=preempting)
    assert report(decisions, "large").reservation.time == DAY + 4000 * instant.SECOND
    assert evicted(decisions) == victims
    assert ("WouldDelay" in codes(decisions, "next")) is not bool(victims)


def test_a_reservation_that_its_queue_has_no_share_for_any_more_keeps_nobody_out():
    """The whole cluster is reserved while nobody else wants any; then another queue does, and the two must not wait for each other."""
    queues = [a_queue("ours"), a_queue("theirs")]
    large = waits("large", 4, created=10, group={"queue": "ours"})
    running = a_gang("x", 1, running=["n1"], status={"startTime": when(3000)}, group={
        "annotations": {ESTIMATE: "1000s"}, "phase": "Running", "queue": "ours",
    })  # fmt: skip
    proportion = rules("proportion")
    first = plan_for(*TWO, *queues, running, large, policy=proportion)
    assert kept(first)["large"][0] == 4000
    small = waits("small", 1, length="100h", created=20, group={"queue": "theirs"})
    after = plan_for(*TWO, *queues, large, small, policy=proportion, memory=first.memory)
    assert started(after) == {"small": 1}
    assert kept(after) == {}
    assert "ReservationRoomTaken" in codes(after, "large")


def test_pods_that_ask_for_nothing_take_no_slot_that_is_reserved():
    node = a_node("n1", cpu="4", pods="2")
    slot = a_gang("free", 1, cpu=None, created=20, group={"annotations": {ESTIMATE: "100h"}})
    short = a_gang("brief", 1, cpu=None, created=20, group={"annotations": {ESTIMATE: "1m"}})
    busy, large = runs("x", "n1", 4000, cpu="1"), waits("large", 2, created=10)
    assert started(plan_for(node, busy, large, slot, policy=rules())) == {}
    assert started(plan_for(node, busy, large, short, policy=rules())) == {"brief": 1}


# ------------------------------------------------------------------------------------------------------ admission and sla


def test_a_gang_whose_patience_is_over_is_admitted_to_a_full_cluster_and_no_others():
    minimum = {"phase": "Pending", "minimum": {"cpu": "4"}}
    full = [runs(f"x{number}", node, 9000, size=2) for number, node in enumerate(("n1", "n2"))]
    own = {"name": "reservation", "arguments": {"patience": "5m"}}
    policy_ = policy("enqueue, allocate", ["gang", own], ["overcommit", "predicates", "proportion"])
    gangs = [
        waits(name, 4, created=created, group=minimum) for name, created in (("old", 1), ("older", 0), ("new", 3500))
    ]
    decisions = plan_for(*TWO, *full, *gangs, policy=policy_)
    assert {name: report(decisions, name).phase for name in ("older", "old", "new")} == {
        "older": "Inqueue", "old": "Pending", "new": "Pending",
    }  # fmt: skip


def test_who_was_admitted_in_the_same_cycle_and_has_no_pods_yet_is_the_next_to_have_a_reservation():
    """`first` finds the cluster's room, so `large`, whose patience is over too, is not admitted beyond it."""
    own = {"name": "reservation", "arguments": {"patience": "5m"}}
    policy_ = policy("enqueue, allocate", ["gang", own], ["overcommit", "predicates"])
    asks = {"first": 2, "large": 4}
    groups = [
        a_group(name, 1, phase="Pending", minimum={"cpu": str(cpu)}, created=created)
        for created, (name, cpu) in enumerate(asks.items())
    ]
    decisions = plan_for(*TWO, *groups, policy=policy_)
    assert {name: report(decisions, name).phase for name in asks} == {"first": "Inqueue", "large": "Pending"}


def test_who_has_all_its_pods_and_gets_no_reservation_keeps_none_from_the_next():
    """`lost` is admitted, and can never start: what `large` is admitted beyond the full cluster for is the reservation that it will have."""
    own = {"name": "reservation", "arguments": {"patience": "5m"}}
    policy_ = policy("enqueue, allocate", ["gang", own], ["overcommit", "predicates"])
    full = [runs(f"x{number}", node, 9000, size=2) for number, node in enumerate(("n1", "n2"))]
    nowhere = {"nodeSelector": {"zone": "nowhere"}}
    lost = waits("lost", 1, created=0, spec=nowhere, group={"phase": "Inqueue", "minimum": {"cpu": "1"}})
    large = a_group("large", 1, phase="Pending", minimum={"cpu": "4"}, created=1)
    decisions = plan_for(*TWO, *full, lost, large, policy=policy_)
    assert report(decisions, "large").phase == "Inqueue"


@pytest.mark.parametrize("sharing", ["proportion", "capacity"])
def test_a_gang_that_is_more_than_others_guarantees_leave_its_queue_is_not_admitted_however_long_it_waits(sharing):
    """It would never start, and its admission would keep the other queue from what it may have."""
    queues = [a_queue("theirs", guarantee={"cpu": "1"}), a_queue()]
    gang = waits("vain", 4, created=0, group={"phase": "Pending", "minimum": {"cpu": "4"}})
    policy_ = policy("enqueue, allocate", ["gang", "reservation"], ["overcommit", "predicates", sharing])
    decisions = plan_for(*TWO, *queues, gang, policy=policy_)
    assert report(decisions, "vain").phase == "Pending"
    assert [(each.code.value, each.cure.value) for each in report(decisions, "vain").reasons] == [
        ("QueueQuotaInsufficient", "change")
    ]


def test_sla_reserves_instead_of_holding_half_a_gang():
    due = waits("due", 4, created=10, group={"annotations": {"volcano.sh/sla-waiting-time": "5m", ESTIMATE: "10m"}})
    small = waits("small", 1, length="5m", created=20)
    tiers = (["sla"], ["priority", "gang"], ["predicates"])
    held = plan_for(*TWO, *FULL, due, small, policy=policy("allocate", *tiers))
    assert started(held) == {}  # the idle slot is held, whoever could use it meanwhile
    own = {"name": "reservation", "arguments": {"patience": "100h"}}
    decisions = plan_for(
        *TWO, *FULL, due, small, policy=policy("allocate", ["sla"], ["priority", "gang", own], ["predicates"])
    )
    assert started(decisions) == {"small": 1}
    assert kept(decisions)["due"][0] == 5000
    assert {"NotHeld", "Reserved"} <= codes(decisions, "due")


def test_what_a_gang_is_told_is_data():
    decisions = plan_for(*TWO, *FULL, LARGE, policy=rules())
    (told,) = [each for each in report(decisions, "large").reasons if each.code.value == "Reserved"]
    assert (told.facts.free, told.facts.until) == (2, when(5000))
    assert json.loads(json.dumps(told.text)).endswith(f"from {when(5000)} on at the latest")


def test_an_empty_depth_changes_nothing():
    cluster = a_cluster(*TWO, *FULL, LARGE, waits("small", 1, created=20))
    off = cycle.plan(cluster.snapshot(), rules(depth=0), now=NOW)
    assert started(off) == {"small": 1}
    assert kept(off) == {}


PREEMPTING = policy(
    "allocate, preempt",
    [
        "priority",
        {"name": "gang", "enablePreemptable": False},
        {"name": "reservation", "arguments": {"patience": "0s", "depth": 16}},
    ],
    ["predicates"],
)
# `low` holds the whole node and leaves for `high`, which needs half of it; the other half is for `next`, in the same cycle.
LEAVING = [
    a_priority_class("high", 9),
    a_node("n1", cpu="4"),
    runs("low", "n1", 5000, cpu="4"),
    waits("high", 1, cpu="2", group={"priority_class": "high"}, created=10),
    waits("next", 1, cpu="2", group={"priority_class": "high"}, created=20),
]


def test_whom_others_leave_for_needs_its_reservation_no_more_and_is_not_told_of_it():
    decisions = plan_for(*LEAVING, policy=PREEMPTING)
    assert decisions.failures == ()
    assert promised(decisions) == {"high-w-0": "n1", "next-w-0": "n1"}
    assert report(decisions, "high").reservation is None
    assert codes(decisions, "high") == {"PlacesPromised"}
    assert "high" not in kept(decisions)


def test_of_two_remembered_reservations_in_one_room_the_later_is_found_anew():
    """As after a cycle in which `first` was promised other room, and the promise comes to nothing: each is confirmed beside those before it."""
    node, low = a_node("n1", cpu="4"), runs("low", "n1", 5000, cpu="4")
    first, second = waits("first", 1, cpu="4", created=10), waits("second", 1, cpu="4", created=20)
    alone = [plan_for(node, low, each, policy=rules(depth=16)) for each in (first, second)]
    assert [kept(each) for each in alone] == [{"first": (5000, {"n1": 1})}, {"second": (5000, {"n1": 1})}]
    both = [each.memory.of(reservations.SLOT).kept[0] for each in alone]
    memory, _ = memories.EMPTY.after([(reservations.SLOT, reservations.Reservations(tuple(both)))])
    after = plan_for(node, low, first, second, policy=rules(depth=16), memory=memory)
    assert kept(after)["first"] == (5000, {"n1": 1})
    assert kept(after)["second"][0] >= 5000 + both[0].length // instant.SECOND


def test_who_moves_to_another_node_does_not_get_what_is_reserved_there_for_a_later_one():
    """`n1` is cordoned: all that is reserved still has room, but `first` has to go elsewhere, and that is where `second` was to go."""
    work = [runs("x", "n1", 4000, cpu="4"), runs("y", "n2", 5000, cpu="4")]
    first, second = waits("first", 1, cpu="4", created=10), waits("second", 1, cpu="4", created=20, length="1h")
    nodes = [a_node("n1", cpu="4"), a_node("n2", cpu="4")]
    before = plan_for(
        *nodes, *work, first, waits("between", 1, cpu="4", created=15, length="1h"), second, policy=rules(depth=16)
    )
    assert kept(before) == {"first": (4000, {"n1": 1}), "between": (4600, {"n1": 1}), "second": (5000, {"n2": 1})}
    cordoned = [a_node("n1", cpu="4", spec={"unschedulable": True}), nodes[1]]
    after = plan_for(*cordoned, *work, first, second, policy=rules(depth=16), memory=before.memory)
    assert kept(after) == {"first": (5000, {"n2": 1}), "second": (5600, {"n2": 1})}


def test_who_loses_its_place_in_the_book_to_one_whose_promise_came_to_nothing_is_told_so():
    """One gang at a time has a reservation: `second` got one while `first` was promised other room."""
    nodes = [a_node("n1", cpu="4"), a_node("n2", cpu="4")]
    work = [runs("x", "n1", 4000, cpu="4"), runs("y", "n2", 5000, cpu="4")]
    first, second = waits("first", 1, cpu="4", created=10), waits("second", 1, cpu="4", created=20)
    both = plan_for(*nodes, *work, first, second, policy=rules(depth=2)).memory
    assert [each.time - DAY for each in both.of(reservations.SLOT).kept] == [
        4000 * instant.SECOND,
        4600 * instant.SECOND,
    ]
    after = plan_for(*nodes, *work, first, second, policy=rules(depth=1), memory=both)
    assert kept(after) == {"first": (4000, {"n1": 1})}
    (told,) = [each for each in report(after, "second").reasons if each.code.value == "ReservationOutranked"]
    assert (told.facts.gang, told.facts.former, told.facts.until) == ("default/first", when(4600), "")


def test_who_is_promised_what_others_leave_behind_keeps_its_time_until_it_starts():
    """`next` makes nobody leave: if its promise comes to nothing, and its time becomes later, it is told so."""
    decisions = plan_for(*LEAVING, policy=PREEMPTING)
    assert kept(decisions) == {"next": (5000, {"n1": 1})}
    after = plan_for(*LEAVING, policy=rules(depth=16), memory=decisions.memory, now=DAY + 5000 * instant.SECOND)
    reason = next(each for each in report(after, "next").reasons if each.code.value == "ReservationOutlived")
    assert (reason.facts.gang, reason.facts.former) == ("default/low", when(5000))


def on_port(port):
    """A pod of one core that wants a port of its node."""
    main = {"name": "main", "resources": {"requests": {"cpu": "1"}}, "ports": [{"containerPort": 80, "hostPort": port}]}
    return {"spec": {"containers": [main]}}


def test_what_filters_refuse_beside_another_reservation_is_found_anew():
    """Room they have enough, all three, and one port. `x` outlives its estimate, so `first` may start a minute later, and with it `second`.

    If it had kept its time, each would have waited for the other when the port is free: in what is reserved for that one it would be in the way.
    """
    world = [a_node("n1", cpu="4"), waits("first", 1, created=10, **on_port(80)), waits("second", 1, length="20m", created=20, **on_port(80))]  # fmt: skip
    running = runs("x", "n1", 4000, **on_port(80))
    chosen = rules(depth=2)
    before = plan_for(*world, running, policy=chosen)
    assert {gang: at for gang, (at, _) in kept(before).items()} == {"first": 4000, "second": 4600}
    late = plan_for(*world, running, policy=chosen, memory=before.memory, now=DAY + 4001 * instant.SECOND)
    times = {gang: at for gang, (at, _) in kept(late).items()}
    assert times["second"] == times["first"] + 600
    (told,) = [each for each in report(late, "second").reasons if each.code.value == "ReservationOutlived"]
    assert told.facts.gang == "default/x"
    after = plan_for(*world, policy=chosen, memory=late.memory, now=DAY + 4002 * instant.SECOND)
    assert started(after) == {"first": 1}
