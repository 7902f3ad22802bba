"""fairshare: whoever has used least goes first, for the use of the last days and not for that of the moment alone.

Usage is remembered (`sharing/decayed_usage.py`). At each level of the tree of queues the sibling with the least usage for its weight is
served first, and within a queue the user with the least. That is an order and no more: queues that lack something they deserve come
before all that borrow, and limits, guarantees and deserved shares stay what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from pumice import instant
from pumice.api.scheduling import ROOT_QUEUE
from pumice.cluster import amounts
from pumice.cluster.tasks import Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.decisions import Factors, QueueUsage, UserUsage
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.statement import Placement
from pumice.scheduling.core.steady import AmountSum
from pumice.scheduling.sharing import decayed_usage, holdings
from pumice.scheduling.sharing.decayed_usage import Decay, Held
from pumice.scheduling.sharing.queue_tree import queue_tree
from pumice.scheduling.sharing.usage_books import Account, Rules, UsageBooks
from pumice.telemetry.catalogue import Metric, MetricKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pumice.cluster.amounts import Amounts, MutableAmounts
    from pumice.cluster.gangs import Gang, GangSpec, Holding, Orphans
    from pumice.cluster.queues import QueueInfo
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.sharing.decayed_usage import Name

USERS_TOLD_MAX = 100  # of one queue, in the view; as many of all queues as metrics: those with the most usage
GIBI = 2**30
DIGITS = 4  # of factors and usage that people and programs see

Weight = Annotated[float, msgspec.Meta(gt=0)]
Price = Annotated[float, msgspec.Meta(ge=0)]


class FactorWeights(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much each factor counts in the rank of a gang among those of its queue."""

    priority_class: float = msgspec.field(name="priority-class", default=0.0)
    fair_share: float = msgspec.field(name="fair-share", default=1.0)
    age: float = 0.0
    size: float = 0.0
    queue: float = 0.0


class Args(arguments.Args, frozen=True, kw_only=True):
    """Weights of queues are their `spec.weight`, those of users are 1, unless they are named here."""

    half_life_text: Annotated[
        str, msgspec.Meta(description="after so long what was used counts half; hours at most: `168h` is a week")
    ] = msgspec.field(name="half-life", default="168h")
    ahead_text: Annotated[
        str,
        msgspec.Meta(description="what is held now counts as if it will be held for so long: about as long as a job"),
    ] = msgspec.field(name="charge-ahead", default="1h")
    queue_weights: Annotated[dict[str, Weight], msgspec.Meta(description="by queue, instead of its `spec.weight`")] = (
        msgspec.field(name="queue-weights", default_factory=dict)
    )
    user_weights: Annotated[dict[str, Weight], msgspec.Meta(description="by user; 1 for all others")] = msgspec.field(
        name="user-weights", default_factory=dict
    )
    billing_weights: Annotated[
        dict[str, Price],
        msgspec.Meta(
            description="what a core, a GiB or a card costs in comparison, by resource; without any, the dominant share counts"
        ),
    ] = msgspec.field(name="billing-weights", default_factory=dict)
    trust_user_label: Annotated[
        bool,
        msgspec.Meta(description="whether the label `pumice.dev/user` names the user where admission recorded none"),
    ] = msgspec.field(name="trust-user-label", default=False)
    factors: Annotated[
        FactorWeights,
        msgspec.Meta(
            description="weights of `priority-class`, `fair-share`, `age`, `size` and `queue` in the order of a queue's gangs"
        ),
    ] = FactorWeights()
    max_age_text: Annotated[str, msgspec.Meta(description="a gang that waited so long has the age factor 1")] = (
        msgspec.field(name="max-age", default="168h")
    )

    def __post_init__(self) -> None:
        for name, text in (("half-life", self.half_life_text), ("max-age", self.max_age_text)):
            arguments.duration(name, text)
        arguments.duration("charge-ahead", self.ahead_text)


class _Users:
    """What steady gangs hold, by queue and user."""

    def __init__(self, *, trusts_label: bool) -> None:
        self.trusts_label = trusts_label
        self.held: dict[Name, AmountSum] = {}

    def add(self, gang: Gang, sign: int) -> None:
        _count(self.held, gang, sign, trusts_label=self.trusts_label)


class _Standing:
    """What steady gangs hold, by queue and user: all together where they have held it for a while, each for itself where not."""

    def __init__(self, *, trusts_label: bool) -> None:
        self.trusts_label = trusts_label
        self.held: dict[Name, AmountSum] = {}
        self.fresh: dict[str, Gang] = {}
        self.settled: Instant | None = None

    def add(self, gang: Gang, sign: int) -> None:
        if sign > 0:
            self.fresh[gang.key] = gang
        elif self.fresh.pop(gang.key, None) is None:
            _count(self.held, gang, -1, trusts_label=self.trusts_label)

    def settle(self, after: Instant) -> None:
        """Put those together that hold all that they hold since then at least."""
        self.settled = after
        for gang in list(self.fresh.values()):
            if all(since is not None and since <= after and until is None for since, until, _ in gang.held_between):
                _count(self.held, self.fresh.pop(gang.key), 1, trusts_label=self.trusts_label)


def _count(sums: dict[Name, AmountSum], gang: Gang, sign: int, *, trusts_label: bool) -> None:
    name = gang.spec.queue, gang.spec.user_by(trusts_label=trusts_label)
    held = sums.get(name)
    if held is None:
        held = sums[name] = AmountSum()
    held.add(gang.occupied, sign)
    if sign < 0 and not held:
        del sums[name]


class Fairshare(Plugin):
    """Orders queues and gangs; refuses and evicts nothing."""

    args_type = Args
    args: Args
    memory = decayed_usage.SLOT
    stays_open = True
    metrics = (
        USAGE := Metric(
            "pumice_fairshare_usage_ratio",
            MetricKind.GAUGE,
            "Part of the cluster that each queue has used, recent use counting most.",
            ("queue",),
        ),
        FAIR := Metric(
            "pumice_fairshare_fair_ratio",
            MetricKind.GAUGE,
            "Part of the cluster that each queue has by weight.",
            ("queue",),
        ),
        USER_USAGE := Metric(
            "pumice_fairshare_user_usage_ratio",
            MetricKind.GAUGE,
            f"Part of the cluster that users have used through a queue; the {USERS_TOLD_MAX} with the most.",
            ("queue", "user"),
        ),
    )

    def __init__(self, args: Args, option: PluginOption) -> None:
        self.option = option
        self.args = args
        self.decay = Decay(arguments.duration("half-life", args.half_life_text))
        self.ahead = arguments.duration("charge-ahead", args.ahead_text) / instant.SECOND
        self.max_age = arguments.duration("max-age", args.max_age_text)
        self.weights: tuple[float, ...] = msgspec.structs.astuple(args.factors)

    def open(self, session: Session) -> None:
        self.session = session
        self.share_of = self._shares(session.total)
        self.tree = queue_tree(session.queues)
        self.paths = {name: tuple(reversed(path))[1:] for name, path in self.tree.paths.items()}  # from below the root
        memory = session.memory.of(decayed_usage.SLOT)
        self.usage = decayed_usage.usage_at(memory, session.now, self.decay, self._holdings, self.share_of)
        self.accounts: dict[Name, Account] = {}
        self.charged: dict[str, tuple[Account, ...]] = {}  # by gang
        self._enter_gangs()
        session.queue_groups = {name: path[:-1] for name, path in self.paths.items()}
        on = session.on
        on.queue_order(self.compare)
        on.gang_order(self.rank())
        on.moved(self.moved)
        on.enqueued(self.enqueued)
        on.close(self.publish)

    def open_books(self, session: Session) -> UsageBooks | None:
        memory = session.memory.of(decayed_usage.SLOT)
        if memory.at is None:
            return None  # no cycle has looked at what is held
        ledger = decayed_usage.Ledger(memory, self.decay, self.share_of)
        rules = Rules(
            share_of=self.share_of,
            weight_of=self.weight_of,
            ahead=self.ahead,
            trusts_label=self.args.trust_user_label,
            ranks_by_usage=self.ranks_by_usage and self.option.allows("enableJobOrder"),
            charges_admitted=self.option.allows("enableJobEnqueued"),
        )
        for name, account in self.accounts.items():
            if account.base:
                ledger.hold(name, account.base)
        return UsageBooks(ledger, self.paths, rules)

    # ------------------------------------------------------------------------------------------------- accounts

    def _shares(self, total: Amounts) -> Callable[[Amounts], float]:
        prices = {
            name: price / (GIBI if amounts.in_bytes(name) else amounts.MILLI)
            for name, price in self.args.billing_weights.items()
        }
        worth = sum(price * total.get(name, 0) for name, price in prices.items())
        if not worth:
            return lambda held: amounts.dominant_share(held, total)
        return lambda held: sum(price * held.get(name, 0) for name, price in prices.items()) / worth

    def user_of(self, gang: GangState) -> str:
        return gang.spec.user_by(trusts_label=self.args.trust_user_label)

    def _enter_gangs(self) -> None:
        """Give every gang that waits or holds something its user's account, and count what is held."""
        self.waiting = [gang for gang in self.session.restless if self._waits(gang)]
        held = self._held_by_user()
        names = {(gang.queue, self.user_of(gang)) for gang in self.waiting} | held.keys()
        for queue, user in sorted(names):
            self.account(queue, user).base = held.get((queue, user), {})
        self.session.gangs.hold(
            lambda gang: (
                self.accounts[gang.queue, self.user_of(gang)] if gang.gang.occupied or self._waits(gang) else None
            )
        )
        self.branches = {name: tuple(self.account(each, "") for each in path) for name, path in self.paths.items()}
        for (queue, user), account in self.accounts.items():
            for above in self.branches[queue] if user else ():
                amounts.add(above.base, account.base)
        for account in self.accounts.values():
            account.held = dict(account.base)

    def steady(self) -> _Users:
        return self.session.steady.sum(_Users, trusts_label=self.args.trust_user_label)

    @staticmethod
    def _waits(gang: GangState) -> bool:
        return bool(gang.gang.counts[Status.PENDING]) or gang.is_waiting_for_admission

    def _held_by_user(self) -> dict[Name, MutableAmounts]:
        """What gangs hold as the session begins, by queue and user."""
        found = {name: held.total() for name, held in self.steady().held.items() if name[0] in self.paths}
        for gang in self.session.restless:
            if gang.occupied:
                amounts.add(found.setdefault((gang.queue, self.user_of(gang)), {}), gang.occupied)
        return found

    def account(self, queue: str, user: str) -> Account:
        """The books of a user in a queue, or of the queue itself."""
        name = (queue, user)
        found = self.accounts.get(name)
        if found is None:
            used = self.usage.get(name, 0.0)
            found = self.accounts[name] = Account(name, self.weight_of(queue, user), used, self.share_of, self.ahead)
        return found

    def weight_of(self, queue: str, user: str) -> float:
        if user:
            return self.args.user_weights.get(user, 1.0)
        known = self.tree.queues.get(queue)
        return self.args.queue_weights.get(queue) or max(known.weight if known is not None else 1, 1)

    def _holdings(self, after: Instant | None) -> dict[Name, list[Held]]:
        """What is held now, what pods held that have ended after a time, and when; by queue and by user."""
        session = self.session
        sums: dict[Name, dict[tuple[Instant, Instant | None], list[Amounts]]] = {}  # what has the same times is one
        parts: list[tuple[GangSpec | Orphans, Sequence[Holding]]]
        if after is None:
            parts = [(gang.spec, gang.held_between) for gang in (session.snapshot.gangs[key] for key in session.gangs)]
        else:
            standing = self._standing(after)
            sums = {
                name: {(after, None): [held.total()]} for name, held in standing.held.items() if name[0] in self.paths
            }
            fresh = (gang for gang in standing.fresh.values() if gang.key in session.gangs)
            parts = [(gang.spec, gang.held_between) for gang in (*fresh, *(each.gang for each in session.restless))]
        left = session.snapshot.orphans.values()
        parts += [(each, each.held_between) for each in left if each.queue in self.paths]
        # Of whom nobody has said since when it is on its node, a cycle has put there: it was held when one last looked.
        unsaid = session.now if after is None else after + decayed_usage.CLOSE
        for owner, own_holdings in parts:
            name = owner.queue, owner.user_by(trusts_label=self.args.trust_user_label)
            for since, until, own in own_holdings:
                if since is None and until is not None:
                    continue  # it ended without having begun
                if after is None or until is None or until > after:
                    times = unsaid if since is None else since, until
                    sums.setdefault(name, {}).setdefault(times, []).append(own)
        found: dict[Name, list[Held]] = {}
        for (queue, user), by_times in sums.items():
            held = [Held(since, amounts.sum_of(own), until) for (since, until), own in by_times.items()]
            for name in ((queue, user), *((above, "") for above in self.paths[queue])):
                found.setdefault(name, []).extend(held)
        return found

    def _standing(self, after: Instant) -> _Standing:
        """Brought up to a time; made anew for one that lies before the last."""
        steady, trusts_label = self.session.steady, self.args.trust_user_label
        standing = steady.sum(_Standing, trusts_label=trusts_label)
        if standing.settled is not None and after < standing.settled:
            steady.forget(_Standing)
            standing = steady.sum(_Standing, trusts_label=trusts_label)
        standing.settle(after)
        return standing

    def charged_for(self, gang: GangState) -> Sequence[Account]:
        """The books of the gang's user, its queue and all queues above."""
        found = self.charged.get(gang.key)
        if found is None:
            user = self.account(gang.queue, self.user_of(gang))
            found = self.charged[gang.key] = (user, *self.branches[gang.queue])
        return found

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del nodes
        for account in self.charged_for(gang):
            account.move(shape.request.amounts, len(tasks) * sign)

    def enqueued(self, gang: GangState) -> None:
        """So that whoever comes first does not fill the queue with all that it has."""
        for account in self.charged_for(gang):
            account.move(gang.spec.minimum or {}, 1)

    # ------------------------------------------------------------------------------------------------- order

    def compare(self, left: QueueInfo, right: QueueInfo) -> float:
        if left.priority != right.priority:
            return right.priority - left.priority
        if rights := self.session.points.queue_rights.of(left, right):
            return rights
        mine, theirs = self.branches[left.name], self.branches[right.name]
        for own, other in zip(mine, theirs, strict=False):
            if own is not other:
                return own.standing - other.standing
        return len(theirs) - len(mine)  # a queue with children comes after them

    @property
    def ranks_by_usage(self) -> bool:
        """Whether nothing but its user's usage says where a gang stands in its queue."""
        return self.args.factors == FactorWeights()

    def rank(self) -> Callable[[GangState], float]:
        if self.ranks_by_usage:
            return lambda gang: 0.0 if gang.holder is None else gang.holder.standing
        scale = _Scale(self)
        return lambda gang: -scale.total(scale.values(gang))

    # ------------------------------------------------------------------------------------------------- afterwards

    def learn(self, session: Session) -> decayed_usage.Usage | None:
        """What is held from now on, with what this cycle has decided. While nothing is held, usage only decays: as it stands."""
        started: dict[Name, MutableAmounts] = {}
        for operation, _ in session.accepted:
            if isinstance(operation, Placement) and operation.status is Status.ALLOCATED:
                for account in self.charged_for(operation.gang):
                    own = started.setdefault(account.name, dict(account.base))
                    amounts.add(own, operation.shape.request.amounts, len(operation.tasks))
        shares = {
            name: self.share_of(started.get(name, account.base))
            for name, account in self.accounts.items()
            if account.base or name in started
        }
        before = session.memory.of(decayed_usage.SLOT)
        if not shares and decayed_usage.has_only_decayed(before, session.now, self.decay, self.usage):
            return None
        return decayed_usage.remembered(session.now, self.usage, shares)

    def publish(self) -> None:
        """Usage and factors, for people and programs."""
        session = self.session
        if not session.explain:
            return
        scale = _Scale(self)
        waiting = (gang for gang in self.waiting if is_waiting(gang))
        session.factor_weights.update(msgspec.to_builtins(self.args.factors))
        session.factors.update({gang.key: scale.factors(gang) for gang in waiting})
        users: dict[str, list[str]] = {}
        for queue, user in {**self.usage, **self.accounts}:
            if user:
                users.setdefault(queue, []).append(user)
        for name in self.paths:
            if name != ROOT_QUEUE:
                session.usage[name] = self._told(name, users.get(name, ()), scale)
        for name, each in session.usage.items():
            session.publish(self.USAGE, each.usage, name)
            session.publish(self.FAIR, each.fair, name)
        most = sorted(
            ((own.usage, queue, user) for queue, each in session.usage.items() for user, own in each.users.items()),
            key=lambda each: (-each[0], each[1:]),
        )
        for usage, queue, user in most[:USERS_TOLD_MAX]:
            session.publish(self.USER_USAGE, usage, queue, user)

    def _told(self, queue: str, users: Sequence[str], scale: _Scale) -> QueueUsage:
        most = sorted(users, key=lambda user: (-self.usage.get((queue, user), 0.0), user))[:USERS_TOLD_MAX]
        return QueueUsage(
            usage=self.ratio(queue, ""),
            weight=self.weight_of(queue, ""),
            fair=round(scale.fair(queue), DIGITS),
            factor=round(scale.fair_share(self.account(queue, "")), DIGITS),
            users={user: self._told_of_user(queue, user, scale) for user in sorted(most)},
        )

    def _told_of_user(self, queue: str, user: str, scale: _Scale) -> UserUsage:
        factor = round(scale.fair_share(self.account(queue, user)), DIGITS)
        return UserUsage(self.ratio(queue, user), self.weight_of(queue, user), factor)

    def ratio(self, queue: str, user: str) -> float:
        """The share that, held for ever, makes the same usage."""
        return round(self.usage.get((queue, user), 0.0) / self.decay.longest, DIGITS)


def is_waiting(gang: GangState) -> bool:
    return gang.is_waiting_for_admission or bool(gang.tally[Status.PENDING] or gang.tally[Status.PIPELINED])


class _Scale:
    """What factors are measured against: the most of the session, and what siblings have used together."""

    def __init__(self, plugin: Fairshare) -> None:
        self._plugin = plugin
        session = plugin.session
        self._now = session.now
        steady = (priority for held in holdings.by_queue(session).values() for priority in held.priorities)
        self._highest = max([1, *steady, *(gang.priority for gang in session.restless)])
        self._highest_queue = max([1, *(queue.priority for queue in session.queues.values())])
        self._evenly = self._sums()
        self._weights: dict[str, float] = {}
        self._fair_shares: dict[Name, tuple[float, float]] = {}  # with the standing that each follows from

    def _sums(self) -> Mapping[str, float]:
        """By what siblings share: usage for one unit of weight, if all had used alike."""
        plugin = self._plugin
        charged: dict[str, float] = {}
        weights: dict[str, float] = {}
        for name in {**dict.fromkeys(plugin.usage), **dict.fromkeys(plugin.accounts)}:
            if name[0] not in plugin.paths:
                continue  # the queue is gone
            group = self._group(name)
            account = plugin.accounts.get(name)
            own = account.charged if account is not None else plugin.usage[name]
            charged[group] = charged.get(group, 0.0) + own
            weights[group] = weights.get(group, 0.0) + plugin.weight_of(*name)
        return {group: charged[group] / weights[group] for group in charged}

    def _group(self, name: Name) -> str:
        queue, user = name
        path = self._plugin.paths[queue]
        return f"users/{queue}" if user else f"queues/{path[-2] if len(path) > 1 else ''}"

    def fair_share(self, account: Account) -> float:
        """Half for whoever has used as much as its weight among its siblings says; one for whoever has used nothing."""
        known = self._fair_shares.get(account.name)
        if known is None or known[0] != account.standing:
            evenly = self._evenly.get(self._group(account.name), 0.0)
            share = 2.0 ** -(account.standing / evenly) if evenly > 0 else 1.0
            known = self._fair_shares[account.name] = account.standing, share
        return known[1]

    def fair(self, queue: str) -> float:
        """The part of the cluster that a queue has by weight, all queues of the tree counted."""
        plugin, part = self._plugin, 1.0
        path = plugin.paths[queue]
        for parent, name in zip((ROOT_QUEUE, *path), path, strict=False):
            own = plugin.weight_of(name, "")
            part *= own / max(self._together(parent), own)
        return part

    def _together(self, parent: str) -> float:
        """The weights of all queues right below one: the same for each of them."""
        if parent not in self._weights:
            siblings = self._plugin.tree.children.get(parent, ())
            self._weights[parent] = sum(self._plugin.weight_of(each, "") for each in siblings)
        return self._weights[parent]

    def values(self, gang: GangState) -> tuple[float, ...]:
        """Priority class, fair share, age, size, queue."""
        plugin = self._plugin
        created = gang.gang.created
        waited = 0 if created is None else max(self._now - created, 0)
        return (
            max(gang.priority / self._highest, -1.0),
            self.fair_share(plugin.charged_for(gang)[0]),
            min(waited / plugin.max_age, 1.0),
            self._size(gang),
            max(plugin.session.queue_of(gang).priority, 0) / self._highest_queue,
        )

    def _size(self, gang: GangState) -> float:
        """The part of the cluster that its minimum is; the same while neither the gang nor the cluster changes."""
        about = self._plugin.session.total, self._plugin.args.billing_weights
        known = gang.gang.known.get(_Scale)
        if known is None or known[0] != about:
            minimum = gang.spec.minimum or gang.gang.least
            known = gang.gang.known[_Scale] = (about, min(self._plugin.share_of(minimum), 1.0))
        size: float = known[1]
        return size

    def total(self, values: Sequence[float]) -> float:
        return sum([weight * value for weight, value in zip(self._plugin.weights, values, strict=True)])

    def factors(self, gang: GangState) -> Factors:
        priority_class, fair_share, age, size, queue = values = self.values(gang)
        return Factors(
            priority_class=round(priority_class, DIGITS),
            fair_share=round(fair_share, DIGITS),
            age=round(age, DIGITS),
            size=round(size, DIGITS),
            queue=round(queue, DIGITS),
            total=round(self.total(values), DIGITS),
            used=self._plugin.ratio(*self._plugin.charged_for(gang)[0].name),
        )
