"""capacity: each queue deserves what its owner wrote down, may borrow up to its capability, and gives back what it borrowed.

Flat, all queues stand side by side. With enableHierarchy they form a tree: every queue on the path to the root has a say, and what
is wrong with one branch (a parent that does not exist, a ring, a gang in a queue that has children) is refused there alone.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice.api.resource import ResourceClaim
from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.tasks import OCCUPYING
from pumice.scheduling.core import arguments
from pumice.scheduling.core.codes import Amount, Code, Facts
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.points import EvictionKind, Vote
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.scheduling.evicting import eviction, votes
from pumice.scheduling.sharing import admitted, quotas
from pumice.scheduling.sharing.device_quotas import Claims, DeviceAccount, device_limits
from pumice.scheduling.sharing.queue_tree import QueueTree, queue_tree

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.requests import Request
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Freed
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.sharing.quotas import Account

NAME = "capacity"


class Args(arguments.Args, frozen=True, kw_only=True):
    """With enableHierarchy, ancestors up to a level above both queues may be asked before anything is reclaimed."""

    ancestor_reclaim_level: Annotated[
        int,
        msgspec.Meta(description="how many levels of ancestors take part in reclaiming; 0: only the queues themselves"),
    ] = msgspec.field(name="ancestorReclaimLevel", default=0)
    devices: Annotated[
        bool,
        msgspec.Meta(description="whether `deviceclass/<class>` in a capability limits devices of resource claims"),
    ] = msgspec.field(name="capacity.DynamicResourceAllocationEnable", default=True)
    device_dimensions: Annotated[
        bool,
        msgspec.Meta(description="whether `<dimension>.deviceclass/<class>` limits what claims take of shared devices"),
    ] = msgspec.field(name="capacity.DRAConsumableCapacityEnable", default=True)


class Capacity(Plugin):
    """A queue may hold as much as its capability allows; beyond what it deserves only while no other queue lacks its own."""

    # Each queue has a path of accounts: its own, then those of its ancestors up to the root; flat, its own alone.
    args_type = Args
    args: Args
    essential = True
    watches = (Watch(ResourceClaim),)

    def __init__(self, args: Args, option: PluginOption) -> None:
        self.args = args
        self.hierarchical = option.allows("enableHierarchy")
        self.level = max(args.ancestor_reclaim_level, 0) if self.hierarchical else 0
        self.leaves_shares_to_weights = False

    def open(self, session: Session) -> None:
        self.session = session
        # Beside proportion, a queue that names nothing that it deserves has its share by weight: that is not ours to judge.
        self.leaves_shares_to_weights = session.policy.option("proportion") is not None
        self.tree: QueueTree | None = None
        if self.hierarchical:
            self.tree = queue_tree(session.queues)
            accounts = quotas.tree_accounts(session, self.tree)
            self.paths = {name: tuple(accounts[each] for each in path) for name, path in self.tree.paths.items()}
        else:
            accounts = quotas.flat_accounts(session)
            for account in accounts.values():
                capped = amounts.at_most(account.queue.deserved, account.ceiling, absent=amounts.UNLIMITED)
                account.deserved = amounts.at_least(capped, account.queue.guarantee)
            self.paths = {name: (account,) for name, account in accounts.items()}
        for account in accounts.values():
            account.share = _share(account)
        self._open_devices(session)
        on = session.on
        on.queue_order(self.compare)
        on.queue_rights(self.compare_rights)
        on.allocatable(
            self.allocatable,
            why=self.why,
            later=self.allocatable_later,
            could=self.could_take,
            beside=self.has_room_beside,
        )
        on.preemptive(self.preemptive)
        on.reclaimable(self.reclaimable, votes.by_kind(self._may_lose, self._rights))
        on.reclaimable.shield(
            functools.partial(quotas.above_guarantees, session, self.paths),
            quotas.guarantees_bound(session, self.paths),
        )
        on.evictable(self.evictable)
        on.enqueueable(self.enqueueable)
        on.enqueued(self.enqueued)
        on.moved(self.moved)
        on.close(lambda: quotas.publish(session, accounts.values()))
        if self.hierarchical:
            on.victim_queue_order(self.compare_victims)

    def _open_devices(self, session: Session) -> None:
        """Books of devices, kept only where some queue limits them."""
        self.claims = Claims(session.snapshot.objects(ResourceClaim))
        self.devices: dict[str, DeviceAccount] = {}
        if not self.args.devices or not any(device_limits(path[0].queue) for path in self.paths.values()):
            return
        for name, path in self.paths.items():
            limits = device_limits(path[0].queue)
            self.devices[name] = DeviceAccount(limits, self.claims, dimensions=self.args.device_dimensions)
        session.on.declare(Reads.NOTHING, self.claims.of, concerns=lambda task: bool(task.pod.spec.resource_claims))
        for gang in session.gangs.values():
            for task in gang.tasks_in(*OCCUPYING):
                self._move_devices(gang.queue, task, 1)
        for gang in session.gangs.values():
            if gang.phase == PodGroupPhase.INQUEUE.value:
                self._promise_devices(gang)

    # ------------------------------------------------------------------------------------------------- orders

    def compare(self, left: QueueInfo, right: QueueInfo) -> float:
        """Priority first; then between branches of the tree as between flat queues: who holds less of what it deserves."""
        if left.priority != right.priority:
            return right.priority - left.priority
        if self.tree is not None:
            leaves = self.tree.is_leaf(left.name), self.tree.is_leaf(right.name)
            if leaves[0] != leaves[1]:
                return -1 if leaves[0] else 1
            if leaves[0]:
                return _compare_shares(*self._branches(left.name, right.name))
        return _compare_shares(self.paths[left.name][0], self.paths[right.name][0])

    def compare_rights(self, left: QueueInfo, right: QueueInfo) -> float:
        """Whoever has less than it deserves comes before all that borrow."""
        mine, theirs = self._branches(left.name, right.name)
        return (mine.share >= 1) - (theirs.share >= 1)

    def _branches(self, left: str, right: str) -> tuple[Account, Account]:
        """The ancestors of both, or they themselves, just below the point where their paths meet."""
        mine, theirs = self.paths[left], self.paths[right]
        shared = _shared_levels(mine, theirs)
        return mine[max(len(mine) - 1 - shared, 0)], theirs[max(len(theirs) - 1 - shared, 0)]

    def compare_victims(self, left: QueueInfo, right: QueueInfo, claimant: QueueInfo) -> float:
        """Relatives first: the queue that shares the deeper ancestor with the claimant's loses its task."""
        own = self.paths[claimant.name]
        return _shared_levels(self.paths[right.name], own) - _shared_levels(self.paths[left.name], own)

    # ------------------------------------------------------------------------------------------------- limits

    def _refusal(self, queue: QueueInfo) -> Reason | None:
        """Why nothing may start in this queue whatever its quota."""
        if self.tree is not None:
            if (fault := self.tree.faults.get(queue.name)) is not None:
                return Reason(fault[0], NAME, fault[1])
            children = self.tree.children.get(queue.name)
            if children:
                return Reason(Code.QUEUE_HAS_CHILDREN, NAME, Facts(queue=queue.name, names=tuple(children)))
        if not queue.is_open:
            return Reason(Code.QUEUE_NOT_OPEN, NAME, Facts(queue=queue.name, state=queue.state))
        return None

    def allocatable(self, queue: QueueInfo, shape: Shape, count: int) -> int:
        if self._refusal(queue) is not None:
            return 0
        for account in self.paths[queue.name]:
            count = account.copies_within(account.ceiling, shape.request.amounts, count)
        return count if not count or self._device_shortage(queue.name, shape.example) is None else 0

    def allocatable_later(self, queue: QueueInfo, shape: Shape, count: int, freed: Freed) -> int:
        """As allocatable; devices count as they are held now."""
        if self._refusal(queue) is not None:
            return 0
        for account in self.paths[queue.name]:
            count = account.copies_within(account.ceiling, shape.request.amounts, count, self._below(account, freed))
        return count if not count or self._device_shortage(queue.name, shape.example) is None else 0

    def _below(self, account: Account, parts: Freed) -> Amounts:
        """What they come to in the account's queue and those below it."""
        return amounts.sum_of(own for name, own in parts.items() if account in self.paths.get(name, ()))

    def has_room_beside(self, queue: QueueInfo, gang: GangState, held: Freed) -> bool:
        """Devices count as they are charged."""
        return all(account.has_room_beside(self._below(account, held), gang) for account in self.paths[queue.name])

    def could_take(self, queue: QueueInfo, shape: Shape, freed: Amounts) -> bool:
        """As allocatable_later, and any device may be given back too."""
        if self._refusal(queue) is not None:
            return False
        asked = shape.request.amounts
        return all(account.copies_within(account.ceiling, asked, 1, freed) for account in self.paths[queue.name])

    def why(self, queue: QueueInfo, gang: GangState, shape: Shape) -> Reason:
        refusal = self._refusal(queue)
        if refusal is not None:
            return refusal
        asked = shape.request.amounts
        for account in self.paths[queue.name]:
            over = amounts.too_much(account.allocated, asked, account.ceiling)
            if over:
                left = quotas.shortage(account, account.ceiling, over, gang)
                facts = Facts(queue=account.queue.name, amounts=left)
                return Reason(Code.QUEUE_QUOTA_USED, NAME, facts, cure=Cure.EVICTION)
        shortage = self._device_shortage(queue.name, shape.example)
        assert shortage is not None, f"queue {queue.name} refuses nothing"
        return shortage

    def _device_shortage(self, queue: str, task: Task) -> Reason | None:
        keys = self.claims.of(task) if self.devices else ()
        for account in self.paths[queue] if keys else ():
            lacking = self.devices[account.queue.name].lacking(keys)
            if lacking:
                facts = Facts(queue=account.queue.name, names=tuple(lacking))
                return Reason(Code.QUEUE_DEVICES_USED, NAME, facts, cure=Cure.EVICTION)
        return None

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del nodes
        for account in self.paths[gang.queue]:
            amounts.add(account.allocated, shape.request.amounts, len(tasks) * sign)
            account.share = _share(account)
        if self.devices:
            self._move_devices(gang.queue, tasks[0], len(tasks) * sign)

    def _move_devices(self, queue: str, task: Task, pods: int) -> None:
        keys = self.claims.of(task)
        for account in self.paths[queue] if keys else ():
            self.devices[account.queue.name].move(keys, pods)

    # ------------------------------------------------------------------------------------------------- admission

    def enqueueable(self, gang: GangState) -> Vote | Reason:
        queue = self.session.queue_of(gang)
        refusal = self._refusal(queue)
        if refusal is not None:
            return refusal
        for account in self.paths[queue.name]:
            reason = self._too_much(account, gang)
            if reason is not None:
                return reason
        return Vote.PERMIT

    def _too_much(self, account: Account, gang: GangState) -> Reason | None:
        minimum = gang.spec.minimum or {}
        over = account.beyond_ceiling(minimum)
        if over:
            never = amounts.beyond(minimum, account.ceiling, asked=minimum)
            facts = Facts(queue=account.queue.name, amounts=_holdings(account, over))
            return Reason(Code.QUEUE_QUOTA_INSUFFICIENT, NAME, facts, cure=Cure.CHANGE if never else Cure.WAITING)
        if self.devices:
            lacking = self.devices[account.queue.name].lacking(self.claims.of_minimum(gang), with_admitted=True)
            if lacking:
                facts = Facts(queue=account.queue.name, names=tuple(lacking))
                return Reason(Code.QUEUE_DEVICES_INSUFFICIENT, NAME, facts, cure=Cure.WAITING)
        return None

    def enqueued(self, gang: GangState) -> None:
        for account in self.paths[gang.queue]:
            if gang.spec.minimum is not None:
                amounts.add(account.admitted, admitted.ungated_minimum(gang))
        self._promise_devices(gang)

    def _promise_devices(self, gang: GangState) -> None:
        for account in self.paths[gang.queue] if self.devices else ():
            self.devices[account.queue.name].promise(self.claims.of_minimum(gang))

    # ------------------------------------------------------------------------------------------------- reclaiming

    def preemptive(self, queue: QueueInfo, tasks: Sequence[Task]) -> bool:
        """May take back from others while it stays within what it deserves in at least one resource that it asks for."""
        if self._refusal(queue) is not None:
            return False
        asked = amounts.sum_of(task.request.amounts for task in tasks)
        path = self.paths[queue.name]
        wanted = amounts.sum_of([path[0].allocated, asked])
        if amounts.beyond(wanted, path[0].ceiling, asked=asked):
            return False
        if self.leaves_shares_to_weights and not path[0].deserved:
            return True
        return any(_deserves(account, asked) for account in (path[0], *self._ancestors(path)))

    def _ancestors(self, path: Sequence[Account]) -> Sequence[Account]:
        """Those that take part in reclaiming; never the root."""
        return path[1:-1][: self.level]

    def reclaimable(self, claimant: Task, candidates: Sequence[Task]) -> Sequence[Task]:
        gang = self.session.gangs.get(claimant.gang)
        if gang is None or self._refusal(self.session.queue_of(gang)) is not None:
            return []
        wanted = _kinds(claimant.request.amounts)
        ordered = eviction.victim_order(self.session, gang, candidates)
        related = (task for task in ordered if wanted & _kinds(task.request.amounts))
        return _Reclaiming(self, gang.queue, claimant.request.amounts).victims(related)

    def _rights(self, claimant: Task) -> Hashable:
        """What of a claimant decides whom it may take from."""
        return self.session.gangs[claimant.gang].queue, claimant.request

    def _may_lose(self, claimant: Task, queue: str, request: Request) -> bool:
        """Whether such a pod of the queue may go for the claimant, if it is the first."""
        own = self.session.gangs[claimant.gang].queue
        if self._refusal(self.session.queues[own]) is not None:
            return False
        if not _kinds(claimant.request.amounts) & _kinds(request.amounts):
            return False
        return _Reclaiming(self, own, claimant.request.amounts).may_lose(queue, request.amounts)

    def evictable(self, kind: EvictionKind, claimant: GangState, candidates: Sequence[Task]) -> Sequence[Task]:
        if kind is not EvictionKind.RECLAIM:
            return candidates
        return _Reclaiming(self, claimant.queue, None).victims(candidates)


class _Reclaiming:
    """Chooses victims of other queues for one claimant, one after the other; each counts as gone for those after it.

    `asked` is what a single pod asks for; a whole gang (None) does not involve ancestors (Volcano parity).
    """

    def __init__(self, capacity: Capacity, queue: str, asked: Amounts | None) -> None:
        self.capacity = capacity
        self.path = capacity.paths[queue]
        self.asked = asked
        self.level = capacity.level if asked is not None else 0
        self.held: dict[str, MutableAmounts] = {}

    def victims(self, candidates: Iterable[Task]) -> list[Task]:
        chosen = []
        for task in candidates:
            gang = self.capacity.session.gangs.get(task.gang)
            request = task.request.amounts
            if gang is not None and self.may_lose(gang.queue, request):
                chosen.append(task)
                for account in self.capacity.paths[gang.queue]:
                    amounts.add(self._held_by(account), request, -1)
        return chosen

    def may_lose(self, queue: str, request: Amounts) -> bool:
        """Whether the queue may lose such a pod after those that were chosen before."""
        if self.capacity.tree is not None and queue in self.capacity.tree.faults:
            return False  # no pod is evicted because of a fault in the tree
        return self._may_lose(self.capacity.paths[queue], request)

    def _held_by(self, account: Account) -> MutableAmounts:
        return self.held.setdefault(account.queue.name, dict(account.allocated))

    def _may_lose(self, path: Sequence[Account], request: Amounts) -> bool:
        others = [account for account in path if account not in self.path]
        if not all(quotas.keeps_guarantee(account, self._held_by(account), request) for account in others):
            return False
        if _is_beside(path[0].deserved, request):
            if self._is_family(path):
                return False
        elif not self._exceeds(path[0], request):
            return False
        return all(
            _is_beside(account.deserved, request) or self._exceeds(account, request)
            for account in self._ancestors_to_ask(path)
        )

    def _is_family(self, path: Sequence[Account]) -> bool:
        """Two queues that deserve nothing of what is asked, below one ancestor: neither has more right than the other."""
        if self.asked is None or not _is_beside(self.path[0].deserved, self.asked):
            return False
        mine = self.path[1:-1][: self.level]
        return any(account in mine for account in path[1:-1][: self.level])

    def _ancestors_to_ask(self, path: Sequence[Account]) -> list[Account]:
        """The victim's ancestors within the level, where the claimant has another one at that height or none."""
        mine = self.path[1:][: self.level]
        theirs = path[1:-1][: self.level]
        return [account for height, account in enumerate(theirs) if height >= len(mine) or mine[height] is not account]

    def _exceeds(self, account: Account, request: Amounts) -> bool:
        """Holds more than it deserves of something that the victim would give back."""
        held, deserved = self._held_by(account), account.deserved
        return any(
            held.get(name, 0) > deserved[name]
            for name in _kinds(request)
            if name in deserved and (deserved[name] >= amounts.EPSILON or name not in {amounts.CPU, amounts.MEMORY})
        )


def _kinds(request: Amounts) -> set[str]:
    return amounts.names(request) - {amounts.PODS}


def _is_beside(deserved: Amounts, request: Amounts) -> bool:
    """The queue deserves nothing at all of what the pod holds: it only borrows."""
    return not amounts.names(deserved) & amounts.names(request)


def _deserves(account: Account, asked: Amounts) -> bool:
    return any(
        account.allocated.get(name, 0) + value <= account.deserved.get(name, 0) + amounts.EPSILON
        for name, value in asked.items()
        if value > 0 and name != amounts.PODS
    )


def _share(account: Account) -> float:
    """Queues that deserve nothing come after all that lack something of theirs."""
    return 1.0 if amounts.is_empty(account.deserved) else quotas.share_of(account)


def _compare_shares(left: Account, right: Account) -> float:
    if left.share != right.share:
        return left.share - right.share
    return float(amounts.is_empty(left.deserved)) - float(amounts.is_empty(right.deserved))


def _shared_levels(left: Sequence[Account], right: Sequence[Account]) -> int:
    """How many queues two paths have in common, counted from the root, not counting the queues themselves."""
    shared = 0
    for mine, theirs in zip(left[:0:-1], right[:0:-1], strict=False):
        if mine is not theirs:
            break
        shared += 1
    return shared


def _holdings(account: Account, names: Sequence[str]) -> tuple[Amount, ...]:
    return tuple(
        Amount.of(name, held=account.allocated.get(name, 0), limit=account.ceiling.get(name, 0)) for name in names
    )
