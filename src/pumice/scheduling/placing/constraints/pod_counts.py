"""Where the pods are that other pods ask about, counted per node; the counts follow every placement and its undo.

An audience says which pods are meant. A crowd is what several audiences mean together. Nothing is counted before a rule
asks; then the nodes that have a pod with one of the wanted labels are looked at, and from there on each move adds or takes one.
Evicted pods count no longer, promised ones do: that is how kube-scheduler's own view follows Volcano's session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.api.core import Namespace
from pumice.cluster.tasks import ON_A_NODE, Status
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.placing.constraints.labels import ABSENT, NodeLabels
from pumice.values import once

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.cluster.terms import Audience, Term, Terms
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.selectors import Requirement

Crowd = tuple["Audience", ...]

REQUIRED = 0  # weight of a term that is no preference


class Audiences:
    """All audiences that matter in a cycle, found by a pod's labels without trying each of them."""

    def __init__(self, namespaces: Mapping[str, Namespace]) -> None:
        self._namespaces = namespaces
        self._known: set[Audience] = set()
        self._by_label: dict[tuple[str, str], list[Audience]] = {}
        self._others: list[Audience] = []
        self._reach: dict[tuple[Audience, str], bool] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def add(self, audience: Audience) -> None:
        if audience in self._known:
            return
        self._known.add(audience)
        anchor = anchor_of(audience)
        if anchor is None:
            self._others.append(audience)
        else:
            for value in set(anchor.values):
                self._by_label.setdefault((anchor.key, value), []).append(audience)

    def meaning(self, task: Task) -> tuple[Audience, ...]:
        """The audiences that the pod is part of."""
        return tuple(audience for audience in self._likely(task.pod.metadata.labels) if self.means(audience, task))

    def means(self, audience: Audience, task: Task) -> bool:
        return self.reaches(audience, task.namespace) and audience.selector.matches(task.pod.metadata.labels)

    def _likely(self, labels: Mapping[str, str]) -> Iterator[Audience]:
        yield from self._others
        for label in labels.items():
            yield from self._by_label.get(label, ())

    def reaches(self, audience: Audience, namespace: str) -> bool:
        """Whether pods of that namespace are meant at all."""
        if namespace in audience.namespaces:
            return True
        key = (audience, namespace)
        reached = self._reach.get(key)
        if reached is None:
            known = self._namespaces.get(namespace)
            labels = known.metadata.labels if known is not None else {}
            reached = self._reach[key] = audience.namespace_selector.matches(labels)
        return reached


class Neighbours:
    """Counts per node of crowds, and of pods that hold a term against or in favour of others; one for all plugins."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._labels = session.shared(NodeLabels)
        self.audiences = Audiences(session.snapshot.objects(Namespace))
        self._labelled: dict[str, list[Mapping[str, tuple[Task, ...]]]] = {}  # by key, for each node: value -> pods
        self._columns: dict[tuple[Crowd, bool], Column] = {}
        self._counted: dict[Audience, list[tuple[Crowd, Column]]] = {}  # by the first audience of the crowd
        self._holders: dict[Audience, dict[tuple[Term, int], list[Terms]]] = {}
        self._holding: dict[tuple[Term, int], Column] = {}
        self._memberships: dict[Shape, tuple[Audience, ...]] = {}
        for terms in dict.fromkeys(task.terms for task in session.snapshot.with_terms):
            if terms is not None:
                self._learn(terms)
        self._is_declared = False
        self.tell_apart()
        session.on.moved(self.moved)

    def tell_apart(self) -> None:
        """For who adds audiences while plugins open: once there are any, they tell pods apart."""
        if self.audiences and not self._is_declared:
            self._is_declared = True
            self._session.on.declare(Reads.NOTHING, self.trait)

    def _learn(self, terms: Terms) -> None:
        for term in terms.wants:
            self.audiences.add(term.audience)
        for spread in terms.spreads:
            self.audiences.add(spread.audience)
        for held in held_by(terms):
            audience = held[0].audience
            self.audiences.add(audience)
            self._holders.setdefault(audience, {}).setdefault(held, []).append(terms)

    @once
    def _where(self) -> dict[Terms, list[int]]:
        """Nodes of the pods with the same terms when the cycle began."""
        index = self._session.room.table.index
        found: dict[Terms, list[int]] = {}
        for task in self._session.snapshot.with_terms:
            if task.terms is not None and task.status in ON_A_NODE and task.node in index:
                found.setdefault(task.terms, []).append(index[task.node])
        return found

    # ------------------------------------------------------------------------------------------------- shapes

    def trait(self, task: Task) -> Hashable:
        """What tells pods apart here: what they ask of others, and who means them. Labels as such do not."""
        return task.terms, self.audiences.meaning(task)

    def audiences_of(self, shape: Shape) -> tuple[Audience, ...]:
        found = self._memberships.get(shape)
        if found is None:
            found = self._memberships[shape] = self.audiences.meaning(shape.example) if self.audiences else ()
        return found

    def is_part(self, shape: Shape, crowd: Crowd) -> bool:
        """Whether such a pod is itself one of the crowd."""
        own = self.audiences_of(shape)
        return all(audience in own for audience in crowd)

    # ------------------------------------------------------------------------------------------------- counts

    def crowd(self, crowd: Crowd, *, leaving: bool) -> Column:
        """How many pods of the crowd are on each node; `leaving` also counts those that are being deleted."""
        key = (crowd, leaving)
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = self._count(crowd, leaving=leaving)
            self._counted.setdefault(crowd[0], []).append((crowd, column))
        return column

    def _count(self, crowd: Crowd, *, leaving: bool) -> Column:
        column = np.zeros(len(self._labels), dtype=np.int64)
        for node, likely in self._likely(crowd):
            column[node] += sum(
                (leaving or task.status is not Status.RELEASING)
                and all(self.audiences.means(audience, task) for audience in crowd)
                for task in likely
            )
        for task, node, sign in self._moves():
            own = self.audiences_of(self._session.shape(task))
            if all(audience in own for audience in crowd):
                column[node] += sign
        return column

    def _likely(self, crowd: Crowd) -> Iterator[tuple[int, tuple[Task, ...]]]:
        """Nodes with pods that have one of the labels which the crowd must have; all nodes where it must have none."""
        anchor = next((anchor for audience in crowd if (anchor := anchor_of(audience)) is not None), None)
        if anchor is None:
            yield from enumerate(self._session.room.table.tasks)
            return
        by_node = self._labelled.get(anchor.key)
        if by_node is None:
            by_node = self._labelled[anchor.key] = [own.labelled(anchor.key) for own in self._session.room.table.tasks]
        for value in set(anchor.values):
            for node in [node for node, own in enumerate(by_node) if value in own]:
                yield node, by_node[node][value]

    def held_against(self, shape: Shape) -> list[tuple[Term, Column]]:
        """Terms by which pods elsewhere refuse such a pod, with how many hold them on each node."""
        return [(term, column) for term, weight, column in self._terms_held(shape) if weight == REQUIRED]

    def held_preferences(self, shape: Shape) -> list[tuple[Term, int, Column]]:
        """Terms by which pods elsewhere prefer or dislike such a pod: weight, and how many hold them on each node."""
        return [held for held in self._terms_held(shape) if held[1] != REQUIRED]

    def _terms_held(self, shape: Shape) -> Iterator[tuple[Term, int, Column]]:
        for audience in self.audiences_of(shape):
            for held in self._holders.get(audience, ()):
                column = self._holding.get(held)
                if column is None:
                    column = self._holding[held] = self._count_holders(held)
                yield held[0], held[1], column

    def _count_holders(self, held: tuple[Term, int]) -> Column:
        column = np.zeros(len(self._labels), dtype=np.int64)
        for terms in self._holders[held[0].audience][held]:
            np.add.at(column, self._where.get(terms, []), 1)
        for task, node, sign in self._moves():
            if task.terms is not None:
                column[node] += sign * sum(each == held for each in held_by(task.terms))
        return column

    def near(self, column: Column, topology_key: str) -> Column:
        """For each node the sum over all nodes with the same value of the label; zero where the node lacks it."""
        codes = self._labels.column(topology_key)
        return sums_by(codes.codes, column, len(codes))[codes.codes]

    # ------------------------------------------------------------------------------------------------- moves

    def _moves(self) -> Iterator[tuple[Task, int, int]]:
        """What this session has placed (+1) or evicted (-1) so far."""
        for gang in self._session.gangs.moved:
            for task, (status, node) in gang.places.items():
                was, is_ = task.status in ON_A_NODE, status not in {Status.RELEASING, Status.PENDING}
                if was != is_:
                    yield task, node, 1 if is_ else -1

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del gang, tasks
        for column in self._columns_of(shape):
            if len(nodes) == 1:
                column[nodes[0]] += sign
            else:
                np.add.at(column, np.asarray(nodes, dtype=np.intp), sign)

    def _columns_of(self, shape: Shape) -> Iterator[Column]:
        if self._counted:
            own = self.audiences_of(shape)
            for audience in own:
                for crowd, column in self._counted.get(audience, ()):
                    if len(crowd) == 1 or all(each in own for each in crowd):
                        yield column
        terms = shape.example.terms
        if terms is not None and self._holding:
            for held in held_by(terms):
                if held in self._holding:
                    yield self._holding[held]


def anchor_of(audience: Audience) -> Requirement | None:
    """A label that every pod of the audience has, with one of the requirement's values."""
    return next((each for each in audience.selector.requirements if each.operator in {"=", "==", "In"}), None)


def held_by(terms: Terms) -> Iterator[tuple[Term, int]]:
    """The terms that other pods feel: required anti-affinity and all preferences."""
    for term in terms.avoids:
        yield term, REQUIRED
    for term, weight in terms.prefers:
        if weight:
            yield term, weight


def sums_by(codes: Column, column: Column, size: int) -> Column:
    """The sum for each code; absence of the label sums to nothing."""
    sums: Column = np.bincount(codes, weights=column, minlength=size).astype(np.int64)
    sums[ABSENT] = 0
    return sums


def unique(crowd: Iterable[Audience]) -> Crowd:
    return tuple(dict.fromkeys(crowd))
