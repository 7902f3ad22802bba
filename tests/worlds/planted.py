"""Bugs that are planted to see whether the worlds find them: each breaks one function of the product, as a hasty change might.

`PLANTED` names what is broken, how, and the world that finds it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from pumice.api import changes, names
from pumice.api.coordination import Lease
from pumice.api.core import Node
from pumice.api.pods import Pod
from pumice.api.resource import ResourceClaim
from pumice.cluster import intake, relevance
from pumice.cluster.intake import Intake
from pumice.cluster.tasks import Status
from pumice.controllers.cronjob import plan as cronjobs
from pumice.controllers.job.kill import Judge
from pumice.controllers.jobflow import plan as jobflows
from pumice.controllers.operations import NOTHING_TO_DO
from pumice.dispatch import reservation_note, takeover
from pumice.dispatch.binder import Binder
from pumice.dispatch.devices import Devices
from pumice.dispatch.evictor import Evictor
from pumice.dispatch.memory_store import MemoryStore
from pumice.dispatch.queue_holdings import QueueHoldings
from pumice.dispatch.statuses import Statuses
from pumice.dispatch.topics import Topics
from pumice.kube import errors
from pumice.kube.informer import Informer
from pumice.kube.lease import Election, NotLeading
from pumice.kube.workqueue import WorkQueue
from pumice.local.nodes.pretend import GPU
from pumice.record.store import Store
from pumice.scheduling.core import build_decisions, codes
from pumice.scheduling.core.room import Room
from pumice.scheduling.core.statement import Statement
from pumice.scheduling.core.verdict import Reason
from pumice.scheduling.evicting import mend
from pumice.scheduling.placing import feasibility
from pumice.scheduling.placing.constraints.attachments import Attachments
from pumice.scheduling.placing.constraints.claims import PodClaims
from pumice.scheduling.placing.constraints.devices import Inventory
from pumice.scheduling.placing.constraints.storage import Storage
from pumice.scheduling.placing.placement import Placer
from pumice.scheduling.plugins.proportion import Proportion
from pumice.scheduling.sharing import decayed_usage, quotas
from pumice.scheduling.time.planning import Book
from pumice.sim.worlds.apiserver import Journal
from pumice.webhooks.reviews import Reviewer, allow_response


@dataclasses.dataclass(frozen=True)
class Planted:
    where: Any
    name: str
    made_of: Callable[[Any], Any]  # what stands there in its place, made of the original
    world: tuple[str, int]  # profile and seed of the world that finds it


def _deaf_to_pods_that_go(apply):
    def deaf(self, change):
        if not (isinstance(change, changes.Deleted) and isinstance(change.object, Pod)):
            apply(self, change)

    return deaf


def _one_less(commit):
    async def short(self, planned, attempt):
        await commit(self, msgspec.structs.replace(planned, binds=planned.binds[:-1] or planned.binds), attempt)

    return short


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


def _twice_the_room(copies):
    def generous(self, shape, nodes, *, pipelining):
        return copies(self, shape, nodes, pipelining=pipelining) * 2

    return generous


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


def _loses_some(append):
    def lossy(self, change):
        if change.version % 50:
            append(self, change)

    return lossy


def _deaf_to(*kinds):
    """Some news of dispatch, or of the API server, does not reach the state."""

    def plant(apply):
        def deaf(self, change):
            if not isinstance(change, kinds):
                apply(self, change)

        return deaf

    return plant


def _no_rollback(rollback):
    del rollback

    def skip(self, mark=0, *, remember=False):
        del remember, self.operations[mark:]

    return skip


def _not_assumed(assume):
    def hasty(self, commit):
        learn, self._learn = self._learn, lambda _: None
        try:
            return assume(self, commit)
        finally:
            self._learn = learn

    return hasty


def _releasing_is_free(add):
    """A pod that is asked to go no longer counts."""

    def eager(cluster, column, task, sign):
        if task.status is not Status.RELEASING:
            add(cluster, column, task, sign)

    return eager


def _releasing_counts_twice(add):
    def double(cluster, column, task, sign):
        add(cluster, column, task, sign)
        if task.status is Status.RELEASING and sign > 0:
            add(cluster, column, task, sign)

    return double


def _returns(value):
    def plant(original):
        del original
        return lambda *_, **__: value

    return plant


def _does_nothing(original):
    del original

    async def idle(*_, **__):
        pass

    return idle


def _one_more(copies_within):
    def lavish(self, limit, request, count, *rest):
        return min(copies_within(self, limit, request, count, *rest) + 1, count)

    return lavish


def _no_guarantees(ceiling):
    return lambda total, _, queue: ceiling(total, queue.guarantee, queue)


def _first_reason_stays(annotations):
    def stubborn(self, group, report):
        found = annotations(self, group, report)
        if names.VERDICT in group.metadata.annotations and found.get(names.VERDICT) is not None:
            del found[names.VERDICT]
        return found

    return stubborn


def _complaint_stays(merged_conditions):
    def resentful(self, group, report):
        kept = tuple(each for each in report.conditions if each.status)
        return merged_conditions(self, group, msgspec.structs.replace(report, conditions=kept))

    return resentful


def _first_word_stays(due):
    def stubborn(self, name, allocated):
        return None if name in self._written_at else due(self, name, allocated)

    return stubborn


def _takes_any_lease(take):
    async def robber(self):
        self._seen_at = float("-inf")
        self._seen_spec = (await self._client.get(Lease, self._name, namespace=self._namespace)).json()["spec"]
        return await take(self)

    return robber


def _holds_for_ever(hold):
    async def stubborn(self):
        while True:
            try:
                await hold(self)
            except NotLeading:
                self._deadline = float("inf")

    return stubborn


def _charged_twice(charge):
    """A pod that came to run keeps the charge that it had while it was being bound."""

    def forgetful(cluster, task, sign):
        if sign > 0 or task.status is not Status.BINDING:
            charge(cluster, task, sign)

    return forgetful


def _half_forgotten(remembered):
    def forgetful(now, usage, *rest, **named):
        return remembered(now, {name: used / 2 for name, used in usage.items()}, *rest, **named)

    return forgetful


def _reserves_beside_nobody(find):
    """What is reserved for others counts as free."""

    def greedy(self, gang, before=None):
        binding, self.binding = self.binding, lambda _: []
        try:
            return find(self, gang, before)
        finally:
            self.binding = binding

    return greedy


def _every_second_write_is_lost(put):
    async def careless(self, kept, data):
        self.writes = getattr(self, "writes", 0) + 1
        if self.writes % 2:
            kept.data = data
        else:
            await put(self, kept, data)

    return careless


def _deaf_to_the_end_of(kind):
    def plant(apply):
        def deaf(self, change):
            if not (isinstance(change, changes.Deleted) and isinstance(change.object, kind)):
                apply(self, change)

        return deaf

    return plant


def _a_list_ends_nothing(replace):
    return lambda self, listed, version: replace(self, {**self._objects, **listed}, version)


def _of_another_queue(why):
    def confused(self, queue, gang, shape):
        reason = why(self, queue, gang, shape)
        return msgspec.structs.replace(reason, facts=msgspec.structs.replace(reason.facts, queue="root"))

    return confused


def _too_large_at_half(exceeds_cluster):
    """Who wants half of the cluster is told that it can never run here."""
    del exceeds_cluster

    def timid(session, gang):
        wanted, total = (gang.spec.minimum or {}).get(GPU, 0), session.total.get(GPU, 0)
        parts = (codes.Amount.of(GPU, wanted=wanted, limit=total),)
        too_large = Reason(codes.Code.EXCEEDS_CLUSTER, "cluster", codes.Facts(amounts=parts))
        return too_large if 2 * wanted > total else None

    return timid


def _a_node_less(exceeds_cluster):
    """A gang that is too large is told of a smaller cluster than there is."""

    def sloppy(session, gang):
        reason = exceeds_cluster(session, gang)
        if reason is None:
            return None
        parts = tuple(msgspec.structs.replace(each, limit="4") for each in reason.facts.amounts)
        return msgspec.structs.replace(reason, facts=codes.Facts(amounts=parts))

    return sloppy


def _first_report_stays(report):
    """What was once found out about a gang is told for as long as it waits in the same phase."""

    def lazy(session, gang, position):
        found = report(session, gang, position)
        return _REPORTS.setdefault((gang.uid, found.phase), found) if found.reasons else found

    _REPORTS.clear()
    return lazy


_REPORTS = {}


def _not_bound_with_claims(bind_all):
    async def forgetful(self, commit, attempt, span):
        if not any(bind.task.pod.spec.resource_claims for bind in commit.binds):
            await bind_all(self, commit, attempt, span)

    return forgetful


def _deaf_to_claims(is_another_pod):
    def deaf(task, pod):
        told = msgspec.structs.replace(pod.status, resource_claim_statuses=task.pod.status.resource_claim_statuses)
        return is_another_pod(task, msgspec.structs.replace(pod, status=told))

    return deaf


def _everywhere(nodes_reaching):
    return lambda self, volume: np.ones_like(nodes_reaching(self, volume))


def _former_pods_stay(must_go):
    return lambda self, member: must_go(self, member) and member.version >= self._version


def _every_second_batch_is_lost(write):
    def careless(self, rows, **named):
        self.batches = getattr(self, "batches", 0) + 1
        return write(self, rows, **named) if self.batches % 2 else []

    return careless


def _only_own_devices(choices):
    """Nothing is written for a pod whose devices another one has chosen."""
    return lambda self, task: choices(self, task) if task.uid in self._decided_by else []


def _every_node(usable_from):
    del usable_from
    return lambda self, given, node: np.ones(self._size, dtype=bool)


PLANTED = {
    "a pod that is gone keeps its room": Planted(Intake, "apply", _deaf_to_pods_that_go, ("users", 5)),
    "the last member of a gang is not bound": Planted(Binder, "commit", _one_less, ("calm", 1)),
    "what failed is not tried again": Planted(WorkQueue, "add_after", _never_again, ("storm", 1)),
    "a gang that waits does not say why": Planted(Statuses, "_group_patch", _no_reasons, ("calm", 6)),
    "nodes hold twice what they have": Planted(Placer, "copies", _twice_the_room, ("calm", 3)),
    "every second event of a watch is lost": Planted(Informer, "_apply", _lost_watch, ("calm", 1)),
    "a new list ends what it names": Planted(
        Informer, "_relist_change", lambda _: lambda self: changes.Relisted(self._struct, frozenset()), ("storm", 1)
    ),
    "news of pods is dropped now and then": Planted(Informer, "_publish", _lost_news, ("calm", 1)),
    "the journal forgets a change now and then": Planted(Journal, "append", _loses_some, ("calm", 1)),
    "a rollback is skipped": Planted(Statement, "rollback", _no_rollback, ("calm", 5)),
    "a gang in part is not released": Planted(mend, "releases", _returns([]), ("refusals", 18)),
    "a gang in part is not finished": Planted(mend, "gangs_to_mend", _returns([]), ("refusals", 18)),
    "pods are bound without being assumed": Planted(Binder, "assume", _not_assumed, ("all", 6)),
    "a pod that is asked to go is taken to be gone": Planted(intake, "_add", _releasing_is_free, ("calm", 9)),
    "a pod that is asked to go counts twice": Planted(intake, "_add", _releasing_counts_twice, ("calm", 9)),
    "a pod that runs keeps the charge of its bind": Planted(intake, "_charge", _charged_twice, ("calm", 1)),
    "a claim is kept for ever": Planted(Intake, "apply", _deaf_to(changes.Unclaimed), ("calm", 9)),
    "a bind that failed keeps its room": Planted(Intake, "apply", _deaf_to(changes.BindFailed), ("refusals", 1)),
    "a queue may have one pod more": Planted(quotas.Account, "copies_within", _one_more, ("calm", 7)),
    "what is guaranteed to others is taken": Planted(quotas, "ceiling", _no_guarantees, ("calm", 5)),
    "a lease that was lost is held for ever": Planted(Election, "_hold", _holds_for_ever, ("lines", 1)),
    "a lease is taken from who holds it": Planted(Election, "_take", _takes_any_lease, ("processes", 1)),
    "the lease is not looked at before a write": Planted(Election, "check", _returns(None), ("lines", 22)),
    "the first reason stays": Planted(Statuses, "_annotations", _first_reason_stays, ("rollout", 15)),
    "a gang that started still complains": Planted(Statuses, "_merged_conditions", _complaint_stays, ("calm", 2)),
    "a queue says for ever what it first held": Planted(QueueHoldings, "due", _first_word_stays, ("rollout", 4)),
    "evictions are told and not carried out": Planted(Evictor, "_remove", _does_nothing, ("reserved", 3)),
    "the same room is reserved twice": Planted(Book, "find", _reserves_beside_nobody, ("reserved", 2)),
    "room that others leave is promised to everybody": Planted(Room, "pipeline", _returns(None), ("reserved", 5)),
    "a write of what was used is lost": Planted(MemoryStore, "_put", _every_second_write_is_lost, ("calm", 1)),
    "what was used is not written at the end": Planted(MemoryStore, "flush", _does_nothing, ("calm", 1)),
    "no answer is taken for a no": Planted(errors, "is_open", _returns(value=False), ("successors", 18)),
    "a former leader's binds are not made void": Planted(
        takeover, "void_former_binds", _does_nothing, ("successors", 2)
    ),
    "a bind does not name the version of its pod": Planted(Binder, "_version_of", _returns(""), ("successors", 2)),
    "a node that was taken away is still used": Planted(Intake, "apply", _deaf_to_the_end_of(Node), ("nodes", 17)),
    "a new list ends nothing": Planted(Informer, "_replace", _a_list_ends_nothing, ("users", 19)),
    "pods of a Job that starts again stay": Planted(Judge, "must_go", _former_pods_stay, ("users", 17)),
    "every second batch of the record is lost": Planted(Store, "write", _every_second_batch_is_lost, ("calm", 6)),
    "a CronJob keeps all of its Jobs": Planted(cronjobs, "_prune_stages", _returns([]), ("users", 5)),
    "a CronJob starts Jobs beside others, forbidden or not": Planted(
        cronjobs, "_start_stages", lambda start: lambda job, plan, found, _: start(job, plan, found, ()), ("users", 15)
    ),
    "a flow keeps Jobs that were to go with its end": Planted(
        jobflows, "_plan_succeeded", _returns(NOTHING_TO_DO), ("all", 1)
    ),
    "admission refuses nothing": Planted(
        Reviewer, "validate", lambda _: lambda self, request: allow_response(request), ("reserved", 4)
    ),
    "every cycle says again why a gang waits": Planted(Topics, "on", _returns(None), ("reserved", 3)),
    "the queue that is full is told by another name": Planted(Proportion, "_why", _of_another_queue, ("calm", 4)),
    "half of the cluster is told to be more than all of it": Planted(
        feasibility, "exceeds_cluster", _too_large_at_half, ("calm", 4)
    ),
    "the cluster is told to be smaller than it is": Planted(feasibility, "exceeds_cluster", _a_node_less, ("calm", 6)),
    "what was first found out about a gang is told on": Planted(
        build_decisions, "_report", _first_report_stays, ("calm", 4)
    ),
    "a reservation is told, and not written down": Planted(reservation_note, "after", _returns(None), ("calm", 4)),
    "devices that a claim has are given again": Planted(Inventory, "in_use", _returns(()), ("users", 6)),
    "a claim of devices that is gone is still known": Planted(
        Intake, "apply", _deaf_to_the_end_of(ResourceClaim), ("users", 25)
    ),
    "who shares devices is not entered as their user": Planted(
        PodClaims, "choices", _only_own_devices, ("refusals", 8)
    ),
    "devices are within reach of every node": Planted(PodClaims, "_usable_from", _every_node, ("nodes", 5)),
    "pods are bound before they have their devices": Planted(Devices, "reserve", _does_nothing, ("calm", 6)),
    "what was prepared is not bound": Planted(Binder, "_bind_all", _not_bound_with_claims, ("calm", 6)),
    "that a pod's claim was made is no news": Planted(relevance, "_is_another_pod", _deaf_to_claims, ("users", 18)),
    "a volume is within reach of every node": Planted(Storage, "nodes_reaching", _everywhere, ("nodes", 7)),
    "a node takes as many volumes as come": Planted(Attachments, "room", _returns(None), ("calm", 4)),
    "half of what was used is forgotten": Planted(decayed_usage, "remembered", _half_forgotten, ("calm", 1)),
}
