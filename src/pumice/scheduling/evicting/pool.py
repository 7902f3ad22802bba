"""Who may have to go for the gangs of one queue, and on which nodes that could make room for a pod at all.

To try a node means to ask every plugin about its pods. So all nodes are looked at in columns first: what the votes could free at most
(`votes`), added to the room that is there. Nodes on which that is too little are passed over, as trying them would; the first of the others is
tried. What was found is kept for equal claimants, and only nodes that have changed since are looked at again.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster.tasks import Status
from pumice.scheduling.evicting import votes
from pumice.scheduling.evicting.victim_columns import VictimColumns
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, TaskVictims
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.evicting.share_bound import ShareBound
    from pumice.scheduling.evicting.victim_columns import View

UNSEEN_MAX = 32  # changed nodes that are left open unseen: to ask the plugins about the one that is tried costs less than to look at it first
SCREENS_MAX = 64  # of claimants that some plugin tells apart, and of their shapes; each costs a few bytes a node


class Screen(Mutable, eq=False):
    """Which nodes could be opened for one kind of claimant."""

    claimant: GangState
    task: Task
    shape: Shape
    keys: tuple[Hashable, ...]  # of the plugins' votes
    open: Mask
    holdings: Indexes  # numbers of what could go on each node (share_bound)
    freeing: Mask  # where somebody could go at all
    frees_any: bool | None = None  # whether anywhere
    seen: int = 0  # how much of the journal of stale nodes is accounted for
    unseen: list[int] = msgspec.field(default_factory=list)  # nodes that have changed, and are open for all we know
    moves: int = -1  # the session's, when `refused` was learned
    refused: list[int] = msgspec.field(default_factory=list)  # the plugins themselves let too few go there
    asked: str = ""  # the last claimant for whom they were asked
    shut: Shut | None = None


class Shut(Value, eq=False):
    """At that moment no node could be opened, of those that came into question; some of these were free of cost for the plan, some not."""

    moves: int
    nodes: Indexes
    mixed: bool


class Pool:
    """Pods of some queues that may be evicted, by node, and as columns: the most room that evictions could make."""

    def __init__(
        self,
        session: Session,
        point: TaskVictims,
        queues: Container[str],
        statuses: frozenset[Status],
        *,
        is_preempting: bool,
        share: ShareBound | None = None,
    ) -> None:
        self.session = session
        self._is_silent = votes.is_silent(point)
        self._share = share if self._is_silent else None
        self.is_preempting = is_preempting
        self.point = point
        self.columns = columns = session.shared(VictimColumns)
        self.members: Mask = columns.preemptable & columns.pods.in_queues(queues)[columns.gang]
        self.statuses = statuses
        self._counts: Mask = np.array([status in statuses for status in Status], dtype=bool)
        # Where not even all pods that may go made room for such a pod. Within one plan that hardly ever gets better: other nodes
        # come first. By shape and priority.
        self._hopeless: dict[tuple[Shape, int], Mask] = {}
        self._screens: dict[Hashable, Screen] = {}
        self._could_open: dict[Shape, tuple[int, Mask]] = {}  # as of so many touched nodes
        self._is_known = votes.is_known(point)

    @functools.cached_property
    def has_members(self) -> Mask:
        return self.columns.everywhere().any(self.members)

    @functools.cached_property
    def _most(self) -> Column:
        """What is freed where all of them leave."""
        everywhere = self.columns.everywhere()
        none = np.zeros(len(everywhere.nodes), dtype=np.int64)
        return np.array([everywhere.sums(row * self.members) if row.any() else none for row in self.columns.demand])

    def candidates(self, node: int, claimant: GangState) -> list[Task]:
        """The pods that could go for the claimant; a gang that others leave for stays itself, unless the claimant ranks above it."""
        columns, gangs, served = self.columns, self.session.gangs, self.session.made_room_for
        rows = range(columns.edges[node], columns.edges[node + 1])
        return [
            task
            for task in (columns.tasks[row] for row in rows if self.members[row])
            if gangs[task.gang].status(task) in self.statuses
            and not (task.gang in served and gangs[task.gang].priority >= claimant.priority)
        ]

    def could_open(self, shape: Shape) -> Mask:
        """Nodes that could take the pod if all pods of the pool left: the cheap first answer to "can eviction help?"."""
        future, touched = self.session.room.future, self.session.room.touched
        seen, mask = self._could_open.get(shape, (0, None))
        if mask is None:
            mask = shape.fits(future + self._most)
            if len(self._could_open) >= SCREENS_MAX:
                self._could_open.clear()
        elif changed := list(set(touched[seen:])):
            mask[changed] = shape.fits(future[:, changed] + self._most[:, changed])
        self._could_open[shape] = (len(touched), mask)
        return mask

    # ------------------------------------------------------------------------------------------------- given up

    def start_plan(self) -> None:
        """Nodes that were given up may have changed since the plan before."""
        self._hopeless.clear()

    def give_up(self, nodes: Indexes | int, task: Task) -> None:
        """Look for victims for such a pod on these nodes again only after all others, until the next plan."""
        key = (self.session.shape(task), task.priority)
        if key not in self._hopeless:
            self._hopeless[key] = np.zeros(len(self.session.room.table), dtype=bool)
        self._hopeless[key][nodes] = True

    def promising(self, nodes: Indexes, task: Task) -> Indexes:
        """The nodes in the given order, but those last that such a pod was given up on."""
        hopeless = self._hopeless.get((self.session.shape(task), task.priority))
        if hopeless is None:
            return nodes
        last = hopeless[nodes]
        return np.concatenate((nodes[~last], nodes[last]))

    def first_that_works(self, nodes: Indexes, is_open: Mask, task: Task, works: Callable[[int], bool]) -> bool:
        """Whether one of the open nodes works, tried in the given order; those before it that are shut are given up, as trying them would."""
        return self._first(nodes, is_open, is_open, task, works)

    def first_in_share(self, screen: Screen, nodes: Indexes, task: Task, works: Callable[[int], bool]) -> bool:
        """The same without those where the queue would still be too full for the pod. They are not given up: that is no matter of the node."""
        is_open = self.is_open(screen, nodes)
        allowed = None if self._share is None else self._share.allows(screen.shape, screen.holdings)
        if allowed is None:
            return self._first(nodes, is_open, is_open, task, works)
        allowed[screen.unseen] = True
        return self._first(nodes, is_open, is_open & allowed[nodes], task, works)

    def _first(self, nodes: Indexes, is_open: Mask, worth_it: Mask, task: Task, works: Callable[[int], bool]) -> bool:
        for position in np.flatnonzero(worth_it):  # mostly the first one works
            if not self.session.spend(1):
                return False
            if works(int(nodes[position])):
                self.give_up(nodes[:position][~is_open[:position]], task)
                return True
        self.give_up(nodes[~is_open], task)
        return False

    # ------------------------------------------------------------------------------------------------- screens

    def screen(self, claimant: GangState, task: Task) -> Screen:
        """Where evictions of others than the claimant's own members could make room for the task, as of now."""
        columns, shape = self.columns, self.session.shape(task)
        columns.catch_up()
        keys = votes.keys_of(self.point, task, columns)
        own = columns.number(claimant.key)
        key = (shape, claimant.priority, task.is_best_effort, own, keys)
        screen = self._screens.pop(key, None)
        if screen is None:
            nodes = len(self.session.room.table)
            shut, unknown = np.zeros(nodes, dtype=bool), np.zeros(nodes, dtype=np.intp)
            screen = Screen(claimant, task, shape, keys, shut, unknown, shut.copy())
            self._look(screen, columns.everywhere())
        elif stale := columns.stale[screen.seen :]:
            screen.unseen += stale
            if len(screen.unseen) > UNSEEN_MAX:
                self._look_again(screen)
            else:
                screen.open[stale] = True
        screen.seen = len(columns.stale)
        self._screens[key] = screen  # the newest last
        if len(self._screens) > SCREENS_MAX:
            del self._screens[next(iter(self._screens))]
        if screen.moves != columns.moves:
            screen.moves, screen.refused = columns.moves, []
        return screen

    def is_open(self, screen: Screen, nodes: Indexes) -> Mask:
        """Which of the nodes the screen has open, without those of which equal claimants have learned better since anything moved."""
        mask = screen.open.copy()
        mask[screen.refused] = False
        if screen.unseen:
            known = mask.copy()
            known[screen.unseen] = False
            if not known[nodes].any():  # so that it is certain whether there is any
                self._look_again(screen)
                return self.is_open(screen, nodes)
        found: Mask = mask[nodes]
        return found

    def frees_any(self, screen: Screen) -> bool:
        """Whether somebody could go anywhere."""
        if screen.unseen:
            known = screen.freeing.copy()
            known[screen.unseen] = False
            if known.any():
                return True
            self._look_again(screen)
        if screen.frees_any is None:
            screen.frees_any = bool(screen.freeing.any())
        return screen.frees_any

    def refuse(self, screen: Screen, node: int, claimant: GangState) -> None:
        """The plugins were asked about this node, and let too few go. Who has no bound may answer the next claimant differently."""
        screen.asked = claimant.key
        if node in screen.unseen:
            self._look_again(screen)
        if self._is_known and screen.moves == self.columns.moves:
            screen.refused.append(node)

    def shut(self, screen: Screen, claimant: GangState) -> Shut | None:
        """What was found for an equal claimant if it holds still. Where plugins talk to claimants, this one is told what that one was."""
        if screen.refused and not self._is_silent:
            if screen.asked != claimant.key:
                votes.say_the_same(self.point, claimant.key, screen.asked)
            return None  # filters may have something to say of it as well
        return screen.shut if screen.shut is not None and screen.shut.moves == self.columns.moves else None

    def _look_again(self, screen: Screen) -> None:
        nodes = np.unique(np.array(screen.unseen, dtype=np.intp))
        screen.unseen.clear()
        self._look(screen, self.columns.on(nodes))

    def _look(self, screen: Screen, view: View) -> None:
        columns, shape = self.columns, screen.shape
        view.asked = self._asked(screen, view)
        someone = view.any(view.asked)
        chosen = votes.possible_victims(self.point, screen.keys, view)
        frees_any = bool(chosen.any())
        enough = np.ones(len(view.nodes), dtype=bool)
        for row in shape.rows:
            freed = view.sums(columns.demand[row, view.rows] * chosen) if frees_any else 0
            enough &= self.session.room.future[row, view.nodes] + freed >= shape.demand[row]
        if not self.is_preempting:  # reclaim leaves nodes alone where there is nobody to take from
            enough &= someone
        screen.open[view.nodes] = enough
        screen.freeing[view.nodes] = view.any(chosen) if frees_any else False
        screen.frees_any = None
        if self._share is not None:
            screen.holdings[view.nodes] = self._share.holdings(view, chosen)

    def _asked(self, screen: Screen, view: View) -> Mask:
        """As `candidates`, for all nodes of the view, without the claimant's own gang."""
        columns, claimant = self.columns, screen.claimant
        asked: Mask = self.members[view.rows] & self._counts[columns.status[view.rows]]
        asked &= ~(columns.served[view.gang] & (view.gang_priority >= claimant.priority))
        asked &= view.gang != columns.number(claimant.key)
        if self.is_preempting and screen.task.is_best_effort:  # it needs a slot: one of its own kind has one
            asked &= columns.best_effort[view.rows]
        return asked
