"""The operator's wishes for discovery: the ConfigMap that Volcano's controllers read, in its format.

data:
  volcano-controller.conf: |
    networkTopologyDiscovery:
    - source: label
      enabled: true
      config:
        networkTopologyTypes:
          topologyA:
          - nodeLabel: volcano.sh/hypercluster     # tier 2
          - nodeLabel: volcano.sh/hypernode        # tier 1
          - nodeLabel: kubernetes.io/hostname      # the nodes themselves
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from pumice import selectors, yamltext
from pumice.api.meta import Struct
from pumice.errors import BadInput
from pumice.values import Value

KEY = "volcano-controller.conf"
LABEL_SOURCE = "label"
TYPE_CHARS_MAX = 20


class Configuration(Value):
    """Types of topologies, each with the labels of its tiers from the lowest up; None where nothing is to be discovered.

    With a problem nothing is deleted: a slip of the pen must not cost a topology.
    """

    types: Mapping[str, tuple[str, ...]] | None = None
    problems: tuple[str, ...] = ()


NO_CONFIGURATION = Configuration()


class _Source(Struct):
    source: str = ""
    enabled: bool = False
    config: Mapping[str, Any] = MappingProxyType({})


class _File(Struct):
    network_topology_discovery: tuple[_Source, ...] = ()


class _Level(Struct):
    node_label: str = ""


class _Labels(Struct):
    network_topology_types: Mapping[str, tuple[_Level, ...]] = MappingProxyType({})


def read(data: Mapping[str, str], *, subject: str) -> Configuration:
    """What the ConfigMap's data asks for; what cannot be read is a problem, told and otherwise ignored."""
    text = data.get(KEY)
    if text is None:
        return NO_CONFIGURATION
    try:
        documents = [document for document in yamltext.load_all(text, source=f"{subject}: {KEY}") if document]
        file = msgspec.convert(documents[0] if documents else {}, _File)
    except (BadInput, msgspec.ValidationError) as error:
        return Configuration(problems=(f"{subject}: {KEY} cannot be read: {error}; correct it",))
    types: dict[str, tuple[str, ...]] | None = None
    problems: list[str] = []
    for source in file.network_topology_discovery:
        if not source.enabled:
            continue
        if source.source != LABEL_SOURCE:
            problems.append(
                f"{subject}: discovery from {source.source!r} is not supported; "
                "label the nodes and use source: label, or create HyperNodes by hand"
            )
            continue
        found, more = _types(source, subject)
        problems += more
        if found is not None:
            types = {**(types or {}), **found}
    return Configuration(types, tuple(problems))


def _types(source: _Source, subject: str) -> tuple[dict[str, tuple[str, ...]] | None, list[str]]:
    try:
        config = msgspec.convert(source.config, _Labels)
    except msgspec.ValidationError as error:
        return None, [f"{subject}: the configuration of source {source.source} cannot be read: {error}; correct it"]
    types: dict[str, tuple[str, ...]] = {}
    problems: list[str] = []
    for name, levels in config.network_topology_types.items():
        labels = [level.node_label for level in levels]
        if problem := _problem(name, labels):
            problems.append(f"{subject}: topology type {name!r} is ignored: {problem}")
        else:
            types[name] = tuple(reversed(labels[:-1]))  # the last one is the node itself
    return types, problems


def _problem(name: str, labels: list[str]) -> str:
    if not name or len(name) > TYPE_CHARS_MAX:
        return f"its name must have 1 to {TYPE_CHARS_MAX} characters; shorten it"
    if len(labels) < 2:
        return "it needs a label for each tier, and that of the nodes as the last; add them"
    if len(set(labels)) < len(labels):
        return "a label occurs twice; remove one"
    return next((f"label {label!r}: {text}" for label in labels if (text := selectors.label_key_problem(label))), "")
