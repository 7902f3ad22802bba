"""What gangs really use of the GPUs that they hold, from what was measured of their pods; and which hold them for nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from pumice import instant
from pumice.api import names
from pumice.cluster.amounts import is_gpu
from pumice.cluster.gpu_use import PEAK_OVER
from pumice.cluster.tasks import Status

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.gangs import Gang
    from pumice.cluster.gpu_use import PodGpuUse
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant

IDLE_PERCENT = 5.0  # a gang all of whose GPUs have stayed below for PEAK_OVER is idle
_SHARED = frozenset({names.VGPU_NUMBER, names.VGPU_MEMORY, names.GPU_NUMBER, names.GPU_MEMORY})


class GangGpuUse(NamedTuple):
    """Of the pods of a gang that were measured."""

    pods: int
    percent: float  # the mean of their GPUs
    memory_mib: int
    is_idle: bool  # all of its pods with GPUs have done next to nothing for PEAK_OVER


def gpus_of(amounts: Amounts) -> dict[str, float]:
    """The part of some amounts that is GPUs: whole, partitions, or slices."""
    return {name: value for name, value in amounts.items() if value > 0 and (is_gpu(name) or name in _SHARED)}


def gang_uses(gangs: Iterable[Gang], measured: Mapping[str, PodGpuUse], now: Instant) -> dict[str, GangGpuUse]:
    """By gang; those of which nothing was measured are left out."""
    found = {}
    for gang in gangs if measured else ():
        if gang.counts[Status.RUNNING] and (use := _use(gang, measured, now)) is not None:
            found[gang.key] = use
    return found


def _use(gang: Gang, measured: Mapping[str, PodGpuUse], now: Instant) -> GangGpuUse | None:
    running = [task for task in gang.tasks if task.status is Status.RUNNING and gpus_of(task.request.amounts)]
    known = [(task, measured[task.key]) for task in running if task.key in measured]
    if not known:
        return None
    is_idle = len(known) == len(running) and all(
        use.peak < IDLE_PERCENT and _runs_for(task, now) >= PEAK_OVER for task, use in known
    )
    percent = sum(use.percent for _, use in known) / len(known)
    return GangGpuUse(len(known), round(percent, 1), sum(use.memory_mib for _, use in known), is_idle)


def _runs_for(task: Task, now: Instant) -> int:
    """A pod that has just begun may still be loading its data."""
    started = task.pod.status.start_time
    return now - instant.parse_instant(started) if started else 0
