"""Why a pod waits, written on the pod itself: once for each thing there is to say, and not for what holds a moment only.

Its group is told at once, in one write, whatever the number of pods.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from pumice import instant
from pumice.api import changes
from pumice.api.pods import Pod
from pumice.kube import errors
from pumice.kube.requests import PatchType
from pumice.scheduling.core.codes import Code
from pumice.scheduling.core.decisions import GangSummary
from pumice.scheduling.core.verdict import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from pumice.cluster.state import Cluster
    from pumice.dispatch.topics import Topics
    from pumice.instant import Instant
    from pumice.kube.client import Client
    from pumice.runtime import Runtime
    from pumice.scheduling.core.decisions import Decisions, GangReport, PodVerdict

HOPES = frozenset({Code.PLACE_FOUND, Code.PLACE_BEING_FREED})
STANDS_S = 10.0  # what a pod was told stands for so long: while others leave and come, reasons change to and fro


class _Told(NamedTuple):
    """What a pod's condition says, for people and in the word that machines read, and when this process wrote that, by the monotonic clock."""

    topic: Hashable
    reason: str
    at: float


class PodConditions:
    """What pods are told; belongs to one event loop."""

    def __init__(
        self,
        client: Client,
        cluster: Cluster,
        learn: Callable[[changes.Change], None],
        topics: Topics,
        runtime: Runtime,
    ) -> None:
        self._client = client
        self._cluster = cluster
        self._learn = learn
        self._topics = topics
        self._clock = runtime.clock
        self._log = runtime.log
        self._told: dict[str, _Told] = {}  # by uid
        self.failed = False  # something could not be written
        self.again_at: Instant | None = None  # when a pod is to be told something else

    @property
    def remembered(self) -> int:
        return len(self._told)

    def forget(self, decisions: Decisions) -> None:
        """Of pods that no longer wait nothing is kept: it is never read again."""
        reports = [report.pods for report in decisions.gangs.values() if report.pods]
        waiting = {each.task.uid for verdicts in (*reports, *decisions.orphans.values()) for each in verdicts}
        for gone in self._told.keys() - waiting:
            del self._told[gone]

    def differs(self, verdict: PodVerdict, report: GangReport | None) -> bool:
        """Whether the pod is to be told something new; what is not known of before is what the gang was told then."""
        task = self._cluster.tasks.get(verdict.task.uid)
        if task is None or task.node:
            self._told.pop(verdict.task.uid, None)
            return False
        is_promised = bool(verdict.nominated_node and verdict.nominated_node != task.nominated_node)
        topic, now = self._topic(verdict), self._clock.monotonic()
        former = self._told.get(task.uid)
        if former is not None and not is_promised:
            if former.topic == topic:
                return False
            if verdict.reason == former.reason and now < former.at + STANDS_S:
                self._ask_again(former.at + STANDS_S - now)
                return False
        have = next((each for each in task.pod.status.conditions if each.type == "PodScheduled"), None)
        same = have is not None and (have.status, have.reason) == ("False", verdict.reason)
        if same and have is not None and have.message != verdict.message:
            same = (
                former is None
                and report is not None
                and self._topics.is_said(report, self._cluster.group_of(report.gang))
            )
        is_news = not same or is_promised
        self._told[task.uid] = _Told(topic, verdict.reason, now if is_news else -math.inf)
        return is_news

    def _ask_again(self, after_s: float) -> None:
        at = self._clock.now() + round(after_s * instant.SECOND)
        self.again_at = at if self.again_at is None else min(self.again_at, at)

    def _topic(self, verdict: PodVerdict) -> Hashable:
        """That a place is in view is said once: which node it is at the moment, and whether others have left it yet, changes with every pod that goes.
        How many of its mates stand how is the group's to say.
        """
        why = verdict.why
        if isinstance(why, Reason) and why.code in HOPES:
            return HOPES
        if isinstance(why, GangSummary):
            return tuple(None if each is None else self._topics.of(each) for each in (why.origin, why.others))
        return self._topics.of(why), None

    async def write(self, verdict: PodVerdict) -> None:
        task = verdict.task
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": verdict.reason,
            "message": verdict.message,
            "lastTransitionTime": instant.format_instant(self._clock.now()),
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if verdict.nominated_node:
            status["nominatedNodeName"] = verdict.nominated_node
        try:
            # Of the pod as it was looked at: a word about one that waits must not land on one that was bound since.
            version = task.pod.metadata.resource_version
            known = {"uid": task.uid, **({"resourceVersion": version} if version else {})}
            body = {"metadata": known, "status": status}
            reply = await self._client.patch(
                Pod, task.name, body, how=PatchType.STRATEGIC, namespace=task.namespace, subresource="status"
            )
            self._learn(changes.Upserted(object=reply.into(Pod)))  # a bind names the version that it is for
        except (errors.NotFound, errors.Conflict):
            self._told.pop(task.uid, None)  # gone, or changed: then there is news of it, and another look
        except errors.KubeError as error:
            self._told.pop(task.uid, None)
            self.failed = True
            self._log("pod_status_failed", pod=task.key, reason=str(error))
