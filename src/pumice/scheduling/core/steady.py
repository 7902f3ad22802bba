"""Gangs that run and are whole (`Gang.is_steady`), and what follows from all of them together.

Most gangs of a cluster just run, and have not changed since the last cycle. What a cycle needs of them is kept from one snapshot to the next as
sums, and only gangs that have come, gone or changed are looked at: each is taken out as it was, and put in as it is. Amounts are integers,
so that a sum that was brought up to date is the one that adding up anew would give.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.gangs import Gang
    from pumice.cluster.state import Lineage, Snapshot

SUMS_MAX = 32  # kinds that are kept at a time; there are a handful


class Sum(Protocol):
    """What follows from steady gangs together, and from nothing else."""

    def add(self, gang: Gang, sign: int) -> None:
        """Put the gang in (1), or take it out as it was put in (-1)."""


S = TypeVar("S", bound=Sum)
P = ParamSpec("P")


class AmountSum:
    """Amounts of many; a name that nobody has any more is absent again.

    What equal gangs hold is mostly one object, and is counted before it is added up.
    """

    __slots__ = ("_amounts", "_holders", "_last", "_times", "_total")

    def __init__(self) -> None:
        self._amounts: MutableAmounts = {}
        self._holders: dict[str, int] = {}
        self._total: MutableAmounts | None = None
        self._last: Amounts = {}
        self._times = 0  # that the last is still to be added

    def add(self, more: Amounts, sign: int) -> None:
        """`more` is not to change afterwards."""
        if more is not self._last:
            self._add_last()
            self._last = more
        self._times += sign

    def _add_last(self) -> None:
        times, self._times = self._times, 0
        if not times:
            return
        self._total = None
        for name, value in self._last.items():
            holders = self._holders[name] = self._holders.get(name, 0) + times
            if holders:
                self._amounts[name] = self._amounts.get(name, 0) + value * times
            else:
                del self._amounts[name], self._holders[name]

    def total(self) -> MutableAmounts:
        """In the order of names, whoever came first."""
        self._add_last()
        if self._total is None:
            self._total = dict(sorted(self._amounts.items()))
        return self._total.copy()

    def __bool__(self) -> bool:
        self._add_last()
        return bool(self._holders)

    def copy(self) -> AmountSum:
        self._add_last()
        twin = AmountSum()
        twin._amounts, twin._holders = self._amounts.copy(), self._holders.copy()
        return twin


class Steady:
    """The steady gangs of one snapshot, and those that are not, in the snapshot's order."""

    def __init__(self) -> None:
        self.restless: list[Gang] = []
        self._restless: dict[str, Gang] = {}
        self._seen: Mapping[str, Gang] = {}
        self._sums: dict[Callable[..., Sum], tuple[Any, Sum]] = {}

    def follow(self, gangs: Mapping[str, Gang], lineage: Lineage | None = None) -> None:
        """Become what such gangs make it, whichever were there before; where they came of those, only what has changed is looked at."""
        seen = self._seen
        if gangs is seen:
            return
        is_heir = lineage is not None and lineage.gangs is gangs and lineage.former is seen
        if lineage is not None and is_heir:
            changed = sorted(lineage.changed)
        else:
            changed = [key for key, gang in seen.items() if gangs.get(key) is not gang]
            changed += [key for key in gangs if key not in seen]
        former = [gang for key in changed if (gang := seen.get(key)) is not None]
        fresh = [gang for key in changed if (gang := gangs.get(key)) is not None]
        self._seen = gangs
        moves = [(gang, -1) for gang in former if gang.is_steady] + [(gang, 1) for gang in fresh if gang.is_steady]
        for _, each in self._sums.values():
            for gang, sign in moves:
                each.add(gang, sign)
        for gang in former:
            self._restless.pop(gang.key, None)
        self._restless.update({gang.key: gang for gang in fresh if not gang.is_steady})
        in_order = sorted(self._restless) if is_heir else (key for key in gangs if key in self._restless)
        self.restless = [self._restless[key] for key in in_order]  # a cluster's gangs stand in the order of their keys

    def is_of(self, gangs: Mapping[str, Gang]) -> bool:
        """Whether it is up to date with them."""
        return self._seen is gangs

    def sum(self, kind: Callable[P, S], *by: P.args, **named: P.kwargs) -> S:
        """The sum of that kind; added up when it is first asked for, and anew for other arguments."""
        known, found = self._sums.pop(kind, (None, None))
        if found is None or known != (by, named):
            found = kind(*by, **named)
            for gang in self._seen.values():
                if gang.is_steady:
                    found.add(gang, 1)
        self._sums[kind] = ((by, named), found)  # the last that was asked for comes last
        if len(self._sums) > SUMS_MAX:
            del self._sums[next(iter(self._sums))]
        return cast("S", found)

    def forget(self, kind: Callable[..., Sum]) -> None:
        """Add up anew what is asked for next."""
        self._sums.pop(kind, None)


def of(snapshot: Snapshot) -> Steady:
    known: Steady | None = snapshot.carried.get(Steady)
    if known is not None and known.is_of(snapshot.gangs):
        return known
    steady: Steady = snapshot.carried.pop(Steady, None) or Steady()  # not left there half brought up to date
    steady.follow(snapshot.gangs, snapshot.lineage)
    snapshot.carried[Steady] = steady
    return steady
