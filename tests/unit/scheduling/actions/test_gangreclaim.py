"""gangreclaim: queues take back what others borrowed, gang by gang."""

from tests.unit.scheduling.clusters import (
    a_gang,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    evicted,
    plan_for,
    policy,
    promised,
    report,
)

PLAIN = policy("gangreclaim", "gang conformance", "predicates")
SHARES = policy("gangreclaim", [{"name": "gang"}], "predicates capacity")


def running(name, size, queue, nodes, *, group=None, **more):
    return a_gang(name, size, running=nodes, group={"queue": queue, "phase": "Running", **(group or {})}, **more)


def waiting(name, size, queue="mine", *, group=None, **more):
    return a_gang(name, size, group={"queue": queue, **(group or {})}, **more)


QUEUES = [a_queue("mine"), a_queue("theirs"), a_queue("others")]
NODES = [a_node("n1", cpu="2"), a_node("n2", cpu="2")]


def test_a_gang_of_another_queue_makes_room():
    old = running("old", 2, "theirs", ["n1", "n2"], cpu="2")
    decisions = plan_for(QUEUES, NODES, old, waiting("new", 2, cpu="2"), policy=PLAIN)
    assert sorted(evicted(decisions)) == ["old-w-0", "old-w-1"]
    assert sorted(promised(decisions).values()) == ["n1", "n2"]
    assert {each.rule for each in decisions.evictions} == {"gangreclaim"}


def test_gangs_of_the_own_queue_are_left_alone():
    old = running("old", 2, "mine", ["n1", "n2"], cpu="2")
    assert evicted(plan_for(QUEUES, NODES, old, waiting("new", 1, cpu="2"), policy=PLAIN)) == []


def test_a_queue_that_gives_nothing_back_is_left_alone():
    queues = [a_queue("mine"), a_queue("theirs", reclaimable=False)]
    old = running("old", 2, "theirs", ["n1", "n2"], cpu="2")
    assert evicted(plan_for(queues, NODES, old, waiting("new", 1, cpu="2"), policy=PLAIN)) == []


def test_pods_that_are_bound_but_do_not_run_yet_are_left_alone():
    old = a_gang("old", 1, cpu="2", running=["n1"], phase="Pending", group={"queue": "theirs"})
    stays = running("stays", 1, "theirs", ["n2"], cpu="2", annotations={"volcano.sh/preemptable": "false"})
    assert evicted(plan_for(QUEUES, NODES, old, stays, waiting("new", 1, cpu="2"), policy=PLAIN)) == []


def test_priority_does_not_protect_a_borrower():
    high = a_priority_class("high", 9)
    old = running("old", 2, "theirs", ["n1", "n2"], cpu="2", group={"priority_class": "high"})
    with_priority = policy("gangreclaim", "priority gang", "predicates")
    assert len(evicted(plan_for(high, QUEUES, NODES, old, waiting("new", 2, cpu="2"), policy=with_priority))) == 2


def test_members_that_a_gang_can_spare_go_first_whatever_their_queue():
    rigid = running("rigid", 1, "theirs", ["n1"], cpu="2")
    elastic = running("elastic", 2, "others", ["n2", "n2"], cpu="1", min_member=0)
    decisions = plan_for(QUEUES, NODES, rigid, elastic, waiting("new", 1, cpu="2"), policy=PLAIN)
    assert sorted(evicted(decisions)) == ["elastic-w-0", "elastic-w-1"]


def test_between_queues_the_one_that_comes_last_gives_first():
    older = running("older", 1, "theirs", ["n1"], cpu="2")
    newer = running("newer", 1, "others", ["n2"], cpu="2")
    one = {"cpu": "1"}
    queues = [
        a_queue("mine", deserved={"cpu": "2"}),
        a_queue("theirs", priority=1, deserved=one),
        a_queue("others", priority=5, deserved=one),
    ]
    decisions = plan_for(queues, NODES, older, newer, waiting("new", 1, cpu="2"), policy=SHARES)
    assert evicted(decisions) == ["older-w-0"]


def test_a_queue_with_no_right_to_more_takes_nothing():
    queues = [a_queue("mine", deserved={"cpu": "1"}), a_queue("theirs", deserved={"cpu": "3"})]
    old = running("old", 2, "theirs", ["n1", "n2"], cpu="2")
    assert evicted(plan_for(queues, NODES, old, waiting("new", 1, cpu="2"), policy=SHARES)) == []
    queues = [a_queue("mine", deserved={"cpu": "2"}), a_queue("theirs", deserved={"cpu": "2"})]
    assert len(evicted(plan_for(queues, NODES, old, waiting("new", 1, cpu="2"), policy=SHARES))) == 2  # it goes whole


def test_nobody_goes_for_half_a_gang():
    guard = running("guard", 1, "mine", ["n2"], cpu="2")
    old = running("old", 1, "theirs", ["n1"], cpu="2")
    decisions = plan_for(QUEUES, NODES, guard, old, waiting("new", 2, cpu="2"), policy=PLAIN)
    assert evicted(decisions) == []
    assert "evicting everything that other queues must give back would make room for 1 of 2 members" in " ".join(
        reason.text for reason in report(decisions, "new").reasons
    )


def test_pods_that_are_not_ours_are_left_alone():
    foreign = [
        a_pod(f"foreign-{n}", node=n, cpu="2", spec={"schedulerName": "default-scheduler"}) for n in ("n1", "n2")
    ]
    assert evicted(plan_for(QUEUES, NODES, foreign, waiting("new", 1, cpu="2"), policy=PLAIN)) == []
