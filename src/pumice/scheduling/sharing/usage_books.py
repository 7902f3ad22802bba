"""Accounts of plugin fairshare, and what it keeps up while gangs start and end without a cycle: usage, instant by instant, and whose turn is first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.cluster import amounts
from pumice.scheduling.core.plugin import RankingBooks
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Mapping, Sequence

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


class UsageBooks(RankingBooks):
    """Begins with a ledger of what is held as the session opens; `paths` are the queues above each and itself."""

    def __init__(
        self,
        ledger: Ledger,
        paths: Mapping[str, Sequence[str]],
        new_account: Callable[[Name, float], Account],
        *,
        trusts_label: bool,
        knows_turns: bool,
    ) -> None:
        self._ledger = ledger
        self._paths = paths
        self._new_account = new_account
        self._trusts_label = trusts_label
        self.knows_turns = knows_turns

    def come(self, coming: Sequence[Holder], now: Instant) -> Sequence[Holder] | None:
        """Of one queue: each time the oldest gang of the user with the least usage, with what has been admitted and placed for it."""
        lines: dict[Name, list[Holder]] = {}
        for each in coming:
            lines.setdefault(self._name(each), []).append(each)
        if len(lines) <= 1:
            return coming
        if len({queue for queue, _ in lines}) > 1 or not self.knows_turns:
            return None
        turns = self.turns(coming, coming, now)
        return [next(turns), *(turns.send(True) for _ in coming[1:])]

    def turns(
        self, waiting: Sequence[Holder], admitted: Sequence[Holder], now: Instant
    ) -> Generator[Holder, bool, None]:
        """Each time the oldest gang of the user with the least usage, with what has been admitted and placed for it."""
        lines: dict[Name, list[Holder]] = {}
        for each in waiting:
            lines.setdefault(self._name(each), []).append(each)
        usage, places = self._ledger.usage_at(now), {id(each): place for place, each in enumerate(waiting)}
        accounts = {
            name: self._account(name, [each for each in admitted if self._name(each) == name], usage.get(name, 0.0))
            for name in lines
        }
        while lines:
            name = min(lines, key=lambda each: (accounts[each].standing, places[id(lines[each][0])]))
            turn = lines[name].pop(0)
            if (yield turn):
                accounts[name].move(turn.amounts, 1)
            if not lines[name]:
                del lines[name]

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
        return gang.queue, gang.spec.user_by(trusts_label=self._trusts_label)

    def _account(self, name: Name, line: Iterable[Holder], used: float) -> Account:
        """As it is when all of these have been admitted."""
        account = self._new_account(name, used)
        account.held = dict(self._ledger.held(name))
        for each in line:
            account.move(_minimum(each), 1)
        return account


def _minimum(gang: Holder) -> MutableAmounts:
    """What its group names as such: that of the gang whose spec it is, for the pods that it has."""
    spec = gang.spec
    return {name: value // spec.min_member * gang.pods for name, value in (spec.minimum or {}).items()}
