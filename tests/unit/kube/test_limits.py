import asyncio

from pumice.clock import VirtualClock
from pumice.kube.limits import Limits, TokenBucket


def test_a_burst_goes_at_once_and_what_follows_at_the_rate():
    clock = VirtualClock()
    left_at = []

    async def main():
        limits = Limits(clock, calls_per_s=10, burst=3, in_flight=100)

        async def call():
            async with limits:
                left_at.append(round(clock.monotonic(), 3))

        await asyncio.gather(*(call() for _ in range(6)))

    clock.run(main())
    assert left_at == [0, 0, 0, 0.1, 0.2, 0.3]


def test_a_bucket_saves_up_no_more_than_its_burst():
    clock = VirtualClock()

    async def main():
        bucket = TokenBucket(rate=1, burst=2, monotonic=clock.monotonic)
        await clock.sleep(3_600)
        return [bucket.try_take() for _ in range(3)]

    assert clock.run(main()) == [True, True, False]


def test_no_more_calls_are_in_flight_than_allowed():
    clock = VirtualClock()
    in_flight, most = 0, 0

    async def main():
        limits = Limits(clock, in_flight=4)

        async def call():
            nonlocal in_flight, most
            async with limits:
                in_flight += 1
                most = max(most, in_flight)
                await clock.sleep(1)
                in_flight -= 1

        await asyncio.gather(*(call() for _ in range(12)))

    clock.run(main())
    assert most == 4
    assert clock.monotonic() == 3


def test_a_call_that_is_cancelled_while_it_waits_gives_its_place_back():
    clock = VirtualClock()

    async def main():
        limits = Limits(clock, in_flight=1, calls_per_s=1, burst=1)
        async with limits:
            pass

        async def call():
            async with limits:
                raise AssertionError

        waiting = asyncio.create_task(call())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        async with asyncio.timeout(10), limits:
            return True

    assert clock.run(main())
