import asyncio

import pytest

from pumice import instant
from pumice.clock import Deadlock, RealClock, VirtualClock

NOON = instant.parse_instant("2026-11-15T12:00:00Z")


def test_a_month_passes_at_once_and_in_order():
    clock = VirtualClock(NOON)
    story = []

    async def sleeper(name, seconds):
        for _ in range(3):
            await clock.sleep(seconds)
            story.append((name, clock.monotonic()))

    async def main():
        await asyncio.gather(sleeper("day", 86_400), sleeper("week", 7 * 86_400))

    clock.run(main())
    assert story == [
        ("day", 86_400),
        ("day", 2 * 86_400),
        ("day", 3 * 86_400),
        ("week", 7 * 86_400),
        ("week", 14 * 86_400),
        ("week", 21 * 86_400),
    ]
    assert instant.format_instant(clock.now()) == "2026-12-06T12:00:00Z"


def test_timeouts_and_timers_of_asyncio_run_on_virtual_time_too():
    clock = VirtualClock()

    async def main():
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(3_600, fired.set)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60):
                await fired.wait()
        assert clock.monotonic() == 60
        await fired.wait()
        return clock.monotonic()

    assert clock.run(main()) == 3_600


def test_time_stands_still_while_somebody_can_work():
    clock = VirtualClock()

    async def main():
        waiting = asyncio.create_task(clock.sleep(1))
        for _ in range(1_000):
            await asyncio.sleep(0)
        assert clock.monotonic() == 0
        await waiting

    clock.run(main())
    assert clock.monotonic() == 1


def test_a_world_in_which_nothing_can_happen_any_more_ends_with_an_error():
    async def main():
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock, match="everyone waits, and no timer is set"):
        VirtualClock().run(main())


async def test_the_real_clock_moves_forward_by_itself():
    clock = RealClock()
    before, before_s = clock.now(), clock.monotonic()
    await clock.sleep(0.001)
    assert clock.now() > before
    assert clock.monotonic() >= before_s + 0.001
