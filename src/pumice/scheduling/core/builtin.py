"""The policy that holds when no file is given, written out in the format of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.scheduling import actions, plugins
from pumice.scheduling.core import policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.scheduling.plugins import Plugin

NO_PLUGINS: Mapping[str, type[Plugin]] = {}

TEXT = """\
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
  - name: network-topology-aware
"""


def parse(text: str | bytes, source: str, extra: Mapping[str, type[Plugin]] = NO_PLUGINS) -> policy.Policy:
    """A policy that may use every action and plugin that comes with Pumice, and those of `extra`."""
    parsed = policy.parse(text, source=source, actions=list(actions.NAMES), plugins=[*plugins.NAMES, *extra])
    actions.check(parsed)
    return parsed
