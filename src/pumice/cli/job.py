"""`pumice job`: run, look at and steer Jobs, in vcctl's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pumice import instant
from pumice.api import cells, names
from pumice.api.scheduling import VOLCANO
from pumice.cli.cluster_command import ClusterAccess, asks, labelled, name_argument, warn
from pumice.cli.results import Column, Done, Query, Report
from pumice.cli.suggestions import SuggestingGroup
from pumice.errors import BadInput, NotFound, PumiceError

if TYPE_CHECKING:
    from pumice.api.meta import Json
    from pumice.instant import Instant

FRAMEWORKS = ("pytorch", "tensorflow", "mpi", "ray")
ATTEMPTS_MAX = 1_000_000
ASKED = "cpu=1000m,memory=100Mi"  # vcctl's defaults
KIND = "jobs.batch.volcano.sh"


def _seconds(_: click.Context, __: click.Parameter, text: str | None) -> float | None:
    """`90s`, `10m` or `1h30m`, as kubectl takes them."""
    if text is None:
        return None
    try:
        seconds = instant.parse_duration(text) / instant.SECOND
    except instant.DurationError as error:
        raise BadInput(f"--timeout: {error}") from error
    if seconds <= 0:
        raise BadInput(f"--timeout {text!r}: expected more than no time at all, such as 90s")
    return seconds


_TIMEOUT = click.option(
    "--timeout", "timeout_s", callback=_seconds, metavar="TIME", help="Wait so long at most, such as 10m; then code 5."
)


@click.group(cls=SuggestingGroup)
def job() -> None:
    """Run, look at and steer Jobs."""


@job.command("list")
@asks(everywhere=True, watch=True)
@click.option("-q", "--queue", default="", help="Only of this queue.")
@click.option("-S", "--scheduler", default="", help="Only of this scheduler.")
@labelled
async def list_jobs(access: ClusterAccess, queue: str, scheduler: str, labels: str) -> Query:
    """List Jobs."""
    return jobs(access, queue=queue, scheduler=scheduler, labels=labels)


def jobs(access: ClusterAccess, *, queue: str = "", scheduler: str = "", part: str = "", labels: str = "") -> Query:
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.cli import tables

    def keep(each: Json) -> bool:
        spec = each.get("spec") or {}
        return (
            queue in {"", spec.get("queue") or "default"}
            and scheduler in {"", spec.get("schedulerName")}
            and part in each["metadata"]["name"]
        )

    starts = Starts(access)
    columns = (*tables.JOB, Column("STARTS", starts.cell, wide=True))
    columns = tables.with_namespace(columns, everywhere=access.everywhere)
    return Query(
        kind=by_struct(Job), columns=columns, namespace=access.scope, labels=labels, keep=keep, before_wide=starts.ask
    )


class Starts:
    """When Jobs that wait will start, as the leading scheduler foresees it; asked for again with each wide listing."""

    def __init__(self, access: ClusterAccess) -> None:
        self._access = access
        self._found: dict[str, str] = {}  # by the key of the Job's group

    async def ask(self) -> None:
        import msgspec

        from pumice.cli.leader import Leader, Unanswered
        from pumice.readmodel import model

        access = self._access
        everything, own = (
            ("/v1/state", {"kind": "gangs"}),
            ("/v1/state", {"kind": "gangs", "namespace": access.namespace}),
        )
        try:
            answer = await (Leader(access).ask(everything, own) if access.everywhere else Leader(access).ask(own))
            gangs = msgspec.json.decode(answer, type=model.State).gangs
        except (Unanswered, msgspec.MsgspecError):
            gangs = ()
        self._found = {each.key: each.forecast.p50 for each in gangs if each.forecast is not None}

    def cell(self, job: Json, now: Instant) -> str:
        from pumice.cli import forecast

        meta = job["metadata"]
        p50 = self._found.get(f"{meta['namespace']}/{meta['name']}-{meta['uid']}")
        return forecast.at(instant.parse_instant(p50), now) if p50 else cells.NONE


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND, several=True)
async def view(access: ClusterAccess, name: str) -> Report:
    """Show one Job: what it asks for, how it stands, what happened to it."""
    return await view_job(access, name)


async def view_job(access: ClusterAccess, name: str) -> Report:
    from pumice.api.batch import Job
    from pumice.cli import describe, printing

    found = (await access.client.get(Job, name, namespace=access.namespace)).json()
    events = await describe.events_of_job(access.client, found)
    now = access.clock.now()
    starts = await _start_of(access, found, now)
    return Report(
        lambda paint: describe.job_text(found, events, now, paint, starts=starts),
        printing.without_managed_fields(found),
    )


async def _start_of(access: ClusterAccess, job: Json, now: Instant) -> str:
    """When a Job that waits will start, as the leading scheduler foresees it; empty where nobody does."""
    from pumice.cli import forecast, waiting

    if waiting.phase_of(job) not in {"Pending", "Restarting"}:
        return ""
    meta = job["metadata"]
    state = await forecast.leaders_state(access, meta["namespace"])
    key = f"{meta['namespace']}/{meta['name']}-{meta['uid']}"
    return (
        next((forecast.start_text(each.forecast, now) for each in state.gangs if each.key == key), "") if state else ""
    )


@job.command()
@asks()
@name_argument("-N", "--name", required=False)
@click.option("-i", "--image", default="busybox", show_default=True)
@click.option(
    "-m", "--min", "minimum", type=int, help="Pods that must be able to start together; else 1, or a framework's all."
)
@click.option("-r", "--replicas", default=1, show_default=True, help="Pods in all.")
@click.option("-R", "--requests", default=ASKED, show_default=True, help="What each pod asks for.")
@click.option("-L", "--limits", default="", help="What each pod may use; else what it asks for.")
@click.option(
    "--gpus", type=click.IntRange(min=0), default=0, help="GPUs (nvidia.com/gpu) of each pod, beside --requests."
)
@click.option("--env", multiple=True, metavar="NAME=VALUE", help="A variable of each container; may be repeated.")
@click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="CLAIM:/PATH",
    help="A claim, or a /FOLDER of the node; may be repeated.",
)
@click.option("--framework", type=click.Choice(FRAMEWORKS), help="Tasks and environment as this framework wants them.")
@click.option("--priority", default="", metavar="CLASS", help="PriorityClass of the Job.")
@click.option("-S", "--scheduler", default=VOLCANO, show_default=True)
@click.option("-q", "--queue", default="", help="Queue that the Job draws from.")
@click.option("-c", "--command", default="", help="What each pod runs, as a shell would split it.")
@click.option("--time-limit", metavar="TIME", help="End the Job after this run time, such as 2h.")
@click.option("--time-limit-warning", metavar="TIME", help="Tell it so long before the end, such as 2m.")
@click.option("-f", "--filename", default="", help="Read the Job from this file instead; - for stdin.")
@click.option("--dry-run", is_flag=True, help="Let the server check it, and make nothing.")
@click.option(
    "--test-only", is_flag=True, help="Say when and where it would start and who would be evicted; make nothing."
)
@click.option("--wait", is_flag=True, help="Come back when the Job is over: code 0 where it completed, else 1.")
@_TIMEOUT
async def run(
    access: ClusterAccess,
    name: str,
    filename: str,
    dry_run: bool,
    test_only: bool,
    wait: bool,
    timeout_s: float | None,
    time_limit: str | None,
    time_limit_warning: str | None,
    **flags: Any,
) -> Done | Report:
    """Create a Job of equal pods, one for a framework, or the one in a file."""
    from pumice.cli import submitting

    if timeout_s is not None and not wait:
        raise BadInput("--timeout says how long --wait waits; add --wait, or drop it")
    if wait and (dry_run or test_only):
        other = "--dry-run" if dry_run else "--test-only"
        raise BadInput(f"--wait and {other} exclude each other: what is not made never ends; drop one")
    if filename:
        wanted = submitting.read_job(filename)
        if name:
            wanted["metadata"]["name"] = name
    elif not name:
        raise BadInput("no name was given; write it behind the command, or a file with -f")
    else:
        wanted = _job_of(name, **flags)
    wanted = submitting.with_times(wanted, limit=time_limit, warning=time_limit_warning)
    made = await submitting.submit(access, wanted, dry_run=dry_run or test_only)
    if test_only:
        from pumice.cli import forecast

        return await forecast.of_job(access, made.object)
    if not wait:
        return made
    from pumice.cli import waiting

    click.echo(f"job {made.object['metadata']['name']} created", err=True)
    return Done(made.kind, await waiting.job_ends(access, made.object, timeout_s), "completed")


def _job_of(
    name: str,
    *,
    minimum: int | None,
    limits: str,
    framework: str | None,
    scheduler: str,
    queue: str,
    priority: str,
    **pods: Any,
) -> Json:
    from pumice.cli import submitting

    least = minimum if minimum is not None else pods["replicas"] if framework else 1
    shape = submitting.Shape(minimum=least, limits=limits or pods["requests"], framework=framework or "", **pods)
    return submitting.job_of(name, shape, scheduler=scheduler, queue=queue, priority=priority)


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND, several=True)
@click.option(
    "--for",
    "phase",
    type=click.Choice(["Completed", "Running"], case_sensitive=False),
    default="Completed",
    show_default=True,
)
@_TIMEOUT
async def wait(access: ClusterAccess, name: str, phase: str, timeout_s: float | None) -> Done:
    """Come back when a Job has completed, or runs: code 1 where it ended otherwise, 5 where time ran out."""
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.cli import waiting

    found = (await access.client.get(Job, name, namespace=access.namespace)).json()
    reached = await waiting.job_ends(access, found, timeout_s, running=phase == "Running")
    return Done(by_struct(Job), reached, waiting.phase_of(reached).lower())


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND, several=True)
async def restart(access: ClusterAccess, name: str) -> Done:
    """End a Job's pods and start it anew, for one of its retries; for none where it is suspended."""
    return await command_job(access, name, "RestartJob", "restarting")


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND, several=True)
async def suspend(access: ClusterAccess, name: str) -> Done:
    """Stop a Job's pods and keep the Job, until it is resumed."""
    return await command_job(access, name, "AbortJob", "suspending")


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND, several=True)
async def resume(access: ClusterAccess, name: str) -> Done:
    """Let a suspended Job run again."""
    return await command_job(access, name, "ResumeJob", "resuming")


async def command_job(access: ClusterAccess, name: str, action: str, deed: str) -> Done:
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.kube import commands

    found = (await access.client.get(Job, name, namespace=access.namespace)).json()
    _check_effect(found, action)
    await commands.command(access.client, by_struct(Job), found, action, namespace=access.namespace)
    return Done(by_struct(Job), found, deed)


def _is_over(job: Json) -> bool:
    from pumice.api.batch import LIVE_PHASES, SUSPENDED_PHASES
    from pumice.cli import waiting

    return waiting.phase_of(job) not in LIVE_PHASES | SUSPENDED_PHASES


def _check_effect(job: Json, action: str) -> None:
    """Refuses what can have no effect, and warns where it has one only if another command is still under way."""
    from pumice.api.batch import LIVE_PHASES, SUSPENDED_PHASES
    from pumice.cli import waiting

    name, phase = job["metadata"]["name"], waiting.phase_of(job)
    if _is_over(job):
        raise PumiceError(
            f"job {name} is {phase}, and a Job that is over stays so; to run it again, delete it "
            f"(`pumice job delete {name}`) and submit it anew"
        )
    if action == "AbortJob" and phase in SUSPENDED_PHASES:
        warn(f"job {name} is {phase}: it is suspended already")
    if action == "ResumeJob" and phase in LIVE_PHASES:
        warn(f"job {name} is {phase}, not suspended: this only takes back a suspension that is under way")


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND, several=True)
@click.option("--wait", is_flag=True, help="Come back when the Job and all its pods are gone.")
@_TIMEOUT
async def delete(access: ClusterAccess, name: str, wait: bool, timeout_s: float | None) -> Done:
    """Delete a Job and its pods."""
    if timeout_s is not None and not wait:
        raise BadInput("--timeout says how long --wait waits; add --wait, or drop it")
    done = await delete_job(access, name)
    if wait:
        from pumice.cli import waiting

        await waiting.job_is_gone(access, name, timeout_s)
    return done


async def delete_job(access: ClusterAccess, name: str) -> Done:
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.kube.requests import Propagation

    await access.client.delete(Job, name, namespace=access.namespace, propagation=Propagation.BACKGROUND)
    return Done(by_struct(Job), {"metadata": {"name": name, "namespace": access.namespace}}, "deleted")


@job.command()
@asks()
@name_argument("-N", "--name", kind=KIND)
@click.option("-r", "--replicas", type=click.IntRange(min=0), required=True)
@click.option("-t", "--task", default="", help="Task to scale; a Job with one task needs none named.")
@click.option("-m", "--min", "minimum", type=click.IntRange(min=0), help="Change minAvailable as well.")
async def scale(access: ClusterAccess, name: str, replicas: int, task: str, minimum: int | None) -> Done:
    """Change how many pods a task has."""
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.cli import submitting, waiting

    found = (await access.client.get(Job, name, namespace=access.namespace)).json()
    wanted = submitting.scale_job(found, replicas, task=task, minimum=minimum)
    if _is_over(found):
        warn(f"job {name} is {waiting.phase_of(found)}: no pod of it will be made or ended any more")
    # The version read goes along, so that a change by another client in between is a conflict and not lost.
    written = await access.client.update(Job, name, wanted, namespace=access.namespace)
    return Done(by_struct(Job), written.json(), "scaled")


@job.command()
@asks(output=False)
@name_argument("-N", "--name", kind=KIND)
@click.option("-t", "--task", default="", help="Only pods of this task.")
@click.option("--index", type=click.IntRange(min=0), help="Only the pod of this number within its task.")
@click.option("-c", "--container", default="", help="Container; needed where pods have several.")
@click.option("-f", "--follow", is_flag=True, help="Go on until the containers end, or Ctrl-C.")
@click.option("--tail", type=click.IntRange(min=0), help="Only so many last lines of each pod.")
@click.option("-p", "--previous", is_flag=True, help="Of the container before the last restart.")
@click.option(
    "--attempt",
    type=click.IntRange(1, ATTEMPTS_MAX),
    help="The last lines of this attempt, as the record keeps them; 1 is the first.",
)
async def logs(
    access: ClusterAccess,
    name: str,
    task: str,
    index: int | None,
    container: str,
    follow: bool,
    tail: int | None,
    previous: bool,
    attempt: int | None,
) -> None:
    """Print what a Job's pods wrote; several pods' lines begin with their pod."""
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.api.pods import Pod
    from pumice.cli import logs

    if attempt is not None:
        if follow or previous:
            raise BadInput("--attempt shows what is kept of an attempt: drop -f and --previous")
        wanted = logs.Wanted(access.namespace, container, tail)
        await logs.print_attempt(access, name, attempt, wanted, task=task, index=index)
        return
    if follow and previous:
        raise BadInput("-f and --previous exclude each other: a container that has ended writes nothing more; drop one")
    try:
        job = (await access.client.get(Job, name, namespace=access.namespace)).json()
    except NotFound as error:
        hint = "of a Job that is gone, --attempt 1 shows the last lines that the record keeps"
        raise NotFound(f"{error.plain}; {hint}") from error
    labels = f"{names.JOB_NAME}={name}"
    pods = await access.client.list_json(by_struct(Pod), namespace=access.namespace, labels=labels)
    chosen = logs.chosen_pods(pods, task=task, index=index)
    if not chosen:
        raise NotFound(logs.no_such_pod(job, any_pods=bool(pods)))
    wanted = logs.Wanted(access.namespace, container, tail, previous)
    if follow:
        await logs.follow(access.client, chosen, wanted)
    elif not await logs.print_all(access.client, chosen, wanted):
        raise NotFound(logs.no_former_container(job))
