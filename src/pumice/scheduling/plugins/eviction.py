"""eviction: evictions that people can live with.

Who has only just started, or was evicted before, is left alone for a while; who waits does so for a while before others have to go;
a queue loses so many gangs an hour and no more; victims may be told beforehand; and of equal victims those go that lose the least work.
Whatever the arguments, a plan whose victims would win their room back by the same rule is not carried out.

All of it holds whichever tier chooses the victims. A policy without this plugin evicts as Volcano does.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from pumice import instant
from pumice.api import names, run_time
from pumice.cluster.tasks import EVICTABLE, OCCUPYING, Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Code, Facts
from pumice.scheduling.core.memory import Slot
from pumice.scheduling.core.plugin import Books, Plugin, SilentBooks
from pumice.scheduling.core.points import Bound
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.evicting import history, reversal
from pumice.scheduling.evicting.lost_work import LostWork
from pumice.scheduling.placing import annotation_values, members
from pumice.scheduling.sharing.queue_tree import queue_tree

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.tasks import Task
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import EvictionKind
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.evicting.victim_columns import VictimColumns, View

NAME = "eviction"
NOTICE_MAX = instant.HOUR  # so long may a gang hold room that was promised to another one
NOTES_MAX = 2_000  # gangs that are told why nobody leaves for them, about 150 bytes each
_UNLIMITED = 2**62

Count = Annotated[int, msgspec.Meta(ge=0)]


class Args(arguments.Args, frozen=True, kw_only=True):
    """Durations such as 90s or 1h30m; what is absent does not hold. A Queue's `pumice.dev/min-runtime` wins over the policy's."""

    min_runtime: Annotated[
        str | None,
        msgspec.Meta(description="a gang that has run for less is left alone, but for members beyond its minimum"),
    ] = msgspec.field(name="min-runtime", default=None)
    delay: Annotated[
        str | None, msgspec.Meta(description="how long a gang's pods wait before others have to go for them")
    ] = msgspec.field(name="preemption-delay", default=None)
    notice: Annotated[
        str | None,
        msgspec.Meta(description="how long victims that ask for a checkpoint signal may go on once told; at most 1h"),
    ] = None
    cool_down: Annotated[
        str | None, msgspec.Meta(description="a gang that was evicted is left alone for so long after its next start")
    ] = msgspec.field(name="cool-down", default=None)
    per_hour: Annotated[
        Count | None, msgspec.Meta(description="how often gangs of one queue may lose members within an hour")
    ] = msgspec.field(name="evictions-per-hour", default=None)
    lost_work_order: Annotated[
        bool, msgspec.Meta(description="of victims of one queue and priority, those first that lose the least work")
    ] = msgspec.field(name="lost-work-order", default=True)

    def __post_init__(self) -> None:
        for name, text in (
            ("min-runtime", self.min_runtime),
            ("preemption-delay", self.delay),
            ("cool-down", self.cool_down),
        ):
            if text is not None:
                arguments.duration(name, text)
        if self.notice is not None and arguments.duration("notice", self.notice) > NOTICE_MAX:
            raise ValueError(
                f"notice: {self.notice} is longer than an hour; room that was promised must not stand so long"
            )


class Note(msgspec.Struct, frozen=True, array_like=True):
    """What a gang was told when victims were last looked for: whose protection ends first, and when."""

    until: int
    gang: str = ""
    queue: str = ""  # instead: the one whose budget is used up

    def reason(self, per_hour: int | None) -> Reason:
        until = instant.format_instant(self.until)
        if self.gang:
            return _waits(Code.VICTIMS_PROTECTED, Facts(gang=self.gang, until=until))
        return _waits(Code.EVICTION_BUDGET_USED, Facts(queue=self.queue, until=until, limit=per_hour))


class Notes(msgspec.Struct, frozen=True):
    """By gang, of those that wait: a gang whose turn is skipped because nothing can have changed still says why it waits."""

    notes: dict[str, Note] = {}


class EvictionPlugin(Plugin):
    """Protects victims, holds claimants back, orders victims, and objects to plans that would be undone."""

    essential = True
    stays_open = True
    args_type = Args
    memory = Slot("eviction-notes", Notes)

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.min_runtime = _duration(args.min_runtime)
        self.delay = _duration(args.delay)
        self.grace = _duration(args.notice)
        self.cool_down = _duration(args.cool_down)
        self.per_hour = args.per_hour
        self.by_lost_work = args.lost_work_order

    def open(self, session: Session) -> None:
        self.session = session
        self.changes: list[Instant] = []  # when the clock alone may let somebody evict
        self.asked: set[str] = set()  # claimants for which victims were looked for
        self.notes: dict[str, Note] = {}
        self.protected: dict[str, Instant | None] = {}  # by gang
        self.leaving: dict[str, dict[str, int]] = {}  # by queue and gang: how many pods this cycle evicts, or tries to
        self.is_reversed = False  # a plan is being looked at from its victims' side
        on = session.on
        if self.runtimes or self.cool_down or self.per_hour is not None:
            # The bound has everybody: who is passed over unasked would not be told whose protection it waits for.
            for notes, point in ((dict[str, Note](), each) for each in (on.preemptable, on.reclaimable)):
                shield = functools.partial(self._shield, notes)
                said = functools.partial(self._say, notes)
                point.shield(shield, Bound(_nothing, _everybody, doubtful=True, as_said_to=said))
            on.evictable.shield(self.of_gangs)
            on.shuffled.guard(lambda candidates: self.not_protected("", candidates))
        if self.by_lost_work:
            on.victim_order(lambda gang: gang.priority)
            on.victim_order(session.shared(LostWork).of)
        if self.delay:
            on.patience(self.waits_still)
        if self.grace:
            on.notice(self.notice)
        if self.per_hour is not None:
            on.moved(self.moved)
        on.objection(self.objection)
        on.close(self.close)

    def open_books(self, session: Session) -> Books:
        """While gangs wait, it has something to say where victims are protected, or claimants have to be patient."""
        del session
        speaks = self.delay or self.runtimes or self.cool_down or self.per_hour is not None
        return Books() if speaks else SilentBooks()

    # ------------------------------------------------------------------------------------------------- victims

    def of_gangs(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        del kind
        return self.not_protected(claimant.key, candidates)

    def _shield(self, notes: dict[str, Note], claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """What is said of one action's victims is kept beside: it is said to equal claimants as well."""
        before = self.notes.pop(claimant.gang, None)
        found = self.not_protected(claimant.gang, candidates)
        if (said := self.notes.pop(claimant.gang, None)) is not None:
            self._keep(notes, claimant.gang, said)
        for note in (before, said):
            if note is not None:
                self._keep(self.notes, claimant.gang, note)
        return found

    def _say(self, notes: dict[str, Note], claimant: str, other: str) -> None:
        self.asked.add(claimant)
        if (said := notes.get(other)) is not None:
            self._keep(notes, claimant, said)
            self._note(claimant, said)

    def not_protected(self, claimant: str, candidates: Sequence[Task]) -> Sequence[Task]:
        """Those that may go, in the given order; of a gang that is left alone, those that it can spare."""
        if self.is_reversed:
            return candidates
        self.asked.add(claimant)
        gangs, left = self.session.gangs, dict[str, int]()
        budgets: dict[str, int] = {}
        chosen = []
        for task in candidates:
            if task.gang not in left:
                gang = gangs.get(task.gang)
                left[task.gang] = _UNLIMITED if gang is None else self._may_lose(gang, claimant, budgets)
            if left[task.gang] > 0:
                left[task.gang] -= 1
                chosen.append(task)
        return chosen

    def _may_lose(self, gang: GangState, claimant: str, budgets: dict[str, int]) -> int:
        """How many members; `budgets` is how many more gangs of each queue may lose any."""
        if gang.key == claimant:
            return _UNLIMITED  # a member goes for a better one
        if self.per_hour is not None and gang.key not in self.leaving.get(gang.queue, {}):
            left = budgets.get(gang.queue)
            left = self._budget(gang.queue) if left is None else left
            if left <= 0:
                self._note(claimant, Note(self._budget_grows(gang.queue), queue=gang.queue))
                return 0
            budgets[gang.queue] = left - 1
        until = self.protected_until(gang)
        if until is None:
            return _UNLIMITED
        self._note(claimant, Note(until, gang.key))
        return max(gang.tally.ready - gang.minimum, 0)

    def protected_until(self, gang: GangState) -> Instant | None:
        """Until when the gang is left alone; None where it need not be."""
        if gang.key not in self.protected:
            until = self._protection(gang)
            self.protected[gang.key] = until if until is not None and until > self.session.now else None
        return self.protected[gang.key]

    def _protection(self, gang: GangState) -> Instant | None:
        length = self.runtimes.get(gang.queue, 0)
        if self.cool_down and gang.key in self.session.memory.of(history.SLOT).last:
            length = max(length, self.cool_down)
        if not length:
            return None
        starts = (run_time.start_time(task.pod) for task in gang.tasks if task.status in OCCUPYING)
        recorded = run_time.run_of(gang.spec.annotations).started
        started = run_time.started_at(starts, gang.minimum, recorded)
        return None if started is None else started + length

    @functools.cached_property
    def runtimes(self) -> dict[str, Duration]:
        """By queue: its own annotation, else that of the nearest queue above it, else the policy's."""
        queues = self.session.queues
        if not any(names.MIN_RUNTIME in queue.annotations for queue in queues.values()):
            return dict.fromkeys(queues, self.min_runtime) if self.min_runtime else {}
        tree = queue_tree(queues)
        found = {}
        for name in queues:
            own = (_min_runtime(queues[each].annotations) for each in tree.paths[name] if each in queues)
            found[name] = next((length for length in own if length is not None), self.min_runtime)
        return found

    # ------------------------------------------------------------------------------------------------- the budget

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        """Counts evictions: only those concern pods that were on a node before this cycle."""
        del shape, nodes
        own = self.leaving.setdefault(gang.queue, {})
        for task in tasks:
            if task.status in EVICTABLE:
                own[gang.key] = own.get(gang.key, 0) - sign
                if not own[gang.key]:
                    del own[gang.key]

    def _budget(self, queue: str) -> int:
        assert self.per_hour is not None
        return self.per_hour - len(self.past.get(queue, ())) - len(self.leaving.get(queue, ()))

    @functools.cached_property
    def past(self) -> dict[str, list[Instant]]:
        """When gangs of each queue lost members within the last hour."""
        found: dict[str, list[Instant]] = {}
        for entry in history.recent(self.session):
            found.setdefault(entry.queue, []).append(entry.at)
        return found

    def _budget_grows(self, queue: str) -> Instant:
        """When the oldest of its last hour's evictions no longer counts; where it is used up by this cycle, an hour from now."""
        return min(self.past.get(queue, ()), default=self.session.now) + history.WINDOW

    # ------------------------------------------------------------------------------------------------- claimants

    def waits_still(self, gang: GangState) -> Reason | None:
        """How long its pods have waited counts, not the group: one that was evicted waits anew."""
        waiting = (annotation_values.instant_of(task.created) for task in gang.tasks_in(Status.PENDING))
        since = min((at for at in waiting if at is not None), default=None)
        if since is None or self.session.now >= since + self.delay:
            return None
        self.changes.append(since + self.delay)
        facts = Facts(until=instant.format_instant(since + self.delay), seconds=self.delay // instant.SECOND)
        return _waits(Code.EVICTION_DELAYED, facts)

    def notice(self, gang: GangState) -> Duration:
        """Only who has asked for a signal can make use of the time."""
        asks = any(names.CHECKPOINT_SIGNAL in task.pod.metadata.annotations for task in gang.tasks)
        return self.grace if asks else 0

    def objection(self, gang: GangState, statement: Statement) -> Reason | None:
        self.is_reversed = True
        winner = reversal.who_wins_back(self.session, gang, statement)
        self.is_reversed = False
        return None if winner is None else _waits(Code.EVICTION_UNDONE, Facts(gang=winner.key))

    # ------------------------------------------------------------------------------------------------- what is told

    def _note(self, claimant: str, note: Note) -> None:
        """The soonest end counts: then something may be different for the claimant."""
        if not claimant:
            self.changes.append(note.until)
            return
        self._keep(self.notes, claimant, note)
        self.session.retry_at[claimant] = min(note.until, self.session.retry_at.get(claimant, note.until))

    @staticmethod
    def _keep(notes: dict[str, Note], claimant: str, note: Note) -> None:
        known = notes.get(claimant)
        if known is None or note.until < known.until:
            notes[claimant] = note

    def close(self) -> None:
        for key, note in self._standing().items():
            members.refuse(self.session.gangs[key], note.reason(self.per_hour))

    def _standing(self) -> dict[str, Note]:
        """Notes of gangs that wait and that nobody leaves for: this cycle's, and those of gangs whose turn was skipped."""
        session = self.session
        earlier = session.memory.of(self.memory).notes
        skipped = {key: note for key, note in earlier.items() if key not in self.asked and note.until > session.now}
        return {
            key: note
            for key, note in sorted({**skipped, **self.notes}.items())
            if (gang := session.gangs.get(key)) is not None
            and gang.tally[Status.PENDING]
            and key not in session.made_room_for
        }

    def learn(self, session: Session) -> Notes:
        del session
        standing = self._standing()
        return Notes(dict(list(standing.items())[:NOTES_MAX]))

    def next_change(self, session: Session) -> Instant | None:
        ends = [*self.changes, *(note.until for note in self._standing().values())]
        return min((end for end in ends if end > session.now), default=None)


def _nothing(claimant: Task, columns: VictimColumns) -> None:
    del claimant, columns


def _everybody(key: None, view: View) -> Mask:
    del key
    return np.ones(len(view), dtype=bool)


def _waits(code: Code, facts: Facts) -> Reason:
    return Reason(code, NAME, facts, cure=Cure.WAITING)


def _duration(text: str | None) -> Duration:
    return 0 if text is None else instant.parse_duration(text)


def _min_runtime(annotations: Mapping[str, str]) -> Duration | None:
    """A queue's own; 0s is none at all, and what cannot be read is as if it were absent."""
    try:
        length = instant.parse_duration(annotations[names.MIN_RUNTIME])
    except (KeyError, instant.DurationError):
        return None
    return max(length, 0)
