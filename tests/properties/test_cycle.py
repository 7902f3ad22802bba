"""What every cycle must keep to, on whatever cluster and with whatever policy."""

import collections
import itertools
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties.worlds import World, worlds
from tests.unit.scheduling.clusters import NOW, a_cluster, policy

from pumice import instant
from pumice.api import decoding
from pumice.cluster import amounts
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling import plugins
from pumice.scheduling.core import builtin, cycle, memory
from pumice.scheduling.core.arguments import Args
from pumice.scheduling.core.build_decisions import OWN_MEMORY
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.policy import PluginOption
from pumice.scheduling.core.statement import Eviction, Placement

NO_PREEMPT = {"enablePreemptable": False}
SHARES = "overcommit drf predicates proportion nodeorder binpack"
POLICIES = {
    "built in": builtin.parse(builtin.TEXT, "built-in policy"),
    "ours": policy(
        "enqueue, allocate, preempt, reclaim, backfill",
        ["priority", {"name": "gang", **NO_PREEMPT}, "conformance"],
        ["overcommit", {"name": "drf", **NO_PREEMPT}, "predicates", "proportion", "nodeorder", "binpack"],
    ),
    "volcano": policy("enqueue, allocate, backfill", "priority gang conformance", SHARES),
    "all": policy("enqueue, allocate, backfill, preempt, reclaim", "priority gang conformance", SHARES),
    "evict first": policy("preempt, reclaim, allocate, backfill", "priority gang conformance", "drf predicates proportion"),
    "capacity": policy("enqueue, allocate, preempt, reclaim, backfill", "priority gang conformance", "predicates capacity"),
    "bare": policy("allocate, preempt, reclaim, backfill", "priority gang conformance"),
    "topology aware": policy(
        "allocate, preempt, backfill", "priority gang conformance", "predicates proportion nodeorder",
        configurations=[{"name": "preempt", "arguments": {"enableTopologyAwarePreemption": True}}],
    ),
}  # fmt: skip
every_policy = pytest.mark.parametrize("name", POLICIES)


def witness_of(outcome):
    """A plugin that says nothing and lets the test see the session and all its places, as they were after the last action."""

    class Witness(Plugin):
        args_type = Args

        def __init__(self, args, option):
            pass

        def open(self, session):
            outcome.session = session
            session.on.close(self.close)

        def close(self):
            gangs = outcome.session.gangs.values()
            outcome.places = {task: place for gang in gangs for task, place in gang.places.items()}

    return Witness


class Outcome:
    """A snapshot, the decisions made on it, and sums over both."""

    def __init__(self, cluster, chosen, now=NOW, **arguments):
        self.snapshot = cluster.snapshot()
        witness = PluginOption("witness", 9, {}, {})
        chosen = msgspec.structs.replace(chosen, options=(*chosen.options, witness))
        self.decisions = cycle.plan(
            self.snapshot, chosen, now=now, extra_plugins={"witness": witness_of(self)}, **arguments
        )
        self.table = self.snapshot.nodes
        self.tasks = {task.key: task for gang in self.snapshot.gangs.values() for task in gang.tasks}
        self.binds = [bind for commit in self.decisions.commits for bind in commit.binds]
        self.victims = [eviction.task for eviction in self.decisions.evictions]

    def room(self, *, with_leaving=False):
        """Node -> what is allocatable and not used, by resource; or what will be, when those have gone that are leaving."""
        names = self.table.axis.names
        free = (self.table.allocatable - self.table.used + self.table.releasing * with_leaving).tolist()
        return {
            node: {name: free[row][where] for row, name in enumerate(names) if not name.startswith("scored/")}
            for where, node in enumerate(self.table.names)
        }

    def room_after(self):
        """As above, once everybody who is promised to go is gone and everybody who is promised a place has it."""
        room = self.room(with_leaving=True)
        for victim in self.victims:
            amounts.add(room[victim.node], victim.request.amounts)
        for bind in self.binds:
            amounts.add(room[bind.node], bind.task.request.amounts, -1)
        for key, node in self.decisions.pipelined.items():
            amounts.add(room[node], self.tasks[key].request.amounts, -1)
        for task, node in self.kept_places(Status.ALLOCATED):
            amounts.add(room[node], task.request.amounts, -1)
        return room

    def kept_places(self, *statuses):
        """Room kept for members whose gang waits for others to leave: nothing is decided yet, and nobody else may have it."""
        accepted = [operation for operation, _ in self.session.accepted if isinstance(operation, Placement)]
        decided = {task for placement in accepted for task in placement.tasks}
        for task, (status, where) in self.places.items():
            if status in statuses and task not in decided:
                yield task, self.table.names[where]

    def held_by_queue(self):
        held = collections.defaultdict(dict)
        for gang in self.snapshot.gangs.values():
            amounts.add(held[gang.spec.queue], gang.occupied)
        return held


# ------------------------------------------------------------------------------------------------------ starting


def no_node_is_overcommitted_by_what_we_start(outcome):
    room = outcome.room()
    for bind in outcome.binds:
        amounts.add(room[bind.node], bind.task.request.amounts, -1)
    for bind in outcome.binds:
        assert min(room[bind.node].values()) >= 0, (bind.node, room[bind.node])


def nobody_is_promised_room_that_will_not_be_there(outcome):
    room = outcome.room_after()
    for node in outcome.decisions.pipelined.values():
        assert min(room[node].values()) >= 0, (node, room[node])


def a_gang_is_ready_or_untouched(outcome):
    for commit in outcome.decisions.commits:
        gang = outcome.snapshot.gangs[commit.gang]
        bound = {bind.task for bind in commit.binds}
        assert len(bound) == len(commit.binds)
        assert all(task.status is Status.PENDING and not task.gates for task in bound)
        counted = [task for task in gang.tasks if counts(task, bound)]
        assert len(counted) >= gang.spec.min_member
        if gang.spec.min_member >= sum(gang.spec.role_minimums.values()):
            for role, least in gang.spec.role_minimums.items():
                assert sum(task.role == role for task in counted) >= least
        for number, policy_ in enumerate(gang.spec.policies):
            parts = [sub for sub in gang.sub_gangs if sub.policy == number]
            whole = sum(sum(task in counted for task in sub.tasks) >= sub.minimum for sub in parts)
            assert whole >= policy_.min_sub_groups


def counts(task, bound):
    started = task.status in OCCUPYING or task.status is Status.SUCCEEDED or task in bound
    return started or (task.status is Status.PENDING and task.is_best_effort)


def a_queue_never_exceeds_its_capability_by_what_we_start(outcome):
    held = outcome.held_by_queue()
    for victim in outcome.victims:
        amounts.add(held[outcome.snapshot.gangs[victim.gang].spec.queue], victim.request.amounts, -1)
    started = collections.defaultdict(set)
    for bind in outcome.binds:
        queue = outcome.snapshot.gangs[bind.task.gang].spec.queue
        amounts.add(held[queue], bind.task.request.amounts)
        started[queue] |= amounts.names(bind.task.request.amounts)
    for name, queue in outcome.snapshot.queues.items():
        for resource in started[name] & queue.capability.keys():
            limit = queue.capability[resource]
            is_unset = limit == 0 and resource in {"cpu", "memory"}  # Volcano parity
            assert is_unset or held[name][resource] <= limit


# ------------------------------------------------------------------------------------------------------ evicting


def every_eviction_lets_its_gang_start_when_the_victims_are_gone(outcome):
    """Except where somebody of higher priority comes in a later action, and takes members of the gang that others leave for."""
    bound = {bind.task for bind in outcome.binds}
    promised = outcome.decisions.pipelined.keys()
    ranks = {key: gang.priority for key, gang in outcome.session.gangs.items()}
    evictions = outcome.decisions.evictions
    overtaken = {each.task.gang for each in evictions if ranks[each.claimant] > ranks[each.task.gang]}
    for key in {eviction.claimant for eviction in evictions} - overtaken:
        gang = outcome.snapshot.gangs[key]
        counted = [
            task for task in gang.tasks if (counts(task, bound) or task.key in promised) and task not in outcome.victims
        ]
        assert any(task.key in promised for task in gang.tasks)
        assert len(counted) >= gang.spec.min_member


def no_victim_could_have_stayed(outcome):
    """Where no quota and no filter decides, only room does: a victim whose place stays free was evicted for nothing.

    Plan by plan, because what one gang's victims leave may have been too little for it, and enough beside the next one's.
    """
    room = outcome.room(with_leaving=True)
    for task, node in outcome.kept_places(Status.ALLOCATED, Status.PIPELINED):
        amounts.add(room[node], task.request.amounts, -1)
    for _, plan in itertools.groupby(outcome.session.accepted, key=lambda pair: pair[1]):
        operations = [operation for operation, _ in plan]
        evictions = [operation for operation in operations if isinstance(operation, Eviction)]
        for operation in operations:
            if isinstance(operation, Placement):
                for task, where in zip(operation.tasks, operation.nodes, strict=True):
                    amounts.add(room[outcome.table.names[where]], task.request.amounts, -1)
            else:
                amounts.add(room[operation.task.node], operation.task.request.amounts)
        for eviction in evictions:
            free = room[eviction.task.node]
            assert any(free[name] < amount for name, amount in eviction.task.request.amounts.items()), eviction.task.key


def system_pods_and_protected_pods_are_nobodys_victims(outcome):
    for victim in outcome.victims:
        assert victim.namespace != "kube-system"
        assert victim.pod.spec.priority_class_name != "system-node-critical"
        assert victim.preemptable
        assert victim.status in {Status.BOUND, Status.RUNNING}


def nobody_reclaims_what_is_guaranteed_to_another_queue(outcome):
    """What a queue starts or is promised in this cycle counts as held."""
    held = outcome.held_by_queue()
    for task in (*(bind.task for bind in outcome.binds), *(outcome.tasks[key] for key in outcome.decisions.pipelined)):
        amounts.add(held[outcome.snapshot.gangs[task.gang].spec.queue], task.request.amounts)
    for eviction in outcome.decisions.evictions:
        queue = outcome.snapshot.queues[outcome.snapshot.gangs[eviction.task.gang].spec.queue]
        amounts.add(held[queue.name], eviction.task.request.amounts, -1)
        if eviction.rule == "reclaim":
            for resource in eviction.task.request.amounts.keys() & queue.guarantee.keys():
                assert held[queue.name][resource] >= queue.guarantee[resource], (eviction.task.key, resource)


def nobody_is_decided_about_twice(outcome):
    victims = [victim.uid for victim in outcome.victims]
    bound = [bind.task.uid for bind in outcome.binds]
    assert len({*victims, *bound}) == len(victims) + len(bound)
    assert not {bind.task.key for bind in outcome.binds} & outcome.decisions.pipelined.keys()


RULES = (
    no_node_is_overcommitted_by_what_we_start,
    nobody_is_promised_room_that_will_not_be_there,
    a_gang_is_ready_or_untouched,
    every_eviction_lets_its_gang_start_when_the_victims_are_gone,
    system_pods_and_protected_pods_are_nobodys_victims,
    nobody_is_decided_about_twice,
)


@every_policy
def test_every_cycle_keeps_to_the_rules(rounds, name):
    rules = [*RULES]
    if {"proportion", "capacity"} & {option.name for option in POLICIES[name].options}:
        rules.append(a_queue_never_exceeds_its_capability_by_what_we_start)
        rules.append(nobody_reclaims_what_is_guaranteed_to_another_queue)
    if name == "bare":
        rules.append(no_victim_could_have_stayed)

    @given(worlds())
    def holds(world):
        outcome = Outcome(a_cluster(world.objects), POLICIES[name])
        for rule in rules:
            rule(outcome)

    rounds(holds, 120 if name == "bare" else 60)


def test_a_gang_that_others_leave_for_may_lose_members_to_a_higher_priority_in_the_same_cycle():
    """preempt makes room for r1, then reclaim takes a member of r1 for w2, which ranks above it."""
    outcome = Outcome(a_cluster(World(94905, 1, 2, 3).objects), POLICIES["ours"])
    went = {(each.task.gang, each.claimant) for each in outcome.decisions.evictions}
    assert {("default/r0", "default/r1"), ("default/r1", "default/w2")} <= went
    for rule in RULES:
        rule(outcome)


@every_policy
def test_the_same_objects_give_the_same_decisions_however_they_arrive(rounds, name):
    @given(worlds(), st.integers())
    def holds(world, seed):
        once = repr(Outcome(a_cluster(world.objects), POLICIES[name]).decisions)
        assert repr(Outcome(a_cluster(world.shuffled(seed)), POLICIES[name]).decisions) == once

    rounds(holds, 25)


def test_a_process_with_other_hashes_decides_the_same():
    """Sets and dictionaries of texts have another order in every process; decisions must not."""
    program = (
        "from tests.properties.test_cycle import POLICIES, Outcome\n"
        "from tests.properties.worlds import World\n"
        "from tests.unit.scheduling.clusters import a_cluster\n"
        "for seed in range(12):\n"
        "    print(repr(Outcome(a_cluster(World(seed, 4, 4, 4).objects), POLICIES['ours']).decisions))\n"
    )
    root = Path(__file__).parents[2]
    told = {
        subprocess.run(
            [sys.executable, "-c", program], cwd=root, check=True, capture_output=True, text=True,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(told) == 1


@every_policy
def test_a_small_budget_gives_part_of_the_same_plan(rounds, name):
    @given(worlds(), st.integers(0, 12))
    def holds(world, budget):
        whole = Outcome(a_cluster(world.objects), POLICIES[name])
        part = Outcome(a_cluster(world.objects), POLICIES[name], budget=budget)
        everything = {bind.task.key: bind.node for bind in whole.binds}
        for bind in part.binds:
            assert bind.task.is_best_effort or everything.get(bind.task.key) == bind.node
        a_gang_is_ready_or_untouched(part)
        no_node_is_overcommitted_by_what_we_start(part)
        if not part.decisions.unfinished:
            assert repr(part.decisions) == repr(whole.decisions)

    rounds(holds, 25)


@every_policy
def test_a_chain_of_cycles_replayed_from_encoded_inputs_gives_the_same_bytes(rounds, name):
    """Objects, memory and time are all that a cycle depends on: each may come from a file, in another process."""
    slots = [slot for slot, _ in OWN_MEMORY]
    slots += [slot for option in POLICIES[name].options if (slot := plugins.NAMES[option.name].memory) is not None]

    def step(world, bytes_before, number):
        remembered = memory.decode(bytes_before, slots)
        objects = [decoding.decode_value(type(each), msgspec.to_builtins(each)) for each in world.objects]
        now = NOW + number * 3 * instant.SECOND
        decisions = Outcome(a_cluster(objects), POLICIES[name], now=now, memory=remembered, budget=40).decisions
        assert memory.encode(remembered, slots) == bytes_before, "a cycle has changed the memory it was given"
        return decisions

    @given(worlds())
    def holds(world):
        remembered, written = memory.EMPTY, b"{}"
        for number in range(4):
            now = NOW + number * 3 * instant.SECOND
            arguments = {"now": now, "memory": remembered, "budget": 40}
            once = Outcome(a_cluster(world.objects), POLICIES[name], **arguments).decisions
            again = step(world, written, number)
            assert repr(again) == repr(once)
            remembered, written = once.memory, memory.encode(again.memory, slots)
            assert memory.encode(remembered, slots) == written

    rounds(holds, 15)


def test_a_world_is_the_same_for_the_same_seed():
    assert World(7, 3, 2, 2).objects == World(7, 3, 2, 2).objects
