"""What is found out once and kept while nothing moves is what asking again would give: cycle for cycle, byte for byte.

Inside `Forgetful` everybody is asked every time: gangs one by one, members one by one, changed nodes at once.
"""

import random

import numpy as np
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.test_victim_columns import POLICIES, crowd
from tests.properties.worlds import places_for
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_node,
    a_priority_class,
    a_queue,
    policy,
)

from pumice import instant
from pumice.cluster.tasks import EVICTABLE, Status
from pumice.flight.digests import parts
from pumice.flight.recorder import slots_of
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.core.points.nodes import LoadScores
from pumice.scheduling.core.session import Session
from pumice.scheduling.core.shapes import ShapeBook
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.evicting import pool, surplus
from pumice.scheduling.evicting.lost_work import LostWork
from pumice.scheduling.placing import turns
from pumice.scheduling.placing.open_placer import OpenPlacer
from pumice.scheduling.placing.placement import Placer
from pumice.scheduling.plugins.proportion import Proportion
from pumice.scheduling.time.timeline import Timeline

RULES = {
    **{name: POLICIES[name] for name in ("volcano", "shares", "capacity")},
    "all actions": policy(
        "enqueue, allocate, preempt, reclaim, backfill",
        "priority gang conformance",
        "drf predicates proportion nodeorder binpack",
    ),
    "built-in": builtin.parse(builtin.TEXT, "built-in policy"),
}


class Forgetful:
    """Inside, nothing is kept within a cycle, and nothing of a gang from one cycle to the next."""

    def __enter__(self):
        self.patch = patch = pytest.MonkeyPatch()
        patch.setattr(turns, "contenders", turns._look_for_contenders)
        patch.setattr(turns, "rank", lambda *_: None)
        patch.setattr(ShapeBook, "of_all", lambda *_: None)
        patch.setattr(ShapeBook, "_read", lambda book, task, _: book._look(task))
        patch.setattr(Proportion, "overused", asked_anew("_overused", Proportion.overused))
        patch.setattr(Proportion, "why", asked_anew("_said", Proportion.why))
        patch.setattr(LoadScores, "look_beyond", lambda _: True)
        patch.setattr(Timeline, "_has_changed", lambda *_: True)
        patch.setattr(pool, "UNSEEN_MAX", -1)
        patch.setattr(pool.Pool, "could_open", asked_anew("_could_open", pool.Pool.could_open))
        patch.setattr(surplus, "_may_have_grown", lambda session: list(session.gangs.values()))
        patch.setattr(Session, "queue_compare", asked_anew("_queue_orders", Session.queue_compare))
        patch.setattr(LostWork, "_of_pod", asked_anew("_of_pods", LostWork._of_pod))

    def __exit__(self, *_):
        self.patch.undo()


def asked_anew(kept, ask):
    """The method, with nothing in the dictionary that it keeps answers in."""

    def asking(self, *about):
        getattr(self, kept).clear()
        return ask(self, *about)

    return asking


def line(chance):
    """Full nodes, and a line of many gangs of few kinds."""
    things = [a_queue(f"q{number}", weight=chance.randint(1, 4), created=number) for number in range(2)]
    things += [a_priority_class(f"p{value}", value) for value in range(3)]
    nodes = {f"n{number}": chance.randint(2, 8) for number in range(chance.randint(2, 10))}
    things += [a_node(name, cpu=str(room), pods=20) for name, room in nodes.items()]
    for number in range(chance.randint(2, 12)):
        cpu = chance.choice((1, 1, 2))
        places = places_for(chance, nodes, chance.randint(1, 4), cpu)
        group = {"queue": f"q{chance.randint(0, 1)}", "priority_class": f"p{chance.randint(0, 1)}", "phase": "Running"}
        if places:
            least = chance.randint(1, len(places))
            things += a_gang(
                f"r{number}", len(places), min_member=least, running=places, cpu=str(cpu), group=group
            )  # fmt: skip
    kinds = [
        (chance.randint(1, 4), str(chance.choice((0, 1, 1, 2, 3))), chance.randint(0, 1), chance.randint(0, 2))
        for _ in range(chance.randint(1, 3))
    ]
    for number in range(chance.randint(3, 16)):
        size, cpu, queue, rank = chance.choice(kinds)
        phase = chance.choice(("Inqueue", "Inqueue", "Pending"))
        group = {"queue": f"q{queue}", "priority_class": f"p{rank}", "phase": phase}
        things += a_gang(f"w{number}", size, cpu=cpu, group=group, created=chance.choice((0, number)))
    return a_cluster(things).snapshot()


def cycles(snapshot, rules):
    """All that is decided and said in three cycles over what has not changed."""
    memory, found = EMPTY, []
    for number in range(3):
        decisions = cycle.plan(snapshot, rules, memory, now=NOW + number * instant.SECOND)
        found.append(parts(decisions, slots_of({})))
        memory = decisions.memory
    return found


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("world", [line, crowd])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_decisions_and_reports_are_those_of_asking_again(world, name, seed):
    note(f"seed {seed}")
    found = cycles(world(random.Random(seed)), RULES[name])
    with Forgetful():
        assert found == cycles(world(random.Random(seed)), RULES[name])


def test_the_line_has_evictions_for_equal_gangs():
    """Else the comparison above would prove little."""
    plans = [cycle.plan(line(random.Random(seed)), RULES["all actions"], now=NOW) for seed in range(30)]
    assert max(len({each.claimant for each in plan.evictions}) for plan in plans) > 1


@pytest.mark.parametrize("name", ["all actions", "built-in"])
@pytest.mark.parametrize("placer", [Placer, OpenPlacer])
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_scores_are_those_of_a_placer_without_a_memory(placer, name, seed):
    """However pods leave nodes and others take their places, on all nodes and on some, in between asked and not asked."""
    note(f"seed {seed}")
    chance = random.Random(seed)
    session = cycle.open_session(crowd(chance), RULES[name], now=NOW)
    session.placer = placer(session)
    gangs = [gang for gang in session.gangs.values() if gang.tasks_in(Status.PENDING)]
    statement = session.statement()
    for _ in range(12):
        gang = chance.choice(gangs)
        task = chance.choice(gang.tasks)
        shape, node = session.shape(task), chance.randrange(len(session.room.table))
        running = [each for other in session.gangs.values() for each in other.tasks_in(*EVICTABLE)]
        if running and chance.random() < 0.6:
            victim = chance.choice(running)
            node = session.node_index(victim)
            statement.evict(victim, "test")
        if gang.status(task) is Status.PENDING and shape.fits(session.room.future[:, [node]])[0]:
            statement.place(Placement(gang, shape, [task], [node], Status.PIPELINED))
        elif chance.random() < 0.5:
            statement.rollback(chance.randint(0, statement.checkpoint()))
        count = len(session.room.table)
        asked = np.array(sorted(chance.sample(range(count), chance.randint(1, count))))
        scores = session.placer.scores(shape, task, asked)
        assert scores.tolist() == Placer(session).scores(shape, task, asked).tolist()


@pytest.mark.parametrize("placer", [Placer, OpenPlacer])
def test_scores_of_another_moment_are_not_mixed_with_those_of_now(placer):
    session = cycle.open_session(crowd(random.Random(2)), RULES["built-in"], now=NOW)
    session.placer = placer(session)
    task = next(gang for gang in session.gangs.values() if gang.tasks_in(Status.PENDING)).tasks[0]
    shape, nodes = session.shape(task), np.arange(len(session.room.table))
    before = session.placer.scores(shape, task, nodes).tolist()
    used = session.room.used.copy()
    with session.placer.apart():  # all that runs has ended
        session.room.used[:] = 0
        later = session.placer.scores(shape, task, nodes).tolist()
        assert later == Placer(session).scores(shape, task, nodes).tolist() != before
        session.room.used[:] = used
    assert session.placer.scores(shape, task, nodes).tolist() == before


def test_a_gang_that_was_admitted_contends_from_then_on():
    things = [a_queue("q0"), a_node("n0", cpu="1"), *a_gang("w", 1, group={"queue": "q0", "phase": "Pending"})]
    session = cycle.open_session(a_cluster(things).snapshot(), RULES["all actions"], now=NOW)
    assert not turns.contenders(session)
    (gang,) = session.gangs.values()
    gang.admit()
    assert list(turns.contenders(session)) == [gang]
