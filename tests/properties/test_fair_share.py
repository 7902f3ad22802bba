"""Fair share over time: simulated weeks, newcomers, restarts, and guarantees that no order takes away."""

import math
import random

import msgspec
import numpy as np
import pytest
from bench.shares import FAIR, deviations, workload
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.properties.worlds import World
from tests.unit.scheduling.clusters import NOW, a_cluster, a_gang, a_node, a_queue, policy

from pumice import instant
from pumice.api import changes, names
from pumice.api.pods import ContainerState, ContainerStateTerminated, ContainerStatus
from pumice.cluster import amounts
from pumice.cluster.intake import Intake
from pumice.scheduling.core import builtin
from pumice.scheduling.core.cycle import plan
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.sharing.decayed_usage import SLOT, Decay, usage_at
from pumice.sim import Submission, nodes, simulate

ALONE = policy("enqueue, allocate", "priority gang", "fairshare predicates")
BUILT_IN = builtin.parse(builtin.TEXT, "built-in policy")
HOUR = 3600
STEP_S, CPUS = 20.0, 40
LATE_S = 3.0  # so long at most until a cycle knows what has started or ended


@pytest.mark.parametrize(("queues", "cluster", "seed"), [(2, "2x8", 11), (6, "4x8", 12)])
def test_over_a_week_of_bursts_queues_use_what_their_weights_say(queues, cluster, seed):
    weights, work = workload(queues, days=7, cluster=cluster, seed=seed)
    outcome = simulate(work, nodes(cluster), queues=weights, policy=FAIR, until_s=7 * 24 * HOUR)
    worst = max(map(abs, deviations(outcome, weights, days=7).values()))
    assert worst <= 0.02, f"seed {seed}"


def test_a_newcomers_first_job_waits_no_longer_than_one_job_of_the_crowd():
    crowd = [Submission(at_s=0, run_s=HOUR, queue="q", user="ann") for _ in range(2000)]
    first = Submission(at_s=2.5 * HOUR, run_s=HOUR, queue="q", user="bob")
    outcome = simulate([*crowd, first], nodes("1x8"), queues={"q": 1}, policy=FAIR, until_s=4 * HOUR)
    assert outcome.runs[-1].wait_s is not None
    assert outcome.runs[-1].wait_s <= HOUR


# ------------------------------------------------------------------------------------------------------ restarts


def _jobs(chance, count):
    return [
        (
            chance.uniform(0, 900),  # starts
            chance.uniform(30, 600),  # runs
            a_gang(f"g{number}", 1, cpu=str(chance.randint(1, 4)), running=["n1"],
                   group={"annotations": {names.SUBMITTED_BY: f"u{number % 3}"}},
                   status={"startTime": None}),
        )
        for number in range(count)
    ]  # fmt: skip


def _death(chance):
    """When the scheduler is killed, how old is then what it had last stored, and after how long the next one begins."""
    return chance.uniform(60, 900), chance.uniform(0, 60), chance.uniform(0.5, 20)


@pytest.mark.parametrize("seed", range(6))
def test_a_restart_changes_usage_by_no_more_than_a_minute_of_what_was_held(seed):
    chance = random.Random(seed)
    jobs, (killed_s, lost_s, pause_s) = _jobs(chance, 8), _death(chance)

    def cycles(memory, since, until, step=STEP_S):
        at = since
        while at <= until:
            memory = plan(_at(jobs, at), ALONE, memory, now=NOW + round(at * instant.SECOND)).memory
            at += step
        return memory

    whole = cycles(EMPTY, 0, 1000)
    stored = cycles(EMPTY, 0, killed_s - lost_s)
    again = cycles(stored, killed_s + pause_s, 1000)
    ends = NOW + 1000 * instant.SECOND
    one, other = (
        usage_at(each.of(SLOT), ends, Decay(168 * instant.HOUR), lambda _: {}, lambda _: 0.0) for each in (whole, again)
    )
    gap_s = lost_s + pause_s + 2 * STEP_S
    for queue, user in one.keys() | other.keys():
        own = [pod for _, _, (group, pod) in jobs if user in {"", group.metadata.annotations[names.SUBMITTED_BY]}]
        most = sum(_cpus(pod) for pod in own) / CPUS
        assert abs(one.get((queue, user), 0.0) - other.get((queue, user), 0.0)) <= gap_s * most, f"seed {seed}: {user}"


@pytest.mark.parametrize("seed", range(12))
def test_a_restart_loses_nothing_of_pods_that_have_objects(seed):
    """As above, but pods that ended stay, as Jobs leave them: each counts from the second it was bound to that of its end."""
    chance = random.Random(seed)
    jobs, (killed_s, lost_s, pause_s) = _jobs(chance, 8), _death(chance)
    memory = EMPTY
    for at in [*np.arange(0, killed_s - lost_s, STEP_S), *np.arange(killed_s + pause_s, 1600, STEP_S)]:
        seen = _at(jobs, at - chance.uniform(0, LATE_S), leaves=True)
        memory = plan(seen, ALONE, memory, now=NOW + round(at * instant.SECOND)).memory
    for user in ("u0", "u1", "u2"):
        own = [job for number, job in enumerate(jobs) if f"u{number % 3}" == user]
        held = sum((int(start + length) - int(start)) * _cpus(pod) / CPUS for start, length, (_, pod) in own)
        most = sum(_cpus(pod) for _, _, (_, pod) in own) / CPUS
        found = memory.of(SLOT).users["default"][user][0]
        decayed = held * (1 - math.exp2(-1600 / (168 * HOUR)))
        # A cycle may come after the second that a pod tells, and before the pod is seen to have started or ended: by then that second
        # and the delay are not charged, or charged too much. No length of a gap between cycles adds to that.
        assert abs(found - held) <= (1 + LATE_S) * most + decayed, f"seed {seed}: {user}"


def _cpus(pod):
    return int(pod.spec.containers[0].resources.requests["cpu"])


def _at(jobs, at_s, *, leaves=False):
    """The cluster at a time: the jobs that run, with their starts, and where Jobs leave them those that ended."""
    running = []
    for start, length, (group, pod) in jobs:
        began, ended = (  # in whole seconds, rounded down, as Kubernetes writes them
            instant.format_instant(NOW + int(each) * instant.SECOND) for each in (start, start + length)
        )
        if start <= at_s < start + length:
            running.append([group, _with(pod, start_time=began)])
        elif leaves and start + length <= at_s:
            running.append([group, _ended(pod, began, ended)])
    return a_cluster(a_node("n1", cpu=str(CPUS)), running).snapshot()


def _with(pod, **status):
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **status))


def _ended(pod, began, ended):
    state = ContainerState(terminated=ContainerStateTerminated(finished_at=ended))
    return _with(pod, start_time=began, phase="Succeeded", container_statuses=(ContainerStatus(state=state),))


# ------------------------------------------------------------------------------------------------------ guarantees


def _held(cluster):
    found = {}
    for gang in cluster.snapshot().gangs.values():
        amounts.add(found.setdefault(gang.spec.queue, {}), gang.occupied)
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0, 1e5), st.floats(0, 1e5))
def test_what_is_guaranteed_to_a_queue_is_never_given_to_another(seed, used, others):
    """Whatever has been used: of a cluster that is empty, a queue that wants its guarantee has it after one cycle."""
    chance = random.Random(seed)
    cpus = chance.randint(4, 12)
    guaranteed = chance.randint(1, cpus)
    crowd = [a_gang(f"c{number}", 1, group={"queue": "crowd"}) for number in range(2 * cpus)]
    due = [a_gang(f"d{number}", 1, group={"queue": "due"}, created=9) for number in range(guaranteed)]
    share = {"cpu": str(guaranteed)}
    queues = a_queue("crowd", weight=chance.randint(1, 9)), a_queue("due", guarantee=share, deserved=share)
    memory = Memory({SLOT.name: SLOT.type(NOW, {"due": (used, 0.0), "crowd": (others, 0.0)})})
    cluster = a_cluster(a_node("n1", cpu=str(cpus)), *queues, crowd, due)
    started = [commit.gang for commit in plan(cluster.snapshot(), BUILT_IN, memory, now=NOW).commits]
    assert sum(key.startswith("default/d") for key in started) == guaranteed, f"seed {seed}"


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 4), st.integers(1, 8))
def test_chains_of_cycles_give_the_same_memory_in_any_order_of_arrival(seed, size, running, waiting):
    world = World(seed, size, running, waiting)
    memories = []
    for order in (0, 1):
        cluster = a_cluster()
        intake = Intake(cluster)
        for thing in world.shuffled(order):
            intake.apply(changes.Upserted(thing))
        memory = EMPTY
        for step in range(3):
            memory = plan(cluster.snapshot(), BUILT_IN, memory, now=NOW + step * 30 * instant.SECOND).memory
        memories.append(SLOT.encode(memory.of(SLOT)))
    assert memories[0] == memories[1], repr(world)
