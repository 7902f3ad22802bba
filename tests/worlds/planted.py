"""Bugs that are planted to see whether the worlds find them: each breaks one function of the product, as a hasty change might.

`PLANTED` names what is broken, how, and the world that finds it.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from pumice.api import changes
from pumice.api.pods import Pod
from pumice.cluster.intake import Intake
from pumice.dispatch.binder import Binder
from pumice.dispatch.statuses import Statuses
from pumice.kube.informer import Informer
from pumice.kube.workqueue import WorkQueue
from pumice.scheduling.placing.placement import Placer
from pumice.sim.worlds.apiserver import Journal


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
        await commit(self, dataclasses.replace(planned, binds=planned.binds[:-1] or planned.binds), attempt)

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


PLANTED = {
    "a pod that is gone keeps its room": Planted(Intake, "apply", _deaf_to_pods_that_go, ("users", 3)),
    "the last member of a gang is not bound": Planted(Binder, "commit", _one_less, ("calm", 1)),
    "what failed is not tried again": Planted(WorkQueue, "add_after", _never_again, ("storm", 1)),
    "a gang that waits does not say why": Planted(Statuses, "_group_patch", _no_reasons, ("calm", 4)),
    "nodes hold twice what they have": Planted(Placer, "copies", _twice_the_room, ("calm", 1)),
    "every second event of a watch is lost": Planted(Informer, "_apply", _lost_watch, ("calm", 1)),
    "a new list ends what it names": Planted(
        Informer, "_relist_change", lambda _: lambda self: changes.Relisted(self._struct, frozenset()), ("storm", 1)
    ),
    "news of pods is dropped now and then": Planted(Informer, "_publish", _lost_news, ("calm", 1)),
    "the journal forgets a change now and then": Planted(Journal, "append", _loses_some, ("calm", 4)),
}
