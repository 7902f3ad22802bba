"""The actions, one file each; a policy names those that run, in order. A new one is a file here and a line in this table."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.scheduling.session import Session

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
