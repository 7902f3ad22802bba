"""Who writes next."""

import asyncio

import pytest

from pumice.controllers.window import Lane, Window


async def let_all_run():
    for _ in range(10):
        await asyncio.sleep(0)


class Line:
    """Writers of a window of one; each holds its slot until it is told to end."""

    def __init__(self, slots=1):
        self.window = Window(slots)
        self.began = []
        self.ends = {}
        self.tasks = {}

    async def come(self, name, rank, lane=None):
        self.ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._write(name, rank, lane or Lane(9)))
        await let_all_run()

    async def _write(self, name, rank, lane):
        async with self.window.turn(rank, lane):
            self.began.append(name)
            await self.ends[name].wait()

    async def end(self, name):
        self.ends[name].set()
        await let_all_run()


def test_the_lowest_rank_goes_first_and_of_equal_ones_who_came_first():
    async def body():
        line = Line()
        for name, rank in (("now", (0, 0)), ("c", (1, 2)), ("b1", (1, 1)), ("b2", (1, 1)), ("a", (0, 9))):
            await line.come(name, rank)
        for name in ("now", "a", "b1", "b2", "c"):
            assert line.began[-1] == name
            await line.end(name)
        assert line.began == ["now", "a", "b1", "b2", "c"]

    asyncio.run(body())


def test_as_many_as_there_are_slots_write_at_once():
    async def body():
        line = Line(slots=2)
        for name in "abc":
            await line.come(name, (0, 0))
        assert line.began == ["a", "b"]
        for name in "abc":
            await line.end(name)
        await line.come("d", (0, 0))
        await line.come("e", (0, 0))
        assert line.began == ["a", "b", "c", "d", "e"]
        for name in "de":
            await line.end(name)

    asyncio.run(body())


def test_a_lane_that_is_full_keeps_its_rank_and_no_slot():
    async def body():
        line, lane = Line(slots=2), Lane(1)
        for name in ("a1", "a2"):
            await line.come(name, (0, 0), lane)
        await line.come("b", (0, 1))
        await line.come("c", (0, 2))
        assert line.began == ["a1", "b"]
        await line.end("a1")
        assert line.began == ["a1", "b", "a2"]  # before c, which came with a higher rank
        for name in ("a2", "b", "c"):
            await line.end(name)
        assert line.began == ["a1", "b", "a2", "c"]

    asyncio.run(body())


@pytest.mark.parametrize("given", [False, True])
def test_who_is_called_off_while_it_waits_takes_no_slot_with_it(given):
    async def body():
        line = Line()
        await line.come("a", (0, 0))
        await line.come("b", (0, 0))
        if given:  # it is called off after it was given the slot, and before it could begin
            line.ends["a"].set()
            while not line.tasks["a"].done():  # noqa: ASYNC110  an event would let b begin first
                await asyncio.sleep(0)
            assert line.began == ["a"]
        line.tasks["b"].cancel()
        await let_all_run()
        await line.come("c", (0, 0))
        await line.end("a")
        assert line.began == ["a", "c"]
        await line.end("c")

    asyncio.run(body())
