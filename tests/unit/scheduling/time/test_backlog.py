"""Which waiting gangs a run ahead shows to its cycles."""

from pumice.api.meta import ObjectMeta
from pumice.api.pods import Pod
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.time import reservations
from pumice.scheduling.time.backlog import Ask, Backlog
from pumice.sim import Submission, nodes, simulation
from pumice.sim.policies import NAMED


def an_ask(name, least, *, queue="default", each=1):
    return Ask(gang=name, queue=queue, place=(0, name), least=least, each=each, pods=least // each)


def a_backlog(*asks, slots=8, **settings):
    backlog = Backlog(slots, 4, **{"may_pass": False, "all_alike": True, **settings})
    for ask in asks:
        assert backlog.add(ask, lambda ask=ask: [Pod(metadata=ObjectMeta(name=ask.gang, uid=ask.gang))])
    return backlog


def seen(arrivals):
    return [thing.metadata.uid for objects in arrivals for thing in objects()]


def a_reservation_of(gang):
    kept = reservations.Kept(gang=gang, uid=gang, time=1, length=1, since=0, short=0, parts=())
    return EMPTY.after([(reservations.SLOT, reservations.Reservations((kept,)))])[0]


def test_nobody_is_seen_behind_the_first_that_does_not_fit():
    backlog = a_backlog(an_ask("a", 6), an_ask("b", 3), an_ask("c", 1))
    assert seen(backlog.due()) == ["a"]
    backlog.placed("a", 6)
    assert seen(backlog.due()) == []
    backlog.ended("a")
    assert seen(backlog.due()) == ["b", "c"]


def test_each_queue_has_its_own_first():
    backlog = a_backlog(an_ask("a", 6), an_ask("b", 3), an_ask("c", 8, queue="other"))
    assert seen(backlog.due()) == ["a", "c"]


def test_the_first_that_does_not_fit_is_seen_where_it_holds_up_others_than_these():
    backlog = a_backlog(an_ask("a", 6), an_ask("b", 3), an_ask("c", 1), all_alike=False)
    assert seen(backlog.due()) == ["a", "b"]


def test_where_gangs_may_pass_all_are_seen_that_are_no_larger_than_what_is_free():
    backlog = a_backlog(an_ask("a", 6), an_ask("b", 8), an_ask("c", 3), an_ask("d", 2), slots=8, may_pass=True)
    assert seen(backlog.due()) == ["a", "b", "c", "d"]
    backlog.placed("a", 6)
    assert backlog.add(an_ask("e", 3), list)
    assert seen(backlog.due()) == []
    assert backlog.is_reserved_ahead(a_reservation_of("b"))
    assert not backlog.is_reserved_ahead(EMPTY)


def test_gangs_that_have_become_too_large_have_no_turn_until_they_are_not():
    backlog = a_backlog(an_ask("a", 6), an_ask("b", 8), an_ask("c", 3), an_ask("d", 2), may_pass=True)
    assert len(backlog.due()) == 4
    backlog.placed("a", 6)
    assert list(backlog.passed_over()) == ["c"]  # b is the first, and has the reservation; d may pass
    assert backlog.is_reserved_ahead(a_reservation_of("b"))
    assert not backlog.is_reserved_ahead(a_reservation_of("d"))
    backlog.ended("a")
    assert list(backlog.passed_over()) == []


def test_where_nobody_passes_everybody_who_is_seen_has_a_turn():
    backlog = a_backlog(an_ask("a", 6), an_ask("b", 8), an_ask("c", 3), all_alike=False)
    backlog.due()
    assert list(backlog.passed_over()) == []


def test_who_can_never_start_is_not_held_back():
    backlog = a_backlog()
    assert not backlog.add(an_ask("more than there is", 9), list)
    assert not backlog.add(an_ask("a pod larger than a node", 5, each=5), list)


def test_arrivals_behind_a_blocked_gang_cost_no_cycle():
    work = [Submission(at_s=number, run_s=1000, size=4) for number in range(50)]
    fifo = NAMED["fifo"]
    run = simulation.Simulation(work, nodes("1x4"), policy=fifo.text, strict=True)
    for _ in run.steps(until_s=500):
        pass
    assert (run.ahead.cycles, len(run.waiting())) == (1, 49)
    assert "sim/job-0000001" not in run.ahead.cluster.gangs
