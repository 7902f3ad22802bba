"""Policies that have a name: what batch systems do, and what Pumice does without a file."""

from __future__ import annotations

import re

from pumice.scheduling.core import builtin
from pumice.values import Value

# As batch systems do it: in order of priority and submission, and nothing else decides.
_BATCH = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: predicates
"""
_FAIR_SHARE = """\
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: fairshare
  - name: predicates
"""
_VOLCANO = """\
actions: "enqueue, allocate, backfill"
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
"""
_RESERVATION = """\
  - name: reservation
    arguments: {{depth: {depth}, patience: 0s, horizon: 87600h}}
"""
ALL_THAT_WAIT = 10_000


class Named(Value):
    """A policy, and whether queues beside it are emptied in strict order."""

    text: str
    meaning: str = ""
    strict: bool = False
    pod_by_pod: bool = False  # kube-scheduler decides, in place of the engine


def _without_reservation(text: str) -> str:
    return re.sub(r"  - name: reservation\n(?:    .*\n)*", "", text)


NAMED = {
    "fifo": Named(_BATCH, "first come, first served: nobody passes", strict=True),
    "easy": Named(
        _BATCH + _RESERVATION.format(depth=1), meaning="EASY backfill: who passes must not delay the first that waits"
    ),
    "conservative": Named(
        _BATCH + _RESERVATION.format(depth=ALL_THAT_WAIT),
        meaning="conservative backfill: who passes must not delay anybody",
    ),
    "greedy": Named(
        _without_reservation(builtin.TEXT), meaning="the built-in policy without reservations: whatever fits starts"
    ),
    "builtin": Named(builtin.TEXT, meaning="the policy that holds where no file is given"),
    "fair-share": Named(_FAIR_SHARE, meaning="whoever has used least goes first; whatever fits starts"),
    "one-by-one": Named(
        "",
        meaning="as kube-scheduler places: pod by pod, and gangs that are not whole hold what they have",
        pod_by_pod=True,
    ),
    "volcano": Named(_VOLCANO, meaning="Volcano's default: whole gangs, and whatever fits starts"),
}
