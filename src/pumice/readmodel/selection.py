"""What of the view somebody wants, or may see: parts of it by kind, queue and namespaces."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from pumice.api.disruptions import Party

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pumice.readmodel import model

KINDS = ("nodes", "queues", "gangs", "claims", "attempts", "evictions")
OTHERS = "others"  # whoever may not be named


@dataclasses.dataclass(frozen=True, slots=True)
class Selection:
    """`namespaces`: whose gangs are told; None: those of all. Without a right to nodes there are none."""

    kinds: frozenset[str] = frozenset(KINDS)
    queue: str = ""
    namespaces: frozenset[str] | None = None
    nodes: bool = True

    def apply(self, state: model.State) -> model.State:
        """The part of the view that is wanted."""
        gangs = [each for each in state.gangs if self._concerns(each)]
        keys = {each.key for each in gangs}
        is_all = not self.queue and self.namespaces is None
        parts = {
            "nodes": tuple(self._nodes(state)) if self.nodes else (),
            "queues": tuple(each for each in state.queues if self.queue in {"", each.name}),
            "gangs": tuple(gangs),
            "claims": tuple(each for each in state.claims if is_all or each.gang in keys),
            "attempts": tuple(each for each in state.attempts if is_all or each.gang in keys),
            "evictions": tuple(self._evictions(state, keys)),
        }
        return msgspec.structs.replace(
            state,
            namespace=",".join(sorted(self.namespaces or ())),
            **{name: part if name in self.kinds else () for name, part in parts.items()},
        )

    def _nodes(self, state: model.State) -> Iterator[model.Node]:
        """Nodes without the names of gangs that may not be seen: what those hold is told as that of others."""
        for node in state.nodes:
            if self.namespaces is None or all(self._sees(gang) for gang in (*node.gangs, *node.devices)):
                yield node
                continue
            gangs: dict[str, int] = {}
            for gang, pods in node.gangs.items():
                name = gang if self._sees(gang) else OTHERS
                gangs[name] = gangs.get(name, 0) + pods
            devices = {gang: held for gang, held in node.devices.items() if self._sees(gang)}
            yield msgspec.structs.replace(node, gangs=gangs, devices=devices)

    def _sees(self, gang: str) -> bool:
        return self.namespaces is None or not gang or gang.partition("/")[0] in self.namespaces

    def _evictions(self, state: model.State, keys: set[str]) -> Iterator[model.Eviction]:
        """Victims that are wanted; the gang that they left for is named only where that gang may be seen, too."""
        for each in state.evictions:
            if self.namespaces is None and (not self.queue or each.gang in keys):
                yield each
            elif each.gang in keys:
                yield each if each.claimant in keys else msgspec.structs.replace(each, claimant="", room_for=Party())

    def _concerns(self, gang: model.Gang) -> bool:
        return self.queue in {"", gang.queue} and (self.namespaces is None or gang.namespace in self.namespaces)
