"""How often is planned while news comes one by one: as a scheduler would, without its threads and its server."""

import asyncio
import itertools

import pytest
from tests.unit.scheduling.clusters import a_group, a_node, a_pod, a_queue, policy

from pumice import instant
from pumice.api import changes
from pumice.clock import VirtualClock
from pumice.cluster.intake import Intake
from pumice.cluster.state import Cluster
from pumice.processes.wakeups import (
    ARRIVAL_S,
    PLAN_S_AT_ONCE,
    PLAN_SHARE,
    PROGRESS_S,
    PROGRESS_S_MAX,
    REST_S_MAX,
    Pace,
    Wakeups,
)
from pumice.scheduling.core import cycle

NOON = instant.parse_instant("2026-01-31T12:00:00Z")
GANGS = policy("enqueue, allocate, backfill", "gang predicates")
SIZE = 100


class Scheduler:
    """News in, plans out; what was placed is assumed at once."""

    def __init__(self, clock, rules):
        self.clock = clock
        self.rules = rules
        self.intake = Intake(Cluster())
        self.wakeups = Wakeups(self.intake)
        self.plans = 0
        self.placed = []

    def hear(self, *things):
        for thing in things:
            self.wakeups.learn(changes.Upserted(object=thing), {})

    async def plan_if_due(self):
        if await self.wakeups.wait(0.0):
            self.end(self.begin())

    def begin(self):
        self.wakeups.begin()
        self.plans += 1
        return self.intake.cluster.snapshot()

    def end(self, snapshot):
        decisions = cycle.plan(snapshot, self.rules, now=self.clock.now())
        self.wakeups.expect(snapshot, decisions, self.rules)
        for commit in decisions.commits:
            self.placed.append((commit.gang, len(commit.binds)))
            for bind in commit.binds:
                ref = changes.PodRef(namespace="default", name=bind.task.name, uid=bind.task.uid)
                self.wakeups.learn(changes.Assumed(pod=ref, node=bind.node, attempt="1-a", at=NOON), {})

    async def hear_one_by_one(self, things):
        for thing in things:
            self.hear(thing)
            await self.plan_if_due()


def play(story, rules=GANGS):
    clock = VirtualClock(NOON)

    async def main():
        scheduler = Scheduler(clock, rules)
        scheduler.hear(a_node("n1", cpu="1000", pods="1000"), a_queue("default"))
        await scheduler.plan_if_due()
        scheduler.plans = 0
        await story(scheduler)

    clock.run(main())


def members(count, first=0, **kwargs):
    return [a_pod(f"g-worker-{number}", gang="g", **kwargs) for number in range(first, first + count)]


@pytest.mark.parametrize("roles", [None, {"worker": SIZE}], ids=["of a group", "of each role"])
def test_a_gang_is_planned_when_it_may_be_complete_not_with_each_of_its_members(roles):
    async def story(scheduler):
        await scheduler.hear_one_by_one([a_group("g", SIZE, roles=roles), *members(SIZE, role="worker")])
        assert scheduler.placed == [("default/g", SIZE)]
        assert scheduler.plans == 2  # for its group, and for its last member

    play(story)


def test_members_that_come_while_it_is_planned_are_counted():
    async def story(scheduler):
        await scheduler.hear_one_by_one([a_group("g", SIZE), *members(2)])
        snapshot = scheduler.begin()
        scheduler.hear(*members(SIZE - 2, first=2))
        scheduler.end(snapshot)
        await scheduler.plan_if_due()
        assert scheduler.placed == [("default/g", SIZE)]

    play(story)


def test_of_a_gang_that_stays_too_small_the_newcomers_are_told_in_the_end():
    async def story(scheduler):
        await scheduler.hear_one_by_one([a_group("g", SIZE), *members(2)])
        before = scheduler.plans
        await scheduler.clock.sleep(ARRIVAL_S)
        await scheduler.plan_if_due()
        assert scheduler.plans == before + 1

    play(story)


def test_others_are_planned_at_once_while_members_of_a_gang_arrive():
    async def story(scheduler):
        await scheduler.hear_one_by_one([a_group("g", SIZE), *members(SIZE // 2), a_pod("alone")])
        assert scheduler.placed == [("default/pod:alone", 1)]

    play(story)


def test_without_the_gang_plugin_each_pod_is_placed_as_it_comes():
    async def story(scheduler):
        await scheduler.hear_one_by_one([a_group("g", SIZE), *members(3)])
        assert scheduler.placed == [("default/g", 1)] * 3

    play(story, policy("enqueue, allocate", "predicates"))


def test_a_lost_member_of_a_gang_that_runs_is_replaced_before_the_others_come():
    async def story(scheduler):
        running = members(SIZE - 3, node="n1")
        await scheduler.hear_one_by_one([a_group("g", SIZE, phase="Running"), *running])
        before = scheduler.plans
        await scheduler.hear_one_by_one(members(2, first=SIZE))
        assert scheduler.plans == before + 2

    play(story)


def test_pods_that_start_one_by_one_are_planned_for_together():
    async def story(scheduler):
        pods = members(SIZE)
        await scheduler.hear_one_by_one([a_group("g", SIZE), *pods])
        before = scheduler.plans
        await scheduler.hear_one_by_one(members(SIZE, node="n1"))
        assert scheduler.plans == before
        await scheduler.clock.sleep(PROGRESS_S)
        await scheduler.plan_if_due()
        assert scheduler.plans == before + 1

    play(story)


@pytest.mark.parametrize(("took_s", "rest_s"), [(0.001, PROGRESS_S), (0.02, 0.8), (5.0, PROGRESS_S_MAX)])
def test_the_longer_a_cycle_takes_the_longer_pods_that_start_wait_for_one(took_s, rest_s):
    async def story(scheduler):
        await scheduler.hear_one_by_one([a_group("g", SIZE), *members(SIZE)])
        snapshot = scheduler.begin()
        await scheduler.clock.sleep(took_s)
        scheduler.end(snapshot)
        began = scheduler.clock.monotonic()
        scheduler.hear(*members(1, node="n1"))
        assert await scheduler.wakeups.wait(1e3)
        assert scheduler.clock.monotonic() - began == pytest.approx(rest_s)

    play(story)


def test_waiting_ends_when_what_can_wait_is_due():
    async def story(scheduler):
        pods = members(SIZE)
        await scheduler.hear_one_by_one([a_group("g", SIZE), *pods])
        began = scheduler.clock.monotonic()
        asyncio.get_running_loop().call_later(1, scheduler.hear, *members(1, node="n1"))
        assert await scheduler.wakeups.wait(1e3)
        assert scheduler.clock.monotonic() - began == pytest.approx(1 + PROGRESS_S)
        scheduler.wakeups.begin()
        assert not await scheduler.wakeups.wait(1e3)

    play(story)


def starts_of_cycles(took_s, *, until):
    """When cycles begin that each take so long while there is news without end."""
    pace, now, starts = Pace(), 1000.0, []
    while now < 1000.0 + until:
        starts.append(now)
        pace.planned(now, now + took_s)
        now += took_s
        now += pace.rest_s(now)
    return starts


def test_where_little_happens_nobody_waits_for_a_cycle():
    pace = Pace()
    for second in range(10):
        pace.planned(float(second), second + PLAN_SHARE)
        assert pace.rest_s(second + PLAN_SHARE) == 0.0


def test_while_news_never_ends_planning_uses_its_share_of_the_time():
    took_s, until = 0.04, 60.0
    starts = starts_of_cycles(took_s, until=until)
    assert len(starts) * took_s == pytest.approx(until * PLAN_SHARE + PLAN_S_AT_ONCE, abs=2 * took_s)


def test_no_cycle_is_awaited_for_longer_than_the_limit_however_long_they_take():
    starts = starts_of_cycles(5.0, until=60.0)
    waits = [after - before - 5.0 for before, after in itertools.pairwise(starts)]
    assert waits == pytest.approx([REST_S_MAX] * len(waits))


def test_a_pace_whose_time_was_used_up_recovers():
    pace = Pace()
    pace.planned(1000.0, 1005.0)
    assert pace.rest_s(1005.0) == REST_S_MAX
    assert pace.rest_s(1005.0 + REST_S_MAX) == 0.0
    pace.planned(1100.0, 1100.0 + PLAN_S_AT_ONCE)
    assert pace.rest_s(1100.0 + PLAN_S_AT_ONCE) == 0.0
