"""`pumice simulate`: a workload from a file under one policy or several, in virtual time, without a cluster."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click
import msgspec

from pumice import instant
from pumice.cli.input_files import read_file
from pumice.cli.numbers import Between
from pumice.cli.results import output_option
from pumice.cli.side_by_side import outcomes_of
from pumice.cli.simulation_answer import About, check_writable, say_what_is_missing, show, write_report
from pumice.cli.simulation_input import Asked, read, shown
from pumice.digits import counted
from pumice.errors import BadInput
from pumice.processes.entry_points import plugins_from_outside
from pumice.processes.policies import parse_policy
from pumice.scheduling.core.policy import POLICY_BYTES_MAX
from pumice.sim import workload
from pumice.sim.one_by_one import GIVE_BACK_S, OneByOne
from pumice.sim.past import RUN_S
from pumice.sim.policies import NAMED, Named
from pumice.sim.simulation import Simulation, more_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.cli.simulation_input import Place
    from pumice.instant import Duration
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
@click.option(
    "--jobs",
    type=click.IntRange(1, workload.JOBS_MAX),
    help="Only so many jobs from the beginning; of the record, those that ended last.",
)
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
        check_writable(report, {"--workload": [file], "--cluster": [cluster], "--policy": policies})
    pace = Pace(rhythm_s * instant.SECOND, give_back_s or None, seed)
    making = functools.partial(_simulation, work=work, pace=pace)
    trials = {name: functools.partial(making, name, *trial) for name, trial in chosen.items()}
    outcomes = outcomes_of(trials, len(work))
    if not outcomes:
        raise click.Abort  # Ctrl-C came before any had begun
    about = About(shown(file), shown(cluster), seed, left_out, gpu_price)
    try:
        show(outcomes, about, output, per_job=per_job)
    finally:  # also where nobody reads what is printed; and after it: where it cannot be written, the figures of a long simulation have been printed
        if report is not None:
            write_report(report, outcomes, about)
    if not say_what_is_missing(outcomes, trials):
        raise click.Abort  # what was found until then has been printed


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
            parse_policy(policy.text, shown(name), plugins_from_outside())  # before anything runs
        found[shown(name)] = policy
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
