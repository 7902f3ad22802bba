"""nodegroup: queues have their own nodes. Nodes carry the label volcano.sh/nodegroup-name, queues say which groups they use or avoid.

Groups that a queue requires or prefers are open to it, and those that it only would rather not use; groups that it must not use are
closed. A queue that names nothing but groups to avoid may use all the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.scheduling import NodeGroupAffinity
from pumice.cluster import amounts
from pumice.cluster.tasks import OCCUPYING
from pumice.errors import BadInput
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.sharing.queue_tree import queue_tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.columns import Mask
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape

REQUIRED_SCORE = 100.0
PREFERRED_SCORE = 50.0
UNLOVED_SCORE = -1.0
_NOBODY = NodeGroupAffinity()


class Args(arguments.Args, frozen=True, kw_only=True):
    strict: Annotated[
        bool, msgspec.Meta(description="whether nodes without a group are closed to queues that name no groups to use")
    ] = True
    ordered: Annotated[
        bool, msgspec.Meta(description="whether preferred groups are preferred in the order in which they are listed")
    ] = msgspec.field(name="enablePreferredOrder", default=False)


class NodeGroup(Plugin):
    """Filters and scores by the groups that a pod's queue names, or with enableHierarchy its nearest ancestor that names any."""

    args_type = Args
    args: Args
    essential = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        self.args = args
        self.hierarchical = option.allows("enableHierarchy")

    def open(self, session: Session) -> None:
        self.session = session
        self.groups = [node.metadata.labels.get(names.NODEGROUP_NAME, "") for node in session.room.table.objects]
        labels = np.array(self.groups, dtype=np.str_)
        self.columns: dict[str, Mask] = {group: labels == group for group in sorted(set(self.groups))}
        self.tree = queue_tree(session.queues) if self.hierarchical else None
        self.denials: dict[str, list[Denial]] = {}
        self.scores: dict[str, Scores] = {}
        self.limits: dict[str, dict[str, MutableAmounts] | None] = {
            name: limits_of(queue)
            for name, queue in session.queues.items()
            if names.NODEGROUP_RESOURCE_LIMITS in queue.annotations
        }
        self.held: dict[tuple[str, str], MutableAmounts] = {}
        on = session.on
        on.declare(Reads.NOTHING, trait=self.queue_of)
        on.filter(self.filter)
        on.fixed_score(self.score)
        if self.limits:
            self._count_held(session)
            on.live_filter(self.limit, concerns=lambda shape: self.queue_of(shape.example) in self.limits)
            on.moved(self.moved)

    def queue_of(self, task: Task) -> str:
        gang = self.session.gangs.get(task.gang)
        return gang.queue if gang is not None else ""

    def _affinity(self, queue: str) -> tuple[NodeGroupAffinity, NodeGroupAffinity] | None:
        """What a queue wants and what it avoids; None where neither it nor an ancestor that counts says anything."""
        path = self.tree.paths.get(queue, (queue,)) if self.tree is not None else (queue,)
        for name in path:
            spec = self.session.queues.get(name)
            if spec is not None and spec.affinity is not None:
                return (
                    spec.affinity.node_group_affinity or _NOBODY,
                    spec.affinity.node_group_anti_affinity or _NOBODY,
                )
        return None

    # ------------------------------------------------------------------------------------------------- groups

    def filter(self, shape: Shape) -> Sequence[Denial]:
        queue = self.queue_of(shape.example)
        if queue not in self.denials:
            self.denials[queue] = self._denials(queue)
        return self.denials[queue]

    def _denials(self, queue: str) -> list[Denial]:
        affinity = self._affinity(queue)
        wanted, avoided = affinity or (_NOBODY, _NOBODY)
        is_choosy = bool(wanted.required or wanted.preferred)
        welcome = {*wanted.required, *wanted.preferred, *avoided.preferred} - set(avoided.required)
        refused: dict[Code, Mask] = {}
        for group, nodes in self.columns.items():
            if not group:
                code = Code.NODE_GROUP_LABEL if self.args.strict or is_choosy else None
            elif affinity is None:
                code = Code.NODE_GROUP_UNSPECIFIED
            else:
                open_to_all = not is_choosy and group not in avoided.required
                code = None if group in welcome or open_to_all else Code.NODE_GROUP_AFFINITY
            if code is not None:
                refused[code] = refused[code] | nodes if code in refused else nodes
        if queue in self.limits and self.limits[queue] is None:
            refused[Code.NODE_GROUP_LIMITS_INVALID] = np.array([bool(group) for group in self.groups], dtype=bool)
        return [Denial(code, "nodegroup", nodes) for code, nodes in refused.items()]

    def score(self, shape: Shape, nodes: Indexes) -> Scores | None:
        queue = self.queue_of(shape.example)
        if queue not in self.scores:
            self.scores[queue] = self._score(queue)
        return self.scores[queue][nodes]

    def _score(self, queue: str) -> Scores:
        total = np.zeros(len(self.groups))
        wanted, avoided = self._affinity(queue) or (_NOBODY, _NOBODY)
        for group in wanted.required:
            total[self.columns.get(group, slice(0))] += REQUIRED_SCORE
        size = len(wanted.preferred)
        for place, group in enumerate(wanted.preferred):
            part = (size - place) / size if self.args.ordered else 1.0
            total[self.columns.get(group, slice(0))] += PREFERRED_SCORE * part
        for group in avoided.preferred:
            total[self.columns.get(group, slice(0))] = UNLOVED_SCORE
        return total

    # ------------------------------------------------------------------------------------------------- limits

    def _count_held(self, session: Session) -> None:
        for gang in session.gangs.values():
            if gang.queue in self.limits:
                for task, node in session.on_nodes(gang.tasks_in(*OCCUPYING)):
                    self._hold(gang.queue, node, task.request.amounts, 1)

    def _hold(self, queue: str, node: int, request: Amounts, times: int) -> None:
        amounts.add(self.held.setdefault((queue, self.groups[node]), {}), request, times)

    def limit(self, shape: Shape) -> Sequence[Denial]:
        queue = self.queue_of(shape.example)
        request = shape.request.amounts
        full: Mask = np.zeros(len(self.groups), dtype=bool)
        for group, most in (self.limits[queue] or {}).items():
            held = self.held.get((queue, group), {})
            if any(held.get(name, 0) + request.get(name, 0) > value + amounts.EPSILON for name, value in most.items()):
                full |= self.columns.get(group, False)
        return [Denial(Code.NODE_GROUP_LIMIT, "nodegroup", full, Cure.WAITING)]

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del tasks
        if gang.queue in self.limits:
            for node in nodes:
                self._hold(gang.queue, node, shape.request.amounts, sign)


def limits_of(queue: QueueInfo) -> dict[str, MutableAmounts] | None:
    """What the queue may hold in each group, from its annotation; None where that cannot be read."""
    try:
        written = msgspec.json.decode(
            queue.annotations[names.NODEGROUP_RESOURCE_LIMITS], type=dict[str, dict[str, str | float]]
        )
        return {group: amounts.read(most) for group, most in written.items()}
    except (*UNREADABLE, BadInput):
        return None
