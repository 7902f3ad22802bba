"""The policies that worlds are played under: three that are written out, and any that chance puts together."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from pumice.scheduling.core import builtin

if TYPE_CHECKING:
    import random

    from pumice.scheduling.core.policy import Policy

BUILT_IN = "built-in"
RESERVING = "reserving"
CAPACITY = "capacity"
IN_LINE = (
    "enqueue allocate backfill/priority gang conformance/predicates nodeorder"  # everybody is admitted, nobody evicted
)
_CAPACITY = """\
actions: "enqueue, allocate, reclaim, preempt, backfill"
breakDeadlocks: true
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
_EAGER = "{patience: 0s, depth: 2}"  # worlds are too short for patience
_ARGUMENTS = {"reservation": f"\n    arguments: {_EAGER}"}
_WRITTEN = {
    BUILT_IN: builtin.TEXT,
    RESERVING: builtin.TEXT.replace("{patience: 5m}", _EAGER),
    CAPACITY: _CAPACITY,
}

# What chance chooses from. What protects gangs and queues is always there, because worlds are held to it; and so is breakDeadlocks: without it a
# gang that was admitted and never fits keeps others out for ever, as under Volcano.
_ACTIONS = ("preempt", "reclaim", "lend", "backfill", "shuffle", "consolidate")
_FIRST_TIER = ("eviction", "reservation", "sla", "pdb")
_SECOND_TIER = (
    "overcommit",
    "user-limits",
    "fairshare",
    "drf",
    "nodeorder",
    "binpack",
    "resource-strategy-fit",
    "deviceshare",
    "fragmentation",
    "network-topology-aware",
    "task-topology",
    "resourcequota",
)
SWARM = 0.55  # of all worlds have a policy of their own
PART_IN = 0.35  # the chance of a part to be in such a policy


def drawn(chance: random.Random) -> str:
    """The name of a policy; one of the swarm is named by all that it has."""
    if chance.random() >= SWARM:
        return chance.choice((BUILT_IN, RESERVING, CAPACITY))
    actions = ["enqueue", "allocate", *_some(chance, _ACTIONS)]
    first = ["priority", "gang", "conformance", *_some(chance, _FIRST_TIER)]
    second = ["predicates", chance.choice(("proportion", "capacity")), *_some(chance, _SECOND_TIER)]
    return "/".join(" ".join(each) for each in (actions, first, second))


def _some(chance: random.Random, of: tuple[str, ...]) -> list[str]:
    return [each for each in of if chance.random() < PART_IN]


@functools.cache
def chosen(name: str) -> Policy:
    """Parsed once for all worlds: policies do not change."""
    text = _WRITTEN.get(name)
    if text is None:
        actions, *tiers = (part.split(" ") for part in name.split("/"))
        lines = [f'actions: "{", ".join(actions)}"', "breakDeadlocks: true", "tiers:"]
        for tier in tiers:
            lines += ["- plugins:", *(f"  - name: {plugin}{_ARGUMENTS.get(plugin, '')}" for plugin in tier)]
        text = "\n".join(lines)
    return builtin.parse(text, f"{name} policy")
