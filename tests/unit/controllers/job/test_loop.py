"""What the Job controller looks at: not only what is there, but also what went since it last looked."""

import random

import pytest
from tests.unit.controllers.job.literals import NOW, a_job, a_pod, gang

from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.pods import Pod
from pumice.clock import VirtualClock
from pumice.controllers.cache import Cache
from pumice.controllers.job import loop
from pumice.controllers.operations import Patch
from pumice.kube.informer import Informers, Key

EVICTED = {"leaving": True, "disruption": "EvictionByEvictionAPI", "message": "evicting"}


@pytest.fixture
def cache():
    clock = VirtualClock(NOW)
    return Cache(Informers(None, clock=clock, chance=random.Random(0)), clock)


def test_a_pod_that_came_and_was_evicted_between_two_looks_is_noticed(cache):
    """A controller that is busy, and a gang whose ranks would wait for the lost one for ever."""
    controller = loop.controller(cache)
    restart = [{"event": "PodEvicted", "action": "RestartJob"}]
    cache.of(Job).receive([Upserted(a_job(policies=restart, status={"state": {"phase": "Pending"}}))])
    cache.of(Pod).receive([Upserted(pod) for pod in gang()])
    cache.of(Pod).receive([Upserted(a_pod("worker", 1, **EVICTED)), Deleted(a_pod("worker", 1, **EVICTED))])
    plan = controller.plan(cache, Key("team", "train"), NOW)
    (write,) = [each for stage in plan.stages for each in stage if isinstance(each, Patch)]
    assert write.body["status"]["state"]["phase"] == "Restarting"
    assert "4 pods lose" in write.body["status"]["state"]["message"]
