"""Which changes of a pod make a Job be planned anew."""

import msgspec
import pytest
from tests.unit.scheduling.clusters import a_pod, merged

from pumice.api import names
from pumice.controllers.job.members import concerns, has_started

WAITS = a_pod("train-worker-0", annotations={names.JOB_VERSION: "0"})
CONDITION = {"type": "DisruptionTarget", "status": "True", "reason": "GangReleased"}
CONTAINER = {"name": "main", "state": {"terminated": {"exitCode": 3}}}


def changed(pod, **manifest):
    return msgspec.convert(merged(msgspec.to_builtins(pod, enc_hook=dict), manifest), type(pod))


BOUND = changed(
    WAITS,
    metadata={"resourceVersion": "9", "annotations": {names.ATTEMPT: "1-a"}},
    spec={"nodeName": "n1"},
    status={"conditions": [{"type": "PodScheduled", "status": "True"}]},
)


def test_that_a_pod_was_bound_makes_no_difference_to_its_job():
    assert not concerns(WAITS, BOUND)


@pytest.mark.parametrize(
    "manifest",
    [
        {"status": {"phase": "Failed", "reason": "OutOfcpu"}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {"annotations": {names.OUT_OF_SYNC: "true"}}},
        {"metadata": {"ownerReferences": [{"kind": "Job", "name": "other", "uid": "u", "controller": True}]}},
        {"status": {"conditions": [CONDITION]}},
        {"status": {"containerStatuses": [CONTAINER]}},
        {"status": {"initContainerStatuses": [CONTAINER]}},
    ],
)
def test_what_a_plan_reads_of_a_pod_concerns_its_job(manifest):
    fresh = changed(BOUND, **manifest)
    assert concerns(WAITS, fresh)
    assert not has_started(WAITS, fresh)


def test_that_a_pod_has_started_is_news_of_another_kind():
    runs = changed(
        BOUND, status={"phase": "Running", "containerStatuses": [{"name": "main", "state": {"running": {}}}]}
    )
    assert has_started(BOUND, runs)
    assert not concerns(BOUND, runs)
    assert not has_started(runs, changed(runs, status={"podIP": "10.0.0.1"}))


def test_a_pod_that_is_to_leave_has_not_merely_started():
    leaves = changed(BOUND, status={"phase": "Running"}, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert concerns(BOUND, leaves)
    assert not has_started(BOUND, leaves)


def test_of_a_pod_that_has_started_everything_concerns_its_job():
    runs = changed(BOUND, status={"phase": "Running"})
    assert concerns(runs, changed(runs, status={"podIP": "10.0.0.1"}))
