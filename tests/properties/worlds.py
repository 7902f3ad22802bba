"""Random small clusters that could exist: nobody is over-committed at the start, and every object is one that users write."""

import random

from hypothesis import strategies as st
from tests.unit.scheduling.clusters import a_group, a_node, a_pod, a_priority_class, a_queue, flat, resources

GPU = "nvidia.com/gpu"
LEAVING = {"deletionTimestamp": "2026-01-01T00:30:00Z"}
ZONES = ("east", "west")


class World:
    """Objects drawn from one seed; sizes are drawn apart, so that hypothesis can make a failing world smaller."""

    def __init__(self, seed, nodes, running, waiting, *, quotas=True, gpus=(0, 0, 0, 1, 2)):
        self.chance = random.Random(seed)
        self.seed = (seed, nodes, running, waiting)
        self.quotas = quotas
        self.gpus = gpus  # what pods ask for, drawn with equal chances
        self.queues = self._queues()
        self.room = {}
        self.nodes = [self._node(number) for number in range(nodes)]
        self.classes = [a_priority_class("low", 1), a_priority_class("high", 100)]
        self.gangs = [self._gang(f"r{number}", running=True) for number in range(running)]
        self.gangs += [self._gang(f"w{number}", running=False) for number in range(waiting)]
        self.objects = list(flat([self.queues, self.classes, self.nodes, self.gangs]))

    def __repr__(self):
        return f"World{self.seed}"

    def shuffled(self, seed):
        """The same objects in another order of arrival."""
        objects = list(self.objects)
        random.Random(seed).shuffle(objects)
        return objects

    def maybe(self, probability):
        return self.chance.random() < probability

    def _queues(self):
        found = []
        for number in range(self.chance.randint(1, 3)):
            cpu = self.chance.randint(1, 12)
            limit = {"cpu": str(cpu), GPU: str(self.chance.randint(0, 6))}
            part = {"cpu": str(self.chance.randint(0, min(cpu, 4)))}  # admission refuses more
            found.append(
                a_queue(
                    f"q{number}", weight=self.chance.randint(1, 3), created=number,
                    priority=self.chance.choice((0, 0, 5)), reclaimable=self.chance.choice((None, None, False)),
                    capability=limit if self.quotas and self.maybe(0.3) else None,
                    guarantee=part if self.quotas and self.maybe(0.2) else None,
                    deserved={"cpu": str(self.chance.randint(1, 8))} if self.maybe(0.5) else None,
                )
            )  # fmt: skip
        return found

    def _node(self, number):
        chance = self.chance
        room = {"cpu": chance.randint(1, 6), "memory": chance.randint(2, 12), "gpu": chance.choice((0, 0, 1, 2, 4)),
                "pods": chance.choice((2, 4, 110))}  # fmt: skip
        name = f"n{number}"
        self.room[name] = dict(room)
        taints = ("dedicated=x:NoSchedule",) if self.maybe(0.1) else ()
        return a_node(
            name, cpu=room["cpu"], memory=f"{room['memory']}Gi", gpu=room["gpu"], pods=room["pods"], taints=taints,
            labels={"zone": chance.choice(ZONES)}, created=chance.choice((0, 0, 7)),
        )  # fmt: skip

    def _shape(self):
        chance = self.chance
        if self.maybe(0.1):
            return {"cpu": 0, "memory": 0, "gpu": 0}
        return {
            "cpu": chance.choice((1, 1, 2)),
            "memory": chance.choice((0, 1, 2)),
            "gpu": chance.choice(self.gpus),
        }

    def _take(self, shape):
        """A node that has room for the pod, which it takes; None where there is none."""
        for name in self.chance.sample(sorted(self.room), len(self.room)):
            free = self.room[name]
            if free["pods"] >= 1 and all(free[what] >= amount for what, amount in shape.items()):
                for what, amount in shape.items():
                    free[what] -= amount
                free["pods"] -= 1
                return name
        return None

    def _gang(self, name, *, running):
        chance = self.chance
        size = chance.randint(1, 5)
        namespace = chance.choice(("default", "default", "default", "kube-system"))
        shapes = [self._shape() for _ in range(chance.choice((1, 1, 2)))]
        roles = ("a", "b") if self.maybe(0.2) else ("",)
        neighbourly = self._neighbourly(name) if not running else {}
        pods = [
            self._pod(name, number, namespace, shapes, roles, neighbourly, running=running) for number in range(size)
        ]
        least = chance.randint(0, size)
        minimums = {role: 1 for role in roles if role} if self.maybe(0.5) else {}
        phase = "Running" if running else chance.choice(("Pending", "Inqueue", "Inqueue"))
        minimum = {"cpu": str(least)} if self.maybe(0.4) else None
        parts = [
            {
                "name": "part",
                "matchLabelKeys": ["part"],
                "subGroupSize": chance.randint(1, 2),
                "minSubGroups": chance.randint(0, 2),
            }
        ]
        spec = {"subGroupPolicy": parts} if self.maybe(0.1) else {}
        return [
            a_group(
                name, least, namespace=namespace, queue=chance.choice(self.queues).metadata.name, phase=phase,
                minimum=minimum, roles=minimums or None, priority_class=chance.choice(("", "low", "high")),
                created=chance.randint(0, 3), spec=spec,
            ),
            pods,
        ]  # fmt: skip

    def _neighbourly(self, gang):
        """What a gang's pods ask of other pods, of mates or of strangers; most ask nothing."""
        if self.maybe(0.8):
            return {}
        term = {
            "topologyKey": self.chance.choice(("zone", "kubernetes.io/hostname")),
            "labelSelector": {"matchLabels": {"app": self.chance.choice((gang, "r0", "w0"))}},
        }
        required, preferred = (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        )
        return self.chance.choice((
            {"affinity": {"podAntiAffinity": {required: [term]}}},
            {"affinity": {"podAffinity": {required: [term]}}},
            {"affinity": {"podAffinity": {preferred: [{"weight": 50, "podAffinityTerm": term}]}}},
            {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **term}]},
            {"ports": [{"hostPort": 80, "containerPort": 80}]},
        ))  # fmt: skip

    def _pod(self, gang, number, namespace, shapes, roles, neighbourly, *, running):
        chance = self.chance
        shape = chance.choice(shapes)
        node = self._take(shape) if running and self.maybe(0.9) else None
        spec = {}
        if not node and self.maybe(0.05):
            spec["schedulingGates"] = [{"name": "later"}]
        if not node and self.maybe(0.15):
            spec["nodeSelector"] = {"zone": chance.choice(ZONES)}
        spec.update({key: value for key, value in neighbourly.items() if key != "ports"})
        memory = f"{shape['memory']}Gi" if shape["memory"] else None
        requests = resources(shape["cpu"], memory, shape["gpu"])
        ports = neighbourly.get("ports", [])
        spec["containers"] = [{"name": "main", "ports": ports, "resources": {"requests": requests}}]
        if self.maybe(0.05):
            spec["preemptionPolicy"] = "Never"
        if namespace == "kube-system" and self.maybe(0.5):
            spec["priorityClassName"] = "system-node-critical"
        return a_pod(
            f"{gang}-t-{number}", gang=gang, namespace=namespace, role=chance.choice(roles), node=node or "",
            phase=chance.choice(("Running", "Running", "Pending")) if node else None,
            priority=chance.choice((None, 0, 5)), created=chance.randint(0, 3), spec=spec,
            annotations={"volcano.sh/preemptable": "false"} if self.maybe(0.1) else {}, labels={"app": gang, "part": str(number // 2)},
            metadata=LEAVING if node and self.maybe(0.15) else {},
        )  # fmt: skip


def worlds(**settings):
    sizes = {"nodes": st.integers(1, 6), "running": st.integers(0, 5), "waiting": st.integers(1, 5)}
    return st.builds(
        World, st.integers(0, 2**32), **sizes, **{name: st.just(value) for name, value in settings.items()}
    )


def places_for(chance, nodes, members, cpu):
    """Nodes for up to so many members of `cpu` each, where there is room, which is taken from `nodes` (name -> room)."""
    places = []
    for _ in range(members):
        open_to = [name for name, room in nodes.items() if room >= cpu]
        if open_to:
            places.append(chance.choice(open_to))
            nodes[places[-1]] -= cpu
    return places
