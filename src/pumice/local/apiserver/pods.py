"""Pods as users see them: defaults, what is checked, what may change later."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from pumice import quantity
from pumice.local.apiserver import naming, quantities

if TYPE_CHECKING:
    from pumice.local.apiserver.violations import Cause

GRACE_SECONDS_DEFAULT = 30
TOLERATION_SECONDS_DEFAULT = 300
_EVICTION_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
_CONTAINER_LISTS = ("containers", "initContainers", "ephemeralContainers")


def default_template(spec: dict[str, Any]) -> None:
    """What a pod's spec gets wherever it stands, in a pod or in a template."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", GRACE_SECONDS_DEFAULT)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if "serviceAccountName" in spec:
        spec["serviceAccount"] = spec["serviceAccountName"]
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    for key in _CONTAINER_LISTS:
        for container in spec.get(key) or ():
            _default_container(container)
    for volume in spec.get("volumes") or ():
        _default_volume(volume)


def _default_container(container: dict[str, Any]) -> None:
    resources = container.setdefault("resources", {})
    if limits := resources.get("limits"):
        requests = resources.setdefault("requests", {})
        for name, amount in limits.items():
            requests.setdefault(name, amount)
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container and container.get("image"):
        container["imagePullPolicy"] = "Always" if _is_latest(container["image"]) else "IfNotPresent"
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe := container.get(name):
            _default_probe(probe)
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def _default_probe(probe: dict[str, Any]) -> None:
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(key, value)
    if action := probe.get("httpGet"):
        action.setdefault("path", "/")
        action.setdefault("scheme", "HTTP")


def _default_volume(volume: dict[str, Any]) -> None:
    for kind in ("configMap", "secret", "downwardAPI", "projected"):
        if source := volume.get(kind):
            source.setdefault("defaultMode", 420)
    if source := volume.get("hostPath"):
        source.setdefault("type", "")
    if list(volume) == ["name"]:
        volume["emptyDir"] = {}


def _is_latest(image: str) -> bool:
    name = image.rsplit("/", 1)[-1]
    return "@" not in name and (":" not in name or name.endswith(":latest"))


def default_pod(pod: dict[str, Any]) -> None:
    spec = pod.setdefault("spec", {})
    default_template(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for key in ("containers", "initContainers"):
            for container in spec.get(key) or ():
                for port in container.get("ports") or ():
                    if port.get("containerPort"):
                        port.setdefault("hostPort", port["containerPort"])


def tolerate_node_trouble(spec: dict[str, Any]) -> None:
    """Pods stay five minutes on a node that fell silent, unless they say otherwise (DefaultTolerationSeconds)."""
    tolerations = spec.get("tolerations") or []
    for taint in _EVICTION_TAINTS:
        if not any(_tolerates_noexecute(toleration, taint) for toleration in tolerations):
            tolerations.append(
                {
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS_DEFAULT,
                }
            )
    spec["tolerations"] = tolerations


def _tolerates_noexecute(toleration: dict[str, Any], taint: str) -> bool:
    return toleration.get("key", taint) == taint and toleration.get("effect", "NoExecute") in {"NoExecute", ""}


def quality_of_service(spec: dict[str, Any]) -> str:
    """Guaranteed, Burstable or BestEffort, from cpu and memory alone."""
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    guaranteed, any_amount = True, False
    for container in containers:
        resources = container.get("resources") or {}
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            requested, limit = requests.get(name), limits.get(name)
            any_amount |= bool(_positive(requested) or _positive(limit))
            guaranteed &= (
                limit is not None
                and _positive(limit)
                and (requested is None or quantity.compare(requested, limit) == 0)
            )
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _positive(amount: Any) -> bool:
    return amount is not None and quantity.parse_milli(amount) > 0


def initial_status(spec: dict[str, Any]) -> dict[str, Any]:
    status: dict[str, Any] = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        message = "Scheduling is blocked due to non-empty scheduling gates"
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": message,
                "lastProbeTime": None,
                "lastTransitionTime": None,
            }
        ]
    status["qosClass"] = quality_of_service(spec)
    return status


def check_spec(spec: dict[str, Any], path: str = "spec") -> list[Cause]:
    causes: list[Cause] = []
    if not spec.get("containers"):
        causes.append((f"{path}.containers", "FieldValueRequired", "Required value"))
    seen: set[str] = set()
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            causes += _check_container(container, f"{path}.{key}[{index}]", seen)
    policy = spec.get("restartPolicy", "Always")
    if policy not in _RESTART_POLICIES:
        listed = ", ".join(f'"{name}"' for name in _RESTART_POLICIES)
        text = f'Unsupported value: "{policy}": supported values: {listed}'
        causes.append((f"{path}.restartPolicy", "FieldValueNotSupported", text))
    causes += _check_volumes(spec, path)
    node = spec.get("nodeName")
    if node and not naming.is_subdomain(node):
        text = f'Invalid value: "{node}": {naming.SUBDOMAIN_RULE}'
        causes.append((f"{path}.nodeName", "FieldValueInvalid", text))
    return causes


def _check_volumes(spec: dict[str, Any], path: str) -> list[Cause]:
    """Names are unique, and what is mounted is there."""
    causes: list[Cause] = []
    volumes: set[str] = set()
    for index, volume in enumerate(spec.get("volumes") or ()):
        name = volume.get("name", "")
        if name in volumes:
            causes.append((f"{path}.volumes[{index}].name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
        volumes.add(name)
    for key in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(key) or ()):
            causes += [
                (
                    f"{path}.{key}[{index}].volumeMounts[{number}].name",
                    "FieldValueNotFound",
                    f'Not found: "{mount.get("name")}"',
                )
                for number, mount in enumerate(container.get("volumeMounts") or ())
                if mount.get("name") not in volumes
            ]
    return causes


def _check_container(container: dict[str, Any], path: str, seen: set[str]) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append((f"{path}.name", "FieldValueRequired", "Required value"))
    elif not naming.is_label(name):
        causes.append((f"{path}.name", "FieldValueInvalid", f'Invalid value: "{name}": {naming.LABEL_RULE}'))
    elif name in seen:
        causes.append((f"{path}.name", "FieldValueDuplicate", f'Duplicate value: "{name}"'))
    seen.add(name)
    if not container.get("image"):
        causes.append((f"{path}.image", "FieldValueRequired", "Required value"))
    return causes + _check_resources(container.get("resources") or {}, f"{path}.resources")


def _check_resources(resources: dict[str, Any], path: str) -> list[Cause]:
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    causes = quantities.causes_of(limits, f"{path}.limits") + quantities.causes_of(requests, f"{path}.requests")
    for name, amount in requests.items():
        limit = limits.get(name)
        extended = "/" in name and not name.startswith("kubernetes.io/")
        if limit is not None and amount != limit and quantity.compare(amount, limit) > 0:
            text = f'Invalid value: "{amount}": must be less than or equal to {name} limit of {limit}'
            causes.append((f"{path}.requests", "FieldValueInvalid", text))
        elif limit is None and extended:
            text = "Required value: Limit must be set for non overcommitable resources"
            causes.append((f"{path}.limits", "FieldValueRequired", text))
    return causes


_CHANGEABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates", "terminationGracePeriodSeconds")
IMMUTABLE = (
    "Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def check_update(pod: dict[str, Any], old: dict[str, Any]) -> list[Cause]:
    new_spec, old_spec = pod.get("spec") or {}, old.get("spec") or {}
    if new_spec == old_spec:
        return []
    gates = {gate["name"] for gate in old_spec.get("schedulingGates") or ()}
    added = [gate for gate in new_spec.get("schedulingGates") or () if gate["name"] not in gates]
    if added:
        text = "Forbidden: only deletion is allowed, but found new scheduling gate"
        return [("spec.schedulingGates", "FieldValueForbidden", text)]
    kept = old_spec.get("tolerations") or []
    if any(toleration not in (new_spec.get("tolerations") or []) for toleration in kept):
        text = "Forbidden: existing toleration can not be modified except its tolerationSeconds"
        return [("spec.tolerations", "FieldValueForbidden", text)]
    if _with_changeable_parts(new_spec, old_spec, gated=bool(gates)) == old_spec:
        return []
    return [("spec", "FieldValueForbidden", IMMUTABLE)]


def _with_changeable_parts(new_spec: dict[str, Any], old_spec: dict[str, Any], *, gated: bool) -> dict[str, Any]:
    """The new spec with everything that may change put back; what still differs may not."""
    copied = copy.deepcopy(new_spec)
    # A gated pod has not been looked at yet: its placement may still be narrowed.
    for key in (*_CHANGEABLE, *(("nodeSelector", "affinity") if gated else ())):
        copied.pop(key, None)
        if key in old_spec:
            copied[key] = old_spec[key]
    for key in _CONTAINER_LISTS:
        for mine, theirs in zip(copied.get(key) or (), old_spec.get(key) or (), strict=False):
            mine["image"] = theirs.get("image")
    return copied
