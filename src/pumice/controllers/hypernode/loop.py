"""Looks at all HyperNodes when one of them, a node's labels or the configuration change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.core import Node
from pumice.api.topology import HyperNode
from pumice.controllers.driver import Controller, Wake
from pumice.controllers.hypernode import configuration
from pumice.controllers.hypernode.plan import View, plan
from pumice.kube.informer import Key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pumice.api.core import ConfigMap
    from pumice.controllers.cache import Cache
    from pumice.controllers.operations import Plan
    from pumice.instant import Instant
    from pumice.kube.informer import Informer

ALL = Key("", "hypernodes")  # one label may concern many HyperNodes: they are planned together
GATHER_S = 0.2  # nodes come in crowds


def controller(cache: Cache, config_maps: Informer[ConfigMap] | None = None) -> Controller:
    """`config_maps` shows the one ConfigMap with the operator's wishes; it is run here. Without it nothing is discovered."""
    nodes, hyper_nodes = cache.of(Node), cache.of(HyperNode)
    seen: dict[str, Mapping[str, str]] = {}

    def look(_: Cache, key: Key, now: Instant) -> Plan:
        del key, now
        found = next(iter(config_maps.objects.values()), None) if config_maps is not None else None
        wishes = configuration.NO_CONFIGURATION
        if found is not None:
            wishes = configuration.read(found.data, subject=f"ConfigMap {found.metadata.key}")
        ordered = sorted(nodes.all(), key=lambda node: node.metadata.name)
        return plan(View(ordered, list(hyper_nodes.all()), wishes, found))

    def relabelled(node: Node) -> Iterable[Key]:
        """Heartbeats change nothing here."""
        name = node.metadata.name
        if nodes.get("", name) is None:
            seen.pop(name, None)
        elif seen.get(name) == node.metadata.labels:
            return ()
        else:
            seen[name] = node.metadata.labels
        return (ALL,)

    async def follow(wake: Callable[[Key], None]) -> None:
        if config_maps is not None:
            config_maps.subscribe(lambda _: wake(ALL))
            await config_maps.run()

    wakes = (
        Wake(HyperNode, lambda _: (ALL,), gather_s=GATHER_S),
        Wake(Node, relabelled, gather_s=GATHER_S),
    )
    return Controller("hypernode", look, wakes, beside=follow)
