"""Volcano's short commands, where -n is the name and -N the namespace. `pumice install-aliases` makes programs of them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from pumice.api.scheduling import VOLCANO
from pumice.cli import job, main, queue, shell
from pumice.cli.cluster_command import ClusterAccess, asks, name_argument

if TYPE_CHECKING:
    from pumice.cli.results import Done, Query, Report

_NAMESPACE = ("-N", "--namespace")


@click.command()
@asks(namespace=_NAMESPACE)
@name_argument("-n", "--name")
@click.option("-i", "--image", default="busybox", show_default=True, envvar="VOLCANO_DEFAULT_IMAGE")
@click.option("-m", "--min", "minimum", default=1, show_default=True)
@click.option("-r", "--replicas", default=1, show_default=True)
@click.option("-R", "--requests", default=job.ASKED, show_default=True)
@click.option("-L", "--limits", default="", help="What each pod may use; else what it asks for.")
@click.option("-S", "--scheduler", default=VOLCANO, show_default=True, envvar="VOLCANO_SCHEDULER_NAME")
@click.option("-c", "--command", default="", help="What each pod runs, as a shell would split it.")
async def vsub(
    access: ClusterAccess,
    name: str,
    image: str,
    minimum: int,
    replicas: int,
    requests: str,
    limits: str,
    scheduler: str,
    command: str,
) -> Done:
    """Submit a Job."""
    import os

    import msgspec

    from pumice.cli import submitting

    shape = submitting.Shape(image, replicas, minimum, requests, limits or requests, command)
    if not access.named_namespace:
        usual = os.environ.get("VOLCANO_DEFAULT_JOB_NAMESPACE") or access.namespace
        access = msgspec.structs.replace(access, namespace=usual)
    return await submitting.submit(access, submitting.job_of(name, shape, scheduler=scheduler))


@click.command()
@asks(namespace=_NAMESPACE, everywhere=True, watch=True)
@name_argument("-n", "--name", required=False)
@click.option("-S", "--scheduler", default="")
@click.option("--selector", default="", metavar="TEXT", help="Only those whose name contains this.")
async def vjobs(access: ClusterAccess, name: str, scheduler: str, selector: str) -> Query | Report:
    """List Jobs, or show one."""
    return await job.view_job(access, name) if name else job.jobs(access, scheduler=scheduler, part=selector)


@click.command()
@asks(namespace=(), watch=True)
@name_argument("-n", "--name", required=False)
async def vqueues(access: ClusterAccess, name: str) -> Query:
    """List queues, or show one."""
    return queue.queues(access, name)


@click.command()
@asks(namespace=_NAMESPACE)
@name_argument("-n", "--name")
async def vcancel(access: ClusterAccess, name: str) -> Done:
    """Delete a Job."""
    return await job.delete_job(access, name)


@click.command()
@asks(namespace=_NAMESPACE)
@name_argument("-n", "--name")
async def vsuspend(access: ClusterAccess, name: str) -> Done:
    """Suspend a Job."""
    return await job.command_job(access, name, "AbortJob", "suspending")


@click.command()
@asks(namespace=_NAMESPACE)
@name_argument("-n", "--name")
async def vresume(access: ClusterAccess, name: str) -> Done:
    """Resume a Job."""
    return await job.command_job(access, name, "ResumeJob", "resuming")


COMMANDS: dict[str, click.Command] = {
    "vsub": vsub,
    "vjobs": vjobs,
    "vqueues": vqueues,
    "vcancel": vcancel,
    "vsuspend": vsuspend,
    "vresume": vresume,
}


def complete(words: list[str]) -> None:
    """What `kubectl pumice` may go on with, in the words that kubectl asks its plugins to use."""
    from click.shell_completion import ShellComplete

    *written, begun = words or [""]
    for each in ShellComplete(main.pumice, {}, "pumice", "_PUMICE_COMPLETE").get_completions(written, begun):
        click.echo(each.value)
    click.echo(":4")  # kubectl's sign for: no file names


if __name__ == "__main__":
    if sys.argv[1] == shell.KUBECTL_COMPLETION:
        complete(sys.argv[2:])
        sys.exit()
    if sys.argv[1] == "vcctl":
        from pumice.cli import vcctl

        sys.exit(vcctl.run(sys.argv[2:]))
    sys.exit(main.run(sys.argv[2:], COMMANDS[sys.argv[1]], name=sys.argv[1]))
