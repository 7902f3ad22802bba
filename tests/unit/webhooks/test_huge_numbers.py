"""Numbers of thousands of digits, wherever a user may write one: refused with a reason, or kept as text; never an error of ours."""

import pytest
from tests.cases import admission
from tests.cases.editing import edited
from tests.unit.webhooks.reviews import group, pod, request

from pumice.api import names
from pumice.webhooks.reviews import Reviewer

DIGITS = "9" * 5000
MAIN = "spec.tasks[0].template.spec.containers[0]"
WEIGHTS = {names.HIERARCHY: "root/a", names.HIERARCHY_WEIGHTS: f"1/{DIGITS}"}

REFUSED = [
    admission.job({f"{MAIN}.resources": {"requests": {"cpu": DIGITS}}}),
    admission.job({f"{MAIN}.resources": {"requests": {"memory": f"1e{DIGITS}"}}}),
    admission.job({"spec.policies": [{"event": "PodFailed", "action": "RestartJob", "timeout": f"{DIGITS}s"}]}),
    admission.job({"spec.minAvailable": int("9" * 400)}),
    admission.queue("x", {"metadata.annotations": WEIGHTS}),
    admission.queue("x", capability={"cpu": DIGITS}),
    admission.cron_job({"spec.schedule": f"{DIGITS} * * * *"}),
    admission.cron_job({"spec.schedule": f"*/{DIGITS} * * * *"}),
    admission.cron_job({"spec.schedule": f"@every {DIGITS}s"}),
    edited(group(), {"spec.minResources": {"cpu": DIGITS}}),
    pod(**{names.JDB_MIN_AVAILABLE: DIGITS}),
]
KEPT = [
    admission.job({"metadata.annotations": {names.JDB_MIN_AVAILABLE: DIGITS}}),
    admission.job({"spec.tasks[0].template.metadata": {"annotations": {names.TASK_INDEX: DIGITS}}}),
    pod(**{names.TASK_INDEX: DIGITS}),
]


@pytest.mark.parametrize(
    ("subject", "allowed"),
    [*((subject, False) for subject in REFUSED), *((subject, True) for subject in KEPT)],
    ids=lambda each: each["kind"] if isinstance(each, dict) else "",
)
def test_a_number_of_five_thousand_digits_is_refused_or_harmless(subject, allowed):
    reviewer = Reviewer(admission.World(admission.QUEUES))
    assert reviewer.mutate(request(subject))["allowed"]
    assert reviewer.validate(request(subject))["allowed"] == allowed
