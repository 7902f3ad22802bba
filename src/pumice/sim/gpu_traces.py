"""Published traces of GPU clusters, which are CSV files with a head: Alibaba's of 2023 (openb) and SenseTime's Helios, and files like them.

A column is known by any of its names. Times are numbers of seconds, or dates. What asked for no GPU is left out, because the simulator's slots are
GPUs; a part of a GPU counts as a whole one.
"""

from __future__ import annotations

import csv
import datetime as dt
import itertools
import math
from typing import TYPE_CHECKING

from pumice.errors import BadInput
from pumice.sim.workload import JOBS_MAX, SECONDS_MAX, SIZE_MAX, Submission

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

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


def read_csv(lines: Iterable[str], source: str, *, most: int = JOBS_MAX) -> list[Submission]:
    """The first `most` jobs that held GPUs for a while, in order of submission; second 0 is the first of them."""
    found = sorted(itertools.islice(_jobs(lines, source), most), key=lambda job: job.at_s)
    first = found[0].at_s if found else 0.0
    return [
        Submission(
            at_s=each.at_s - first,
            run_s=each.run_s,
            size=each.size,
            slots=each.slots,
            user=each.user,
            queue=each.queue,
            estimate_s=each.run_s,
        )
        for each in found
    ]


def _jobs(lines: Iterable[str], source: str) -> Iterator[Submission]:
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
            continue
        if run_s > SECONDS_MAX or gpus > SIZE_MAX:
            raise BadInput(f"{where}: {gpus} GPUs for {run_s:.0f} s; is this line damaged?")
        size = nodes if gpus % nodes == 0 else 1
        yield Submission(
            at_s=submitted,
            run_s=run_s,
            size=size,
            slots=gpus // size,
            user=_text(row, _USER),
            queue=_text(row, _QUEUE) or "default",
        )


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
            return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC).timestamp()
        except ValueError as error:
            raise BadInput(f"{where}: {names[0]} is {text[:40]!r}; expected seconds or a date") from error
    if not math.isfinite(value):
        raise BadInput(f"{where}: {names[0]} is {text[:40]!r}; expected seconds or a date")
    return value
