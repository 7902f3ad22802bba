"""Evictions found in columns are those that a loop over all nodes finds: the same victims, for the same gangs, in the same order.

The loop asks every plugin about every node that room could be made on, one after the other; it is the reference, and lives only here.
"""

import random

import msgspec
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st
from tests.properties.worlds import places_for, worlds
from tests.unit.scheduling.clusters import (
    NOW,
    a_cluster,
    a_gang,
    a_node,
    a_priority_class,
    a_queue,
    an_object,
    policy,
)

from pumice.cluster.tasks import EVICTABLE
from pumice.scheduling import actions
from pumice.scheduling.core import cycle
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.statement import Eviction
from pumice.scheduling.evicting import votes
from pumice.scheduling.evicting.pool import Pool
from pumice.scheduling.evicting.victim_columns import VictimColumns

MODES = [
    {"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True, "minCandidateNodesPercentage": 40}},
]


class EverySecond(Plugin):
    """A plugin from another package: it votes node by node, and abstains where there is only one candidate."""

    def open(self, session):
        for point in (session.on.preemptable, session.on.reclaimable):
            point(lambda _, candidates: candidates[::2] if len(candidates) > 1 else None)


POLICIES = {
    "volcano": policy("allocate, preempt, reclaim", "priority gang conformance", "drf predicates proportion nodeorder"),
    "priority": policy("preempt, reclaim", "priority conformance", "predicates proportion binpack"),
    "shares": policy("allocate, preempt, reclaim", "gang", "drf proportion predicates"),
    "capacity": policy("preempt, reclaim", "priority gang pdb", "capacity predicates nodeorder"),
    "guards": policy("preempt, reclaim", "cdp priority pdb", "gang tdm drf predicates proportion"),
    "hierarchy": policy(
        "reclaim", "gang conformance", [{"name": "drf", "enableHierarchy": True}, "predicates", "nodeorder"]
    ),
    "gentle": policy("preempt, reclaim", "priority gang", "drf predicates", configurations=MODES),
}


def everything_open(_, screen, view):
    screen.open[view.nodes] = screen.freeing[view.nodes] = True


class Loop:
    """Inside, no node is passed over: what the plugins say of it is found out by asking them."""

    def __enter__(self):
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(Pool, "_look", everything_open)
        self.patch.setattr(Pool, "refuse", lambda *_: None)
        self.patch.setattr(votes, "lets_nobody_go", lambda *_: False)

    def __exit__(self, *_):
        self.patch.undo()


def decided(snapshot, rules, **more):
    """Victims, claimants and promised places, in their order; and what was learned of those that were tried in vain."""
    session = cycle.open_session(snapshot, rules, now=NOW, **more)
    for name in rules.actions:
        actions.NAMES[name](session)
    session.room.check()
    return [
        (operation.task.uid, claimant.key) if isinstance(operation, Eviction)
        else ([task.uid for task in operation.tasks], list(operation.nodes), operation.after_eviction)
        for operation, claimant in session.accepted
    ], session.backoffs  # fmt: skip


def crowd(chance):
    """Full nodes with elastic gangs of many ranks and sizes, in queues that hold more and less than their part."""
    queues = [a_queue(f"q{number}", weight=chance.randint(1, 4), created=number) for number in range(3)]
    if chance.random() < 0.3:
        queues[0] = a_queue("q0", guarantee={"cpu": str(chance.randint(1, 6))})
    things = [*queues, *(a_priority_class(f"p{value}", value) for value in range(3))]
    nodes = {f"n{number}": chance.randint(2, 8) for number in range(chance.randint(2, 12))}
    things += [a_node(name, cpu=str(room), pods=20) for name, room in nodes.items()]
    budget = {
        "metadata": {"name": "budget", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"part": "x"}}},
        "status": {"disruptionsAllowed": chance.randint(0, 2)},
    }
    things.append(an_object("policy/v1", "PodDisruptionBudget", budget))
    for number in range(chance.randint(2, 12)):
        cpu = chance.choice((1, 1, 2))
        places = places_for(chance, nodes, chance.randint(1, 5), cpu)
        if places:
            group = {
                "queue": f"q{chance.randint(0, 2)}",
                "priority_class": f"p{chance.randint(0, 2)}",
                "phase": "Running",
            }
            labels = {"part": "x"} if chance.random() < 0.3 else {}
            cooling = {"volcano.sh/cooldown-time": "10m"} if chance.random() < 0.2 else {}
            things += a_gang(
                f"r{number}", len(places), min_member=chance.randint(0, len(places)), running=places, cpu=str(cpu),
                group=group, labels=labels, annotations=cooling,
            )  # fmt: skip
    for number in range(chance.randint(1, 8)):
        size = chance.randint(1, 4)
        group = {"queue": f"q{chance.randint(0, 2)}", "priority_class": f"p{chance.randint(0, 2)}"}
        cpu = str(chance.choice((0, 1, 1, 2, 3)))
        least = chance.randint(0, size)
        things += a_gang(f"w{number}", size, min_member=least, cpu=cpu, group=group, created=number)
    return a_cluster(things).snapshot()


def check_equal(snapshot, rules, **more):
    found = decided(snapshot, rules, **more)
    with Loop():
        assert found == decided(snapshot, rules, **more)
    return found


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_in_a_crowd(name, seed):
    note(f"seed {seed}")
    check_equal(crowd(random.Random(seed)), POLICIES[name])


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=40, deadline=None)
@given(world=worlds())
def test_in_any_world(name, world):
    check_equal(a_cluster(world.objects).snapshot(), POLICIES[name])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_beside_a_plugin_that_knows_no_columns(seed):
    note(f"seed {seed}")
    chosen = policy("preempt, reclaim", "priority gang", "predicates proportion")
    first, *others = chosen.options
    odd = msgspec.structs.replace(first, name="every-second", tier=random.Random(seed).choice((0, 1)))
    rules = msgspec.structs.replace(chosen, options=tuple(sorted((first, *others, odd), key=lambda each: each.tier)))
    check_equal(crowd(random.Random(seed)), rules, extra_plugins={"every-second": EverySecond})


def test_numbers_say_that_nobody_could_go_only_where_a_plugin_says_so_in_each_tier():
    """priority lets nobody go for a gang of no higher rank; a tier below it may, if it has a say."""
    for rules, is_known in ((POLICIES["priority"], True), (POLICIES["capacity"], True), (POLICIES["volcano"], False)):
        running = a_gang("r", 1, running=["n1"], group={"queue": "q0", "priority_class": "p1", "phase": "Running"})
        waiting = [a_gang(f"w{rank}", 1, group={"queue": "q0", "priority_class": f"p{rank}"}) for rank in (1, 2)]
        classes = [a_priority_class(f"p{value}", value) for value in range(3)]
        cluster = a_cluster(a_queue("q0"), *classes, a_node("n1", cpu="1"), running, *waiting)
        session = cycle.open_session(cluster.snapshot(), rules, now=NOW)
        tasks = [session.gangs[f"default/w{rank}"].tasks[0] for rank in (1, 2)]
        found = [votes.lets_nobody_go(session.points.preemptable, task, "q0") for task in tasks]
        assert found == [is_known, False]


def test_the_worlds_have_evictions_of_both_kinds():
    """Else the comparisons above would prove nothing."""
    rules = set()
    for seed in range(40):
        session = cycle.open_session(crowd(random.Random(seed)), POLICIES["volcano"], now=NOW)
        for name in POLICIES["volcano"].actions:
            actions.NAMES[name](session)
        rules |= {each.rule for each, _ in session.accepted if isinstance(each, Eviction)}
    assert rules == {"preempt", "reclaim"}


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_whom_plugins_choose_is_within_their_bound(name, seed):
    """On every node, for every gang that waits, before anything moves and after some pods have gone."""
    note(f"seed {seed}")
    chance = random.Random(seed)
    session = cycle.open_session(crowd(chance), POLICIES[name], now=NOW)
    columns = session.shared(VictimColumns)
    for _ in range(3):
        columns.catch_up()
        for gang in session.gangs.values():
            waiting = [task for task in gang.tasks if not task.node]
            for point in (session.points.preemptable, session.points.reclaimable) if waiting else ():
                view = columns.everywhere()
                present = [session.gangs[task.gang].status(task) in EVICTABLE for task in columns.tasks]
                view.asked &= present
                view.asked &= view.gang != columns.position.get(gang.key, -1)
                asked = view.asked.copy()
                mask = votes.possible_victims(point, votes.keys_of(point, waiting[0], columns), view)
                for node in range(len(session.room.table)):
                    rows = range(columns.edges[node], columns.edges[node + 1])
                    candidates = [columns.tasks[row] for row in rows if asked[row]]
                    chosen = {task.uid for task in point.of(waiting[0], candidates)} if candidates else set()
                    assert chosen <= {columns.tasks[row].uid for row in rows if mask[row]}
                for queue in session.queues:
                    if votes.lets_nobody_go(point, waiting[0], queue):
                        candidates = [task for task in columns.tasks if session.gangs[task.gang].queue == queue]
                        assert not point.of(waiting[0], [task for task in candidates if task.gang != gang.key])
        left = [task for gang in session.gangs.values() for task in gang.tasks_in(*EVICTABLE)]
        if left:
            session.statement().evict(chance.choice(left), "test")
