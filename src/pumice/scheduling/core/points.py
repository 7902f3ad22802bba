"""Extension points: where plugins take part in a cycle, and how their answers combine.

Plugins are asked tier by tier, in file order. Each point below states when it runs, what it may read and change, what an
answer means, and how often it runs. A plugin registers in `open(session)` through `session.on`; a flag of the policy file that
is off silently drops that plugin's registration for that point.

Orders           gang, sub gang, task: a key, lower first; queue: a comparison. First difference in tier order wins.
All must agree   ready, sub_ready, allocatable, preemptive.       One suffices   overused.
Votes            enqueueable, pipelined, sub_pipelined: a REJECT ends it within its tier; after a tier with a PERMIT lower
                 tiers are not asked; nobody against it means yes.
Starving         the first tier in which anybody registered decides; all of it must agree.
Victims          preemptable, reclaimable, evictable: within a tier intersected, between tiers fallback (see `victims`).
Shields          taken off the candidates before any tier is asked: a fallback cannot choose whom they protect.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from pumice.cluster.columns import Column
    from pumice.cluster.queues import QueueSpec
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.decisions import Preparation
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.shapes import Reads, Shape
    from pumice.scheduling.core.verdict import Cure, Denial, Reason
    from pumice.scheduling.placing.placement import Pairs

    Scores = NDArray[np.float64]
    Indexes = NDArray[np.intp]


class Vote(enum.IntEnum):
    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


class Kind(enum.Enum):
    """Who asks for victims through the gang-wise actions."""

    PREEMPT = "gangpreempt"
    RECLAIM = "gangreclaim"


class GangOrder(Protocol):
    """Whenever two gangs are compared, cached until the gang changes. Reads the gang and the plugin's own state, changes nothing.
    The gang with the lower number is served first.
    """

    def __call__(self, gang: GangState) -> float: ...


class SubOrder(Protocol):
    """As GangOrder, between sub gangs of one gang."""

    def __call__(self, sub: SubState) -> float: ...


class TaskOrder(Protocol):
    """Once per task and cycle. Reads the task, changes nothing. Lower is placed first and evicted last."""

    def __call__(self, task: Task) -> float: ...


class QueueOrder(Protocol):
    """Whenever two queues are compared. Negative: left is served first; zero: no opinion."""

    def __call__(self, left: QueueSpec, right: QueueSpec) -> float: ...


class VictimQueueOrder(Protocol):
    """When victims of different queues compete. Negative: left loses its task first; zero: the reverse of QueueOrder."""

    def __call__(self, left: QueueSpec, right: QueueSpec, claimant: QueueSpec) -> float: ...


class Ready(Protocol):
    """After each placement of a batch. Reads the gang, changes nothing. True: the gang may be bound."""

    def __call__(self, gang: GangState) -> bool: ...


class UntilReady(Protocol):
    """Beside a Ready: how many more members of that role make it true, or None where no number of them can.
    Lets equal members be placed in one operation; a Ready without it is asked after every single one.
    """

    def __call__(self, sub: SubState, role: str) -> int | None: ...


class Shortfall(Protocol):
    """Beside Ready and Pipelined: at least how many more members must find a place before either can be true. Lets a search pass
    over hyper nodes that cannot hold so many, unseen.
    """

    def __call__(self, subject: GangState | SubState) -> int: ...


class GangVote(Protocol):
    """Enqueueable: once per waiting gang and cycle; REJECT keeps it out of its queue, with Reasons appended to the gang.
    Pipelined: after a gang was tried; PERMIT keeps its tentative places. May read everything, changes nothing else.
    """

    def __call__(self, gang: GangState) -> Vote: ...


class SubVote(Protocol):
    """As GangVote, for a sub gang that was tried."""

    def __call__(self, sub: SubState) -> Vote: ...


class GangTest(Protocol):
    """Starving: True = may evict for itself. Reads the gang, changes nothing; asked before every member's turn."""

    def __call__(self, gang: GangState) -> bool: ...


class Valid(Protocol):
    """Once per gang and action. A Reason keeps the gang out of every action but enqueue."""

    def __call__(self, gang: GangState) -> Reason | None: ...


class GangNotice(Protocol):
    """Enqueued: once per gang that was admitted; the plugin charges it to its own books."""

    def __call__(self, gang: GangState) -> None: ...


class QueueTest(Protocol):
    """Overused: each time a queue is about to be served; True drops it for the rest of the action."""

    def __call__(self, queue: QueueSpec) -> bool: ...


class Allocatable(Protocol):
    """Before a batch is placed. How many of `count` such pods the queue may still take; the rest is skipped."""

    def __call__(self, queue: QueueSpec, shape: Shape, count: int) -> int: ...


class Preemptive(Protocol):
    """Before a queue reclaims for these tasks. False: it has no right to more."""

    def __call__(self, queue: QueueSpec, tasks: Sequence[Task]) -> bool: ...


class Victims(Protocol):
    """Once per node tried. Of the candidates, those that may be evicted for the claimant, in the given order; None abstains.
    Always called with all candidates, whatever other plugins think of them.
    """

    def __call__(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task] | None: ...


class GangVictims(Protocol):
    """Once per domain tried by the gang-wise actions; as Victims."""

    def __call__(self, kind: Kind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task] | None: ...


class ShuffleVictims(Protocol):
    """Once per shuffle action, over all running tasks: whom this plugin wants evicted. Within a tier everybody's wishes are
    put together; the first tier that wishes for anything decides.
    """

    def __call__(self, running: Sequence[Task]) -> Sequence[Task]: ...


class ShuffleGuard(Protocol):
    """Once per shuffle action, over those that others want evicted, in that order; whom it leaves out stays."""

    def __call__(self, victims: Sequence[Task], /) -> Sequence[Task]: ...


class PreFilter(Protocol):
    """Once per shape and cycle, before any node is looked at. A Reason: this pod cannot be placed anywhere."""

    def __call__(self, shape: Shape) -> Reason | None: ...


class Filter(Protocol):
    """Once per shape and cycle, vectorised over all nodes. What it says must not depend on this cycle's placements."""

    def __call__(self, shape: Shape) -> Sequence[Denial]: ...


class Limit(Protocol):
    """Before each batch: how many more such pods each node takes by this plugin's lights (a column), or None for a shape that
    it does not concern. A node's number may depend on what is on that node, not on other nodes.
    """

    def __call__(self, shape: Shape) -> Column | None: ...


class LiveFilter(Protocol):
    """Before each batch of a shape that it concerns (`concerns(shape)`): nodes refused because of where pods are now. While a
    shape is `restless`, a placement may change the answer for the next one, and batches are of one: be so for few shapes.
    """

    def __call__(self, shape: Shape) -> Sequence[Denial]: ...


class FixedScore(Protocol):
    """Per batch, over the candidate nodes: a score that placements of this batch do not change, except that it may depend on
    which nodes are candidates (normalisation). None: no influence on this shape.
    """

    def __call__(self, shape: Shape, nodes: Indexes) -> Scores | None: ...


class LoadScore(Protocol):
    """Per batch, over pairs of a node and a number of such pods already put there: a score of each node's own load alone."""

    def __call__(self, shape: Shape, pairs: Pairs) -> Scores | None: ...


class LiveScore(Protocol):
    """Per single placement, over the candidate nodes, for shapes that it concerns: a score that any placement may change."""

    def __call__(self, shape: Shape, task: Task, nodes: Indexes) -> Scores | None: ...


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Pull:
    """Scores that pods give to the neighbourhood they are in, and for how long these hold, all per candidate node."""

    scores: Scores
    neighbourhood: Indexes  # candidates with equal numbers are neighbours
    lasts: Column  # so many pods may join the node's neighbourhood before the scores have to be asked for again
    spare: int  # so many candidates may become full before that


class PullScore(Protocol):
    """Per batch, over the candidate nodes: a score that rises where pods gather. While it lasts, a placement raises the scores
    of its own neighbourhood by the same amount each, and of no other node by more; so a batch that stays within one
    neighbourhood decides what single placements would. None: no influence on this shape, or the same for all candidates.
    """

    def __call__(self, shape: Shape, nodes: Indexes) -> Pull | None: ...


class Gradient(Protocol):
    """Once per gang (or sub gang) that wants closeness: hyper nodes to try, grouped; an earlier group beats any score of a later.
    `evicting` asks for room that evictions could make.
    """

    def __call__(self, subject: GangState | SubState, within: str, *, evicting: bool) -> list[list[str]]: ...


class HyperScore(Protocol):
    """Per sub gang, over hyper nodes in which it could be placed. The score of one must not depend on which others are offered,
    so that the best can be tried first, and alone.
    """

    def __call__(self, sub: SubState, hyper_nodes: Sequence[str]) -> dict[str, float]: ...


class Moved(Protocol):
    """At every operation and its undo: sign +1 = these tasks now take room on these nodes, -1 = they no longer do.
    The plugin updates its own books, exactly reversibly.
    """

    def __call__(
        self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int
    ) -> None: ...


class PreBind(Protocol):
    """Once per pod that is to be bound. Reads the plugin's own reservations. What is returned is written before the bind."""

    def __call__(self, task: Task) -> Sequence[Preparation]: ...


class Annotate(Protocol):
    """Once per pod that is to be bound. Reads the plugin's own reservations; the annotations travel with the bind."""

    def __call__(self, task: Task) -> Mapping[str, str]: ...


class NodeLock(Protocol):
    """Once per pod that is to be bound: the lock on its node that has to be held for it, or empty."""

    def __call__(self, task: Task) -> str: ...


class Close(Protocol):
    """Once at the end of a cycle: last word on conditions, measurements."""

    def __call__(self) -> None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class Hook:
    """One registration: who, in which tier, and what to call."""

    plugin: str
    tier: int
    call: Any
    detail: Any = None  # UntilReady beside Ready; (concerns, restless) or `concerns` beside live hooks; (reason, cure) beside Limit


_VICTIM_FLAGS = {"preemptable": "enablePreemptable", "reclaimable": "enableReclaimable", "evictable": ""}


class Points:
    """All registrations of one session, and `on`-methods that a plugin calls while it opens."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[Hook]] = {}
        self._option: PluginOption | None = None
        self.reads: list[tuple[str, Reads]] = []
        self.traits: list[Callable[[Task], Hashable]] = []

    def registering(self, option: PluginOption) -> None:
        """What registers from now on belongs to this plugin."""
        self._option = option

    def hooks(self, point: str) -> list[Hook]:
        return self._hooks.get(point, [])

    def _add(self, point: str, call: Any, flag: str = "", detail: Any = None) -> None:
        option = self._option
        assert option is not None, f"{point} was registered outside of a plugin's open()"
        if not flag or option.allows(flag):
            self._hooks.setdefault(point, []).append(Hook(option.name, option.tier, call, detail))

    # ----------------------------------------------------------------------------------------------- declarations

    def declare(self, reads: Reads, trait: Callable[[Task], Hashable] | None = None) -> None:
        """What this plugin's filters and scores read of a pod; a trait is a value of its own making that tells pods apart."""
        assert self._option is not None
        self.reads.append((self._option.name, reads))
        if trait is not None:
            self.traits.append(trait)

    # ----------------------------------------------------------------------------------------------- orders

    def gang_order(self, key: GangOrder) -> None:
        self._add("gang_order", key, "enableJobOrder")

    def sub_order(self, key: SubOrder) -> None:
        self._add("sub_order", key, "enabledSubJobOrder")

    def task_order(self, key: TaskOrder) -> None:
        self._add("task_order", key, "enableTaskOrder")

    def queue_order(self, compare: QueueOrder) -> None:
        self._add("queue_order", compare, "enableQueueOrder")

    def victim_queue_order(self, compare: VictimQueueOrder) -> None:
        self._add("victim_queue_order", compare)

    # ----------------------------------------------------------------------------------------------- gangs and queues

    def valid(self, test: Valid) -> None:
        self._add("valid", test)

    def ready(self, test: Ready, until: UntilReady | None = None) -> None:
        self._add("ready", test, "enableJobReady", until)

    def sub_ready(self, test: Callable[[SubState], bool], until: Callable[[SubState], int] | None = None) -> None:
        """`until` as UntilReady: how many more members make the sub gang ready."""
        self._add("sub_ready", test, "enabledSubJobReady", until)

    def shortfall(self, least: Shortfall) -> None:
        self._add("shortfall", least)

    def pipelined(self, vote: GangVote) -> None:
        self._add("pipelined", vote, "enableJobPipelined")

    def sub_pipelined(self, vote: SubVote) -> None:
        self._add("sub_pipelined", vote, "enabledSubJobPipelined")

    def starving(self, test: GangTest) -> None:
        self._add("starving", test, "enableJobStarving")

    def enqueueable(self, vote: GangVote) -> None:
        self._add("enqueueable", vote, "enableJobEnqueued")

    def enqueued(self, notice: GangNotice) -> None:
        self._add("enqueued", notice, "enableJobEnqueued")

    def overused(self, test: QueueTest) -> None:
        self._add("overused", test, "enabledOverused")

    def allocatable(self, limit: Allocatable, *, why: Callable[[QueueSpec, GangState, Shape], str]) -> None:
        """`why` says in numbers what the queue lacks for one more such pod of the gang."""
        self._add("allocatable", limit, "enabledAllocatable", why)

    def preemptive(self, test: Preemptive) -> None:
        self._add("preemptive", test, "enablePreemptive")

    # ----------------------------------------------------------------------------------------------- victims

    def preemptable(self, choose: Victims) -> None:
        self._add("preemptable", choose, "enablePreemptable")

    def reclaimable(self, choose: Victims) -> None:
        self._add("reclaimable", choose, "enableReclaimable")

    def evictable(self, choose: GangVictims) -> None:
        self._add("evictable", choose)

    def shield(self, point: str, keep: Victims | GangVictims) -> None:
        """Leaves out candidates of a victims' point that nobody may evict, whichever tier decides; same call, same flag."""
        self._add(f"{point} shield", keep, _VICTIM_FLAGS[point])

    def shuffled(self, choose: ShuffleVictims) -> None:
        self._add("shuffled", choose, "enabledVictim")

    def shuffle_guard(self, keep: ShuffleGuard) -> None:
        self._add("shuffle_guard", keep, "enabledVictim")

    # ----------------------------------------------------------------------------------------------- nodes

    def prefilter(self, test: PreFilter) -> None:
        self._add("prefilter", test, "enablePredicate")

    def filter(self, test: Filter) -> None:
        self._add("filter", test, "enablePredicate")

    def limit(self, count: Limit, *, reason: str, cure: Cure) -> None:
        self._add("limit", count, "enablePredicate", (reason, cure))

    def live_filter(
        self,
        test: LiveFilter,
        *,
        concerns: Callable[[Shape], bool],
        restless: Callable[[Shape], bool] | None = None,
    ) -> None:
        """Without `restless` every shape that it concerns is taken to be so."""
        self._add("live_filter", test, "enablePredicate", (concerns, restless or concerns))

    def fixed_score(self, score: FixedScore) -> None:
        self._add("fixed_score", score, "enableNodeOrder")

    def load_score(self, score: LoadScore) -> None:
        self._add("load_score", score, "enableNodeOrder")

    def live_score(self, score: LiveScore, *, concerns: Callable[[Shape], bool]) -> None:
        self._add("live_score", score, "enableNodeOrder", concerns)

    def pull_score(self, score: PullScore) -> None:
        self._add("pull_score", score, "enableNodeOrder")

    def gradient(self, search: Gradient, *, why: Callable[[GangState | SubState], Reason]) -> None:
        """`why` says what speaks against every hyper node, where the search found none."""
        self._add("gradient", search, "enabledHyperNodeGradient", why)

    def hyper_score(self, score: HyperScore) -> None:
        self._add("hyper_score", score, "enabledHyperNodeOrder")

    # ----------------------------------------------------------------------------------------------- notices

    def moved(self, notice: Moved) -> None:
        self._add("moved", notice)

    def prebind(self, choose: PreBind) -> None:
        self._add("prebind", choose, "enablePredicate")

    def annotate(self, choose: Annotate) -> None:
        self._add("annotate", choose, "enablePredicate")

    def node_lock(self, choose: NodeLock) -> None:
        self._add("node_lock", choose, "enablePredicate")

    def close(self, notice: Close) -> None:
        self._add("close", notice)

    # ----------------------------------------------------------------------------------------------- combining

    def vote(self, point: str, subject: Any) -> bool:
        """Votes: see the module's head."""
        permitted_tier: int | None = None
        for hook in self.hooks(point):
            if permitted_tier is not None and hook.tier != permitted_tier:
                return True
            answer = hook.call(subject)
            if answer < 0:
                return False
            if answer > 0:
                permitted_tier = hook.tier
        return True

    def starves(self, gang: GangState) -> bool:
        hooks = self.hooks("starving")
        return bool(hooks) and all(hook.call(gang) for hook in hooks if hook.tier == hooks[0].tier)

    def shuffle_victims(self, running: Sequence[Task]) -> list[Task]:
        """See ShuffleVictims and ShuffleGuard."""
        chosen: dict[str, Task] = {}
        tier = None
        for hook in self.hooks("shuffled"):
            if hook.tier != tier and chosen:
                break
            tier = hook.tier
            chosen.update({task.uid: task for task in hook.call(running)})
        victims = list(chosen.values())
        for hook in self.hooks("shuffle_guard"):
            victims = list(hook.call(victims))
        return victims

    def victims(self, point: str, *arguments: Any) -> list[Task]:
        """Tiers are fallbacks: the first one that leaves somebody decides alone. Within a tier lists are intersected.

        Volcano parity: a plugin that returns nobody ends its tier, but an intersection that comes out empty is forgotten, and
        the next plugin of that tier starts afresh. Not so with shields: what they protect is no candidate in any tier.
        """
        *asker, candidates = arguments
        for hook in self.hooks(f"{point} shield"):
            candidates = hook.call(*asker, candidates)
        if not candidates:
            return []
        chosen: list[Task] | None = None
        tier, ended = None, False
        for hook in self.hooks(point):
            if hook.tier != tier:
                if chosen:
                    return chosen
                tier, chosen, ended = hook.tier, None, False
            if ended:
                continue
            own = hook.call(*asker, candidates)
            if own is None:
                continue
            if not own:
                chosen, ended = None, True
            elif not chosen:
                chosen = list(own)
            else:
                kept = {task.uid for task in own}
                chosen = [task for task in chosen if task.uid in kept]
        return chosen or []
