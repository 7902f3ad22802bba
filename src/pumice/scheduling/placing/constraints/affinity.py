"""Pods that must, must not or would rather be near other pods, in both directions.

What a pod requires is looked up among the pods on nodes; what pods on nodes require of it, among the terms that they hold.
Affinity is met where some pod that fits *all* of its terms is near by each term's label. A pod that fits its own terms may be
the first of its kind anywhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing.constraints.labels import ABSENT, NodeLabels
from pumice.scheduling.placing.constraints.pod_counts import Neighbours, unique

if TYPE_CHECKING:
    from pumice.cluster.columns import Column, Mask
    from pumice.cluster.terms import Term, Terms
    from pumice.scheduling.core.points import Indexes
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.pod_counts import Crowd

NO_LIMIT = np.iinfo(np.int64).max


class PodAffinity:
    """Filter and score of affinity between pods; one for all plugins of a session."""

    def __init__(self, session: Session) -> None:
        self._labels = session.shared(NodeLabels)
        self._neighbours = session.shared(Neighbours)
        self._concerned: dict[Shape, bool] = {}
        self._single: dict[str, bool] = {}

    # ------------------------------------------------------------------------------------------------- filter

    def concerns(self, shape: Shape) -> bool:
        """Whether the pod requires something of others, or another pod could refuse it."""
        concerned = self._concerned.get(shape)
        if concerned is None:
            terms = shape.example.terms
            own = terms is not None and bool(terms.wants or terms.avoids)
            concerned = self._concerned[shape] = own or bool(self._neighbours.held_against(shape))
        return concerned

    def restless(self, shape: Shape) -> bool:
        """Whether a placement may change where the next such pod may go."""
        terms = shape.example.terms
        if terms is None:
            return False
        if any(not self._is_single(term.topology_key) for term in self._avoids_itself(shape, terms)):
            return True
        return (
            bool(terms.wants) and not self._has_company(terms) and self._neighbours.is_part(shape, _wanted_crowd(terms))
        )

    def one_per_node(self, shape: Shape) -> Column | None:
        """Pods that avoid their like on a single node: one more wherever they are not refused already."""
        terms = shape.example.terms
        if terms is None:
            return None
        labelled: Mask | None = None
        for term in self._avoids_itself(shape, terms):
            if self._is_single(term.topology_key):
                has_label = self._labels.column(term.topology_key).codes != ABSENT
                labelled = has_label if labelled is None else labelled | has_label
        return None if labelled is None else np.where(labelled, 1, NO_LIMIT)

    def denials(self, plugin: str, shape: Shape) -> list[Denial]:
        """Each node with the first reason that speaks against it."""
        found = []
        decided = np.zeros(len(self._labels), dtype=bool)
        for code, refused, cure in (
            (Code.POD_AFFINITY, self._lonely(shape), Cure.CHANGE),
            (Code.POD_ANTI_AFFINITY, self._avoided_nodes(shape), Cure.EVICTION),
            (Code.REFUSED_BY_PODS, self._refusing_nodes(shape), Cure.EVICTION),
        ):
            if refused is not None:
                found.append(Denial(code, plugin, refused & ~decided, cure))
                decided |= refused
        return found

    def _lonely(self, shape: Shape) -> Mask | None:
        """Nodes that lack a label, or the company that is wanted."""
        terms = shape.example.terms
        if terms is None or not terms.wants:
            return None
        alone = np.zeros(len(self._labels), dtype=bool)
        if not self._has_company(terms) and self._neighbours.is_part(shape, _wanted_crowd(terms)):
            for term in terms.wants:
                alone |= self._labels.column(term.topology_key).codes == ABSENT
            return alone
        company = self._neighbours.crowd(_wanted_crowd(terms), leaving=True)
        for term in terms.wants:
            alone |= self._neighbours.near(company, term.topology_key) == 0
        return alone

    def _has_company(self, terms: Terms) -> bool:
        """Whether the wanted company exists on any node that has one of the labels."""
        company = self._neighbours.crowd(_wanted_crowd(terms), leaving=True)
        return any(bool(company[self._labels.column(term.topology_key).codes != ABSENT].any()) for term in terms.wants)

    def _avoided_nodes(self, shape: Shape) -> Mask | None:
        terms = shape.example.terms
        if terms is None or not terms.avoids:
            return None
        crowded = np.zeros(len(self._labels), dtype=bool)
        for term in terms.avoids:
            others = self._neighbours.crowd((term.audience,), leaving=True)
            crowded |= self._neighbours.near(others, term.topology_key) > 0
        return crowded

    def _refusing_nodes(self, shape: Shape) -> Mask | None:
        held = self._neighbours.held_against(shape)
        if not held:
            return None
        refused = np.zeros(len(self._labels), dtype=bool)
        for term, holders in held:
            refused |= self._neighbours.near(holders, term.topology_key) > 0
        return refused

    def _avoids_itself(self, shape: Shape, terms: Terms) -> list[Term]:
        return [term for term in terms.avoids if self._neighbours.is_part(shape, (term.audience,))]

    def _is_single(self, topology_key: str) -> bool:
        """Whether no two nodes share a value of the label, as with host names."""
        single = self._single.get(topology_key)
        if single is None:
            column = self._labels.column(topology_key)
            sizes = np.bincount(column.codes, minlength=len(column))
            single = self._single[topology_key] = bool((sizes[ABSENT + 1 :] <= 1).all())
        return single

    # ------------------------------------------------------------------------------------------------- score

    def has_preferences(self, shape: Shape) -> bool:
        """Whether the pod, or a pod that may be on a node, prefers or dislikes company."""
        terms = shape.example.terms
        return (terms is not None and bool(terms.prefers)) or bool(self._neighbours.held_preferences(shape))

    def prefers_itself(self, shape: Shape) -> bool:
        """Whether a placement changes the score of the next such pod."""
        terms = shape.example.terms
        return terms is not None and any(
            weight and self._neighbours.is_part(shape, (term.audience,)) for term, weight in terms.prefers
        )

    def gathers(self, shape: Shape) -> bool:
        """Whether the only thing that such pods like about one another is to be near by one label.

        Then a placement makes its whole neighbourhood equally more welcome, and no other node: those near it may follow at once.
        """
        terms = shape.example.terms
        own = [
            (term.topology_key, weight)
            for term, weight in (terms.prefers if terms is not None else ())
            if weight and self._neighbours.is_part(shape, (term.audience,))
        ]
        return bool(own) and len({key for key, _ in own}) == 1 and all(weight > 0 for _, weight in own)

    def gathering(self, shape: Shape, nodes: Indexes, best: int) -> tuple[Column, Indexes, bool]:
        """Scores, neighbourhoods by number, and whether all nodes of each neighbourhood are alike, for a shape that gathers."""
        terms = shape.example.terms
        assert terms is not None
        key = next(
            term.topology_key
            for term, weight in terms.prefers
            if weight and self._neighbours.is_part(shape, (term.audience,))
        )
        where = self._labels.column(key).codes.take(nodes)
        welcome = self._welcome(shape, nodes)
        highest = np.full(int(where.max()) + 1, np.iinfo(np.int64).min)
        np.maximum.at(highest, where, welcome)
        scores = _dispersion(welcome, best)
        alike = bool((highest[where] == welcome).all())
        return (np.zeros_like(welcome) if scores is None else scores), where, alike

    def score(self, shape: Shape, nodes: Indexes, best: int) -> Column | None:
        """From 0 for the least to `best` for the most welcome candidate; None where all are alike."""
        return _dispersion(self._welcome(shape, nodes), best)

    def _welcome(self, shape: Shape, nodes: Indexes) -> Column:
        """How much company each candidate offers, by the weights of both sides."""
        terms = shape.example.terms
        welcome = np.zeros(len(self._labels), dtype=np.int64)
        for term, weight in terms.prefers if terms is not None else ():
            others = self._neighbours.crowd((term.audience,), leaving=True)
            welcome += weight * self._neighbours.near(others, term.topology_key)
        for term, weight, holders in self._neighbours.held_preferences(shape):
            welcome += weight * self._neighbours.near(holders, term.topology_key)
        return welcome.take(nodes)


def _dispersion(welcome: Column, best: int) -> Column | None:
    least, span = int(welcome.min()), int(welcome.max() - welcome.min())
    if not span:
        return None
    # kube-scheduler divides first and truncates last: in that order 29/50 is worth 57, not 58.
    scores: Column = (best * ((welcome - least) / span)).astype(np.int64)
    return scores


def _wanted_crowd(terms: Terms) -> Crowd:
    return unique(term.audience for term in terms.wants)
