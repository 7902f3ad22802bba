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
from pumice.sim.workload import JOBS_MAX, NEVER_RAN, SECONDS_MAX, SIZE_MAX, Submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

NO_GPU = "that asked for no GPU"
_PHILLY_HEAD_CHARS = 65_536  # the first job of a log is within them
_SUBMITTED = ("submit_time", "creation_time", "submitted")
_STARTED = ("start_time", "scheduled_time", "started")
_ENDED = ("end_time", "deletion_time", "ended")
_LENGTH = ("duration", "run_time", "runtime")
_GPUS = ("gpu_num", "num_gpu", "gpus", "num_gpus")
_NODES = ("node_num", "num_nodes")
_USER, _QUEUE = ("user", "user_name"), ("vc", "queue", "group")


def is_gpu_trace(head: str) -> bool:
    """Whether the first line of a file is the head of such a trace."""
    columns = {each.strip().lower() for each in head.split(",")}
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
    return _in_order(itertools.islice(_jobs(lines, source, Counter() if left_out is None else left_out), most))


def read_philly(
    log: Any, source: str, *, most: int = JOBS_MAX, left_out: Counter[str] | None = None
) -> list[Submission]:
    """The same from the log of Philly: a job is a gang of one pod on each node that its last attempt used, for as long as all attempts ran."""
    if not isinstance(log, list):
        raise BadInput(f"{source}: expected a list of jobs, as Philly's cluster_job_log is")
    return _in_order(itertools.islice(_philly_jobs(log, source, Counter() if left_out is None else left_out), most))


def _in_order(jobs: Iterable[Submission]) -> list[Submission]:
    found = sorted(jobs, key=lambda job: job.at_s)
    first = found[0].at_s if found else 0.0
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
    rows = csv.DictReader(lines)
    for number, raw in enumerate(rows, start=2):
        row = {
            (key or "").strip().lower(): (value or "").strip() for key, value in raw.items() if isinstance(value, str)
        }
        where = f"{source}:{number}"
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
    return next((row[name] for name in names if row.get(name)), "")


def _count(row: Mapping[str, str], names: tuple[str, ...], where: str) -> int:
    text = _text(row, names)
    try:
        return math.ceil(float(text)) if text else 0
    except (ValueError, OverflowError) as error:
        raise BadInput(f"{where}: {names[0]} is {text[:40]!r}; expected a number") from error


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
            raise BadInput(f"{where}: {names[0]} is {text[:40]!r}; expected seconds or a date") from error
    if not math.isfinite(value):
        raise BadInput(f"{where}: {names[0]} is {text[:40]!r}; expected seconds or a date")
    return value
