"""However news and outcomes arrive, the state ends up as if everything had been listed afresh."""

import collections
import random

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.unit.scheduling.clusters import a_group, a_node, a_pod, a_priority_class, a_queue, an_object, when

from pumice.api.changes import (
    Admitted,
    Assumed,
    BindFailed,
    BindUnknown,
    Claim,
    Claimed,
    Deleted,
    Evicting,
    Forgotten,
    PodRef,
    Relisted,
    Unclaimed,
    Upserted,
)
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.priority import PriorityClass
from pumice.api.scheduling import PodGroup, Queue
from pumice.api.topology import HyperNode
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.cluster.topology import ROOT

KINDS = (Pod, Node, PodGroup, Queue, PriorityClass, HyperNode)
POD_KEYS = [(namespace, name) for namespace in ("a", "b") for name in ("p0", "p1", "p2")]
NODES = ("n0", "n1", "n2")
NOW = 1


def a_hyper_node(name, zone, other):
    members = [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"zone": zone}}}}]
    if other:
        members.append({"type": "HyperNode", "selector": {"exactMatch": {"name": other}}})
    return an_object(
        "topology.volcano.sh/v1alpha1", "HyperNode",
        {"metadata": {"name": name, "uid": name}, "spec": {"tier": 1, "members": members}},
    )  # fmt: skip


def described(snapshot):
    """All that a snapshot says, as plain values; the order of rows may differ, so zeros are left out."""
    table = snapshot.nodes
    rows = {"allocatable": table.allocatable, "used": table.used, "releasing": table.releasing}
    columns = {
        node: {
            (what, name): int(column[row, where])
            for what, column in rows.items()
            for row, name in enumerate(table.axis.names)
            if column[row, where]
        }
        for where, node in enumerate(table.names)
    }
    return {
        "columns": columns,
        "nodes": list(table.objects),
        "index": dict(table.index),
        "on nodes": [[_task(task) for task in tasks] for tasks in table.tasks],
        "gangs": [(key, gang.spec, _gang(gang)) for key, gang in snapshot.gangs.items()],
        "queues": list(snapshot.queues.items()),
        "claims": list(snapshot.claims.items()),
        "orphans": [(key, _orphans(orphans)) for key, orphans in snapshot.orphans.items()],
        "others": {kind: list(table.items()) for kind, table in snapshot.others.items() if table},
        "hyper nodes": (snapshot.tree.fault, {name: nodes.tolist() for name, nodes in snapshot.tree.nodes.items()}),
        "rules": snapshot.rules,
        "with terms": {task.uid for task in snapshot.with_terms},
    }


def _task(task):
    plain = {name: getattr(task, name) for name in task.__struct_fields__}
    return {**plain, "request": task.request.amounts}


def _gang(gang):
    subs = [(sub.key, sub.minimum, [task.uid for task in sub.tasks]) for sub in gang.sub_gangs]
    return [_task(task) for task in gang.tasks], gang.counts, dict(gang.occupied), subs


def _orphans(orphans):
    said = orphans.queue, orphans.user_by(trusts_label=True), orphans.held_between
    return [_task(task) for task in orphans.tasks], said


class AnyOrder(RuleBasedStateMachine):
    """`truth` is what the API server has. Its news wait in a line per object and are told late, twice, or by a new list.

    A rule does many small random steps from one seed: that reaches far more states than a rule for each step would.
    """

    def __init__(self):
        super().__init__()
        self.cluster = Cluster()
        self.intake = Intake(self.cluster)
        self.truth = {kind: {} for kind in KINDS}
        self.news = collections.defaultdict(collections.deque)
        self.told = {}
        self.assumed, self.evicting, self.claims, self.admitted = {}, {}, {}, {}
        self.kept = []
        self.generation = 0
        self.chance = random.Random(0)

    @rule(seed=st.integers(0, 2**32), steps=st.integers(1, 60))
    def live(self, seed, steps):
        self.chance = random.Random(seed)
        for _ in range(steps):
            step = self.chance.choice(STEPS)
            step(self)

    @rule(kind=st.sampled_from(KINDS))
    def list_again(self, kind):
        """The watch broke: what was still to be told of that kind is lost, and a whole list comes in its place."""
        for memory in (self.news, self.told):
            for key in [key for key in memory if key[0] is kind]:
                del memory[key]
        things = self.shuffled(self.truth[kind].values())
        for thing in things:
            self.apply(Upserted(thing))
        self.apply(Relisted(kind, frozenset(thing.metadata.uid for thing in things)))

    @rule()
    def take_snapshot(self):
        snapshot = self.cluster.snapshot()
        self.kept = [*self.kept[-3:], (snapshot, described(snapshot))]

    # --------------------------------------------------------------------------------------------- the world changes

    def shuffled(self, things):
        things = sorted(things, key=lambda thing: thing.metadata.key)
        self.chance.shuffle(things)
        return things

    def put(self, thing):
        kind, key = type(thing), thing.metadata.key
        self.truth[kind][key] = thing
        self.news[kind, key].append(Upserted(thing))

    def remove(self, kind, key):
        thing = self.truth[kind].pop(key)
        self.news[kind, key].append(Deleted(thing))

    def fresh_uid(self):
        self.generation += 1
        return f"uid-{self.generation}"

    def create_pod(self):
        pick = self.chance.choice
        namespace, name = pick(POD_KEYS)
        former = self.truth[Pod].get(f"{namespace}/{name}")
        spread = [{"maxSkew": 1, "topologyKey": "zone", "labelSelector": {}}] if pick((True, False)) else []
        pod = a_pod(
            name, namespace=namespace, gang=pick(("", "g0", "g1")), cpu=pick((0, 1, 2)), gpu=pick((0, 1)),
            node=pick(("", "", *NODES)), uid=self.fresh_uid(),
            spec={"schedulerName": pick(("volcano", "volcano", "other")), "topologySpreadConstraints": spread},
        )  # fmt: skip
        told_first = pick((True, False))
        if former is not None and told_first:
            self.remove(Pod, former.metadata.key)
        self.put(pod)
        if former is not None and not told_first:
            self.news[Pod, pod.metadata.key].append(Deleted(former))

    def change_pod(self):
        if not self.truth[Pod]:
            return
        pick = self.chance.choice
        step = pick(("bind", "run", "finish", "delete", "gone", "label", "join", "resize"))
        pod = self.truth[Pod][pick(sorted(self.truth[Pod]))]
        if step == "gone":
            self.remove(Pod, pod.metadata.key)
            return
        spec, status, meta = pod.spec, pod.status, pod.metadata
        if step == "bind" and not spec.node_name:
            spec = replaced(spec, node_name=pick(NODES))
        elif step == "run" and spec.node_name and status.phase == "Pending":
            status = replaced(status, phase="Running")
        elif step == "finish":
            status = replaced(status, phase=pick(("Succeeded", "Failed")))
        elif step == "delete":
            meta = replaced(meta, deletion_timestamp=when(9))
        elif step == "label":
            meta = replaced(meta, labels={"v": str(self.chance.randint(0, 9))})
        elif step == "join":
            meta = replaced(meta, annotations={"scheduling.k8s.io/group-name": "g0"})
        elif step == "resize":
            spec = replaced(spec, containers=a_pod(cpu=pick((1, 2, 3)), more={"c.io/z": pick((0, 1))}).spec.containers)
        self.put(replaced(pod, metadata=meta, spec=spec, status=status))

    def put_something(self):
        pick = self.chance.choice
        kind = pick(KINDS[1:])
        if kind is Node:
            self.put(
                a_node(
                    pick(NODES), cpu=pick((1, 2, 4)), more=pick(({}, {"a.io/x": "2"}, {"b.io/y": "3"})),
                    labels={"zone": pick(("east", "west"))}, created=pick((0, 1)),
                )
            )  # fmt: skip
        elif kind is PodGroup:
            least = pick((0, 1, 2, 3))
            part = [{"name": "part", "matchLabelKeys": ["v"]}] if least == 3 else []
            name, namespace = pick(("g0", "g1")), pick(("a", "b"))
            former = self.truth[PodGroup].get(f"{namespace}/{name}")
            self.put(
                a_group(
                    name, least, namespace=namespace, priority_class=pick(("", "high")), uid=self.fresh_uid(),
                    spec={"subGroupPolicy": part}, phase=pick(("", "Pending", "Inqueue")),
                )
            )  # fmt: skip
            if former is not None:  # its end is told after its successor's start
                self.news[PodGroup, former.metadata.key].append(Deleted(former))
        elif kind is Queue:
            self.put(a_queue(pick(("q0", "q1")), weight=pick((1, 2))))
        elif kind is PriorityClass:
            self.put(a_priority_class(pick(("high", "usual")), pick((1, 5, 9)), default=pick((True, False))))
        else:
            self.put(a_hyper_node(pick(("h0", "h1")), zone=pick(("east", "west")), other=pick(("", "", "h0", "h1"))))

    def start_group(self):
        """Somebody, and it need not be us, has written that a group no longer waits."""
        if self.truth[PodGroup]:
            group = self.truth[PodGroup][self.chance.choice(sorted(self.truth[PodGroup]))]
            self.put(replaced(group, status=replaced(group.status, phase=self.chance.choice(("Inqueue", "Running")))))

    def remove_something(self):
        kind = self.chance.choice(KINDS[1:])
        if self.truth[kind]:
            self.remove(kind, self.chance.choice(sorted(self.truth[kind])))

    # --------------------------------------------------------------------------------------------- news arrive

    def apply(self, change):
        self.intake.apply(change)
        self.cluster.check()

    def tell(self):
        waiting = sorted((key for key, line in self.news.items() if line), key=str)
        if waiting:
            key = self.chance.choice(waiting)
            change = self.told[key] = self.news[key].popleft()
            self.apply(change)

    def tell_again(self):
        if self.told:
            self.apply(self.told[self.chance.choice(sorted(self.told, key=str))])

    # --------------------------------------------------------------------------------------------- dispatch speaks

    def known(self):
        """A pod as the state knows it now, which may be news of yesterday."""
        tasks = sorted((task for task in self.cluster.tasks.values() if task.gang), key=lambda task: task.uid)
        return self.chance.choice(tasks) if tasks else None

    def assume(self):
        task = self.known()
        if task is not None:
            attempt = self.chance.choice(("a1", "a2"))
            change = Assumed(PodRef.of(task.pod.metadata), self.chance.choice(NODES), attempt, NOW)
            self.assumed[task.uid] = change
            self.apply(change)

    def settle(self):
        if not self.assumed:
            return
        uid = self.chance.choice(sorted(self.assumed))
        assumed, attempt = self.assumed[uid], self.chance.choice(("a1", "a2"))
        outcome = self.chance.choice((BindFailed, BindUnknown, Forgotten))
        more = {} if outcome is Forgotten else {"node": assumed.node}
        self.apply(outcome(pod=assumed.pod, attempt=attempt, at=NOW, **more))
        if outcome is not BindUnknown and assumed.attempt == attempt:
            del self.assumed[uid]

    def evict(self):
        task = self.known()
        if task is not None:
            self.evicting[task.uid] = Evicting(PodRef.of(task.pod.metadata), task.node, NOW)
            self.apply(self.evicting[task.uid])

    def give_up_eviction(self):
        if self.evicting:
            change = self.evicting.pop(self.chance.choice(sorted(self.evicting)))
            self.apply(Forgotten(change.pod, NOW))

    def admit(self):
        known = [(key, slot.group) for key, slot in sorted(self.cluster.gangs.items()) if slot.group is not None]
        if known:
            key, group = self.chance.choice(known)
            self.admitted[group.metadata.uid] = Admitted(gang=key, uid=group.metadata.uid)
            self.apply(self.admitted[group.metadata.uid])

    def claim(self):
        gang = self.chance.choice(("a/g0", "b/g1"))
        if self.chance.choice((True, False)):
            self.claims[gang] = Claimed(Claim(gang, (("uid-1", "n0"),), ("uid-2",), self.chance.randint(0, 9)))
            self.apply(self.claims[gang])
        else:
            self.claims.pop(gang, None)
            self.apply(Unclaimed(gang))

    # --------------------------------------------------------------------------------------------- what must hold

    @invariant()
    def snapshots_hold_still(self):
        for snapshot, as_it_was in self.kept[-1:]:
            assert described(snapshot) == as_it_was

    def teardown(self):
        for line in self.news.values():
            for change in line:
                self.apply(change)
        fresh = Cluster()
        intake = Intake(fresh)
        for kind in KINDS:
            for _, thing in sorted(self.truth[kind].items()):
                intake.apply(Upserted(thing))
        outcomes = (self.assumed, self.evicting, self.claims, self.admitted)
        for change in (each for known in outcomes for each in known.values()):
            intake.apply(change)
        fresh.check()
        assert described(self.cluster.snapshot()) == described(fresh.snapshot())
        assert set(described(self.cluster.snapshot())["hyper nodes"][1]) >= {ROOT}
        for snapshot, as_it_was in self.kept:
            assert described(snapshot) == as_it_was


STEPS = (
    *[AnyOrder.tell] * 14, *[AnyOrder.create_pod] * 3, *[AnyOrder.change_pod] * 5, *[AnyOrder.put_something] * 5,
    *[AnyOrder.assume] * 3, *[AnyOrder.settle] * 2, AnyOrder.remove_something, AnyOrder.tell_again, AnyOrder.evict,
    AnyOrder.evict, AnyOrder.give_up_eviction, AnyOrder.claim, AnyOrder.admit, AnyOrder.admit, AnyOrder.start_group,
)  # fmt: skip


def replaced(struct, **fields):
    return type(struct)(**{name: fields.get(name, getattr(struct, name)) for name in struct.__struct_fields__})


def test_any_order_of_news_and_outcomes_ends_in_the_same_state(rounds):
    rounds(AnyOrder, examples=200, steps=20)
