"""A run ahead does not try what numbers alone refuse, nor look for what has not changed: the same starts, less work."""

import pytest

from pumice.scheduling.actions.preempt import _Preempting
from pumice.scheduling.evicting.victim_columns import VictimColumns
from pumice.scheduling.placing import members
from pumice.scheduling.placing.placement import Placer
from pumice.scheduling.time.planning import Book, _Search
from pumice.sim import Submission, nodes
from pumice.sim.policies import NAMED
from pumice.sim.simulation import Simulation

# Three of four slots are taken; gangs of four, three and two wait for them behind one another.
CROWD = [Submission(at_s=at_s, run_s=1000, size=size, estimate_s=1000) for at_s, size in enumerate((3, 4, 3, 2, 2, 4))]


@pytest.fixture
def calls_of(monkeypatch):
    """Counts the calls of a method from now on."""

    def watch(kind, name):
        calls, real = [], getattr(kind, name)
        monkeypatch.setattr(kind, name, lambda *args, **named: calls.append(name) or real(*args, **named))
        return calls

    return watch


def starts(policy, work=CROWD, cluster="4x1"):
    """Every instant has a cycle, as in forecasts."""
    run = Simulation(work, nodes(cluster), policy=NAMED[policy].text, source=policy, shows_all=True)
    assert not [each for step in run.steps() for each in step.direct]
    return [each.start_s for each in run.outcome.runs]


def test_gangs_for_which_there_is_too_little_room_are_not_placed_and_taken_back(calls_of):
    fills = calls_of(Placer, "fill")
    assert starts("fair-share") == [0, 1000, 2000, 3000, 3000, 4000]
    assert len(fills) == len(CROWD)  # each once: when it starts


def test_nor_are_those_whose_queue_has_too_little_of_its_share_left(monkeypatch):
    # All is the queue's share. The second gang is admitted when it has waited for five minutes, and is reserved a time.
    work = [Submission(at_s=at_s, run_s=1000, size=size, estimate_s=1000) for at_s, size in ((0, 18), (1, 4), (2, 1))]
    now, real = [], members.place_tasks

    def place_tasks(session, *args, **named):
        now.append(not session.is_ahead)
        real(session, *args, **named)

    monkeypatch.setattr(members, "place_tasks", place_tasks)
    assert starts("builtin", work, "20x1") == [0, 1000, 2]
    assert sum(now) == len(work)
    assert len(now) > len(work)  # for the time that was reserved


def test_members_hold_no_places_that_are_dropped_unseen(calls_of):
    tried = calls_of(_Preempting, "_within")
    assert all(start is not None for start in starts("builtin"))
    assert tried == []


def test_nobody_is_put_in_columns_where_all_have_the_same_priority(calls_of):
    # The second gang is admitted when it has waited for five minutes, and then others might have to go for it.
    work = [Submission(at_s=at_s, run_s=1000, size=size, estimate_s=1000) for at_s, size in ((0, 18), (1, 4), (2, 1))]
    columns, gangs = calls_of(VictimColumns, "__init__"), calls_of(_Preempting, "_between_gangs")
    assert starts("builtin", work, "20x1") == [0, 1000, 2]
    assert gangs
    assert columns == []


def test_no_places_are_looked_for_beside_reservations_that_leave_too_few(calls_of):
    """Two of five slots are free while the gang of four waits with a reservation: a gang of two that outlives the others would delay it."""
    sizes = ((0, 3, 1000), (1, 4, 1000), (400, 2, 1000))
    work = [Submission(at_s=at_s, run_s=run_s, size=size, estimate_s=run_s) for at_s, size, run_s in sizes]
    plans = calls_of(_Preempting, "_plan")
    assert starts("builtin", work, "5x1") == [0, 1000, 2000]
    assert plans == []


def test_reservations_that_stand_are_confirmed_together_and_not_looked_for_again(calls_of):
    confirmed, searches = calls_of(Book, "shortage"), calls_of(_Search, "in_order")
    assert starts("conservative") == [0, 1000, 2000, 3000, 3000, 4000]
    assert confirmed == []
    assert len(searches) == 4  # of those that found another reservation before them, once each
