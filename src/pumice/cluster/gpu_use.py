"""What pods really use of their GPUs, as the agents of nodes write it onto their Node, for schedulers on other machines.

`peak` is the highest over PEAK_OVER: a pod whose peak stays low has done nothing with its GPUs for that long.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice import instant
from pumice.api import names
from pumice.api.decoding import UNREADABLE
from pumice.api.meta import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from pumice.api.core import Node
    from pumice.instant import Instant

PEAK_OVER = 10 * instant.MINUTE
REPORT_S = 30.0  # how often a node's agent reports
STALE = 4 * round(REPORT_S) * instant.SECOND  # older reports count for nothing
REPORTS_CACHED_MAX = 4_096


class PodGpuUse(Struct):
    """Of all GPUs that a pod sees, in percent: on average of late, and at most over PEAK_OVER; and the memory in use."""

    percent: float
    peak: float
    memory_mib: int = 0


class Report(Struct):
    """What one node's agent says, by the pods' keys."""

    at: str
    pods: Mapping[str, PodGpuUse] = msgspec.field(default_factory=dict)


def write(report: Report) -> str:
    return msgspec.json.encode(report).decode()


@lru_cache(maxsize=REPORTS_CACHED_MAX)
def _read(text: str) -> Report | None:
    """None for what is no report: anybody with rights on nodes may write annotations."""
    try:
        return msgspec.json.decode(text, type=Report)
    except UNREADABLE:
        return None


def measured_pods(node: Node) -> AbstractSet[str]:
    """The pods that a node's report names."""
    text = node.metadata.annotations.get(names.GPU_USE)
    report = _read(text) if text else None
    return report.pods.keys() if report is not None else frozenset()


def reported(nodes: Iterable[Node], now: Instant) -> Mapping[str, PodGpuUse]:
    """By the pods' keys, what nodes have reported lately."""
    found: dict[str, PodGpuUse] = {}
    for node in nodes:
        text = node.metadata.annotations.get(names.GPU_USE)
        report = _read(text) if text else None
        if report is not None and _is_fresh(report.at, now):
            found |= report.pods
    return found


def _is_fresh(text: str, now: Instant) -> bool:
    try:
        return now - instant.parse_instant(text) <= STALE
    except instant.InstantError:
        return False
