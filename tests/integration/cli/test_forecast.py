"""When will my job start? Asked of a cluster that is full, before and after the job is there."""

import json
import time

import pytest
from tests.bodies.patience import PATIENCE_S
from tests.integration.cli.causes import GPU, a_job

from pumice.api.batch import Job
from pumice.api.scheduling import PodGroup


@pytest.fixture
def full(pumice, client, until):
    """All 16 GPUs of the cluster are held by a gang that says it takes an hour; another one waits for its admission, and has no pods."""
    holder = a_job("holder", replicas=16, resources={GPU: "1"})
    holder["metadata"]["annotations"] = {"pumice.dev/running-estimate": "1h", "pumice.dev/pretend-run": "2h"}
    client("create", Job, holder, namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 16, name="holder")
    client("create", Job, a_job("next", replicas=8, resources={GPU: "1"}), namespace="default")
    until(PodGroup, lambda group: group["metadata"]["name"].startswith("next-"))


def test_when_a_job_will_start_and_what_that_depends_on(pumice, full):
    told = pumice("forecast", "next")
    assert (told.code, told.lines[1].split()[0]) == (0, "default/next")
    assert "(in 59m)" in told.out or "(in 60m)" in told.out
    assert "1 running gang in front" in told.out
    assert "No forecast has been held against what came of it yet" in told.out
    (data,) = json.loads(pumice("forecast", "-o", "json").out)["forecasts"]
    assert data["gang"].startswith("default/next-")
    assert data["p50"] <= data["p90"]
    assert (data["ahead"], data["withoutEstimate"], data["complete"]) == (1, 0, True)


def test_a_wide_list_has_the_likely_start(pumice, full):
    assert "STARTS" in pumice("job", "list", "-o", "wide").out
    assert "STARTS" not in pumice("job", "list").out


def test_a_job_is_tried_without_being_made(pumice, full):
    told = pumice("job", "run", "try", "-r", "4", "-m", "4", "--gpus", "1", "--test-only")
    assert told.code == 0
    assert "job try would start at" in told.out
    assert "Nothing was made." in told.out
    assert "try" not in pumice("job", "list").out
    small = pumice("job", "run", "small", "-r", "2", "--test-only")
    assert "job small would start now" in small.out
    assert "on " in small.out
    wide = pumice("job", "run", "wide", "-r", "30", "--gpus", "1", "--test-only")
    assert "of its 30 pods, enough to start; the others follow" in wide.out


def test_what_cannot_be_answered(pumice, full):
    assert "no gang of that name waits or runs" in pumice("forecast", "nobody").err
    assert pumice("forecast", "nobody").code == 3
    assert "does not wait" in pumice("forecast", "holder").err
    assert "not within 30m" in pumice("forecast", "next", "--horizon", "30m").out
    assert "expected more than nothing" in pumice("forecast", "--horizon", "0s").err
    both = pumice("job", "run", "try", "--test-only", "--wait")
    assert "--wait and --test-only exclude each other" in both.err


def test_the_view_of_a_job_that_waits_has_its_start(pumice, full, cluster, background):
    background.run(cluster.scheduler.forecasting.update())
    deadline = time.monotonic() + PATIENCE_S  # it is told with the next cycle
    while not any(line.startswith("Starts:") for line in pumice("job", "view", "next").lines):
        assert time.monotonic() < deadline
    assert not any(line.startswith("Starts") for line in pumice("job", "view", "holder").lines)
