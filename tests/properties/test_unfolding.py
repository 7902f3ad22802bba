"""Cycle after cycle, with every decision carried out: plans come true, and the cluster comes to rest."""

import pytest
from hypothesis import given
from tests.properties.test_cycle import POLICIES, RULES, Outcome, counts
from tests.properties.worlds import worlds
from tests.unit.scheduling.clusters import NOW

from pumice import instant
from pumice.api.changes import Claimed, Deleted, Evicting, PodRef, Unclaimed, Upserted
from pumice.api.pods import Pod
from pumice.api.scheduling import PodGroup
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster

BETWEEN_CYCLES = 10 * instant.SECOND


class Unfolding:
    """A cluster in which binds succeed at once, evicted pods leave before the next cycle, and their owners make new ones."""

    def __init__(self, world, chosen):
        self.chosen = chosen
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        self.now = NOW
        self.generation = 0
        for thing in world.objects:
            self.intake.apply(Upserted(thing))

    def cycle(self):
        outcome = Outcome(self.cluster, self.chosen, now=self.now)
        decisions = outcome.decisions
        for key, report in decisions.gangs.items():
            slot = self.cluster.gangs[key]
            if isinstance(slot.group, PodGroup):
                self.see(slot.group, status=replaced(slot.group.status, phase=report.phase))
        for bind in outcome.binds:
            pod = bind.task.pod
            self.see(pod, spec=replaced(pod.spec, node_name=bind.node), status=replaced(pod.status, phase="Running"))
        for eviction in decisions.evictions:
            task = eviction.task
            self.intake.apply(Evicting(PodRef.of(task.pod.metadata), task.node, self.now, eviction.claimant))
        for claim in decisions.claims:
            self.intake.apply(Claimed(claim))
        for gang in decisions.unclaims:
            self.intake.apply(Unclaimed(gang))
        for task in [task for task in self.cluster.tasks.values() if task.status.text == "Releasing"]:
            self.start_over(task.pod)
        self.cluster.check()
        self.now += BETWEEN_CYCLES
        return outcome

    def see(self, thing, **fields):
        self.intake.apply(Upserted(replaced(thing, **fields)))

    def start_over(self, pod):
        """The pod is gone, and its owner has made another one of the same name."""
        self.generation += 1
        self.intake.apply(Deleted(pod))
        meta = replaced(pod.metadata, uid=f"{pod.metadata.key}#{self.generation}", deletion_timestamp=None)
        spec, status = replaced(pod.spec, node_name=""), replaced(pod.status, phase="Pending")
        self.intake.apply(Upserted(Pod(metadata=meta, spec=spec, status=status)))


def replaced(struct, **fields):
    return type(struct)(**{name: fields.get(name, getattr(struct, name)) for name in struct.__struct_fields__})


@pytest.mark.parametrize("name", ["built in", "capacity"])
def test_every_cycle_of_many_keeps_to_the_rules_and_the_cluster_comes_to_rest(rounds, name):
    """Nobody evicts whoever evicted him: after a while there is nothing left to do, or only waiting for others to finish."""

    @given(worlds())
    def holds(world):
        unfolding = Unfolding(world, POLICIES[name])
        outcomes = [unfolding.cycle() for _ in range(12)]
        for outcome in outcomes:
            for rule in RULES:
                rule(outcome)
        for outcome in outcomes[-3:]:
            assert outcome.victims == []
            assert outcome.binds == []

    rounds(holds, 25)


def test_a_gang_for_which_others_left_starts_in_the_next_cycle(rounds):
    @given(worlds())
    def holds(world):
        unfolding = Unfolding(world, POLICIES["built in"])
        first, second = unfolding.cycle(), unfolding.cycle()
        bound = {bind.task for bind in second.binds}
        for key in {eviction.claimant for eviction in first.decisions.evictions}:
            gang = second.snapshot.gangs[key]
            passed = any(second.snapshot.gangs[task.gang].spec.priority > gang.spec.priority for task in bound)
            depends_on_others = any(task.terms is not None for task in gang.tasks)
            if not passed and not depends_on_others:
                assert sum(counts(task, bound) for task in gang.tasks) >= gang.spec.min_member
                assert any(task.gang == key for task in bound)

    rounds(holds, 60)
