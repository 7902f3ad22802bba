"""What each queue deserves, may hold at most and has left, as people read it, whichever plugins share the cluster.

| policy has | deserves | may hold at most |
| --- | --- | --- |
| proportion | its part by weight among the queues in use, were all of them to ask for everything | what it would be given if it asked for everything while the others want what they want |
| capacity | what its owner wrote down, at least its guarantee | its capability, and the cluster less what is guaranteed to others |
| both | what is written, else by weight | the smaller of both |
| neither | nothing | everything |

Left is what its gangs may still start: what is free within the limit, and at least what it can take back of what it deserves. Whether
that lies on nodes that suit them is another question. A queue above others has the sums of those below it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core import idle
from pumice.scheduling.sharing import division, quotas
from pumice.scheduling.sharing.queue_tree import queue_tree
from pumice.scheduling.sharing.quotas import Account
from pumice.values import Mutable, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.state import Snapshot
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.sharing.queue_tree import QueueTree

DIVISIONS_MAX = 64  # of different queues; the limit of further ones is told without regard to what others want


class QueueLimits(Value):
    """Of one queue; a resource that `deserved` or `limit` does not name is not shared out, or not limited."""

    deserved: Amounts
    limit: Amounts
    left: Amounts


class _Rules(Mutable):
    """What one plugin says of one queue; `room` is what its limit, and those of queues above, leave."""

    deserved: Amounts
    limit: Amounts
    room: Amounts


def queue_limits(snapshot: Snapshot, policy: Policy, decisions: Decisions) -> dict[str, QueueLimits]:
    """Of every queue, after the cycle."""
    return _Limits(snapshot, decisions).of_all(policy)


class _Limits:
    def __init__(self, snapshot: Snapshot, decisions: Decisions) -> None:
        self.snapshot = snapshot
        self.queues = snapshot.queues
        self.held = decisions.queues
        self.total = {name: value for name, value in snapshot.nodes.total().items() if name != amounts.PODS}
        self.tree = queue_tree(self.queues)
        free: MutableAmounts = {name: each.idle for name, each in idle.idle(snapshot.nodes).items()}
        for bind in (bind for commit in decisions.commits for bind in commit.binds):
            amounts.add(free, bind.task.request.amounts, -1)
        self.free = free

    def of_all(self, policy: Policy) -> dict[str, QueueLimits]:
        capacity = policy.option("capacity")
        said: list[Mapping[str, _Rules]] = []
        if capacity is not None:
            hierarchical = capacity.allows("enableHierarchy")
            said.append(self._of_tree() if hierarchical else self._summed_up(self._as_written()))
        if policy.option("proportion") is not None:
            said.append(self._summed_up(self._by_weight()))
        return {name: self._of_one(queue, [rules[name] for rules in said]) for name, queue in self.queues.items()}

    def _of_one(self, queue: QueueInfo, rules: list[_Rules]) -> QueueLimits:
        deserved: Amounts = {}
        if rules:  # capacity, then proportion
            deserved = rules[0].deserved if queue.deserved else rules[-1].deserved
        limit = {
            name: min(limits)
            for name in self.total
            if (limits := [each.limit[name] for each in rules if name in each.limit])
        }
        return QueueLimits(deserved, limit, {name: self._left(queue, rules, deserved, name) for name in self.total})

    def _left(self, queue: QueueInfo, rules: list[_Rules], deserved: Amounts, name: str) -> float:
        if not queue.is_open:
            return 0
        room = min((each.room.get(name, amounts.UNLIMITED) for each in rules), default=amounts.UNLIMITED)
        own = deserved.get(name, 0) - self._held(queue.name).get(name, 0)
        return max(min(room, max(self.free.get(name, 0), own)), 0)

    def _held(self, name: str) -> Amounts:
        return self.held.get(name, {})

    # ------------------------------------------------------------------------------------------------- capacity

    def _as_written(self) -> dict[str, _Rules]:
        """The plugin capacity without a tree."""
        guaranteed = amounts.sum_of(queue.guarantee for queue in self.queues.values())
        found = {}
        for name, queue in self.queues.items():
            ceiling = quotas.ceiling(self.total, guaranteed, queue)
            capped = amounts.at_most(queue.deserved, ceiling, absent=amounts.UNLIMITED)
            found[name] = self._rules(name, amounts.at_least(capped, queue.guarantee), ceiling)
        return found

    def _of_tree(self) -> dict[str, _Rules]:
        """The plugin capacity with its tree: every queue on the path to the root limits those below it."""
        tree: QueueTree = self.tree
        accounts = {
            name: Account(queue, {}, deserved=amounts.at_least(queue.deserved, queue.guarantee))
            for name, queue in tree.queues.items()
        }
        quotas.set_ceilings(self.total, tree, accounts)
        found = {}
        for name in self.queues:
            rooms = [amounts_left(accounts[above].ceiling, self._held(above)) for above in tree.paths[name]]
            room = {each: min(part.get(each, amounts.UNLIMITED) for part in rooms) for each in self.total}
            if name in tree.faults:
                room = dict.fromkeys(room, 0)
            limit = amounts.at_most(self.total, accounts[name].ceiling, absent=amounts.UNLIMITED)
            found[name] = _Rules(accounts[name].deserved, limit, room)
        return found

    def _rules(self, name: str, deserved: Amounts, limit: Amounts) -> _Rules:
        return _Rules(deserved, limit, amounts_left(limit, self._held(name)))

    def _summed_up(self, rules: dict[str, _Rules]) -> dict[str, _Rules]:
        """Flat plugins know no tree: a queue that has children shows what they and it have together."""
        used = {gang.spec.queue for gang in self.snapshot.gangs.values()}
        below: dict[str, list[str]] = {}
        for name, path in self.tree.paths.items():
            for above in path[1:]:
                below.setdefault(above, []).append(name)
        found = dict(rules)
        for name in self.queues.keys() & below.keys():
            parts = [rules[each] for each in (*below[name], *([name] if name in used else [])) if each in rules]
            together = self._sum(each.limit for each in parts)
            found[name] = self._rules(name, self._sum(each.deserved for each in parts), together)
        return found

    def _sum(self, parts: Iterable[Amounts]) -> Amounts:
        return amounts.at_most(amounts.sum_of(parts), self.total, absent=0)

    # ------------------------------------------------------------------------------------------------- proportion

    def _by_weight(self) -> dict[str, _Rules]:
        """The plugin proportion, asked again, with its own division, what each queue would be given."""
        guaranteed = amounts.sum_of(queue.guarantee for queue in self.queues.values())
        ceilings = {name: quotas.ceiling(self.total, guaranteed, queue) for name, queue in self.queues.items()}
        wanted = self._wanted()
        insatiable = {name: ceilings[name] for name in wanted}
        shares = self._divided(ceilings, insatiable)
        known: dict[object, tuple[Amounts, Amounts]] = {}
        found = {}
        for name, queue in self.queues.items():
            ceiling = ceilings[name]
            alike = (queue.weight, _key(ceiling), _key(queue.guarantee), _key(wanted.get(name, {})), name in wanted)
            if alike not in known and len(known) < DIVISIONS_MAX:
                given = self._divided(ceilings, {**wanted, name: ceiling})[name]
                known[alike] = (shares.get(name) or self._divided(ceilings, {**insatiable, name: ceiling})[name], given)
            found[name] = self._rules(name, *known.get(alike, (shares.get(name, {}), ceiling)))
        return found

    def _divided(self, ceilings: Mapping[str, Amounts], requests: Mapping[str, Amounts]) -> dict[str, MutableAmounts]:
        accounts = {
            name: Account(self.queues[name], dict(ceilings[name]), request=dict(request))
            for name, request in requests.items()
        }
        division.divide(self.total, list(accounts.values()))
        return {name: account.deserved for name, account in accounts.items()}

    def _wanted(self) -> dict[str, Amounts]:
        """What the gangs of each queue hold and wait for; a queue without gangs takes no part in the division."""
        found: dict[str, MutableAmounts] = {}
        for gang in self.snapshot.gangs.values():
            if gang.spec.queue not in self.queues:
                continue
            own = found.setdefault(gang.spec.queue, {})
            amounts.add(own, gang.occupied)
            if gang.counts[Status.PENDING]:
                for task in gang.tasks:
                    if task.status is Status.PENDING:
                        amounts.add(own, task.request.amounts)
        return dict(found)


def amounts_left(limit: Amounts, held: Amounts) -> Amounts:
    return {name: value - held.get(name, 0) for name, value in limit.items()}


def _key(values: Amounts) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(values.items()))
