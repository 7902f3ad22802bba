"""Pods for groups that wait for their admission, and so have none: a forecast needs something that can start.

A group says what its minimum asks for in all, not which member asks for how much. The members are taken to be equal where nodes have room for
equal ones. Where they have not (a launcher that asks for no GPU, and workers that ask for all GPUs of a node), fewer members ask for
larger parts. Which taints the pods will tolerate is not known either: all are taken to be tolerated but those of Kubernetes itself.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from pumice.api import names
from pumice.api.changes import Upserted
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Container, Pod, PodSpec, PodStatus, ResourceRequirements, Toleration
from pumice.api.scheduling import VOLCANO, PodGroup
from pumice.cluster import amounts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pumice.cluster.columns import NodeTable
    from pumice.scheduling.time.forecast import World

STAND_INS_MAX = 10_000  # pods of one gang that has none yet
PARTS_MAX = 64  # of a node that a member is taken to ask for
_OF_KUBERNETES = "kubernetes.io"


def with_stand_ins(world: World) -> World:
    """The same with pods for groups that have none, and say what their minimum asks for."""
    intake = world.intake.copy()
    table = intake.cluster.snapshot().nodes
    offered = {name: Counter(table.allocatable[table.axis.rows[name]].tolist()) for name in table.total()}
    tolerated = _tolerated(table)
    for slot in list(intake.cluster.gangs.values()):
        group = slot.group
        if isinstance(group, PodGroup) and not slot.tasks and group.spec.min_resources and group.spec.min_member > 0:
            count = min(group.spec.min_member, STAND_INS_MAX)
            asked = _asked(amounts.read_minimum(group.spec.min_resources), count, offered)
            for number, labels in zip(
                range(count), itertools.chain(_labels(group), itertools.repeat({})), strict=False
            ):
                intake.apply(Upserted(object=_stand_in(group, number, asked, tolerated, labels)))
    return msgspec.structs.replace(world, intake=intake)


def _labels(group: PodGroup) -> Iterator[dict[str, str]]:
    """Of the members that the minimums of tasks ask for, as the Job's pods have them: a gang of which a task is missing never starts."""
    sizes = {policy.name: policy.sub_group_size or 1 for policy in group.spec.sub_group_policy}
    for task, least in group.spec.min_task_member.items():
        for number in range(least):
            partition = {names.PARTITION_ID: str(number // sizes[task])} if task in sizes else {}
            yield {names.TASK_SPEC: task, **partition}


def _asked(total: amounts.Amounts, count: int, offered: Mapping[str, Counter[int]]) -> dict[str, list[int]]:
    """Resource -> what the first member asks for, the second, and so on; the others ask for none of it."""
    return {  # a minimum also has names that only quotas know, such as limits.cpu
        name: _parts(name, math.ceil(value), count, offered[name])
        for name, value in total.items()
        if name in offered and name != amounts.PODS and value > 0
    }


def _parts(name: str, total: int, count: int, nodes: Counter[int]) -> list[int]:
    """The smallest parts that empty nodes have room for, one for each member at most; equal ones where even the largest find none."""
    unit = 1 if name == amounts.CPU or amounts.in_bytes(name) else 1000
    equal = -(-total // (count * unit)) * unit
    sizes = {node // parts // unit * unit for node in nodes for parts in range(1, PARTS_MAX + 1)}
    for size in sorted({equal, *(each for each in sizes if each > equal)}):
        whole, rest = divmod(total, size)
        if sum(node // size * alike for node, alike in nodes.items()) >= whole + (rest > 0):
            return [size] * whole + [rest] * (rest > 0)
    return [equal] * count


def _tolerated(table: NodeTable) -> tuple[Toleration, ...]:
    keys = {taint.key for node in table.objects for taint in node.spec.taints}
    own = sorted(key for key in keys if not key.partition("/")[0].endswith(_OF_KUBERNETES))
    return tuple(Toleration(key=key, operator="Exists") for key in own)


def _stand_in(
    group: PodGroup,
    number: int,
    asked: Mapping[str, Sequence[int]],
    tolerated: tuple[Toleration, ...],
    labels: Mapping[str, str],
) -> Pod:
    meta = group.metadata
    asks = {name: amounts.quantity_text(name, parts[number]) for name, parts in asked.items() if number < len(parts)}
    return Pod(
        metadata=ObjectMeta(
            namespace=meta.namespace,
            name=f"{meta.name}-{number}",
            uid=f"{meta.uid}-{number}",
            creation_timestamp=meta.creation_timestamp,
            labels=labels,
            annotations={names.GROUP_NAME: meta.name},
        ),
        spec=PodSpec(
            containers=(Container(name="stand-in", resources=ResourceRequirements(requests=asks)),),
            scheduler_name=VOLCANO,
            priority_class_name=group.spec.priority_class_name,
            tolerations=tolerated,
        ),
        status=PodStatus(phase="Pending"),
    )
