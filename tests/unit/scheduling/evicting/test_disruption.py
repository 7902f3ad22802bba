import pytest
from tests.unit.scheduling.clusters import a_gang, a_group, a_node, a_pod, policy, session_for

from pumice.scheduling.evicting.disruption import disruptions_allowed, within_budgets


def session_with(size, running, notes, *, failed=0):
    """A gang of which some run, some have failed and the rest waits."""
    phases = ["Running"] * running + ["Failed"] * failed + ["Pending"] * (size - running - failed)
    pods = [
        a_pod(f"g-w-{number}", gang="g", phase=phase, node="n1" if phase == "Running" else "")
        for number, phase in enumerate(phases)
    ]
    return session_for(a_node(), a_group("g", 1, annotations=notes), pods, policy=policy("allocate", "gang"))


@pytest.mark.parametrize(
    ("notes", "running", "expected"),
    [
        ({}, 4, 1),
        ({"volcano.sh/jdb-min-available": "1"}, 4, 3),
        ({"volcano.sh/jdb-min-available": "60%"}, 4, 1),  # 2.4 of 4 must stay: three
        ({"volcano.sh/jdb-min-available": "3"}, 2, 0),  # below its budget already: not even one
        ({"volcano.sh/jdb-max-unavailable": "2"}, 4, 2),
        ({"volcano.sh/jdb-max-unavailable": "2"}, 3, 1),
        ({"volcano.sh/jdb-max-unavailable": "30%"}, 4, 2),  # 1.2 of 4, rounded up
        ({"volcano.sh/jdb-max-unavailable": "1"}, 2, 0),
        ({"volcano.sh/jdb-min-available": "4", "volcano.sh/jdb-max-unavailable": "4"}, 4, 0),
        ({"volcano.sh/jdb-min-available": "many"}, 4, 1),
        ({"volcano.sh/jdb-max-unavailable": "-1"}, 4, 1),
        ({"volcano.sh/jdb-max-unavailable": "9" * 99}, 4, 1),
    ],
)
def test_a_budget_says_how_many_members_may_go(notes, running, expected):
    session = session_with(4, running, notes)
    assert disruptions_allowed(session.gangs["default/g"]) == expected


def test_finished_members_are_not_missing():
    session = session_with(4, 2, {"volcano.sh/jdb-max-unavailable": "1"}, failed=2)
    assert disruptions_allowed(session.gangs["default/g"]) == 1


def test_of_each_gang_the_first_ones_are_taken():
    session = session_for(
        a_node(cpu="9"),
        a_gang("a", 3, running=["n1"] * 3, group={"annotations": {"volcano.sh/jdb-max-unavailable": "2"}}),
        a_gang("b", 2, running=["n1"] * 2),
        policy=policy("allocate", "gang"),
    )
    tasks = [task for gang in session.gangs.values() for task in gang.tasks]
    assert [task.name for task in within_budgets(session, tasks)] == ["a-w-0", "a-w-1", "b-w-0"]
