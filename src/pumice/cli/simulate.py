"""`pumice simulate`: a workload from a file under one policy or several, in virtual time, without a cluster."""

from __future__ import annotations

import dataclasses
import io
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from pumice import instant
from pumice.api import decoding, kinds
from pumice.api.meta import ObjectMeta
from pumice.api.scheduling import Queue, QueueStatus
from pumice.cli import progress
from pumice.cli.numbers import Between
from pumice.cli.offline import read_file, read_objects
from pumice.cli.printing import align, echo_data
from pumice.cli.results import output_option
from pumice.digits import counted
from pumice.errors import BadInput
from pumice.processes.entry_points import plugins_from_outside
from pumice.processes.policies import parse_policy
from pumice.sim import workload
from pumice.sim.generator import generate
from pumice.sim.gpu_traces import is_gpu_trace, read_csv
from pumice.sim.past import RUN_S, cluster_of_dump, work_of_dump, work_of_record
from pumice.sim.policies import NAMED, Named
from pumice.sim.report import page
from pumice.sim.simulation import SLOT, START, Simulation, more_nodes, nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.core import Node
    from pumice.api.meta import Struct
    from pumice.sim.outcome import Outcome
    from pumice.sim.workload import Submission

ERROR_MAX = 10.0
LOAD_MAX = 10.0
GENERATED = "generated"
GENERATED_JOBS = 1_000
RECORD = "record:"
DUMPS = frozenset({".yaml", ".yml", ".json"})
WEIGHT_MAX = 1_000_000
POLICIES_MAX = 16  # in one call


@click.command()
@click.option(
    "--workload",
    "file",
    required=True,
    metavar="FILE|record:URL|generated",
    help="A trace in the Standard Workload Format (.swf), the CSV of a public GPU trace, a dump of a cluster (.yaml, .json), "
    "record:sqlite:///PATH or record:postgresql://... for gangs that have ended there, or `generated`.",
)
@click.option(
    "--cluster",
    "--nodes",
    "cluster",
    required=True,
    metavar="NxG[xMODEL]|FILE",
    help="N equal nodes of G slots, such as 32x8 or 32x8xH100; or a dump (.yaml, .json) with nodes and queues.",
)
@click.option(
    "--add-nodes",
    type=click.IntRange(min=1),
    metavar="N",
    help="What if there were N more? Each policy is tried with and without.",
)
@click.option(
    "--queue",
    "weights",
    multiple=True,
    metavar="NAME=WEIGHT",
    help="The weight of a queue; may be given several times. Queues that are not named have weight 1, or what a dump says.",
)
@click.option(
    "--run-time",
    "run_s",
    type=click.IntRange(1, workload.SECONDS_MAX),
    default=RUN_S,
    show_default=True,
    metavar="SECONDS",
    help="Of gangs in a dump whose owners say nothing.",
)
@click.option(
    "--load",
    type=Between(0.01, LOAD_MAX),
    default=0.9,
    show_default=True,
    help="Of a generated workload: how much of the cluster it asks for.",
)
@click.option("--jobs", type=click.IntRange(1, workload.JOBS_MAX), help="Only so many jobs from the beginning.")
@click.option(
    "--policy",
    "policies",
    multiple=True,
    metavar="NAME|FILE",
    help=f"{', '.join(NAMED)}, or a policy file; may be given several times. Without it: builtin.",
)
@click.option(
    "--estimate-error",
    type=Between(0, ERROR_MAX),
    default=0.0,
    show_default=True,
    help="Owners are wrong about run times: the spread of the logarithm of estimate / run time.",
)
@click.option(
    "--seed", type=int, default=1, show_default=True, help="Of whatever is drawn; the same gives the same answer."
)
@click.option(
    "--report", type=click.Path(dir_okay=False), metavar="FILE.html", help="Also write one page with pictures."
)
@click.option(
    "--gpu-price",
    type=Between(min=0),
    metavar="DOLLARS",
    help="Of a GPU hour: the report tells what idle ones cost.",
)
@click.option("--per-job", is_flag=True, help="With -o json or yaml: also when each job started and ended.")
@output_option
def simulate(
    file: str,
    cluster: str,
    add_nodes: int | None,
    weights: tuple[str, ...],
    run_s: float,
    load: float,
    jobs: int | None,
    policies: tuple[str, ...],
    estimate_error: float,
    seed: int,
    report: str | None,
    gpu_price: float | None,
    *,
    per_job: bool,
    output: str,
) -> None:
    """Say what a policy would do with a workload: waits, slowdown, utilisation.

    The real engine decides in virtual time: jobs come when the trace says, run for as long as it says, and each of their processors is a pod of
    one slot; all pods of a job start together. Nothing is written anywhere.
    """
    here = _place(cluster, weights)
    slots = [int(node.status.allocatable[SLOT]) for node in here.machines]
    if file == GENERATED:
        work = generate(jobs if jobs is not None else GENERATED_JOBS, sum(slots), load=load, seed=seed)
    else:
        work = _read(file, jobs if jobs is not None else workload.JOBS_MAX, run_s)
    _check_sizes(work, sum(slots), max(slots), cluster)
    work = _with_error(work, estimate_error, seed)
    trials = _trials(_chosen(policies or ("builtin",)), here, add_nodes)
    outcomes: dict[str, Outcome] = {}
    is_cut_short = False
    for name, (policy, place) in trials.items():
        if not is_cut_short:
            outcomes[name], is_cut_short = _outcome(name, policy, work, place)
    if report is not None:
        _write(report, page(outcomes, workload=Path(file).name, cluster=cluster, gpu_price=gpu_price))
    if output == "table":
        click.echo(_table(outcomes))
    else:
        answer = {name: _as_data(outcome, per_job=per_job) for name, outcome in outcomes.items()}
        echo_data({"workload": file, "cluster": cluster, "seed": seed, "policies": answer}, output)
    if is_cut_short:
        raise click.Abort  # what was found until then has been printed


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"--report {file}: {error.strerror or error}; choose another place") from error


class _Place(NamedTuple):
    """Where the work goes."""

    machines: list[Node]
    queues: list[Queue] | dict[str, int]
    others: list[Struct]


def _place(cluster: str, weights: Sequence[str]) -> _Place:
    wanted = dict(_weight(each) for each in weights)
    if Path(cluster).suffix not in DUMPS:
        return _Place(nodes(cluster), wanted, [])
    machines, queues, others = cluster_of_dump(_objects(cluster), cluster)
    known = {queue.metadata.name: queue for queue in queues}
    for name, weight in wanted.items():
        was = known.get(name, Queue(metadata=ObjectMeta(name=name, uid=name), status=QueueStatus(state="Open")))
        known[name] = msgspec.structs.replace(was, spec=msgspec.structs.replace(was.spec, weight=weight))
    return _Place(machines, list(known.values()), others)


def _weight(text: str) -> tuple[str, int]:
    name, _, weight = text.partition("=")
    if not name or not (weight.isascii() and weight.isdecimal()) or not 1 <= int(weight[:9]) <= WEIGHT_MAX:
        raise BadInput(
            f"--queue {text[:80]!r}: write NAME=WEIGHT, such as research=3, with a weight of 1 to {WEIGHT_MAX}"
        )
    return name, int(weight)


def _trials(chosen: dict[str, Named], here: _Place, add_nodes: int | None) -> dict[str, tuple[Named, _Place]]:
    """Every policy in the place as it is, and beside it in the one that somebody thinks of."""
    found = {}
    for name, policy in chosen.items():
        found[name] = (policy, here)
        if add_nodes is not None:
            larger = here._replace(machines=more_nodes(here.machines, add_nodes))
            found[f"{name} +{counted(add_nodes, 'node')}"] = (policy, larger)
    return found


def _objects(file: str) -> list[Struct]:
    """Those objects of a dump that the scheduler knows."""
    found = []
    for thing in read_objects(file):
        kind = kinds.by_kind(str(thing.get("apiVersion", "")), str(thing["kind"]))
        if kind is not None and kind.struct is not None:
            found.append(decoding.decode_value(kind.struct, thing))
    return found


def _recorded(url: str, most: int) -> list[Submission]:
    """Gangs that have ended, page by page, the last first."""
    from pumice.record import queries
    from pumice.record.model import Filter
    from pumice.record.store import Store

    store, rows = Store(url), list[Any]()
    try:
        store.check()
        page_of = Filter(limit=queries.LIMIT_MAX)
        with store.reading() as connection:
            while len(rows) < most and (found := queries.history(connection, page_of)):
                rows += found
                page_of = dataclasses.replace(page_of, before=(found[-1].ended, found[-1].uid))
    finally:
        store.close()
    return work_of_record(rows[:most])


def _read(file: str, most: int, run_s: float) -> list[Submission]:
    if file.startswith(RECORD):
        work = _recorded(file.removeprefix(RECORD), most)
        if not work:
            raise BadInput("--workload: no gang in the record held GPUs and has ended; is it the right database?")
        return work
    if Path(file).suffix in DUMPS:
        work = work_of_dump(_objects(file), run_s)[:most]
        if not work:
            raise BadInput(
                f"{file}: no gang in it asks for GPUs; give what `kubectl get podgroups,pods -A -o yaml` prints"
            )
        return work
    text = read_file(Path(file)).decode("utf-8", errors="replace")
    read = read_csv if is_gpu_trace(text.partition("\n")[0]) else workload.read_swf
    work = read(io.StringIO(text), file, most=most)
    if not work:
        raise BadInput(
            f"{file}: no job in it has a run time and processors; is it a trace in the Standard Workload Format, or the CSV of a GPU trace?"
        )
    return work


def _check_sizes(work: Sequence[Submission], slots: int, of_node: int, cluster: str) -> None:
    widest = max(each.slots for each in work)
    if widest > of_node:
        raise BadInput(
            f"--cluster {cluster}: a pod of the workload wants {widest} slots, and nodes have {of_node}; give larger nodes"
        )
    largest = max(each.size * each.slots for each in work)
    if largest > slots:
        raise BadInput(
            f"--cluster {cluster}: a job of the workload wants {largest} slots, and there are {slots}; give more nodes"
        )


def _with_error(work: Sequence[Submission], spread: float, seed: int) -> list[Submission]:
    if not spread:
        return list(work)
    chance = random.Random(seed)  # noqa: S311  drawn for a simulation
    return [dataclasses.replace(each, estimate_s=each.run_s * chance.lognormvariate(0, spread)) for each in work]


def _chosen(given: Iterable[str]) -> dict[str, Named]:
    found = {}
    for name in dict.fromkeys(given):
        if name in NAMED:
            policy = NAMED[name]
        elif Path(name).suffix or Path(name).exists():
            policy = Named(read_file(Path(name)).decode("utf-8", errors="replace"))
        else:
            raise BadInput(f"--policy {name}: no such policy; take one of {', '.join(NAMED)}, or the name of a file")
        parse_policy(policy.text, name, plugins_from_outside())  # before anything runs
        found[name] = policy
    if len(found) > POLICIES_MAX:
        raise BadInput(f"--policy is given {len(found)} times; {POLICIES_MAX} at most, run the others in a second call")
    return found


def _outcome(name: str, policy: Named, work: Sequence[Submission], place: _Place) -> tuple[Outcome, bool]:
    """What became of the work, and whether Ctrl-C ended it before its time: then it is what had become of it until then."""
    simulation = Simulation(
        work,
        place.machines,
        policy=policy.text,
        source=name,
        strict=policy.strict,
        queues=place.queues,
        others=place.others,
        extra_plugins=plugins_from_outside(),
    )
    began = time.monotonic()
    with progress.show(f"{name}: {len(work)} jobs") as tell:
        try:
            for step in simulation.steps():
                ended = simulation.ended
                left_s = (time.monotonic() - began) / ended * (len(work) - ended) if ended else None
                tell(
                    f"{name}: day {(step.at - START) / instant.SECOND / 86_400:.1f}, {ended} of {len(work)} jobs have ended, {_duration(left_s)} to go"
                )
        except KeyboardInterrupt:
            return simulation.outcome, True
    return simulation.outcome, False


def _as_data(outcome: Outcome, *, per_job: bool) -> dict[str, Any]:
    data: dict[str, Any] = {**outcome.figures, "wait_by_size": outcome.wait_by_size()}
    if per_job:
        data["runs"] = [
            {
                "submit_s": each.job.at_s,
                "size": each.job.size,
                "start_s": each.start_s,
                "end_s": each.end_s,
                "restarts": each.restarts,
            }
            for each in outcome.runs
        ]
    return data


def _table(outcomes: dict[str, Outcome]) -> str:
    heads = ("POLICY", "MEAN WAIT", "SLOWDOWN", "UTILISATION", "MAKESPAN", "EVICTIONS", "LOST GPU-H", "NOT STARTED")
    rows: list[tuple[str, ...]] = [heads]
    for name, outcome in outcomes.items():
        figures = outcome.figures
        rows.append(
            (
                name,
                _duration(figures["mean_wait_s"]),
                _number(figures["bounded_slowdown"]),
                _number(figures["utilisation"], 3),
                _duration(figures["makespan_s"]),
                _number(figures["evictions"], 0),
                _number(figures["lost_gpu_h"]),
                _number(figures["never_started"], 0),
            )
        )
    sizes: list[tuple[str, ...]] = [("POLICY", "SIZE", "JOBS", "MEAN WAIT", "LONGEST WAIT")]
    for name, outcome in outcomes.items():
        for size, own in outcome.wait_by_size().items():
            sizes.append((name, size, str(own["jobs"]), _duration(own["mean_wait_s"]), _duration(own["max_wait_s"])))
    return f"{align(rows)}\n\n{align(sizes)}"


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else instant.human_duration(round(seconds) * instant.SECOND)


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
