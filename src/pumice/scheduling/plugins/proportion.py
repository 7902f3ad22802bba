"""proportion: divides the cluster between queues by weight, as far as they want their part; the rest is lent out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.scheduling.core.codes import Amount, Code, Facts
from pumice.scheduling.core.plugin import Books, Plugin, ShareBooks
from pumice.scheduling.core.points import Beyond, Vote
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.evicting import votes
from pumice.scheduling.sharing import admitted, division, quotas

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.plugin import Holder
    from pumice.scheduling.core.points import Freed
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape


NAME = "proportion"
SHARE_CODES = frozenset({Code.QUEUE_SHARE_USED, Code.QUEUE_SHARE_TOO_SMALL})


class _OneQueue(ShareBooks):
    """Who comes first of several queues depends on what each of them holds and deserves. One alone deserves what it asks for, up to all there is."""

    def __init__(self, total: Amounts) -> None:
        self._total = total

    def admits(self, each: Amounts, used: Amounts, promised: Amounts) -> int:
        return amounts.times_within(amounts.surplus(self._total, used), promised, each)

    def come(self, coming: Sequence[Holder], now: Instant) -> Sequence[Holder] | None:
        del now
        return coming if len({each.queue for each in coming}) <= 1 else None


class Proportion(Plugin):
    """A queue may hold its deserved part and no more; others may take back what lies beyond it."""

    essential = True
    stays_open = True

    def open(self, session: Session) -> None:
        self.session = session
        self.is_kept_open = False  # what queues hold is not told then
        self.accounts = quotas.flat_accounts(session)
        division.divide(session.total, list(self.accounts.values()))
        for account in self.accounts.values():
            account.share = quotas.share_of(account)
        self._overused: dict[str, bool] = {}  # by queue, until something moves in it
        self._said: dict[
            str, tuple[object, Reason]
        ] = {}  # the same: why the last gang was refused, and what that is about
        self._preemptive: dict[str, tuple[Request, bool]] = {}  # the same: whether it has a right to one more such pod
        self.guaranteed = [queue for queue in session.queues.values() if queue.guarantee]
        self.allocated = amounts.sum_of(account.allocated for account in self.accounts.values())
        on = session.on
        on.queue_order(self.compare)
        on.overused(self.overused)
        on.queue_rights(self.compare_rights)
        beyond = Beyond(self.may_exceed, self.allocatable_beyond)
        on.allocatable(
            self.allocatable,
            why=self.why,
            later=self.allocatable_later,
            beyond=beyond,
            could=self.could_take,
            beside=self.has_room_beside,
        )
        on.preemptive(self.preemptive)
        on.reclaimable(self.reclaimable, votes.by_kind(self._may_lose))
        books = {name: (account,) for name, account in self.accounts.items()}
        on.reclaimable.shield(
            functools.partial(quotas.above_guarantees, session, books), quotas.guarantees_bound(session, books)
        )
        on.enqueueable(self.enqueueable)
        on.enqueued(self.enqueued)
        on.moved(self.moved)
        on.close(lambda: quotas.publish(session, self.accounts.values()))

    def open_books(self, session: Session) -> Books | None:
        """Where nothing is set aside for queues, or kept from them: what all of them ask for finds room, so each deserves what it asks for."""
        is_free = all(
            queue.is_open and not queue.capability and not queue.guarantee for queue in session.queues.values()
        )
        self.is_kept_open = is_free
        return _OneQueue(session.total) if is_free else None

    def compare(self, left: QueueInfo, right: QueueInfo) -> float:
        if left.priority != right.priority:
            return right.priority - left.priority
        return self._share(left) - self._share(right)

    def compare_rights(self, left: QueueInfo, right: QueueInfo) -> float:
        """Whoever lacks something of its share comes before who holds all of it."""
        if self._share(left) < 1 and self._share(right) < 1:
            return 0
        return self.overused(left) - self.overused(right)

    def _share(self, queue: QueueInfo) -> float:
        account = self.accounts.get(queue.name)
        return account.share if account is not None else 0.0

    def overused(self, queue: QueueInfo) -> bool:
        overused = self._overused.get(queue.name)
        if overused is None:
            account = self.accounts[queue.name]
            overused = self._overused[queue.name] = amounts.within(account.deserved, account.allocated)
        return overused

    def allocatable(self, queue: QueueInfo, shape: Shape, count: int) -> int:
        if not queue.is_open:
            return 0
        if self.is_kept_open:
            return count
        account = self.accounts[queue.name]
        return account.copies_within(account.deserved, shape.request.amounts, count)

    def allocatable_later(self, queue: QueueInfo, shape: Shape, count: int, freed: Freed) -> int:
        if not queue.is_open:
            return 0
        if self.is_kept_open:
            return count
        account = self.accounts[queue.name]
        return account.copies_within(account.deserved, shape.request.amounts, count, freed.get(queue.name, {}))

    def could_take(self, queue: QueueInfo, shape: Shape, freed: Amounts) -> bool:
        return self.allocatable_later(queue, shape, 1, {queue.name: freed}) > 0

    def has_room_beside(self, queue: QueueInfo, gang: GangState, held: Freed) -> bool:
        return self.accounts[queue.name].has_room_beside(held.get(queue.name, {}), gang)

    def may_exceed(self, queue: QueueInfo, gang: GangState) -> bool:
        """A gang that the rest of the share is too small for, where the queue lacks something of all that the gang asks for.

        Shares that no gang fits into would otherwise leave the cluster idle for ever: three queues with a third of eight cards
        each, and gangs of four. What is left of a gang that has lost members does not count: it asks to be whole, as at its start.
        """
        if not queue.is_open or not any(reason.code in SHARE_CODES for reason in gang.reasons):
            return False
        account = self.accounts[queue.name]
        own: Amounts = gang.occupied if gang.tally.ready < gang.minimum else {}
        return all(
            account.allocated.get(name, 0) - own.get(name, 0) < account.deserved.get(name, 0)
            for name, value in gang.gang.asked.items()
            if value > 0 and name != amounts.PODS
        )

    def allocatable_beyond(self, queue: QueueInfo, shape: Shape, count: int) -> int:
        """As allocatable, within the queue's ceiling, and beside what all others hold or are guaranteed, whichever is more."""
        account = self.accounts[queue.name]
        others = amounts.surplus(self.allocated, account.allocated)
        for other in self.guaranteed:
            if other is not queue:
                books = self.accounts.get(other.name)
                amounts.add(others, amounts.surplus(other.guarantee, books.allocated if books is not None else {}))
        limit = amounts.at_most(account.ceiling, amounts.surplus(self.session.total, others), absent=0)
        return max(self.allocatable(queue, shape, count), account.copies_within(limit, shape.request.amounts, count))

    def why(self, queue: QueueInfo, gang: GangState, shape: Shape) -> Reason:
        if not queue.is_open:
            return _not_open(queue)
        if gang.places:  # what was tried out for it counts
            return self._why(queue, gang, shape)
        spec, members = gang.spec, gang.gang
        about = shape.request, spec.minimum, spec.min_member, members.is_uniform, members.least, members.asked
        known = self._said.get(queue.name)
        if known is None or known[0] != about:
            known = self._said[queue.name] = (about, self._why(queue, gang, shape))
        return known[1]

    def _why(self, queue: QueueInfo, gang: GangState, shape: Shape) -> Reason:
        account = self.accounts[queue.name]
        if too_much := quotas.beyond_share(account, gang):
            facts = Facts(queue=queue.name, amounts=too_much)
            return Reason(Code.QUEUE_SHARE_TOO_SMALL, NAME, facts, cure=Cure.EVICTION)
        asked = shape.request.amounts
        over = amounts.too_much(account.allocated, asked, account.deserved)
        facts = Facts(queue=queue.name, amounts=quotas.shortage(account, account.deserved, over, gang))
        return Reason(Code.QUEUE_SHARE_USED, NAME, facts, cure=Cure.EVICTION)

    def preemptive(self, queue: QueueInfo, tasks: Sequence[Task]) -> bool:
        account = self.accounts.get(queue.name)
        if account is None or not queue.is_open:
            return False
        if len(tasks) != 1:
            return self._is_within(account, amounts.sum_of(task.request.amounts for task in tasks))
        request = tasks[0].request
        known = self._preemptive.get(queue.name)
        if known is None or known[0] is not request:
            known = self._preemptive[queue.name] = (request, self._is_within(account, request.amounts))
        return known[1]

    @staticmethod
    def _is_within(account: quotas.Account, asked: Amounts) -> bool:
        """Whether so much more leaves the queue within what it deserves."""
        return not amounts.too_much(account.allocated, asked, account.deserved)

    def reclaimable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        """Tasks of queues that hold more than they deserve, until they no longer do; guarantees are kept."""
        del claimant
        held: dict[str, MutableAmounts] = {}
        chosen = []
        for task in candidates:
            gang = self.session.gangs.get(task.gang)
            if gang is None:
                continue
            account = self.accounts[gang.queue]
            running = held.setdefault(gang.queue, dict(account.allocated))
            request = task.request.amounts
            if not amounts.within(running, account.deserved) and quotas.keeps_guarantee(account, running, request):
                amounts.add(running, request, -1)
                chosen.append(task)
        return chosen

    def _may_lose(self, claimant: Task, queue: str, request: Request) -> bool:
        del claimant
        account = self.accounts[queue]
        if amounts.within(account.allocated, account.deserved):
            return False
        return quotas.keeps_guarantee(account, account.allocated, request.amounts)

    def enqueueable(self, gang: GangState) -> Vote | Reason:
        queue = self.session.queue_of(gang)
        if not queue.is_open:
            return _not_open(queue)
        minimum = gang.spec.minimum
        if minimum is None:
            return Vote.PERMIT
        account = self.accounts[queue.name]
        over = account.beyond_ceiling(minimum)
        if not over:
            return Vote.PERMIT
        never = amounts.beyond(minimum, account.ceiling, asked=minimum)
        facts = Facts(amounts=tuple(Amount(name) for name in over))
        return Reason(Code.QUEUE_QUOTA_INSUFFICIENT, NAME, facts, cure=Cure.CHANGE if never else Cure.WAITING)

    def enqueued(self, gang: GangState) -> None:
        if gang.spec.minimum is not None:
            account = self.accounts[gang.queue]
            amounts.add(account.admitted, admitted.ungated_minimum(gang))

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del nodes
        if self.is_kept_open:
            return
        account = self.accounts[gang.queue]
        for books in (account.allocated, self.allocated):
            amounts.add(books, shape.request.amounts, len(tasks) * sign)
        account.share = quotas.share_of(account)
        self._overused.pop(gang.queue, None)
        self._said.pop(gang.queue, None)
        self._preemptive.pop(gang.queue, None)


def _not_open(queue: QueueInfo) -> Reason:
    return Reason(Code.QUEUE_NOT_OPEN, NAME, Facts(queue=queue.name, state=queue.state))
