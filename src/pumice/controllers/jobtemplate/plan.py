"""Which Jobs were made from a template."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.controllers.operations import NOTHING_TO_DO, Patch, Plan, target_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.batch import Job
    from pumice.api.flow import JobTemplate

JOBS_LISTED_MAX = 1_000  # the object must stay small, however many flows use the template


def plan(template: JobTemplate, jobs: Iterable[Job]) -> Plan:
    """The status lists the Jobs that there are, by name."""
    listed = tuple(sorted(job.metadata.name for job in jobs)[:JOBS_LISTED_MAX])
    metadata = template.metadata
    if listed == template.status.job_depends_on_list or metadata.deletion_timestamp is not None:
        return NOTHING_TO_DO
    patch = Patch(
        **target_of(template),
        body={"status": {"jobDependsOnList": list(listed)}},
        subresource="status",
        hurry=False,
    )
    return Plan(((patch,),))
