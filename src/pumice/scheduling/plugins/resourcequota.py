"""resourcequota: admits a gang only if the API server will let all of its minimum be created in its namespace.

Without it a gang may enter its queue and then never get its pods, because a ResourceQuota refuses some of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.core import ResourceQuota
from pumice.api.scheduling import PodGroupPhase
from pumice.cluster import amounts
from pumice.cluster.tasks import FINISHED
from pumice.scheduling.core.codes import Amount, Code, Facts
from pumice.scheduling.core.plugin import Plugin, Watch
from pumice.scheduling.core.points import Vote
from pumice.scheduling.core.verdict import Cure, Reason
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.meta import ResourceList
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.session import Session

_POD_COUNTS = ("pods", "count/pods")


class _Quota(Value):
    name: str
    hard: dict[str, int]
    used: dict[str, int]
    promised: dict[str, int]  # to gangs that are admitted and whose pods do not exist yet


class ResourceQuotaPlugin(Plugin):
    """Used, promised and asked for together must not exceed what is hard; in every quota of the namespace that has no scopes.

    A quota with scopes limits some pods and not others, which a minimum cannot tell: the API server has the last word there.
    """

    essential = True

    watches = (Watch(ResourceQuota),)

    def open(self, session: Session) -> None:
        self.quotas: dict[str, list[_Quota]] = {}
        for key, quota in sorted(session.snapshot.objects(ResourceQuota).items()):
            if not quota.spec.scopes and quota.spec.scope_selector is None:
                hard = quota.status.hard or quota.spec.hard
                own = _Quota(quota.metadata.name, _read(hard), _read(quota.status.used), {})
                self.quotas.setdefault(key.partition("/")[0], []).append(own)
        for gang in session.restless:
            if gang.phase == PodGroupPhase.INQUEUE.value and gang.spec.minimum is not None:
                self.promise(gang)
        session.on.enqueueable(self.vote)
        session.on.enqueued(self.promise)

    def _of(self, gang: GangState) -> Sequence[_Quota]:
        return self.quotas.get(gang.spec.namespace, ())

    def vote(self, gang: GangState) -> Vote | Reason:
        if gang.spec.minimum is None:
            return Vote.PERMIT
        missing = missing_members(gang)
        for quota in self._of(gang):
            asked = {name: value for name in quota.hard if (value := _demand(gang, name, missing))}
            over = [name for name in asked if _total(quota, name) + asked[name] > quota.hard[name]]
            if over:
                return _reason(quota, asked, sorted(over))
        return Vote.PERMIT

    def promise(self, gang: GangState) -> None:
        """Pods that exist are in the quotas' own count; those that the gang still lacks are on their way."""
        missing = missing_members(gang)
        for quota in self._of(gang) if missing else ():
            for name in quota.hard:
                quota.promised[name] = quota.promised.get(name, 0) + _demand(gang, name, missing)


def missing_members(gang: GangState) -> int:
    """How many members of the minimum have no pod yet."""
    existing = sum(task.status not in FINISHED for task in gang.tasks)
    return max(gang.spec.min_member - existing, 0)


def _demand(gang: GangState, name: str, missing: int) -> int:
    """What the missing members add to a quota's count, rounded up."""
    if name in _POD_COUNTS:
        return missing * amounts.MILLI
    written = gang.spec.written_minimum
    text = next((written[each] for each in _synonyms(name) if each in written), None)
    if text is None:
        return 0
    asked = amounts.amount(_plain(name), text, unreadable=amounts.ASKED_MAX)
    return -(-asked * missing // max(gang.spec.min_member, 1))


def _synonyms(name: str) -> tuple[str, ...]:
    """A request counts under both of its names, whichever of them the gang and the quota use."""
    plain = name.removeprefix("requests.")
    return (name, plain) if plain != name else (name, f"requests.{name}")


def _amount(name: str, text: str | float) -> int:
    return amounts.amount(_plain(name), text)


def _plain(name: str) -> str:
    return name.removeprefix("requests.").removeprefix("limits.")


def _read(resources: ResourceList) -> dict[str, int]:
    return {name: _amount(name, text) for name, text in resources.items()}


def _total(quota: _Quota, name: str) -> int:
    return quota.used.get(name, 0) + quota.promised.get(name, 0)


def _reason(quota: _Quota, asked: dict[str, int], over: Sequence[str]) -> Reason:
    has_promised = any(quota.promised.get(name) for name in over)

    def text(name: str, values: dict[str, int]) -> str:
        return amounts.quantity_text(_plain(name), values.get(name, 0))

    parts = (
        Amount(
            name,
            wanted=text(name, asked),
            held=text(name, quota.used),
            limit=text(name, quota.hard),
            promised=text(name, quota.promised) if has_promised else "",
        )
        for name in over
    )
    never = any(asked[name] > quota.hard[name] for name in over)
    facts = Facts(name=quota.name, amounts=tuple(parts))
    return Reason(Code.NAMESPACE_QUOTA, "resourcequota", facts, cure=Cure.CHANGE if never else Cure.WAITING)
