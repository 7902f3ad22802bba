"""What `pumice simulate` answers: tables or data, one page with pictures, and what is missing in either."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from pumice.cli.disk_errors import naming
from pumice.cli.input_files import STDIN
from pumice.cli.printing import align, echo_data
from pumice.cli.simulation_input import file_of
from pumice.errors import BadInput
from pumice.sim.report import idle_dollars, page
from pumice.sim.simulation import gang_key
from pumice.sim.spans import span_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pumice.sim.outcome import Outcome


class About(NamedTuple):
    """What an answer says beside its figures."""

    workload: str
    cluster: str
    seed: int
    left_out: Mapping[str, int]
    gpu_price: float | None


def show(outcomes: Mapping[str, Outcome], about: About, output: str, *, per_job: bool) -> None:
    if output == "table":
        click.echo(_table(outcomes))
        return
    answer = {name: _as_data(outcome, about.gpu_price, per_job=per_job) for name, outcome in outcomes.items()}
    given = {"workload": about.workload, "cluster": about.cluster, "seed": about.seed, "left_out": about.left_out}
    echo_data({**given, "policies": answer}, output)


# ------------------------------------------------------------------------------------------------- the report


def check_writable(file: str, read: Mapping[str, Iterable[str]]) -> None:
    """Before a simulation that may take an hour; a file that is there already stays as it is until then. `read` are the files of each option."""
    if file == STDIN:
        raise BadInput("--report -: standard output has the figures; name a file")
    path = Path(file)
    for option, names in read.items():
        if any(_is_same(path, file_of(name)) for name in names):
            raise BadInput(f"--report {file}: that is what {option} reads, and would be lost; choose another name")
    if path.is_fifo():
        return  # opened and closed, its reader would take it for the end
    is_new = not os.path.lexists(path)
    try:
        with path.open("a", encoding="utf-8"):
            pass
        if is_new:
            path.unlink()  # nobody finds an empty one where nothing comes of the simulation
    except OSError as error:
        raise BadInput(f"--report {file}: {error.strerror or error}; choose another place") from error


def _is_same(path: Path, other: str) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False  # one of them is not there


def write_report(file: str, outcomes: Mapping[str, Outcome], about: About) -> None:
    """As a whole or not at all where the place allows it: a full disk leaves the report of before."""
    text = page(
        outcomes,
        workload=Path(about.workload).name,
        cluster=Path(about.cluster).name,
        left_out=about.left_out,
        gpu_price=about.gpu_price,
    )
    path, data = Path(file), text.encode("utf-8", "replace")
    with naming(file):
        if (path.exists() and not path.is_file()) or not os.access(path.resolve().parent, os.W_OK):
            path.write_bytes(data)  # a pipe, a device, or a folder that is not ours
        else:
            _replace(path.resolve(), data)


def _replace(path: Path, data: bytes) -> None:
    beside = path.with_name(f".{path.name[:50]}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------- what is missing


def say_what_is_missing(outcomes: Mapping[str, Outcome], tried: Collection[str]) -> bool:
    """On stderr; whether all was tried to its end."""
    cut_short = [name for name, outcome in outcomes.items() if outcome.cut_short_s is not None]
    for name, outcome in outcomes.items():
        if name in cut_short:
            _say_cut_short(name, outcome)
        elif never := int(outcome.figures["never_started"] or 0):
            click.echo(
                f"pumice: {name}: {never} of {len(outcome.runs)} jobs never started: waits and slowdowns are those of the others",
                err=True,
            )
    untried = [name for name in tried if name not in outcomes]
    if untried:
        click.echo(f"pumice: not tried: {', '.join(untried)}", err=True)
    return not cut_short and not untried


def _say_cut_short(name: str, outcome: Outcome) -> None:
    figures, at_s = outcome.figures, outcome.cut_short_s or 0.0
    click.echo(
        f"pumice: cut short: {name} had come to day {at_s / 86_400:.1f}, {len(outcome.runs) - int(figures['never_ended'] or 0)} of {len(outcome.runs)} jobs "
        "had ended, and its figures are of those",
        err=True,
    )


# ------------------------------------------------------------------------------------------------- figures


def _as_data(outcome: Outcome, gpu_price: float | None, *, per_job: bool) -> dict[str, Any]:
    figures = outcome.figures
    data: dict[str, Any] = {**figures, "wait_by_size": outcome.wait_by_size()}
    if gpu_price is not None:
        data["idle_dollars"] = idle_dollars(figures, gpu_price)
    if outcome.cut_short_s is not None:
        data["cut_short_s"] = outcome.cut_short_s
    if per_job:
        data["runs"] = [
            {
                "gang": gang_key(each.number, each.job),
                "queue": each.job.queue,
                "user": each.job.user,
                "submit_s": each.job.at_s,
                "run_s": each.job.run_s,
                "size": each.job.size,
                "slots": each.slots,
                "start_s": each.start_s,
                "end_s": each.end_s,
                "restarts": each.restarts,
            }
            for each in outcome.runs
        ]
    return data


def _table(outcomes: Mapping[str, Outcome]) -> str:
    heads = (
        "POLICY",
        "MEAN WAIT",
        "SLOWDOWN",
        "UTILISATION",
        "MAKESPAN",
        "EVICTIONS",
        "LOST GPU-H",
        "BLOCKED GPU-H",
        "NOT STARTED",
    )
    rows: list[tuple[str, ...]] = [heads]
    for name, outcome in outcomes.items():
        figures = outcome.figures
        rows.append(
            (
                name,
                span_text(figures["mean_wait_s"]),
                _number(figures["bounded_slowdown"]),
                _number(figures["utilisation"], 3),
                span_text(figures["makespan_s"]),
                _number(figures["evictions"], 0),
                _number(figures["lost_gpu_h"]),
                _number(figures["blocked_gpu_h"]),
                _number(figures["never_started"], 0),
            )
        )
    sizes: list[tuple[str, ...]] = [("POLICY", "PODS", "JOBS", "MEDIAN WAIT", "MEAN WAIT", "95 % WAIT", "LONGEST WAIT")]
    for name, outcome in outcomes.items():
        for size, own in outcome.wait_by_size().items():
            waits = (own[each] for each in ("median_wait_s", "mean_wait_s", "p95_wait_s", "max_wait_s"))
            sizes.append((name, size, str(own["jobs"]), *map(span_text, waits)))
    return f"{align(rows).rstrip()}\n\n{align(sizes).rstrip()}"


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
