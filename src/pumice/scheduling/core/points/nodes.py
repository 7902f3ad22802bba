"""Extension points with more than a call: what they ask of nodes, of queues' room and of hyper nodes, and how answers combine."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from pumice.cluster.amounts import Amounts
from pumice.scheduling.core.codes import NO_FACTS, Code, Facts
from pumice.scheduling.core.points.combination import Registrar, Registrations
from pumice.scheduling.core.verdict import Cure, Denial, Reason
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.placement import Pairs

Scores = NDArray[np.float64]
Indexes = NDArray[np.intp]


class Pull(Value, eq=False):
    """Scores that pods give to the neighbourhood they are in, and for how long these hold, all per candidate node."""

    scores: Scores
    neighbourhood: Indexes  # candidates with equal numbers are neighbours
    lasts: Column  # so many pods may join the node's neighbourhood before the scores have to be asked for again
    spare: int  # so many candidates may become full before that


class Reach(Value, eq=False):
    """Where the others can go if the first goes to one of these nodes; None: only to its own."""

    first: Mask
    others: Mask | None


class Shared(Value, eq=False):
    """What several pods use, and the first of them decides: where it goes says where the others can."""

    key: str
    reaches: Callable[[], Sequence[Reach]]  # each node is in one of them


# ------------------------------------------------------------------------------------------------- a queue's room


Freed = Mapping[str, Amounts]  # by queue


class Grant(Value):
    most: Callable[[QueueInfo, Shape, int], int]
    why: Callable[[QueueInfo, GangState, Shape], Reason]
    later: Callable[[QueueInfo, Shape, int, Freed], int] | None
    beyond: Beyond | None
    could: Callable[[QueueInfo, Shape, Amounts], bool] | None
    beside: Callable[[QueueInfo, GangState, Freed], bool] | None


class Beyond(Value):
    """How a queue may exceed its share by a gang that the rest of it is too small for."""

    allows: Callable[[QueueInfo, GangState], bool]
    most: Callable[[QueueInfo, Shape, int], int]


class Allowance(Registrations[Grant]):
    """The smallest number counts."""

    def __init__(self, registrar: Registrar, flag: str = "") -> None:
        super().__init__(registrar, flag)
        self.freed: Freed | None = None  # set while a later moment is looked at: what queues have given back by then
        self.is_exceeding = False  # in the turn of a gang that may take its queue beyond the share

    def __call__(
        self,
        most: Callable[[QueueInfo, Shape, int], int],
        *,
        why: Callable[[QueueInfo, GangState, Shape], Reason],
        later: Callable[[QueueInfo, Shape, int, Freed], int] | None = None,
        beyond: Beyond | None = None,
        could: Callable[[QueueInfo, Shape, Amounts], bool] | None = None,
        beside: Callable[[QueueInfo, GangState, Freed], bool] | None = None,
    ) -> None:
        """`why` says in numbers what the queue lacks for one more such pod of the gang; with `beyond`, also where it takes one and not all. `later` answers like `most`, for a moment at which
        queues hold so much less (or, where negative, more) than now; without it the answer of now counts. `beyond` says which gangs may
        take room that nobody could use within a share, and how much: without it none may. `could` says no only where the queue would take no such
        pod even if its own pods gave back so much: evictions are not tried there. `beside` says of a gang that has its places whether its queue
        is within its limit though queues hold so much more than they are charged for; it is asked before the gang starts.
        """
        self._add(Grant(most, why, later, beyond, could, beside))

    def could_take(self, queue: QueueInfo, shape: Shape, freed: Amounts) -> bool:
        """Whether the queue might take one such pod once its own pods have given back so much."""
        return all(hook.call.could is None or hook.call.could(queue, shape, freed) for hook in self.hooks)

    def holds_beside(self, queue: QueueInfo, gang: GangState, held: Freed) -> bool:
        """Whether the gang may start in the places that it has although queues hold so much that they are charged for no more."""
        return all(hook.call.beside is None or hook.call.beside(queue, gang, held) for hook in self.hooks)

    def may_exceed(self, queue: QueueInfo, gang: GangState) -> bool:
        """Whether a plugin lets the gang, which was refused, take its queue beyond the share."""
        return any(hook.call.beyond is not None and hook.call.beyond.allows(queue, gang) for hook in self.hooks)

    @contextlib.contextmanager
    def exceeding(self) -> Iterator[None]:
        """Inside is the turn of such a gang."""
        self.is_exceeding = True
        try:
            yield
        finally:
            self.is_exceeding = False

    def of(self, queue: QueueInfo, shape: Shape, count: int) -> int:
        """How many of `count` such pods the queue may still take."""
        for hook in self.hooks:
            if self.freed is not None and hook.call.later is not None:
                count = hook.call.later(queue, shape, count, self.freed)
            elif self.is_exceeding and hook.call.beyond is not None:
                count = hook.call.beyond.most(queue, shape, count)
            else:
                count = hook.call.most(queue, shape, count)
            if count <= 0:
                return 0
        return count

    def refusal(self, queue: QueueInfo, gang: GangState, shape: Shape) -> Reason | None:
        """Why the gang's queue takes not one such pod; None where it does."""
        if self.freed is None and not self.is_exceeding:
            for hook in self.hooks:  # asked of every gang that waits: a generator takes twice as long
                if hook.call.most(queue, shape, 1) <= 0:
                    return hook.call.why(queue, gang, shape)
            return None
        return None if self.of(queue, shape, 1) > 0 else self.why_none(queue, gang, shape)

    def why_none(self, queue: QueueInfo, gang: GangState, shape: Shape) -> Reason:
        """What the first plugin says that refuses the gang's queue one more such pod."""
        if self.freed is not None:  # nobody reads what speaks against a later moment
            return Reason(Code.QUEUE_QUOTA_USED, "queue", Facts(queue=queue.name), cure=Cure.WAITING)
        for hook in self.hooks:
            if hook.call.most(queue, shape, 1) <= 0:
                return hook.call.why(queue, gang, shape)
        raise AssertionError(f"queue {queue.name} refuses nothing")

    def why_no_more(self, queue: QueueInfo, gang: GangState, shape: Shape, count: int) -> Reason:
        """What speaks against more of so many such pods, where nobody reads it but the plugin, if it lets gangs take more than a share."""
        hook = min(self.hooks, key=lambda each: each.call.most(queue, shape, count))
        if hook.call.beyond is not None:
            return hook.call.why(queue, gang, shape)
        return Reason(Code.QUEUE_QUOTA_USED, hook.plugin, Facts(queue=queue.name), cure=Cure.WAITING)


# ------------------------------------------------------------------------------------------------- nodes


class Limit(Value):
    count: Callable[[Shape], Column | None]
    code: Code
    cure: Cure
    facts: Facts


class Limits(Registrations[Limit]):
    """The smallest number of each node counts; a node whose number is zero is refused for the given reason."""

    def __call__(
        self, count: Callable[[Shape], Column | None], *, code: Code, cure: Cure, facts: Facts = NO_FACTS
    ) -> None:
        self._add(Limit(count, code, cure, facts))

    def denials(self, shape: Shape, *, besides: Cure | None = None) -> list[Denial]:
        """All but those that have this cure."""
        return [
            Denial(hook.call.code, hook.plugin, column < 1, hook.call.cure, hook.call.facts)
            for hook in self.hooks
            if hook.call.cure is not besides and (column := hook.call.count(shape)) is not None
        ]

    def refuse(self, shape: Shape, node: int) -> bool:
        """Whether this one node takes no more of them."""
        return any((column := hook.call.count(shape)) is not None and column[node] < 1 for hook in self.hooks)

    def apply(self, shape: Shape, nodes: Indexes, copies: Column) -> Column:
        """At most so many copies on each of the nodes."""
        for hook in self.hooks:
            column = hook.call.count(shape)
            if column is not None:
                copies = np.minimum(copies, column[nodes])
        return copies


class LiveFilter(Value):
    test: Callable[[Shape], Sequence[Denial]]
    concerns: Callable[[Shape], bool]
    restless: Callable[[Shape], bool]


class LiveFilters(Registrations[LiveFilter]):
    """All denials count."""

    def __call__(
        self,
        test: Callable[[Shape], Sequence[Denial]],
        *,
        concerns: Callable[[Shape], bool],
        restless: Callable[[Shape], bool] | None = None,
    ) -> None:
        """While a shape is `restless`, a placement may change the answer for the next one, and batches are of one: be so for few
        shapes. Without `restless` every shape that it concerns is taken to be so.
        """
        self._add(LiveFilter(test, concerns, restless or concerns))

    def denials(self, shape: Shape) -> list[Denial]:
        return [denial for hook in self.hooks if hook.call.concerns(shape) for denial in hook.call.test(shape)]

    def is_restless(self, shape: Shape) -> bool:
        return any(hook.call.restless(shape) for hook in self.hooks)

    def concerns(self, shape: Shape) -> bool:
        return any(hook.call.concerns(shape) for hook in self.hooks)


class LiveScore(Value):
    score: Callable[[Shape, Task, Indexes], Scores | None]
    concerns: Callable[[Shape], bool]


class LiveScores(Registrations[LiveScore]):
    """Scores are added up."""

    def __call__(
        self, score: Callable[[Shape, Task, Indexes], Scores | None], *, concerns: Callable[[Shape], bool]
    ) -> None:
        self._add(LiveScore(score, concerns))

    def of(self, shape: Shape, task: Task, nodes: Indexes) -> list[Scores]:
        return [
            own
            for hook in self.hooks
            if hook.call.concerns(shape) and (own := hook.call.score(shape, task, nodes)) is not None
        ]

    def is_restless(self, shape: Shape) -> bool:
        return any(hook.call.concerns(shape) for hook in self.hooks)


class Parts(Protocol):
    """A score that is another at the next instant, if the session stays open until then, put together from parts that last."""

    def basis(self) -> Hashable:
        """What parts follow from, beside shape and pairs."""

    def parts(self, shape: Shape, pairs: Pairs) -> Scores:
        """A row for each pair."""

    def together(self, parts: Scores) -> Scores:
        """The score of this instant."""


class LoadScore(Value):
    score: Callable[[Shape, Pairs], Scores | None]
    looks_beyond: Callable[[], bool]
    parts: Parts | None


class LoadScores(Registrations[LoadScore]):
    """Scores are added up."""

    def __call__(
        self,
        score: Callable[[Shape, Pairs], Scores | None],
        *,
        looks_beyond: Callable[[], bool] = lambda: True,
        parts: Parts | None = None,
    ) -> None:
        """`looks_beyond`: whether the score follows from anything that changes in a cycle beside the pairs. Where it does not, a node that has
        got back what it gave is not asked about again. `parts`: of a score that does not last.
        """
        self._add(LoadScore(score, looks_beyond, parts))

    def of(self, shape: Shape, pairs: Pairs) -> list[Scores]:
        return [own for hook in self.hooks if (own := hook.call.score(shape, pairs)) is not None]

    def look_beyond(self) -> bool:
        return any(hook.call.looks_beyond() for hook in self.hooks)


# ------------------------------------------------------------------------------------------------- hyper nodes


class Search(Protocol):
    """`evicting` asks for room that evictions could make."""

    def __call__(self, subject: GangState | SubState, within: str, *, evicting: bool) -> list[list[str]]: ...


class GradientHook(Value):
    search: Search
    why: Callable[[GangState | SubState], Reason]


class Gradient(Registrations[GradientHook]):
    """The first plugin decides alone."""

    def __call__(self, search: Search, *, why: Callable[[GangState | SubState], Reason]) -> None:
        """`why` says what speaks against every hyper node, where the search found none."""
        self._add(GradientHook(search, why))

    def of(self, subject: GangState | SubState, within: str, *, evicting: bool) -> list[list[str]]:
        """Hyper nodes to try, in groups; without a plugin that knows better, the one that is given."""
        return self.hooks[0].call.search(subject, within, evicting=evicting) if self.hooks else [[within]]

    def why_none(self, subject: GangState | SubState) -> Reason:
        """Why there is no hyper node to try."""
        return self.hooks[0].call.why(subject)
