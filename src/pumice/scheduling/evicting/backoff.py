"""Back-off of evictions: to find out that they cannot help costs a look at every node, so it is not found out with every cycle.

A gang for which evictions were planned without success is left alone, for longer each time, unless there is something new: the gang
has changed, the rules have, or more places stand free. All of that is remembered as plain data, and holds after a restart as well.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.cluster.fingerprints import fingerprint
from pumice.cluster.tasks import Status
from pumice.scheduling.core.memory import Slot, past
from pumice.scheduling.placing import pending

if TYPE_CHECKING:
    from pumice.instant import Duration, Instant
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

PAUSE_FIRST = 2 * instant.SECOND
PAUSE_MAX = instant.MINUTE
# Where there is more to find out than time: else the first would have every turn.
PAUSE_BEHIND_MAX = 10 * instant.MINUTE
BACKOFFS_MAX = 3_000  # of about 170 bytes each; beyond it those that end first are dropped, and tried again too early


class Backoff(msgspec.Struct, frozen=True, array_like=True):
    """Evictions for a gang as it was came to nothing; they are not planned again before `until`."""

    gang: str  # fingerprint
    rules: str  # fingerprint of the policy and the snapshot's rules
    shifts: int  # the snapshot's
    free: int  # places that stood free
    pause: int
    until: int


class EvictionBackoff(msgspec.Struct, frozen=True):
    """By action, then by the gang's uid; `is_behind`: the last cycle's budget ended before every gang had its turn."""

    is_behind: bool = False
    actions: dict[str, dict[str, Backoff]] = {}


SLOT = Slot("eviction-backoff", EvictionBackoff, persistent=True)


def lasts(session: Session, action: str, gang: GangState) -> bool:
    """Whether the gang is left alone still; then there is a cycle when that is over."""
    until = _ends(session, action, gang)
    if until is not None:
        session.changes_at.append(until)
    return until is not None


def _ends(session: Session, action: str, gang: GangState) -> Instant | None:
    """Until when no evictions are planned for the gang, because they came to nothing a while ago and it is still the same."""
    memory = session.memory.of(SLOT)
    known = memory.actions.get(action, {}).get(gang.uid)
    if known is None or session.now >= known.until or known.gang != gang.gang.fingerprint:
        return None
    if past(known.until - known.pause, session.now) is None:
        return None
    # While some gangs have had no turn at all, news give no gang a second one so soon.
    waits_for_others = memory.is_behind and session.now < known.until - known.pause + PAUSE_MAX
    if not waits_for_others and (not _is_same(session, known) or free_places(session, gang) > known.free):
        return None
    return known.until


def backoff_after(session: Session, action: str, gang: GangState, budget: int) -> Backoff | None:
    """What to remember of a plan that came to nothing; `budget` is what was left when the gang's turn came.

    Nothing where the budget ended too early for it. But a gang that had most of a cycle's may not have that of the next one as well.
    """
    if session.budget <= 0 and 2 * budget < session.units:
        return None
    memory, current = session.memory.of(SLOT), gang.gang.fingerprint
    known = memory.actions.get(action, {}).get(gang.uid)
    pause: Duration = PAUSE_FIRST
    if known is not None and known.gang == current and (memory.is_behind or _is_same(session, known)):
        pause = min(2 * known.pause, PAUSE_BEHIND_MAX if memory.is_behind else PAUSE_MAX)
    if (better := session.retry_at.get(gang.key)) is not None:
        pause = min(pause, max(better - session.now, 1))
    return Backoff(
        current,
        session.shared(_rules),
        session.snapshot.shifts,
        free_places(session, gang),
        pause=pause,
        until=session.now + pause,
    )


def record(session: Session, action: str, gang: GangState, budget: int) -> None:
    """For actions: remember that a plan for the gang came to nothing."""
    if (better := session.retry_at.get(gang.key)) is not None:
        session.changes_at.append(better)  # also for who keeps no back-offs
    if session.shortcuts.forgets_backoffs:
        return
    backoff = backoff_after(session, action, gang, budget)
    if backoff is not None:
        session.backoffs.setdefault(action, {})[gang.uid] = backoff


def next_value(session: Session) -> EvictionBackoff:
    """What the next cycle knows: as before and what this one learned, without gangs that are gone or wait for nothing."""
    before, present = session.memory.of(SLOT).actions, {gang.uid for gang in session.restless}
    merged = {
        action: {**before.get(action, {}), **session.backoffs.get(action, {})}
        for action in sorted(before.keys() | session.backoffs.keys())
    }
    kept = [
        (backoff.until, action, uid, backoff)
        for action, known in merged.items()
        for uid, backoff in known.items()
        if uid in present
    ]
    if len(kept) > BACKOFFS_MAX:
        kept = heapq.nlargest(BACKOFFS_MAX, kept)
    actions: dict[str, dict[str, Backoff]] = {}
    for _, action, uid, backoff in sorted(kept, key=lambda each: each[1:3]):
        actions.setdefault(action, {})[uid] = backoff
    return EvictionBackoff(session.budget <= 0, actions)


def _is_same(session: Session, known: Backoff) -> bool:
    """Whether the rules are those of then. Shifts are counted anew after a restart, and then say less for one pause at most."""
    return known.rules == session.shared(_rules) and session.snapshot.shifts <= known.shifts


def _rules(session: Session) -> str:
    policy = session.policy
    return fingerprint(policy.actions, policy.options, policy.configurations, session.snapshot.rules)


def free_places(session: Session, gang: GangState) -> int:
    """How many of the gang's first waiting member find room while all others stay: with more of them, fewer need go."""
    shape = pending.shape_of_all(session, gang)
    if shape is None:
        first = next((task for task in gang.tasks if gang.status(task) is Status.PENDING), None)
        if first is None:
            return 0
        shape = session.shape(first)
    return session.placer.free_places(shape)
