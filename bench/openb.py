"""Arrival on a published cluster: pods come one after the other and never leave; how much of the GPUs can be given away?

    python -m bench.openb [--policy NAME ...] [--list NAME ...] [--seeds 10] [--traces FOLDER]

Nodes and pods are those of Alibaba's trace of 2023 ("openb", with the USENIX ATC 2023 paper on fragmentation gradient descent):
`openb_nodes.csv` and `openb_pods.csv` in the folder of traces, which is no part of this repository. Pods are drawn from the list with
repetition until they ask for 130 % of all GPUs. The figure is the share of all GPUs that has been given away when the pods that have
arrived ask for 100 %: mean of the seeds.

What the engine sees is a stream: PER_CYCLE pods arrive between two cycles, each a gang of its own, and a cycle places them one
by one in the order of their arrival. A pod that finds no room goes away. Cards are asked for as
`volcano.sh/vgpu-number` and `-memory`, 1,000 a card, whole cards too; models (`gpu_spec`) as `nvidia.com/use-gputype`.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import json
import random
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pumice.api import changes, names
from pumice.api.core import Node, NodeStatus
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements
from pumice.api.scheduling import Queue, QueueStatus
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.scheduling.core import builtin, cycle
from pumice.scheduling.core.memory import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.policy import Policy

ROOT = Path(__file__).resolve().parents[1]
TRACES = ("../shared/traces", "../../shared/traces", "shared/traces")  # seen from the repository
CARD = 1000  # memory that a card is registered with: thousandths of it
CREATED = "2026-01-01T00:00:00Z"
SLICES = 100  # of one card: no pod asks for less than a hundredth
PER_CYCLE = 500
UNTIL = 1.3  # of all GPUs that the pods ask for together
SYNTHETIC_SEED = 1

_SHARED = "  - name: deviceshare\n    arguments: {{deviceshare.VGPUEnable: true, deviceshare.SchedulePolicy: binpack, deviceshare.ScheduleWeight: {weight}}}\n"
_PLAIN = 'actions: "allocate"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n'


def _policy(weight: int, *lines: str) -> str:
    return _PLAIN + _SHARED.format(weight=weight) + "".join(f"  - {line}\n" for line in lines)


POLICIES = {
    "binpack": _policy(
        0,
        "{name: binpack, arguments: {binpack.resources: volcano.sh/vgpu-memory, binpack.resources.volcano.sh/vgpu-memory: 5}}",
    ),
    "nodeorder": _policy(0, "name: nodeorder"),
    "deviceshare": _policy(10),
    "fragmentation": _policy(0, "name: fragmentation"),
    # Pods never leave here, so nobody is evicted either: of the built-in policy only the placing is measured.
    "builtin": re.sub('actions: ".*"', 'actions: "allocate"', builtin.TEXT),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Machine:
    """A line of the list of nodes."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclasses.dataclass(frozen=True, slots=True)
class Ask:
    """A line of the list of pods: what it asks for, of so many cards, each so many thousandths."""

    cpu_milli: int
    memory_mib: int
    gpus: int
    milli: int
    models: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Thousandths of GPUs."""
        return self.gpus * self.milli


class MissingTrace(Exception):
    """The files are not where they were looked for."""


# ----------------------------------------------------------------------------------------------------- lists


def find_traces(folder: str = "") -> Path:
    """The folder with both files, as given or in its usual places."""
    places = [Path(folder)] if folder else [ROOT / each for each in TRACES]
    for place in places:
        if (place / "openb_nodes.csv").exists() and (place / "openb_pods.csv").exists():
            return place.resolve()
    looked = ", ".join(str(place) for place in places)
    raise MissingTrace(
        f"openb_nodes.csv and openb_pods.csv are not in {looked}; give their folder with --traces, or --generated for a small cluster"
    )


def read_machines(path: Path) -> list[Machine]:
    with path.open(newline="") as lines:
        return [
            Machine(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
            for row in csv.DictReader(lines)
        ]


def read_pods(path: Path) -> list[Ask]:
    with path.open(newline="") as lines:
        return [
            Ask(
                int(row["cpu_milli"]),
                int(row["memory_mib"]),
                int(row["num_gpu"]),
                int(row["gpu_milli"]),
                tuple(part for part in row.get("gpu_spec", "").split("|") if part),
            )
            for row in csv.DictReader(lines)
        ]


def generated(seed: int, nodes: int = 40) -> tuple[list[Machine], list[Ask]]:
    """A small cluster and list of the same kind: uneven nodes, mostly one card or a part of one, a few whole nodes."""
    chance = random.Random(seed)  # noqa: S311  the same lists for the same seed
    kinds = ((8, 96_000, 393_216, "G2"), (2, 104_000, 524_288, "T4"), (4, 32_000, 131_072, "V100"))
    machines = []
    for number in range(nodes):
        gpus, cpu, memory, model = chance.choices(kinds, (5, 3, 2))[0]
        machines.append(Machine(f"node-{number:04}", cpu, memory, gpus, model))
    parts = (
        [(1, 1000)] * 50
        + [(1, 800)] * 12
        + [(1, 500)] * 12
        + [(1, 300)] * 8
        + [(8, 1000), (4, 1000), (2, 1000)]
        + [(0, 0)] * 14
    )
    asks = []
    for _ in range(400):
        gpus, milli = chance.choice(parts)
        cpu = chance.choice((2000, 4000, 8000, 11_000, 12_000, 16_000)) * max(gpus, 1) * (3 if gpus == 0 else 4) // 4
        asks.append(Ask(cpu, cpu * chance.choice((2, 4)) * 1000 // 1024, gpus, milli))
    return machines, asks


def lists_of(pods: Sequence[Ask]) -> dict[str, list[Ask]]:
    """The list, and others of the same kind made from it: held against each other, so that no policy is made for one of them."""
    chance = random.Random(SYNTHETIC_SEED)  # noqa: S311
    several = [each for each in pods if each.gpus > 1]
    none = [each for each in pods if each.gpus == 0]
    single = [each for each in pods if each.gpus == 1]
    found = {"default": list(pods)}
    if several:
        found["multi-gpu"] = [*pods, *_until(chance, several, half_of=sum(each.total for each in single))]
    found["fractions"] = [
        dataclasses.replace(each, milli=chance.choice((100, 250, 330, 500, 750)))
        if each.total == CARD and chance.random() < 0.6
        else each
        for each in pods
    ]
    found["cpu-heavy"] = [*pods, *none, *none]
    found["gpu-only"] = [*several, *single]
    return found


def _until(chance: random.Random, pods: Sequence[Ask], *, half_of: int) -> Iterator[Ask]:
    """Draws until they ask for as much as is given: half of what both ask for then."""
    asked = 0
    while asked < half_of:
        each = chance.choice(pods)
        asked += each.total
        yield each


def arrival(pods: Sequence[Ask], gpus: int, seed: int) -> list[Ask]:
    """Drawn with repetition, until they ask for 130 % of so many GPUs."""
    chance = random.Random(seed)  # noqa: S311  the same arrival for the same seed
    found: list[Ask] = []
    asked = 0
    while asked < gpus * CARD * UNTIL:
        each = chance.choice(pods)
        found.append(each)
        asked += each.total
    return found


# ----------------------------------------------------------------------------------------------------- the engine


@dataclasses.dataclass(slots=True)
class Outcome:
    """What an arrival came to."""

    share: float = 0.0  # of all GPUs, when 100 % was asked for
    placed: int = 0
    arrived: int = 0
    seconds: float = 0.0  # of CPU time, for the whole arrival


def run(machines: Sequence[Machine], arriving: Sequence[Ask], policy: Policy, per_cycle: int = PER_CYCLE) -> Outcome:
    """Let the pods arrive through the engine: intake, snapshot, plan, and the binds back through intake."""
    outcome = Outcome(arrived=len(arriving))
    total = sum(each.gpus for each in machines) * CARD
    full = _index_at(arriving, total)
    intake = _cluster(machines)
    given, memory = 0, EMPTY
    pods = [_pod(number, each) for number, each in enumerate(arriving)]
    started = time.process_time()
    for first in range(0, len(arriving), per_cycle):
        batch = pods[first : first + per_cycle]
        for pod in batch:
            intake.apply(changes.Upserted(object=pod))
        decisions = cycle.plan(intake.cluster.snapshot(), policy, memory, now=0)
        memory = decisions.memory
        for number in sorted(_bind(intake, decisions)):
            outcome.placed += 1
            given += arriving[number].total
            if number <= full:
                outcome.share += arriving[number].total / total
        for pod in batch:
            if not intake.cluster.tasks[pod.metadata.uid].node:
                intake.apply(changes.Deleted(object=pod))
    outcome.seconds = time.process_time() - started
    return outcome


def _index_at(arriving: Sequence[Ask], amount: int) -> int:
    """The pod with which the amount has been asked for."""
    asked = 0
    for number, each in enumerate(arriving):
        asked += each.total
        if asked >= amount:
            return number
    return len(arriving)


def _bind(intake: Intake, decisions: Decisions) -> list[int]:
    """Binds as they come back from the API server; the numbers of the pods."""
    found = []
    for commit in decisions.commits:
        for bind in commit.binds:
            pod = bind.task.pod
            meta = msgspec.structs.replace(pod.metadata, annotations={**pod.metadata.annotations, **bind.annotations})
            spec = msgspec.structs.replace(pod.spec, node_name=bind.node)
            bound = Pod(metadata=meta, spec=spec, status=PodStatus(phase="Running"))
            intake.apply(changes.Upserted(object=bound))
            found.append(int(pod.metadata.name.rpartition("-")[2]))
    return found


def _cluster(machines: Sequence[Machine]) -> Intake:
    intake = Intake(Cluster())
    queue = Queue(metadata=ObjectMeta(name="default", creation_timestamp=CREATED), status=QueueStatus(state="Open"))
    intake.apply(changes.Upserted(object=queue))
    for machine in machines:
        cards = "".join(
            f"{machine.name}-{number},{SLICES},{CARD},{machine.model},true,hami-core:" for number in range(machine.gpus)
        )
        room = {"cpu": f"{machine.cpu_milli}m", "memory": f"{machine.memory_mib}Mi", "pods": "1000"}
        meta = ObjectMeta(
            name=machine.name,
            creation_timestamp=CREATED,
            labels={"kubernetes.io/hostname": machine.name},
            annotations={names.VGPU_NODE_REGISTER: cards} if machine.gpus else {},
        )
        intake.apply(changes.Upserted(object=Node(metadata=meta, status=NodeStatus(allocatable=room, capacity=room))))
    return intake


def _pod(number: int, ask: Ask) -> Pod:
    asks = {"cpu": f"{ask.cpu_milli}m", "memory": f"{ask.memory_mib}Mi"}
    if ask.gpus:
        asks |= {names.VGPU_NUMBER: str(ask.gpus), names.VGPU_MEMORY: str(ask.milli)}
    meta = ObjectMeta(
        namespace="default",
        name=f"pod-{number:06}",
        uid=f"uid-{number:06}",
        creation_timestamp=CREATED,
        annotations={names.USE_GPU_TYPE: ",".join(ask.models)} if ask.models else {},
    )
    spec = PodSpec(
        containers=(Container(name="c", resources=ResourceRequirements(requests=asks, limits=asks)),),
        scheduler_name="volcano",
    )
    return Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))


# ----------------------------------------------------------------------------------------------------- printing


def figures(given: argparse.Namespace) -> Iterator[dict[str, float | str]]:
    if given.generated is None:
        folder = find_traces(given.traces)
        machines, pods = (
            read_machines(folder / "openb_nodes.csv"),
            read_pods(Path(given.pods or folder / "openb_pods.csv")),
        )
    else:
        machines, pods = generated(given.generated)
    gpus = sum(each.gpus for each in machines)
    lists = lists_of(pods)
    for name in given.list or ["default"]:
        for policy_name in given.policy or POLICIES:
            policy = builtin.parse(POLICIES[policy_name], policy_name)
            outcomes = [
                run(machines, arrival(lists[name], gpus, seed), policy, given.per_cycle) for seed in range(given.seeds)
            ]
            mean = sum(each.share for each in outcomes) / len(outcomes)
            spread = (sum((each.share - mean) ** 2 for each in outcomes) / len(outcomes)) ** 0.5
            seconds, placed = sum(each.seconds for each in outcomes), sum(each.placed for each in outcomes)
            yield {
                "bench": "openb",
                "list": name,
                "policy": policy_name,
                "seeds": given.seeds,
                "allocated_percent": round(100 * mean, 2),
                "deviation": round(100 * spread, 2),
                "arrived": round(sum(each.arrived for each in outcomes) / len(outcomes)),
                "placed": round(placed / len(outcomes)),
                "seconds": round(seconds / len(outcomes), 1),
                "seconds_for_10000": round(10_000 * seconds / sum(each.arrived for each in outcomes), 1),
            }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.openb", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--policy", nargs="*", choices=list(POLICIES), help="all without any")
    parser.add_argument("--list", nargs="*", choices=["default", "multi-gpu", "fractions", "cpu-heavy", "gpu-only"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--per-cycle", type=int, default=PER_CYCLE, help="pods that arrive between two cycles")
    parser.add_argument("--traces", default="", help="folder with openb_nodes.csv and openb_pods.csv")
    parser.add_argument("--pods", default="", help="another list of the same kind")
    parser.add_argument("--generated", type=int, metavar="SEED", help="a small cluster of our own instead of the trace")
    try:
        for figure in figures(parser.parse_args()):
            sys.stdout.write(json.dumps(figure) + "\n")
            sys.stdout.flush()
    except MissingTrace as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
