"""Waiting until objects are as wanted, woken by their changes, with a progress line on a terminal."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import click

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.kinds import by_struct
from pumice.api.pods import Pod
from pumice.cli import fetching, progress, tables
from pumice.cli.results import Query
from pumice.digits import counted
from pumice.errors import Conflict, PumiceError
from pumice.kube import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.api.meta import Json
    from pumice.cli.cluster_command import ClusterAccess

GOOD_ENDS = frozenset({"Completed"})
BAD_ENDS = frozenset({"Failed", "Aborted", "Terminated"})


class JobFailed(PumiceError):
    """The Job was made and ended otherwise than it should."""


async def until(access: ClusterAccess, query: Query, is_done: Callable[[Sequence[Json]], bool]) -> None:
    """Returns when `is_done` says so of all objects that the query finds; asked first at once, then after each change."""
    while True:
        listed, version = await fetching.list_objects(query, access.client)
        found = {str(each["metadata"]["uid"]): each for each in listed}
        if is_done(list(found.values())):
            return
        with contextlib.suppress(errors.Expired, errors.Unreachable):  # what changed meanwhile is seen in the next list
            async with contextlib.aclosing(fetching.changes(query, access.client, version)) as events:
                async for kind, each in events:
                    if kind == "DELETED":
                        found.pop(str(each["metadata"]["uid"]), None)
                    else:
                        found[str(each["metadata"]["uid"])] = each
                    if is_done(list(found.values())):
                        return
        await access.clock.sleep(fetching.AGAIN_S)


async def job_ends(access: ClusterAccess, made: Json, timeout_s: float | None, *, running: bool = False) -> Json:
    """The Job when it is over, or `running`; raises JobFailed where it did not complete. Who is interrupted is told that the Job goes on."""
    name, namespace = made["metadata"]["name"], made["metadata"]["namespace"]
    last = [made]
    query = Query(kind=by_struct(Job), columns=(), namespace=namespace, name=name)

    def is_over(found: Sequence[Json]) -> bool:
        if not found:
            raise JobFailed(f"job {namespace}/{name} was deleted before it ended; look who did that, and run it again")
        last[0] = found[0]
        tell(_standing(found[0]))
        return phase_of(found[0]) in GOOD_ENDS | BAD_ENDS or (running and phase_of(found[0]) == "Running")

    with progress.show(_standing(made)) as tell:
        try:
            async with asyncio.timeout(timeout_s):
                await until(access, query, is_over)
        except TimeoutError:
            raise Conflict(
                f"{_standing(last[0])}: not {'running' if running else 'over'} within {timeout_s:g} s; it goes on: see `pumice explain job/{name}`"
            ) from None
        except asyncio.CancelledError:
            click.echo(f"\npumice: job {namespace}/{name} goes on; `pumice job delete {name}` ends it", err=True)
            raise
    if phase_of(last[0]) in BAD_ENDS:
        state = last[0]["status"]["state"]
        why = ": ".join(filter(None, (state.get("reason"), state.get("message")))) or "no reason was given"
        raise JobFailed(f"job {namespace}/{name} ended {state['phase']}: {why}; see `pumice job logs {name}`")
    return last[0]


def phase_of(job: Json) -> str:
    """Pending before its controller has looked at it."""
    return str(((job.get("status") or {}).get("state") or {}).get("phase") or "Pending")


def _standing(job: Json) -> str:
    status = job.get("status") or {}
    running, total = status.get("running", 0), tables.replicas(job)
    return f"job {job['metadata']['name']}: {phase_of(job)}, {running} of {total} pods run"


async def job_is_gone(access: ClusterAccess, name: str, timeout_s: float | None) -> None:
    """Returns when neither the Job nor a pod of it is there any more."""
    left = ["the job itself"]
    query = Query(kind=by_struct(Job), columns=(), namespace=access.namespace, name=name)
    pods = Query(kind=by_struct(Pod), columns=(), namespace=access.namespace, labels=f"{names.JOB_NAME}={name}")

    def no_pods(found: Sequence[Json]) -> bool:
        left[0] = counted(len(found), "pod")
        tell(f"job {name}: {left[0]} ending")
        return not found

    with progress.show(f"job {name} is being deleted") as tell:
        try:
            async with asyncio.timeout(timeout_s):
                await until(access, query, lambda found: not found)
                await until(access, pods, no_pods)
        except TimeoutError:
            raise Conflict(
                f"job {access.namespace}/{name}: {left[0]} still there after {timeout_s:g} s; see `pumice pod list -j {name}`"
            ) from None
