"""What is carried from cycle to cycle saves work and decides nothing: each cycle says what one would say that starts from nothing."""

import random

import msgspec
import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.properties.test_cycle import POLICIES
from tests.properties.worlds import worlds
from tests.unit.scheduling.clusters import NOW, a_cluster, a_queue

from pumice import instant
from pumice.api.changes import Deleted, Upserted
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup, Queue
from pumice.cluster.intake import Intake
from pumice.scheduling.core import cycle
from pumice.scheduling.core.memory import EMPTY

STEPS = 6


def replaced(thing, **changes):
    return msgspec.structs.replace(thing, **changes)


def run_on(pod, node):
    status = replaced(pod.status, phase="Running", start_time="2026-01-01T00:00:30Z")
    return replaced(pod, spec=replaced(pod.spec, node_name=node), status=status)


def changed(thing, chance, nodes):
    """The object as it may be a moment later; None where it is gone."""
    if chance.random() < 0.2:
        return None
    if isinstance(thing, Pod):
        if chance.random() < 0.6:
            return run_on(thing, thing.spec.node_name or chance.choice(nodes))
        return replaced(thing, status=replaced(thing.status, phase=chance.choice(("Succeeded", "Failed", "Running"))))
    if isinstance(thing, PodGroup):
        if chance.random() < 0.5:
            phase = chance.choice(("Running", "Running", "Inqueue", "Pending"))
            return replaced(thing, status=replaced(thing.status, phase=phase))
        queue, least = chance.choice(("q0", "q1", "nowhere")), chance.randint(0, 3)
        return replaced(thing, spec=replaced(thing.spec, queue=queue, min_member=least))
    if isinstance(thing, Queue):
        return replaced(thing, spec=replaced(thing.spec, weight=chance.randint(1, 9)))
    return thing


class Life:
    """A cluster to which things happen; what was deleted may come back."""

    def __init__(self, world, seed):
        self.chance = random.Random(seed)
        self.objects = list(world.objects)
        self.cluster = a_cluster(a_queue("q9"))
        self.intake = Intake(self.cluster)
        for each in self.objects:
            self.intake.apply(Upserted(each))
        self.nodes = [each.metadata.name for each in world.objects if isinstance(each, Node)]

    def step(self):
        for place in self.chance.sample(range(len(self.objects)), min(len(self.objects), self.chance.randint(0, 6))):
            thing = self.objects[place]
            later = changed(thing, self.chance, self.nodes)
            if later is None:
                self.intake.apply(Deleted(thing))
                meta = replaced(thing.metadata, uid=f"{thing.metadata.uid}+")
                self.objects[place] = replaced(thing, metadata=meta)  # if it comes back, it is another one
            else:
                self.objects[place] = later
                self.intake.apply(Upserted(later))
        return self.cluster.snapshot()


@pytest.mark.parametrize("name", POLICIES)
def test_a_cycle_says_what_one_without_a_past_would_say(rounds, name):
    @given(worlds(), st.integers(0, 2**32))
    def holds(world, seed):
        note(f"seed {seed}")
        life, memory, now = Life(world, seed), EMPTY, NOW
        for _ in range(STEPS):
            snapshot = life.step()
            carried = cycle.plan(snapshot, POLICIES[name], memory, now=now)
            fresh = cycle.plan(msgspec.structs.replace(snapshot, carried={}), POLICIES[name], memory, now=now)
            assert repr(carried) == repr(fresh)
            memory, now = carried.memory, now + life.chance.choice((1, 60, 3600)) * instant.SECOND

    rounds(holds, 25)
