"""drf: who holds the smallest dominant share comes first, and may take from who holds more."""

import pytest
from tests.unit.scheduling.clusters import a_gang, a_node, policy, session_for

from pumice.cluster.tasks import Status
from pumice.scheduling.core.statement import Placement

POLICY = policy("allocate", "drf")


def opened(*things):
    return session_for(a_node("n1", cpu="10", memory="100", gpu=10, pods="100"), *things, policy=POLICY)


def share(session, name):
    return session.gang_key(session.gangs[f"default/{name}"])[0]


@pytest.mark.parametrize(
    ("pod", "expected"),
    [({"cpu": "2"}, 0.2), ({"cpu": "1", "memory": "50"}, 0.5), ({"cpu": "1", "gpu": 9}, 0.9), ({"cpu": None}, 0.01)],
)
def test_the_dominant_share_is_the_largest_of_all_resources_slots_included(pod, expected):
    assert share(opened(a_gang("g", 1, running=["n1"], **pod)), "g") == pytest.approx(expected)


def test_who_holds_less_comes_first():
    session = opened(a_gang("a", 2, running=["n1", "n1"]), a_gang("b", 1, running=["n1"], created=9))
    assert session.gang_before(session.gangs["default/b"], session.gangs["default/a"])


def test_a_claimant_takes_from_gangs_that_would_still_hold_as_much_without_the_victim():
    session = opened(a_gang("rich", 3, running=["n1"] * 3), a_gang("even", 1, running=["n1"]), a_gang("g", 1))
    (claimant,) = session.gangs["default/g"].tasks
    rich, even = session.gangs["default/rich"].tasks, session.gangs["default/even"].tasks
    victims = session.points.preemptable.of(claimant, [*rich, *even])
    # with its new member the claimant holds 0.1: rich may go down to 0.1, even would hold nothing
    assert victims == list(rich[:2])


def test_shares_follow_every_placement_and_its_undoing():
    session = opened(a_gang("g", 2))
    gang = session.gangs["default/g"]
    before = share(session, "g")
    statement = session.statement()
    places = session.placer.fill(session.shape(gang.tasks[0]), 2)
    statement.place(Placement(gang, session.shape(gang.tasks[0]), list(gang.tasks), places.nodes, Status.ALLOCATED))
    assert share(session, "g") == pytest.approx(0.2)
    statement.rollback()
    assert share(session, "g") == before == 0
