"""`pumice simulate`: a workload from a file under one policy or several, in virtual time, without a cluster."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from pumice import instant
from pumice.cli.disk_errors import naming
from pumice.cli.input_files import read_file
from pumice.cli.numbers import Between
from pumice.cli.printing import align, echo_data
from pumice.cli.results import output_option
from pumice.cli.side_by_side import outcomes_of
from pumice.cli.simulation_input import Asked, read
from pumice.digits import counted
from pumice.errors import BadInput
from pumice.processes.entry_points import plugins_from_outside
from pumice.processes.policies import parse_policy
from pumice.scheduling.core.policy import POLICY_BYTES_MAX
from pumice.sim import workload
from pumice.sim.one_by_one import GIVE_BACK_S, OneByOne
from pumice.sim.past import RUN_S
from pumice.sim.policies import NAMED, Named
from pumice.sim.report import idle_dollars, page
from pumice.sim.simulation import Simulation, more_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cli.simulation_input import Place
    from pumice.instant import Duration
    from pumice.sim.outcome import Outcome
    from pumice.sim.workload import Submission

ERROR_MAX = 10.0
LOAD_MAX = 10.0
POLICIES_MAX = 16  # in one call
RHYTHM_S_MAX = 86_400
PRICE_MAX = 1_000_000.0  # dollars of a GPU hour


class Pace(NamedTuple):
    """How a simulation goes on from one moment to the next."""

    rhythm: Duration  # of the engine
    give_back_s: float | None  # under one-by-one
    seed: int  # likewise


@click.command()
@click.option(
    "--workload",
    "file",
    required=True,
    metavar="FILE|record:URL|generated",
    help="A trace in the Standard Workload Format (.swf), the CSV of a public GPU trace, both also packed (.gz), a dump of a cluster (.yaml, .json), "
    "record:sqlite:///PATH or record:postgresql://... for gangs that have ended there, or `generated`.",
)
@click.option(
    "--cluster",
    "--nodes",
    "cluster",
    required=True,
    metavar="NxG[xMODEL]|FILE",
    help="N equal nodes of G slots, such as 32x8 or 32x8xH100; a dump (.yaml, .json) with nodes and queues; or a list of nodes (.csv).",
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
    "--rhythm",
    "rhythm_s",
    type=click.IntRange(0, RHYTHM_S_MAX),
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="While somebody waits, decide once in so long: a long trace takes less time, and who waits waits up to so much longer. 0: whenever anything happens.",
)
@click.option(
    "--give-back",
    "give_back_s",
    type=click.IntRange(0, workload.SECONDS_MAX),
    default=int(GIVE_BACK_S),
    show_default=True,
    metavar="SECONDS",
    help="Under one-by-one: a gang that holds some of what it needs and cannot start gives it back after so long; 0: never.",
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
    type=Between(0, PRICE_MAX),
    metavar="DOLLARS",
    help="Of a GPU hour: what idle ones cost is told in the report, and with -o json.",
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
    rhythm_s: int,
    give_back_s: int,
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
    one slot; all pods of a job start together. Nothing is written but the report, where one is asked for.
    """
    work, here, left_out = read(Asked(file, cluster, weights, jobs, run_s, load, seed))
    work = _with_error(work, estimate_error, seed)
    chosen = _trials(_chosen(policies or ("builtin",)), here, add_nodes)
    if report is not None:
        _check_writable(report)
    pace = Pace(rhythm_s * instant.SECOND, give_back_s or None, seed)
    making = functools.partial(_simulation, work=work, pace=pace)
    trials = {name: functools.partial(making, name, *trial) for name, trial in chosen.items()}
    outcomes = outcomes_of(trials, len(work))
    if not outcomes:
        raise click.Abort  # Ctrl-C came before any had begun
    if output == "table":
        click.echo(_table(outcomes))
    else:
        answer = {name: _as_data(outcome, gpu_price, per_job=per_job) for name, outcome in outcomes.items()}
        about = {"workload": file, "cluster": cluster, "seed": seed, "left_out": left_out}
        echo_data({**about, "policies": answer}, output)
    if report is not None:  # last: where it cannot be written, the figures of a long simulation have been printed
        with naming(report):
            Path(report).write_text(
                page(
                    outcomes,
                    workload=Path(file).name,
                    cluster=Path(cluster).name,
                    left_out=left_out,
                    gpu_price=gpu_price,
                ),
                "utf-8",
            )
    cut_short = [name for name, outcome in outcomes.items() if outcome.cut_short_s is not None]
    if cut_short or len(outcomes) < len(trials):
        for name in cut_short:
            _say_cut_short(name, outcomes[name])
        untried = [name for name in trials if name not in outcomes]
        if untried:
            click.echo(f"pumice: not tried: {', '.join(untried)}", err=True)
        raise click.Abort  # what was found until then has been printed


def _say_cut_short(name: str, outcome: Outcome) -> None:
    figures, at_s = outcome.figures, outcome.cut_short_s or 0.0
    click.echo(
        f"pumice: cut short: {name} had come to day {at_s / 86_400:.1f}, {len(outcome.runs) - int(figures['never_ended'] or 0)} of {len(outcome.runs)} jobs "
        "had ended, and its figures are of those",
        err=True,
    )


def _check_writable(file: str) -> None:
    """Before a simulation that may take an hour; a file that is there already stays as it is until then."""
    try:
        with Path(file).open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise BadInput(f"--report {file}: {error.strerror or error}; choose another place") from error


def _trials(chosen: dict[str, Named], here: Place, add_nodes: int | None) -> dict[str, tuple[Named, Place]]:
    """Every policy in the place as it is, and beside it in the one that somebody thinks of."""
    found = {}
    for name, policy in chosen.items():
        found[name] = (policy, here)
        if add_nodes is not None:
            larger = here._replace(machines=more_nodes(here.machines, add_nodes))
            found[f"{name} +{counted(add_nodes, 'node')}"] = (policy, larger)
    return found


def _with_error(work: Sequence[Submission], spread: float, seed: int) -> list[Submission]:
    if not spread:
        return list(work)
    chance = random.Random(seed)  # noqa: S311  drawn for a simulation
    return [msgspec.structs.replace(each, estimate_s=each.run_s * chance.lognormvariate(0, spread)) for each in work]


def _chosen(given: Iterable[str]) -> dict[str, Named]:
    found = {}
    for name in dict.fromkeys(given):
        if name in NAMED:
            policy = NAMED[name]
        elif Path(name).suffix or Path(name).exists():
            policy = Named(read_file(name, POLICY_BYTES_MAX).decode("utf-8", errors="replace"))
        else:
            raise BadInput(f"--policy {name}: no such policy; take one of {', '.join(NAMED)}, or the name of a file")
        if not policy.pod_by_pod:
            parse_policy(policy.text, name, plugins_from_outside())  # before anything runs
        found[name] = policy
    if len(found) > POLICIES_MAX:
        raise BadInput(f"--policy is given {len(found)} times; {POLICIES_MAX} at most, run the others in a second call")
    return found


def _simulation(
    name: str, policy: Named, place: Place, *, work: Sequence[Submission], pace: Pace
) -> Simulation | OneByOne:
    if policy.pod_by_pod:
        return OneByOne(work, place.machines, others=place.others, give_back_s=pace.give_back_s, seed=pace.seed)
    return Simulation(
        work,
        place.machines,
        policy=policy.text,
        source=name,
        strict=policy.strict,
        queues=place.queues,
        others=place.others,
        begin=place.begin,
        rhythm=pace.rhythm,
        extra_plugins=plugins_from_outside(),
    )


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
                "gang": each.job.key,
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
                _duration(figures["mean_wait_s"]),
                _number(figures["bounded_slowdown"]),
                _number(figures["utilisation"], 3),
                _duration(figures["makespan_s"]),
                _number(figures["evictions"], 0),
                _number(figures["lost_gpu_h"]),
                _number(figures["blocked_gpu_h"]),
                _number(figures["never_started"], 0),
            )
        )
    sizes: list[tuple[str, ...]] = [("POLICY", "SIZE", "JOBS", "MEDIAN WAIT", "MEAN WAIT", "95 % WAIT", "LONGEST WAIT")]
    for name, outcome in outcomes.items():
        for size, own in outcome.wait_by_size().items():
            waits = (own[each] for each in ("median_wait_s", "mean_wait_s", "p95_wait_s", "max_wait_s"))
            sizes.append((name, size, str(own["jobs"]), *map(_duration, waits)))
    return f"{align(rows).rstrip()}\n\n{align(sizes).rstrip()}"


def _duration(seconds: float | None) -> str:
    return "-" if seconds is None else instant.human_duration(round(seconds) * instant.SECOND)


def _number(value: float | None, digits: int = 1) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
