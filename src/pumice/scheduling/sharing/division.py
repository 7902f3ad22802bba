"""The cluster divided between queues by weight: water filling, as proportion does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster import amounts

if TYPE_CHECKING:
    from pumice.cluster.amounts import MutableAmounts
    from pumice.scheduling.sharing.quotas import Account

HAIR, HAIR_PART = 1e-6, 1e-12  # thousandths of a card or bytes, and parts of the amount: what adding up floats may miss


def divide(total: amounts.Amounts, accounts: list[Account]) -> None:
    """Give every queue its deserved part of the total."""
    _fill(total, accounts)
    for account in accounts:
        account.deserved = {name: _snap(value) for name, value in account.deserved.items()}


def _snap(value: float) -> float:
    """A sum of fractions that misses a whole number by a hair means that number: two cards less a hair would be one."""
    whole = round(value)
    return whole if abs(value - whole) <= max(HAIR, abs(value) * HAIR_PART) else value


def _fill(total: amounts.Amounts, accounts: list[Account]) -> None:
    """Water filling: what is left goes to unsatisfied queues by weight, until no queue wants more or nothing is left."""
    left = dict(total)
    unmet = list(accounts)
    while unmet and (weight := sum(account.queue.weight for account in unmet)):
        before = dict(left)
        taken: MutableAmounts = {}
        still = []
        for account in unmet:
            former = account.deserved
            account.deserved = _next_deserved(account, before, account.queue.weight / weight)
            gain = {name: value - former.get(name, 0) for name, value in account.deserved.items()}
            amounts.add(taken, gain)
            if not amounts.within(account.request, account.deserved) and account.deserved != former:
                still.append(account)
        unmet = still
        left = {name: max(value - taken.get(name, 0), 0) for name, value in before.items()}
        if amounts.is_empty(left) or left == before:
            return


def _next_deserved(account: Account, left: amounts.Amounts, part: float) -> MutableAmounts:
    """One round's gain, within the ceiling and what the queue asks for, and never below its guarantee."""
    grown = {name: account.deserved.get(name, 0) + value * part for name, value in left.items()}
    grown = amounts.at_most(grown, account.ceiling, absent=amounts.UNLIMITED)
    grown = amounts.at_most(grown, account.request, absent=0)
    return amounts.at_least(grown, account.queue.guarantee)
