"""A gang inside a session: the snapshot's gang, and over it what this session has tentatively decided."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.tasks import OCCUPYING, Status
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.gangs import Closeness, Gang, SubGang
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.verdict import FitError, Reason

_BOUND, _BINDING, _RUNNING, _ALLOCATED = Status.BOUND, Status.BINDING, Status.RUNNING, Status.ALLOCATED
_SUCCEEDED, _PIPELINED, _PENDING = Status.SUCCEEDED, Status.PIPELINED, Status.PENDING
_NOT_ADMITTED = frozenset({"", PodGroupPhase.PENDING.value})
_NOBODY = (0,) * len(Status)


class Tally:
    """Members of a gang, of a sub gang or of a role, counted by status."""

    __slots__ = ("counts", "waiting_best_effort")

    def __init__(
        self, tasks: Iterable[Task] = (), counts: Sequence[int] = _NOBODY, waiting_best_effort: int = 0
    ) -> None:
        self.counts = list(counts)
        self.waiting_best_effort = waiting_best_effort
        for task in tasks:
            self.count(task, task.status, 1)

    def count(self, task: Task, status: Status, sign: int) -> None:
        self.counts[status] += sign
        if status is Status.PENDING and task.is_best_effort:
            self.waiting_best_effort += sign

    def shift(self, task: Task, former: Status, status: Status, number: int) -> None:
        """Count so many members like this one under another status."""
        self.count(task, former, -number)
        self.count(task, status, number)

    def __getitem__(self, status: Status) -> int:
        return self.counts[status]

    @property
    def ready(self) -> int:
        """Placed for good, or done."""
        counts = self.counts
        return counts[_BOUND] + counts[_BINDING] + counts[_RUNNING] + counts[_ALLOCATED] + counts[_SUCCEEDED]

    @property
    def valid(self) -> int:
        """Placed, waiting or done: all that could still make up the gang."""
        return self.ready + self.counts[_PIPELINED] + self.counts[_PENDING]

    @property
    def occupying(self) -> int:
        counts = self.counts
        return counts[_ALLOCATED] + counts[_BINDING] + counts[_BOUND] + counts[_RUNNING]


class SubState:
    """A sub gang inside a session."""

    __slots__ = ("closeness", "gang", "hyper_node", "sub", "tally")

    def __init__(self, gang: GangState, sub: SubGang, tally: Tally) -> None:
        self.gang = gang
        self.sub = sub
        self.tally = tally
        self.closeness: Closeness | None = sub.closeness
        self.hyper_node = ""  # the lowest hyper node that holds its placed members

    @property
    def minimum(self) -> int:
        return self.sub.minimum

    @property
    def is_ready(self) -> bool:
        return self.tally.ready + self.tally.waiting_best_effort >= self.minimum

    @property
    def is_pipelined(self) -> bool:
        tally = self.tally
        return tally[Status.PIPELINED] + tally.ready + tally.waiting_best_effort >= self.minimum


class LastTry(Value):
    """Where a discarded plan had put a task: what a person wants to know who asks why it waits."""

    status: Status
    node: str
    hyper_node: str = ""


class Holder(Protocol):
    """Who is charged for gangs, and so where all of them stand in line together; a plugin gives it to them (`GangState.holder`)."""

    @property
    def standing(self) -> float:
        """Changes when the order of the holder's gangs among those of others may have changed."""

    def __hash__(self) -> int: ...


class Ranking(Value, eq=False):
    """Gangs that were put in order together; their places hold until something moves."""

    moves: int  # of the session, then


UNRANKED = Ranking(-1)


class GangState:
    """Counters, tentative places and reasons of one gang during one session."""

    def __init__(self, gang: Gang) -> None:
        self.gang = gang
        self.spec = gang.spec
        self.key = gang.spec.key
        self.uid = gang.spec.uid or gang.spec.key  # of this gang, and not of a later one of the same name
        self.queue = gang.spec.queue
        self.priority = gang.spec.priority
        self.phase = gang.spec.phase
        self.tally = Tally((), gang.counts, gang.waiting_best_effort if gang.counts[Status.PENDING] else 0)
        self.occupied: Amounts = gang.occupied  # the snapshot's until the first change
        self.version = 0  # rises with every change, so that cached order keys know their age
        self.order_key: tuple[int, float, tuple[float, ...]] | None = None
        self.ranking, self.rank = UNRANKED, 0  # its place among those that were ranked together
        self.waiting: tuple[int, list[Task]] | None = None  # who waits, in the order of placement, as of a version
        self.holder: Holder | None = None
        self.closeness: Closeness | None = gang.spec.closeness
        self.hyper_node = ""
        # Since an earlier cycle: its room is seen to, and admission need not keep any for it.
        self.has_reservation = False
        self.places: dict[Task, tuple[Status, int]] = {}
        self.last_tries: dict[Task, LastTry] = {}
        self.fit_errors: dict[Task, FitError] = {}
        self.reasons: list[Reason] = []
        self._roles: dict[str, Tally] | None = None
        self._sub_of: dict[Task, SubState] | None = None
        self._subs: list[SubState] | None = None  # of most gangs nobody asks
        if gang.spec.policies:
            self._subs = [SubState(self, sub, Tally(sub.tasks)) for sub in gang.sub_gangs]

    # ------------------------------------------------------------------------------------------------- members

    @property
    def subs(self) -> list[SubState]:
        if self._subs is None:
            self._subs = [SubState(self, sub, self.tally) for sub in self.gang.sub_gangs]
        return self._subs

    @property
    def tasks(self) -> Sequence[Task]:
        return self.gang.tasks

    def status(self, task: Task) -> Status:
        place = self.places.get(task)
        return task.status if place is None else place[0]

    def tasks_in(self, *statuses: Status) -> list[Task]:
        count = sum([self.tally.counts[status] for status in statuses])
        if not count:
            return []
        if count == len(self.gang.tasks):
            return list(self.gang.tasks)
        if not self.places:
            return [task for task in self.gang.tasks if task.status in statuses]
        return [task for task in self.gang.tasks if self.status(task) in statuses]

    def sub_of(self, task: Task) -> SubState:
        if len(self.subs) == 1:
            return self.subs[0]
        if self._sub_of is None:
            self._sub_of = {member: sub for sub in self.subs for member in sub.sub.tasks}
        return self._sub_of[task]

    def move(self, tasks: Sequence[Task], status: Status, nodes: Sequence[int]) -> None:
        """Count members of one shape under a new status, from now until they are moved again."""
        first = tasks[0]
        former = self.status(first)
        for task, node in zip(tasks, nodes, strict=True):
            if status is task.status:
                self.places.pop(task, None)
            else:
                self.places[task] = (status, node)
        count = len(tasks)
        self.tally.shift(first, former, status, count)
        if self.spec.policies:
            for task in tasks:
                self.sub_of(task).tally.shift(task, former, status, 1)
        if self._roles is not None:
            for task in tasks:
                self._roles[task.role].shift(task, former, status, 1)
        was, is_ = former in OCCUPYING, status in OCCUPYING
        if was != is_:
            occupied = dict(self.occupied)
            amounts.add(occupied, first.request.amounts, count if is_ else -count)
            self.occupied = occupied
        self.version += 1

    def role(self, name: str) -> Tally:
        """Members of one role; a role without members counts zero everywhere."""
        if self._roles is None:
            self._roles = {}
            for task in self.gang.tasks:
                self._roles.setdefault(task.role, Tally()).count(task, self.status(task), 1)
        return self._roles.get(name) or Tally()

    def admit(self) -> None:
        """Let the gang into its queue: actions may work on it from now on, and controllers make its pods."""
        self.phase = PodGroupPhase.INQUEUE.value
        self.version += 1

    def send_back(self) -> None:
        """Take the admission back: the gang asks for it again."""
        self.phase = PodGroupPhase.PENDING.value
        self.version += 1

    # ------------------------------------------------------------------------------------------------- gang rules

    @property
    def minimum(self) -> int:
        return self.spec.min_member

    @property
    def is_waiting_for_admission(self) -> bool:
        return self.phase in _NOT_ADMITTED

    @property
    def roles_count(self) -> bool:
        """Role minimums bind only while minMember is at least their sum (Volcano parity)."""
        minimums = self.spec.role_minimums
        return bool(minimums) and self.spec.min_member >= sum(minimums.values())

    @property
    def is_ready(self) -> bool:
        return self.tally.ready + self.tally.waiting_best_effort >= self.spec.min_member

    @property
    def is_pipelined(self) -> bool:
        tally = self.tally
        return tally[Status.PIPELINED] + tally.ready + tally.waiting_best_effort >= self.spec.min_member

    @property
    def is_starving(self) -> bool:
        return self.tally[Status.PIPELINED] + self.tally.ready < self.spec.min_member

    def roles_ready(self, *, pipelined: bool = False) -> bool:
        if not self.roles_count:
            return True
        return all(
            self.role_ready(name, pipelined=pipelined) >= least for name, least in self.spec.role_minimums.items()
        )

    def role_ready(self, name: str, *, pipelined: bool = False) -> int:
        tally = self.role(name)
        ready = tally.occupying + tally[Status.SUCCEEDED] + tally.waiting_best_effort
        return ready + tally[Status.PIPELINED] if pipelined else ready

    def subs_ready(self, *, pipelined: bool = False) -> bool:
        """Each policy has as many sub gangs ready as it asks for."""
        for index, policy in enumerate(self.spec.policies):
            if policy.min_sub_groups <= 0:
                continue
            own = [sub for sub in self.subs if sub.sub.policy == index]
            if sum(sub.is_pipelined if pipelined else sub.is_ready for sub in own) < policy.min_sub_groups:
                return False
        return True

    @property
    def wants_closeness(self) -> bool:
        return self.gang.wants_closeness

    @property
    def has_policies(self) -> bool:
        return bool(self.spec.policies)


class Gangs(Mapping[str, GangState]):
    """The gangs of a session by key, in the snapshot's order; one that only runs has a state from when it is first asked for.

    `queues`: where some gangs are in a queue that does not exist, those that do.
    """

    def __init__(self, gangs: Mapping[str, Gang], queues: Container[str] | None = None) -> None:
        if queues is not None:
            gangs = {key: gang for key, gang in gangs.items() if gang.spec.queue in queues}
        self._gangs = gangs
        self._states: dict[str, GangState] = {}
        self.holder_of: Callable[[GangState], Holder | None] = lambda _: None

    def __getitem__(self, key: str) -> GangState:
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = GangState(self._gangs[key])
            state.holder = self.holder_of(state)
        return state

    def get(self, key: str, default: Any = None) -> Any:
        return self[key] if key in self._gangs else default

    def __contains__(self, key: object) -> bool:
        return key in self._gangs

    def __iter__(self) -> Iterator[str]:
        return iter(self._gangs)

    def __len__(self) -> int:
        return len(self._gangs)

    def hold(self, holder_of: Callable[[GangState], Holder | None]) -> None:
        """Say who is charged for each gang, those included that have no state yet."""
        self.holder_of = holder_of
        for state in self._states.values():
            state.holder = holder_of(state)

    @property
    def moved(self) -> Iterator[GangState]:
        """Gangs that are no longer as the snapshot has them."""
        return (state for state in self._states.values() if state.version)

    @property
    def spoken_of(self) -> Iterator[GangState]:
        """Gangs that somebody has looked at: of the others the session has nothing to say."""
        return iter(self._states.values())
