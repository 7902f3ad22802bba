"""What queues and users have used, with older use counting less: the memory of plugin fairshare.

Usage is a share of the cluster times seconds. It halves every half-life, and grows by what is held:

    U <- U * 2^(-dt / half_life) + share * dt

`dt` may be long, so the second term is the integral of a share that decays while it accrues, and the result does not depend on
how often a cycle looks. Whoever holds the share s for ever has, in the end, `s * half_life / ln 2`.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from pumice import instant
from pumice.cluster import amounts
from pumice.instant import Instant
from pumice.scheduling.core.memory import SLOT_BYTES_MAX, Slot, past
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pumice.cluster.amounts import Amounts
    from pumice.cluster.columns import Mask
    from pumice.instant import Duration
    from pumice.scheduling.core.points import Scores

ROUNDED = instant.SECOND // 2
CLOSE = 5 * instant.SECOND  # what was held so shortly ago has been held since; so late may a start or an end be seen
FORGOTTEN = 1e-6  # share-seconds that no ranking can see
ENTRY_BYTES = 56  # of two numbers and their punctuation, as they are encoded
NAMES_KEPT_MAX = 16_384  # more than fit
USAGE_BYTES_MAX = SLOT_BYTES_MAX - 4096
NAMES_LEAST = 16

Entry = tuple[float, float]  # usage, and the share that was held at the end of the cycle
Name = tuple[str, str]  # a queue and a user in it; the user is empty for the queue itself


NOTHING: Entry = (0.0, 0.0)


class Usage(msgspec.Struct, frozen=True):
    """Usage as of `at`. By queue, and by queue and user; whoever is not in it has none."""

    at: Instant | None = None
    queues: Mapping[str, Entry] = msgspec.field(default_factory=dict)
    users: Mapping[str, Mapping[str, Entry]] = msgspec.field(default_factory=dict)

    def entries(self) -> Iterable[tuple[Name, Entry]]:
        for queue, entry in self.queues.items():
            yield (queue, ""), entry
        for queue, users in self.users.items():
            for user, entry in users.items():
                yield (queue, user), entry


SLOT = Slot("fairshare", Usage, persistent=True)


class Decay(Value):
    """Arithmetic of one half-life."""

    half_life: Duration

    @property
    def longest(self) -> float:
        """The usage, in seconds, of whoever holds everything for ever."""
        return self.half_life / instant.SECOND / math.log(2)

    def factor(self, elapsed: Duration) -> float:
        """What is left of usage after so long."""
        return math.exp2(-elapsed / self.half_life)

    def held(self, share: float, since: Instant, until: Instant, now: Instant) -> float:
        """The usage at `now` of a share that was held between two times."""
        return share * self.longest * (self.factor(now - until) - self.factor(now - since))


class Held(Value):
    """An amount that is or was held: since when, and until when where it has ended."""

    since: Instant
    amounts: Amounts
    until: Instant | None = None


def usage_at(
    memory: Usage,
    now: Instant,
    decay: Decay,
    holdings: Callable[[Instant | None], Mapping[Name, Sequence[Held]]],
    share_of: Callable[[Amounts], float],
) -> dict[Name, float]:
    """Usage as of now. What was held when a cycle last looked counts as held until now.

    After some seconds a process may have died meanwhile, with all that it had seen since. Then the cluster is asked: what it knows to have
    run counts from its start to its end, and only what was held and has left no trace counts until now. Where nothing is remembered, the
    cluster's word alone counts.
    """
    at = past(memory.at, now)
    if at is None and memory.at is not None:
        at = now  # the clock was ahead: what was used stands, and nothing is added
    since = now if at is None else at
    left = decay.factor(now - since)
    usage = {name: own * left for name, (own, _) in memory.entries()}
    shares = {name: share for name, (_, share) in memory.entries()}
    held = holdings(None if at is None else at - CLOSE) if at is None or now - at > CLOSE else {}
    for name, told in held.items():
        # An end that is further ahead was told by a clock that is wrong.
        own = [each for each in told if each.until is None or each.until <= now + CLOSE]
        usage[name] = usage.get(name, 0.0) + _over_time(own, at, now, decay, share_of)
        if name in shares and at is not None:
            shares[name] = max(shares[name] - share_of(_held_around(own, at)), 0.0)
    for name, share in shares.items():
        usage[name] += decay.held(share, since, now, now)
    return usage


def has_only_decayed(memory: Usage, now: Instant, decay: Decay, usage: Mapping[Name, float]) -> bool:
    """Whether nothing was held since the memory, so that it says all there is to say."""
    if memory.at is None or any(share for _, (_, share) in memory.entries()):
        return False
    left = decay.factor(max(now - memory.at, 0))
    known = dict(memory.entries())
    return all(own <= known.get(name, NOTHING)[0] * left + FORGOTTEN for name, own in usage.items())


def _held_around(held: Sequence[Held], at: Instant) -> Amounts:
    """What a cycle may have taken as held at a time.

    What it has started is bound a little later. What has ended says so a little late, and by a clock of whole seconds, rounded down.
    """
    return amounts.sum_of(
        each.amounts for each in held if each.since <= at + CLOSE and (each.until is None or each.until > at - CLOSE)
    )


def _over_time(
    held: Sequence[Held], at: Instant | None, now: Instant, decay: Decay, share_of: Callable[[Amounts], float]
) -> float:
    """The usage of things that are or were held, of each from its start, or from `at` where it began before that, to its end.

    Starts and ends are told in whole seconds, rounded down. Of what began before `at` only the end is: on average half a second too early.
    """
    steps: list[tuple[Instant, int, Amounts]] = []
    for each in held:
        is_cut = at is not None and each.since < at
        since = at if is_cut and at is not None else each.since
        until = now if each.until is None else min(each.until + (ROUNDED if is_cut else 0), now)
        if since < until:
            steps += [(since, 1, each.amounts), (until, -1, each.amounts)]
    steps.sort(key=operator.itemgetter(0))
    usage = 0.0
    so_far: amounts.MutableAmounts = {}
    for (since, sign, own), (until, _, _) in itertools.pairwise(steps):
        amounts.add(so_far, own, sign)
        if since < until:
            usage += decay.held(share_of(so_far), since, until, now)
    return usage


class Ledger:
    """The memory from one instant to the next, where all starts and ends are told: what `usage_at` and `remembered` find in cycles at these
    instants, to the last digit. What is held at one instant is held until the next one, so that the cluster need not be asked.

    In columns: there may be a thousand users, and each of them is looked at at every instant.
    """

    def __init__(self, memory: Usage, decay: Decay, share_of: Callable[[Amounts], float]) -> None:
        assert memory.at is not None, "a cycle has looked before"
        self._at = memory.at
        self._decay, self._share_of = decay, share_of
        self._numbers: dict[Name, int] = {}
        self._names: list[Name] = []
        self._held: dict[Name, amounts.MutableAmounts] = {}
        # By number; zeros where nothing is known, or is known no more. As of the last instant, as remembered:
        self._usage, self._shares = np.zeros(NAMES_LEAST), np.zeros(NAMES_LEAST)
        self.shares = np.zeros(NAMES_LEAST)  # of what is held after all that was told since
        self._sizes = np.zeros(NAMES_LEAST, dtype=np.int64)  # encoded
        self._is_known = np.zeros(NAMES_LEAST, dtype=bool)  # whether the memory names it
        for name, (own, share) in memory.entries():
            number = self.number(name)
            self._usage[number], self._shares[number], self._is_known[number] = own, share, True

    def number(self, name: Name) -> int:
        """The place of a queue or user in the columns."""
        number = self._numbers.setdefault(name, len(self._names))
        if number == len(self._names):
            self._names.append(name)
            if number == len(self._sizes):
                for column in ("_usage", "_shares", "shares", "_sizes", "_is_known"):
                    setattr(self, column, np.pad(getattr(self, column), (0, number)))
            self._sizes[number] = _bytes(name)
        return number

    def hold(self, name: Name, more: Amounts, sign: int = 1) -> None:
        held = self._held.setdefault(name, {})
        amounts.add(held, more, sign)
        if any(held.values()):
            self.shares[self.number(name)] = self._share_of(held)
        else:
            del self._held[name]
            self.shares[self.number(name)] = 0.0

    def held(self, name: Name) -> Amounts:
        return self._held.get(name, {})

    def usage_at(self, now: Instant) -> Scores:
        left, longest = self._decay.factor(now - self._at), self._decay.longest
        usage: Scores = self._usage * left + self._shares * longest * (1.0 - left)
        return usage

    def settle(self, now: Instant) -> None:
        """After what has started and ended at an instant is told."""
        if not self._held and not self._shares.any():
            return
        usage = self.usage_at(now)
        is_known = (self.shares > 0) | (usage > FORGOTTEN)
        if int(self._sizes @ is_known) > USAGE_BYTES_MAX:
            kept = _largest(self._entries(is_known, usage, self.shares))
            is_known[[number for name, number in self._numbers.items() if name not in kept]] = False
        self._usage, self._shares = np.where(is_known, usage, 0.0), np.where(is_known, self.shares, 0.0)
        self._is_known, self._at = is_known, now

    def memory(self, now: Instant) -> Usage:
        """For a cycle at this instant, which is to find out for itself what is held since then. While nothing is held, usage only decays."""
        if not self._shares.any():
            return _usage(self._at, self._entries(self._is_known, self._usage, self._shares))
        return _usage(now, self._entries(self._is_known, self.usage_at(now), self._shares))

    def _entries(self, is_known: Mask, usage: Scores, shares: Scores) -> dict[Name, Entry]:
        numbers = np.flatnonzero(is_known).tolist()
        return {self._names[number]: (float(usage[number]), float(shares[number])) for number in numbers}


def remembered(now: Instant, usage: Mapping[Name, float], shares: Mapping[Name, float]) -> Usage:
    """The next value of the memory. What does not fit is left out: users before queues, the least usage first."""
    return _usage(now, _entries(usage, shares))


def _entries(usage: Mapping[Name, float], shares: Mapping[Name, float]) -> dict[Name, Entry]:
    entries = {
        name: (own, share)
        for name, own in {**dict.fromkeys(shares, 0.0), **usage}.items()
        if (share := shares.get(name, 0.0)) > 0 or own > FORGOTTEN
    }
    return entries if sum(map(_bytes, entries)) <= USAGE_BYTES_MAX else _largest(entries)


def _usage(now: Instant, entries: Mapping[Name, Entry]) -> Usage:
    queues: dict[str, Entry] = {}
    users: dict[str, dict[str, Entry]] = {}
    for (queue, user), entry in sorted(entries.items()):
        if user:
            users.setdefault(queue, {})[user] = entry
        else:
            queues[queue] = entry
    return Usage(now, queues, users)


@functools.lru_cache(NAMES_KEPT_MAX)
def _bytes(name: Name) -> int:
    """At most so many, as if each user stood under a queue of its own."""
    queue, user = name
    return len(msgspec.json.encode(queue)) + len(msgspec.json.encode(user)) + ENTRY_BYTES


def _largest(entries: Mapping[Name, Entry]) -> dict[Name, Entry]:
    ranked = sorted(entries.items(), key=lambda each: (bool(each[0][1]), -each[1][0] - each[1][1], each[0]))
    kept, size = {}, 0
    for name, entry in ranked:
        size += _bytes(name)
        if size > USAGE_BYTES_MAX:
            break
        kept[name] = entry
    return kept
