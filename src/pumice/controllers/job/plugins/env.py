"""env: tells each container its pod's number within the task."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.controllers.job.plugins.plugin import JobPlugin
from pumice.controllers.job.pods import add_env, containers

if TYPE_CHECKING:
    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json


class Env(JobPlugin):
    name = "env"

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        del job, task
        for container in containers(pod["spec"]):
            add_env(
                container,
                {"name": "VK_TASK_INDEX", "value": str(index)},
                {"name": "VC_TASK_INDEX", "value": str(index)},
            )
