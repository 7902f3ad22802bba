"""What a scheduler remembers of use is held against what the store told, and when pods said that they had ended."""

from pumice.instant import SECOND
from pumice.scheduling.sharing.decayed_usage import Usage
from pumice.sim.worlds.apiserver import START
from pumice.sim.worlds.ledger import Ledger


def doubts(remembered, *, ended_s):
    """A queue holds half of the cluster from 0 s on, and the store hears at 20 s that its pod ended."""
    ledger = Ledger()
    ledger.put(0.0, {"narrow": 4}, 8)
    ledger.end(20.0, "narrow", 4, START + ended_s * SECOND)
    ledger.put(20.0, {}, 8)
    return list(ledger.doubts(Usage(START, {"narrow": (remembered, 0.0)}), 60.0))


def test_a_scheduler_may_count_until_the_store_is_told_and_to_the_end_of_the_pod():
    assert [doubts(used, ended_s=10) for used in (10.0, 5.0)] == [[], []]


def test_it_may_count_neither_less_nor_more():
    too_little = "queue narrow has used 10.00 s of the cluster, and the scheduler remembers 4.00 s"
    assert doubts(4.0, ended_s=10) == [too_little]
    assert len(doubts(12.0, ended_s=10)) == 1


def test_an_end_that_is_told_at_once_leaves_no_doubt_how_much_it_was():
    assert doubts(10.0, ended_s=19) == []
    assert len(doubts(8.0, ended_s=19)) == 1


def test_a_scheduler_may_count_a_pod_from_its_decision_on_however_long_the_bind_is_on_its_way():
    """Its room is kept meanwhile; whoever plans seldom counts it from its start."""
    ledger = Ledger()
    ledger.put(0.0, {}, 8)
    ledger.put(10.0, {"narrow": 4}, 8)
    ledger.bind(10.0, "narrow", 4, START + 4 * SECOND)
    ledger.put(20.0, {}, 8)
    found = [list(ledger.doubts(Usage(START, {"narrow": (used, 0.0)}), 60.0)) for used in (5.0, 8.0, 9.0)]
    assert [len(each) for each in found] == [0, 0, 1]


def test_a_scheduler_may_count_a_pod_from_the_plan_for_it_on_and_not_from_one_before_that():
    """Where gangs take turns, plans take as long as what they start."""
    ledger = Ledger()
    ledger.put(0.0, {}, 8)
    for began in (1, 4, 9):
        ledger.plan(START + began * SECOND)
    ledger.put(10.0, {"narrow": 4}, 8)
    ledger.bind(10.0, "narrow", 4, START + 7 * SECOND)
    ledger.put(20.0, {}, 8)
    found = [list(ledger.doubts(Usage(START, {"narrow": (used, 0.0)}), 60.0)) for used in (5.0, 8.0, 9.0)]
    assert [len(each) for each in found] == [0, 0, 1]
