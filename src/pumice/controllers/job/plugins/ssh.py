"""ssh: one key pair for the whole Job, so that every pod may log into every other one without a password.

The pair is made once, when the Job is set up, and survives restarts: pods that stay and pods that come back understand each other.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

from pumice.api.core import Secret
from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import OBJECT_BYTES_MAX, JobPlugin, check_length
from pumice.controllers.job.pods import add_mount, add_volume, containers
from pumice.controllers.operations import Apply, Blame, Create, Delete
from pumice.controllers.ownership import owned_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json
    from pumice.controllers.operations import Operation

KEYS = "ssh-keys"  # what the executor fills in
HOME = "/root/.ssh"
PORT = 22
PORT_MAX = 65_535
PRIVATE, PUBLIC, AUTHORIZED, CONFIG = "id_rsa", "id_rsa.pub", "authorized_keys", "config"
_ROOT_MODE = 0o600
_OTHER_MODE = 0o644  # who is not root could not read it otherwise


class Ssh(JobPlugin):
    name = "ssh"

    def __init__(self, arguments: Sequence[str]) -> None:
        defaults: dict[str, str | int | bool] = {
            "ssh-key-file-path": HOME,
            "ssh-private-key": "",
            "ssh-public-key": "",
            "ssh-port": PORT,
        }
        flags = Flags(arguments, defaults)
        self._path = flags.text("ssh-key-file-path")
        self._private = flags.text("ssh-private-key")
        self._public = flags.text("ssh-public-key")
        port = flags.number("ssh-port")
        self._port = port if 1 <= port <= PORT_MAX else PORT

    def objects(self, job: Job) -> Sequence[Operation]:
        data = {CONFIG: _base64(self._config(job))}
        if self._private:
            data[PRIVATE] = _base64(self._private)
            if self._public:
                data |= {PUBLIC: _base64(self._public), AUTHORIZED: _base64(self._public)}
        fills = "" if AUTHORIZED in data else KEYS
        return (Create(kind=Secret, body=self._secret(job, data), blame=Blame(job, "PluginError"), filled_by=fills),)

    def refresh(self, job: Job) -> Sequence[Operation]:
        body = self._secret(job, {CONFIG: _base64(self._config(job))})
        return (Apply(kind=Secret, body=body, blame=Blame(job, "PluginError")),)

    def cleanup(self, job: Job) -> Sequence[Operation]:
        namespace = job.metadata.namespace
        return (Delete(kind=Secret, name=secret_name(job), namespace=namespace, owner=job.metadata.uid),)

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        del task, index
        name = secret_name(job)
        items = [{"key": key, "path": f".ssh/{key}"} for key in (PRIVATE, PUBLIC, AUTHORIZED, CONFIG)]
        mode = _ROOT_MODE if self._path == HOME else _OTHER_MODE
        add_volume(pod["spec"], {"name": name, "secret": {"secretName": name, "items": items, "defaultMode": mode}})
        for container in containers(pod["spec"]):
            add_mount(container, {"name": name, "mountPath": self._path, "subPath": ".ssh"})

    def _secret(self, job: Job, data: dict[str, str]) -> Json:
        return {"apiVersion": "v1", "kind": "Secret", "metadata": owned_metadata(job, secret_name(job)), "data": data}

    def _config(self, job: Job) -> str:
        lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
        for task in job.spec.tasks:
            for host, address in hosts.hosts(job, task):
                lines += [f"Host {host}", f"  HostName {address}", f"  Port {self._port}"]
        return check_length("plugin ssh: the list of hosts", "\n".join(lines) + "\n", OBJECT_BYTES_MAX)


def secret_name(job: Job) -> str:
    return f"{job.metadata.name}-ssh"


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
