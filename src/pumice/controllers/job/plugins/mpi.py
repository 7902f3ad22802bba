"""mpi: tells the master on which hosts to start its ranks; ssh and svc do the rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import VARIABLE_BYTES_MAX, JobPlugin, check_length
from pumice.controllers.job.pods import add_env, add_port, containers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json

PORT = 22
PORT_NAME = "mpijob-port"


class Mpi(JobPlugin):
    name = "mpi"

    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(arguments, {"master": "master", "worker": "worker", "port": PORT})
        self._master = flags.text("master")
        self._worker = flags.text("worker")
        self._port = flags.number("port")

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        del index
        everyone = containers(pod["spec"])
        for container in everyone:
            add_port(container, PORT_NAME, self._port)
        worker = hosts.task_named(job, self._worker)
        if task.name == self._master and worker is not None:
            addresses = ",".join(address for _, address in hosts.hosts(job, worker))
            check_length("plugin mpi: MPI_HOST", addresses, VARIABLE_BYTES_MAX)
            for container in everyone:
                add_env(container, {"name": "MPI_HOST", "value": addresses})
