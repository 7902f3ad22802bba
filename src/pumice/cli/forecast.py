"""`pumice forecast`: when gangs that wait will start, as far as anybody can know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice import instant
from pumice.cli import completion
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.gang_names import by_job
from pumice.cli.printing import align
from pumice.cli.results import Report
from pumice.digits import counted
from pumice.errors import BadInput, NotFound, PumiceError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.api.meta import Json
    from pumice.instant import Duration, Instant
    from pumice.readmodel import model
    from pumice.record.model import ForecastRecord
    from pumice.scheduling.time.accuracy import Forecast
    from pumice.scheduling.time.forecast import World

PAST_DAYS = 30  # of forecasts that the record is asked about
SHOWN_MAX = 20  # gangs, where none is named
SEED = 1  # the same cluster gives the same answer
HORIZON_MAX = 366 * 24 * instant.HOUR
NODES_SHOWN_MAX = 6


def horizon_of(_: click.Context, __: click.Parameter, text: str) -> Duration:
    """A duration, as Go and Kubernetes write it."""
    try:
        found = instant.parse_duration(text)
    except instant.DurationError as error:
        raise BadInput(f"--horizon: {error}") from error
    if not 0 < found <= HORIZON_MAX:
        raise BadInput(f"--horizon {text}: expected more than nothing and no more than a year, such as 48h")
    return found


@click.command()
@asks()
@click.argument("name", metavar="[JOB]", default="", shell_complete=completion.subjects)
@click.option("--horizon", default="168h", show_default=True, callback=horizon_of, help="Look no further ahead.")
@click.option(
    "--policy", "policy_file", type=click.Path(dir_okay=False), help="The policy in force; else the built-in one."
)
async def forecast(access: ClusterAccess, name: str, horizon: Duration, policy_file: str | None) -> Report:
    """Say when a Job will start, or the first gangs in line: the likely time, and the one that holds in nine of ten cases.

    The scheduler's engine is run ahead from a listing of the cluster: gangs end when they are expected to, and in further runs earlier or
    later, as others have; what waits starts when its turn comes. Nobody knows what will be submitted meanwhile. Nothing is written.
    """
    from pumice.cli import sources

    told = None if policy_file else await _from_leader(access, name)
    if told is None:
        world = await sources.world(access, policy_file)
        told = look_ahead(world, _wanted(world, name, access.namespace), horizon=horizon)
    place = name.removeprefix("job/").rpartition("/")[0]
    return await _with_record(access, place or access.namespace, told)


async def _with_record(access: ClusterAccess, namespace: str, told: Report) -> Report:
    """The forecast, with what the record says of those that were given before; where there is none, nobody minds."""
    import msgspec

    from pumice.cli import record_access
    from pumice.record.model import ForecastRecord

    since = access.clock.now() // instant.SECOND - PAST_DAYS * 86_400
    try:
        body = await record_access.ask(access, "/v1/forecasts", {"namespace": namespace, "since": str(since)})
        past = msgspec.json.decode(body, type=ForecastRecord)
    except (PumiceError, msgspec.MsgspecError):
        return told
    return Report(f"{told.text}{record_text(past, namespace)}", {**told.data, "record": msgspec.to_builtins(past)})


def record_text(past: ForecastRecord, namespace: str) -> str:
    """What came of the forecasts of the last weeks."""
    if past.held is None or past.off_s is None:
        return ""
    off = instant.human_duration(past.off_s * instant.SECOND)
    return (
        f"\nThe record of namespace {namespace} has {counted(past.forecasts, 'forecast')} of the last {PAST_DAYS} days whose gangs have started: "
        f"{past.held:.0%} had by the second time, and half of them within {off} of the likely one."
    )


async def _from_leader(access: ClusterAccess, name: str) -> Report | None:
    """What the leading scheduler foresaw within the last minute; None where there is none, or it says nothing of the gang."""
    import msgspec

    from pumice.scheduling.time.accuracy import Forecast

    place, _, own = name.removeprefix("job/").rpartition("/")
    state = await leaders_state(access, place or access.namespace)
    if state is None:
        return None
    found = {}
    for gang in state.gangs:
        known = gang.forecast
        if known is not None and known.p50 and own in {"", gang.job, gang.name}:
            p50, p90 = (instant.parse_instant(each) if each else None for each in (known.p50, known.p90))
            made = instant.parse_instant(known.made)
            told = Forecast(gang.key, gang.uid, made, p50, p90, ahead=known.ahead, unknown=known.without_estimate)
            found[gang.key] = told
    if not found:
        return None
    past = state.forecasts
    data = {"at": state.at, "forecasts": [as_data(each) for each in found.values()], "score": msgspec.to_builtins(past)}
    return Report(text(found, access.clock.now(), 168 * instant.HOUR, past), data)


async def leaders_state(access: ClusterAccess, namespace: str) -> model.State | None:
    """What the leading scheduler knows of the gangs of a namespace, or of all; None where it does not answer."""
    import msgspec

    from pumice.cli.leader import Leader, Unanswered
    from pumice.readmodel import model

    query = {"kind": "gangs", **({"namespace": namespace} if namespace else {})}
    try:
        return msgspec.json.decode(await Leader(access).ask(("/v1/state", query)), type=model.State)
    except (Unanswered, msgspec.MsgspecError):
        return None


def look_ahead(world: World, wanted: Sequence[str], *, horizon: Duration) -> Report:
    """The forecast for some gangs, for people and for programs."""
    import numpy as np

    from pumice.cli import progress
    from pumice.scheduling.time.forecast import Effort
    from pumice.scheduling.time.forecast import forecast as run

    with progress.show("running ahead"):
        found = run(world, wanted, chance=np.random.default_rng(SEED), effort=Effort(horizon=horizon))
    data = {"at": instant.format_instant(world.now), "forecasts": [as_data(each) for each in found.values()]}
    return Report(text(found, world.now, horizon, None), data)


def _wanted(world: World, name: str, namespace: str) -> list[str]:
    """The gang of a Job or PodGroup, or, without a name, the first in line."""
    from pumice.cluster.tasks import OCCUPYING, Status
    from pumice.scheduling.time.forecast import first_in_line

    if not name:
        return first_in_line(world, SHOWN_MAX)
    place, _, own = name.removeprefix("job/").rpartition("/")
    for key, gang in world.intake.cluster.snapshot().gangs.items():
        if gang.spec.namespace == (place or namespace) and own in {gang.spec.job, gang.spec.name}:
            waiting = gang.counts[Status.PENDING]
            if not waiting or any(gang.counts[status] for status in OCCUPYING):
                since = f" since {instant.format_instant(gang.started)}" if gang.started is not None else ""
                rest = f"; {counted(waiting, 'pod')} of it wait for room, which nobody forecasts" if waiting else ""
                raise NotFound(f"job {place or namespace}/{own} does not wait: it is {gang.spec.phase}{since}{rest}")
            return [key]
    raise NotFound(f"job {place or namespace}/{own}: no gang of that name waits or runs; see `pumice job list`")


# ------------------------------------------------------------------------------------------------- words


def text(found: Mapping[str, Forecast], now: Instant, horizon: Duration, past: model.ForecastScore | None) -> str:
    """One line a gang, and how far such forecasts can be believed."""
    if not found:
        return "no gang waits"
    rows = [("GANG", "LIKELY START", "IN 9 OF 10 CASES BY", "WHY THEN")]
    rows += [(by_job(key), *_times(each, now, horizon), _why(each)) for key, each in found.items()]
    return f"{align(rows).rstrip()}\n\n{score_text(past)}"


def score_text(past: model.ForecastScore | None) -> str:
    """How often forecasts held."""
    if past is None:
        return (
            "No forecast has been held against what came of it yet: take these times for what the estimates are worth."
        )
    return f"Of the last {past.forecasts} forecasts, {past.held:.0%} held: the gang had started by the second time."


def at(when: Instant, now: Instant) -> str:
    """`14:32 (in 25m)`, with the day where it is another one."""
    written, today = instant.format_instant(when), instant.format_instant(now)
    clock = written[11:16] if written[:10] == today[:10] else f"{written[:10]} {written[11:16]}"
    return "now" if when - now < instant.SECOND else f"{clock}Z (in {instant.human_duration(when - now)})"


def start_text(told: model.Forecast | None, now: Instant) -> str:
    """Both times in one line; empty where there is no forecast."""
    if told is None or not told.p50:
        return ""
    latest = f"; in 9 of 10 cases by {at(instant.parse_instant(told.p90), now)}" if told.p90 else ""
    return f"{at(instant.parse_instant(told.p50), now)}{latest}"


def _times(told: Forecast, now: Instant, horizon: Duration) -> tuple[str, str]:
    if told.cut_short and told.p50 is None:
        return ("not known", "not known")
    later = f"not within {instant.human_duration(horizon)}"
    return (at(told.p50, now) if told.p50 is not None else later, at(told.p90, now) if told.p90 is not None else later)


def _why(told: Forecast) -> str:
    if told.cut_short and told.p50 is None:
        return "the cluster is too large to look so far ahead"
    if told.p50 is None:
        return "see `pumice explain` for what it waits for"
    parts = [_front(told.ahead, told.unknown)] if told.ahead else []
    if told.victims:
        parts.append(f"pushes aside {_victims(told.victims)}")
    return ", ".join(parts) or "nothing is in front of it"


def _front(ahead: int, unknown: int) -> str:
    front = f"{counted(ahead, 'running gang')} in front"
    return f"no estimate for {unknown} of {front}" if unknown else front


def _victims(pods: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, 'pod')} of {gang}" for gang, count in pods.items())


def as_data(told: Forecast) -> dict[str, Any]:
    """Times as Kubernetes writes them; null: not within the horizon."""
    return {
        "gang": told.gang,
        "p50": None if told.p50 is None else instant.format_instant(told.p50),
        "p90": None if told.p90 is None else instant.format_instant(told.p90),
        "runs": told.runs,
        "ahead": told.ahead,
        "withoutEstimate": told.unknown,
        "nodes": told.nodes,
        "victims": told.victims,
        "complete": not told.cut_short,
    }


# ------------------------------------------------------------------------------------------------- a Job that is not there yet


async def of_job(access: ClusterAccess, job: Json) -> Report:
    """When a Job would start that a server has checked and not made, where, and who would have to leave."""
    from pumice.api import changes, decoding
    from pumice.api.batch import Job
    from pumice.cli import future_pods, sources

    world = await sources.world(access, None)
    meta = {**job["metadata"], "uid": job["metadata"].get("uid") or "not-made"}
    key, objects = future_pods.gang_of(decoding.decode_value(Job, {**job, "metadata": meta}), world)
    for thing in objects:
        world.intake.apply(changes.Upserted(object=thing))
    horizon = 168 * instant.HOUR
    report = look_ahead(world, [key], horizon=horizon)
    (data,) = report.data["forecasts"]
    return Report(
        _job_text(job, data, world.now),
        {**report.data["forecasts"][0], "job": job["metadata"]["name"]},
    )


def _job_text(job: Json, told: dict[str, Any], now: Instant) -> str:
    name = job["metadata"]["name"]
    if told["p50"] is None:
        return (
            f"job {name} would not start within a week; `pumice nodes` shows what is free, and -o json what was found"
        )
    likely, latest = (instant.parse_instant(told[each]) if told[each] else None for each in ("p50", "p90"))
    assert likely is not None, "p50 is there"
    lines = [f"job {name} would start {'now' if likely - now < instant.SECOND else 'at ' + at(likely, now)}"]
    if latest is not None and latest - now >= instant.SECOND:
        lines.append(f"in 9 of 10 cases by {at(latest, now)}")
    if told["nodes"]:
        shown = list(told["nodes"].items())[:NODES_SHOWN_MAX]
        more = f" and {len(told['nodes']) - len(shown)} more nodes" if len(told["nodes"]) > len(shown) else ""
        lines.append("on " + ", ".join(f"{node} ({counted(count, 'pod')})" for node, count in shown) + more)
        pods = sum(task.get("replicas", 1) for task in job["spec"].get("tasks", ()))
        started = sum(told["nodes"].values())
        if not more and started < pods:
            lines.append(f"with {started} of its {pods} pods, enough to start; the others follow when there is room")
    if told["victims"]:
        lines.append(f"would push aside {_victims(told['victims'])}")
    if told["withoutEstimate"]:
        lines.append(_front(told["ahead"], told["withoutEstimate"]))
    return "\n".join(lines) + "\nNothing was made."
