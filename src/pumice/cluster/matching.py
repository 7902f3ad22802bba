"""Selectors of API objects, compiled once however many objects carry them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from pumice import selectors
from pumice.api import meta, pods

if TYPE_CHECKING:
    from collections.abc import Iterable

SELECTORS_CACHED_MAX = 16_384

_encode = msgspec.msgpack.Encoder(enc_hook=dict).encode  # the shared empty mapping is a read-only view


def compile_selector(selector: meta.LabelSelector | None) -> selectors.LabelSelector:
    """The selector ready to match; absent, or one that no API server would store, matches nothing."""
    return selectors.NOTHING if selector is None else _label_selector(_encode(selector))


def compile_terms(selector: pods.NodeSelector) -> selectors.NodeSelector:
    """Node-affinity terms ready to match; a term that no API server would store matches nothing."""
    return _node_selector(_encode(selector))


def compile_term(term: pods.NodeSelectorTerm) -> selectors.NodeSelector:
    return compile_terms(pods.NodeSelector((term,)))


@lru_cache(maxsize=SELECTORS_CACHED_MAX)
def _label_selector(encoded: bytes) -> selectors.LabelSelector:
    selector = msgspec.msgpack.decode(encoded, type=meta.LabelSelector)
    try:
        return selectors.label_selector_of(selector.match_labels, _split(selector.match_expressions))
    except selectors.SelectorError:
        return selectors.NOTHING


@lru_cache(maxsize=SELECTORS_CACHED_MAX)
def _node_selector(encoded: bytes) -> selectors.NodeSelector:
    selector = msgspec.msgpack.decode(encoded, type=pods.NodeSelector)
    return selectors.node_selector_of(
        (_split(term.match_expressions), _split(term.match_fields)) for term in selector.node_selector_terms
    )


def _split(
    expressions: Iterable[meta.LabelSelectorRequirement | pods.NodeSelectorRequirement],
) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(each.key, each.operator, each.values) for each in expressions]
