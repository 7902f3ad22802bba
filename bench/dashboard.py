"""What the dashboard costs with 1,000 nodes and 2,000 gangs: the real server over HTTP, the leader's stream from memory.

    python -m bench.dashboard [--nodes 5000]     CPU time of each page, and of each change with 40 pages open
    python -m bench.dashboard --browser          first byte and whole page in Chromium, by the clock; then from a Job in the API server to the changed page
    python -m bench.dashboard --hold 600         memory of the server with 100 pages open while the cluster changes

The goals are a first byte after 200 ms, a whole page after a second, and memory that does not grow. CPU time has the client in it, and others on the
machine do not disturb it; pages are sent whole, so the first byte comes when all of it is done. Times by the clock are the best of some, with the median.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import msgspec

from pumice import instant
from pumice.api.batch import Job
from pumice.cli.cluster_command import ClusterAccess
from pumice.cli.dashboard import serving
from pumice.clock import RealClock
from pumice.dashboard.people import LinkAuthentication, Person
from pumice.dashboard.server import Dashboard, Settings
from pumice.dashboard.source import Source
from pumice.errors import PumiceError
from pumice.kube import config
from pumice.kube.client import Client
from pumice.kube.http import HttpTransport
from pumice.local.apiserver.serving import Place
from pumice.local.nodes.pretend import pretend_nodes
from pumice.local.up import Up
from pumice.readmodel import changes, model
from pumice.runtime import silent
from pumice.scheduling.core.codes import Facts

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping


NODES, QUEUES, GPUS, RACK = 1_000, 20, 8, 50
ROUNDS = 7
WATCHERS, CHANGES = 40, 10
HELD_PAGES, CHANGE_S, SAMPLE_S = (
    100,
    2.0,
    10.0,
)  # pages that are held open, between changes, between looks at the memory
WARM_S = 60.0  # what is kept for the first time is no growth
PAGES = (
    "/",
    "/gangs",
    "/gangs?state=waiting&sort=size",
    "/nodes",
    "/nodes?in=rack-000",
    "/queues",
    "/timeline",
    "/timeline?by=node",
)
GPU = "nvidia.com/gpu"


def state(count: int = NODES, cycle: int = 1) -> model.State:
    """Twice as many gangs as nodes: half of them run, eight GPUs each; the other half waits."""
    now = RealClock().now()
    nodes = tuple(_node(number) for number in range(count))
    gangs = tuple(_gang(number, now, runs=number < count) for number in range(2 * count))
    each = str(count * GPUS // QUEUES)
    queues = tuple(
        model.Queue(f"queue-{n:02}", allocated={GPU: each}, entitled={GPU: each}, running=50, waiting=50)
        for n in range(QUEUES)
    )
    whole, half = {GPU: str(count * GPUS), "cpu": str(count * 64)}, {GPU: str(count * GPUS), "cpu": str(count * 32)}
    policy = model.Policy("bench", ("allocate",), ("gang",))
    at, totals = instant.format_instant(now), model.Totals(count, whole, half)
    return model.State(1, "bench", cycle, at, policy, totals, nodes=nodes, queues=queues, gangs=gangs)


def _node(number: int) -> model.Node:
    room, gang = {GPU: str(GPUS), "cpu": "64"}, f"team/gang-{number:05}"
    return model.Node(
        f"node-{number:04}", room, {GPU: "8", "cpu": "32"}, {GPU: "0", "cpu": "32"}, {gang: 8}, {gang: {GPU: "8"}},
        hyper_node=f"rack-{number // RACK:03}",
    )  # fmt: skip


def _gang(number: int, now: int, *, runs: bool) -> model.Gang:
    reason = model.Reason("Insufficient", "resources", f"Insufficient {GPU}", Facts(resource=GPU), NODES, "eviction")
    members = model.Members(8, 8, running=8) if runs else model.Members(8, 8, waiting=8)
    end = instant.format_instant(now + (number % 600 + 1) * instant.MINUTE) if runs else ""
    at = instant.format_instant(now)
    return model.Gang(
        key=f"team/gang-{number:05}", namespace="team", name=f"gang-{number:05}", queue=f"queue-{number % QUEUES:02}",
        phase="Running" if runs else "Inqueue", members=members, user=f"user-{number % 50}", created=at, since=at,
        position=0 if runs else number // QUEUES, asks={GPU: "8"}, holds={GPU: "8"} if runs else {}, reasons=() if runs else (reason,),
        expected=model.Expected("1h", "declared", end=end),
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


@contextlib.asynccontextmanager
async def served(told: model.State) -> AsyncIterator[tuple[str, Leader, Source]]:
    """The dashboard, its leader and its address."""
    clock, leader = RealClock(), Leader()
    source = Source(leader, clock)
    client = None
    dashboard = Dashboard(source, leader, leader, client, Door(), clock=clock, settings=Settings())  # type: ignore[arg-type]
    following = asyncio.create_task(source.run())
    url = f"http://127.0.0.1:{await dashboard.start()}"
    leader.news.put_nowait(told)
    await source.newer_than(0, within_s=60.0)
    try:
        yield url, leader, source
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        await dashboard.stop()


def changed(told: model.State, number: int) -> model.State:
    """One gang is different."""
    gangs = (msgspec.structs.replace(told.gangs[0], priority=number), *told.gangs[1:])
    return msgspec.structs.replace(told, gangs=gangs, cycle=told.cycle + number)


def _tell(**line: object) -> None:
    print(json.dumps(line), flush=True)


# ------------------------------------------------------------------------------------------------------ CPU time


async def measure(nodes: int) -> None:
    told = state(nodes)
    async with served(told) as (url, leader, source), _session(WATCHERS + 10) as session:
        for page in PAGES:
            await _page(session, url, page, nodes)
        await _watchers(session, url, source, leader, told)


def _session(connections: int) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=connections)
    return aiohttp.ClientSession(
        headers={"authorization": "Bearer bench"}, connector=connector, timeout=aiohttp.ClientTimeout(None)
    )


async def _page(session: aiohttp.ClientSession, url: str, page: str, nodes: int) -> None:
    used, size = [], 0
    for _ in range(ROUNDS):
        began = time.process_time()
        headers = {"authorization": f"Bearer reader of {page}"}  # one session may not ask as often as this
        async with session.get(url + page, headers=headers) as answer:
            size = len(await answer.read())
            assert answer.status == 200, await answer.text()
        used.append(time.process_time() - began)
    middle = round(sorted(used)[ROUNDS // 2], 4)
    _tell(bench=f"dashboard {page}", nodes=nodes, gangs=2 * nodes, cpu_s=middle, bytes=size, goal_s=0.2)


async def _watchers(
    session: aiohttp.ClientSession, url: str, source: Source, leader: Leader, told: model.State
) -> None:
    """Pages that follow: CPU time for a change of one gang."""
    seen = [0] * WATCHERS

    async def watch(number: int) -> None:
        query, headers = {"page": "/gangs", "seen": str(source.version)}, {"authorization": f"Bearer person-{number}"}
        async with session.get(f"{url}/live", params=query, headers=headers) as answer:
            async for line in answer.content:
                seen[number] += line.startswith(b"event: patch")

    tasks = [asyncio.create_task(watch(number)) for number in range(WATCHERS)]
    await asyncio.sleep(1.0)
    began, delays = time.process_time(), []
    for number in range(1, CHANGES + 1):
        at = time.monotonic()
        leader.news.put_nowait(changed(told, number))
        while min(seen) < number:
            assert not any(task.done() for task in tasks), "a page is not kept up to date"
            await asyncio.sleep(0.02)  # what the watchers saw comes in no event
        delays.append(time.monotonic() - at)
    used, late = (time.process_time() - began) / CHANGES, sorted(delays)[CHANGES // 2]
    _tell(bench="dashboard live", pages=WATCHERS, cpu_s=round(used, 4), last_page_s=round(late, 3), goal_s=1.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


# ------------------------------------------------------------------------------------------------------ in a browser


async def in_browser(nodes: int) -> None:
    """When the first byte came and when the page was complete, as Chromium saw it; server and browser share the machine."""
    from playwright.async_api import async_playwright

    async with served(state(nodes)) as (url, _, _), async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
        context = await browser.new_context(
            extra_http_headers={"authorization": "Bearer bench"}, viewport={"width": 1280, "height": 900}
        )
        page = await context.new_page()
        for each in PAGES:
            times = []
            for _ in range(ROUNDS):
                await page.goto(url + each, wait_until="load")
                await page.wait_for_function("performance.getEntriesByType('navigation')[0].loadEventEnd > 0")
                found = await page.evaluate(
                    "(({responseStart: a, loadEventEnd: b}) => [a, b])(performance.getEntriesByType('navigation')[0])"
                )
                times.append(found)
                await asyncio.sleep(0.5)  # a session may ask so often
            first, whole = (sorted(column) for column in zip(*times, strict=True))
            _tell(
                bench=f"dashboard in Chromium {each}", nodes=nodes, gangs=2 * nodes, first_byte_ms=round(first[0]),
                median_first_byte_ms=round(first[ROUNDS // 2]), complete_ms=round(whole[0]),
                median_complete_ms=round(whole[ROUNDS // 2]),
            )  # fmt: skip
        await browser.close()


LIVE_NODES, LIVE_JOBS = 20, 15


async def seen_live() -> None:
    """From the request that makes a Job to the page that shows it, and to the one that shows that it runs: all of it real, in one process but the browser."""
    from playwright.async_api import async_playwright

    link: list[str] = []
    clock = RealClock()
    with tempfile.TemporaryDirectory() as folder:
        async with (
            Up(Place(Path(folder)), pretend_nodes(LIVE_NODES, gpus=GPUS), log=silent) as cluster,
            HttpTransport(config.find(str(cluster.kubeconfig), clock=clock), user_agent="bench") as transport,
            async_playwright() as playwright,
        ):
            client = Client(transport, clock=clock, chance=random.Random(1))  # noqa: S311  jitter, not secrets
            access = ClusterAccess(client, config.find(str(cluster.kubeconfig), clock=clock), clock, "kube-system")
            authentication = LinkAuthentication(client, clock, name="bench", tell=link.append)
            async with serving(access, authentication, Settings()) as dashboard:
                authentication.renew()
                browser = await playwright.chromium.launch(executable_path=_chromium(), args=["--no-sandbox"])
                page = await browser.new_page()
                await page.goto(f"http://127.0.0.1:{dashboard.port}/sign-in#token={link[-1]}")
                await page.wait_for_url(f"http://127.0.0.1:{dashboard.port}/")
                await page.goto(f"http://127.0.0.1:{dashboard.port}/gangs")
                await page.locator("#connection:has-text('live')").wait_for()
                seen, runs = [], []
                for number in range(LIVE_JOBS):
                    name, began = f"job-{number}", time.monotonic()
                    await client.create(Job, _job(name), namespace="default")
                    row = page.locator(f"tr:has(a:text-is('{name}'))")
                    await row.wait_for()
                    seen.append(time.monotonic() - began)
                    await row.locator(".chip.running").wait_for()
                    runs.append(time.monotonic() - began)
                await browser.close()
    for what, times in (("a Job is seen", sorted(seen)), ("it is seen to run", sorted(runs))):
        median_s, most_s = round(times[len(times) // 2], 3), round(times[-1], 3)
        _tell(bench=f"dashboard live in Chromium, {what}", jobs=LIVE_JOBS, median_s=median_s, most_s=most_s, goal_s=1.0)


def _chromium() -> str | None:
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def _job(name: str) -> dict[str, object]:
    container = {"name": "c", "image": "i", "resources": {"limits": {GPU: "1"}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {
        "minAvailable": 2,
        "schedulerName": "volcano",
        "tasks": [{"name": "w", "replicas": 2, "template": template}],
    }
    return {"metadata": {"name": name}, "spec": spec}


# ------------------------------------------------------------------------------------------------------ memory


async def serve(nodes: int) -> None:
    """The server alone in its process, its cluster changing; ends with its standard input."""
    told = state(nodes)
    async with served(told) as (url, leader, _):
        _tell(url=url)
        ended = asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
        number = 0
        while not ended.done():
            number += 1
            leader.news.put_nowait(changed(told, number))
            await asyncio.sleep(CHANGE_S)


async def hold(nodes: int, seconds: float) -> None:
    """Memory of the server while pages are open, after a while and in the end."""
    command = (sys.executable, "-m", "bench.dashboard", "--serve", "--nodes", str(nodes))
    pipe = asyncio.subprocess.PIPE
    server = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert server.stdout is not None
    assert server.stdin is not None
    url = json.loads(await server.stdout.readline())["url"]
    patches, tasks = [0] * HELD_PAGES, []
    async with contextlib.AsyncExitStack() as stack:
        for number in range(HELD_PAGES):  # as many people as the limit of pages of one session asks for
            if number % 25 == 0:
                session = await stack.enter_async_context(_session(30))
                session.headers["authorization"] = f"Bearer person-{number}"
            tasks.append(asyncio.create_task(_held(session, url, PAGES[number % len(PAGES)], patches, number)))
        samples, began = [], time.monotonic()
        while (passed := time.monotonic() - began) < seconds:
            samples.append((passed, _resident_kb(server.pid)))
            await asyncio.sleep(min(SAMPLE_S, seconds - passed))
        samples.append((seconds, _resident_kb(server.pid)))
        warm = next((kb for at, kb in samples if at >= min(WARM_S, seconds / 2)), samples[0][1])
        _tell(
            bench="dashboard held", nodes=nodes, pages=HELD_PAGES, seconds=round(seconds), patches=sum(patches),
            fewest_patches=min(patches), first_mb=_mb(samples[0][1]), warm_mb=_mb(warm), last_mb=_mb(samples[-1][1]),
            most_mb=_mb(max(kb for _, kb in samples)), cpu_s=_cpu_s(server.pid),
        )  # fmt: skip
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    server.stdin.close()
    await server.wait()


async def _held(session: aiohttp.ClientSession, url: str, page: str, patches: list[int], number: int) -> None:
    while True:  # the server ends a stream after ten minutes, and a browser comes again
        async with session.get(f"{url}/live", params={"page": page, "seen": ""}) as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                patches[number] += line.startswith(b"event: patch")


def _resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


def _mb(kilobytes: int) -> float:
    return round(kilobytes / 1024, 1)


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return round((int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--browser", action="store_true", help="in Chromium")
    parser.add_argument("--hold", type=float, default=0.0, metavar="SECONDS", help="memory with pages held open")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        asyncio.run(serve(given.nodes))
    elif given.browser:
        asyncio.run(in_browser(given.nodes))
        asyncio.run(seen_live())
    elif given.hold:
        asyncio.run(hold(given.nodes, given.hold))
    else:
        asyncio.run(measure(given.nodes))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
