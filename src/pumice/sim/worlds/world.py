"""One world: everything put together, played to its end, and looked at all the while."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import gc
import hashlib
import random
from typing import TYPE_CHECKING

import msgspec

from pumice.api import names
from pumice.clock import VirtualClock
from pumice.kube import errors
from pumice.local.nodes.pretend import pretend_nodes
from pumice.processes.scheduler import SWEEP_S, Served
from pumice.sim.worlds import admission, ending, mishaps, policies, records, replicas, users
from pumice.sim.worlds.apiserver import START, ApiServer
from pumice.sim.worlds.loop import Replica, State, WorldLoop
from pumice.sim.worlds.network import Network
from pumice.sim.worlds.plans import Plans
from pumice.sim.worlds.story import GPUS
from pumice.sim.worlds.witness import Witness
from pumice.values import Value

if TYPE_CHECKING:
    import collections
    from collections.abc import Callable, Coroutine, Iterator
    from pathlib import Path
    from typing import Any

    from pumice.kube.transport import Request
    from pumice.local.apiserver.history import Change
    from pumice.processes.scheduler import Scheduler
    from pumice.sim.worlds.replicas import Machine
    from pumice.sim.worlds.story import Story

GRACE_S = 5  # a gang in part is released after so long: shorter than in production, so that worlds are short
REST_S_MAX = 600.0  # after the faults everything that fits has ended within so long
LOOK_S = 2.0
SETTLE_S = 5.0  # numbers that change late are written late
STOP_S_MAX = 20.0  # Kubernetes kills what has not ended 30 s after it was told to
ENDS_MAX = 20
QUIET_RENEWAL_S = 5.0  # where no lease can be lost, it is renewed more rarely: renewals are a seventh of all calls
_MEMORY_LOST = frozenset({"memory_not_written", "memory_conflict", "memory_not_read"})  # as the scheduler logs it
RESTART_S_MAX = 3.0  # a process that ended is started again within so long


class Verdict(Value):
    """What became of a world: what was wrong, if anything, and the digest of all that happened."""

    wrong: tuple[str, ...]
    digest: str
    seconds: float
    faults: collections.Counter[str]
    points: frozenset[str]  # fail points that were passed
    log: tuple[str, ...] = ()


def play(story: Story, *, keeps_log: bool = False) -> Verdict:
    """The same story ends the same way, byte for byte."""
    clock = VirtualClock(START)
    loop = WorldLoop(clock, random.Random(f"{story.seed}/threads"))  # noqa: S311  chance is what worlds are made of
    asyncio.set_event_loop(loop)
    is_collecting = gc.isenabled()
    gc.disable()  # a task that is collected in the middle would run its `finally` then
    ending_up = contextlib.ExitStack()
    record = ending_up.enter_context(records.kept()) if story.has_record else None
    world = World(story, clock, loop, record, keeps_log=keeps_log)
    try:
        loop.run_until_complete(world.run())
        return world.verdict()
    finally:
        world.end()
        ending_up.close()
        asyncio.set_event_loop(None)
        loop.close()
        gc.unfreeze()  # what a scheduler froze at its start
        if is_collecting:
            gc.enable()


class World:
    """The parts of one world; mishaps reach into it."""

    def __init__(
        self, story: Story, clock: VirtualClock, loop: WorldLoop, record: Path | None, *, keeps_log: bool
    ) -> None:
        self.story = story
        self._record = record
        self.clock = clock
        self.loop = loop
        self.chance = random.Random(f"{story.seed}/world")  # noqa: S311  as above
        self.witness = Witness(clock, GRACE_S)
        self.witness.ledger.hears_at_once = not (story.rates.lag or story.rates.dropped or story.rates.watch_s)
        self.witness.is_quiet = story.is_quiet
        self.witness.crons.calls_arrive = not story.rates.late
        self.server = ApiServer(clock, random.Random(f"{story.seed}/server"), self._settled)  # noqa: S311  as above
        self.network = Network(self.server, story.rates, self.note)
        self.network.on_send, self.network.on_yes = self._sent, self._heard
        self.points: set[str] = set()
        self.armed: dict[str, int] = {}  # fail points at which a process dies, and after how many passes
        self.stops: dict[str, Callable[[str], None]] = {}  # those at which it is stopped for a while
        self._digest = hashlib.blake2b(digest_size=16)
        self._log: list[str] | None = [] if keeps_log else None
        self.machines: dict[str, Machine] = {}
        self._mains: dict[str, Callable[[Machine], Coroutine[Any, Any, None]]] = {}  # what each of them runs
        self._replicas: list[Replica] = []
        self._conflicted: set[str] = set()  # who met another's writes to its memory: it leaves the last word to them
        self.is_calm = False
        facts = pretend_nodes(story.nodes, gpus=GPUS)
        self.nodes = {
            each.name: msgspec.structs.replace(each, annotations={names.NODE_AGENT: "world"}) for each in facts
        }
        self.user = self._machine("user", is_shaken=False)
        self.client = self.user.client()

    # ------------------------------------------------------------------------------------------------- the log

    def note(self, text: str) -> None:
        """Everything that happens leaves a line; their digest is the world's."""
        line = f"{self.clock.monotonic():.6f} {text}"
        self._digest.update(line.encode())
        if self._log is not None:
            self._log.append(line)

    def _settled(self, change: Change) -> None:
        entry = change.after or change.before
        assert entry is not None
        body = change.after.body if change.after is not None else change.last
        self._digest.update(body)
        what = "put" if change.after is not None else "gone"
        self.note(f"{what} {change.collection} {entry.namespace}/{entry.name} v{change.version}")
        self.witness.see(change)

    def verdict(self) -> Verdict:
        return Verdict(
            tuple(self.witness.wrong),
            self._digest.hexdigest(),
            self.clock.monotonic(),
            self.network.done,
            frozenset(self.points),
            tuple(self._log or ()),
        )

    # ------------------------------------------------------------------------------------------------- processes

    def _machine(self, name: str, *, is_shaken: bool) -> Machine:
        def fail_point(point: str) -> None:
            self._pass(name, point)

        def log(event: str, /, **facts: object) -> None:
            if event in _MEMORY_LOST:
                self.witness.ledger.is_whole = False
            if event == "memory_conflict":
                self._conflicted.add(self.machines[name].identity)
            if self._log is not None:
                self.note(f"{name}: {event} {facts}")

        made = replicas.machine(
            name, self.network, self.clock, str(self.story.seed), is_shaken=is_shaken, fail_point=fail_point, log=log
        )
        if self.story.is_quiet:
            made.renews_s = QUIET_RENEWAL_S
        self.machines[name] = made
        return made

    def _pass(self, name: str, point: str) -> None:
        point = f"{name.partition('-')[0]}:{point.partition(' ')[0]}"
        self.points.add(point)
        stop = self.stops.pop(point, None)
        if stop is not None:
            stop(name)
        left = self.armed.get(point)
        if left is None:
            return
        if left > 0:
            self.armed[point] = left - 1
            return
        del self.armed[point]
        self.network.done[f"killed at {point}"] += 1
        self.kill(name)
        # The step that was to come does not happen: a dead process does not go on to its next await.
        raise _Killed(point)

    def launch(self, name: str, main: Callable[[Machine], Coroutine[Any, Any, None]]) -> None:
        """Starts a process, and again whenever it has ended."""
        own = self.machines[name]
        self._mains[name] = main
        own.lives += 1
        own.worker = None
        replica = own.replica = Replica(own.identity)
        self._replicas.append(replica)
        self.note(f"start {own.identity}")
        task = own.main = self.loop.start(replica, main(own))

        def again() -> None:
            if own.replica is replica and not self.witness.is_over:
                self.launch(name, main)

        def ended(_: object) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None and not isinstance(error, errors.KubeError) and not self.witness.is_over:
                self.witness.wrong.append(f"{own.identity} ended with {error!r}")
            self.note(f"end {own.identity} {type(error).__name__}")
            self.witness.ledger.is_whole &= error is None  # it had no time to write, or no right to
            replica.die()
            own.restart()

        def restart() -> None:
            """Not in the context of whoever dies at this moment: it would die with it."""
            delay_s = self.chance.uniform(0.2, RESTART_S_MAX)
            self.loop.call_later(delay_s, again, context=contextvars.Context())

        own.restart = restart
        task.add_done_callback(ended)

    def kill(self, name: str) -> None:
        """As `kill -9` does; somebody starts it again."""
        own = self.machines[name]
        if own.replica.state is State.DEAD:
            return
        self.note(f"kill {own.identity}")
        self.witness.ledger.is_whole = False
        own.replica.die()
        own.restart()

    def stop(self, name: str) -> None:
        """SIGTERM: it ends in its own time, and gives its lease back."""
        main = self.machines[name].main
        if main is not None:
            self.note(f"stop {name}")
            main.cancel()

    def _sent(self, who: str, request: Request) -> None:
        if who.startswith(replicas.SCHEDULER):
            self.witness.sent(self.machines[who].identity, request)

    def _heard(self, who: str, request: Request) -> None:
        if who.startswith(replicas.SCHEDULER):
            self.witness.answered(self.machines[who].identity, request)

    # ------------------------------------------------------------------------------------------------- life

    async def run(self) -> None:
        if self.story.has_webhooks:
            webhooks = self._machine(replicas.WEBHOOKS, is_shaken=True)
            self.server.dispatch = admission.dispatch(webhooks, self.loop, self.witness.complain)
        await self.server.start()
        self._populate()
        await users.furnish(self.client, self.story, self._controllers_names())
        pending = [self.loop.create_task(_later(at_s, what)) for at_s, what in _planned(self)]
        await asyncio.sleep(self.story.faults_s)
        await self._calm()
        await asyncio.gather(*pending)
        await users.end_crons(self)
        await self._come_to_rest()
        rests = ending.is_at_rest(self.witness, self.story.nodes)  # gangs that take turns never do
        if self.story.starts_again and await self.network.let_all_arrive():
            await asyncio.sleep(SETTLE_S)
        await self._shut_down()
        if self.story.starts_again and rests and not self.witness.wrong:
            await self._start_again()

    def _populate(self) -> None:
        chosen = policies.chosen(self.story.policy)
        place = replicas.memory_place()
        self._machine("nodes", is_shaken=False)
        hardware = {"has_devices": self.story.has_devices, "has_volumes": self.story.has_volumes}
        self.launch("nodes", lambda own: replicas.nodes(own, list(self.nodes.values()), **hardware))
        for number in range(self.story.schedulers):
            self._machine(f"scheduler-{number}", is_shaken=True)
            flight = Plans(self.witness)
            served = Served(grace_s=GRACE_S, memory_place=place, flight=flight, meters=replicas.UNREAD)
            self.launch(f"scheduler-{number}", functools.partial(replicas.scheduler, policy=chosen, served=served))
        for number in range(self.story.controllers):
            self._machine(f"controllers-{number}", is_shaken=True)
            self.launch(f"controllers-{number}", self._controllers)
        if self.story.has_webhooks:
            self.launch(replicas.WEBHOOKS, lambda own: admission.serve(own, self._controllers_names()))

    def _controllers_names(self) -> tuple[str, ...]:
        return tuple(f"{replicas.CONTROLLERS}-{number}" for number in range(self.story.controllers))

    def _controllers(self, own: Machine) -> Coroutine[Any, Any, None]:
        record_url = records.url(self._record) if self._record is not None else ""
        more = replicas.FLOW_CONTROLLERS if self.story.flow else frozenset()
        more |= replicas.CRON_CONTROLLERS if self.story.cron is not None else frozenset()
        return replicas.controllers(own, more, record_url=record_url)

    async def _calm(self) -> None:
        """The faults are over: whatever is broken is mended, whoever sleeps wakes."""
        self.note("calm")
        self.is_calm = True
        self.armed.clear()
        self.stops.clear()
        self.network.calm()
        await mishaps.mend_all(self)
        self.witness.calm()

    async def _come_to_rest(self) -> None:
        until = self.clock.monotonic() + REST_S_MAX
        while self.clock.monotonic() < until:
            await asyncio.sleep(LOOK_S)
            if ending.is_at_rest(self.witness, self.story.nodes) and self._is_led():
                await asyncio.sleep(SETTLE_S)
                if self._is_led():  # a lease that was on its way when the faults stopped may still end
                    break
        complaints = _complaints(self)
        if complaints:  # what no news brings about is put right when everything is looked at again
            await asyncio.sleep(SWEEP_S + SETTLE_S)
            complaints = _complaints(self)
        for text in complaints:
            self.witness.complain(text)

    async def _shut_down(self) -> None:
        """Everybody is told to stop, and whoever leads leaves behind all that its successor has to know."""
        leader, mains = self.leader(), {}
        own = [
            each for each in self.machines.values() if each.name.startswith((replicas.SCHEDULER, replicas.CONTROLLERS))
        ]
        for each in own:
            each.restart = lambda: None
            if each.main is not None and each.replica.state is State.RUNNING:
                mains[each.main] = each.identity
                self.stop(each.name)
        _, late = await asyncio.wait(mains, timeout=STOP_S_MAX)
        for task in late:
            self.witness.complain(f"{mains[task]} was told to stop, and still runs after {STOP_S_MAX:g} s")
        if leader is not None and self._conflicted.isdisjoint(each.identity for each in own if each.worker is leader):
            for text in ending.lost_memory(leader, self.server.journal.bodies, replicas.memory_place()):
                self.witness.complain(text)
        for text in records.gaps(self._record, self.witness) if self._record is not None else ():
            self.witness.complain(text)

    async def _start_again(self) -> None:
        """Who starts afresh knows what those knew who stopped, and finds everything done: nobody writes anything."""
        self.witness.is_still = True
        for name in (f"{replicas.SCHEDULER}-0", f"{replicas.CONTROLLERS}-0"):
            self.launch(name, self._mains[name])
        until = self.clock.monotonic() + REST_S_MAX
        while self.leader() is None and self.clock.monotonic() < until:  # noqa: ASYNC110  virtual seconds
            await asyncio.sleep(LOOK_S)
        await asyncio.sleep(SETTLE_S)
        if self.leader() is None:
            self.witness.complain("nobody leads long after everything was started afresh")

    def _is_led(self) -> bool:
        """Also by controllers, where only they can write down what their predecessors left unwritten."""
        keeps_record = self._record is None or _worker(self, replicas.CONTROLLERS_LEASE) is not None
        return self.leader() is not None and keeps_record

    def leader(self) -> Scheduler | None:
        found = _worker(self, replicas.SCHEDULER_LEASE)
        return found if found is not None and found.pulse.ready else None

    def end(self) -> None:
        """Everything is cancelled, the dead too, so that nothing of it runs later."""
        self.witness.is_over = True
        self.network.is_over = True
        for _ in range(ENDS_MAX):
            tasks = self.loop.unfinished()
            if not tasks:
                return
            for task in tasks:
                task.cancel()
            for replica in self._replicas:
                replica.rise(self.loop)
            self.loop.run_until_complete(asyncio.wait(tasks, timeout=60.0))
        raise AssertionError(f"tasks of the world do not end: {self.loop.unfinished()}")


class _Killed(BaseException):
    """Raised where a process dies between two steps; nobody in it lives to see it."""


async def _later(at_s: float, what: Coroutine[Any, Any, None]) -> None:
    await asyncio.sleep(at_s)
    await what


def _planned(world: World) -> Iterator[tuple[float, Coroutine[Any, Any, None]]]:
    """What users do and what befalls the world, and when."""
    client, story = world.client, world.story
    yield from ((each.at_s, users.submit(client, each)) for each in story.jobs)
    if story.flow:
        yield story.flow[0].at_s, users.submit_flow(client, story.flow, goes=story.flow_goes)
    if story.cron is not None:
        yield story.cron.at_s, users.submit_cron(client, story.cron)
    yield from ((each.at_s, mishaps.befall(world, each)) for each in story.mishaps)


def _worker(world: World, lease: str) -> Any:
    """What works in the process that holds the lease."""
    leader = world.witness.leaders.of(lease).identity
    return next((each.worker for each in world.machines.values() if each.identity == leader), None)


def _complaints(world: World) -> list[str]:
    """All that is wrong with the end."""
    leader = world.leader()
    times = (each.clock.now() for each in world.machines.values() if leader is not None and each.worker is leader)
    return list(
        ending.complaints(
            world.witness,
            world.server.journal.bodies,
            leader,
            nodes=world.story.nodes,
            now=next(times, world.clock.now()),  # by its own clock, as all that it remembers
            grace_s=GRACE_S,
            policy=policies.chosen(world.story.policy),
        )
    )
