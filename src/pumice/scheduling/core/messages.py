"""The sentences that users grep for: why a gang and each of its pods wait, in Volcano's words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pumice.api import names
from pumice.cluster.state import NATIVE_PREFIX, is_native
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.scheduling.core.decisions import PodVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

SCHEDULABLE = "Schedulable"
UNSCHEDULABLE = "Unschedulable"
NO_GROUP = "PodGroupNotFound"  # not Unschedulable: an autoscaler would make nodes for it


def fit_text(session: Session, gang: GangState) -> str:
    """`pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Unschedulable, 2 Schedulable. Origin reason is ...`"""
    ready = "pod group is ready" if session.is_ready(gang) else "pod group is not ready"
    counts = [f"{gang.tally[status]} {status.text}" for status in Status if gang.tally[status]]
    text = f"{ready}, {_histogram([*counts, f'{gang.spec.min_member} minAvailable'])}"
    waiting = gang.tasks_in(Status.PENDING)
    if waiting:
        reasons = Counter(_last_state(gang, task)[0] for task in waiting)
        text += f"; Pending: {_histogram([f'{count} {reason}' for reason, count in reasons.items()])}"
    origin = next(iter(gang.fit_errors.items()), None)
    if origin is not None:
        text += f". Origin reason is {origin[0].name}: {origin[1].text}"
    elif gang.reasons:
        text += f". Origin reason is {gang.reasons[0].text}"
    return text


def _histogram(entries: list[str]) -> str:
    return ", ".join(sorted(entries))


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


def pod_verdicts(session: Session, gang: GangState, gang_text: str) -> list[PodVerdict]:
    """The PodScheduled conditions of members that were not bound in this cycle."""
    committed = session.committed
    unplaced = gang.tasks_in(Status.PENDING, Status.ALLOCATED, Status.PIPELINED)
    unplaced = [task for task in unplaced if not task.gates and task not in committed]
    if unplaced and not gang_text:
        gang_text = fit_text(session, gang)
    found = []
    for task in unplaced:
        word, status, node = _last_state(gang, task)
        if not node and status in {Status.ALLOCATED, Status.PIPELINED}:
            node = session.room.table.names[gang.places[task][1]]
        own = _pod_text(gang, task, status, node)
        nominated = session.nominations.get(task, "")
        found.append(PodVerdict(task, word, own or gang_text, nominated, of_gang=not own))
    return found


def _pod_text(gang: GangState, task: Task, status: Status, node: str) -> str:
    """What is to be said of this pod and no other; empty where it waits as the whole gang does."""
    if status is Status.ALLOCATED:
        return f"Pod {task.key} can possibly be assigned to {node}, once minAvailable is satisfied"
    if status is Status.PIPELINED:
        return f"Pod {task.key} can possibly be assigned to {node}, once resource is released and minAvailable is satisfied"
    own = gang.fit_errors.get(task)
    return own.text if own is not None else ""


def orphan_verdicts(orphans: Mapping[str, Sequence[Task]]) -> dict[str, tuple[PodVerdict, ...]]:
    """What is said of pods that wait for a group that does not exist; nobody else looks at them."""
    found = {}
    for key, tasks in orphans.items():
        waiting = [task for task in tasks if task.status is Status.PENDING and not task.gates]
        if waiting:
            text = _orphan_text(key, waiting[0])
            found[key] = tuple(PodVerdict(task, NO_GROUP, text) for task in waiting)
    return found


def _orphan_text(key: str, task: Task) -> str:
    notes = task.pod.metadata.annotations
    if is_native(key):
        name = key.replace(NATIVE_PREFIX, "")
        return f"waits for PodGroup {name} of scheduling.k8s.io, which does not exist; create it"
    if names.GROUP_NAME in notes or names.VOLCANO_GROUP_NAME in notes:
        return f"waits for PodGroup {key}, which does not exist; create it, or correct the pod's annotation"
    return f"waits for PodGroup {key}, which nobody has made for its workload; see that `pumice controllers` runs"
