"""Decisions as bytes, part by part: equal bytes are equal decisions. Pods are named by their uids, because they are inputs."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.scheduling.core import memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.decisions import Decisions, GangReport, PodVerdict
    from pumice.scheduling.core.memory import Slot

_ENCODER = msgspec.json.Encoder(order="deterministic")
_DIGEST_BYTES = 16
# Fields that hold tasks, or keys that JSON does not have; all others are encoded as they are.
_SPECIAL = frozenset(
    {"commits", "evictions", "notices", "withdrawn", "releases", "ungated", "gangs", "memory", "metrics", "failures",
     "orphans"}
)  # fmt: skip


def parts(decisions: Decisions, slots: Iterable[Slot[Any]]) -> dict[str, bytes]:
    """Every field of the decisions by its name."""
    found = {
        name: _ENCODER.encode(getattr(decisions, name)) for name in decisions.__struct_fields__ if name not in _SPECIAL
    }
    found |= {name: _ENCODER.encode(value) for name, value in _special(decisions).items()}
    found["memory"] = memory.encode(decisions.memory, slots)
    return found


def digests(whole: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.blake2b(part, digest_size=_DIGEST_BYTES).hexdigest() for name, part in whole.items()}


def _special(decisions: Decisions) -> dict[str, Any]:
    return {
        "commits": [
            (
                commit.gang,
                commit.needed,
                commit.mends,
                [(_name(each.task), each.node, each.first, each.annotations, each.lock) for each in commit.binds],
            )
            for commit in decisions.commits
        ],
        "evictions": [
            (_name(each.task), each.rule, each.claimant, each.cause, each.about, each.after_notice)
            for each in decisions.evictions
        ],
        "notices": [(_name(each.task), each.about) for each in decisions.notices],
        "withdrawn": [_name(task) for task in decisions.withdrawn],
        "releases": [
            (each.gang, [_name(task) for task in each.tasks], each.cause, each.at_once) for each in decisions.releases
        ],
        "ungated": [_name(task) for task in decisions.ungated],
        "gangs": [_report(report) for report in decisions.gangs.values()],
        "metrics": {name: list(values.items()) for name, values in decisions.metrics.items()},
        "failures": [(each.plugin, each.gang, each.error) for each in decisions.failures],
        "orphans": {key: [_verdict(each) for each in own] for key, own in decisions.orphans.items()},
    }


def _report(report: GangReport) -> tuple[Any, ...]:
    return msgspec.structs.replace(report, pods=()), [_verdict(each) for each in report.pods]


def _verdict(verdict: PodVerdict) -> tuple[Any, ...]:
    return _name(verdict.task), verdict.reason, verdict.why, verdict.nominated_node, verdict.of_gang


def _name(task: Task) -> str:
    return f"{task.key} {task.uid}"
