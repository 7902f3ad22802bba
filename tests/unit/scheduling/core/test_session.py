"""The order of gangs is one order, however it is asked for."""

import itertools

from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, policy

from pumice.cluster.tasks import Status
from pumice.scheduling.core import cycle
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.placing import turns


def test_gangs_that_were_ranked_together_or_apart_or_not_compare_alike():
    waiting = [a_gang(f"w{number}", 1, created=9 - number) for number in range(5)]
    session = cycle.open_session(a_cluster(a_node(), waiting).snapshot(), policy("allocate", "gang"), now=NOW)
    gangs = list(session.gangs.values())
    turns.rank(session, gangs[:4])
    turns.rank(session, gangs[2:4])
    for left, right in itertools.permutations(gangs, 2):
        assert session.gang_before(left, right) == (left.spec.created < right.spec.created)


def test_a_place_in_a_ranking_ends_with_the_next_move():
    things = [a_gang("first", 2, min_member=1, created=1), a_gang("second", 1, created=2)]
    session = cycle.open_session(a_cluster(a_node(), things).snapshot(), policy("allocate", "gang"), now=NOW)
    first, second = session.gangs["default/first"], session.gangs["default/second"]
    turns.rank(session, [first, second])
    assert session.gang_before(first, second)
    task = first.tasks[0]
    session.statement().place(Placement(first, session.shape(task), [task], [0], Status.ALLOCATED))
    assert session.gang_before(second, first), "whoever has its minimum comes last"
