"""What a run ahead leaves out, and what it carries along, decides nothing: the same gangs start at the same time on the same nodes as without.

Here every instant has a cycle with all plugins, actions and explanations, over a cluster that is listed anew from its objects.
"""

import random

import pytest
from hypothesis import example, given, note
from hypothesis import strategies as st
from tests.unit.scheduling.clusters import a_priority_class

from pumice.api.changes import Claimed, Evicting, PodRef, Upserted
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import cycle
from pumice.scheduling.plugins import fragmentation
from pumice.scheduling.sharing import decayed_usage
from pumice.scheduling.time.forward import NOTHING_DECIDED, Forward
from pumice.sim import Submission, nodes, simulation
from pumice.sim.policies import NAMED

JOBS = 18
CROWD = 60
QUIET = 30
PACKED = 50
STEPS_MAX = 2_000  # of one run; evictions to and fro would go on for ever


def relisted(intake):
    """The same cluster as a process would find it that has just started."""
    held, cluster = intake.held, intake.cluster
    fresh = Intake(Cluster())
    groups = [slot.group for slot in cluster.gangs.values() if slot.group is not None]
    machines = [slot.node for slot in cluster.nodes.values() if slot.node is not None]
    others = [each for table in cluster.others.values() for each in table.values()]
    for thing in (*others, *held.queues.values(), *machines, *groups, *held.pods.values()):
        fresh.apply(Upserted(thing))
    for claim in cluster.claims.values():
        fresh.apply(Claimed(claim))
    for uid in held.evicting:
        pod = held.pods[uid]
        fresh.apply(Evicting(pod=PodRef.of(pod.metadata), node=pod.spec.node_name, at=0))
    return fresh.cluster.snapshot()


class Thorough(Forward):
    """Without any short cut."""

    def __init__(self, *args, **settings):
        super().__init__(*args, **{**settings, "backlog": None, "direct": None})

    def _is_idle(self):
        return False

    def _plan(self, *, idle, passed_over=()):
        assert not idle
        assert not passed_over
        return cycle.plan(relisted(self.intake), self.policy, self.memory, now=self.now)


class Doubting(Forward):
    """Plans each idle cycle a second time, in full."""

    def _plan(self, *, idle, passed_over=()):
        decided = super()._plan(idle=idle, passed_over=passed_over)
        if idle:
            full = cycle.plan(relisted(self.intake), self.policy, self.memory, now=self.now)
            decisions = (full.commits, full.evictions, full.claims, full.releases, full.notices, full.admitted)
            assert not any(decisions)
            assert (full.memory, full.next_change) == (decided.memory, decided.next_change)
            told = {key: report.phase for key, report in decided.gangs.items()}
            assert {key: full.gangs[key].phase for key in told} == told
            assert all(full.gangs[key].phase == written_phase(self, key) for key in full.gangs.keys() - told.keys())
        return decided


def written_phase(ahead, key):
    return ahead.cluster.gangs[key].group.status.phase


def a_workload(seed):
    chance = random.Random(seed)
    room = chance.choice((8, 12, 16))
    work, at_s = [], 0.0
    for _ in range(JOBS):
        at_s += chance.choice((0, 1, 3, 60, 600)) * chance.random()
        run_s = round(chance.choice((30, 300, 3000)) * (0.5 + chance.random()))
        size = min(chance.choice((1, 1, 2, 3, 4, 8)), room)
        work.append(
            Submission(
                at_s=round(at_s, 1), run_s=run_s, size=size, minimum=chance.choice((None, None, 1)),
                estimate_s=chance.choice((None, run_s, 2 * run_s)), user=chance.choice(("ann", "bob", "")),
                queue=chance.choice(("default", "other")), priority_class=chance.choice(("", "", "", "high")),
            )
        )  # fmt: skip
    return work, f"{room // 4}x4"


def a_crowd(seed, queues):
    """Most of the time, gangs of all sizes wait; some are larger than the cluster, or one of their pods is larger than a node.

    In every other crowd, some have a priority, or may start with fewer members.
    """
    chance = random.Random(seed)
    minimums, high = chance.choice((((None,), 0), ((None, None, None, 1), 0.05)))
    work, at_s = [], 0.0
    for _ in range(CROWD):
        at_s += chance.choice((0, 0, 1, 30, 200)) * chance.random()
        run_s = round(chance.choice((30, 300, 1000)) * (0.5 + chance.random()))
        size, slots = chance.choice(((1, 1), (1, 1), (1, 3), (2, 2), (3, 1), (3, 3), (8, 1), (12, 1)))
        if chance.random() < 0.02:
            size, slots = chance.choice(((17, 1), (1, 5)))
        work.append(
            Submission(
                at_s=round(at_s, 1), run_s=run_s, size=size, slots=slots, minimum=chance.choice(minimums),
                estimate_s=chance.choice((None, run_s, 2 * run_s, run_s // 2)), queue=chance.choice(queues),
                priority_class="high" if chance.random() < high else "",
            )
        )  # fmt: skip
    chance.shuffle(work)  # names are not in the order of submission
    return work, "4x4"


def a_quiet_time(seed):
    """Most gangs find room as they come, some at the same instant; now and then one has to wait. In every other one some have a priority, or may start with fewer members."""
    chance = random.Random(seed)
    minimums, high = chance.choice((((None,), 0), ((None, None, None, 1), 0.05)))
    queues = chance.choice((["default"], ["b", "a"]))
    pace, work, at_s = chance.choice((100, 300, 900)), [], 0.0
    for _ in range(QUIET):
        at_s += chance.choice((0, 0.2, 1, 3)) * pace * chance.random()
        run_s = round(chance.choice((30, 300, 1000)) * (0.5 + chance.random()))
        size, slots = chance.choice(((1, 1), (1, 1), (1, 3), (2, 2), (3, 1), (3, 3), (8, 1), (12, 1)))
        work.append(
            Submission(
                at_s=round(at_s, 1), run_s=run_s, size=size, slots=slots, minimum=chance.choice(minimums),
                estimate_s=chance.choice((run_s, 2 * run_s, run_s // 2)), queue=chance.choice(queues),
                user=chance.choice(("ann", "bob", "")), priority_class="high" if chance.random() < high else "",
            )
        )  # fmt: skip
    return work, "4x4"


def a_packed_time(seed):
    """Gangs of all sizes wait most of the time, all with an estimate, which some outlive; some are larger than the cluster."""
    chance = random.Random(seed)
    nodes_each = chance.choice(("4x4", "2x8", "12x1", "5x3"))
    queues = chance.choice((["default"], ["default"], ["b", "a"]))
    of_all = chance.choice(((1, 1), (1, 1, 1), (1, 2, 3), (2, 2)))
    pace, wrong, work, at_s = chance.choice((20, 60, 150)), chance.choice((0, 0.5, 0.8)), [], 0.0
    for _ in range(PACKED):
        at_s += chance.choice((0, 0.5, 0.5, pace / 5, pace, 3 * pace)) * chance.random()
        run_s = round(chance.choice((30, 300, 300, 1000)) * (0.5 + chance.random()), chance.choice((0, 0, 1)))
        off = chance.choice((0.2, 0.5, 0.9, 1.5, 4)) if chance.random() < wrong else 1
        size, slots = chance.choice((1, 1, 1, 2, 3, 4, 6, 9, 12)), chance.choice(of_all)
        if chance.random() < 0.02:
            size = 17
        work.append(
            Submission(
                at_s=round(at_s, 1), run_s=run_s, size=size, slots=slots, estimate_s=run_s * off,
                queue=chance.choice(queues), user=chance.choice(("ann", "bob", "")),
            )
        )  # fmt: skip
    chance.shuffle(work)  # names are not in the order of submission
    return work, nodes_each


def story(kind, policy, seed, monkeypatch, workload=None, learned=None):
    """What happened; and in `learned`, by instant, what plugins knew after a cycle."""
    work, cluster = workload or a_workload(seed)
    named = NAMED[policy]
    with monkeypatch.context() as patch:
        patch.setattr(simulation, "Forward", kind)
        run = simulation.Simulation(
            work, nodes(cluster), policy=named.text, source=policy, strict=named.strict, others=[a_priority_class("high", 9)]
        )  # fmt: skip
    found = []
    for number, step in enumerate(run.steps()):
        binds = [(f"{each.ask.gang}-w-{n}", node) for each in step.direct for n, node in enumerate(each.nodes)]
        binds += [(bind.task.key, bind.node) for commit in step.decisions.commits for bind in commit.binds]
        victims = [(each.task.key, each.rule, each.claimant) for each in step.decisions.evictions]
        if step.ended or step.restarted or step.started or binds or victims:
            found.append((step.at, step.ended, step.restarted, step.started, binds, victims))
        if learned is not None and step.decisions is not NOTHING_DECIDED:
            learned[step.at] = [run.ahead.memory.of(slot) for slot in (decayed_usage.SLOT, fragmentation.SLOT)]
        if number >= STEPS_MAX:
            break
    return found


@pytest.mark.parametrize("policy", [name for name, policy in NAMED.items() if not policy.pod_by_pod])
def test_a_run_ahead_goes_as_it_would_without_any_short_cut(rounds, monkeypatch, policy):
    @given(st.integers(0, 2**32))
    def holds(seed):
        note(f"seed {seed}")
        short, thorough = (story(kind, policy, seed, monkeypatch) for kind in (Forward, Thorough))
        assert short  # one by one, gangs may wedge: then not all of them start
        assert short == thorough

    rounds(holds, 3)


@pytest.mark.parametrize(("policy", "queues"), [("fifo", ["default"]), ("fifo", ["a", "b"]), ("easy", ["default"])])
def test_gangs_that_are_held_back_start_when_and_where_they_would_if_every_cycle_saw_them(
    rounds, monkeypatch, policy, queues
):
    @given(st.integers(0, 2**32))
    def holds(seed):
        note(f"seed {seed}")
        workload = a_crowd(seed, queues)
        short, thorough = (story(kind, policy, seed, monkeypatch, workload) for kind in (Forward, Thorough))
        assert short == thorough

    rounds(holds, 3)


@pytest.mark.parametrize(
    ("policy", "queues"), [("conservative", ["default"]), ("builtin", ["default"]), ("builtin", ["a", "b"])]
)
def test_gangs_that_numbers_refuse_start_when_and_where_they_would_if_each_were_tried(
    rounds, monkeypatch, policy, queues
):
    @given(st.integers(0, 2**32))
    def holds(seed):
        note(f"seed {seed}")
        work, cluster = a_crowd(seed, queues)
        short, thorough = (story(kind, policy, seed, monkeypatch, (work[:24], cluster)) for kind in (Forward, Thorough))
        assert short == thorough

    rounds(holds, 2)


@pytest.mark.parametrize("policy", [name for name, policy in NAMED.items() if not policy.pod_by_pod])
def test_gangs_that_start_without_a_cycle_start_when_and_where_a_cycle_would_start_them(rounds, monkeypatch, policy):
    """And what plugins learn from each start and end is the same to the last digit."""
    direct = []

    class Watched(Forward):
        def _start_directly(self, asking, *, is_news):
            found = super()._start_directly(asking, is_news=is_news)
            direct.extend(found[0] or ())
            return found

    @given(st.integers(0, 2**32))
    @example(9)  # gangs start without a cycle in it, whatever the policy
    def holds(seed):
        note(f"seed {seed}")
        workload, learned, known = a_quiet_time(seed), {}, {}
        short = story(Watched, policy, seed, monkeypatch, workload, learned)
        assert short == story(Thorough, policy, seed, monkeypatch, workload, known)
        assert learned == {at: known[at] for at in learned}

    rounds(holds, 3)
    assert direct


@pytest.mark.parametrize("policy", ["builtin", "greedy", "volcano", "easy", "fair-share"])
def test_gangs_that_wait_beside_a_session_that_stays_open_start_when_and_where_cycles_would_start_them(
    rounds, monkeypatch, policy
):
    """And what plugins have learned when they close."""

    @given(st.integers(0, 2**32))
    @example(1)  # gangs of two queues wait when a session opens
    def holds(seed):
        note(f"seed {seed}")
        workload, learned, known = a_packed_time(seed), {}, {}
        short = story(Forward, policy, seed, monkeypatch, workload, learned)
        assert short == story(Thorough, policy, seed, monkeypatch, workload, known)
        assert learned == {at: known[at] for at in learned}

    rounds(holds, 2)


def test_a_gang_that_has_ended_while_others_start_without_a_cycle_is_gone_before_the_next_one(monkeypatch):
    """The first was started by a cycle, and ends shortly before the last one: the usage that the cycle at 200 s finds must not hold it for longer."""
    runs = ((0, 100, None), (10, 90.2, None), (200, 50, 1))
    work = [Submission(at_s=at_s, run_s=run_s, size=2, minimum=least, estimate_s=run_s) for at_s, run_s, least in runs]
    learned, known = {}, {}
    short = story(Forward, "fair-share", 0, monkeypatch, (work, "4x4"), learned)
    assert short == story(Thorough, "fair-share", 0, monkeypatch, (work, "4x4"), known)
    assert learned == {at: known[at] for at in learned}


@pytest.mark.parametrize("policy", ["builtin", "greedy", "fair-share"])
def test_an_idle_cycle_learns_and_tells_what_a_full_one_does(rounds, monkeypatch, policy):
    @given(st.integers(0, 2**32))
    def holds(seed):
        note(f"seed {seed}")
        story(Doubting, policy, seed, monkeypatch)

    rounds(holds, 3)
