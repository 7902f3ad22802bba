"""svc: a headless Service, so that pods find one another by name, the list of all names, and a NetworkPolicy for the Job."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api.core import ConfigMap, Service
from pumice.api.kinds import by_kind
from pumice.controllers.job.plugins import hosts
from pumice.controllers.job.plugins.arguments import Flags
from pumice.controllers.job.plugins.plugin import OBJECT_BYTES_MAX, JobPlugin, check_length
from pumice.controllers.job.pods import add_env, add_mount, add_volume, containers
from pumice.controllers.operations import Apply, Blame, Create, Delete
from pumice.controllers.ownership import owned_metadata

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.api.batch import Job, Task
    from pumice.api.meta import Json
    from pumice.controllers.operations import Operation

CONFIG_PATH = "/etc/volcano"
_found = by_kind("networking.k8s.io/v1", "NetworkPolicy")
assert _found is not None, "NetworkPolicy is one of the kinds"
NETWORK_POLICY = _found


class Svc(JobPlugin):
    name = "svc"

    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(
            arguments,
            {"publish-not-ready-addresses": False, "disable-network-policy": False, "inject-hosts-env": True},
        )
        self._publishes_not_ready = flags.is_set("publish-not-ready-addresses")
        self._has_policy = not flags.is_set("disable-network-policy")
        self._injects_hosts = flags.is_set("inject-hosts-env")

    def objects(self, job: Job) -> Sequence[Operation]:
        blame = Blame(job, "PluginError")
        creates = [
            Create(kind=ConfigMap, body=self._config(job), blame=blame),
            Create(kind=Service, body=self._service(job), blame=blame),
        ]
        if self._has_policy:
            creates.append(Create(kind=NETWORK_POLICY, body=self._policy(job), blame=blame))
        return creates

    def refresh(self, job: Job) -> Sequence[Operation]:
        return (Apply(kind=ConfigMap, body=self._config(job), blame=Blame(job, "PluginError")),)

    def cleanup(self, job: Job) -> Sequence[Operation]:
        name, namespace, uid = job.metadata.name, job.metadata.namespace, job.metadata.uid
        deletes = [
            Delete(kind=ConfigMap, name=config_name(job), namespace=namespace, owner=uid),
            Delete(kind=Service, name=name, namespace=namespace, owner=uid),
        ]
        if self._has_policy:
            deletes.append(Delete(kind=NETWORK_POLICY, name=name, namespace=namespace, owner=uid))
        return deletes

    def on_pod(self, pod: Json, job: Job, task: Task, index: int) -> None:
        del task, index
        spec = pod["spec"]
        spec["hostname"] = spec.get("hostname") or pod["metadata"]["name"]
        spec["subdomain"] = spec.get("subdomain") or job.metadata.name
        config = config_name(job)
        add_volume(spec, {"name": config, "configMap": {"name": config}})
        for container in containers(spec):
            add_mount(container, {"name": config, "mountPath": CONFIG_PATH})
            if self._injects_hosts:
                add_env(container, *(variable for each in job.spec.tasks for variable in _variables(config, each)))

    # ------------------------------------------------------------------------------------------------- objects

    def _config(self, job: Job) -> Json:
        data: dict[str, str] = {}
        for task in job.spec.tasks:
            addresses = [address for _, address in hosts.hosts(job, task)]
            data[f"{task.name.replace('-', '_')}.host"] = "\n".join(addresses)
            data[_variable(task, "HOSTS")] = ",".join(addresses)
            data[_variable(task, "NUM")] = str(len(addresses))
        check_length("plugin svc: the list of hosts", "".join(data.values()), OBJECT_BYTES_MAX)
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": owned_metadata(job, config_name(job)),
            "data": data,
        }

    def _service(self, job: Job) -> Json:
        spec: Json = {"clusterIP": "None", "selector": hosts.selector(job)}
        if self._publishes_not_ready:
            spec["publishNotReadyAddresses"] = True
        return {"apiVersion": "v1", "kind": "Service", "metadata": owned_metadata(job, job.metadata.name), "spec": spec}

    def _policy(self, job: Job) -> Json:
        members = {"matchLabels": hosts.selector(job)}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": owned_metadata(job, job.metadata.name),
            "spec": {
                "podSelector": members,
                "ingress": [{"from": [{"podSelector": members}]}],
                "policyTypes": ["Ingress"],
            },
        }


def config_name(job: Job) -> str:
    return f"{job.metadata.name}-svc"


def _variable(task: Task, what: str) -> str:
    return f"VC_{task.name.replace('-', '_').upper()}_{what}"


def _variables(config: str, task: Task) -> list[Json]:
    keys = [_variable(task, "HOSTS"), _variable(task, "NUM")]
    return [{"name": key, "valueFrom": {"configMapKeyRef": {"name": config, "key": key}}} for key in keys]
