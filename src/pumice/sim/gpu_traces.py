"""Published traces of GPU clusters: CSV files with a head, as Alibaba's of 2023 (openb), SenseTime's Helios and Shanghai AI Laboratory's Acme, and
files like them; and the JSON of Microsoft's Philly.

A column is known by any of its names. Times are numbers of seconds, or dates. What asked for no GPU is left out, because the simulator's slots are
GPUs; a part of a GPU counts as a whole one.
"""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.errors import BadInput
from pumice.sim.simulation import MODEL, NODES_MAX, SLOTS_MAX, node_of
from pumice.sim.workload import JOBS_MAX, NEVER_RAN, NO_GPU, SECONDS_MAX, SIZE_MAX, Submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pumice.api.core import Node

_PHILLY_HEAD_CHARS = 65_536  # the first job of a log is within them
_SUBMITTED = ("submit_time", "creation_time", "submitted")
_STARTED = ("start_time", "scheduled_time", "started")
_ENDED = ("end_time", "deletion_time", "ended")
_LENGTH = ("duration", "run_time", "runtime")
_GPUS = ("gpu_num", "num_gpu", "gpus", "num_gpus")
_NODES = ("node_num", "num_nodes")
_USER, _QUEUE = ("user", "user_name"), ("vc", "queue", "group")
# Of a list of nodes.
_NODE, _NODE_GPUS, _MODEL = ("sn", "name", "node", "node_name"), ("gpu", *_GPUS), ("model", "gpu_model", "gpu_type")


def is_gpu_trace(head: str) -> bool:
    """Whether the first line of a file is the head of such a trace."""
    try:
        columns = {each.strip().lower() for each in next(csv.reader([head]), [])}  # names may stand in quotes
    except csv.Error:
        return False
    return bool(columns.intersection(_SUBMITTED)) and bool(columns.intersection(_GPUS))


def is_philly(text: str) -> bool:
    """Whether a file is a log of Philly's jobs."""
    return text[:1] == "[" and '"attempts"' in text[:_PHILLY_HEAD_CHARS]


def read_csv(
    lines: Iterable[str], source: str, *, most: int = JOBS_MAX, left_out: Counter[str] | None = None
) -> list[Submission]:
    """The first `most` jobs that held GPUs for a while, in order of submission; second 0 is the first of them.

    `left_out` counts the others, by the reason.
    """
    jobs = _jobs(lines, source, Counter() if left_out is None else left_out)
    return _in_order(itertools.islice(jobs, most), source)


def read_philly(
    log: Any, source: str, *, most: int = JOBS_MAX, left_out: Counter[str] | None = None
) -> list[Submission]:
    """The same from the log of Philly: a job is a gang of one pod on each node that its last attempt used, for as long as all attempts ran."""
    if not isinstance(log, list):
        raise BadInput(f"{source}: expected a list of jobs, as Philly's cluster_job_log is")
    jobs = _philly_jobs(log, source, Counter() if left_out is None else left_out)
    return _in_order(itertools.islice(jobs, most), source)


def read_nodes(lines: Iterable[str], source: str) -> list[Node]:
    """The nodes of a cluster that was published beside its trace, as Alibaba's: so many slots as GPUs, and their model as a label."""
    found: dict[str, Node] = {}
    for where, row in _rows(lines, source):
        name, slots, model = (
            _text(row, _NODE) or f"node-{len(found):05}",
            _count(row, _NODE_GPUS, where),
            _text(row, _MODEL),
        )
        if name in found or not 0 <= slots <= SLOTS_MAX or len(found) == NODES_MAX:
            raise BadInput(
                f"{where}: node {name[:80]!r} of {slots} GPUs; expected up to {NODES_MAX} nodes with different names and 0 to {SLOTS_MAX} GPUs each"
            )
        if slots:
            found[name] = node_of(name, slots, {MODEL: model} if model else {})
    if not found:
        raise BadInput(
            f"{source}: no node in it has GPUs; give a CSV with the columns {_NODE[0]}, {_NODE_GPUS[0]} and {_MODEL[0]}"
        )
    return list(found.values())


def _in_order(jobs: Iterable[Submission], source: str) -> list[Submission]:
    found = sorted(jobs, key=lambda job: job.at_s)
    if not found:
        return []
    first, last = found[0].at_s, found[-1].at_s
    if last - first > SECONDS_MAX:
        raise BadInput(
            f"{source}: the last job was submitted {last - first:.0f} s after the first one, and a workload may have {SECONDS_MAX}; is a line damaged?"
        )
    return [msgspec.structs.replace(each, at_s=each.at_s - first, estimate_s=each.run_s) for each in found]


def _philly_jobs(log: Sequence[Any], source: str, left_out: Counter[str]) -> Iterator[Submission]:
    for number, job in enumerate(log):
        where = f"{source}: job {number}"
        try:
            row = {key: value for key, value in job.items() if isinstance(value, str)}
            attempts = [
                {key: value for key, value in each.items() if isinstance(value, str)} for each in job["attempts"]
            ]
            gpus = [len(node["gpus"]) for node in job["attempts"][-1]["detail"]] if attempts else []
        except (AttributeError, KeyError, TypeError) as error:
            raise BadInput(
                f"{where}: not as Philly's log has it ({type(error).__name__}: {error}); is the file damaged?"
            ) from error
        submitted = _seconds(row, ("submitted_time",), where)
        run_s = sum(_run_s(each, where) or 0.0 for each in attempts)
        if not sum(gpus):
            left_out[NO_GPU] += 1
        elif submitted is None or run_s <= 0:
            left_out[NEVER_RAN] += 1
        else:
            _check(run_s, sum(gpus), where)
            size = len(gpus) if len(set(gpus)) == 1 else sum(gpus)
            yield Submission(
                at_s=submitted, run_s=run_s, size=size, slots=sum(gpus) // size, user=row.get("user", ""), queue=row.get("vc") or "default",
            )  # fmt: skip


def _jobs(lines: Iterable[str], source: str, left_out: Counter[str]) -> Iterator[Submission]:
    for where, row in _rows(lines, source):
        gpus, nodes = _count(row, _GPUS, where), max(1, _count(row, _NODES, where))
        submitted = _seconds(row, _SUBMITTED, where)
        run_s = _run_s(row, where)
        if gpus <= 0 or submitted is None or run_s is None or run_s <= 0:
            left_out[NO_GPU if gpus <= 0 else NEVER_RAN] += 1
            continue
        _check(run_s, gpus, where)
        size = nodes if gpus % nodes == 0 else 1
        yield Submission(
            at_s=submitted,
            run_s=run_s,
            size=size,
            slots=gpus // size,
            user=_text(row, _USER),
            queue=_queue(row),
        )


def _rows(lines: Iterable[str], source: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Each row with its place; columns are known by their names in small letters."""
    where = source
    reader = csv.DictReader(lines, strict=True)  # else a quote that nobody closes would hide all rows after it
    try:
        for raw in reader:
            where = f"{source}:{reader.line_num}"
            yield (
                where,
                {(key or "").strip().lower(): value.strip() for key, value in raw.items() if isinstance(value, str)},
            )
    except csv.Error as error:
        raise BadInput(f"{where}: after this line no CSV: {error}; is the file damaged?") from error


def _check(run_s: float, gpus: int, where: str) -> None:
    if run_s > SECONDS_MAX or gpus > SIZE_MAX:
        raise BadInput(f"{where}: {gpus} GPUs for {run_s:.0f} s; is this line damaged?")


def _queue(row: Mapping[str, str]) -> str:
    """Its name; a number in such a column is the time that the job waited."""
    name = _text(row, _QUEUE)
    return name if name and not name.replace(".", "").isdecimal() else "default"


def _run_s(row: Mapping[str, str], where: str) -> float | None:
    length = _seconds(row, _LENGTH, where)
    if length is not None:
        return length
    began, ended = _seconds(row, _STARTED, where), _seconds(row, _ENDED, where)
    return None if began is None or ended is None else ended - began


def _text(row: Mapping[str, str], names: tuple[str, ...]) -> str:
    return row.get(_column(row, names), "")


def _column(row: Mapping[str, str], names: tuple[str, ...]) -> str:
    """Under which of these names the row has something; the first where under none."""
    return next((name for name in names if row.get(name)), names[0])


def _unreadable(row: Mapping[str, str], names: tuple[str, ...], where: str, expected: str) -> BadInput:
    name = _column(row, names)
    return BadInput(f"{where}: {name} is {row[name][:40]!r}; expected {expected}")


def _count(row: Mapping[str, str], names: tuple[str, ...], where: str) -> int:
    text = _text(row, names)
    try:
        return math.ceil(float(text)) if text else 0
    except (ValueError, OverflowError) as error:
        raise _unreadable(row, names, where, "a number") from error


def _seconds(row: Mapping[str, str], names: tuple[str, ...], where: str) -> float | None:
    """A number of seconds, or a date; None where there is none."""
    text = _text(row, names)
    if not text or text.lower() in {"none", "nan", "null"}:
        return None
    try:
        value = float(text)
    except ValueError:
        try:
            date = dt.datetime.fromisoformat(text)
            return (date if date.tzinfo else date.replace(tzinfo=dt.UTC)).timestamp()
        except ValueError as error:
            raise _unreadable(row, names, where, "seconds or a date") from error
    if not math.isfinite(value):
        raise _unreadable(row, names, where, "seconds or a date")
    return value
