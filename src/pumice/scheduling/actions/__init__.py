"""The actions, one file each; a policy names those that run, in order. A new one is a file here and a line in this table.

Read `enqueue` (which gangs may have pods) and `allocate` (which start) first; `backfill` places pods that ask for nothing. `preempt` and `reclaim`
make room within a queue and between queues, `gangpreempt` and `gangreclaim` do so gang by gang. `lend` gives away what nobody can use within
a share. `shuffle` moves running pods, and `consolidate` moves gangs so that what is free in pieces becomes room for one that waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling.actions import (
    allocate,
    backfill,
    consolidate,
    enqueue,
    gangpreempt,
    gangreclaim,
    lend,
    preempt,
    reclaim,
    shuffle,
)
from pumice.scheduling.core import arguments
from pumice.scheduling.evicting import gang_eviction, moving

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.session import Session

NAMES: Mapping[str, Callable[[Session], None]] = {
    "allocate": allocate.run,
    "backfill": backfill.run,
    "consolidate": consolidate.run,
    "enqueue": enqueue.run,
    "gangpreempt": gangpreempt.run,
    "gangreclaim": gangreclaim.run,
    "lend": lend.run,
    "preempt": preempt.run,
    "reclaim": reclaim.run,
    "shuffle": shuffle.run,
}
# The `configurations` that an action understands; those not named here have none of their own.
ARGUMENTS: Mapping[str, type[arguments.ActionArgs]] = {
    "allocate": arguments.CachingArgs,
    "backfill": arguments.CachingArgs,
    "consolidate": moving.Arguments,
    "gangpreempt": gang_eviction.Arguments,
    "gangreclaim": gang_eviction.Arguments,
    "preempt": preempt.Arguments,
    "reclaim": arguments.CachingArgs,
}


def check(policy: Policy) -> None:
    """Raises PolicyError where an action's `configurations` cannot be meant."""
    for name in policy.configurations:
        arguments.read_action(ARGUMENTS.get(name, arguments.ActionArgs), policy, name)
