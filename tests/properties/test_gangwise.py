"""Gang-wise eviction on random clusters: nobody goes in vain, nobody goes for nothing, and nothing is promised twice."""

import random

from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_hyper_node,
    a_node,
    a_priority_class,
    a_queue,
    policy,
)

from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling import actions
from pumice.scheduling.core import cycle
from pumice.scheduling.core.statement import Eviction

PREEMPT = policy("gangpreempt", "priority gang", "predicates binpack network-topology-aware")
RECLAIM = policy("gangreclaim", "gang", "predicates binpack network-topology-aware")


def a_world(chance):
    names = [f"n{number}" for number in range(chance.randint(1, 6))]
    free = {name: chance.randint(1, 6) for name in names}
    things = [a_node(name, cpu=str(free[name])) for name in names]
    half = len(names) // 2
    things += [a_hyper_node("x", 1, nodes=names[:half]), a_hyper_node("y", 1, nodes=names[half:])]
    things += [a_priority_class(f"p{value}", value) for value in range(4)]
    things += [a_queue("q"), a_queue("other")]
    for number in range(chance.randint(1, 6)):
        places = []
        cpu = chance.randint(1, 3)
        for _ in range(chance.randint(1, 4)):
            open_to = [name for name in names if free[name] >= cpu]
            if open_to:
                places.append(chance.choice(open_to))
                free[places[-1]] -= cpu
        if places:
            group = {
                "queue": chance.choice(("q", "other")),
                "priority_class": f"p{chance.randint(0, 3)}",
                "phase": "Running",
            }
            things += a_gang(
                f"run{number}",
                len(places),
                min_member=chance.randint(0, len(places)),
                running=places,
                cpu=str(cpu),
                group=group,
            )
    for number in range(chance.randint(1, 3)):
        size = chance.randint(1, 4)
        group = {"queue": "q", "priority_class": f"p{chance.randint(0, 3)}"}
        if chance.random() < 0.4:
            group["spec"] = {"networkTopology": {"mode": "hard", "highestTierAllowed": chance.randint(1, 2)}}
        things += a_gang(
            f"new{number}",
            size,
            min_member=chance.randint(1, size),
            cpu=str(chance.randint(1, 4)),
            group=group,
            created=number,
        )
    return a_cluster(things).snapshot()


def check_plan(session, rules, operations, claimant):
    """At the moment of its commit."""
    assert session.is_pipelined(claimant), "pods go for a gang that does not start"
    evictions = [each for each in operations if isinstance(each, Eviction)]
    for each in evictions:
        assert each.gang.queue == ("q" if rules is PREEMPT else "other")
        if rules is PREEMPT:
            assert each.gang.priority < claimant.priority
    for gang in {each.gang.key: each.gang for each in evictions}.values():
        own = [each for each in evictions if each.gang is gang]
        goes_whole = not any(gang.tally[status] for status in OCCUPYING)
        was_broken = gang.tally.ready + len(own) < gang.minimum
        assert goes_whole or was_broken or gang.tally.ready >= gang.minimum, (
            f"what is left of {gang.key} runs for nothing"
        )
        taken = {each.node: sum(other.shape.demand for other in own if other.node == each.node) for each in own}
        alone = [(session.room.future[:, each.node] < each.shape.demand)[list(each.shape.rows)].any() for each in own]
        together = [(session.room.future[:, node] < demand)[demand > 0].any() for node, demand in taken.items()]
        assert any(together) if goes_whole else all(alone), f"{gang.key} loses more than it has to"


def check(snapshot, rules):
    session = cycle.open_session(snapshot, rules, now=NOW)
    accept = session.accept

    def checked(operations, claimant):
        check_plan(session, rules, operations, claimant)
        accept(operations, claimant)

    session.accept = checked
    for name in rules.actions:
        actions.NAMES[name](session)
    session.room.check()
    real = [row for row, name in enumerate(session.room.table.axis.names) if not name.startswith("scored/")]
    assert (session.room.future[real] >= 0).all(), "room is promised twice"
    for gang in session.gangs.values():
        if gang.closeness is not None and gang.tally[Status.PIPELINED]:
            nodes = [node for status, node in gang.places.values() if status is Status.PIPELINED]
            assert snapshot.tree.tier[snapshot.tree.lowest_holding(nodes)] <= gang.closeness.tier
    return [(each.task.name, claimant.key) for each, claimant in session.accepted if isinstance(each, Eviction)]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_every_plan_starts_its_gang_and_is_minimal(seed):
    note(f"seed {seed}")
    snapshot = a_world(random.Random(seed))
    for rules in (PREEMPT, RECLAIM):
        assert check(snapshot, rules) == check(snapshot, rules), "the same input gave two answers"
