"""The real engine run ahead under virtual time, over a cluster of its own: no API server, no clock, no chance.

    ahead = Forward(intake, policy, now=now, run_time=lambda gang: 10 * instant.MINUTE)
    ahead.submit(now + instant.HOUR, lambda: [group, *pods])
    for step in ahead.run(until=now + instant.DAY):
        print(step.at, step.started, step.ended)

Time jumps from event to event: a gang arrives, a gang ends, a victim has left, or the clock alone may change a decision
(`Decisions.next_change`). All events of one instant (with `blur`, of a span that is so small a part of the time since the beginning) are
taken in together, then there is one cycle, and what it decides takes effect at once: bound pods run from that moment. Where gangs only end
and nobody waits, a cycle would decide nothing: there is none, or, where a plugin remembers what was held until when, one that only learns. With
`direct`, gangs that come while nobody waits start without one. With a `rhythm`, what happens while somebody waits is gathered for so long. The simulator (`pumice.sim`)
puts arrivals in and true run times, the forecast a live cluster and what is expected of it. The cluster behind `intake` is changed: hand in
a copy of one that is still needed.
"""

from __future__ import annotations

import copy
import heapq
from typing import TYPE_CHECKING, TypeAlias

from pumice import instant
from pumice.api.changes import Claimed, Deleted, Unclaimed, Upserted
from pumice.api.scheduling import PodGroup, PodGroupPhase
from pumice.cluster import edits
from pumice.cluster.tasks import OCCUPYING
from pumice.scheduling import plugins
from pumice.scheduling.core import cycle
from pumice.scheduling.core.decisions import Decisions
from pumice.scheduling.core.memory import EMPTY
from pumice.scheduling.core.session import UNLIMITED_BUDGET
from pumice.scheduling.core.shortcuts import Shortcuts
from pumice.scheduling.evicting import backoff
from pumice.scheduling.time import reservations, run_objects
from pumice.scheduling.time.backlog import Ask, Asking, Backlog
from pumice.scheduling.time.passage import Passage
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from pumice.api.pods import Pod
    from pumice.cluster.intake import Intake
    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.decisions import GangCommit
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Ports
    from pumice.scheduling.time.backlog import Objects
    from pumice.scheduling.time.direct_starts import DirectStarts, Started

RunTime: TypeAlias = "Callable[[str], Duration | None]"  # of a gang that starts now; None: it does not end by itself

LEAVING = 30 * instant.SECOND  # a victim holds its room for so long: Kubernetes' own grace period
BLURRED_LEAST = 5 * instant.MINUTE  # what happens at once is blurred as if it lay so far ahead
NOTHING_DECIDED = Decisions()
HOLDS_NOBODY = Backlog(0, 0, may_pass=False)  # no gang is small enough for it
_EVICTS_UNASKED = "shuffle"  # the one action that does something although nobody waits
CYCLES_AT_ONCE_MAX = 100  # in which the clock stands still; a plugin that always names the past ends here


class Arrival(Value):
    """Objects that come to be: a group and its pods, or a node that joins. They are made then: a month of them would fill the memory."""

    objects: Objects
    ask: Ask | None = None


class End(Value):
    """A gang's run is over; void where it was restarted meanwhile (`run` counts its starts)."""

    gang: str
    run: int


class Departure(Value):
    """Victims have left their nodes."""

    gang: str
    pods: tuple[Pod, ...]


Event: TypeAlias = Arrival | End | Departure


class Step(Value):
    """One instant: which gangs ended, and what the cycle decided. `restarted` gangs lost a needed member, and wait again."""

    at: Instant
    ended: tuple[str, ...]
    restarted: tuple[str, ...]
    started: tuple[str, ...]
    decisions: Decisions
    direct: tuple[Started, ...] = ()  # of those that started: without a cycle


class Rhythm(Value):
    """While somebody waits, the instants at which they are looked at are at least so far apart."""

    length: Duration = 0
    last: Instant | None = None

    def next(self, now: Instant) -> Instant:
        return now if self.last is None else max(now, self.last + self.length)


class Forward:
    """A cluster, the policy in force, the memory between cycles, and what is going to happen."""

    def __init__(  # noqa: PLR0913  what a cycle depends on, and what happens between cycles
        self,
        intake: Intake,
        policy: Policy,
        memory: Memory = EMPTY,
        *,
        now: Instant,
        run_time: RunTime,
        leaving: Duration = LEAVING,
        blur: float = 0.0,
        rhythm: Duration = 0,
        backs_off: bool = True,
        budget: int = UNLIMITED_BUDGET,
        ports: Ports | None = None,
        extra_plugins: Mapping[str, type[Plugin]] = cycle.NO_PLUGINS,
        backlog: Backlog | None = None,
        direct: DirectStarts | None = None,
    ) -> None:
        self.intake = intake
        self.cluster = intake.cluster
        self.policy = policy
        self.memory = memory
        self.now = now
        self.running: set[str] = set()  # gangs
        self.cycles = 0
        self._run_time = run_time
        self._leaving = leaving
        self._blur = blur
        self._rhythm = Rhythm(rhythm)
        self._backs_off = backs_off  # from evictions that came to nothing, as a live scheduler does to save work; else each cycle tries all
        self._budget = budget
        self._forgets_backoffs = not backs_off and budget == UNLIMITED_BUDGET
        self._begin = now
        self._ports = ports
        self._extra_plugins = extra_plugins
        self._backlog = HOLDS_NOBODY if backlog is None else backlog  # of gangs that arrive with an ask
        self._passage = Passage(intake, self._backlog, direct)  # of the same
        self._events: list[tuple[Instant, int, Event]] = []
        self._order = 0  # events of one instant happen in the order in which they were foreseen
        self._starts: dict[str, int] = {}
        self._done: list[str] = []  # gangs whose pods have ended, and have been seen so by no cycle yet
        self._seen: list[str] = []  # ... and by one: they are about to go
        self._looks_again = False  # after the last event, as gangs that have ended directly would go
        self._waiting = {key for key, slot in self.cluster.gangs.items() if run_objects.waits(slot)}
        own = [plugin.memory for plugin in plugins.of_policy(policy, extra_plugins)]
        # Whether a cycle in which nobody waits leaves no trace: no plugin remembers what was held until when.
        self._may_rest = all(slot is None or slot is reservations.SLOT for slot in own)
        self._wake: Instant | None = now  # there is a cycle then, events or not
        self._stood_still = 0

    def submit(self, at: Instant, objects: Objects, ask: Ask | None = None) -> None:
        """Objects that arrive together at a moment that has not passed; those of a gang with an ask may be held back."""
        self._foresee(at, Arrival(objects, ask))

    def is_running(self, gang: str, *, until: Instant | None) -> None:
        """A gang that runs already, and when it is going to end."""
        self.running.add(gang)
        self._passage.starts(gang)
        self._starts[gang] = self._starts.get(gang, 0) + 1
        if until is not None:
            self._foresee(max(until, self.now), End(gang, self._starts[gang]))

    def fork(self, policy: Policy, run_time: RunTime) -> Forward:
        """Another future from this moment on, under a policy and with run times of its own."""
        assert self._backlog is HOLDS_NOBODY, "whom a run holds back, its twin would not see"
        assert self._passage.direct is None, "nor those that it starts without a cycle"
        twin, intake = copy.copy(self), self.intake.copy()
        own = {name: value.copy() for name, value in vars(self).items() if isinstance(value, dict | set | list)}
        vars(twin).update(own, intake=intake, cluster=intake.cluster, policy=policy, _run_time=run_time)
        return twin

    def run(self, until: Instant) -> Iterator[Step]:
        """One step after the other, up to and including `until`; may be called again with a later time."""
        self._note_waiting()
        while (at := self._next()) is not None and at <= until:
            blurred = round((at - self._begin + BLURRED_LEAST) * self._blur)
            at = min(_last_within(blurred, at, self._events) if blurred else at, until)
            self._stood_still = self._stood_still + 1 if at == self.now else 0
            self.now = at
            yield self._step()
        self.now = max(self.now, until)

    # ------------------------------------------------------------------------------------------------- time

    def _foresee(self, at: Instant, event: Event) -> None:
        assert at >= self.now, f"an event at {at} has passed, it is {self.now}"
        self._order += 1
        heapq.heappush(self._events, (at, self._order, event))

    def _next(self) -> Instant | None:
        is_to_look = self._done or self._seen or self._looks_again
        times = [self._events[0][0]] if self._events else [self._rhythm.next(self.now)] if is_to_look else []
        if self._wake is not None and self._stood_still < CYCLES_AT_ONCE_MAX:
            times.append(max(self._wake, self.now))
        return min(times, default=None)

    def _step(self) -> Step:
        self._looks_again = False
        while self._seen:
            for thing in run_objects.objects_of(self.cluster.gangs[self._seen.pop()]):
                self.intake.apply(Deleted(object=thing))
        ended, restarted, asking, is_news = self._take_events()
        direct, asking = self._start_directly(asking, is_news=is_news)
        started = [each.ask.gang for each in direct or ()]
        if direct is not None and self._passage.is_open:
            self._seen, self._done = self._done, []
            self._looks_again = bool(ended) and self._passage.waits
            return Step(self.now, ended, restarted, tuple(started), NOTHING_DECIDED, direct)
        for ask, objects in asking:
            is_news |= self._arrive(ask, objects)
        is_news |= self._hand_over(self._backlog.due())
        if is_news:
            self._note_waiting()
        is_idle = not is_news and self._is_idle()
        if is_early := bool(self._waiting) and self._rhythm.next(self.now) > self.now:
            self._wake = self._rhythm.next(self.now)  # what has happened is seen then
        if is_early or (is_idle and self._may_rest):
            return Step(self.now, ended, restarted, tuple(started), NOTHING_DECIDED, direct or ())
        passed_over = self._backlog.passed_over()
        decisions = self._plan(idle=is_idle and _EVICTS_UNASKED not in self.policy.actions, passed_over=passed_over)
        if not self._backlog.is_reserved_ahead(decisions.memory):
            self._hand_over(self._backlog.all())
            self._note_waiting()
            decisions = self._plan(idle=False)
        self.cycles += 1
        self._passage.has_cycle()
        self._rhythm = Rhythm(self._rhythm.length, self.now)
        self._seen, self._done = self._done, []
        self.memory = decisions.memory if self._backs_off else decisions.memory.without(backoff.SLOT)
        self._wake = decisions.next_change
        started += self._carry_out(decisions)
        self._note_waiting()
        self._looks_again = bool(ended) and bool(self._waiting)
        return Step(self.now, ended, restarted, tuple(started), decisions, direct or ())

    def _plan(self, *, idle: bool, passed_over: Collection[str] = ()) -> Decisions:
        return cycle.plan(
            self.cluster.snapshot(),
            self.policy,
            self.memory,
            now=self.now,
            ports=self._ports,
            extra_plugins=self._extra_plugins,
            budget=self._budget,
            explain=False,
            idle=idle,
            shortcuts=Shortcuts(passed_over, forgets_backoffs=self._forgets_backoffs),
        )

    def _take_events(self) -> tuple[tuple[str, ...], tuple[str, ...], list[Asking], bool]:
        """Gangs that ended by now, those that begin again, those that come with an ask, and whether there is more than these."""
        ended, restarted, asking, is_news = list[str](), list[str](), list[Asking](), False
        while self._events and self._events[0][0] <= self.now:
            match heapq.heappop(self._events)[2]:
                case Arrival(objects, None):
                    is_news |= self._hand_over([objects])
                case Arrival(objects, Ask() as ask):
                    asking.append((ask, objects))
                case End(gang, run) if self._starts.get(gang) == run and gang in self.running:
                    self._end(gang)
                    ended.append(gang)
                case Departure(gang, pods):
                    is_news = True
                    if self._depart(gang, pods):
                        restarted.append(gang)
        return tuple(ended), tuple(restarted), asking, is_news

    def _arrive(self, ask: Ask, objects: Objects) -> bool:
        """Whether there has to be a cycle for it: not where it is held back, unless there are reservations, which each cycle looks at again."""
        self._passage.comes(ask, objects)
        return self._backlog.may_pass if self._backlog.add(ask, objects) else self._hand_over([objects])

    def _hand_over(self, arrivals: Sequence[Objects]) -> bool:
        for objects in arrivals:
            for thing in objects():
                self.intake.apply(Upserted(object=thing))
        return bool(arrivals)

    def _start_directly(
        self, asking: list[Asking], *, is_news: bool
    ) -> tuple[tuple[Started, ...] | None, list[Asking]]:
        """Gangs that start without a cycle, None where there has to be one; and those that have to arrive for it."""
        passage, started, due = self._passage, None, self._rhythm.next(self.now)
        if due > self.now and passage.has_rhythm and not is_news:
            passage.gather(asking, self.now)
            self._wake = due
            return (), []
        standing = [] if is_news or due > self.now else passage.that_may_wait(self._waiting)
        is_last = not (self._events or passage.waits or standing)
        is_quiet = not (self._waiting or len(self._backlog)) and self._wake is None
        if not (is_news or is_last) and (passage.is_open or standing or is_quiet):
            started = passage.start(asking, self.now, self.memory, standing)
        if standing:
            self._note_waiting()
        if started is None:
            return None, [*self._end_direct(), *asking]
        for each in started:
            self._runs(each.ask.gang)
        self._wake = passage.next_change
        if passage.has_rhythm:
            self._rhythm = Rhythm(self._rhythm.length, self.now)
        return tuple(started), [] if self._events or passage.waits else self._end_direct()

    def _end_direct(self) -> list[Asking]:
        """The cluster learns of gangs that started without a cycle, and the memory of what plugins learned; those that have not started are to arrive."""
        waiting, learned = self._passage.come_back(self.now)
        self.memory, _ = self.memory.after(learned)
        return waiting

    def _is_idle(self) -> bool:
        """Whether a cycle now would decide nothing: nobody waits, and the clock has nothing to say. After the last event, one sees what has ended."""
        is_due = not self._events or (self._wake is not None and self._wake <= self.now)
        return not is_due and not self._waiting

    def _note_waiting(self) -> None:
        """Before and after every cycle, whose snapshot forgets which gangs have changed; in between, gangs only end."""
        for key in self.cluster.changed_gangs:
            slot = self.cluster.gangs.get(key)
            waits = slot is not None and run_objects.waits(slot)
            (self._waiting.add if waits else self._waiting.discard)(key)

    # ------------------------------------------------------------------------------------------------- what takes effect

    def _carry_out(self, decisions: Decisions) -> list[str]:
        for gang in decisions.unclaims:
            self.intake.apply(Unclaimed(gang=gang))
        started = [commit.gang for commit in decisions.commits if self._commit(commit)]
        for gang, tasks in run_objects.leaving(decisions).items():
            self._evict(gang, tasks)
        for pod in run_objects.changed_pods(decisions):
            self.intake.apply(Upserted(object=pod))
        for claim in decisions.claims:
            self.intake.apply(Claimed(claim=claim))
        if decisions.ungated:
            self._wake = self.now
        for key, report in decisions.gangs.items():
            self._set_phase(key, report.phase)
        for gang in started:  # a live cluster's next cycle, a second later, would say so; here it may be hours away
            self._set_phase(gang, PodGroupPhase.RUNNING.value)
        return started

    def _commit(self, commit: GangCommit) -> bool:
        """Binds the gang's pods, which run from now on; True where the gang starts by it."""
        self.intake.get_on(
            run_objects.bound([(run_objects.annotated(each), each.node) for each in commit.binds], self.now)
        )
        self._backlog.placed(commit.gang, len(commit.binds))
        if commit.gang in self.running or not run_objects.is_whole(self.cluster.gangs[commit.gang]):
            return False
        self._runs(commit.gang)
        return True

    def _runs(self, gang: str) -> None:
        run_time = self._run_time(gang)
        self.is_running(gang, until=None if run_time is None else self.now + run_time)

    def _evict(self, gang: str, tasks: Sequence[Task]) -> None:
        for task in tasks:
            self.intake.apply(Upserted(object=edits.leaving(task.pod, self.now + self._leaving)))
        self._foresee(self.now + self._leaving, Departure(gang, tuple(task.pod for task in tasks)))

    def _end(self, gang: str) -> None:
        """Its pods have succeeded; one cycle sees that, and may learn from it, before they are gone."""
        self.running.discard(gang)
        if self._passage.ended(gang):
            return  # the cluster does not know it
        self._waiting.discard(gang)
        self._done.append(gang)
        self._backlog.ended(gang)
        tasks = self.cluster.gangs[gang].tasks.values()
        self._passage.ends(gang)
        self.intake.get_on(run_objects.succeeded(tasks, self.now))
        self._set_phase(gang, PodGroupPhase.COMPLETED.value)  # or admission would go on counting it

    def _depart(self, gang: str, pods: Sequence[Pod]) -> bool:
        """Victims are gone, and made anew; where the gang has too few without them, all of it begins again. True for that."""
        slot = self.cluster.gangs.get(gang)
        if slot is None or gang in self._done or gang in self._seen:
            return False  # it ended while they left
        leaving = {pod.metadata.uid for pod in pods}
        left = [task for task in slot.tasks.values() if task.status in OCCUPYING and task.uid not in leaving]
        restarts = gang in self.running and len(left) < run_objects.minimum(slot)
        gone = [task.pod for task in left] if restarts else []
        run = self._starts[gang] = self._starts.get(gang, 0) + restarts
        for pod in (*pods, *gone):
            self.intake.apply(Deleted(object=pod))
            self.intake.apply(Upserted(object=edits.made_anew(pod, f"{pod.metadata.name}-{run}-{self.cycles}")))
        if restarts:
            self.running.discard(gang)
            self._set_phase(gang, PodGroupPhase.PENDING.value)
        return restarts

    def _set_phase(self, gang: str, phase: str) -> None:
        slot = self.cluster.gangs.get(gang)
        group = slot.group if slot is not None else None
        if isinstance(group, PodGroup) and group.status.phase != phase:
            self.intake.apply(Upserted(object=run_objects.in_phase(group, phase)))


def _last_within(span: Duration, at: Instant, events: Iterable[tuple[Instant, int, Event]]) -> Instant:
    """When the last event is that lies no further than this after a moment; the moment itself where there is none."""
    return max([at, *(when for when, *_ in events if when <= at + span)])
