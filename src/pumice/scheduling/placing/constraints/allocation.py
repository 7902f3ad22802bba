"""Choosing devices for claims on one node: every request gets its devices, or none gets any.

Requests are served in order, each with the first devices that fit; where a later one finds nothing, earlier choices are
reconsidered. The search is bounded, because its worst case is not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.scheduling.placing.constraints.devices import attribute
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pumice.api.resource import DeviceConstraint
    from pumice.scheduling.placing.constraints.devices import Ask, DeviceId, Offered, Wish

SEARCH_STEPS_MAX = 20_000  # devices tried for one pod on one node; after that the node is taken not to have them


class Given(Value, eq=False):
    """One device for one request."""

    request: str
    offered: Offered
    only_looks: bool


class OutOfSteps(Exception):  # an outcome that the search expects
    """Too many possibilities."""


class Search:
    """One attempt: the devices within reach of a node, those of them that are taken, and what is left of counters."""

    def __init__(
        self,
        within_reach: Sequence[Offered],
        is_taken: Callable[[DeviceId], bool],
        left: Mapping[tuple[str, str, str, str], int],
    ) -> None:
        self._devices = within_reach
        self._is_taken = is_taken
        self._left = dict(left)
        self._mine: set[DeviceId] = set()
        self._steps = SEARCH_STEPS_MAX

    def find(self, wishes: Sequence[Wish]) -> list[list[Given]] | None:
        """Devices for each wish, or None where they cannot all be met."""
        slots = [(number, request) for number, wish in enumerate(wishes) for request in range(len(wish.requests))]
        given: list[list[Given]] = [[] for _ in wishes]
        try:
            return given if self._serve(wishes, slots, 0, given) else None
        except OutOfSteps:
            return None

    def _serve(self, wishes: Sequence[Wish], slots: list[tuple[int, int]], turn: int, given: list[list[Given]]) -> bool:
        if turn == len(slots):
            return True
        number, request = slots[turn]
        wish = wishes[number]
        for ask in wish.requests[request]:
            for _ in self._choices(ask, wish.constraints, given[number]):
                if self._serve(wishes, slots, turn + 1, given):
                    return True
        return False

    def _choices(self, ask: Ask, constraints: Sequence[DeviceConstraint], given: list[Given]) -> Iterator[None]:
        """Put one choice of devices after the other into `given`, for as long as the caller asks for more."""
        matching = [offered for offered in self._devices if ask.matches(offered)]
        usable = [offered for offered in matching if ask.only_looks or self._is_free(offered)]
        wanted = ask.count or len(matching)
        if len(usable) < wanted or not wanted:
            return
        yield from self._pick(ask, constraints, given, usable, wanted)

    def _pick(
        self, ask: Ask, constraints: Sequence[DeviceConstraint], given: list[Given], usable: list[Offered], wanted: int
    ) -> Iterator[None]:
        if not wanted:
            yield None
            return
        for position, offered in enumerate(usable):
            if len(usable) - position < wanted:
                return
            self._steps -= 1
            if self._steps < 0:
                raise OutOfSteps
            if not self._take(ask, constraints, given, offered):
                continue
            yield from self._pick(ask, constraints, given, usable[position + 1 :], wanted - 1)
            self._give_back(given)

    def _is_free(self, offered: Offered) -> bool:
        return offered.id not in self._mine and not self._is_taken(offered.id)

    def _take(self, ask: Ask, constraints: Sequence[DeviceConstraint], given: list[Given], offered: Offered) -> bool:
        new = Given(ask.name, offered, ask.only_looks)
        if not all(_holds(constraint, [*given, new]) for constraint in constraints if _applies(constraint, ask.name)):
            return False
        if not ask.only_looks:
            if not self._is_free(offered) or any(
                self._left.get(key, 0) < amount for key, amount in offered.takes.items()
            ):
                return False
            self._mine.add(offered.id)
            for key, amount in offered.takes.items():
                self._left[key] -= amount
        given.append(new)
        return True

    def _give_back(self, given: list[Given]) -> None:
        last = given.pop()
        if not last.only_looks:
            self._mine.discard(last.offered.id)
            for key, amount in last.offered.takes.items():
                self._left[key] += amount


def _applies(constraint: DeviceConstraint, request: str) -> bool:
    """A constraint that names `gpu` means every alternative of it, `gpu/large` just that one."""
    return not constraint.requests or request in constraint.requests or parent_of(request) in constraint.requests


def parent_of(request: str) -> str:
    """`gpu` of `gpu/large`: the request of which it is an alternative."""
    return request.partition("/")[0]


def _holds(constraint: DeviceConstraint, given: Sequence[Given]) -> bool:
    """Devices without the attribute meet no constraint on it."""
    name = constraint.match_attribute or constraint.distinct_attribute
    values: list[Any] = [attribute(each.offered, name) for each in given if _applies(constraint, each.request)]
    if None in values:
        return False
    different = len(set(values))
    return different <= 1 if constraint.match_attribute else different == len(values)
