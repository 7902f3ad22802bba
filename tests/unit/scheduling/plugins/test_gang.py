"""gang: valid, ready, pipelined, starving; surplus members may go."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, plan_for, policy, report, session_for

from pumice.cluster.tasks import Status

POLICY = policy("allocate", "gang")


def opened(*things):
    session = session_for(a_node("n1"), *things, policy=POLICY)
    return session, session.gangs["default/g"]


def pods(role, count, **more):
    return [a_pod(f"g-{role}-{number}", gang="g", role=role, **more) for number in range(count)]


# ------------------------------------------------------------------------------------------------------ valid


@pytest.mark.parametrize(
    ("group", "members", "said"),
    [
        ({"min_member": 3}, pods("w", 2), "Not enough valid tasks for gang-scheduling, valid: 2, min: 3"),
        ({"min_member": 2}, pods("w", 2), None),
        ({"min_member": 3}, [*pods("w", 2), *pods("x", 1, node="n1", phase="Failed")], "valid: 2, min: 3"),
        ({"min_member": 3}, [*pods("w", 2), *pods("x", 1, node="n1", phase="Succeeded")], None),
        (
            {"min_member": 2, "roles": {"w": 1, "ps": 1}},
            pods("w", 2),
            "Not enough valid pods of each task for gang-scheduling, task 'ps': 0, min: 1",
        ),
        ({"min_member": 2, "roles": {"w": 1, "ps": 0}}, pods("w", 2), None),
        ({"min_member": 2, "roles": {"w": 1, "ps": 9}}, pods("w", 2), None),  # they exceed minMember: they do not bind
        (
            {
                "min_member": 1,
                "spec": {"subGroupPolicy": [{"name": "part", "matchLabelKeys": ["k"], "minSubGroups": 2}]},
            },
            pods("w", 2, labels={"k": "1"}),
            "Not enough sub groups of policy part, valid: 1, min: 2",
        ),
    ],
)
def test_a_gang_is_valid_where_enough_members_exist(group, members, said):
    session, gang = opened(a_group("g", **group), members)
    reason = session.obstacle(gang)
    assert (reason is None) if said is None else (said in reason.text)


# ------------------------------------------------------------------------------------------------------ ready


@pytest.mark.parametrize(
    ("statuses", "ready", "pipelined", "starving"),
    [
        ([Status.PENDING, Status.PENDING], False, False, True),
        ([Status.ALLOCATED, Status.PENDING], False, False, True),
        ([Status.ALLOCATED, Status.ALLOCATED], True, True, False),
        ([Status.ALLOCATED, Status.PIPELINED], False, True, False),
        ([Status.PIPELINED, Status.PIPELINED], False, True, False),
    ],
)
def test_placed_members_make_a_gang_ready_promised_ones_only_pipelined(statuses, ready, pipelined, starving):
    session, gang = opened(a_gang("g", 2))
    for task, status in zip(gang.tasks, statuses, strict=True):
        gang.move([task], status, [0])
    assert (session.is_ready(gang), session.is_pipelined(gang), session.points.starving.holds(gang)) == (
        ready,
        pipelined,
        starving,
    )


@pytest.mark.parametrize(
    ("phase", "deleted", "counts"),
    [("Running", False, True), ("Pending", False, True), ("Succeeded", False, True), ("Failed", False, False),
     ("Running", True, False), ("Unknown", False, False)],
)  # fmt: skip
def test_which_pods_count_as_ready(phase, deleted, counts):
    gone = {"deletionTimestamp": "2026-01-01T00:30:00Z"} if deleted else {}
    session, gang = opened(a_group("g", 1), a_pod("g-w-0", gang="g", node="n1", phase=phase, metadata=gone))
    assert session.is_ready(gang) is counts


def test_waiting_members_that_ask_for_nothing_count_as_ready_but_not_against_starving():
    session, gang = opened(a_group("g", 1), pods("w", 1, cpu=None))
    assert session.is_ready(gang)
    assert session.is_pipelined(gang)
    assert session.points.starving.holds(gang)


def test_each_role_needs_its_minimum():
    session, gang = opened(a_group("g", 2, roles={"w": 1, "ps": 1}), pods("w", 2), pods("ps", 1))
    workers, servers = ([task for task in gang.tasks if task.role == role] for role in ("w", "ps"))
    for task in workers:
        gang.move([task], Status.ALLOCATED, [0])
    assert not session.is_ready(gang)
    gang.move([servers[0]], Status.PIPELINED, [0])
    assert not session.is_ready(gang)
    assert session.is_pipelined(gang)
    gang.move([servers[0]], Status.ALLOCATED, [0])
    assert session.is_ready(gang)


def test_enough_sub_groups_must_be_ready():
    part = {"name": "part", "matchLabelKeys": ["k"], "subGroupSize": 2, "minSubGroups": 1}
    members = [a_pod(f"g-w-{number}", gang="g", labels={"k": str(number // 2)}) for number in range(4)]
    session, gang = opened(a_group("g", 2, spec={"subGroupPolicy": [part]}), members)
    for number in (0, 2):  # one of each sub group: two members, no whole sub group
        gang.move([gang.tasks[number]], Status.ALLOCATED, [0])
    assert not session.is_ready(gang)
    gang.move([gang.tasks[1]], Status.PIPELINED, [0])
    assert (session.is_ready(gang), session.is_pipelined(gang)) == (False, True)
    gang.move([gang.tasks[1]], Status.ALLOCATED, [0])
    assert session.is_ready(gang)


@pytest.mark.parametrize(("role", "expected"), [("w", 5), ("ps", 9)])
def test_equal_members_may_be_placed_at_once_until_the_gang_is_ready(role, expected):
    """Workers make up what the minimum lacks; servers alone cannot, while no worker is there: all that wait may come."""
    session, gang = opened(a_group("g", 5, roles={"w": 1}), pods("w", 9), pods("ps", 9))
    assert session.until_ready(gang.subs[0], role, most=9) == expected


# ------------------------------------------------------------------------------------------------------ order, victims


def test_gangs_that_are_not_ready_come_first():
    session = session_for(
        a_node("n1"), a_gang("a", 2, min_member=1, running=["n1"]), a_gang("b", 1, created=9), policy=POLICY
    )
    ready, waiting = session.gangs["default/a"], session.gangs["default/b"]
    assert session.gang_before(waiting, ready)


def test_members_beyond_the_minimum_may_go_those_offered_first_before_others():
    session, gang = opened(a_gang("g", 3, min_member=1, running=["n1", "n1", "n1"]))
    first, second, third = gang.tasks
    for point in (session.points.preemptable, session.points.reclaimable):
        assert point.of(None, [first, second, third]) == [first, second]
        assert point.of(None, [third, first]) == [third, first]


def test_with_a_minimum_of_zero_everybody_may_go():
    session, gang = opened(a_gang("g", 2, min_member=0, running=["n1", "n1"]))
    assert session.points.preemptable.of(None, list(gang.tasks)) == list(gang.tasks)


def test_a_gang_that_waits_for_members_says_how_many():
    decisions = plan_for(a_node("n1"), a_gang("g", 1, min_member=4), policy=POLICY)
    assert report(decisions, "g").reasons[0].cure.value == "waiting"
