"""The policies that worlds are played under."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pumice.scheduling.core import builtin
from pumice.sim.worlds import profiles

if TYPE_CHECKING:
    from pumice.scheduling.core.policy import Policy

_CAPACITY = """\
actions: "enqueue, allocate, reclaim, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
  - name: predicates
  - name: capacity
  - name: nodeorder
  - name: binpack
"""


@functools.cache
def chosen(name: str) -> Policy:
    """Parsed once for all worlds: policies do not change."""
    text = {
        profiles.BUILT_IN: builtin.TEXT,
        profiles.RESERVING: builtin.TEXT.replace("{patience: 5m}", "{patience: 0s, depth: 2}"),
        profiles.CAPACITY: _CAPACITY,
    }[name]
    return builtin.parse(text, f"{name} policy")
