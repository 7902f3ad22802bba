"""Why something cannot happen now: reasons with counts, and what could change them."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pumice.cluster.columns import Mask


class Cure(enum.Enum):
    """What could turn a no into a yes."""

    EVICTION = "eviction"  # somebody would have to leave; somebody leaving by itself helps too
    WAITING = "waiting"  # what is missing comes with time alone: members, admission, a budget
    CHANGE = "change"  # neither: the pod, the node or the policy would have to be different


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Denial:
    """A filter's no: `nodes` is True for each node that it refuses."""

    plugin: str
    reason: str
    nodes: Mask
    cure: Cure = Cure.CHANGE


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One class of reasons: so many nodes (or the whole gang, nodes 0) are out because of it."""

    plugin: str
    text: str
    nodes: int = 0
    cure: Cure = Cure.CHANGE


@dataclasses.dataclass(frozen=True, slots=True)
class FitError:
    """Why one task found no node: how many nodes were looked at, and what each class of reasons cost."""

    reasons: tuple[Reason, ...]
    looked_at: int
    message: str = ""  # replaces the count where no node was looked at
    hyper_node: str = ""

    @property
    def text(self) -> str:
        """In Volcano's words: `0/3 nodes are unavailable: 2 Insufficient cpu, 1 node(s) were unschedulable.`"""
        if self.message:
            return self.message
        if not self.reasons:
            return "0/0 nodes are unavailable"
        counted = ", ".join(sorted(f"{reason.nodes} {reason.text}" for reason in self.reasons))
        where = f"In hyperNode {self.hyper_node}: " if self.hyper_node else ""
        return f"{where}0/{self.looked_at} nodes are unavailable: {counted}."


def count_reasons(denials: Iterable[Denial], among: Mask) -> tuple[Reason, ...]:
    """Counts nodes per reason. A node that no eviction can help is not looked at further; others may fail twice."""
    counted: dict[tuple[str, str, Cure], int] = {}
    undecided = among.copy()
    for denial in denials:
        refused = denial.nodes & undecided
        number = int(np.count_nonzero(refused))
        if number:
            key = (denial.plugin, denial.reason, denial.cure)
            counted[key] = counted.get(key, 0) + number
            if denial.cure is not Cure.EVICTION:
                undecided &= ~refused
    return tuple(Reason(plugin, text, number, cure) for (plugin, text, cure), number in counted.items())


def merged(reasons: Iterable[Reason]) -> Mapping[tuple[str, str], Reason]:
    """One Reason per plugin and text, the largest count kept: equal members fail for equal reasons."""
    kept: dict[tuple[str, str], Reason] = {}
    for reason in reasons:
        former = kept.get((reason.plugin, reason.text))
        if former is None or former.nodes < reason.nodes:
            kept[reason.plugin, reason.text] = reason
    return kept
