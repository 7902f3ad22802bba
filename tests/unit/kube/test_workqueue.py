import asyncio
import contextlib
import random

import pytest

from pumice.clock import VirtualClock
from pumice.kube import workqueue
from pumice.kube.workqueue import WorkQueue, WorkQueueFull


def run(script, handle, *, seconds=1_000.0, workers=4):
    """Lets `script(queue)` act on a queue with workers, and gives the failures that were told, over `seconds` of virtual time."""
    clock = VirtualClock()
    failures = []

    async def main():
        queue = WorkQueue(random.Random(0))

        async def handling(key):
            await handle(key, queue, clock)

        await script(queue, clock)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await queue.run(
                    handling,
                    failed=lambda key, error, delay: failures.append((key, str(error), delay)),
                    workers=workers,
                )

    clock.run(main())
    return failures


def test_a_key_that_is_added_many_times_before_its_turn_is_handled_once():
    handled = []

    async def script(queue, _clock):
        for key in ("a", "b", "a", "a"):
            queue.add(key)
        assert len(queue) == 2

    async def handle(key, _queue, _clock):
        handled.append(key)

    run(script, handle)
    assert handled == ["a", "b"]


def test_a_key_that_is_added_while_it_is_at_work_is_handled_again_afterwards_never_twice_at_once():
    at_work = 0
    spans = []

    async def script(queue, _clock):
        queue.add("a")

    async def handle(key, queue, clock):
        nonlocal at_work
        at_work += 1
        assert at_work == 1
        began = clock.monotonic()
        if not spans:
            queue.add(key)
            queue.add(key)
        await clock.sleep(5)
        at_work -= 1
        spans.append((began, clock.monotonic()))

    run(script, handle)
    assert spans == [(0, 5), (5, 10)]


def test_a_failing_key_comes_back_with_growing_delays_up_to_the_limit_and_others_are_not_held_up():
    handled = []

    async def script(queue, _clock):
        queue.add("bad")
        queue.add("good")

    async def handle(key, _queue, clock):
        handled.append((key, clock.monotonic()))
        if key == "bad":
            raise ValueError("broken")

    failures = run(script, handle, seconds=600, workers=1)
    assert ("good", 0) in handled
    delays = [delay for _, _, delay in failures]
    assert failures[0][:2] == ("bad", "broken")
    for nth, delay in enumerate(delays):
        least = min(workqueue.RETRY_S_MAX, workqueue.RETRY_S_FIRST * 2**nth)
        assert least <= delay <= least * 1.25
    assert delays[-1] >= workqueue.RETRY_S_MAX


def test_a_success_forgets_the_failures_before_it():
    outcomes = iter([ValueError("no"), ValueError("no"), None, ValueError("no"), None])

    async def script(queue, clock):
        queue.add("a")
        asyncio.get_running_loop().call_later(100, queue.add, "a")

    async def handle(_key, _queue, _clock):
        if (outcome := next(outcomes)) is not None:
            raise outcome

    failures = run(script, handle)
    assert [delay < 2 * workqueue.RETRY_S_FIRST for _, _, delay in failures] == [True, False, True]


def test_a_delayed_key_waits_for_its_time_and_an_earlier_request_wins():
    handled = []

    async def script(queue, _clock):
        queue.add_after("late", 50)
        queue.add_after("late", 20)
        queue.add_after("late", 90)
        queue.add_after("hurried", 50)
        queue.add("hurried")

    async def handle(key, _queue, clock):
        handled.append((key, clock.monotonic()))

    run(script, handle)
    assert handled == [("hurried", 0), ("late", 20)]


def test_more_keys_than_a_cluster_has_objects_are_refused(monkeypatch):
    monkeypatch.setattr(workqueue, "KEYS_MAX", 2)

    async def main():
        queue = WorkQueue(random.Random(0))
        for key in ("a", "b", "a"):
            queue.add(key)
        with pytest.raises(WorkQueueFull, match="more than 2 keys wait, the last one 'c'"):
            queue.add("c")

    asyncio.run(main())


def test_cancelling_ends_all_workers():
    async def main():
        queue = WorkQueue(random.Random(0))
        queue.add("a")
        started = asyncio.Event()

        async def handle(_key):
            started.set()
            await asyncio.get_running_loop().create_future()

        running = asyncio.create_task(queue.run(handle, failed=lambda *_: None))
        await started.wait()
        running.cancel()
        await asyncio.wait({running})
        return running.cancelled()

    assert asyncio.run(main())
