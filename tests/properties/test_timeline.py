"""The room beside reservations, kept up to date by what changes, is what adding it all up would give."""

import random

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import DAY, a_cluster, a_gang, a_node, a_queue, policy, when

from pumice import instant
from pumice.cluster.tasks import Status
from pumice.scheduling.core import cycle
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.policy import PluginOption
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.time import reservations
from pumice.scheduling.time.estimates import Estimates
from pumice.scheduling.time.later import Seat
from pumice.scheduling.time.planning import Book, Rules
from pumice.scheduling.time.timeline import MANY, PIECES_MAX

ESTIMATE = "pumice.dev/running-estimate"
NOW_S = 3600
NOW = DAY + NOW_S * instant.SECOND


class Keeper(Plugin):
    """A book of its own, that sees what is placed."""

    args_type = Args
    book = None

    def __init__(self, args, option):
        pass

    def open(self, session):
        Keeper.book = Book(session, Estimates(session, instant.HOUR), Rules(9, 9, instant.HOUR))
        session.on.moved(Keeper.book.moved)


class World:
    """Nodes of 1 to 4 CPUs, work that runs on them, gangs that wait, and reservations that need not make sense."""

    def __init__(self, seed):
        self.chance = chance = random.Random(seed)
        self.count = chance.randint(1, 6)
        cluster = a_cluster(
            a_queue(),
            [a_node(f"n{number}", cpu=str(chance.randint(1, 4)), memory="64Gi") for number in range(self.count)],
            [self._running(number) for number in range(chance.randint(0, 6))],
            [
                a_gang(
                    f"w{number}",
                    chance.randint(1, 3),
                    cpu=chance.choice("12"),
                    group={"annotations": {ESTIMATE: f"{chance.randint(1, 900)}s"}},
                )
                for number in range(4)
            ],
        )
        rules = policy("allocate", ["gang"], ["predicates"])
        rules = msgspec.structs.replace(rules, options=(*rules.options, PluginOption("keeper", 9, {}, {})))
        self.session = cycle.open_session(cluster.snapshot(), rules, now=NOW, extra_plugins={"keeper": Keeper})
        self.book = Keeper.book
        self.waiting = [self.session.gangs[f"default/w{number}"] for number in range(4)]
        self.reserved = [self._reservation() for _ in range(6)]
        self.statements = []

    def _running(self, number):
        until = self.chance.randint(1, 900)
        return a_gang(
            f"r{number}", 1, running=[f"n{self.chance.randrange(self.count)}"], cpu="1", status={"startTime": when(NOW_S - 60)},
            group={"annotations": {ESTIMATE: f"{until + 60}s"}, "phase": "Running"},
        )  # fmt: skip

    def _reservation(self):
        gang = self.chance.choice(self.waiting)
        members = gang.tasks_in(Status.PENDING)[: self.chance.randint(1, 3)]
        seats = [Seat(self.session.shape(task), [self.chance.randrange(self.count)]) for task in members]
        at, length = NOW + self.chance.randint(0, 900) * instant.SECOND, self.chance.randint(1, 600) * instant.SECOND
        return reservations.made(gang, at, length, seats, NOW, len(seats))

    def change(self):
        """Place or evict somebody, or take one of that back."""
        if self.statements and self.chance.random() < 0.4:
            self.statements.pop(self.chance.randrange(len(self.statements))).rollback()
            return
        statement, gang = self.session.statement(), self.chance.choice(list(self.session.gangs.values()))
        for task in gang.tasks_in(Status.PENDING)[:2]:
            node = self.chance.randrange(self.count)
            statement.place(Placement(gang, self.session.shape(task), [task], [node], Status.ALLOCATED))
        for task in gang.tasks_in(Status.RUNNING)[:1]:
            statement.evict(task, "")
        self.statements.append(statement)

    def free(self, at, others):
        """All added up."""
        free = self.book.profile.free(at)
        for each in others:
            if each.time <= at < each.end:
                free[:, each.nodes] -= each.taken
        return free

    def through(self, begin, length, others):
        moments = [begin, *(each.time for each in others if begin < each.time < begin + length)]
        return np.min([self.free(at, others) for at in moments], axis=0)


def check(seed):
    world = World(seed)
    chance, book = world.chance, world.book
    nodes = np.arange(world.count)
    asked_before = []
    for _ in range(8):
        for _ in range(chance.choice((0, 1, PIECES_MAX + 1))):
            world.change()
        others = chance.sample(world.reserved, chance.randint(0, len(world.reserved)))
        at, length = NOW + chance.randint(0, 900) * instant.SECOND, chance.randint(1, 600) * instant.SECOND
        assert (book.left(at, nodes, others) == world.free(at, others)).all(), seed
        assert (book.window(at, length, others) == world.through(at, length, others)).all(), seed
        gang = chance.choice(world.waiting)
        if gang.tasks_in(Status.PENDING):
            shape = book.session.shape(gang.tasks_in(Status.PENDING)[0])
            for asked in [(shape, at, others), *asked_before[:1]]:  # once more what was asked before things changed
                check_limit(world, *asked)
            asked_before.insert(0, (shape, at, others))
            moments = sorted({*book.profile.ends(), at, NOW})
            expected = [
                each
                for each in moments
                if all(
                    book.is_enough(gang, world.free(moment, others))
                    for moment in (each, *(other.time for other in others if each < other.time < each + length))
                )
            ]
            assert book.sufficient(gang, moments, length, others) == expected, seed


def check_limit(world, shape, end, others):
    """Where reservations begin before the end, as many as are left beside them."""
    expected = np.full(world.count, MANY)
    for each in others:
        if each.time < end:
            left = shape.copies(world.free(each.time, others))
            expected[each.nodes] = np.minimum(expected[each.nodes], left[each.nodes])
    if any(each.time < end for each in others):
        assert (world.book.timeline.limit(shape, end, others) == expected).all()


def test_whatever_changes_the_rows_are_what_adding_up_gives(rounds):
    rounds(given(seed=st.integers(0, 2**32))(check), examples=60)
