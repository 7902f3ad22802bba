"""What is submitted, and when: values of our own, or the Standard Workload Format that published traces have."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import TYPE_CHECKING

from pumice.digits import counted
from pumice.errors import BadInput
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pumice.api.meta import Struct

JOBS_MAX = 1_000_000
SIZE_MAX = 100_000  # pods of one gang
SECONDS_MAX = 100 * 365 * 86_400  # of any time in a workload: a hundred years
NEVER_RAN, NO_GPU, TOO_LARGE = "never_ran", "no_gpu", "too_large"
_WHY_LEFT_OUT = {
    NEVER_RAN: "that never ran",
    NO_GPU: "that asked for no GPU",
    TOO_LARGE: "that the cluster has no room for",
}
_SHOWN_CHARS_MAX = 100  # of a line that cannot be read
_FIELDS_MIN = 5  # of a line: number, submit time, wait, run time, processors; the format has 18

# Fields of a line of the Standard Workload Format, from 0; -1 means unknown.
_SUBMIT, _RUN, _PROCESSORS, _PROCESSORS_ASKED, _TIME_ASKED, _USER = 1, 3, 4, 7, 8, 11


class Submission(Value):
    """A gang of equal pods, one slot each: when it comes, how long it runs, and how long its owner says it will."""

    at_s: float
    run_s: float
    size: int = 1
    queue: str = "default"
    user: str = ""
    estimate_s: float | None = None  # None: nobody says anything
    minimum: int | None = None  # members that must start together; None: all
    slots: int = 1  # of each pod
    priority_class: str = ""
    annotations: tuple[tuple[str, str], ...] = ()  # of the PodGroup
    # What a dump has: the gang as it is, in place of equal pods.
    key: str = ""  # of the gang; empty: it is given one
    objects: tuple[Struct, ...] = ()  # its group and its pods
    gpus: int | None = None  # that all of them ask for; None: as many as there are slots
    ran_s: float | None = None  # how long it has run already, on the nodes that its pods name; None: it waits

    @property
    def all_slots(self) -> int:
        return self.size * self.slots if self.gpus is None else self.gpus


def left_out_text(left_out: Mapping[str, int]) -> str:
    """How many jobs of a workload are not simulated, and why; empty where all are."""
    each = ", ".join(f"{count} {_WHY_LEFT_OUT[why]}" for why, count in sorted(left_out.items()))
    return f"{counted(sum(left_out.values()), 'job')} left out: {each}" if left_out else ""


def read_swf(
    lines: Iterable[str], source: str, *, most: int = JOBS_MAX, left_out: Counter[str] | None = None
) -> list[Submission]:
    """The first `most` jobs that ran, in order of submission; cancelled ones (no run time or no processors) are left out, and counted.

    The estimate is the time that was asked for, where the trace has it, else the true run time.
    """
    jobs = itertools.islice(_jobs(lines, source, Counter() if left_out is None else left_out), most)
    return sorted(jobs, key=lambda job: job.at_s)


def _jobs(lines: Iterable[str], source: str, left_out: Counter[str]) -> Iterator[Submission]:
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith(";"):
            continue
        fields = _numbers(text, f"{source}:{number}")
        at, run = fields[_SUBMIT], fields[_RUN]
        size = fields[_PROCESSORS] if fields[_PROCESSORS] > 0 else _field(fields, _PROCESSORS_ASKED)
        if run <= 0 or size <= 0:
            left_out[NEVER_RAN] += 1
            continue
        asked, user = _field(fields, _TIME_ASKED), _field(fields, _USER)
        if not 0 <= at <= SECONDS_MAX or max(run, asked) > SECONDS_MAX or size > SIZE_MAX:
            raise BadInput(
                f"{source}:{number}: times may be 0 to {SECONDS_MAX} s, and a job may have up to {SIZE_MAX} processors; is this line damaged?"
            )
        yield Submission(
            at_s=at,
            run_s=run,
            size=math.ceil(size),
            user=f"user-{int(user)}" if user >= 0 else "",
            estimate_s=asked if asked > 0 else run,
        )


def _numbers(text: str, where: str) -> list[float]:
    try:
        fields = [float(each) for each in text.split()]
    except ValueError as error:
        raise BadInput(
            f"{where}: {str(error)[:_SHOWN_CHARS_MAX]}; expected a line of numbers, as the Standard Workload Format has it"
        ) from error
    if len(fields) < _FIELDS_MIN:
        raise BadInput(f"{where}: {len(fields)} fields; the Standard Workload Format has 18 numbers a line")
    if not all(map(math.isfinite, fields)):
        raise BadInput(f"{where}: a field is no finite number; is this line damaged?")
    return fields


def _field(fields: list[float], place: int) -> float:
    return fields[place] if place < len(fields) else -1
