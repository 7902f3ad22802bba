"""What the Job controller looks at: not only what is there, but also what went since it last looked."""

import asyncio
import random

import msgspec
import pytest
from tests.unit.controllers.job.literals import NOW, a_group, a_job, a_pod, gang
from tests.unit.scheduling.clusters import merged

from pumice.api import names
from pumice.api.batch import Job
from pumice.api.changes import Deleted, Upserted
from pumice.api.meta import ObjectMeta
from pumice.api.pods import Pod
from pumice.api.scheduling import Queue, QueueStatus
from pumice.clock import VirtualClock
from pumice.controllers.cache import Cache
from pumice.controllers.driver import Driver
from pumice.controllers.job import loop, podgroup
from pumice.controllers.operations import Patch
from pumice.kube.informer import Informers, Key
from pumice.runtime import Runtime

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


def a_version(number, each):
    metadata = msgspec.structs.replace(each.metadata, resource_version=str(number))
    return msgspec.structs.replace(each, metadata=metadata)


class Idle:
    """An executor that is never given anything to do that a test looks at."""

    async def carry_out(self, plan):
        return False


def plans_during(cache, monkeypatch, story):
    """How often a Job that waits with four pods is planned while the story goes on."""

    async def at_once():
        """Nothing is listed: the cache has what the test puts there."""

    monkeypatch.setattr(cache, "synced", at_once)
    driver = Driver(loop.controller(cache), cache, Idle(), Runtime(clock=cache.clock, chance=random.Random(0)))

    async def main():
        cache.of(Job).receive([Upserted(a_job(status={"state": {"phase": "Pending"}}))])
        cache.of(Pod).receive([Upserted(a_version(1, a_pod("worker", index, "Pending"))) for index in range(4)])
        work = asyncio.create_task(driver.run())
        await cache.clock.sleep(1)
        before = driver.plans
        await story()
        await cache.clock.sleep(0.3)
        work.cancel()
        return driver.plans - before

    return cache.clock.run(main())


@pytest.mark.parametrize(("phase", "plans"), [("Running", 1), ("Failed", 4)])
def test_pods_that_start_one_after_the_other_are_counted_together_and_a_failure_is_not_kept_waiting(
    cache, monkeypatch, phase, plans
):
    async def story():
        for index in range(4):
            cache.of(Pod).receive([Upserted(a_version(2, a_pod("worker", index, phase)))])
            await cache.clock.sleep(0.06)

    assert plans_during(cache, monkeypatch, story) == plans


def test_a_queue_that_comes_is_news_for_the_jobs_that_wait_for_it_and_what_it_holds_is_none(cache, monkeypatch):
    def a_queue(version, **status):
        metadata = ObjectMeta(name="default", uid="q", resource_version=str(version))
        return Queue(metadata=metadata, status=QueueStatus(**status))

    async def story():
        for version, running in ((1, 0), (2, 3), (3, 4)):
            cache.of(Queue).receive([Upserted(a_queue(version, running=running))])
            await cache.clock.sleep(0.1)

    assert plans_during(cache, monkeypatch, story) == 1


@pytest.mark.parametrize(
    ("change", "concerns"),
    [
        ({"status": {"running": 4}}, False),
        ({"metadata": {"resourceVersion": "9"}}, False),
        ({"status": {"phase": "Running"}}, True),
        ({"status": {"conditions": [{"type": "Unschedulable", "status": "True"}]}}, True),
        ({"spec": {"minMember": 7}}, True),
        ({"metadata": {"annotations": {names.TIME_LIMIT: "1h"}}}, True),
        ({"metadata": {"deletionTimestamp": "2026-03-01T13:00:20Z"}}, True),
    ],
)
def test_of_a_group_all_but_its_counts_concerns_its_job(change, concerns):
    known = a_group("Inqueue")
    fresh = msgspec.convert(merged(msgspec.to_builtins(known, enc_hook=dict), change), type(known))
    assert podgroup.concerns(known, fresh) is concerns
