"""The cells of built-in kinds' tables. A column whose name starts with + is for `-o wide`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable


Object = dict[str, Any]  # as the API server sends it
NONE = "<none>"
_ENDPOINTS_SHOWN_MAX = 3


class Printer(Value):
    columns: tuple[str, ...]
    cells: Callable[[Object, instant.Instant], list[Any]]


def age(timestamp: str | None, now: instant.Instant) -> str:
    """How long ago that was, as kubectl prints it."""
    if not timestamp:
        return "<unknown>"
    try:
        return instant.human_duration(now - instant.parse_instant(timestamp))
    except instant.InstantError:
        return "<invalid>"


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(value, separators=(",", ":"))


def born(obj: Object, now: instant.Instant) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def name_of(obj: Object) -> str:
    name: str = obj["metadata"]["name"]
    return name


def labels_text(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: dict[str, Any] | None) -> str:
    parts = [f"{key}={value}" for key, value in sorted(((selector or {}).get("matchLabels") or {}).items())]
    for expression in (selector or {}).get("matchExpressions") or ():
        values = ",".join(sorted(expression.get("values") or ()))
        match expression["operator"]:
            case "Exists":
                parts.append(expression["key"])
            case "DoesNotExist":
                parts.append("!" + expression["key"])
            case operator:
                parts.append(f"{expression['key']} {operator.lower()} ({values})")
    return ",".join(parts) or NONE


def containers_of(spec: dict[str, Any]) -> tuple[str, str]:
    template = ((spec.get("template") or {}).get("spec") or {}).get("containers") or ()
    return ",".join(c.get("name", "") for c in template), ",".join(c.get("image", "") for c in template)


# ------------------------------------------------------------------------------------------------------------- pods


def pod_cells(pod: Object, now: instant.Instant) -> list[Any]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    ready, total, restarts, reason = _pod_summary(pod, now)
    addresses = status.get("podIPs") or ([{"ip": status["podIP"]}] if status.get("podIP") else [])
    gates = spec.get("readinessGates") or ()
    true = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    passed = sum(gate["conditionType"] in true for gate in gates)
    return [
        name_of(pod),
        f"{ready}/{total}",
        reason,
        restarts,
        born(pod, now),
        addresses[0].get("ip", NONE) if addresses else NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        f"{passed}/{len(gates)}" if gates else NONE,
    ]


def _pod_summary(pod: Object, now: instant.Instant) -> tuple[int, int, str, str]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or ""
    if any(
        c.get("reason") == "SchedulingGated" and c["type"] == "PodScheduled" for c in status.get("conditions") or ()
    ):
        reason = "SchedulingGated"
    sidecars = {c["name"] for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always"}
    total, ready = len(spec.get("containers") or ()) + len(sidecars), 0
    initial = status.get("initContainerStatuses") or ()
    restarted, initialising = list(initial), False
    for index, container in enumerate(initial):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if ended is not None and ended.get("exitCode") == 0:
            continue
        if container["name"] in sidecars and container.get("started"):
            ready += bool(container.get("ready"))
            continue
        reason, initialising = _init_reason(state, index, len(spec.get("initContainers") or ())), True
        break
    if not initialising or _is_true(status, "Initialized"):
        running = status.get("containerStatuses") or ()
        restarted = [c for c in initial if c["name"] in sidecars] + list(running)
        more, reason = _running_summary(running, status, reason)
        ready += more
    if "deletionTimestamp" in pod["metadata"]:
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in {"Succeeded", "Failed"}:
            reason = "Terminating"
    return ready, total, _restarts(restarted, now), reason


def _init_reason(state: dict[str, Any], index: int, total: int) -> str:
    if ended := state.get("terminated"):
        if ended.get("reason"):
            return f"Init:{ended['reason']}"
        return f"Init:Signal:{ended['signal']}" if ended.get("signal") else f"Init:ExitCode:{ended.get('exitCode', 0)}"
    waiting = (state.get("waiting") or {}).get("reason")
    if waiting and waiting != "PodInitializing":
        return f"Init:{waiting}"
    return f"Init:{index}/{total}"


def _running_summary(containers: Any, status: dict[str, Any], reason: str) -> tuple[int, str]:
    ready, running, trouble = 0, False, ""
    for container in reversed(containers):
        state = container.get("state") or {}
        ended = state.get("terminated")
        if (state.get("waiting") or {}).get("reason"):
            reason = state["waiting"]["reason"]
        elif ended is not None:
            code = f"Signal:{ended['signal']}" if ended.get("signal") else f"ExitCode:{ended.get('exitCode', 0)}"
            reason = ended.get("reason") or code
            if ended.get("exitCode"):
                trouble = reason
        elif container.get("ready") and "running" in state:
            running = True
            ready += 1
    if reason == "Completed":
        if running and _is_true(status, "Ready"):
            reason = "Running"
        elif trouble or running:
            reason = trouble or "NotReady"
    return ready, reason


def _restarts(containers: list[Any], now: instant.Instant) -> str:
    count = sum(container.get("restartCount", 0) for container in containers)
    ends = [((container.get("lastState") or {}).get("terminated") or {}).get("finishedAt") for container in containers]
    last = max((end for end in ends if end), default="")
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _is_true(status: dict[str, Any], kind: str) -> bool:
    return any(c["type"] == kind and c.get("status") == "True" for c in status.get("conditions") or ())


# ------------------------------------------------------------------------------------------------- nodes and the core


def node_cells(node: Object, now: instant.Instant) -> list[Any]:
    status, spec = node.get("status") or {}, node.get("spec") or {}
    ready = next((c for c in status.get("conditions") or () if c["type"] == "Ready"), None)
    words = ["Unknown"] if ready is None else ["Ready" if ready.get("status") == "True" else "NotReady"]
    if spec.get("unschedulable"):
        words.append("SchedulingDisabled")
    roles = set()
    for key, value in (node["metadata"].get("labels") or {}).items():
        if key.startswith("node-role.kubernetes.io/") and key != "node-role.kubernetes.io/":
            roles.add(key.removeprefix("node-role.kubernetes.io/"))
        elif key == "kubernetes.io/role" and value:
            roles.add(value)
    info, addresses = status.get("nodeInfo") or {}, status.get("addresses") or ()
    found = {address["type"]: address["address"] for address in reversed(addresses)}
    return [
        name_of(node),
        ",".join(words),
        ",".join(sorted(roles)) or NONE,
        born(node, now),
        info.get("kubeletVersion", ""),
        found.get("InternalIP", NONE),
        found.get("ExternalIP", NONE),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def service_cells(service: Object, now: instant.Instant) -> list[Any]:
    spec = service.get("spec") or {}
    kind = spec.get("type", "ClusterIP")
    external = ",".join(spec.get("externalIPs") or ()) or NONE
    if kind == "ExternalName":
        external = spec.get("externalName") or NONE
    elif kind == "LoadBalancer":
        points = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
        external = ",".join(p.get("ip") or p.get("hostname", "") for p in points) or "<pending>"
    ports = [
        f"{p['port']}:{p['nodePort']}/{p.get('protocol', 'TCP')}"
        if p.get("nodePort")
        else f"{p['port']}/{p.get('protocol', 'TCP')}"
        for p in spec.get("ports") or ()
    ]
    address = spec.get("clusterIP") or NONE
    return [
        name_of(service),
        kind,
        address,
        external,
        ",".join(ports) or NONE,
        born(service, now),
        labels_text(spec.get("selector")),
    ]


def event_cells(event: Object, now: instant.Instant) -> list[Any]:
    series, involved = event.get("series") or {}, event.get("involvedObject") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    kind, name = involved.get("kind", "").lower(), involved.get("name", "")
    source = event.get("source") or {}
    component = source.get("component") or event.get("reportingComponent", "")
    where = [component, *([source["host"]] if source.get("host") else [])]
    return [
        age(last or first, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        involved.get("fieldPath", ""),
        ", ".join(where),
        (event.get("message") or "").strip(),
        age(first, now),
        series.get("count") or event.get("count") or 1,
        name_of(event),
    ]


def _data_count(obj: Object) -> int:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def endpoints_cells(obj: Object, now: instant.Instant) -> list[Any]:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in obj.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    shown = ",".join(found[:_ENDPOINTS_SHOWN_MAX])
    if len(found) > _ENDPOINTS_SHOWN_MAX:
        shown += f" + {len(found) - _ENDPOINTS_SHOWN_MAX} more..."
    return [name_of(obj), shown or NONE, born(obj, now)]


DEFAULT = Printer(("Name", "Age"), lambda obj, now: [name_of(obj), born(obj, now)])
CORE: dict[str, Printer] = {
    "pods": Printer(
        ("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates"), pod_cells
    ),
    "nodes": Printer(
        (
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            "+Internal-IP",
            "+External-IP",
            "+OS-Image",
            "+Kernel-Version",
            "+Container-Runtime",
        ),
        node_cells,
    ),
    "namespaces": Printer(
        ("Name", "Status", "Age"),
        lambda obj, now: [name_of(obj), (obj.get("status") or {}).get("phase", ""), born(obj, now)],
    ),
    "services": Printer(("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"), service_cells),
    "events": Printer(
        ("Last Seen", "Type", "Reason", "Object", "+Subobject", "+Source", "Message", "+First Seen", "+Count", "+Name"),
        event_cells,
    ),
    "configmaps": Printer(("Name", "Data", "Age"), lambda obj, now: [name_of(obj), _data_count(obj), born(obj, now)]),
    "secrets": Printer(
        ("Name", "Type", "Data", "Age"),
        lambda obj, now: [name_of(obj), obj.get("type", ""), len(obj.get("data") or ()), born(obj, now)],
    ),
    "endpoints": Printer(("Name", "Endpoints", "Age"), endpoints_cells),
}
