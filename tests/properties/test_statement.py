"""What is rolled back leaves no trace: in columns, counters, plugins' books and orders, bit for bit."""

import contextlib
import enum
import functools
import random
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.worlds import worlds
from tests.unit.scheduling.clusters import policy, session_for

from pumice.cluster import amounts
from pumice.cluster.tasks import EVICTABLE, OCCUPYING, Status
from pumice.scheduling import plugins
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.gangstate import GangState
from pumice.scheduling.core.points import Points
from pumice.scheduling.core.room import Room
from pumice.scheduling.core.session import Session
from pumice.scheduling.core.shapes import Shape, ShapeBook
from pumice.scheduling.core.statement import Placement, without
from pumice.scheduling.placing.fragmentation import Known
from pumice.scheduling.placing.placement import Placer

# All that come with Pumice, but for one that asks somebody outside and one that wants every node labelled.
EVERY_PLUGIN = policy("allocate", [name for name in plugins.NAMES if name not in {"extender", "nodegroup"}])
TREE_OF_SHARES = policy(
    "allocate",
    "priority gang",
    [{"name": "drf", "enableHierarchy": True}, {"name": "capacity", "enableHierarchy": True}],
)
POLICIES = (EVERY_PLUGIN, TREE_OF_SHARES)

CORE = ("columns", "gangs", "orders", "queues", "comparisons")

# Memories that may grow by asking; what they hold is checked by what they answer.
_NOT_BOOKS = (Session, Room, Placer, Points, ShapeBook, Shape, GangState, Known)
_MEMORIES = {"_memberships", "log", "_standing"}


class PluginBroke(Exception):
    pass


def described(session, made):
    """Everything that operations may change, as plain values; an amount of zero is as good as none."""
    room = session.room
    gangs = {
        key: (
            gang.tally.counts, gang.tally.waiting_best_effort, plain(gang.occupied),
            {task.uid: place for task, place in gang.places.items()},
            [(sub.tally.counts, sub.tally.waiting_best_effort, sub.hyper_node) for sub in gang.subs],
            {role: gang.role(role).counts for role in sorted({task.role for task in gang.tasks})}, gang.hyper_node,
        )
        for key, gang in session.gangs.items()
    }  # fmt: skip
    columns = {
        name: getattr(room, name).tobytes() for name in ("idle", "used", "releasing", "pipelined", "future", "viewed")
    }
    orders = {key: session.gang_key(gang) for key, gang in session.gangs.items()}
    in_use = [session.queues[name] for name in sorted({gang.queue for gang in session.gangs.values()})]
    queues = sorted(in_use, key=functools.cmp_to_key(lambda a, b: -1 if session.queue_before(a, b) else 1))
    pairs = [
        (a.name, b.name, hook.call(a, b)) for hook in session.points.queue_order.hooks for a in in_use for b in in_use
    ]
    return {
        "comparisons": pairs, "columns": columns, "gangs": gangs, "orders": orders, "queues": [queue.name for queue in queues],
        "books": {type(plugin).__name__: plain(plugin) for plugin in made},
        "shared": {kind.__name__: plain(thing) for kind, thing in session._shared.items()},
    }  # fmt: skip


def plain(value, seen=frozenset()):
    if value is None or isinstance(value, bool | int | float | str | bytes | enum.Enum):
        return value
    if isinstance(value, np.ndarray):
        return (value.shape, value.tobytes()) if value.any() else None
    if id(value) in seen or isinstance(value, _NOT_BOOKS):
        return "..."
    seen = seen | {id(value)}
    if isinstance(value, dict):
        found = {label(key): plain(item, seen) for key, item in value.items()}
        return {key: item for key, item in sorted(found.items(), key=str) if item or isinstance(item, str)}
    if isinstance(value, list | tuple):
        return [plain(item, seen) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(str(label(item)) for item in value)
    if type(value).__module__.startswith("pumice.scheduling") and not isinstance(value, Args):
        return plain(fields_of(value), seen)
    return type(value).__name__


def fields_of(value):
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names = [name for name in (*getattr(value, "__dict__", ()), *slots) if name not in _MEMORIES]
    return {name: getattr(value, name) for name in names if hasattr(value, name)}


def label(key):
    if isinstance(key, tuple):
        return tuple(label(part) for part in key)
    return getattr(key, "uid", None) or getattr(key, "key", None) or (key if isinstance(key, str | int) else id(key))


def recount(session):
    """The counters say what counting anew would say."""
    for gang in session.gangs.values():
        assert_counts(gang.tally, gang, gang.tasks)
        for sub in gang.subs:
            assert_counts(sub.tally, gang, sub.sub.tasks)
        for role in {task.role for task in gang.tasks}:
            assert_counts(gang.role(role), gang, [task for task in gang.tasks if task.role == role])
        held = amounts.sum_of(task.request.amounts for task in gang.tasks if gang.status(task) in OCCUPYING)
        assert plain(gang.occupied) == plain(held)


def assert_counts(tally, gang, tasks):
    statuses = [gang.status(task) for task in tasks]
    assert tally.counts == [statuses.count(status) for status in Status]
    waiting = [task for task in tasks if gang.status(task) is Status.PENDING and task.is_best_effort]
    assert tally.waiting_best_effort == len(waiting)


class Trials:
    """Random operations on one session, each with the mark before it and what all looked like then."""

    def __init__(self, session, made, seed):
        self.session, self.made = session, made
        self.chance = random.Random(seed)
        self.statement = session.statement()
        self.marks = []

    def run(self, steps, *, checked=True):
        self.checked = checked
        for _ in range(steps):
            step = self.chance.choice(
                (
                    self.place,
                    self.place,
                    self.evict,
                    self.mark,
                    self.mark,
                    self.return_to_mark,
                    self.spare,
                    self.do_without,
                )
            )
            step()
            self.session.room.check()
            recount(self.session)
        self.statement.rollback()

    def mark(self):
        self.marks.append((self.statement.checkpoint(), described(self.session, self.made)))

    def return_to_mark(self):
        if self.marks:
            mark, as_it_was = self.marks.pop(self.chance.randrange(len(self.marks)))
            self.marks = [each for each in self.marks if each[0] <= mark]
            self.statement.rollback(mark)
            assert not self.checked or described(self.session, self.made) == as_it_was

    def place(self):
        waiting = [(gang, task) for gang in self.session.gangs.values() for task in gang.tasks_in(Status.PENDING)]
        if not waiting:
            return
        gang, task = self.chance.choice(waiting)
        shape = self.session.shape(task)
        mates = [
            each
            for each in gang.tasks_in(Status.PENDING)
            if self.session.shape(each) is shape and each.role == task.role
        ]
        places = self.session.placer.fill(shape, self.chance.randint(1, len(mates)), None, mates[0])
        if places.nodes:
            status = Status.PIPELINED if places.pipelined else Status.ALLOCATED
            self.statement.place(Placement(gang, shape, mates[: len(places.nodes)], places.nodes, status))

    def evict(self):
        gangs = self.session.gangs
        candidates = [
            task for tasks in self.session.room.table.tasks for task in tasks
            if task.gang in gangs and gangs[task.gang].status(task) in EVICTABLE
        ]  # fmt: skip
        if candidates:
            self.statement.evict(self.chance.choice(candidates), "test")

    def spare(self):
        """Take one eviction out of the middle and put it back at the end, as plans do."""
        if self.statement.evictions:
            as_it_was = described(self.session, self.made)
            spared = self.chance.choice(self.statement.evictions)
            place = self.statement.operations.index(spared)
            self.statement.unevict(spared)
            self.session.room.check()
            self.statement.replay([spared])
            self.marks = [each for each in self.marks if each[0] <= place]
            assert not self.checked or described(self.session, self.made) == as_it_was

    def do_without(self):
        """Members that leave in one move, for a question, are gone as if they were evicted one by one; then all is as before, also where a plugin breaks on it."""
        gang = self.chance.choice(list(self.session.gangs.values()))
        as_it_was, mark = described(self.session, self.made), self.statement.checkpoint()
        with contextlib.suppress(PluginBroke), without(self.session, gang, *EVICTABLE):
            at_once = described(self.session, self.made)
            self.session.room.check()
            recount(self.session)
            if self.chance.random() < 0.5:
                raise PluginBroke
        assert not self.checked or described(self.session, self.made) == as_it_was
        for task, _ in self.session.on_nodes(gang.tasks_in(*EVICTABLE)):
            self.statement.evict(task, "test")
        one_by_one = described(self.session, self.made)
        self.statement.rollback(mark)
        assert {part: at_once[part] for part in CORE} == {part: one_by_one[part] for part in CORE}


def opened(world, chosen):
    made = []

    def make(*arguments):
        made.append(original(*arguments))
        return made[-1]

    original = plugins.make
    with mock.patch.object(plugins, "make", make):
        return session_for(world.objects, policy=chosen), made


def answers(session):
    """What the session says to all questions that actions ask, for every waiting shape."""
    found = {}
    for gang in session.gangs.values():
        found[gang.key] = (
            session.is_ready(gang), session.is_pipelined(gang), session.points.starving.holds(gang), session.takes_part(gang),
            session.obstacle(gang), session.points.enqueueable.outcome(gang),
        )  # fmt: skip
        for task in gang.tasks_in(Status.PENDING):
            shape, queue = session.shape(task), session.queue_of(gang)
            nodes = np.flatnonzero(session.placer.feasible(shape, None))
            found[task.uid] = (
                str(session.placer.prefilter(shape)), nodes.tolist(), session.points.allocatable.of(queue, shape, 99),
                session.placer.scores(shape, task, nodes).tolist() if len(nodes) else [],
                session.placer.fit_error(shape, None).text, session.points.overused.holds(queue), session.points.preemptive.holds(queue, [task]),
            )  # fmt: skip
        running = gang.tasks_in(*EVICTABLE)
        points = {"preemptable": session.points.preemptable, "reclaimable": session.points.reclaimable}
        for name, point in points.items() if running else ():
            for claimant in gang.tasks_in(Status.PENDING)[:1]:
                found[gang.key, name] = [task.uid for task in point.of(claimant, running)]
    return found


def test_whatever_is_done_and_undone_leaves_no_trace(rounds):
    """The first round of trials fills the plugins' memories, which asking alone may do."""

    @given(worlds(), st.integers(0, 2**32), st.sampled_from(POLICIES))
    def holds(world, seed, chosen):
        session, made = opened(world, chosen)
        core = [described(session, made)[part] for part in CORE]
        Trials(session, made, seed).run(steps=12, checked=False)
        before = described(session, made)
        assert [before[part] for part in CORE] == core
        Trials(session, made, seed).run(steps=12)
        assert described(session, made) == before
        assert answers(session) == answers(opened(world, chosen)[0])

    rounds(holds, 120)


def test_questions_change_nothing(rounds):
    """They are asked twice: what plugins remember of the first time is compared too."""

    def noted(session):
        return [
            (gang.phase, list(gang.reasons), dict(gang.fit_errors), gang.version) for gang in session.gangs.values()
        ], list(session.changes_at)

    @given(worlds(), st.sampled_from(POLICIES))
    def holds(world, chosen):
        session, made = opened(world, chosen)
        fresh, core = noted(session), [described(session, made)[part] for part in CORE]
        first, before = answers(session), described(session, made)
        assert [before[part] for part in CORE] == core
        assert answers(session) == first
        assert described(session, made) == before
        assert noted(session) == fresh

    rounds(holds, 60)


def test_what_is_replayed_is_as_it_was_the_first_time(rounds):
    @given(worlds(), st.integers(0, 2**32), st.sampled_from(POLICIES))
    def holds(world, seed, chosen):
        session, made = opened(world, chosen)
        trials = Trials(session, made, seed)
        for _ in range(8):
            trials.chance.choice((trials.place, trials.evict))()
        once, operations = described(session, made), list(trials.statement.operations)
        trials.statement.rollback()
        trials.statement.replay(operations)
        assert described(session, made) == once

    rounds(holds, 60)
