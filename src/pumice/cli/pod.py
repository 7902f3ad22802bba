"""`pumice pod`: the pods of Jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from pumice.api import names
from pumice.cli.cluster_command import ClusterAccess, asks, labelled
from pumice.cli.results import Query
from pumice.cli.suggestions import SuggestingGroup
from pumice.errors import BadInput

if TYPE_CHECKING:
    from pumice.api.meta import Json


@click.group(cls=SuggestingGroup)
def pod() -> None:
    """Look at the pods of Jobs."""


@pod.command("list")
@asks(everywhere=True, watch=True)
@click.option("-j", "--job", default="", help="Only of this Job.")
@click.option("-q", "--queue", default="", help="Only of this queue.")
@labelled
async def list_pods(access: ClusterAccess, job: str, queue: str, labels: str) -> Query:
    """List the pods of Jobs, or of one Job or queue."""
    from pumice.api.batch import Job
    from pumice.api.kinds import by_struct
    from pumice.api.pods import Pod
    from pumice.cli import tables

    if job and queue and not access.everywhere:
        found = (await access.client.get(Job, job, namespace=access.namespace)).json()
        own = (found.get("spec") or {}).get("queue") or "default"
        if own != queue:
            raise BadInput(
                f"job {access.namespace}/{job} is in queue {own!r}, not in {queue!r}; drop one of the options"
            )

    def keep(each: Json) -> bool:
        meta = each["metadata"]
        own, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
        in_queue = queue in {"", own.get(names.JOB_QUEUE), annotations.get(names.QUEUE_NAME)}
        return in_queue and (names.JOB_NAME in own or bool(queue)) and job in {"", own.get(names.JOB_NAME)}

    columns = tables.with_namespace(tables.POD, everywhere=access.everywhere)
    # A queue's pods need not be a Job's: only without one can the server choose by label.
    of_jobs = f"{names.JOB_NAME}={job}" if job else "" if queue else names.JOB_NAME
    chosen = ",".join(filter(None, (of_jobs, labels)))
    return Query(kind=by_struct(Pod), columns=columns, namespace=access.scope, labels=chosen, keep=keep)
