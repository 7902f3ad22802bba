"""What only pods can do: be bound to a node, be evicted, show their logs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from pumice.kube.transport import Response
from pumice.local.apiserver import failures
from pumice.local.apiserver.decoding import read_typed
from pumice.local.apiserver.deleting import Options
from pumice.local.apiserver.store import encode

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.deleting import Remover
    from pumice.local.apiserver.disruption import Budgets
    from pumice.local.apiserver.request_parsing import Call
    from pumice.local.apiserver.store import Object

LOG_BYTES_MAX = 64 * 2**20  # of a log that is not followed; `--tail` and `--limit-bytes` ask for less
CREATED = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def no_logs(node: str) -> bytes:
    """The line that stands in for a log where no process writes one."""
    return f"(node {node} is a pretend node, or one without an agent: its pods run no process and write no logs)\n".encode()


class Logs(Protocol):
    """Where containers' output is: a node's agent in this process, or one that is asked over the network."""

    async def read(self, pod: Object, container: str, options: Mapping[str, str]) -> AsyncGenerator[bytes, None]: ...


class PodCalls:
    def __init__(self, backend: Backend, remover: Remover, budgets: Budgets) -> None:
        self.backend = backend
        self.remover = remover
        self.budgets = budgets
        self.logs: Logs | None = None

    def bind(self, call: Call) -> Response:
        """Assigns a pod to a node, once. The binding's annotations and labels go onto the pod: no second write."""
        binding = read_typed(call.request, "core.v1.Binding")
        name = call.name or (binding.get("metadata") or {}).get("name", "")
        target = binding.get("target") or {}
        if target.get("kind", "Node") not in {"", "Node"} or not target.get("name"):
            cause = ("target.name", "FieldValueRequired", "Required value: a node's name")
            raise failures.invalid("Binding", "", name, [cause])
        resource = self.backend.registry.find("", "v1", "pods")
        assert resource is not None
        entry = self.backend.entry(resource, call.namespace, name)
        pod = self.backend.load(resource, entry)
        self._check(entry.uid, pod, binding.get("metadata") or {})
        metadata = pod["metadata"]
        for key in ("annotations", "labels"):
            if added := (binding.get("metadata") or {}).get(key):
                metadata[key] = (metadata.get(key) or {}) | added
        pod["spec"]["nodeName"] = target["name"]
        self._mark_scheduled(pod)
        if not call.dry_run:
            self.backend.put(resource, pod, expected=entry)
        return Response(201, {"content-type": "application/json"}, encode(CREATED))

    def _check(self, uid: str, pod: Object, binding: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        wanted = binding.get("uid")
        if wanted and wanted != uid:
            text = f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {uid}"
            raise failures.conflict("pods", "", name, text)
        version = binding.get("resourceVersion")
        if version and version != pod["metadata"]["resourceVersion"]:
            raise failures.conflict("pods", "", name, failures.STALE)
        if "deletionTimestamp" in pod["metadata"]:
            raise failures.conflict(
                "pods/binding", "", name, f"pod {name} is being deleted, cannot be assigned to a host"
            )
        if assigned := pod["spec"].get("nodeName"):
            text = f'pod {name} is already assigned to node "{assigned}"'
            raise failures.conflict("pods/binding", "", name, text)
        if pod["spec"].get("schedulingGates"):
            raise failures.conflict("pods/binding", "", name, f"pod {name} has non-empty .spec.schedulingGates")

    def _mark_scheduled(self, pod: Object) -> None:
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)  # as kube-apiserver since 1.35: it has what it was nominated for
        conditions = [c for c in status.get("conditions") or () if c["type"] != "PodScheduled"]
        now = self.backend.timestamp()
        generation = pod["metadata"].get("generation")
        scheduled = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
        if generation:
            scheduled["observedGeneration"] = generation
        status["conditions"] = [*conditions, scheduled]

    async def evict(self, call: Call) -> Response:
        """Deletes a pod unless a disruption budget forbids it."""
        eviction = read_typed(call.request, "policy.v1.Eviction")
        options = eviction.get("deleteOptions") or {}
        conditions = options.get("preconditions") or {}
        entry = self.backend.entry(call.resource, call.namespace, call.name)
        chosen = Options(
            grace_s=options.get("gracePeriodSeconds"),
            uid=conditions.get("uid") or "",
            version=conditions.get("resourceVersion") or "",
            dry_run=call.dry_run or bool(options.get("dryRun")),
        )
        self.remover.check_preconditions(call.resource, entry, chosen)
        pod = self.backend.load(call.resource, entry)
        self.budgets.guard(pod, entry)
        entry = self._mark_target(call, entry, pod, chosen)
        self.remover.terminate(call.resource, entry, chosen)
        return Response(201, {"content-type": "application/json"}, encode(CREATED))

    def _mark_target(self, call: Call, entry: Any, pod: Object, options: Options) -> Any:
        """Says on the pod that it was asked to go, so that its controller can tell this from a failure."""
        status = pod.setdefault("status", {})
        conditions = [c for c in status.get("conditions") or () if c["type"] != "DisruptionTarget"]
        target = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
            "lastProbeTime": None,
            "lastTransitionTime": self.backend.timestamp(),
        }
        status["conditions"] = [*conditions, target]
        if options.dry_run:
            return entry
        return self.backend.put(call.resource, pod, expected=entry)

    async def log(self, call: Call) -> Response:
        pod = self.backend.load(call.resource, self.backend.entry(call.resource, call.namespace, call.name))
        container = self._container(call, pod)
        if not pod["spec"].get("nodeName"):
            return Response(200, {"content-type": "text/plain"})  # nothing has run yet, so nothing was said
        if self.logs is None:
            return Response(200, {"content-type": "text/plain"}, no_logs(pod["spec"]["nodeName"]))
        stream = await self.logs.read(pod, container, call.query)
        headers = {"content-type": "text/plain"}
        if call.flag("follow"):
            return Response(200, headers, stream=stream)
        parts, size = [], 0
        async for chunk in stream:
            parts.append(chunk)
            size += len(chunk)
            if size > LOG_BYTES_MAX:
                break
        await stream.aclose()
        return Response(200, headers, b"".join(parts)[:LOG_BYTES_MAX])

    def _container(self, call: Call, pod: Object) -> str:
        spec, asked = pod["spec"], call.query.get("container", "")
        names = [c["name"] for key in ("containers", "initContainers") for c in spec.get(key) or ()]
        if asked:
            if asked not in names:
                raise failures.bad_request(f"container {asked} is not valid for pod {call.name}")
            return asked
        plain = [c["name"] for c in spec.get("containers") or ()]
        if len(plain) > 1:
            chosen = (pod["metadata"].get("annotations") or {}).get("kubectl.kubernetes.io/default-container")
            if chosen in plain:
                return str(chosen)
            text = f"a container name must be specified for pod {call.name}, choose one of: [{' '.join(plain)}]"
            raise failures.bad_request(text)
        return str(plain[0])
