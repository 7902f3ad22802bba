"""What a pod asks of its neighbours: affinity, anti-affinity and even spreading, read once and shared by all pods that ask alike.

Equal terms are one object as a rule, so identity serves as a key; where a full cache makes two of them, they are merely counted
twice over. Namespaces are resolved here as far as the pod alone can tell, and so are matchLabelKeys: an API server has
written them into the selector already, and then saying it again changes nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice import selectors
from pumice.api import pods
from pumice.api.meta import LabelSelector, LabelSelectorRequirement
from pumice.cluster.matching import compile_selector
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

TERMS_CACHED_MAX = 65_536

_encode = msgspec.msgpack.Encoder().encode


class Audience(Value, eq=False):
    """Which pods are meant: those with such labels, in namespaces given by name or by their own labels."""

    selector: selectors.LabelSelector
    namespaces: frozenset[str]
    namespace_selector: selectors.LabelSelector = selectors.NOTHING


class Term(Value, eq=False):
    """Pods that are meant, and the node label whose value says what counts as near them."""

    audience: Audience
    topology_key: str


class Spread(Value, eq=False):
    """Pods that are to be spread evenly over the values of a node label."""

    audience: Audience
    topology_key: str
    max_skew: int
    min_domains: int
    is_hard: bool
    honours_affinity: bool  # nodes that the pod's own node affinity excludes are no domains
    honours_taints: bool


class Terms(Value, eq=False):
    """All of one pod's terms; a negative weight is a preference against."""

    wants: tuple[Term, ...] = ()
    avoids: tuple[Term, ...] = ()
    prefers: tuple[tuple[Term, int], ...] = ()
    spreads: tuple[Spread, ...] = ()


class _Asked(msgspec.Struct, frozen=True, array_like=True):
    """The parts of a pod that make its terms; its encoding is the cache's key."""

    namespace: str
    near: pods.PodAffinity | None
    far: pods.PodAffinity | None
    spreads: tuple[pods.TopologySpreadConstraint, ...]
    labels: dict[str, str]  # only those that matchLabelKeys look at


def terms_of(pod: pods.Pod) -> Terms | None:
    """The pod's terms, or None where it does not care about other pods."""
    spec = pod.spec
    affinity = spec.affinity
    near = affinity.pod_affinity if affinity is not None else None
    far = affinity.pod_anti_affinity if affinity is not None else None
    spreads = spec.topology_spread_constraints
    if near is None and far is None and not spreads:
        return None
    labels = pod.metadata.labels
    keys = {key for key in _label_keys(near, far, spreads) if key in labels}
    asked = _Asked(pod.metadata.namespace, near, far, spreads, {key: labels[key] for key in sorted(keys)})
    return _terms(_encode(asked))


def _label_keys(
    near: pods.PodAffinity | None, far: pods.PodAffinity | None, spreads: tuple[pods.TopologySpreadConstraint, ...]
) -> list[str]:
    """The pod's own labels that its terms refer to."""
    keys = [key for spread in spreads for key in spread.match_label_keys]
    for affinity in (near, far):
        if affinity is not None:
            terms = (*affinity.required, *(each.pod_affinity_term for each in affinity.preferred))
            keys += [key for term in terms for key in (*term.match_label_keys, *term.mismatch_label_keys)]
    return keys


@lru_cache(maxsize=TERMS_CACHED_MAX)
def _terms(encoded: bytes) -> Terms:
    asked = msgspec.msgpack.decode(encoded, type=_Asked)
    near, far = asked.near or pods.PodAffinity(), asked.far or pods.PodAffinity()
    return Terms(
        wants=tuple(_term(asked, term) for term in near.required),
        avoids=tuple(_term(asked, term) for term in far.required),
        prefers=tuple(
            (_term(asked, each.pod_affinity_term), sign * each.weight)
            for affinity, sign in ((near, 1), (far, -1))
            for each in affinity.preferred
        ),
        spreads=tuple(_spread(asked, spread) for spread in asked.spreads),
    )


def _term(asked: _Asked, term: pods.PodAffinityTerm) -> Term:
    everywhere_named = term.namespaces or term.namespace_selector is not None
    namespaces = term.namespaces if everywhere_named else (asked.namespace,)
    selector = _narrow(term.label_selector, asked.labels, term.match_label_keys, term.mismatch_label_keys)
    return _same_term(_encode((selector, namespaces, term.namespace_selector, term.topology_key)))


def _spread(asked: _Asked, spread: pods.TopologySpreadConstraint) -> Spread:
    selector = _narrow(spread.label_selector, asked.labels, spread.match_label_keys)
    return Spread(
        audience=_same_audience(_encode((selector, (asked.namespace,), None))),
        topology_key=spread.topology_key,
        max_skew=spread.max_skew,
        min_domains=1 if spread.min_domains is None else spread.min_domains,
        is_hard=spread.when_unsatisfiable == "DoNotSchedule",
        honours_affinity=spread.node_affinity_policy == "Honor",
        honours_taints=spread.node_taints_policy == "Honor",
    )


def _narrow(
    selector: LabelSelector | None,
    labels: Mapping[str, str],
    match_keys: tuple[str, ...],
    mismatch_keys: tuple[str, ...] = (),
) -> LabelSelector | None:
    """The selector with the pod's own values of some labels required, or ruled out; keys that the pod lacks do not count."""
    if selector is None or not (match_keys or mismatch_keys):
        return selector
    more = [LabelSelectorRequirement(key, "In", (labels[key],)) for key in match_keys if key in labels]
    more += [LabelSelectorRequirement(key, "NotIn", (labels[key],)) for key in mismatch_keys if key in labels]
    return LabelSelector(selector.match_labels, (*selector.match_expressions, *more))


@lru_cache(maxsize=TERMS_CACHED_MAX)
def _same_term(encoded: bytes) -> Term:
    selector, namespaces, namespace_selector, topology_key = msgspec.msgpack.decode(
        encoded, type=tuple[LabelSelector | None, tuple[str, ...], LabelSelector | None, str]
    )
    return Term(_same_audience(_encode((selector, namespaces, namespace_selector))), topology_key)


@lru_cache(maxsize=TERMS_CACHED_MAX)
def _same_audience(encoded: bytes) -> Audience:
    selector, namespaces, namespace_selector = msgspec.msgpack.decode(
        encoded, type=tuple[LabelSelector | None, tuple[str, ...], LabelSelector | None]
    )
    return Audience(compile_selector(selector), frozenset(namespaces), compile_selector(namespace_selector))


def audience_of(namespace: str, selector: LabelSelector) -> Audience:
    """The pods of one namespace that a workload's or a Service's selector means."""
    return _same_audience(_encode((selector, (namespace,), None)))
