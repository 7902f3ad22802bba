"""Victims that are spared many at a time are those that trying one after the other spares; that loop is the reference, and lives only here."""

import random

import msgspec
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.test_victim_columns import POLICIES, crowd, decided
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_group, a_node, policy
from tests.unit.scheduling.test_wedges import GPU, member

from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.statement import Eviction, Placement
from pumice.scheduling.evicting import eviction

GANGWISE = policy("allocate, gangpreempt, gangreclaim", "priority gang", "drf predicates proportion nodeorder")
BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")


def spare_one_by_one(session, statement, *, check_queue, of=lambda _: True, accepts=lambda _: True):
    for each in reversed([each for each in statement.evictions if of(each.gang)]):
        room, demand = session.room.future[:, each.node], each.shape.demand
        if all(room[row] >= demand[row] for row in each.shape.rows):
            plan = list(statement.operations)
            statement.rollback()
            if not holds(session, statement, plan, each, check_queue=check_queue) or not accepts(statement):
                statement.rollback()
                statement.replay(plan)


def holds(session, statement, plan, spared, *, check_queue):
    statement.replay([each for each in plan if isinstance(each, Eviction) and each is not spared])
    for each in plan:
        if isinstance(each, Placement):
            if not eviction.fits(session, each.gang, each.shape, each.nodes[0], check_queue=check_queue):
                return False
            statement.replay([each])
    return True


@pytest.mark.parametrize("rules", [*POLICIES.values(), GANGWISE], ids=[*POLICIES, "gangwise"])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_in_a_crowd(rules, seed):
    note(f"seed {seed}")
    snapshot = crowd(random.Random(seed))
    found = decided(snapshot, rules)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction, "spare", spare_one_by_one)
        assert found == decided(snapshot, rules)


def grown(chance):
    """Gangs that have grown hold all GPUs of some nodes, and a gang of another size and shape waits behind them."""
    gpus = [chance.choice((4, 8)) for _ in range(chance.randint(1, 8))]
    things = [a_node(f"n{number}", gpu=count, cpu="64") for number, count in enumerate(gpus)]
    places = [f"n{number}" for number, count in enumerate(gpus) for _ in range(count)]
    chance.shuffle(places)
    gangs = chance.randint(1, 3)
    for number in range(gangs):
        things.append(a_group(f"g{number}", chance.randint(1, 2), phase="Running"))
        for index, node in enumerate(places[number::gangs]):
            things.append(member(f"g{number}", index, node, since=chance.randint(0, 9)))
    each = {**GPU, "gpu": chance.choice((1, 2, 4))}
    return a_cluster(*things, a_gang("waits", chance.randint(1, 6), **each)).snapshot()


def leaving(snapshot):
    """Who leaves for whom, once the grace time is over."""
    memory = cycle.plan(snapshot, BUILT_IN, now=NOW).memory
    decisions = cycle.plan(snapshot, BUILT_IN, memory, now=NOW + BUILT_IN.deadlock_grace)
    return [(each.task.uid, each.claimant, each.rule) for each in decisions.evictions]


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_where_gangs_have_grown(seed):
    note(f"seed {seed}")
    snapshot = grown(random.Random(seed))
    found = leaving(snapshot)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction, "spare", spare_one_by_one)
        assert found == leaving(snapshot)


def test_many_of_these_have_somebody_to_spare():
    """Else the comparison above would prove nothing."""
    assert sum(bool(leaving(grown(random.Random(seed)))) for seed in range(20)) > 10


def test_a_plan_that_can_do_without_almost_all_is_tried_a_few_times_and_not_once_for_each(monkeypatch):
    """256 pods that others can spare, and a gang of four waits: trying all of them again for each of them took 3 s a cycle."""
    things = [a_node(f"n{number}", gpu=8, cpu="64") for number in range(33)]
    members = [member("grown", number, f"n{number // 8}") for number in range(264)]
    gentle = msgspec.structs.replace(BUILT_IN, deadlock_grace=0)
    snapshot = a_cluster(*things, a_group("grown", 1, phase="Running"), *members, a_gang("waits", 4, **GPU)).snapshot()
    tried = []
    first = eviction._try_without
    monkeypatch.setattr(eviction, "_try_without", lambda *about, **how: tried.append(about) or first(*about, **how))
    decisions = cycle.plan(snapshot, gentle, now=NOW)
    assert len(decisions.evictions) == 4
    assert 0 < len(tried) <= 24
