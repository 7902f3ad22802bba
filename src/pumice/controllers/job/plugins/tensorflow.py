"""tensorflow: TF_CONFIG, the cluster as TensorFlow's strategies read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import VARIABLE_BYTES_MAX, JobPlugin, check_length
from pumice.controllers.job.pods import add_env, containers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json

PORT = 2222
ROLES = ("ps", "worker", "chief", "evaluator")


class TensorFlow(JobPlugin):
    name = "tensorflow"

    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(arguments, {**{role: role for role in ROLES}, "port": PORT})
        self._tasks = {role: flags.text(role) for role in ROLES}
        self._port = flags.number("port")
        self._clusters: dict[str, msgspec.Raw] = {}  # by a Job's uid: the same for each of its pods

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        tasks = job.spec.tasks
        if len(tasks) == 1 and tasks[0].replicas == 1:
            return  # no peer to talk to
        cluster = self._clusters.get(job.metadata.uid)
        if cluster is None:
            cluster = self._clusters[job.metadata.uid] = msgspec.Raw(msgspec.json.encode(self._cluster(job)))
        text = msgspec.json.encode({"cluster": cluster, "task": {"type": self._role(task), "index": index}}).decode()
        check_length("plugin tensorflow: TF_CONFIG", text, VARIABLE_BYTES_MAX)
        for container in containers(pod["spec"], init=False):
            add_env(container, {"name": "TF_CONFIG", "value": text})

    def _cluster(self, job: Job) -> dict[str, list[str]]:
        cluster: dict[str, list[str]] = {}
        for role in ROLES:
            task = hosts.task_named(job, self._tasks[role])
            if task is not None and task.replicas:
                cluster[role] = [f"{address}:{self._port}" for address in hosts.addresses(job, task)]
        return cluster

    def _role(self, task: Task) -> str:
        return next((role for role, name in self._tasks.items() if name == task.name), task.name)
