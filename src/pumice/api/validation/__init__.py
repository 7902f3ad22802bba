"""What may be written to an API server, kind by kind, as pure functions for webhooks, the embedded server and the CLI.

    findings = review("Job", Request(Operation.CREATE, new=job, lookup=cache))
    findings.errors      why it is refused: field, cause, next step
    findings.warnings    what will hurt although it is allowed

Schemas have been checked before, or are about to be: a field of the wrong type is an error here, never an exception.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pumice.api.validation.cronjobs import review_cron_job
from pumice.api.validation.field_errors import FieldError, Findings, message
from pumice.api.validation.hypernodes import review_hyper_node
from pumice.api.validation.jobflows import review_job_flow
from pumice.api.validation.jobs import review_job
from pumice.api.validation.podgroups import review_pod_group
from pumice.api.validation.pods import review_pod
from pumice.api.validation.queues import review_queue
from pumice.api.validation.request import ClusterSize, Lookup, Operation, Request, Settings

__all__ = [
    "REVIEWS",
    "ClusterSize",
    "FieldError",
    "Findings",
    "Lookup",
    "Operation",
    "Request",
    "Settings",
    "message",
    "review",
]

REVIEWS: Mapping[str, Callable[[Request], Findings]] = MappingProxyType(
    {
        "CronJob": review_cron_job,
        "HyperNode": review_hyper_node,
        "Job": review_job,
        "JobFlow": review_job_flow,
        "Pod": review_pod,
        "PodGroup": review_pod_group,
        "Queue": review_queue,
    }
)


def review(kind: str, request: Request) -> Findings:
    """What is wrong with the change; a kind without rules has nothing wrong with it."""
    rules = REVIEWS.get(kind)
    return rules(request) if rules is not None else Findings()
