"""Logs of a Job's pods: one after the other, or all at once as they are written."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from pumice.api import names
from pumice.errors import BadInput, NotFound
from pumice.kube import errors
from pumice.kube.watch import Lines
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pumice.api.meta import Json
    from pumice.cli.cluster_command import ClusterAccess
    from pumice.kube.client import Client

_NONE_BEFORE = "previous terminated container"  # a kubelet's words
FOLLOWED_MAX = 64  # pods at once: each is a connection


class Wanted(Value):
    """Which part of the logs."""

    namespace: str
    container: str = ""
    tail: int | None = None
    previous: bool = False


def chosen_pods(pods: Iterable[Json], *, task: str = "", index: int | None = None) -> list[str]:
    """Names of the pods of a task, or of one member of it, by task and number."""

    def label(pod: Json, key: str) -> str:
        return str((pod["metadata"].get("labels") or {}).get(key, ""))

    def place(pod: Json) -> tuple[str, int, str]:
        number = label(pod, names.TASK_INDEX)
        return label(pod, names.TASK_SPEC), int(number) if number.isdecimal() else 0, pod["metadata"]["name"]

    kept = (
        pod
        for pod in pods
        if task in {"", label(pod, names.TASK_SPEC)} and (index is None or label(pod, names.TASK_INDEX) == str(index))
    )
    return [pod["metadata"]["name"] for pod in sorted(kept, key=place)]


async def print_all(client: Client, pods: Sequence[str], wanted: Wanted) -> bool:
    """Whether any of the pods had such logs: with `previous` one without a former container is passed over."""
    found = False
    for pod in pods:
        try:
            text = await client.log(
                pod,
                namespace=wanted.namespace,
                container=wanted.container,
                previous=wanted.previous,
                tail_lines=wanted.tail,
            )
        except errors.Invalid as error:
            if wanted.previous and _NONE_BEFORE in error.message:
                continue
            raise
        found = True
        for line in text.splitlines():
            _print(pod, line, several=len(pods) > 1)
    return found


def no_such_pod(job: Json, *, any_pods: bool) -> str:
    """Why there is nobody whose log could be read, and what to ask instead."""
    key, name = f"{job['metadata']['namespace']}/{job['metadata']['name']}", job["metadata"]["name"]
    status = job.get("status") or {}
    if any_pods:
        return f"job {key} has no such pod; `pumice pod list -j {name}` lists them"
    if ((status.get("state") or {}).get("phase") or "Pending") == "Pending":
        return f"job {key} has no pods yet; `pumice explain job/{name}` says what it waits for"
    attempt = (status.get("retryCount") or 0) + 1
    return f"the pods of job {key} are gone; `pumice job logs {name} --attempt {attempt}` has their last lines, where a record is kept"


def no_former_container(job: Json) -> str:
    """Why --previous has nothing to show, and what has."""
    name, restarts = job["metadata"]["name"], (job.get("status") or {}).get("retryCount") or 0
    if not restarts:
        return f"job {name}: no container of its pods was restarted; drop --previous"
    return (
        f"job {name} was restarted {'once' if restarts == 1 else f'{restarts} times'}, each time with new pods: the logs of the "
        f"former ones went with them; `pumice job view {name}` shows why they ended, and `pumice job logs {name} --attempt 1` what is kept of "
        "their last lines"
    )


async def print_attempt(
    access: ClusterAccess, name: str, attempt: int, wanted: Wanted, *, task: str, index: int | None
) -> None:
    """What the record keeps of an attempt's last lines."""
    from pumice.cli import record_access
    from pumice.record import model

    body = await record_access.ask(access, f"/v1/logs/{access.namespace}/{name}", {"attempt": str(attempt)})
    found = msgspec.json.decode(body, type=model.Logs)
    chosen = [
        each
        for each in found.lines
        if task in {"", each.task}
        and wanted.container in {"", each.container}
        and (index is None or each.pod.endswith(f"-{index}"))
    ]
    if not chosen:
        raise NotFound(_nothing_kept(name, attempt, found.attempts))
    for each in chosen:
        lines = each.text.splitlines()
        for line in lines if wanted.tail is None else lines[max(len(lines) - wanted.tail, 0) :]:
            _print(each.pod, line.encode(), several=len(chosen) > 1)


def _nothing_kept(name: str, attempt: int, kept: Sequence[int]) -> str:
    if not kept:
        return f"job {name}: no lines are kept of any attempt; the record keeps those of containers that have ended, for a while"
    return f"job {name}: no such lines are kept of attempt {attempt}; there are some of {', '.join(map(str, kept))}"


async def follow(client: Client, pods: Sequence[str], wanted: Wanted) -> None:
    if len(pods) > FOLLOWED_MAX:
        raise BadInput(
            f"{len(pods)} pods cannot be followed at once, at most {FOLLOWED_MAX}; choose with --task or --index"
        )

    async def one(pod: str) -> None:
        lines = Lines()
        chunks = client.follow_log(pod, namespace=wanted.namespace, container=wanted.container, tail_lines=wanted.tail)
        async for chunk in chunks:
            for line in lines.feed(chunk):
                _print(pod, line, several=len(pods) > 1)
        for line in lines.feed(b"\n"):
            _print(pod, line, several=len(pods) > 1)

    await asyncio.gather(*(one(pod) for pod in pods))


def _print(pod: str, line: bytes, *, several: bool) -> None:
    prefix = f"[{pod}] " if several else ""
    click.echo(prefix.encode() + line)
