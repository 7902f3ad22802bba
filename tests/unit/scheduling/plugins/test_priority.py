"""priority: higher first, and lower ones may go for higher ones."""

from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, a_priority_class, policy, session_for

from pumice.scheduling.core.points import EvictionKind

POLICY = policy("allocate", "priority")
CLASSES = [a_priority_class("low", 1), a_priority_class("high", 9)]


def opened(*things):
    return session_for(a_node("n1"), CLASSES, *things, policy=POLICY)


def of(priority_class):
    return {"priority_class": priority_class}


def test_gangs_rank_by_their_class_and_members_by_their_own_priority():
    session = opened(a_gang("a", 1, group=of("low")), a_gang("b", 1, group=of("high"), created=9))
    assert session.gang_before(session.gangs["default/b"], session.gangs["default/a"])
    session = opened(a_group("g", 1), [a_pod(f"g-w-{number}", gang="g", priority=number) for number in range(3)])
    assert [task.name for task in session.in_placement_order(session.gangs["default/g"].tasks)] == [
        "g-w-2",
        "g-w-1",
        "g-w-0",
    ]


def test_pods_of_strictly_lower_gangs_may_be_preempted():
    session = opened(
        a_gang("low", 1, running=["n1"], group=of("low"), priority=99), a_gang("high", 1, running=["n1"], group=of("high")),
        a_gang("g", 1, group=of("high")),
    )  # fmt: skip
    (claimant,) = session.gangs["default/g"].tasks
    candidates = [*session.gangs["default/low"].tasks, *session.gangs["default/high"].tasks]
    assert [task.name for task in session.points.preemptable.of(claimant, candidates)] == ["low-w-0"]


def test_within_a_gang_pods_of_strictly_lower_priority_may_be_preempted():
    members = [a_pod("g-w-0", gang="g", node="n1", priority=1), a_pod("g-w-1", gang="g", node="n1", priority=5),
               a_pod("g-w-2", gang="g", priority=5)]  # fmt: skip
    session = opened(a_group("g", 1), members)
    low, equal, claimant = session.gangs["default/g"].tasks
    assert session.points.preemptable.of(claimant, [low, equal]) == [low]


def test_reclaiming_gang_wise_does_not_ask_for_priority_and_preempting_does():
    session = opened(a_gang("equal", 1, running=["n1"]), a_gang("g", 1))
    candidates = list(session.gangs["default/equal"].tasks)
    claimant = session.gangs["default/g"]
    assert session.points.evictable.of(EvictionKind.RECLAIM, claimant, candidates) == candidates
    assert session.points.evictable.of(EvictionKind.PREEMPT, claimant, candidates) == []


def test_a_gang_with_any_member_unplaced_wants_more_finished_ones_included():
    def starves(*members):
        session = opened(a_group("g", 1), members)
        return session.points.starving.holds(session.gangs["default/g"])

    running, failed = a_pod("g-w-0", gang="g", node="n1"), a_pod("g-w-1", gang="g", node="n1", phase="Failed")
    assert not starves(running)
    assert starves(running, a_pod("g-w-2", gang="g"))
    assert starves(running, failed)
