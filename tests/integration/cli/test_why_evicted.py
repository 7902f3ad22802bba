"""`pumice why-evicted`: the story of an eviction, from the pod that had to go and from the leader that remembers it."""

import json

import pytest
from tests.integration.cli.causes import GPU, a_job, a_queue

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.events import CoreEvent
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue


@pytest.fixture
def reclaimed(client, until, emptied):
    """Research has borrowed all 16 GPUs, product takes its half back."""
    for name in ("research", "product"):
        client("create", Queue, a_queue(name))
        until(Queue, lambda queue: queue.get("status", {}).get("state") == "Open", name=name, namespace="")
    one = {GPU: "1"}
    client("create", Job, a_job("old", replicas=16, minimum=4, queue="research", resources=one), namespace="default")
    until(Job, lambda job: job.get("status", {}).get("running") == 16, name="old")
    client("create", Job, a_job("new", replicas=2, queue="product", resources=one), namespace="default")
    leaving = until(Pod, lambda pod: names.EVICTION in pod["metadata"].get("annotations", {}))
    until(Job, lambda job: job.get("status", {}).get("running") == 2, name="new")
    yield leaving
    for job in ("old", "new"):
        client("delete", Job, job, namespace="default")
    for name in ("research", "product"):
        client("delete", Queue, name)


def test_the_pod_the_command_and_the_group_tell_for_whom_and_what_it_cost(reclaimed, pumice, until):
    story = json.loads(reclaimed["metadata"]["annotations"][names.EVICTION])
    assert (story["rule"], story["resource"]) == ("reclaim", GPU)
    assert (story["victim"]["job"], story["claimant"]["job"]) == ("old", "new")
    assert (story["victim"]["heldBefore"], story["claimant"]["queue"]) == ("16", "product")
    condition = next(each for each in reclaimed["status"]["conditions"] if each["type"] == "DisruptionTarget")
    assert condition["message"].startswith(
        f"reclaim for gang {story['claimant']['gang']} (job new, queue product, user "
    )
    told = pumice("why-evicted", "old")
    assert (told.code, told.err) == (0, "")
    assert told.lines[0].endswith(" by reclaim")
    assert any(line.startswith("  for gang default/new: ") and "queue product" in line for line in told.lines)
    assert any(line.startswith(f"  queue research: {GPU} 16 before, ") for line in told.lines)
    assert {each["action"] for each in json.loads(pumice("why-evicted", "old", "-o", "json").out)["evictions"]} == {
        "reclaim"
    }
    until(CoreEvent, lambda event: event["reason"] == "MembersEvicted")
    assert "2 pods are evicted: reclaim for gang default/new-" in pumice("job", "view", "old").out


def test_a_job_that_lost_nothing_says_so_and_one_that_does_not_exist_is_not_found(client, pumice):
    assert pumice("why-evicted", "ghost").code == 3
    client("create", Job, a_job("quiet"), namespace="default")
    assert pumice("why-evicted", "quiet").out.startswith("quiet: the leading scheduler has evicted no pod of it")
