"""The table of extension points.

A plugin registers in `open(session)`: `session.on.filter(self.filter)`. Each point below states when it runs, what it may read and
change, what an answer means, and how often it runs; its class (in `combination` or `nodes`) says how answers of several
plugins combine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.core.points.combination import (
    Answers,
    AnyOf,
    Ballot,
    First,
    FirstTier,
    GangVictims,
    Gathered,
    Keys,
    Merged,
    Notice,
    Ready,
    Registrar,
    ShuffleVictims,
    TaskVictims,
    Unanimous,
)
from pumice.scheduling.core.points.nodes import Allowance, Gradient, Limits, LiveFilters, LiveScores, LoadScores
from pumice.scheduling.core.shapes import Reads, Trait, together

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.instant import Duration
    from pumice.scheduling.core.decisions import Preparation
    from pumice.scheduling.core.gangstate import GangState, SubState
    from pumice.scheduling.core.points.nodes import Indexes, Pull, Scores, Shared
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.core.statement import Statement
    from pumice.scheduling.core.verdict import Denial, Reason


class Points:
    """All extension points of one session, and what plugins have registered at them."""

    def __init__(self) -> None:
        self._registrars = general, of_pods = Registrar(), Registrar()
        self._declared: dict[str, Reads] = {}
        self.traits: list[Trait] = []
        self._orders(general)
        self._gangs(general)
        self._queues(general)
        self._victims(general)
        self._nodes(of_pods)
        self._hyper_nodes(general)
        self._turns(general)
        self._notices(general)

    def registering(self, option: PluginOption) -> None:
        """What registers from now on belongs to this plugin."""
        for registrar in self._registrars:
            registrar.option = option

    def declare(
        self,
        reads: Reads,
        trait: Callable[[Task], Hashable] | None = None,
        *,
        concerns: Callable[[Task], bool] | None = None,
        lasts: Hashable = None,
    ) -> None:
        """What this plugin's filters and scores read of a pod; a trait is a value of its own making that tells pods apart.

        It is asked about every pod, or only about those that it `concerns`, which looks at nothing but the pod and its gang as the snapshot
        has it. An answer that follows from these and from `lasts` alone is kept for later cycles, as long as `lasts` is equal.
        """
        option = self._registrars[0].option
        assert option is not None
        known = self._declared.get(option.name)
        self._declared[option.name] = reads if known is None else together((known, reads))
        if trait is not None:
            self.traits.append(Trait(trait, concerns, lasts))

    @property
    def reads(self) -> Reads:
        """What any plugin reads of a pod; one that looks at pods and declares nothing may read everything."""
        _, of_pods = self._registrars
        reads = Reads.NOTHING if of_pods.plugins <= self._declared.keys() else Reads.EVERYTHING
        return together((reads, *self._declared.values()))

    # ----------------------------------------------------------------------------------------------- orders

    def _orders(self, registrar: Registrar) -> None:
        self.gang_order: Keys[GangState] = Keys(registrar, "enableJobOrder")
        """Whenever two gangs are compared, cached until the gang changes. Reads the gang and the plugin's own state, changes
        nothing. The gang with the lower number is served first.
        """
        self.sub_order: Keys[SubState] = Keys(registrar, "enabledSubJobOrder")
        """As gang_order, between sub gangs of one gang."""
        self.task_order: Keys[Task] = Keys(registrar, "enableTaskOrder")
        """Once per task and cycle. Reads the task, changes nothing. Lower is placed first and evicted last."""
        self.queue_order: First[[QueueInfo, QueueInfo], float] = First(registrar, "enableQueueOrder")
        """Whenever two queues are compared. Reads the plugin's own state, changes nothing. Negative: left is served first; zero:
        no opinion.
        """
        self.queue_rights: First[[QueueInfo, QueueInfo], float] = First(registrar)
        """When a plugin orders queues by more than what they hold. Reads the plugin's own state, changes nothing. Negative: left lacks
        something that it deserves and right does not; zero: both do, or neither.
        """
        self.victim_queue_order: First[[QueueInfo, QueueInfo, QueueInfo], float] = First(registrar)
        """When victims of different queues (left, right) compete, for a claimant's queue. Reads the plugin's own state, changes
        nothing. Negative: left loses its task first; zero: the reverse of queue_order.
        """
        self.victim_order: Keys[GangState] = Keys(registrar)
        """When victims of one queue are compared, before the reverse of gang_order. Reads the gang and the plugin's own state, changes
        nothing. Of two gangs the one with the lower number loses a member first.
        """

    # ----------------------------------------------------------------------------------------------- gangs and queues

    def _gangs(self, registrar: Registrar) -> None:
        self.valid: First[[GangState], Reason] = First(registrar)
        """Once per gang, and again in a later action if any gang has changed since. Reads the gang, changes nothing. A Reason keeps it out of every
        action but enqueue.
        """
        self.turn: First[[GangState], Reason] = First(registrar)
        """Before each turn in which a gang may get places. Reads the gang and the plugin's own state, which this cycle's placements
        have changed; changes nothing. A Reason: it gets none now.
        """
        self.ready: Ready[GangState] = Ready(registrar, "enableJobReady")
        """After each placement of a batch. Reads the gang, changes nothing. True: the gang may be bound."""
        self.sub_ready: Ready[SubState] = Ready(registrar, "enabledSubJobReady")
        """As ready, for a sub gang of a gang with policies."""
        self.pipelined: Ballot[GangState] = Ballot(registrar, "enableJobPipelined")
        """After a gang was tried. May read everything, changes nothing. PERMIT keeps its tentative places."""
        self.sub_pipelined: Ballot[SubState] = Ballot(registrar, "enabledSubJobPipelined")
        """As pipelined, for a sub gang that was tried."""
        self.shortfall: Answers[[GangState | SubState], int] = Answers(registrar)
        """Beside ready and pipelined: at least how many more members must find a place before either can be true. Reads the
        gang, changes nothing; the largest answer counts. Lets a search pass over hyper nodes that cannot hold so many, unseen.
        """
        self.starving: FirstTier[GangState] = FirstTier(registrar, "enableJobStarving")
        """Before every member's turn. Reads the gang, changes nothing. True: it may evict for itself."""
        self.patience: First[[GangState], Reason] = First(registrar)
        """Once per gang that starves, and action. Reads the gang, changes nothing. A Reason: it may not evict for itself yet."""
        self.enqueueable: Ballot[GangState] = Ballot(registrar, "enableJobEnqueued")
        """Once per waiting gang and cycle. May read everything, changes nothing. A rejection keeps it out of its queue; as a
        Reason, the gang's owner reads why.
        """

    def _queues(self, registrar: Registrar) -> None:
        self.overused: AnyOf[[QueueInfo]] = AnyOf(registrar, "enabledOverused")
        """Each time a queue is about to be served. Reads the plugin's own state, changes nothing. True drops the queue for the
        rest of the action.
        """
        self.allocatable: Allowance = Allowance(registrar, "enabledAllocatable")
        """Before a batch is placed. Reads the plugin's own state, changes nothing. How many of `count` such pods the queue may
        still take; the rest is skipped.
        """
        self.preemptive: Unanimous[[QueueInfo, Sequence[Task]]] = Unanimous(registrar, "enablePreemptive")
        """Before a queue reclaims for these tasks. Reads the plugin's own state, changes nothing. False: it has no right to more."""

    # ----------------------------------------------------------------------------------------------- victims

    def _victims(self, registrar: Registrar) -> None:
        self.preemptable: TaskVictims = TaskVictims(registrar, "enablePreemptable")
        """Once per node that preempt tries. May read everything, changes nothing. Of the candidates, those that may be evicted
        for the claimant, in the given order; None abstains. Always called with all candidates, whatever other plugins say. With
        a `Bound` beside it, nodes on which too few could go are passed over without a call.
        """
        self.reclaimable: TaskVictims = TaskVictims(registrar, "enableReclaimable")
        """As preemptable, once per node that reclaim tries."""
        self.evictable: GangVictims = GangVictims(registrar)
        """As preemptable, once per domain that the gang-wise actions try."""
        self.objection: First[[GangState, Statement], Reason] = First(registrar)
        """Once per plan that lets the gang start and costs others their places; the statement holds all of it. May read everything,
        changes nothing. A Reason: the plan is not carried out.
        """
        self.notice: First[[GangState], Duration] = First(registrar)
        """Once per gang that is to lose members. Reads the gang, changes nothing. How long its members may go on after they were told,
        to make their work safe.
        """
        self.shuffled: ShuffleVictims = ShuffleVictims(registrar, "enabledVictim")
        """Once per shuffle action, over all running tasks. May read everything, changes nothing. Those that this plugin wants
        evicted.
        """

    # ----------------------------------------------------------------------------------------------- nodes

    def _nodes(self, registrar: Registrar) -> None:
        self.prefilter: First[[Shape], Reason] = First(registrar, "enablePredicate")
        """Once per shape and attempt, before any node is looked at. Reads the shape, changes nothing. A Reason: this pod cannot
        be placed anywhere.
        """
        self.filter: Gathered[[Shape], Denial] = Gathered(registrar, "enablePredicate")
        """Once per shape and cycle, vectorised over all nodes. What it says must not depend on this cycle's placements; changes
        nothing. A Denial refuses nodes.
        """
        self.limit: Limits = Limits(registrar, "enablePredicate")
        """Before each batch. Reads what is on a node, not what is on others; changes nothing. How many more such pods each node
        takes (a column), or None for a shape that it does not concern.
        """
        self.live_filter: LiveFilters = LiveFilters(registrar, "enablePredicate")
        """Before each batch of a shape that it concerns. May read where pods are now; changes nothing. A Denial refuses nodes."""
        self.shared: Gathered[[Task], Shared] = Gathered(registrar, "enablePredicate")
        """Before each run of equal members. What the pod uses together with others and nobody has decided yet; changes nothing. The first of
        them is put where the others find room, too, if there is such a place.
        """
        self.fixed_score: Answers[[Shape, Indexes], Scores] = Answers(registrar, "enableNodeOrder")
        """Per batch, over the candidate nodes. A score that placements of this batch do not change, except that it may depend on
        which nodes are candidates (normalisation). None: no influence on this shape. Scores are added up.
        """
        self.load_score: LoadScores = LoadScores(registrar, "enableNodeOrder")
        """Per batch, over pairs of a node and a number of such pods already put there. A score of each node's own load alone;
        None: no influence on this shape.
        """
        self.live_score: LiveScores = LiveScores(registrar, "enableNodeOrder")
        """Per single placement, over the candidate nodes, for shapes that it concerns. A score that any placement may change."""
        self.pull_score: Answers[[Shape, Indexes], Pull] = Answers(registrar, "enableNodeOrder")
        """Per batch, over the candidate nodes. A score that rises where pods gather. While it lasts, a placement raises the scores
        of its own neighbourhood by the same amount each, and of no other node by more; so a batch that stays within one
        neighbourhood decides what single placements would. None: no influence on this shape, or the same for all candidates.
        """

    def _hyper_nodes(self, registrar: Registrar) -> None:
        self.gradient: Gradient = Gradient(registrar, "enabledHyperNodeGradient")
        """Once per gang (or sub gang) that wants closeness. Reads the gang and the tree, changes nothing. Hyper nodes to try,
        grouped; an earlier group beats any score of a later.
        """
        self.hyper_score: Answers[[SubState, Sequence[str]], Mapping[str, float]] = Answers(
            registrar, "enabledHyperNodeOrder"
        )
        """Per sub gang, over hyper nodes in which it could be placed. The score of one must not depend on which others are
        offered, so that the best can be tried first, and alone. Scores are added up.
        """

    # ----------------------------------------------------------------------------------------------- turns

    def _turns(self, registrar: Registrar) -> None:
        self.begin: Notice[[]] = Notice(registrar)
        """Once, after all plugins have opened and attempts that were cut short were mended, before the first action. The plugin
        takes up what it remembers; it may try gangs out, and leaves nothing placed.
        """
        self.veto: First[[GangState, Statement], Reason] = First(registrar)
        """Once per turn in which a gang has found places, which the statement holds. May read everything, changes nothing. A Reason
        takes the places back.
        """
        self.detour: First[[GangState], Statement] = First(registrar)
        """Once per turn in which a gang has found no places. A statement that holds some all the same, where the plugin can make up for
        what it has refused itself.
        """
        self.unplaced: Notice[[GangState]] = Notice(registrar)
        """Once per turn that came to nothing; the gang's reasons and fit errors say why. The plugin may try it out elsewhere, and leaves
        nothing placed.
        """

    # ----------------------------------------------------------------------------------------------- notices

    def _notices(self, registrar: Registrar) -> None:
        self.enqueued: Notice[[GangState]] = Notice(registrar, "enableJobEnqueued")
        """Once per gang that was admitted. The plugin charges it to its own books."""
        self.moved: Notice[[GangState, Shape, Sequence[Task], Sequence[int], int]] = Notice(registrar)
        """At every operation and its undo: sign +1 = these tasks of the gang, all of the shape, now take room on these nodes, -1 =
        they no longer do. The plugin updates its own books, exactly reversibly.
        """
        self.prebind: Gathered[[Task], Preparation] = Gathered(registrar, "enablePredicate")
        """Once per pod that is to be bound. Reads the plugin's own reservations. What is returned is written before the bind."""
        self.annotate: Merged[[Task]] = Merged(registrar, "enablePredicate")
        """Once per pod that is to be bound. Reads the plugin's own reservations. The annotations travel with the bind."""
        self.node_lock: First[[Task], str] = First(registrar, "enablePredicate")
        """Once per pod that is to be bound. The lock on its node that has to be held for it, or empty."""
        self.close: Notice[[]] = Notice(registrar)
        """Once at the end of a cycle: last word on conditions, measurements."""
