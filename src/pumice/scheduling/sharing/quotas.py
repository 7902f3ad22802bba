"""What queues hold and want at the start of a cycle: the common ground of proportion and capacity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.api.scheduling import ROOT_QUEUE, PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core.codes import Amount
from pumice.scheduling.core.decisions import QueueFigures
from pumice.scheduling.evicting import votes
from pumice.scheduling.sharing import admitted, holdings
from pumice.values import Mutable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Bound
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.sharing.holdings import Holding
    from pumice.scheduling.sharing.queue_tree import QueueTree


NOTHING: Amounts = {}


class Account(Mutable, eq=False):
    """One queue's books. `allocated` follows every placement of the session; the rest is as of its start."""

    queue: QueueInfo
    ceiling: MutableAmounts  # what the queue may hold at most (real capability)
    allocated: MutableAmounts = msgspec.field(default_factory=dict)
    request: MutableAmounts = msgspec.field(default_factory=dict)  # allocated and waiting
    admitted: MutableAmounts = msgspec.field(default_factory=dict)  # promised at enqueue, not allocated yet
    elastic: MutableAmounts = msgspec.field(default_factory=dict)  # held beyond the gangs' minimums
    deserved: MutableAmounts = msgspec.field(default_factory=dict)
    share: float = 0.0

    def enter(self, gang: GangState) -> None:
        """Count a gang at the start of the session."""
        amounts.add(self.allocated, gang.occupied)
        amounts.add(self.request, gang.occupied)
        amounts.add(self.request, gang.gang.asked)
        minimum = gang.spec.minimum
        amounts.add(self.elastic, amounts.surplus(gang.occupied, minimum or {}))
        if minimum is None or gang.has_reservation:
            return
        started = gang.phase == PodGroupPhase.RUNNING.value and gang.tally.occupying >= gang.spec.min_member
        if gang.phase == PodGroupPhase.INQUEUE.value or started:
            amounts.add(self.admitted, admitted.outstanding(gang))

    def enter_steady(self, held: Holding) -> None:
        """The same, for all steady gangs of the queue."""
        amounts.add(self.allocated, held.occupied.total())
        amounts.add(self.request, held.occupied.total())
        amounts.add(self.elastic, held.elastic.total())
        amounts.add(self.admitted, held.admitted.total())

    def beyond_ceiling(self, minimum: Amounts) -> list[str]:
        """Resources in which admitting a minimum would exceed the ceiling; what is held beyond minimums can be given back."""
        held = {
            name: self.allocated.get(name, 0) + self.admitted.get(name, 0) - self.elastic.get(name, 0)
            for name in minimum
        }
        return amounts.too_much(held, minimum, self.ceiling)

    def copies_within(self, limit: Amounts, request: Amounts, count: int, freed: Amounts = NOTHING) -> int:
        """How many of `count` such requests keep `allocated`, less what is freed, within the limit; pods are no quota, absent is zero."""
        for name, value in request.items():
            if value > 0 and name != amounts.PODS:
                left = limit.get(name, 0) - self.allocated.get(name, 0) + freed.get(name, 0)
                if left < value * count:
                    count = max(int(left // value), 0)
        return count

    def has_room_beside(self, held: Amounts, gang: GangState) -> bool:
        """Whether it is within its ceiling, in what the gang asks for, beside what others hold that it is charged for no more."""
        over = amounts.too_much(self.allocated, held, self.ceiling)
        return not any(gang.gang.asked.get(name, 0) > 0 for name in over)


def flat_accounts(session: Session) -> dict[str, Account]:
    """Books of all queues that have gangs, side by side: guarantees of all queues are set aside before any queue borrows."""
    guaranteed = amounts.sum_of(queue.guarantee for queue in session.queues.values())
    present = holdings.by_queue(session).keys() | {gang.queue for gang in session.restless}
    accounts = {
        name: Account(queue, ceiling(session.total, guaranteed, queue))
        for name, queue in session.queues.items()
        if name in present
    }
    _enter_all(session, accounts)
    return accounts


def _enter_all(session: Session, accounts: Mapping[str, Account]) -> None:
    for name, held in holdings.by_queue(session).items():
        accounts[name].enter_steady(held)
    for gang in session.restless:
        accounts[gang.queue].enter(gang)


def ceiling(total: Amounts, guaranteed: Amounts, queue: QueueInfo) -> MutableAmounts:
    """The whole less what is guaranteed to others, at most the queue's capability; what that does not mention is unlimited."""
    free = amounts.surplus(total, guaranteed)
    amounts.add(free, queue.guarantee)
    return amounts.at_most(free, _capability(queue), absent=amounts.UNLIMITED)


def _capability(queue: QueueInfo) -> MutableAmounts:
    """The limits that are set; a zero of cpu or memory means "not set" (Volcano parity)."""
    return {
        name: value
        for name, value in queue.capability.items()
        if value > 0 or name not in {amounts.CPU, amounts.MEMORY}
    }


def tree_accounts(session: Session, tree: QueueTree) -> dict[str, Account]:
    """Books of all queues of a tree: what gangs of one queue hold counts for every queue above it as well."""
    own = {name: Account(queue, {}) for name, queue in tree.queues.items()}
    _enter_all(session, own)
    accounts = {
        name: Account(queue, {}, deserved=amounts.at_least(queue.deserved, queue.guarantee))
        for name, queue in tree.queues.items()
    }
    for name, mine in own.items():
        for above in tree.paths[name]:
            total = accounts[above]
            amounts.add(total.allocated, mine.allocated)
            amounts.add(total.request, mine.request)
            amounts.add(total.admitted, mine.admitted)
            amounts.add(total.elastic, mine.elastic)
    set_ceilings(session.total, tree, accounts)
    return accounts


def set_ceilings(total: Amounts, tree: QueueTree, accounts: dict[str, Account]) -> None:
    """From the root down: what the parent may hold less what is guaranteed to siblings, at most the capability.

    The root limits only what its capability names, not to the size of the cluster: clusters grow. A capability that a queue
    does not set is its parent's.
    """
    root = accounts[ROOT_QUEUE]
    capabilities = {ROOT_QUEUE: _capability(root.queue)}
    unlimited = dict.fromkeys(total, amounts.UNLIMITED)
    root.ceiling = amounts.at_most(unlimited, capabilities[ROOT_QUEUE], absent=amounts.UNLIMITED)
    root.deserved = amounts.sum_of(accounts[name].deserved for name in tree.children.get(ROOT_QUEUE, ()))
    parents = [ROOT_QUEUE]
    for parent in parents:
        children = tree.children.get(parent, ())
        guaranteed = amounts.sum_of(tree.queues[name].guarantee for name in children)
        for name in children:
            free = amounts.surplus(accounts[parent].ceiling, guaranteed)
            amounts.add(free, tree.queues[name].guarantee)
            capabilities[name] = {**capabilities[parent], **_capability(tree.queues[name])}
            accounts[name].ceiling = amounts.at_most(free, capabilities[name], absent=amounts.UNLIMITED)
        parents += children


def share_of(account: Account) -> float:
    return amounts.dominant_share(account.allocated, account.deserved)


def keeps_guarantee(account: Account, held: Amounts, leaving: Amounts) -> bool:
    """Whether the queue still has what it is guaranteed of everything that `leaving` holds, after that goes.

    Resources that the victim does not hold play no role: a queue that is short of memory may lose a pod that holds cpu alone, or
    another queue's guarantee of cpu could go unmet without helping any queue.
    """
    return all(
        held.get(name, 0) - leaving.get(name, 0) + amounts.EPSILON >= least
        for name, least in account.queue.guarantee.items()
        if leaving.get(name, 0) > 0
    )


def above_guarantees(
    session: Session, paths: Mapping[str, Sequence[Account]], claimant: Task, candidates: Sequence[Task]
) -> list[Task]:
    """Candidates that may go, one after the other, without any queue but the claimant's own falling below its guarantee.

    `paths` are the books of each queue and of those above it.
    """
    spared = paths[session.gangs[claimant.gang].queue]
    held: dict[str, MutableAmounts] = {}
    chosen = []
    for task in candidates:
        gang = session.gangs.get(task.gang)
        books = [] if gang is None else [account for account in paths[gang.queue] if account not in spared]
        for account in books:
            held.setdefault(account.queue.name, dict(account.allocated))
        request = task.request.amounts
        if all(keeps_guarantee(account, held[account.queue.name], request) for account in books):
            chosen.append(task)
            for account in books:
                amounts.add(held[account.queue.name], request, -1)
    return chosen


def guarantees_bound(session: Session, paths: Mapping[str, Sequence[Account]]) -> Bound:
    """`above_guarantees` in columns; without any guarantee it is the vote itself."""

    def queue_of(claimant: Task) -> str:
        return session.gangs[claimant.gang].queue

    def may_lose(claimant: Task, queue: str, request: Request) -> bool:
        spared = paths[queue_of(claimant)]
        books = [account for account in paths[queue] if account not in spared]
        return all(keeps_guarantee(account, account.allocated, request.amounts) for account in books)

    guaranteed = any(account.queue.guarantee for path in paths.values() for account in path)
    return votes.by_kind(may_lose, queue_of, exact=not guaranteed)


def publish(session: Session, accounts: Iterable[Account]) -> None:
    """Put the books where people can read them."""
    for account in accounts:
        session.figures[account.queue.name] = QueueFigures(
            allocated=dict(account.allocated),
            request=dict(account.request),
            deserved=dict(account.deserved),
            admitted=dict(account.admitted),
            ceiling=dict(account.ceiling),
            share=account.share,
            overused=amounts.within(account.deserved, account.allocated),
        )


def beyond_share(account: Account, gang: GangState) -> tuple[Amount, ...]:
    """Where the gang's minimum is more than the queue's whole share; empty where that would be enough for the gang.

    Two such gangs in two queues may wait for one another for ever, however much room is free.
    """
    written = gang.spec.minimum
    # Where members differ, who makes up the minimum is open, and only what is written counts.
    minimum = written or (gang.gang.least if gang.gang.is_uniform and gang.spec.min_member else {})
    over = amounts.beyond(minimum, account.deserved, asked=minimum)
    return tuple(Amount.of(name, limit=account.deserved.get(name, 0), wanted=minimum[name]) for name in over)


def shortage(account: Account, limit: Amounts, over: list[str], gang: GangState) -> tuple[Amount, ...]:
    """What is left of a limit, and what the gang asks for; what was tried out for the gang itself counts as left."""
    asked = gang.gang.asked
    tried = amounts.sum_of(task.request.amounts for task in gang.tasks_in(Status.ALLOCATED, Status.PIPELINED))
    left = {name: limit.get(name, 0) - account.allocated.get(name, 0) + tried.get(name, 0) for name in over}
    return tuple(
        Amount.of(name, free=max(left[name], 0), limit=limit.get(name, 0), wanted=asked.get(name, 0)) for name in over
    )
