"""The loop: what wakes it, what it does again, what it lets wait."""

import asyncio
import itertools
import random

import pytest

from pumice.api import kinds
from pumice.api.core import ConfigMap
from pumice.api.events import CoreEvent
from pumice.controllers.driver import REST_S_MAX, SWEEP_S, TIMER_S, Controller, Driver, Wake, itself
from pumice.controllers.operations import NOTHING_TO_DO, Create, Emit, Patch, Plan
from pumice.kube.informer import Key
from pumice.runtime import Runtime

PATIENCE_S = 1.0  # of a Patch that names none


def a_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "team"}, "data": data}


def drive(bench, plan, **options):
    controller = Controller("test", plan, (Wake(ConfigMap, itself, **options),))
    driver = Driver(controller, bench.known, bench.executor, Runtime(clock=bench.clock, chance=random.Random(0)))
    bench.beside(driver.run())
    return driver


def test_a_key_is_planned_until_nothing_is_left_and_own_writes_are_seen_at_once(bench):
    seen = []

    def plan(known, key, now):
        seen.append((key.name, {each.metadata.name for each in known.of(ConfigMap).all()}))
        if key.name == "first" and known.of(ConfigMap).get("team", "second") is None:
            return Plan(((Create(kind=ConfigMap, body=a_map("second")),),))
        return NOTHING_TO_DO

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("first"), namespace="team")
        await bench.clock.sleep(5)
        assert bench.executor.writes == {"create ConfigMap": 1}
        assert [names for name, names in seen if name == "first"][1] >= {"first", "second"}

    bench.run(body)


def test_a_plan_is_made_again_when_it_asked_for_it(bench):
    times = []

    def plan(known, key, now):
        if key.name == "clock":
            times.append(now)
            return Plan(again_at=now + 60 * 10**9 if len(times) < 3 else None)
        return NOTHING_TO_DO

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("clock"), namespace="team")
        await bench.clock.sleep(300)
        assert [round((at - times[0]) / 10**9) for at in times] == [0, 60, 120]

    bench.run(body)


def test_what_may_wait_is_written_once_for_many_changes(bench):
    """Five changes within a second and their count: one write of the last count, a second after the first."""

    def plan(known, key, now):
        counted = known.of(ConfigMap).get("team", "count")
        if key.name != "count":
            return NOTHING_TO_DO
        wanted = counted.data["wanted"]
        if counted.data.get("written") == wanted:
            return NOTHING_TO_DO
        patch = Patch(
            kind=ConfigMap,
            name="count",
            namespace="team",
            body={"data": {"written": wanted}},
            uid=counted.metadata.uid,
            hurry=False,
        )
        return Plan(((patch,),))

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("count", wanted="0"), namespace="team")
        began = bench.clock.monotonic()
        for number in range(1, 6):
            await bench.clock.sleep(0.1)
            await bench.client.patch(ConfigMap, "count", {"data": {"wanted": str(number)}}, namespace="team")
        await bench.clock.sleep(5)
        assert (await bench.json(ConfigMap, "count"))["data"] == {"wanted": "5", "written": "5"}
        assert bench.executor.writes == {"patch ConfigMap": 1}
        assert began + PATIENCE_S < bench.clock.monotonic()

    bench.run(body)


def test_what_keeps_changing_is_written_ever_more_rarely_until_it_rests(bench):
    """A count that changes twice a second for 30 seconds: written after 1, 2, 4, 8 and 16 seconds, and once more at the end."""
    written = []

    def plan(known, key, now):
        counted = known.of(ConfigMap).get("team", "count")
        if key.name != "count" or counted.data.get("written") == counted.data["wanted"]:
            return NOTHING_TO_DO
        written.append(now)
        body = {"data": {"written": counted.data["wanted"]}}
        patch = Patch(kind=ConfigMap, name="count", namespace="team", body=body, uid=counted.metadata.uid, hurry=False)
        return Plan(((patch,),))

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("count", wanted="0"), namespace="team")
        for number in range(1, 61):
            await bench.clock.sleep(0.5)
            await bench.client.patch(ConfigMap, "count", {"data": {"wanted": str(number)}}, namespace="team")
        await bench.clock.sleep(20)
        assert (await bench.json(ConfigMap, "count"))["data"]["written"] == "60"
        assert bench.executor.writes["patch ConfigMap"] <= 6
        await bench.clock.sleep(60)
        before = bench.executor.writes["patch ConfigMap"]
        await bench.client.patch(ConfigMap, "count", {"data": {"wanted": "61"}}, namespace="team")
        await bench.clock.sleep(PATIENCE_S + 0.1)
        assert bench.executor.writes["patch ConfigMap"] == before + 1

    bench.run(body)


def test_what_may_wait_and_is_no_longer_wanted_is_not_written(bench):
    def plan(known, key, now):
        found = known.of(ConfigMap).get("team", "m")
        if key.name != "m" or found.data.get("state") != "odd":
            return NOTHING_TO_DO
        patch = Patch(
            kind=ConfigMap,
            name="m",
            namespace="team",
            body={"data": {"said": "odd"}},
            uid=found.metadata.uid,
            hurry=False,
        )
        return Plan(((patch,),))

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("m", state="odd"), namespace="team")
        await bench.clock.sleep(0.5)
        await bench.client.patch(ConfigMap, "m", {"data": {"state": "even"}}, namespace="team")
        await bench.clock.sleep(5)
        assert (await bench.json(ConfigMap, "m"))["data"] == {"state": "even"}

    bench.run(body)


def test_a_plan_that_breaks_is_tried_again_and_others_go_on(bench):
    tried = []

    def plan(known, key, now):
        if key.name == "broken":
            tried.append(now)
            raise ZeroDivisionError
        if key.name == "fine" and "seen" not in known.of(ConfigMap).get("team", "fine").data:
            return Plan(((Patch(kind=ConfigMap, name="fine", namespace="team", body={"data": {"seen": "yes"}}),),))
        return NOTHING_TO_DO

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("broken"), namespace="team")
        await bench.client.create(ConfigMap, a_map("fine"), namespace="team")
        await bench.clock.sleep(30)
        assert (await bench.json(ConfigMap, "fine"))["data"] == {"seen": "yes"}
        assert 3 < len(tried) < 20
        await bench.recorder.write(everything=True)
        (event,) = await bench.client.list_json(kinds.by_struct(CoreEvent), namespace="team")
        assert (event["reason"], event["involvedObject"]["name"]) == ("PlanFailed", "broken")
        assert "the test controller cannot plan it: ZeroDivisionError()" in event["message"]

    bench.run(body)


def test_an_object_that_cannot_be_read_wakes_nothing_and_the_others_are_served(bench):
    planned = []

    def keys(each):
        if each.metadata.name == "poison":
            raise ZeroDivisionError
        return itself(each)

    def plan(cache, key, now):
        planned.append(key.name)
        return NOTHING_TO_DO

    async def body(bench):
        controller = Controller("test", plan, (Wake(ConfigMap, keys),))
        driver = Driver(controller, bench.known, bench.executor, Runtime(clock=bench.clock, chance=random.Random(0)))
        bench.beside(driver.run())
        await bench.client.create(ConfigMap, a_map("poison"), namespace="team")
        await bench.client.create(ConfigMap, a_map("fine"), namespace="team")
        await bench.clock.sleep(5)
        assert set(planned) - {"kube-root-ca.crt"} == {"fine"}
        assert driver.retries["wake"] > 0

    bench.run(body)


def test_news_that_is_gathered_is_planned_once(bench):
    planned = []

    def plan(known, key, now):
        planned.append(key.name)
        return NOTHING_TO_DO

    async def body(bench):
        drive(bench, plan, gather_s=0.5)
        await bench.client.create(ConfigMap, a_map("m"), namespace="team")
        for number in range(8):
            await bench.client.patch(ConfigMap, "m", {"data": {"number": str(number)}}, namespace="team")
            await bench.clock.sleep(0.01)
        await bench.clock.sleep(5)
        assert planned.count("m") == 1

    bench.run(body)


@pytest.mark.parametrize("delay", [0.0, 0.3])
def test_what_was_there_before_the_loop_began_is_planned_too(bench, delay):
    planned = []

    def plan(known, key, now):
        planned.append(key.name)
        return NOTHING_TO_DO

    async def body(bench):
        await bench.client.create(ConfigMap, a_map("early"), namespace="team")
        await bench.clock.sleep(delay)
        drive(bench, plan)
        await bench.clock.sleep(2)
        assert "early" in planned

    bench.run(body)


def test_work_beside_the_loop_wakes_keys_and_ends_with_it(bench):
    planned, ended = [], []

    async def beside(wake):
        try:
            wake(Key("team", "asked"))
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    def plan(known, key, now):
        planned.append(key)
        return NOTHING_TO_DO

    async def body(bench):
        controller = Controller("test", plan, (Wake(ConfigMap, itself),), beside=beside)
        driver = Driver(controller, bench.known, bench.executor, Runtime(clock=bench.clock, chance=random.Random(0)))
        bench.beside(driver.run())
        await bench.clock.sleep(1)
        assert Key("team", "asked") in planned
        assert not ended

    bench.run(body)
    assert ended == [True]


def test_what_consecutive_plans_repeat_is_told_once_and_what_comes_back_is_told_again(bench):
    """Five changes: the word is said for all of them but the third."""

    def plan(known, key, now):
        found = known.of(ConfigMap).get("team", "m")
        if key.name != "m" or found.data["number"] == "2":
            return NOTHING_TO_DO
        return Plan(((Emit(found, "Warning", "Waits", "for better times"),),))

    async def body(bench):
        drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("m", number="0"), namespace="team")
        for number in range(1, 5):
            await bench.clock.sleep(1)
            await bench.client.patch(ConfigMap, "m", {"data": {"number": str(number)}}, namespace="team")
        await bench.clock.sleep(1)
        await bench.recorder.write(everything=True)
        (event,) = await bench.client.list_json(kinds.by_struct(CoreEvent), namespace="team")
        assert event["count"] == 2

    bench.run(body)


def test_looks_that_fail_are_counted_by_why_and_all_others_are_timed(bench):
    timed = []

    def plan(known, key, now):
        if key.name == "broken":
            raise ValueError("a bug")
        if key.name != "stale":
            return NOTHING_TO_DO
        patch = Patch(kind=ConfigMap, name="stale", namespace="team", body={"data": {"a": "b"}}, uid="another's")
        return Plan(((patch,),))

    async def body(bench):
        controller = Controller("test", plan, (Wake(ConfigMap, itself),))
        driver = Driver(
            controller,
            bench.known,
            bench.executor,
            Runtime(clock=bench.clock, chance=random.Random(0)),
            observe=lambda *seen: timed.append(seen),
        )
        bench.beside(driver.run())
        for name in ("fine", "broken", "stale"):
            await bench.client.create(ConfigMap, a_map(name), namespace="team")
        await bench.clock.sleep(1)
        assert driver.retries["stale"] >= 2
        assert driver.retries["plan"] >= 2
        assert {name for name, _ in timed} == {"test"}

    bench.run(body)


def test_nothing_is_kept_for_keys_that_are_at_rest(bench):
    """What may wait is wanted once, told once and written; after that nothing is left of the key, its pace neither."""

    def plan(known, key, now):
        found = known.of(ConfigMap).get("team", key.name)
        if found is None or found.data.get("written") or key.name != "count":
            return NOTHING_TO_DO
        fixed = {"kind": ConfigMap, "name": key.name, "namespace": "team", "uid": found.metadata.uid}
        patch = Patch(**fixed, body={"data": {"written": "yes"}}, hurry=False)
        return Plan(((Emit(found, "Normal", "Counting", "one"), patch),))

    async def body(bench):
        driver = drive(bench, plan)
        await bench.client.create(ConfigMap, a_map("count"), namespace="team")
        await bench.clock.sleep(PATIENCE_S / 2)
        assert driver.remembered() == 2  # the queue's timer, and what waits
        await bench.clock.sleep(4 * SWEEP_S)
        assert (driver.remembered(), driver.waiting, driver._paces) == (0, 0, {})

    bench.run(body)


class Laborious:
    """The bench's clock, with the time that plans take added to it: virtual time stands still while anybody computes."""

    def __init__(self, clock):
        self._clock = clock
        self.worked_s = 0.0

    def now(self):
        return self._clock.now()

    def monotonic(self):
        return self._clock.monotonic() + self.worked_s

    async def sleep(self, seconds):
        await self._clock.sleep(seconds)


@pytest.mark.parametrize(("took_s", "apart_s"), [(0.01, 50 * 0.01), (10.0, 10.0 + REST_S_MAX)])
def test_a_key_that_takes_long_to_plan_rests_for_longer_and_holds_up_nobody_else(bench, took_s, apart_s):
    planned = {"large": [], "small": []}

    def plan(known, key, now):
        if key.name in planned:
            planned[key.name].append(clock.monotonic())
            clock.worked_s += took_s if key.name == "large" else 0.0
        return NOTHING_TO_DO

    async def body(bench):
        nonlocal clock
        clock = Laborious(bench.clock)
        controller = Controller("test", plan, (Wake(ConfigMap, itself),), workers=1)
        driver = Driver(controller, bench.known, bench.executor, Runtime(clock=clock, chance=random.Random(0)))
        bench.beside(driver.run())
        for name in planned:
            await bench.client.create(ConfigMap, a_map(name), namespace="team")
        for number in range(40):
            for name in planned:
                body = {"data": {"a": str(number)}}
                await bench.client.patch(ConfigMap, name, body, namespace="team")
            await bench.clock.sleep(0.1)
        first, *gaps = (later - earlier for earlier, later in itertools.pairwise(planned["large"]))
        assert first < apart_s  # once may be by chance
        assert len(gaps) >= 2
        assert all(apart_s - TIMER_S <= gap < apart_s + 0.2 for gap in gaps)
        assert len(planned["small"]) >= 20

    clock = None
    bench.run(body)
