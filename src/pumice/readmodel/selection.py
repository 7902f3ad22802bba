"""What of the view somebody wants, or may see: parts of it by kind, queue and namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.scheduling.core import strangers
from pumice.scheduling.core.codes import A_GANG_OF_OTHERS, Code, Facts
from pumice.scheduling.core.strangers import OTHERS
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pumice.readmodel import model

KINDS = ("nodes", "queues", "gangs", "claims", "attempts", "evictions")
_CODES = {each.value: each for each in Code}


class Selection(Value):
    """`namespaces`: whose gangs are told; None: those of all. Without a right to nodes there are none."""

    kinds: frozenset[str] = frozenset(KINDS)
    queue: str = ""
    namespaces: frozenset[str] | None = None
    nodes: bool = True

    def apply(self, state: model.State) -> model.State:
        """The part of the view that is wanted."""
        gangs = [self._gang(each) for each in state.gangs if self._concerns(each)]
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

    def detail(self, found: model.GangDetail) -> model.GangDetail:
        """One gang, without the names of others that may not be seen."""
        if self.namespaces is None:
            return found
        hidden = [name for each in found.gang.reasons for name in self._hidden(each.code, each.facts)]
        return msgspec.structs.replace(
            found,
            gang=self._gang(found.gang),
            claims=tuple(each for each in found.claims if each.gang == found.gang.key),
            pods=tuple(
                msgspec.structs.replace(each, message=_anonymous(each.message, hidden)) if each.message else each
                for each in found.pods
            ),
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
                facts, why = self._told(each.code, each.facts, each.why)
                yield msgspec.structs.replace(
                    each,
                    claimant=each.claimant if each.claimant in keys else "",
                    room_for=strangers.anonymous(each.room_for, keys.__contains__),
                    facts=facts,
                    why=why,
                )

    def _concerns(self, gang: model.Gang) -> bool:
        return self.queue in {"", gang.queue} and (self.namespaces is None or gang.namespace in self.namespaces)

    def _gang(self, gang: model.Gang) -> model.Gang:
        """Reasons name gangs that are in the way; those of other namespaces are not this reader's business."""
        if not self.nodes and gang.forecast is not None and gang.forecast.nodes:
            gang = msgspec.structs.replace(gang, forecast=msgspec.structs.replace(gang.forecast, nodes={}))
        if not any(self._hidden(each.code, each.facts) for each in gang.reasons):
            return gang
        return msgspec.structs.replace(gang, reasons=tuple(self._reason(each) for each in gang.reasons))

    def _reason(self, own: model.Reason) -> model.Reason:
        facts, text = self._told(own.code, own.facts, own.reason)
        return msgspec.structs.replace(own, facts=facts, reason=text)

    def _hidden(self, code: str, facts: Facts) -> frozenset[str]:
        """Gangs that the facts name and this reader may not see."""
        return strangers.hidden(code, facts, self._sees)

    def _told(self, code: str, facts: Facts, text: str) -> tuple[Facts, str]:
        """The facts and their sentence, with nobody named who may not be seen."""
        hidden = self._hidden(code, facts)
        if not hidden:
            return facts, text
        if code not in _CODES:  # of a scheduler that is newer than this reader
            return Facts(), _anonymous(text, hidden)
        facts = strangers.without(code, facts, self._sees)
        text = _CODES[code].text(facts)
        return (facts if facts.gang != A_GANG_OF_OTHERS else msgspec.structs.replace(facts, gang="")), text


def _anonymous(text: str, hidden: Iterable[str]) -> str:
    for name in sorted(hidden, key=len, reverse=True):  # a longer name may contain a shorter one
        text = text.replace(name, A_GANG_OF_OTHERS)
    return text
