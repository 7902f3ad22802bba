"""Bugs that are planted to see whether the worlds find them: each breaks one function of the product, as a hasty change might.

`PLANTED` names what is broken, how, and the kinds of worlds in which it should show.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from pumice.api import changes
from pumice.api.pods import Pod
from pumice.cluster import tasks
from pumice.cluster.intake import Intake
from pumice.cluster.tasks import Status
from pumice.controllers.executor import Executor
from pumice.dispatch import revalidation, takeover
from pumice.dispatch.binder import Binder
from pumice.dispatch.evictor import Evictor
from pumice.dispatch.statuses import Statuses
from pumice.kube import errors, lease
from pumice.kube.client import Client
from pumice.kube.informer import Informer
from pumice.kube.lease import Election
from pumice.kube.workqueue import WorkQueue
from pumice.scheduling.core.session import Session
from pumice.scheduling.core.statement import Statement
from pumice.scheduling.evicting import mend
from pumice.scheduling.placing.placement import Placer
from pumice.scheduling.sharing.quotas import Account
from pumice.sim.worlds.apiserver import Journal


@dataclasses.dataclass(frozen=True)
class Planted:
    where: Any
    name: str
    made_of: Callable[[Any], Any]  # what stands there in its place, made of the original
    profiles: tuple[str, ...]
    seeds: int = 38


def _ignoring(kind):
    """An Intake.apply that does not hear of some changes."""

    def made_of(apply):
        def deaf(self, change):
            if not isinstance(change, kind):
                apply(self, change)

        return deaf

    return made_of


def _deaf_to_pods_that_go(apply):
    def deaf(self, change):
        if not (isinstance(change, changes.Deleted) and isinstance(change.object, Pod)):
            apply(self, change)

    return deaf


def _nodes_never_change(upsert):
    def once(self, node):
        known = self.cluster.nodes.get(node.metadata.name)
        if known is None or known.node is None:
            upsert(self, node)

    return once


def _leaving_is_gone(status_of):
    def hasty(pod):
        found = status_of(pod)
        return Status.SUCCEEDED if found is Status.RELEASING else found

    return hasty


def _one_less(commit):
    async def short(self, planned, attempt):
        await commit(self, dataclasses.replace(planned, binds=planned.binds[:-1] or planned.binds), attempt)

    return short


def _without_version(bind):
    async def loose(self, name, **named):
        await bind(self, name, **{**named, "resource_version": ""})

    return loose


def _never_again(delay):
    def forgetful(self, key, delay_s):
        del self, key, delay_s

    del delay
    return forgetful


def _no_reasons(group_patch):
    def silent(self, report):
        patch = group_patch(self, report)
        if patch is not None:
            patch.get("status", {}).pop("conditions", None)
        return patch

    return silent


def _everything_is_ready(holds):
    def hasty(self, gang):
        return holds(self, gang) or gang.tally.ready > 0 or gang.tally[Status.ALLOCATED] > 0

    return hasty


def _twice_the_room(copies):
    def generous(self, shape, nodes, *, pipelining):
        return copies(self, shape, nodes, pipelining=pipelining) * 2

    return generous


def _one_too_many(copies_within):
    def generous(self, limit, request, count, *more):
        return min(count, copies_within(self, limit, request, count, *more) + 1)

    return generous


async def _nothing(*_: Any, **__: Any) -> None:
    return None


def _swallow(_):
    return _nothing


def _lost_watch(bookmark):
    """Every second event of a watch is taken for old news."""

    def lossy(self, event, news):
        self.dropped = not getattr(self, "dropped", False)
        if not self.dropped:
            bookmark(self, event, news)

    return lossy


def _lost_news(publish):
    """Every third batch of news of pods is lost between the informer and its readers."""

    def lossy(self, news):
        self.batches = getattr(self, "batches", 0) + 1
        if self.batches % 3 or self._struct is not Pod:
            publish(self, news)

    return lossy


def _sent_twice(send):
    """The bind is done, and said to have failed for good."""

    async def doubting(self, bind, attempt, version):
        await send(self, bind, attempt, version)
        raise errors.BadConfig("the answer was not believed")

    return doubting


def _loses_some(append):
    def lossy(self, change):
        if change.version % 50:
            append(self, change)

    return lossy


PLANTED = {
    "a pod that is gone keeps its room": Planted(Intake, "apply", _deaf_to_pods_that_go, ("users", "all")),
    "a list that lacks a pod does not end it": Planted(Intake, "_relist", lambda _: lambda *_a: None, ("users", "all")),
    "a failed bind keeps its room": Planted(Intake, "apply", _ignoring(changes.BindFailed), ("storm", "all")),
    "binds are sent before they are assumed": Planted(Intake, "apply", _ignoring(changes.Assumed), ("calm", "storm")),
    "a claim is kept for ever": Planted(Intake, "apply", _ignoring(changes.Unclaimed), ("calm", "users", "nodes")),
    "changes of nodes are not heard": Planted(Intake, "_upsert_node", _nodes_never_change, ("nodes", "all")),
    "a pod that is leaving counts as gone": Planted(tasks, "status_of", _leaving_is_gone, ("calm", "users", "all")),
    "the last member of a gang is not bound": Planted(Binder, "commit", _one_less, ("calm",)),
    "no answer is taken for a no": Planted(errors, "is_open", lambda _: lambda _error: False, ("storm", "all")),
    "binds do not name the pod's version": Planted(Client, "bind", _without_version, ("processes", "lines", "all")),
    "a new leader leaves old binds on the way": Planted(
        takeover, "void_former_binds", _swallow, ("processes", "lines", "all")
    ),
    "the lease is not looked at": Planted(Election, "check", lambda _: lambda _self: None, ("lines", "processes")),
    "a leader never gives up": Planted(lease, "RENEW_S", lambda _: 10_000.0, ("lines", "processes", "all")),
    "the lease of a dead leader never ends": Planted(lease, "LEASE_S", lambda _: 100_000, ("processes", "all")),
    "what failed is not tried again": Planted(WorkQueue, "add_after", _never_again, ("storm", "all")),
    "a gang that waits does not say why": Planted(Statuses, "_group_patch", _no_reasons, ("calm",)),
    "one member is enough for a gang": Planted(Session, "is_ready", _everything_is_ready, ("calm", "nodes")),
    "nodes hold twice what they have": Planted(Placer, "copies", _twice_the_room, ("calm",)),
    "a queue may have one pod more": Planted(Account, "copies_within", _one_too_many, ("calm", "users")),
    "half a gang is never given up": Planted(
        mend, "releases", lambda _: lambda *_a, **_k: [], ("all", "processes", "nodes")
    ),
    "a rollback is skipped": Planted(Statement, "rollback", lambda _: lambda *_a, **_k: None, ("calm",)),
    "plans are carried out however old they are": Planted(
        revalidation, "why_stale", lambda _: lambda *_a: "", ("users", "nodes", "all")
    ),
    "every second event of a watch is lost": Planted(Informer, "_apply", _lost_watch, ("calm",)),
    "a watch that expired goes on from where it was": Planted(
        Informer, "_relist_change", lambda _: lambda self: changes.Relisted(self._struct, frozenset()), ("storm",)
    ),
    "an eviction is announced and never sent": Planted(Evictor, "evict", _swallow, ("calm", "users", "nodes")),
    "controllers lose what they cannot write": Planted(Executor, "_create", _swallow, ("calm",)),
    "a key that was worked on is never free again": Planted(WorkQueue, "_done", lambda _: lambda *_a: None, ("calm",)),
    "news of pods is dropped now and then": Planted(Informer, "_publish", _lost_news, ("calm",)),
    "a bind's answer is not believed": Planted(Binder, "_send", _sent_twice, ("calm",)),
    "the journal forgets a change now and then": Planted(Journal, "append", _loses_some, ("calm",)),
}
