"""One plan over an edited snapshot, and what it would mean for a gang."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import msgspec

from pumice.api.scheduling import PodGroupPhase
from pumice.cluster.tasks import OCCUPYING
from pumice.scheduling.core import cycle
from pumice.scheduling.core.memory import EMPTY, Memory
from pumice.scheduling.core.shortcuts import NO_SHORTCUTS
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.cluster.state import Snapshot
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.plugin import Plugin
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Ports
    from pumice.scheduling.core.shortcuts import Shortcuts

EVICTING_ACTIONS = frozenset({"consolidate", "preempt", "reclaim", "gangpreempt", "gangreclaim", "shuffle"})


class Question(Value):
    """What a cycle is planned from; a trial differs from it in one thing."""

    snapshot: Snapshot
    policy: Policy
    now: Instant
    memory: Memory = EMPTY
    ports: Ports | None = None
    extra_plugins: Mapping[str, type[Plugin]] = msgspec.field(default_factory=dict)

    def plan(
        self,
        snapshot: Snapshot,
        *,
        evicts: bool = True,
        explain: bool = True,
        policy: Policy | None = None,
        shortcuts: Shortcuts = NO_SHORTCUTS,
    ) -> Decisions:
        """What the engine would do; quicker where it only places what fits, and where nobody reads why gangs wait."""
        policy = policy or self.policy
        if not evicts:
            actions = tuple(name for name in policy.actions if name not in EVICTING_ACTIONS)
            policy = msgspec.structs.replace(policy, actions=actions, break_deadlocks=False)
        return cycle.plan(
            snapshot,
            policy,
            self.memory,
            now=self.now,
            ports=self.ports,
            extra_plugins=self.extra_plugins,
            explain=explain,
            shortcuts=shortcuts,
        )


class Start(Value):
    """A gang would start: at once, or once `victims` (pods by gang) have left; without pods so far, it would be admitted."""

    victims: Mapping[str, int] = msgspec.field(default_factory=dict)


def start_of(snapshot: Snapshot, decisions: Decisions, key: str) -> Start | None:
    """How the gang starts by these decisions; None where it goes on waiting."""
    gang = snapshot.gangs[key]
    if not gang.tasks:
        return Start() if decisions.gangs[key].phase == PodGroupPhase.INQUEUE.value else None
    bound = sum(len(commit.binds) for commit in decisions.commits if commit.gang == key)
    if bound and bound + sum(gang.counts[status] for status in OCCUPYING) >= gang.spec.min_member:
        return Start()
    if not any(claim.gang == key for claim in decisions.claims):
        return None
    return Start(Counter(each.task.gang for each in decisions.evictions if each.claimant == key))
