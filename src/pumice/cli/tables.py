"""The columns of what the command line lists: vcctl's, then an age as kubectl prints it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api import cells, names
from pumice.api.meta import Json
from pumice.cli.results import Column

if TYPE_CHECKING:
    from pumice.instant import Instant

Cell = Callable[[Json, "Instant"], object]
PHASES = ("Inqueue", "Pending", "Running", "Unknown", "Completed")


def text(value: Any, otherwise: object = cells.NONE) -> str:
    return str(value if value not in {None, ""} else otherwise)


def _of(*path: str, otherwise: object = cells.NONE) -> Cell:
    def cell(obj: Json, _: Instant) -> str:
        value: Any = obj
        for part in path:
            value = (value or {}).get(part)
        return text(value, otherwise)

    return cell


def _count(name: str) -> Cell:
    return _of("status", name, otherwise=0)


def age(obj: Json, now: Instant) -> str:
    return cells.born(obj, now)


NAME = Column("NAME", _of("metadata", "name"))
NAMESPACE = Column("NAMESPACE", _of("metadata", "namespace"))
AGE = Column("AGE", age)


def with_namespace(columns: tuple[Column, ...], *, everywhere: bool) -> tuple[Column, ...]:
    return (NAMESPACE, *columns) if everywhere else columns


def _day(obj: Json, _: Instant) -> str:
    return str(obj["metadata"].get("creationTimestamp") or cells.NONE)[:10]


def replicas(job: Json) -> int:
    return sum(int(task.get("replicas") or 0) for task in (job.get("spec") or {}).get("tasks") or ())


def _job_type(job: Json, _: Instant) -> str:
    return str((job["metadata"].get("labels") or {}).get(names.JOB_TYPE) or "Batch")


JOB = (
    NAME,
    Column("CREATION", _day),
    Column("PHASE", _of("status", "state", "phase")),
    Column("JOBTYPE", _job_type),
    Column("REPLICAS", lambda job, _: replicas(job)),
    Column("MIN", _of("spec", "minAvailable", otherwise=0)),
    *(Column(name.upper(), _count(name)) for name in ("pending", "running", "succeeded", "failed", "unknown")),
    Column("RETRYCOUNT", _count("retryCount")),
    AGE,
    Column("QUEUE", _of("spec", "queue", otherwise="default"), wide=True),
    Column("SCHEDULER", _of("spec", "schedulerName"), wide=True),
)

JOB_FLOW = (NAME, Column("PHASE", _of("status", "state", "phase")), AGE)
JOB_TEMPLATE = (NAME, AGE)


def queue_columns(counted: Mapping[str, Counter[str]], resource: Callable[[], str]) -> tuple[Column, ...]:
    """Columns whose counts come from the PodGroups themselves: a Queue's own counters may be old, or kept by no controller.

    What it has of `resource` under the policy in force is in `share`, which the scheduler tells; `-` where it does not.
    """

    def count(phase: str, *, wide: bool = False) -> Column:
        cell: Cell = lambda queue, _: counted.get(queue["metadata"]["name"], Counter())[phase]  # noqa: E731
        return Column(phase.upper(), cell, wide=wide)

    def share(part: str, *, wide: bool = False, none: str = "-") -> Column:
        def cell(queue: Json, _: Instant) -> str:
            from pumice.cli import usage

            values, name = (queue.get("share") or {}).get(part), resource()
            return "-" if values is None else usage.quantity_text(name, values.get(name, none))

        return Column(part.upper(), cell, wide=wide)

    return (
        NAME,
        Column("WEIGHT", _of("spec", "weight", otherwise=1)),
        Column("STATE", _of("status", "state")),
        Column("PARENT", _of("spec", "parent")),
        Column("RESOURCE", lambda _, __: resource()),
        share("used", none="0"),
        share("deserved"),
        share("limit"),
        share("left"),
        count("Inqueue"),
        count("Pending"),
        count("Running"),
        AGE,
        count("Unknown", wide=True),
        count("Completed", wide=True),
        share("borrowed", wide=True, none="0"),
        Column("GUARANTEE", lambda queue, _: cells.labels_text(_guarantee(queue)), wide=True),
        Column("CAPABILITY", _amounts("spec", "capability"), wide=True),
        Column("ALLOCATED", _amounts("status", "allocated"), wide=True),
    )


def _guarantee(queue: Json) -> Any:
    return ((queue.get("spec") or {}).get("guarantee") or {}).get("resource")


def _amounts(part: str, name: str) -> Cell:
    def cell(obj: Json, _: Instant) -> str:
        return cells.labels_text((obj.get(part) or {}).get(name))

    return cell


def count_phases(groups: Iterable[Json]) -> dict[str, Counter[str]]:
    """For each queue, how many PodGroups are in which phase; a group that no scheduler has seen is pending."""
    counted: dict[str, Counter[str]] = {}
    for group in groups:
        queue = (group.get("spec") or {}).get("queue") or "default"
        phase = (group.get("status") or {}).get("phase") or "Pending"
        counted.setdefault(queue, Counter())[phase] += 1
    return counted


def _pod(index: int) -> Cell:
    return lambda pod, now: cells.pod_cells(pod, now)[index]


POD = (
    NAME,
    Column("READY", _pod(1)),
    Column("STATUS", _pod(2)),
    Column("RESTARTS", _pod(3)),
    AGE,
    Column("NODE", _pod(6), wide=True),
    Column("JOB", lambda pod, _: text((pod["metadata"].get("labels") or {}).get(names.JOB_NAME)), wide=True),
)


def since(timestamp: str | None, now: Instant) -> str:
    return instant.human_duration(now - instant.parse_instant(timestamp)) if timestamp else "<unknown>"
