"""Why a gang and each of its pods wait, as one summary and one verdict for each pod."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.api.groups import group_of
from pumice.cluster.state import NATIVE_PREFIX, is_native
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.decisions import GangSummary, PodVerdict
from pumice.scheduling.core.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.gangs import Orphans
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

SCHEDULABLE = "Schedulable"
UNSCHEDULABLE = "Unschedulable"
NO_GROUP = "PodGroupNotFound"  # not Unschedulable: an autoscaler would make nodes for it
_OF_OTHERS = frozenset(
    {
        Code.DISRUPTION_BUDGET, Code.VICTIMS_PROTECTED, Code.EVICTION_BUDGET_USED, Code.EVICTION_DELAYED,
        Code.EVICTION_UNDONE,
    }
)  # fmt: skip
_HOPES = {Status.ALLOCATED: Code.PLACE_FOUND, Status.PIPELINED: Code.PLACE_BEING_FREED}


def summary(session: Session, gang: GangState) -> GangSummary:
    """How the gang stands now."""
    failed, error = next(iter(gang.fit_errors.items()), (None, None))
    origin = error or next(iter(gang.reasons), None)
    return GangSummary(
        members={status.text: gang.tally[status] for status in Status if gang.tally[status]},
        minimum=gang.spec.min_member,
        pending=Counter(_last_state(gang, task)[0] for task in gang.tasks_in(Status.PENDING)),
        origin=origin,
        pod=failed.name if failed is not None else "",
        is_ready=session.is_ready(gang),
        others=next((each for each in gang.reasons if each.code in _OF_OTHERS and each is not origin), None),
    )


def unschedulable(gang: GangState) -> int:
    """How many members are missing: those that a discarded plan had placed are not."""
    placed_once = sum(
        gang.status(task) is Status.PENDING and last.status in OCCUPYING for task, last in gang.last_tries.items()
    )
    return gang.spec.min_member - gang.tally.ready - placed_once


def _last_state(gang: GangState, task: Task) -> tuple[str, Status, str]:
    """The reason word, the state that explains the task, and the node that it had."""
    last = gang.last_tries.get(task)
    status = last.status if last is not None else gang.status(task)
    word = SCHEDULABLE if status is Status.ALLOCATED else UNSCHEDULABLE
    return word, status, last.node if last is not None else ""


def pod_verdicts(session: Session, gang: GangState, of_gang: GangSummary | Reason | None) -> list[PodVerdict]:
    """The PodScheduled conditions of members that were not bound in this cycle."""
    committed = session.committed
    unplaced = gang.tasks_in(Status.PENDING, Status.ALLOCATED, Status.PIPELINED)
    unplaced = [task for task in unplaced if not task.gates and task not in committed]
    if not unplaced:
        return []
    of_gang = of_gang or summary(session, gang)
    found = []
    for task in unplaced:
        word, status, node = _last_state(gang, task)
        if not node and status in {Status.ALLOCATED, Status.PIPELINED}:
            node = session.room.table.names[gang.places[task][1]]
        code = _HOPES.get(status)
        hope = Reason(code, "gang", Facts(pod=task.key, node=node)) if code is not None else None
        own = hope or gang.fit_errors.get(task)
        found.append(PodVerdict(task, word, own or of_gang, session.nominations.get(task, ""), of_gang=own is None))
    return found


def orphan_verdicts(orphans: Mapping[str, Orphans]) -> dict[str, tuple[PodVerdict, ...]]:
    """What is said of pods that wait for a group that does not exist; no action looks at them."""
    found = {}
    for key, each in orphans.items():
        waiting = [task for task in each.tasks if task.status is Status.PENDING and not task.gates]
        if waiting:
            why = Reason(_orphan_code(key, waiting[0]), "gang", Facts(gang=key.replace(NATIVE_PREFIX, "")))
            found[key] = tuple(PodVerdict(task, NO_GROUP, why) for task in waiting)
    return found


def _orphan_code(key: str, task: Task) -> Code:
    if is_native(key):
        return Code.NATIVE_GROUP_MISSING
    is_named = not group_of(task.pod).is_implied
    return Code.GROUP_MISSING if is_named else Code.GROUP_NOT_MADE
