"""What plugins could let go at most, on all nodes at once: the bound by which nodes are passed over without a single call.

A vote in columns is a bound of the vote on one node: every pod that the plugin would choose is in its mask, whoever else is asked about, and
where the mask has any of the asked, the plugin chooses at least one. So the rules of tiers, intersections and fallbacks (`Victims`) can be
followed with three outcomes a node: surely some victims, surely none, or perhaps. A node on which not even the bound makes enough room is
one on which the plugins themselves would not; on the others they are asked.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.core.points.combination import Bound

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from pumice.cluster.columns import Mask
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.points import TaskVictims
    from pumice.scheduling.core.points.combination import Hook, TaskVote
    from pumice.scheduling.evicting.victim_columns import VictimColumns, View


def keys_of(point: TaskVictims, claimant: Task, columns: VictimColumns) -> tuple[Hashable, ...]:
    """What the masks depend on beside the candidates: while it is the same, only candidates that have changed are asked about again."""
    bounds = (hook.call.bound for hook in (*point.shield.hooks, *point.hooks))
    return tuple(None if bound is None else bound.key(claimant, columns) for bound in bounds)


def say_the_same(point: TaskVictims, claimant: str, other: str) -> None:
    """The claimant is passed over where an equal one was refused."""
    for hook in (*point.shield.hooks, *point.hooks):
        if hook.call.bound is not None and hook.call.bound.as_said_to is not None:
            hook.call.bound.as_said_to(claimant, other)


def is_silent(point: TaskVictims) -> bool:
    """Whether no plugin is to be heard on every node that could be opened: none has no bound, and none says anything to claimants."""
    return is_known(point) and all(hook.call.bound.as_said_to is None for hook in point.shield.hooks if hook.call.bound)


def is_known(point: TaskVictims) -> bool:
    """Whether every plugin votes in columns too, and so says what its votes depend on."""
    return all(hook.call.bound is not None for hook in (*point.shield.hooks, *point.hooks))


def lets_nobody_go(point: TaskVictims, claimant: Task, queue: str) -> bool:
    """Whether numbers say beforehand that nobody of the queue could go for the claimant: a plugin that lets nobody go ends its tier."""
    ended = {hook.tier for hook in point.hooks if _chooses_nobody(hook, claimant, queue)}
    return all(hook.tier in ended for hook in point.hooks)


def _chooses_nobody(hook: Hook[TaskVote], claimant: Task, queue: str) -> bool:
    bound = hook.call.bound
    return bound is not None and bound.nobody is not None and bound.nobody(claimant, queue)


def by_kind(
    may_lose: Callable[[Task, str, Request], bool],
    of: Callable[[Task], Hashable] = lambda _: None,
    *,
    exact: bool = False,
) -> Bound:
    """The bound of a vote that looks at a candidate's queue and request: whether such a pod may go as long as nobody else does.

    `of` tells claimants apart that get different answers.
    """
    known: dict[Hashable, tuple[int, tuple[bool, ...]]] = {}

    def key(claimant: Task, columns: VictimColumns) -> tuple[bool, ...]:
        own = of(claimant)
        moves, answers = known.get(own, (-1, ()))
        if moves != columns.moves:
            answers = tuple(may_lose(claimant, queue, request) for queue, request in columns.kinds)
            known[own] = (columns.moves, answers)
        return answers

    def mask(answers: tuple[bool, ...], view: View) -> Mask:
        found: Mask = np.array(answers, dtype=bool)[view.kind]
        return found

    return Bound(key, mask, exact=exact)


def possible_victims(point: TaskVictims, keys: Sequence[Hashable], view: View) -> Mask:
    """Of the rows that are asked about, those that could be chosen; never less than what is."""
    shields = len(point.shield.hooks)
    is_sure = True
    for hook, key in zip(point.shield.hooks, keys, strict=False):
        bound = hook.call.bound
        if bound is not None:
            view.asked &= bound.mask(key, view)
        is_sure = is_sure and bound is not None and bound.exact
    chosen = np.zeros(len(view), dtype=bool)
    open_nodes = view.any(view.asked)
    pairs = zip(point.hooks, keys[shields:], strict=True)
    for _, tier in itertools.groupby(pairs, key=lambda pair: pair[0].tier):
        ballot = _Tier(view, is_sure=is_sure)
        for hook, key in tier:
            ballot.add(hook, key)
        chosen |= ballot.chosen & view.spread(open_nodes)
        open_nodes &= ~ballot.some
    return chosen


class _Tier:
    """One tier's outcome so far, node by node: `some` victims for sure, `none` for sure, or neither: perhaps."""

    def __init__(self, view: View, *, is_sure: bool) -> None:
        self.view = view
        self.is_sure = is_sure
        self.chosen: Mask = np.zeros(len(view), dtype=bool)
        self.some: Mask = np.zeros(len(view.nodes), dtype=bool)
        self.none: Mask = np.ones(len(view.nodes), dtype=bool)
        # `chosen` is what is chosen, and not only a bound of it.
        self.exact: Mask = np.zeros(len(view.nodes), dtype=bool)
        self.ended: Mask = np.zeros(len(view.nodes), dtype=bool)

    def add(self, hook: Hook[TaskVote], key: Hashable) -> None:
        view, bound = self.view, hook.call.bound
        if self.ended.all():
            return
        own = view.asked if bound is None else view.asked & bound.mask(key, view)
        if not own.any():
            self._end()
            return
        votes, going_on = view.any(own), ~self.ended
        self.ended |= ~votes  # a plugin that lets nobody go ends its tier
        decides = going_on & votes
        joins = decides & self.some
        self._join(own, joins, bound)
        starts = decides & ~joins  # nothing was left of the tier's choice, or perhaps nothing: it may start afresh
        self._start(own, starts, bound)
        over = view.spread(self.ended)
        self.chosen &= ~over
        self.some &= ~self.ended
        self.none |= self.ended

    def _end(self) -> None:
        """On all nodes, without a victim."""
        for mask in (self.chosen, self.some):
            mask[:] = False
        for mask in (self.none, self.ended):
            mask[:] = True

    def _join(self, own: Mask, nodes: Mask, bound: Bound | None) -> None:
        """Those that are in both. Some are left for sure if one side is known exactly and the other lies within it, or if both are."""
        view, spread = self.view, self.view.spread(nodes)
        before, exact = self.chosen, bound is not None and bound.exact
        within_own = ~view.any(before & ~own & spread)
        own_within = ~view.any(own & ~before & spread)
        self.chosen = before & (own | ~spread)
        left = view.any(self.chosen)
        sure = left & self.exact & (exact | (own_within & self._is_sure(bound))) | within_own & exact
        self.some &= ~nodes | sure
        self.none |= nodes & ~left
        self.exact &= ~nodes | exact

    def _start(self, own: Mask, nodes: Mask, bound: Bound | None) -> None:
        self.chosen = np.where(self.view.spread(nodes), own, self.chosen)
        afresh = nodes & self.none
        self.some |= afresh & self._is_sure(bound)
        self.exact = np.where(nodes, afresh & (self._is_sure(bound) and bound is not None and bound.exact), self.exact)
        self.none &= ~nodes

    def _is_sure(self, bound: Bound | None) -> bool:
        """Whether the plugin lets some go wherever its mask does."""
        return self.is_sure and bound is not None and not bound.doubtful
