"""Pods spread evenly over zones, racks or nodes: as a rule, or as a wish.

A domain is one value of a node label. A rule compares each domain with the emptiest one; nodes that lack a label of any of the
pod's rules, or that its own node affinity excludes, make no domains. Pods that are being deleted do not count.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pumice.api.apps import ReplicaSet, ReplicationController, StatefulSet
from pumice.api.core import Service
from pumice.api.meta import LabelSelector
from pumice.cluster.tasks import Status
from pumice.cluster.terms import Spread, audience_of
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing.constraints.labels import ABSENT, NodeLabels
from pumice.scheduling.placing.constraints.pod_counts import Neighbours, sums_by, unique
from pumice.scheduling.placing.constraints.taints import NodeTaints
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.tasks import Task
    from pumice.cluster.terms import Audience
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.pod_counts import Crowd

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
NO_DOMAINS = 2**31 - 1  # what counts as the emptiest domain where there is none
# Of pods that a Service or a workload selects and that say nothing themselves.
DEFAULT_SKEWS = (
    (HOSTNAME, 3),
    (ZONE, 5),
)


class Rule(Value, eq=False):
    """A spread constraint as it applies to one shape."""

    crowd: Crowd
    topology_key: str
    max_skew: int
    min_domains: int
    domains: Mask  # nodes that make up domains
    everywhere: bool  # all of them do
    self_counts: bool  # such a pod is one of those that are spread


class PodSpread:
    """Filter and score of topology spread constraints; one for all plugins of a session."""

    def __init__(self, session: Session) -> None:
        self._labels = session.shared(NodeLabels)
        self._taints = session.shared(NodeTaints)
        self._neighbours = session.shared(Neighbours)
        self._rules: dict[tuple[Shape, bool], list[Rule]] = {}
        self.defaults: Defaults | None = None

    # ------------------------------------------------------------------------------------------------- filter

    def concerns(self, shape: Shape) -> bool:
        terms = shape.example.terms
        return terms is not None and any(spread.is_hard for spread in terms.spreads)

    def restless(self, shape: Shape) -> bool:
        """Whether a placement changes where the next such pod may go."""
        return self.concerns(shape) and any(_counts_itself(rule) for rule in self.rules(shape, hard=True))

    def denials(self, plugin: str, shape: Shape) -> list[Denial]:
        """Each node with the first constraint that it breaks."""
        unlabelled = np.zeros(len(self._labels), dtype=bool)
        uneven = np.zeros_like(unlabelled)
        for rule in self.rules(shape, hard=True):
            column = self._labels.column(rule.topology_key)
            codes = column.codes
            sums = self._sums(rule)
            present = np.zeros(len(column), dtype=bool)
            present[codes[rule.domains]] = True
            emptiest = int(sums[present].min()) if present.any() else NO_DOMAINS
            if int(np.count_nonzero(present)) < rule.min_domains:
                emptiest = 0
            lacking = codes == ABSENT
            too_many = ~lacking & (sums[codes] + rule.self_counts - emptiest > rule.max_skew)
            unlabelled |= lacking & ~uneven
            uneven |= too_many & ~unlabelled
        return [
            Denial(Code.SPREAD_LABEL_MISSING, plugin, unlabelled),
            Denial(Code.SPREAD, plugin, uneven, Cure.EVICTION),
        ]

    def rules(self, shape: Shape, *, hard: bool) -> list[Rule]:
        """The shape's constraints of one kind; what does not change within a cycle is found out once."""
        key = (shape, hard)
        found = self._rules.get(key)
        if found is None:
            terms = shape.example.terms
            spreads = [spread for spread in terms.spreads if spread.is_hard is hard] if terms is not None else []
            labelled = self._nodes_with_labels([spread.topology_key for spread in spreads])
            found = self._rules[key] = [self._rule(shape, (spread.audience,), spread, labelled) for spread in spreads]
        return found

    def _rule(self, shape: Shape, crowd: Crowd, spread: Spread, domains: Mask) -> Rule:
        if spread.honours_affinity:
            selected = self._labels.allowed_by(shape.example.pod.spec)
            domains = domains if selected is None else domains & selected
        if spread.honours_taints:
            domains = domains & ~self._taints.repelling(shape.example.pod.spec.tolerations)
        return Rule(
            crowd,
            spread.topology_key,
            spread.max_skew,
            spread.min_domains,
            domains,
            bool(domains.all()),
            self._neighbours.is_part(shape, crowd),
        )

    def _nodes_with_labels(self, topology_keys: Sequence[str]) -> Mask:
        """Nodes that have all the labels."""
        labelled = np.ones(len(self._labels), dtype=bool)
        for key in topology_keys:
            labelled &= self._labels.column(key).codes != ABSENT
        return labelled

    def _sums(self, rule: Rule) -> Column:
        """Pods of the crowd in each domain, by the code of the label's value."""
        column = self._labels.column(rule.topology_key)
        if not _selects(rule):
            return np.zeros(len(column), dtype=np.int64)
        counts = self._neighbours.crowd(rule.crowd, leaving=False)
        if not rule.everywhere:
            counts = np.where(rule.domains, counts, 0)
        return sums_by(column.codes, counts, len(column))

    # ------------------------------------------------------------------------------------------------- score

    def wishes(self, shape: Shape) -> tuple[list[Rule], bool]:
        """The soft constraints, and whether a node needs all of their labels to be scored; defaults do not ask that."""
        terms = shape.example.terms
        if terms is not None and terms.spreads:
            return self.rules(shape, hard=False), True
        return self._default_rules(shape), False

    def _default_rules(self, shape: Shape) -> list[Rule]:
        key = (shape, False)
        found = self._rules.get(key)
        if found is None:
            crowd = self.defaults.crowd(shape.example) if self.defaults is not None else ()
            everywhere = np.ones(len(self._labels), dtype=bool)
            found = self._rules[key] = [
                self._rule(shape, crowd, _soft(crowd[0], topology_key, skew), everywhere)
                for topology_key, skew in (DEFAULT_SKEWS if crowd else ())
            ]
        return found

    def changes_itself(self, shape: Shape) -> bool:
        """Whether a placement changes the score of the next such pod."""
        return any(_counts_itself(rule) for rule in self.wishes(shape)[0])

    def score(self, shape: Shape, nodes: Indexes, best: int) -> Column | None:
        """Up to `best` (and beyond the emptiest) where fewest like it are; None where the pod has no such wish."""
        rules, needs_all = self.wishes(shape)
        if not rules:
            return None
        if not needs_all:
            return self._evenness(rules, nodes, best)
        counted = self._nodes_with_labels([rule.topology_key for rule in rules])[nodes]
        if counted.all():
            return self._evenness(rules, nodes, best)
        scores = np.zeros(len(nodes), dtype=np.int64)  # of nodes that lack a label
        if counted.any():
            scores[counted] = self._evenness(rules, nodes[counted], best)
        return scores

    def _evenness(self, rules: Sequence[Rule], nodes: Indexes, best: int) -> Column:
        raw = np.full(len(nodes), 0.5)  # so that truncation rounds
        for rule in rules:
            raw += self._crowding(rule, nodes)
        crowding = raw.astype(np.int64)
        least, most = int(crowding.min()), int(crowding.max())
        scores: Column = np.full(len(nodes), best) if most == 0 else best * (most + least - crowding) // most
        return scores

    def _crowding(self, rule: Rule, nodes: Indexes) -> Scores:
        """Pods like it in each candidate's domain, weighed up where there are many domains."""
        codes = self._labels.column(rule.topology_key).codes.take(nodes)
        if rule.topology_key == HOSTNAME:
            size = len(nodes)
            alike = (
                self._neighbours.crowd(rule.crowd, leaving=False).take(nodes)
                if _selects(rule)
                else np.zeros(len(nodes))
            )
        else:
            size = int(np.count_nonzero(np.bincount(codes)))
            alike = self._sums(rule).take(codes)
        weighed = (alike * math.log(size + 2)).astype(np.float64, copy=False)
        weighed += rule.max_skew - 1
        unlabelled = codes == ABSENT
        if unlabelled.any():
            weighed[unlabelled] = 0.0
        return weighed


class Defaults:
    """Who spreads without saying so: pods that Services or their own workloads select, over nodes and zones."""

    def __init__(self, session: Session) -> None:
        self._neighbours = session.shared(Neighbours)
        self._services: dict[str, list[Audience]] = {}
        for service in session.snapshot.objects(Service).values():
            if service.spec.selector:
                audience = audience_of(service.metadata.namespace, LabelSelector(service.spec.selector))
                self._services.setdefault(service.metadata.namespace, []).append(audience)
                self._neighbours.audiences.add(audience)
        self._owners = _owners(session)
        self._selecting = {audience for own in self._services.values() for audience in own}
        if self._owners:
            for gang in session.restless:
                for task in gang.tasks_in(Status.PENDING):
                    owner = self._owner(task)
                    if owner is not None:
                        self._neighbours.audiences.add(owner)
            session.on.declare(Reads.NOTHING, self._owner)
        self._neighbours.tell_apart()

    def crowd(self, task: Task) -> Crowd:
        """The pods that everything means which selects this pod; empty where nothing does."""
        if task.namespace not in self._services and not self._owners:
            return ()
        selecting = [each for each in self._neighbours.audiences.meaning(task) if each in self._selecting]
        owner = self._owner(task)
        return unique(selecting if owner is None else (*selecting, owner))

    def _owner(self, task: Task) -> Audience | None:
        controller = task.pod.metadata.controller
        if controller is None:
            return None
        return self._owners.get((controller.kind, f"{task.namespace}/{controller.name}"))


def _owners(session: Session) -> Mapping[tuple[str, str], Audience]:
    """Workloads that make their pods alike, by kind and key."""
    found = {}
    selecting: tuple[type[ReplicaSet | StatefulSet], ...] = (ReplicaSet, StatefulSet)
    for kind in selecting:
        for key, workload in session.snapshot.objects(kind).items():
            if workload.spec.selector is not None:
                found[kind.__name__, key] = audience_of(workload.metadata.namespace, workload.spec.selector)
    for key, controller in session.snapshot.objects(ReplicationController).items():
        if controller.spec.selector:
            selector = LabelSelector(controller.spec.selector)
            found[ReplicationController.__name__, key] = audience_of(controller.metadata.namespace, selector)
    return found


def _soft(audience: Audience, topology_key: str, max_skew: int) -> Spread:
    return Spread(audience, topology_key, max_skew, 1, is_hard=False, honours_affinity=True, honours_taints=False)


def _selects(rule: Rule) -> bool:
    """An empty selector means all pods elsewhere, and no pod here (Kubernetes parity)."""
    return any(audience.selector.requirements for audience in rule.crowd)


def _counts_itself(rule: Rule) -> bool:
    return rule.self_counts and _selects(rule)
