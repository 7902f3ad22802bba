"""The limit of gangs that one user may have in a queue, at the door."""

import asyncio

import pytest
from tests.cases import admission
from tests.unit.scheduling.clusters import a_group, a_queue
from tests.unit.webhooks.reviews import CONTROLLERS, request
from tests.unit.webhooks.test_admission import WORLD, Rights, answer_of, path

from pumice.api import names
from pumice.api.validation import Settings
from pumice.webhooks.admission import Admission, QueueRights
from pumice.webhooks.registration import AccessMode
from pumice.webhooks.reviews import Reviewer
from pumice.webhooks.submission_limits import SubmissionLimits
from pumice.webhooks.submitters import Submitters
from pumice.webhooks.target_queues import Destinations

LIMIT = {names.USER_LIMITS: "submitted=2"}
QUEUES = {
    each.metadata.name: each
    for each in (
        a_queue("top", annotations=LIMIT), a_queue("research", parent="top"), a_queue("free"),
        a_queue("odd", annotations={names.USER_LIMITS: "submitted=lots"}), a_queue("ring", parent="ring"),
    )
}  # fmt: skip


def groups(count, user="alice", queue="research", phase="Pending"):
    notes = {names.SUBMITTED_BY: user}
    return [a_group(f"g{number}", 1, queue=queue, phase=phase, annotations=notes) for number in range(count)]


def limits(*found):
    return SubmissionLimits(QUEUES.get, lambda: found)


@pytest.mark.parametrize(
    ("found", "queue", "refused"),
    [
        (groups(1), "research", False),
        (groups(2), "research", True),
        (groups(2), "top", True),  # all below it count
        (groups(2, user="bob"), "research", False),
        (groups(2, phase="Completed"), "research", False),
        (groups(5, queue="free"), "free", False),
        (groups(5, queue="odd"), "odd", False),
        (groups(5, queue="ring"), "ring", False),
        (groups(5), "unknown", False),
    ],
)
def test_a_user_has_no_more_gangs_in_a_queue_than_it_may(found, queue, refused):
    assert bool(limits(*found).problem("alice", queue)) is refused


def test_the_refusal_names_the_limit_and_what_to_do():
    text = limits(*groups(3)).problem("alice", "research")
    assert text == (
        'user "alice" has 3 gangs in queue "top" and may have 2 (its annotation pumice.dev/user-limits); '
        "wait until one has ended, or delete some"
    )


@pytest.mark.parametrize(("sender", "allowed"), [("alice", False), (CONTROLLERS, True)])
def test_a_job_too_many_is_refused_to_its_submitter_and_not_to_controllers(sender, allowed):
    destinations = Destinations(WORLD, lambda *_: None, lambda _: (), ("volcano",))
    rights = QueueRights(AccessMode.WARN, Submitters([CONTROLLERS]), destinations, Rights(), limits(*groups(2)))
    admitting = Admission(Reviewer(WORLD, Settings(scheduler_names=("volcano",))), rights)
    job = admission.job({"spec.queue": "research", "metadata.annotations": {names.SUBMITTED_BY: "alice"}})
    if sender == "alice":
        job = admission.job({"spec.queue": "research"})
    review = request(job, user=sender)
    response = asyncio.run(answer_of(admitting, path(review["object"], "validate"), review))
    assert response["allowed"] is allowed, response
