"""Objects of a run ahead as they get on: as controllers, binds and kubelets would have left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.pods import ContainerState, ContainerStateTerminated, ContainerStatus, Pod
from pumice.api.scheduling import PodGroup, PodGroupPhase
from pumice.cluster.tasks import OCCUPYING, Status

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api import disruptions
    from pumice.api.meta import Struct
    from pumice.cluster.state import GangSlot
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Bind, Decisions
    from pumice.scheduling.time.backlog import Objects


def in_phase(group: PodGroup, phase: str) -> PodGroup:
    return msgspec.structs.replace(group, status=msgspec.structs.replace(group.status, phase=phase))


def in_phases(objects: Objects, phase: PodGroupPhase) -> list[Struct]:
    """Those of a gang whose group is in that phase, as cycles would have left it."""
    return [in_phase(thing, phase.value) if isinstance(thing, PodGroup) else thing for thing in objects()]


def minimum(slot: GangSlot) -> int:
    return slot.group.spec.min_member if isinstance(slot.group, PodGroup) else 1


def waits(slot: GangSlot) -> bool:
    """Whether a gang has something to gain from a cycle: it is not admitted, or has a member without a place."""
    return not slot.tasks or any(task.status is Status.PENDING for task in slot.tasks.values())


def holds_places(slot: GangSlot) -> bool:
    """Whether some of its members have theirs."""
    return any(task.status in OCCUPYING for task in slot.tasks.values())


def is_whole(slot: GangSlot) -> bool:
    """Whether its minimum has places; policies without gangs bind what they can, and the first pods wait for the last."""
    return sum(task.status in OCCUPYING for task in slot.tasks.values()) >= minimum(slot)


def objects_of(slot: GangSlot) -> list[Struct]:
    """Its pods and, where it has one, its group."""
    return [*(task.pod for task in slot.tasks.values()), *(() if slot.group is None else (slot.group,))]


def changed_pods(decisions: Decisions) -> list[Pod]:
    """Pods that are given notice, whose notice is withdrawn, and whose gate is open."""
    changed = [with_notice(each.task.pod, each.about) for each in decisions.notices]
    changed += [with_notice(task.pod, None) for task in decisions.withdrawn]
    return [*changed, *(ungated(task.pod) for task in decisions.ungated)]


def leaving(decisions: Decisions) -> dict[str, list[Task]]:
    """Who has to go, by gang."""
    found: dict[str, list[Task]] = {}
    for eviction in decisions.evictions:
        found.setdefault(eviction.task.gang, []).append(eviction.task)
    for release in decisions.releases:
        found.setdefault(release.gang, []).extend(release.tasks)
    return found


def with_notice(pod: Pod, about: disruptions.Notice | None) -> Pod:
    """Pods do not answer here: who is given notice leaves when its time is over."""
    notes = {key: text for key, text in pod.metadata.annotations.items() if key != names.EVICTION_NOTICE}
    if about is not None:
        notes[names.EVICTION_NOTICE] = msgspec.json.encode(about).decode()
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=notes))


def succeeded(tasks: Iterable[Task], at: Instant) -> list[Pod]:
    over = ContainerStateTerminated(finished_at=instant.format_micro_instant(at))
    containers = (ContainerStatus(state=ContainerState(terminated=over)),)
    pods, known, status = [], None, None
    for task in tasks:
        if status is None or task.pod.status is not known:
            known = task.pod.status
            status = msgspec.structs.replace(known, phase="Succeeded", container_statuses=containers)
        pods.append(Pod(metadata=task.pod.metadata, spec=task.pod.spec, status=status))
    return pods


def annotated(bind: Bind) -> Pod:
    pod = bind.task.pod
    if not bind.annotations:
        return pod
    notes = {**pod.metadata.annotations, **bind.annotations}
    return Pod(metadata=msgspec.structs.replace(pod.metadata, annotations=notes), spec=pod.spec, status=pod.status)


def bound(pods: Iterable[tuple[Pod, str]], at: Instant) -> list[Pod]:
    """Each on its node, where it runs since then."""
    since = instant.format_micro_instant(at)
    found, known, status = [], None, None
    for pod, node in pods:
        spec = msgspec.structs.replace(pod.spec, node_name=node)
        if status is None or pod.status is not known:
            known = pod.status
            status = msgspec.structs.replace(known, phase="Running", start_time=since, nominated_node_name="")
        found.append(Pod(metadata=pod.metadata, spec=spec, status=status))
    return found


def ungated(pod: Pod) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduling_gates=()))
