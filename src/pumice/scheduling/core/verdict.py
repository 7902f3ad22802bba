"""Why something cannot happen now: reasons with counts, and what could change them.

All that is said here is data (see codes.py): it is compared as data, and becomes a sentence only where a person reads it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from msgspec import Struct

from pumice.api.decoding import UNREADABLE
from pumice.cluster.columns import Mask
from pumice.scheduling.core.codes import NO_FACTS, Code, Facts

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable


class Cure(enum.Enum):
    """What could turn a no into a yes."""

    EVICTION = "eviction"  # a pod would have to leave; one that leaves by itself helps too
    WAITING = "waiting"  # what is missing comes with time alone: members, admission, a budget
    CHANGE = "change"  # neither: the pod, the node or the policy would have to be different


class Denial(Struct, frozen=True, eq=False):
    """A filter's no: `nodes` is True for each node that it refuses."""

    code: Code
    plugin: str
    nodes: Mask
    cure: Cure = Cure.CHANGE
    facts: Facts = NO_FACTS


class Reason(Struct, frozen=True):
    """One class of reasons: so many nodes (or the whole gang, nodes 0) are out because of it."""

    code: Code
    plugin: str
    facts: Facts = NO_FACTS
    nodes: int = 0
    cure: Cure = Cure.CHANGE

    @property
    def text(self) -> str:
        """The sentence for people."""
        return self.code.text(self.facts)

    @property
    def topic(self) -> Hashable:
        """Equal as long as nothing but numbers changes."""
        return (self.code, self.plugin, self.cure, self.facts.subject)


class Cause(Struct, frozen=True):
    """Why a pod has to go."""

    code: Code
    facts: Facts = NO_FACTS

    @property
    def text(self) -> str:
        """The sentence for people."""
        return self.code.text(self.facts)


class FitError(Struct, frozen=True):
    """Why one task found no node: how many nodes were looked at, and what each class of reasons cost."""

    reasons: tuple[Reason, ...]
    looked_at: int
    instead: Reason | None = None  # told in place of the count, where no node was looked at
    hyper_node: str = ""

    @property
    def text(self) -> str:
        """In Volcano's words: `0/3 nodes are unavailable: 2 Insufficient cpu, 1 node(s) were unschedulable.`"""
        if self.instead is not None:
            return self.instead.text
        if not self.reasons:
            return "0/0 nodes are unavailable"
        counted = ", ".join(sorted(f"{reason.nodes} {reason.text}" for reason in self.reasons))
        where = f"In hyperNode {self.hyper_node}: " if self.hyper_node else ""
        return f"{where}0/{self.looked_at} nodes are unavailable: {counted}."

    @property
    def topic(self) -> Hashable:
        return self.instead.topic if self.instead is not None else frozenset(each.topic for each in self.reasons)


def count_reasons(denials: Iterable[Denial], among: Mask) -> tuple[Reason, ...]:
    """Counts nodes per reason. A node that no eviction can help is not looked at further; others may fail twice."""
    counted: dict[tuple[Code, str, Facts, Cure], int] = {}
    undecided = among.copy()
    for denial in denials:
        refused = denial.nodes & undecided
        number = int(np.count_nonzero(refused))
        if number:
            key = (denial.code, denial.plugin, denial.facts, denial.cure)
            counted[key] = counted.get(key, 0) + number
            if denial.cure is not Cure.EVICTION:
                undecided &= ~refused
    return tuple(Reason(code, plugin, facts, number, cure) for (code, plugin, facts, cure), number in counted.items())


def merge_reasons(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    """One Reason per plugin and cause, the largest count kept: equal members fail for equal reasons."""
    kept: dict[tuple[Code, str, Facts], Reason] = {}
    for reason in reasons:
        key = (reason.code, reason.plugin, reason.facts)
        former = kept.get(key)
        if former is None or former.nodes < reason.nodes:
            kept[key] = reason
    return tuple(kept.values())


class Verdict(Struct, frozen=True):
    """Why a gang waits, as its PodGroup tells it: with the numbers of the moment when nothing but numbers last changed."""

    phase: str
    at: str  # that moment
    reasons: tuple[Reason, ...]
    members: dict[str, int] = {}  # by status
    pending: dict[str, int] = {}  # by the reason word of their condition

    @property
    def topic(self) -> Hashable:
        """Equal as long as nothing but numbers changes."""
        return (
            self.phase,
            frozenset(self.members),
            frozenset(self.pending),
            frozenset(each.topic for each in self.reasons),
        )


def encode(verdict: Verdict) -> str:
    """As it stands in the annotation."""
    data = msgspec.structs.asdict(verdict)
    return msgspec.json.encode({**data, "reasons": [as_data(each) for each in verdict.reasons]}).decode()


def decode(text: str) -> Verdict | None:
    """What `encode` wrote; None for what another version, or another program, wrote."""
    try:
        return msgspec.json.decode(text, type=Verdict)
    except UNREADABLE:
        return None


def as_data(reason: Reason) -> dict[str, Any]:
    """The JSON form: code, plugin, facts, nodes, cure, and the sentence as `reason`."""
    data: dict[str, Any] = msgspec.to_builtins(reason)
    return {**data, "reason": reason.text}
