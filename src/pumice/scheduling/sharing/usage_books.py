"""Accounts of plugin fairshare, and what it keeps up while gangs start and end without a cycle: usage, instant by instant, and whose turn is first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice.cluster import amounts
from pumice.scheduling.core.plugin import RankingBooks
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.instant import Instant
    from pumice.scheduling.core.plugin import Holder
    from pumice.scheduling.sharing.decayed_usage import Ledger, Name, Usage


class Account(Mutable, eq=False):
    """A queue, or a user in a queue: what it has used until now, and what it holds in this session."""

    name: Name
    weight: float
    used: float
    share_of: Callable[[Amounts], float]
    ahead: float  # seconds
    base: MutableAmounts = msgspec.field(default_factory=dict)  # held when the session began
    held: MutableAmounts = msgspec.field(default_factory=dict)  # with what this session places and admits
    _standing: float | None = None

    def move(self, more: Amounts, times: int) -> None:
        amounts.add(self.held, more, times)
        self._standing = None

    @property
    def standing(self) -> float:
        """The least goes first."""
        if self._standing is None:
            self._standing = self.charged / self.weight
        return self._standing

    @property
    def charged(self) -> float:
        """Usage, and what is held as if it were held for some time: nobody takes all the room in one cycle unseen."""
        return self.used + self.ahead * self.share_of(self.held)


class Rules(Value, eq=False):
    """By what lines are ranked."""

    share_of: Callable[[Amounts], float]
    weight_of: Callable[[str, str], float]  # of a user in a queue
    ahead: float  # seconds
    trusts_label: bool
    ranks_by_usage: bool  # nothing else says where a gang stands in its queue
    charges_admitted: bool


class UsageBooks(RankingBooks):
    """Begins with a ledger of what is held as the session opens; `paths` are the queues above each and itself, `rules` say who ranks by what.

    A line for each user in a queue. It stands as the user's account does.
    """

    def __init__(self, ledger: Ledger, paths: Mapping[str, Sequence[str]], rules: Rules) -> None:
        self._ledger = ledger
        self._paths = paths
        self._rules = rules
        self.while_waiting = rules.ranks_by_usage
        self._lines: dict[Name, int] = {}
        self._names: list[Name] = []
        self._numbers = np.zeros(0, dtype=np.intp)  # of the lines' names in the ledger
        self._weights = np.zeros(0)
        self._used = np.zeros(0)
        self._charged: dict[int, MutableAmounts] = {}  # what lines hold that were charged with more at this instant
        self.standing = np.zeros(0)

    def come(self, coming: Sequence[Holder], now: Instant) -> Sequence[Holder] | None:
        """Of one queue: each time the oldest gang of the user with the least usage, with what has been admitted and placed for it."""
        lines: dict[int, list[Holder]] = {}
        for each in coming:
            lines.setdefault(self.line_of(each), []).append(each)
        if len(lines) <= 1:
            return coming
        if len({self._names[line][0] for line in lines}) > 1 or not self._rules.ranks_by_usage:
            return None
        self.begin(now)
        for line, waiting in lines.items():
            for each in waiting:
                self.admitted(line, each.minimum)
        places = {id(each): place for place, each in enumerate(coming)}
        turns: list[Holder] = []
        while lines:
            line = min(lines, key=lambda each: (self.standing[each], places[id(lines[each][0])]))
            turns.append(lines[line].pop(0))
            self.started(line, turns[-1].amounts)
            if not lines[line]:
                del lines[line]
        return turns

    # ------------------------------------------------------------------------------------------------- lines

    def line_of(self, gang: Holder) -> int:
        name = self._name(gang)
        line = self._lines.setdefault(name, len(self._names))
        if line == len(self._names):
            self._names.append(name)
            self._numbers = np.append(self._numbers, self._ledger.number(name))
            self._weights = np.append(self._weights, self._rules.weight_of(*name))
            self._used, self.standing = np.append(self._used, 0.0), np.append(self.standing, 0.0)
        return line

    def begin(self, now: Instant) -> None:
        self._charged.clear()
        self._used = self._ledger.usage_at(now)[self._numbers]
        self.standing = (self._used + self._rules.ahead * self._ledger.shares[self._numbers]) / self._weights

    def admitted(self, line: int, minimum: Amounts) -> None:
        if self._rules.charges_admitted:
            self.started(line, minimum)

    def started(self, line: int, more: Amounts) -> None:
        held = self._charged.get(line)
        if held is None:
            held = self._charged[line] = dict(self._ledger.held(self._names[line]))
        amounts.add(held, more)
        charged = float(self._used[line]) + self._rules.ahead * self._rules.share_of(held)
        self.standing[line] = charged / float(self._weights[line])

    # ------------------------------------------------------------------------------------------------- the ledger

    def ended(self, gang: Holder) -> None:
        self._hold(gang, -1)

    def settle(self, started: Sequence[Holder], now: Instant) -> None:
        for each in started:
            self._hold(each, 1)
        self._ledger.settle(now)

    def learned(self, now: Instant) -> Usage:
        return self._ledger.memory(now)

    def _hold(self, gang: Holder, sign: int) -> None:
        for name in (self._name(gang), *((above, "") for above in self._paths[gang.queue])):
            self._ledger.hold(name, gang.amounts, sign)

    def _name(self, gang: Holder) -> Name:
        return gang.queue, gang.spec.user_by(trusts_label=self._rules.trusts_label)
