"""How long a page of the dashboard takes with 1,000 nodes and 2,000 gangs: the real server over HTTP, the leader's stream from memory.

The goal is a first byte after 200 ms. Measured is CPU time, client included, which others on the machine do not disturb; pages are sent whole, so
the first byte comes when all of it is done. Another line says what 40 pages that are kept up to date cost at each change.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from pumice import instant
from pumice.clock import RealClock
from pumice.dashboard.people import Person
from pumice.dashboard.server import Dashboard, Settings
from pumice.dashboard.source import Source
from pumice.errors import PumiceError
from pumice.readmodel import changes, model
from pumice.scheduling.core.codes import Facts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pumice.dashboard.source import Upstream

NODES, GANGS, QUEUES, GPUS = 1_000, 2_000, 20, 8
ROUNDS = 7
WATCHERS, CHANGES = 40, 10
PAGES = (
    "/",
    "/gangs",
    "/gangs?state=waiting&sort=size",
    "/nodes",
    "/nodes?in=node-0000+to+node-0049",
    "/queues",
    "/timeline",
)
GPU = "nvidia.com/gpu"


def state(cycle: int = 1) -> model.State:
    """Half of the gangs run, eight GPUs each; the other half waits."""
    now = instant.format_instant(RealClock().now())
    nodes = tuple(_node(number) for number in range(NODES))
    gangs = tuple(_gang(number, now) for number in range(GANGS))
    queues = tuple(
        model.Queue(f"queue-{n:02}", allocated={GPU: "400"}, entitled={GPU: "400"}, running=50, waiting=50)
        for n in range(QUEUES)
    )
    totals = model.Totals(NODES, {GPU: str(NODES * GPUS), "cpu": "64000"}, {GPU: str(NODES * GPUS), "cpu": "32000"})
    policy = model.Policy("bench", ("allocate",), ("gang",))
    return model.State(1, "bench", cycle, now, policy, totals, nodes=nodes, queues=queues, gangs=gangs)


def _node(number: int) -> model.Node:
    room, gang = {GPU: str(GPUS), "cpu": "64"}, f"team/gang-{number:05}"
    return model.Node(
        f"node-{number:04}", room, {GPU: "8", "cpu": "32"}, {GPU: "0", "cpu": "32"}, {gang: 8}, {gang: {GPU: "8"}}
    )


def _gang(number: int, now: str) -> model.Gang:
    runs = number < NODES
    reason = model.Reason("Insufficient", "resources", f"Insufficient {GPU}", Facts(resource=GPU), NODES, "eviction")
    members = model.Members(8, 8, running=8) if runs else model.Members(8, 8, waiting=8)
    return model.Gang(
        key=f"team/gang-{number:05}", namespace="team", name=f"gang-{number:05}", queue=f"queue-{number % QUEUES:02}",
        phase="Running" if runs else "Inqueue", members=members, user=f"user-{number % 50}", created=now, since=now,
        position=0 if runs else number // QUEUES, asks={GPU: "8"}, holds={GPU: "8"} if runs else {}, reasons=() if runs else (reason,),
    )  # fmt: skip


class Leader:
    """Tells the view, then changes as they are given."""

    def __init__(self) -> None:
        self.news: asyncio.Queue[model.State] = asyncio.Queue()

    async def ask(self, question: tuple[str, Mapping[str, str]]) -> bytes:
        raise PumiceError(f"nobody answers {question[0]}")

    async def lines(self, question: tuple[str, Mapping[str, str]]) -> AsyncGenerator[bytes, None]:
        del question
        former = None
        while True:
            told = await self.news.get()
            yield msgspec.json.encode(changes.between(former, told))
            former = told


class Door:
    """Lets everybody see everything."""

    takes_tokens = True

    async def enter(self, secret: str) -> Person:
        async def may(verb: str, what: Mapping[str, str]) -> bool:
            return bool(verb and what)

        return Person(secret, may, RealClock())


async def measure() -> None:
    clock, leader = RealClock(), Leader()
    source = Source(leader, clock)
    upstream: Upstream = leader
    client = None
    served = Dashboard(source, upstream, upstream, client, Door(), clock=clock, settings=Settings())  # type: ignore[arg-type]
    following = asyncio.create_task(source.run())
    url = f"http://127.0.0.1:{await served.start()}"
    told = state()
    leader.news.put_nowait(told)
    await source.newer_than(0, within_s=60.0)
    headers = {"authorization": "Bearer bench"}
    connector = aiohttp.TCPConnector(limit=WATCHERS + 10)
    async with aiohttp.ClientSession(headers=headers, connector=connector) as session:
        for page in PAGES:
            await _page(session, url, page)
        await _watchers(session, url, source, leader, told)
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await served.stop()


async def _page(session: aiohttp.ClientSession, url: str, page: str) -> None:
    used, size = [], 0
    for _ in range(ROUNDS):
        began = time.process_time()
        async with session.get(url + page) as answer:
            size = len(await answer.read())
            assert answer.status == 200, await answer.text()
        used.append(time.process_time() - began)
    line = {"bench": f"dashboard {page}", "nodes": NODES, "gangs": GANGS, "cpu_s": round(sorted(used)[ROUNDS // 2], 4)}
    print(json.dumps({**line, "bytes": size, "goal_s": 0.2}), flush=True)


async def _watchers(
    session: aiohttp.ClientSession, url: str, source: Source, leader: Leader, told: model.State
) -> None:
    """Pages that follow: CPU time for a change of one gang, and how much memory is more at the end than after the first change."""
    seen = [0] * WATCHERS

    async def watch(number: int) -> None:
        async with session.get(f"{url}/live", params={"page": "/gangs", "seen": str(source.version)}) as answer:
            async for line in answer.content:
                seen[number] += line.startswith(b"event: patch")

    tasks = [asyncio.create_task(watch(number)) for number in range(WATCHERS)]
    await asyncio.sleep(1.0)
    began, first = time.process_time(), 0
    for number in range(1, CHANGES + 1):
        gangs = (msgspec.structs.replace(told.gangs[0], priority=number), *told.gangs[1:])
        leader.news.put_nowait(msgspec.structs.replace(told, gangs=gangs, cycle=told.cycle + number))
        while min(seen) < number:  # noqa: ASYNC110  what the watchers saw comes in no event
            await asyncio.sleep(0.02)
        first = first or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - first
    line = {"bench": "dashboard live", "pages": WATCHERS, "cpu_s": round((time.process_time() - began) / CHANGES, 4)}
    print(json.dumps({**line, "grown_kb": grown}), flush=True)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def main() -> int:
    asyncio.run(measure())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
