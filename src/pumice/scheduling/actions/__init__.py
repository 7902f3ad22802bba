"""The actions, one file each; a policy names those that run, in order. A new one is a file here and a line in this table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from pumice.scheduling.core import arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.session import Session

NAMES: Mapping[str, str] = {
    "allocate": "allocate",
    "backfill": "backfill",
    "enqueue": "enqueue",
    "gangpreempt": "gangpreempt",
    "gangreclaim": "gangreclaim",
    "preempt": "preempt",
    "reclaim": "reclaim",
    "shuffle": "shuffle",
}


def find(name: str) -> Callable[[Session], None]:
    action: Callable[[Session], None] = importlib.import_module(f"{__name__}.{NAMES[name]}").run
    return action


def check(policy: Policy) -> None:
    """Raises PolicyError where an action's `configurations` cannot be meant; an action declares its `Arguments`."""
    for name in policy.configurations:
        module = importlib.import_module(f"{__name__}.{NAMES[name]}")
        arguments.read_action(getattr(module, "Arguments", arguments.ActionArgs), policy, name)
