"""What objects may say: whoever reads a pod or its group may know no gang of another namespace (docs/adr/0040).

Reasons, causes and stories are made anew from their data, with "a gang of others" and its queue and priority in place of its name. The engine, the
view and the log keep the names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from pumice.scheduling.core import strangers
from pumice.scheduling.core.codes import A_GANG_OF_OTHERS
from pumice.scheduling.core.decisions import Condition, GangSummary, PodVerdict, Shortage
from pumice.scheduling.core.verdict import FitError, Reason

if TYPE_CHECKING:
    from pumice.api.disruptions import Story
    from pumice.scheduling.core.decisions import Evict, GangReport
    from pumice.scheduling.core.verdict import Cause

T = TypeVar("T", Condition, FitError, GangSummary, PodVerdict, Reason, Shortage)
# Which fields of what a report consists of lead to reasons.
_INNER: dict[type, tuple[str, ...]] = {
    Condition: ("why",),
    PodVerdict: ("why",),
    Shortage: ("why",),
    GangSummary: ("origin", "others"),
    FitError: ("reasons", "instead"),
}


class Discretion:
    """Of the readers of one namespace. What names nobody else is returned as it is, not as a copy."""

    def __init__(self, namespace: str) -> None:
        self._prefix = f"{namespace}/"
        self._known: dict[int, object] = {}  # by id, of one report: many pods share what they are told

    def sees(self, gang: str) -> bool:
        return gang.startswith(self._prefix)

    def report(self, report: GangReport) -> GangReport:
        parts = {
            "conditions": tuple(self._told(each) for each in report.conditions),
            "why": None if report.why is None else self._told(report.why),
            "reasons": tuple(self._told(each) for each in report.reasons),
            "pods": tuple(self._told(each) for each in report.pods),
        }
        changed = {name: part for name, part in parts.items() if not _is_same(part, getattr(report, name))}
        self._known.clear()
        return msgspec.structs.replace(report, **changed) if changed else report

    def cause(self, cause: Cause) -> Cause:
        return msgspec.structs.replace(cause, facts=strangers.without(cause.code.value, cause.facts, self.sees))

    def story(self, story: Story, cause: Cause | None = None) -> Story:
        """`cause`: what its sentence is made from; without it the sentence names no gang but the pod's own and the claimant."""
        claimant = strangers.anonymous(story.claimant, self.sees)
        if cause is not None:
            why = self.cause(cause).text
        else:
            why = story.why if claimant.gang else story.why.replace(story.claimant.gang or "\0", A_GANG_OF_OTHERS)
        return msgspec.structs.replace(story, why=why, claimant=claimant)

    def names(self, gangs: tuple[str, ...]) -> str:
        return ", ".join(dict.fromkeys(each if self.sees(each) else strangers.OTHERS for each in gangs))

    def _told(self, what: T) -> T:
        if isinstance(what, Reason):
            facts = strangers.without(what.code.value, what.facts, self.sees)
            return what if facts is what.facts else msgspec.structs.replace(what, facts=facts)
        found = self._known.get(id(what))
        if found is None:
            changed = {}
            for name in _INNER[type(what)]:
                inner = getattr(what, name)
                told = tuple(map(self._told, inner)) if isinstance(inner, tuple) else inner and self._told(inner)
                if not _is_same(told, inner):
                    changed[name] = told
            found = self._known[id(what)] = msgspec.structs.replace(what, **changed) if changed else what
        return found  # type: ignore[return-value]


def of_gang(key: str) -> Discretion:
    """Of those who read the objects of a gang."""
    return Discretion(key.partition("/")[0])


def story_of(eviction: Evict) -> Story:
    """What the victim's pod and group say of it."""
    return of_gang(eviction.task.gang).story(eviction.story, eviction.cause)


def _is_same(one: object, other: object) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return all(mine is yours for mine, yours in zip(one, other, strict=True))
    return one is other
