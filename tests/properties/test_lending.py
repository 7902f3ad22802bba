"""Shares and whole gangs: what the built-in policy lends beyond shares, and that finite work always ends."""

import itertools
import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, a_queue

from pumice.scheduling.core import builtin
from pumice.scheduling.core.cycle import plan
from pumice.scheduling.core.memory import EMPTY
from pumice.sim import Submission, nodes, simulate
from pumice.sim.policies import NAMED

GPU = "nvidia.com/gpu"
LENDING = builtin.parse(builtin.TEXT, "built-in policy")
WITHIN = builtin.parse(builtin.TEXT.replace("lend, ", ""), "shares only")


WITHOUT_EVICTIONS = builtin.TEXT.replace("preempt, reclaim, ", "")  # they look again every few seconds, which is slow


class Division:
    """Queues of random weights and guarantees, and gangs of one-card pods on one machine."""

    def __init__(self, seed):
        chance = random.Random(seed)
        self.cards = chance.randint(4, 16)
        self.names = [f"q{number}" for number in range(chance.randint(2, 5))]
        self.guarantees = dict.fromkeys(self.names, 0)
        if chance.random() < 0.5:
            self.guarantees[chance.choice(self.names)] = chance.randint(1, self.cards // 2)
        self.queues = [
            a_queue(name, weight=chance.randint(1, 4), guarantee={GPU: str(own)} if own else None)
            for name, own in self.guarantees.items()
        ]
        self.sizes, self.queue_of, self.running = {}, {}, set()
        free = self.cards
        for number in range(chance.randint(1, 9)):
            name, size = f"g{number}", chance.randint(1, self.cards)
            self.sizes[name], self.queue_of[name] = size, chance.choice(self.names)
            if size <= free and chance.random() < 0.2:
                self.running.add(name)
                free -= size

    def gangs(self):
        for number, (name, size) in enumerate(self.sizes.items()):
            where = {"running": ["n1"] * size} if name in self.running else {}
            phase = "Running" if where else "Inqueue"
            yield a_gang(name, size, gpu="1", created=number, group={"queue": self.queue_of[name], "phase": phase}, **where)  # fmt: skip

    def plan(self, policy):
        machine = a_node("n1", cpu="64", gpu=str(self.cards))
        cluster = a_cluster(machine, self.queues, list(self.gangs()))
        return plan(cluster.snapshot(), policy, EMPTY, now=NOW)

    def held(self, gangs, queue):
        return sum(self.sizes[name] for name in gangs if self.queue_of[name] == queue)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6))
@example(2785)  # reclaim claims four free cards beside one that is left
def test_what_is_lent_is_less_than_a_gang_a_queue_and_nobodys_guarantee(seed):
    world = Division(seed)
    decisions, strict = world.plan(LENDING), world.plan(WITHIN)
    new = [commit.gang.partition("/")[2] for commit in decisions.commits]
    within = {commit.gang.partition("/")[2] for commit in strict.commits}
    assert within <= set(new), f"seed {seed}: lending keeps somebody from what fits within a share"
    now_held = {*world.running, *new}
    free = world.cards - sum(world.sizes[name] for name in now_held)
    for queue in world.names:
        held, deserved = world.held(now_held, queue), _deserved(decisions, queue)
        unused = sum(max(own - world.held(now_held, other), 0) for other, own in world.guarantees.items() if other != queue)  # fmt: skip
        lent = [name for name in new if name not in within and world.queue_of[name] == queue]
        assert len(lent) <= 1 or held - world.sizes[lent[-1]] < deserved, f"seed {seed}: {queue} was lent {lent}"
        if lent:
            assert held - max(world.sizes[name] for name in lent) < deserved, f"seed {seed}: {queue}"
            assert free >= unused, f"seed {seed}: {queue} was lent what is guaranteed to others"
        room = free - unused - _claimed(decisions)
        _nothing_is_idle_for_nothing(world, queue, now_held, room, deserved, f"seed {seed}: {queue}")


def _nothing_is_idle_for_nothing(world, queue, now_held, room, deserved, where):
    """A queue that has less than its share has no gang waiting that the room which is left would hold."""
    ceiling = world.cards - sum(own for other, own in world.guarantees.items() if other != queue)
    if world.held(now_held, queue) < deserved:
        for name, size in world.sizes.items():
            waits = world.queue_of[name] == queue and name not in now_held
            assert not waits or size > room or world.held(now_held, queue) + size > ceiling, f"{where}: {name}"


def _claimed(decisions):
    """Cards that are free now, and that somebody has beside those that others leave for him."""
    return sum(len(claim.places) - len(claim.victims) for claim in decisions.claims)


def _deserved(decisions, queue):
    figures = decisions.figures.get(queue)
    return 0 if figures is None else figures.deserved.get(GPU, 0) / 1000


@settings(max_examples=5, deadline=None)
@given(st.integers(0, 10**6))
def test_finite_work_ends_whatever_the_shares(seed):
    """No division of the cluster leaves a gang that fits it waiting for ever."""
    chance = random.Random(seed)
    weights = {f"q{number}": chance.randint(1, 4) for number in range(chance.randint(2, 6))}
    work = [
        Submission(
            at_s=chance.randint(0, 3600), run_s=chance.randint(60, 7200),
            size=chance.randint(1, 8), queue=chance.choice(list(weights)),
        )
        for _ in range(25)
    ]  # fmt: skip
    outcome = simulate(work, nodes("1x8"), queues=weights, policy=WITHOUT_EVICTIONS, until_s=30 * 86_400)
    assert outcome.figures["never_ended"] == 0, f"seed {seed}"


# ------------------------------------------------------------------------------------------------------ nothing is idle

IDLE_S_MAX = 90  # victims leave for 30 s, and what a cycle admits or reserves counts for others in the next one


def idle_beside_equal_gangs(seed, policy):
    """How long room for one more of these equal gangs was idle in all, while one waited: queues, weights, users, sizes and lengths by chance."""
    chance = random.Random(seed)
    machines = chance.choice(("1x8", "2x4", "4x2"))
    size = chance.choice((1, 1, 2))
    weights = {f"q{number}": chance.choice((1, 1, 2, 3)) for number in range(chance.randint(1, 3))}
    users, gap, length = chance.choice((1, 2, 3, 7)), chance.choice((5, 20, 60, 150)), chance.choice((300, 1000, 2000))
    work = [
        Submission(
            at_s=number * gap,
            run_s=round(length * chance.choice((1, 1, chance.lognormvariate(0, 0.5)))),
            size=size,
            user=f"u{chance.randrange(users)}",
            queue=chance.choice(list(weights)),
            estimate_s=length,
        )
        for number in range(40)
    ]
    outcome = simulate(work, nodes(machines), policy=policy, queues=weights)
    assert outcome.figures["never_ended"] == 0, f"seed {seed}"
    levels = [*outcome.stranded(), (outcome.figures["makespan_s"], 0)]
    pairs = itertools.pairwise(levels)
    return sum(max(until - since, 0) for (since, slots), (until, _) in pairs if slots >= size)


@pytest.mark.parametrize("name", ["builtin", "greedy"])
@pytest.mark.parametrize("seed", range(12))
def test_no_room_stays_idle_beside_a_gang_that_fits(seed, name):
    """Admitted gangs of queues without a share once kept others out of admission, and cards idle, for half an hour."""
    assert idle_beside_equal_gangs(seed, NAMED[name].text) <= IDLE_S_MAX, f"seed {seed}"
