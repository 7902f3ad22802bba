"""pytorch: where the master is, how many there are, and which one this is, as torch.distributed reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import JobPlugin
from pumice.controllers.job.pods import add_env, add_port, containers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json

PORT = 23456
PORT_NAME = "pytorchjob-port"
WAITER = "wait-for-master"
WAIT_S = 300
PROBE_S = 2


class PyTorch(JobPlugin):
    name = "pytorch"

    def __init__(self, arguments: Sequence[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "master": "master",
            "worker": "worker",
            "port": PORT,
            "wait-master-enabled": False,
            "wait-master-timeout": WAIT_S,
            "wait-master-image": "busybox:1.36.1",
        }
        flags = Flags(arguments, defaults)
        self._master = flags.text("master")
        self._worker = flags.text("worker")
        self._port = flags.number("port")
        self._waits = flags.is_set("wait-master-enabled")
        self._wait_s = flags.number("wait-master-timeout")
        self._wait_image = flags.text("wait-master-image")

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        master = hosts.task_named(job, self._master)
        if master is None:
            return  # Volcano parity: such a Job is left as it is; admission warns
        worker = hosts.task_named(job, self._worker)
        address = hosts.address(job, master, 0)
        world = master.replicas + (worker.replicas if worker is not None and worker is not master else 0)
        variables = {"MASTER_ADDR": address, "MASTER_PORT": str(self._port), "WORLD_SIZE": str(world)}
        if task.name == self._master:
            variables["RANK"] = "0"
        elif task.name == self._worker:
            variables["RANK"] = str(index + 1)
        for container in containers(pod["spec"], init=False):
            add_port(container, PORT_NAME, self._port)
            add_env(container, *({"name": name, "value": value} for name, value in variables.items()))
        if self._waits and task.name == self._worker:
            self._add_waiter(pod["spec"], address)

    def _add_waiter(self, spec: Json, address: str) -> None:
        present = spec.get("initContainers") or []
        if any(container.get("name") == WAITER for container in present):
            return
        tries = -(-self._wait_s // PROBE_S)
        script = (
            f"for i in $(seq 1 {tries}); do "
            f"if nc -z -w 2 {address} {self._port} 2>/dev/null || (: </dev/tcp/{address}/{self._port}) 2>/dev/null; "
            f"then exit 0; fi; sleep {PROBE_S}; done; "
            f"echo 'master {address}:{self._port} did not answer within {self._wait_s} s' >&2; exit 1"
        )
        waiter = {"name": WAITER, "image": self._wait_image, "command": ["sh", "-c", script]}
        spec["initContainers"] = [*present, waiter]
