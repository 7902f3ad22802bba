"""drf: the gang that holds the smallest dominant share of the cluster comes first.

With enableHierarchy the same holds between queues, along the tree that their `volcano.sh/hierarchy` annotations draw.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster import amounts
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.points import Bound
from pumice.scheduling.sharing import hdrf

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.columns import Mask
    from pumice.cluster.gangs import Gang
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.arguments import Args
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.plugin import Books
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.evicting.victim_columns import VictimColumns, View

SHARE_NOISE = 1e-6  # shares closer than this count as equal between preemptor and victim


class _Shares:
    """The dominant shares of steady gangs in a cluster of that size."""

    def __init__(self, total: Amounts) -> None:
        self.total = total
        self.shares: dict[str, float] = {}
        self._last: tuple[Amounts, float] = ({}, 0.0)  # what equal gangs hold is mostly one object

    def add(self, gang: Gang, sign: int) -> None:
        if sign > 0:
            if self._last[0] is not gang.occupied:
                self._last = gang.occupied, amounts.dominant_share(gang.occupied, self.total)
            self.shares[gang.key] = self._last[1]
        else:
            del self.shares[gang.key]


class Drf(Plugin):
    """Dominant resource fairness between gangs, and with enableHierarchy between queues."""

    stays_open = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del args
        self.hierarchical = option.allows("enableHierarchy")

    def open(self, session: Session) -> None:
        self.session = session
        self.total = session.total
        self.held: dict[str, MutableAmounts] = {}
        self._moved: set[str] = set()  # gangs whose parts are out of date
        self._parts: tuple[Scores, Scores] | None = None  # of what gangs hold and candidates ask for
        session.on.gang_order(self.share)
        session.on.preemptable(self.preemptable, Bound(self._share_with, self._holds_more, doubtful=True))
        session.on.moved(self.moved)
        session.on.close(self.publish)
        self.tree: hdrf.ShareTree | None = None
        if self.hierarchical:
            self._open_tree(session)

    def open_books(self, session: Session) -> Books | None:
        """Gangs that come hold nothing; whole queues are compared by what they hold."""
        return super().open_books(session) if not self.hierarchical else None

    def _open_tree(self, session: Session) -> None:
        queues = {name: session.queues[name] for name in sorted(session.queues)}
        self.paths = {name: hdrf.path_of(queue.hierarchy) for name, queue in queues.items()}
        weights = {
            name: hdrf.weights_of(queue.hierarchy_weights, len(self.paths[name])) for name, queue in queues.items()
        }
        leaves = [
            hdrf.Leaf(
                key=gang.key,
                path=self.paths[gang.queue],
                weights=weights[gang.queue],
                held=gang.occupied,
                wanted=amounts.sum_of(task.request.amounts for task in gang.tasks),
            )
            for gang in sorted(session.gangs.values(), key=lambda gang: (gang.queue, gang.key))
        ]
        self.tree = hdrf.ShareTree(self.total, leaves)
        session.on.queue_order(self.compare)
        session.on.reclaimable(self.reclaimable)

    def compare(self, left: QueueInfo, right: QueueInfo) -> float:
        assert self.tree is not None
        return self.tree.compare(self.paths[left.name], self.paths[right.name])

    def reclaimable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks without which, one at a time, their queue would still come after the claimant's with its new member."""
        tree, gangs = self.tree, self.session.gangs
        own = gangs.get(claimant.gang)
        if own is None or tree is None:
            return []
        tree.hold(own.key, claimant.request.amounts, 1)
        chosen = []
        for task in candidates:
            gang = gangs.get(task.gang)
            if gang is None:
                continue
            tree.hold(gang.key, task.request.amounts, -1)
            if tree.compare(self.paths[own.queue], self.paths[gang.queue]) < 0:
                chosen.append(task)
            tree.hold(gang.key, task.request.amounts, 1)
        tree.hold(own.key, claimant.request.amounts, -1)
        return chosen

    def share(self, gang: GangState) -> float:
        return amounts.dominant_share(self.held.get(gang.key) or gang.gang.occupied, self.total)

    def publish(self) -> None:
        """Shares of gangs that hold something, for those who measure."""
        session = self.session
        if not session.explain:
            return
        shares = session.steady.sum(_Shares, self.total).shares.copy()
        for gang in {gang.key: gang for gang in (*session.restless, *session.gangs.moved)}.values():
            shares.pop(gang.key, None)
            if gang.occupied:
                shares[gang.key] = self.share(gang)
        session.shares.update({key: share for key in session.gangs if (share := shares.get(key)) is not None})

    def _held_by(self, gang: GangState) -> MutableAmounts:
        """What the gang holds, promised room included, as of now."""
        held = self.held.get(gang.key)
        if held is None:
            held = self.held[gang.key] = dict(gang.gang.occupied)
        return held

    def preemptable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks of gangs that without them would still hold at least as much as the claimant with its new member."""
        own = self.session.gangs.get(claimant.gang)
        if own is None:
            return []
        mine = self._share_with(claimant)
        left: dict[str, MutableAmounts] = {}
        chosen = []
        for task in candidates:
            gang = self.session.gangs.get(task.gang)
            if gang is None:
                continue
            theirs = left.setdefault(gang.key, dict(self._held_by(gang)))
            amounts.add(theirs, task.request.amounts, -1)
            if mine <= amounts.dominant_share(theirs, self.total) + SHARE_NOISE:
                chosen.append(task)
        return chosen

    def _share_with(self, claimant: Task, columns: VictimColumns | None = None) -> float:
        """The share of the claimant's gang with its new member."""
        del columns
        held = self._held_by(self.session.gangs[claimant.gang])
        return amounts.dominant_share(amounts.sum_of([held, claimant.request.amounts]), self.total)

    def _holds_more(self, mine: float, view: View) -> Mask:
        """Candidates whose gang, if it lost this one alone, would hold as much; which of several may go, the vote on a node says."""
        held, asked = self._holdings(view.columns)
        left: Scores = (held[:, view.gang] - asked[:, view.kind]).max(axis=0, initial=-np.inf)
        return mine <= left + 2 * SHARE_NOISE

    def _holdings(self, columns: VictimColumns) -> tuple[Scores, Scores]:
        """What gangs hold, and what each kind of candidate asks for, as parts of the whole."""
        wholes = [(name, whole) for name, whole in self.total.items() if whole >= amounts.EPSILON]

        def parts(held: Amounts) -> list[float]:
            return [held.get(name, 0) / whole for name, whole in wholes]

        if self._parts is None:
            known = ({} if gang is None else self.held.get(gang.key) or gang.occupied for gang in columns.gangs)
            held = np.array([parts(each) for each in known])
            asked = np.array([parts(request.amounts) for _, request in columns.kinds])
            self._parts = held.reshape(-1, len(wholes)).T, asked.reshape(-1, len(wholes)).T
        else:
            for key in self._moved & columns.position.keys():
                self._parts[0][:, columns.position[key]] = parts(self.held[key])
        self._moved.clear()
        return self._parts

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del nodes
        amounts.add(self._held_by(gang), shape.request.amounts, len(tasks) * sign)
        self._moved.add(gang.key)
        if self.tree is not None:
            self.tree.hold(gang.key, shape.request.amounts, len(tasks) * sign)
