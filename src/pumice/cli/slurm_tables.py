"""Jobs, queues and nodes in the words of people who come from Slurm: rows that `squeue` and `sinfo` print. Pure."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.batch import DEFAULT_QUEUE, JobPhase
from pumice.api.decoding import UNREADABLE
from pumice.api.meta import Struct
from pumice.api.run_time import limit_of, run_of, start_time, started_at
from pumice.controllers.ownership import job_reference
from pumice.readmodel.model import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.api.batch import Job
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue
    from pumice.cli.room import NodeRoom
    from pumice.instant import Duration, Instant
    from pumice.readmodel import model

# Slurm's short words for what a Job is doing.
STATES = {
    JobPhase.PENDING: "PD",
    JobPhase.RUNNING: "R",
    JobPhase.RESTARTING: "RQ",
    JobPhase.ABORTING: "CG",
    JobPhase.ABORTED: "S",
    JobPhase.COMPLETING: "CG",
    JobPhase.COMPLETED: "CD",
    JobPhase.TERMINATING: "CG",
    JobPhase.TERMINATED: "CA",
    JobPhase.FAILED: "F",
}
TIMED_OUT = "TO"
OVER = frozenset({"CD", "CA", "F", TIMED_OUT})  # which squeue leaves out, unless they are asked for
LONG_STATES = {
    "PENDING": "PD",
    "RUNNING": "R",
    "REQUEUED": "RQ",
    "SUSPENDED": "S",
    "COMPLETING": "CG",
    "COMPLETED": "CD",
    "CANCELLED": "CA",
    "FAILED": "F",
    "TIMEOUT": TIMED_OUT,
}
UNKNOWN_START = "n/a"
_FINISHED = frozenset({"Succeeded", "Failed"})
_TAIL = re.compile(r"(.*?)([0-9]+)")
NAMES_SHOWN_MAX = 12  # ranges of nodes in one cell


class QueueRow(Struct, omit_defaults=False):
    """One line of squeue; the names here are what `-o json` prints."""

    job: str
    namespace: str
    partition: str
    user: str
    state: str
    phase: str
    time: int  # seconds of run time
    time_limit: int | None
    pods: int
    nodes: tuple[str, ...]
    reason: str  # why it waits, or is over; empty while it runs
    start: str | None = None  # when it is expected to start, if anybody has worked that out
    is_forecast: bool = False  # likely only; else room is reserved for it from then on
    start_unknown: str = ""  # why that is not known


# -------------------------------------------------------------------------------------------------------------- squeue


def queue_rows(jobs: Iterable[Job], groups: Iterable[PodGroup], pods: Iterable[Pod], now: Instant) -> list[QueueRow]:
    """One row for each Job: who runs first, by their time, then who waits, as they came."""
    of_job = {owner.uid: group for group in groups if (owner := job_reference(group)) is not None}
    members: dict[str, list[Pod]] = {}
    for pod in pods:
        if (owner := job_reference(pod)) is not None:
            members.setdefault(owner.uid, []).append(pod)
    listed = [(job, of_job.get(job.metadata.uid), members.get(job.metadata.uid, [])) for job in jobs]
    rows = [(job.metadata.creation_timestamp or "", _row(job, group, own, now)) for job, group, own in listed]
    rows.sort(key=lambda each: (each[1].state != "R", each[0], each[1].namespace, each[1].job))
    return [row for _, row in rows]


def _row(job: Job, group: PodGroup | None, pods: Sequence[Pod], now: Instant) -> QueueRow:
    metadata, state = job.metadata, state_of(job)
    live = [pod for pod in pods if pod.status.phase not in _FINISHED]
    start, unknown = _start(group, state)
    return QueueRow(
        job=metadata.name,
        namespace=metadata.namespace,
        partition=job.spec.queue or DEFAULT_QUEUE,
        user=metadata.annotations.get(names.SUBMITTED_BY) or metadata.labels.get(names.USER) or metadata.namespace,
        state=state,
        phase=job.status.state.phase or JobPhase.PENDING.value,
        time=_run_time(job, group, pods, now) // instant.SECOND,
        time_limit=_limit(job),
        pods=sum(task.replicas for task in job.spec.tasks),
        nodes=tuple(sorted({pod.spec.node_name for pod in live if pod.spec.node_name})) if state != "PD" else (),
        reason="" if state == "R" else _reason(job, group, state),
        start=start,
        start_unknown=unknown,
    )


def state_of(job: Job) -> str:
    phase, reason = job.status.state.phase, job.status.state.reason
    if phase == JobPhase.TERMINATED and reason == "TimeLimitExceeded":
        return TIMED_OUT
    try:
        return STATES[JobPhase(phase)]
    except ValueError:
        return "PD"


def _limit(job: Job) -> int | None:
    with contextlib.suppress(instant.DurationError):
        limit = limit_of(job.metadata.annotations)
        return limit.limit // instant.SECOND if limit is not None else None
    return None


def _run_time(job: Job, group: PodGroup | None, pods: Sequence[Pod], now: Instant) -> Duration:
    """Of this attempt; of one that is over, from when it last ran to its end."""
    if state_of(job) in OVER:
        running = [each.last_transition_time for each in job.status.conditions if each.status == JobPhase.RUNNING]
        ended = job.status.state.last_transition_time
        if not running or not running[-1] or not ended:
            return 0
        return max(instant.parse_instant(ended) - instant.parse_instant(running[-1]), 0)
    recorded = run_of(group.metadata.annotations).started if group is not None else None
    minimum = group.spec.min_member if group is not None else job.spec.min_available
    started = started_at((start_time(pod) for pod in pods), minimum, recorded)
    return max(now - started, 0) if started is not None and state_of(job) != "PD" else 0


class _Verdict(msgspec.Struct, frozen=True):
    reasons: tuple[Reason, ...] = ()


def _reason(job: Job, group: PodGroup | None, state: str) -> str:
    """One word, as in Slurm: the code of the first reason of the scheduler's verdict."""
    if state != "PD":
        return job.status.state.reason or job.status.state.phase
    if group is None:
        return "NoPodGroup"
    with contextlib.suppress(msgspec.MsgspecError):
        found = msgspec.json.decode(group.metadata.annotations.get(names.VERDICT, "{}"), type=_Verdict).reasons
        if found:
            return found[0].code
    return next((each.reason for each in group.status.conditions if each.status == "True"), "") or "NotLookedAtYet"


class _Reservation(msgspec.Struct, frozen=True):
    time: str = ""


def _start(group: PodGroup | None, state: str) -> tuple[str | None, str]:
    if state != "PD":
        return None, ""
    text = group.metadata.annotations.get(names.RESERVATION) if group is not None else None
    if not text:
        return None, "no reservation and no forecast yet"
    try:
        at = msgspec.json.decode(text, type=_Reservation).time
        instant.parse_instant(at)
    except (*UNREADABLE, instant.InstantError):
        return None, "its reservation cannot be read"
    return at, ""


def with_forecasts(rows: Iterable[QueueRow], gangs: Iterable[model.Gang]) -> list[QueueRow]:
    """With the likely start of those for which no room is reserved, as far as the scheduler has foreseen it."""
    told = {(gang.namespace, gang.job): gang.forecast for gang in gangs if gang.forecast is not None}
    return [_with_forecast(row, told.get((row.namespace, row.job))) for row in rows]


def _with_forecast(row: QueueRow, told: model.Forecast | None) -> QueueRow:
    if row.start or told is None:
        return row
    if not told.p50:
        return msgspec.structs.replace(row, start_unknown="not within a week, as far as is known")
    return msgspec.structs.replace(row, start=told.p50, is_forecast=True, start_unknown="")


def queue_table(rows: Sequence[QueueRow], *, starts: bool, everywhere: bool) -> list[tuple[str, ...]]:
    """Heads and cells."""
    middle = ("START_TIME",) if starts else ("TIME", "TIME_LIMIT")
    heads = ("JOBID", "PARTITION", "USER", "ST", *middle, "PODS", "NODES", "NODELIST(REASON)")
    table = [(*(("NAMESPACE",) if everywhere else ()), *heads)]
    for row in rows:
        limit = "UNLIMITED" if row.time_limit is None else slurm_time(row.time_limit)
        cells = (_start_text(row),) if starts else (slurm_time(row.time), limit)
        where = ",".join(ranges_of_names(row.nodes)) if row.nodes else f"({row.reason})"
        front = (*((row.namespace,) if everywhere else ()), row.job, row.partition, row.user, row.state)
        table.append((*front, *cells, str(row.pods), str(len(row.nodes)), where))
    return table


def _start_text(row: QueueRow) -> str:
    if row.start is not None:
        return f"{row.start} (likely)" if row.is_forecast else row.start
    return f"{UNKNOWN_START} ({row.start_unknown})" if row.start_unknown else UNKNOWN_START


# --------------------------------------------------------------------------------------------------------------- sinfo


class PartitionRow(Struct, omit_defaults=False):
    """One line of sinfo: the nodes of a queue that are in one state."""

    partition: str
    available: bool
    state: str
    nodes: tuple[str, ...]


def node_state(node: NodeRoom) -> str:
    """Slurm's word for a node, by the cards that it has, or its cores where it has none."""
    words = node.state.split(",")
    if words[0] != "Ready":
        return "down"
    if "SchedulingDisabled" in words:
        return "drng" if node.used else "drain"
    if not node.used:
        return "idle"
    return "mix" if node.free else "alloc"


def partition_rows(queues: Iterable[Queue], nodes: Mapping[str, str]) -> list[PartitionRow]:
    """Queues that take Jobs, with all nodes by state: every queue may use every node."""
    listed = list(queues)
    parents = {each.spec.parent for each in listed}
    by_state: dict[str, list[str]] = {}
    for name, state in sorted(nodes.items()):
        by_state.setdefault(state, []).append(name)
    return [
        PartitionRow(queue.metadata.name, queue.status.state in {"", "Open"}, state, tuple(members))
        for queue in sorted(listed, key=lambda each: each.metadata.name)
        if queue.metadata.name != "root" and queue.metadata.name not in parents
        for state, members in (sorted(by_state.items()) or [("n/a", [])])
    ]


def partition_table(rows: Sequence[PartitionRow]) -> list[tuple[str, ...]]:
    table: list[tuple[str, ...]] = [("PARTITION", "AVAIL", "TIMELIMIT", "NODES", "STATE", "NODELIST")]
    for row in rows:
        star = "*" if row.partition == DEFAULT_QUEUE else ""
        up = "up" if row.available else "down"
        where = ",".join(ranges_of_names(row.nodes))
        table.append((f"{row.partition}{star}", up, "infinite", str(len(row.nodes)), row.state, where))
    return table


def node_table(nodes: Mapping[str, str]) -> list[tuple[str, ...]]:
    return [("NODELIST", "STATE"), *sorted(nodes.items())]


# --------------------------------------------------------------------------------------------------------------- words


def slurm_time(seconds: int) -> str:
    """`5:03`, `2:00:00`, `3-12:00:00`."""
    days, rest = divmod(max(seconds, 0), 86_400)
    hours, rest = divmod(rest, 3_600)
    minutes, rest = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{rest:02}"
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def ranges_of_names(found: Iterable[str]) -> list[str]:
    """`gpu-[1-3,7]` for gpu-1, gpu-2, gpu-3 and gpu-7; names without a number as they are; the first ones of very many."""
    by_stem: dict[str, list[str]] = {}
    plain: list[str] = []
    for name in found:
        match = _TAIL.fullmatch(name)
        if match is None:
            plain.append(name)
        else:
            by_stem.setdefault(match.group(1), []).append(match.group(2))
    listed = [_stem_text(stem, digits) for stem, digits in sorted(by_stem.items())] + sorted(plain)
    more = len(listed) - NAMES_SHOWN_MAX
    return listed if more <= 0 else [*listed[:NAMES_SHOWN_MAX], f"and {more} more"]


def _stem_text(stem: str, digits: Sequence[str]) -> str:
    if len(digits) == 1:
        return f"{stem}{digits[0]}"
    runs: list[list[str]] = []
    for each in sorted(digits, key=lambda text: (int(text), text)):
        if runs and int(each) == int(runs[-1][-1]) + 1 and len(each) >= len(runs[-1][-1]):
            runs[-1].append(each)
        else:
            runs.append([each])
    return f"{stem}[{','.join(run[0] if len(run) == 1 else f'{run[0]}-{run[-1]}' for run in runs)}]"
