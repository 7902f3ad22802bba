"""Reservations in thousands of random worlds under virtual time: nobody who passes makes anybody later, and times are kept."""

import functools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import textbook
from tests.unit.scheduling.clusters import (
    DAY,
    a_group,
    a_hyper_node,
    a_node,
    a_pod,
    a_priority_class,
    a_queue,
    flat,
    policy,
)

from pumice import instant
from pumice.api import changes
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin
from pumice.scheduling.core.codes import Code
from pumice.scheduling.time import reservations
from pumice.scheduling.time.forward import Forward
from pumice.sim import Submission, nodes, simulate

ESTIMATE = "pumice.dev/running-estimate"
MANY = 1000
seeds = st.integers(0, 2**32)


def hpc(depth, *plugins, **arguments):
    own = {"name": "reservation", "arguments": {"depth": depth, "patience": "0s", **arguments}}
    return policy("enqueue, allocate, backfill", ["priority", "gang", own], ["predicates", *plugins])


class World:
    """Nodes, queues and gangs with true estimates, drawn from one seed."""

    def __init__(self, seed, *, slots=(1,), queues=1, capped=False, racks=False, mixed=False, ranks=False):
        self.chance = chance = random.Random(seed)
        self.seed = seed
        count = chance.randint(2, 8)
        self.sizes = [chance.choice(slots) for _ in range(count)]
        self.nodes = [
            a_node(f"n{number}", cpu=str(size), memory="64Gi", labels={"kind": chance.choice("ab")})
            for number, size in enumerate(self.sizes)
        ]
        self.slots = sum(self.sizes)
        self.racks = []
        if racks:
            half = count // 2 or 1
            self.racks = [
                a_hyper_node("left", 1, nodes=[f"n{number}" for number in range(half)]),
                a_hyper_node("right", 1, nodes=[f"n{number}" for number in range(half, count)]),
                a_hyper_node("top", 2, children=["left", "right"]),
            ]
        limit = [{"cpu": str(chance.randint(1, self.slots))} if capped else None for _ in range(queues)]
        self.queues = [a_queue(f"q{number}", capability=limit[number]) for number in range(queues)]
        self.ranks = ranks
        self.jobs = sorted(self._job(slots) for _ in range(chance.randint(2, 14)))
        self.gangs = [self._gang(number, *job, racks=racks, mixed=mixed) for number, job in enumerate(self.jobs)]

    def _job(self, slots):
        size = self.chance.randint(1, self.slots if max(slots) == 1 else max(1, self.slots // 2))
        return self.chance.randint(0, 40), size, self.chance.randint(1, 30)

    def _gang(self, number, at, size, length, *, racks, mixed):
        chance, name = self.chance, f"g{number:03}"
        more, pods = {}, {}
        if racks and chance.random() < 0.6:
            more["spec"] = {"networkTopology": {"mode": "hard", "highestTierAllowed": chance.choice((1, 2))}}
        if mixed and chance.random() < 0.3:
            pods["spec"] = {"nodeSelector": {"kind": chance.choice("ab")}}
        if mixed and chance.random() < 0.2:
            pods["spec"] = {
                **pods.get("spec", {}),
                "containers": [
                    {
                        "name": "main",
                        "ports": [{"hostPort": 80, "containerPort": 80}],
                        "resources": {"requests": {"cpu": "1"}},
                    }
                ],
            }
        if self.ranks and chance.random() < 0.2:
            more["priority_class"] = "high"
        minimum = chance.randint(1, size) if mixed else size
        cpu = chance.choice(("1", "1", "2")) if mixed and "spec" not in pods else "1"
        group = a_group(
            name, minimum, queue=f"q{chance.randrange(len(self.queues))}", created=at, uid=name,
            annotations={ESTIMATE: f"{length}s"}, **more,
        )  # fmt: skip
        members = [a_pod(f"{name}-w-{each}", gang=name, cpu=cpu, created=at, **pods) for each in range(size)]
        return at, length, [group, *members]

    def run(self, rules):
        intake = Intake(Cluster())
        for thing in flat([a_priority_class("high", 9), self.queues, self.nodes, self.racks]):
            intake.apply(changes.Upserted(thing))
        lengths = {f"default/{gang[2][0].metadata.name}": gang[1] for gang in self.gangs}
        ahead = Forward(intake, rules, now=DAY, run_time=lambda gang: lengths[gang] * instant.SECOND)
        for at, _, things in self.gangs:
            ahead.submit(DAY + at * instant.SECOND, functools.partial(list, things))
        yield from ahead.run(DAY + 10**6 * instant.SECOND)


def starts(world, rules):
    found = {}
    for step in world.run(rules):
        for gang in step.started:
            found[gang] = (step.at - DAY) // instant.SECOND
    return [found.get(f"default/g{number:03}") for number in range(len(world.gangs))]


def check_promises(world, rules, *, excused=()):
    """Every reservation is kept: it only becomes earlier, and its gang starts in time; all that is excused has said so."""
    former = {}
    for step in world.run(rules):
        assert not step.decisions.failures, step.decisions.failures[0].trace
        kept = {each.gang: each for each in step.decisions.memory.of(reservations.SLOT).kept}
        for gang, before in former.items():
            if gang in step.started:
                assert step.at <= before.time, (world.seed, gang, when_text(step.at), when_text(before.time))
                continue
            after = kept.get(gang)
            if after is None:
                ended = step.decisions.memory.of(reservations.SLOT).ended.get(gang)
                said = ended.code if ended is not None else None
            else:
                said = after.moved if after.time > before.time else None
                assert after.time > step.at, (world.seed, gang, "should have started by", when_text(before.time))
            if after is None or after.time > before.time:
                was, is_ = when_text(before.time), when_text(after.time) if after is not None else "nothing"
                assert said in excused, f"{world.seed}: {gang} at {when_text(step.at)}: from {was} to {is_}, for {said}"
        former = kept


def when_text(at):
    return (at - DAY) / instant.SECOND


EXCEPTIONS = {Code.RESERVATION_OUTLIVED, Code.RESERVATION_OUTRANKED, Code.RESERVATION_NODE_LOST}
WORLDS = {
    "plain": ({}, ()),
    "large nodes": ({"slots": (1, 2, 4)}, ()),
    "queues": ({"slots": (1, 2), "queues": 3}, ("drf",)),
    "quotas": ({"slots": (1, 2), "queues": 3, "capped": True}, ("capacity", "drf")),
    "topology": ({"slots": (1, 2), "racks": True}, ("network-topology-aware",)),
    "mixed": ({"slots": (2, 4), "mixed": True}, ("nodeorder", "binpack")),
    "everything": (
        {"slots": (1, 2, 4), "queues": 2, "capped": True, "racks": True, "mixed": True},
        ("capacity", "drf", "network-topology-aware", "nodeorder"),
    ),
}


@pytest.mark.parametrize("depth", [1, MANY])
@pytest.mark.parametrize("name", WORLDS)
def test_who_passes_makes_no_reservation_later_and_times_are_kept(rounds, name, depth):
    options, plugins = WORLDS[name]
    rules = hpc(depth, *plugins)
    rounds(given(seed=seeds)(lambda seed: check_promises(World(seed, **options), rules)), examples=30)


# Worlds in which a reservation once moved: kind, depth, seed.
FOUND = {
    "members that a detour had placed were placed again": ("everything", MANY, 171),
    "own places that filters would have let it into did not count": ("everything", MANY, 184),
}


@pytest.mark.parametrize("story", FOUND)
def test_worlds_in_which_a_promise_was_once_broken(story):
    name, depth, seed = FOUND[story]
    options, plugins = WORLDS[name]
    check_promises(World(seed, **options), hpc(depth, *plugins))


def test_depth_one_is_textbook_easy(rounds):
    def check(seed):
        world = World(seed)
        assert starts(world, hpc(1)) == textbook.easy(world.jobs, world.slots), seed

    rounds(given(seed=seeds)(check), examples=50)


def test_a_large_depth_is_textbook_conservative(rounds):
    def check(seed):
        world = World(seed)
        assert starts(world, hpc(MANY)) == textbook.conservative(world.jobs, world.slots), seed

    rounds(given(seed=seeds)(check), examples=50)


@pytest.mark.parametrize("depth", [1, MANY])
def test_wrong_estimates_and_higher_ranks_move_reservations_only_with_a_reason(rounds, depth):
    """Half of the gangs run longer or shorter than they say, and priorities differ: whatever moves says why."""

    def check(seed):
        world = World(seed, slots=(1, 2), ranks=True)
        chance = random.Random(seed)
        world.gangs = [
            (at, max(1, round(length * chance.choice((0.3, 1, 1, 1.7)))), things) for at, length, things in world.gangs
        ]
        check_promises(world, hpc(depth), excused=EXCEPTIONS)

    rounds(given(seed=seeds)(check), examples=30)


def test_a_policy_whose_plugin_has_nothing_to_do_decides_as_one_without_it(rounds):
    patient, without = (
        hpc(1, "drf", "nodeorder", patience="10000h"),
        policy("enqueue, allocate, backfill", ["priority", "gang"], ["predicates", "drf", "nodeorder"]),
    )

    def check(seed):
        world = World(seed, slots=(1, 2, 4), queues=2, racks=True, mixed=True)
        for one, other in zip(world.run(patient), world.run(without), strict=True):
            assert bound(one) == bound(other), seed
            assert (one.at, one.started, one.ended) == (other.at, other.started, other.ended), seed

    rounds(given(seed=seeds)(check), examples=25)


def bound(step):
    """Every gang that starts, pod by pod, in order."""
    return [(each.gang, [(bind.task.name, bind.node) for bind in each.binds]) for each in step.decisions.commits]


# ------------------------------------------------------------------------------------------------------ the wait of users' complaints


@pytest.mark.parametrize("estimate", ["10m", None])
def test_a_gang_of_64_on_100_gpus_starts_among_small_jobs_that_never_stop_coming(estimate):
    with_, without = (wedge(text, estimate) for text in (builtin.TEXT, WITHOUT))
    assert without is None
    # It waits for 5 minutes before it gets a reservation, and everything that runs then ends within 10.
    assert with_ is not None
    assert with_ <= (5 + 10 + 1) * 60


def test_a_gang_that_was_admitted_for_its_reservation_keeps_both_for_as_long_as_it_takes():
    """Others are kept out meanwhile although there is room for them: but it does not wait in vain, it has a time."""
    small = [Submission(at_s=75 * number, run_s=1200, estimate_s=1200) for number in range(60)]
    outcome = simulate([*small, Submission(at_s=1500, run_s=600, size=10, estimate_s=600)], nodes("4x4"), until_s=4500)
    waited = outcome.runs[-1].wait_s
    assert waited is not None
    assert waited <= 300 + 1200


WITHOUT = builtin.TEXT.replace("  - name: reservation\n    arguments: {patience: 5m}\n", "")
ARRIVES, UNTIL = 15 * 60, 60 * 60


def wedge(text, estimate):
    """How long the gang waited, in seconds; None where it never started. Ten jobs of ten minutes come every minute."""
    intake = Intake(Cluster())
    for thing in (a_queue(), *(a_node(f"n{number}", cpu="64", gpu="10") for number in range(10))):
        intake.apply(changes.Upserted(thing))
    ahead = Forward(intake, builtin.parse(text, "wedge"), now=DAY, run_time=lambda _: 10 * instant.MINUTE)
    notes = {ESTIMATE: estimate} if estimate else {}
    for minute in range(UNTIL // 60):
        for number in range(12):
            at, name = minute * 60, f"small-{minute:03}-{number:02}"
            ahead.submit(DAY + at * instant.SECOND, functools.partial(a_small_gang, name, 1, at, notes))
    ahead.submit(DAY + ARRIVES * instant.SECOND, lambda: a_small_gang("large", 64, ARRIVES, notes))
    for step in ahead.run(DAY + UNTIL * instant.SECOND):
        if "default/large" in step.started:
            return (step.at - DAY) // instant.SECOND - ARRIVES
    return None


def a_small_gang(name, size, at, notes):
    minimum = {"cpu": str(size), "nvidia.com/gpu": str(size)}
    group = a_group(name, size, phase="Pending", minimum=minimum, created=at, annotations=notes)
    return [group, *(a_pod(f"{name}-w-{number}", gang=name, gpu="1", created=at) for number in range(size))]
