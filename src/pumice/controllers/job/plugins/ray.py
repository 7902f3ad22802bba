"""ray: starts a head and workers that find it, and a Service for those who want to submit work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names
from pumice.api.core import Service
from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import JobPlugin, PluginFault
from pumice.controllers.job.pods import add_port, containers
from pumice.controllers.operations import Blame, Create, Delete
from pumice.controllers.ownership import owned_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json
    from pumice.controllers.operations import Operation


class Ray(JobPlugin):
    name = "ray"

    def __init__(self, arguments: Sequence[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "head": "head",
            "worker": "worker",
            "headContainer": "head",
            "workerContainer": "worker",
            "port": 6379,
            "dashboardPort": 8265,
            "clientPort": 10001,
        }
        flags = Flags(arguments, defaults)
        self._head = flags.text("head")
        self._worker = flags.text("worker")
        self._head_container = flags.text("headContainer")
        self._worker_container = flags.text("workerContainer")
        self._ports = {
            "gcs": flags.number("port"),
            "dashboard": flags.number("dashboardPort"),
            "client-server": flags.number("clientPort"),
        }

    def objects(self, job: Job) -> Sequence[Operation]:
        ports = [
            {"name": name, "protocol": "TCP", "port": number, "targetPort": name}
            for name, number in self._ports.items()
        ]
        body: Json = {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": owned_metadata(job, service_name(job)),
            "spec": {
                "type": "ClusterIP",
                "selector": {**hosts.selector(job), names.TASK_SPEC: self._head},
                "ports": ports,
            },
        }
        return (Create(kind=Service, body=body, blame=Blame(job, "PluginError")),)

    def cleanup(self, job: Job) -> Sequence[Operation]:
        namespace = job.metadata.namespace
        return (Delete(kind=Service, name=service_name(job), namespace=namespace, owner=job.metadata.uid),)

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        del index
        head = hosts.task_named(job, self._head)
        if head is None:
            raise PluginFault(
                f"plugin ray: job {job.metadata.key} has no task named {self._head!r}; add it, or set --head"
            )
        for container in containers(pod["spec"], init=False):
            if task.name == self._head and container.get("name") == self._head_container:
                for name, number in self._ports.items():
                    add_port(container, name, number)
                container["command"] = ["sh", "-c", self._head_command()]
            elif task.name == self._worker and container.get("name") == self._worker_container:
                address = hosts.address(job, head, 0)
                container["command"] = ["sh", "-c", f"ray start --block --address={address}:{self._ports['gcs']}"]

    def _head_command(self) -> str:
        return (
            f"ray start --head --block --dashboard-host=0.0.0.0 --port={self._ports['gcs']} "
            f"--dashboard-port={self._ports['dashboard']} --ray-client-server-port={self._ports['client-server']}"
        )


def service_name(job: Job) -> str:
    return f"{job.metadata.name}-head-svc"
