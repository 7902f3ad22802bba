"""hcclrank: the rank of each pod in a collective of NPUs, as an annotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import JobPlugin
from pumice.controllers.job.pods import containers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json


class HcclRank(JobPlugin):
    name = "hcclrank"
    is_recorded = False

    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(arguments, {"master": "master", "worker": "worker"})
        self._master = flags.text("master")
        self._worker = flags.text("worker")

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        annotations = pod["metadata"]["annotations"]
        rank = self._rank(pod, job, task, index)
        if not annotations.get(names.HCCL_RANK_INDEX) and rank is not None:
            annotations[names.HCCL_RANK_INDEX] = rank

    def _rank(self, pod: Json, job: Job, task: Task, index: int) -> str | None:
        for container in containers(pod["spec"], init=False):
            for variable in container.get("env") or ():
                if variable.get("name") == "RANK":
                    return str(variable.get("value", ""))
        if task.name == self._master:
            return str(index)
        if task.name == self._worker:
            master = hosts.task_named(job, self._master)
            return str(index + (master.replicas if master is not None else 0))
        return None
