"""The cells of the other built-in kinds' tables: workloads, storage, policy, access."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice import instant
from pumice.api.cells import NONE, Printer, age, born, containers_of, labels_text, name_of, selector_text

if TYPE_CHECKING:
    from pumice.local.apiserver.store import Object

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_JOB_WORDS = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _parts(obj: Object) -> tuple[dict[str, Any], dict[str, Any]]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _replica_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    counts = [spec.get("replicas", 0), status.get("replicas", 0), status.get("readyReplicas", 0)]
    chosen = spec.get("selector")
    selector = selector_text(chosen) if obj["kind"] == "ReplicaSet" else labels_text(chosen)
    return [name_of(obj), *counts, born(obj, now), *containers_of(spec), selector]


def _deployment_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [name_of(obj), ready, *counts, born(obj, now), *containers_of(spec), selector_text(spec.get("selector"))]


def _stateful_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        born(obj, now),
        *containers_of(spec),
    ]


def _daemon_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    keys = (
        "desiredNumberScheduled",
        "currentNumberScheduled",
        "numberReady",
        "updatedNumberScheduled",
        "numberAvailable",
    )
    template = (spec.get("template") or {}).get("spec") or {}
    where = labels_text(template.get("nodeSelector"))
    counts = [status.get(key, 0) for key in keys]
    return [name_of(obj), *counts, where, born(obj, now), *containers_of(spec), selector_text(spec.get("selector"))]


def _job_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    done = status.get("succeeded", 0)
    if "completions" in spec:
        completions = f"{done}/{spec['completions']}"
    else:
        parallel = spec.get("parallelism", 0)
        completions = f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"
    took = ""
    if status.get("startTime"):
        end = instant.parse_instant(status["completionTime"]) if status.get("completionTime") else now
        took = instant.human_duration(end - instant.parse_instant(status["startTime"]))
    true = {c["type"] for c in status.get("conditions") or () if c.get("status") == "True"}
    deleting = "deletionTimestamp" in obj["metadata"]
    word = next((word for kind, word in _JOB_WORDS if (kind in true if kind else deleting)), "Running")
    selector = selector_text(spec.get("selector"))
    return [name_of(obj), word, completions, took, born(obj, now), *containers_of(spec), selector]


def _cron_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    last = age(status["lastScheduleTime"], now) if status.get("lastScheduleTime") else NONE
    inner = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspended = "True" if spec.get("suspend") else "False"
    cells = [
        name_of(obj),
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        suspended,
        len(status.get("active") or ()),
        last,
    ]
    return [*cells, born(obj, now), *containers_of(inner), selector_text(inner.get("selector"))]


def _modes(modes: Any) -> str:
    return ",".join(_MODES[mode] for mode in _MODES if mode in (modes or ()))


def _phase(obj: Object) -> str:
    phase: str = (obj.get("status") or {}).get("phase", "")
    return "Terminating" if "deletionTimestamp" in obj["metadata"] else phase


def _claim_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    volume = spec.get("volumeName", "")
    size = (status.get("capacity") or {}).get("storage", "0") if volume else ""
    return [
        name_of(obj),
        _phase(obj),
        volume,
        size,
        _modes(status.get("accessModes")) if volume else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        born(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _volume_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    claim = spec.get("claimRef")
    return [
        name_of(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(obj),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        spec.get("storageClassName") or "",
        spec.get("volumeAttributesClassName") or "<unset>",
        status.get("reason", ""),
        born(obj, now),
        spec.get("volumeMode") or "<unset>",
    ]


def _quota_cells(obj: Object, now: instant.Instant) -> list[Any]:
    _, status = _parts(obj)
    hard, used = status.get("hard") or {}, status.get("used") or {}
    texts = {name: f"{name}: {used.get(name, '0')}/{amount}" for name, amount in sorted(hard.items())}
    limits = [text for name, text in texts.items() if name.startswith("limits.")]
    requests = [text for name, text in texts.items() if not name.startswith("limits.")]
    return [name_of(obj), ", ".join(requests), ", ".join(limits), born(obj, now)]


def _budget_cells(obj: Object, now: instant.Instant) -> list[Any]:
    spec, status = _parts(obj)
    least, most = spec.get("minAvailable", "N/A"), spec.get("maxUnavailable", "N/A")
    return [name_of(obj), str(least), str(most), status.get("disruptionsAllowed", 0), born(obj, now)]


def _priority_cells(obj: Object, now: instant.Instant) -> list[Any]:
    flag = bool(obj.get("globalDefault", False))
    return [name_of(obj), obj.get("value", 0), flag, born(obj, now), obj.get("preemptionPolicy", "")]


def _storage_class_cells(obj: Object, now: instant.Instant) -> list[Any]:
    notes = obj["metadata"].get("annotations") or {}
    name = name_of(obj)
    if notes.get("storageclass.kubernetes.io/is-default-class") == "true":
        name += " (default)"
    expands = bool(obj.get("allowVolumeExpansion", False))
    policy, mode = obj.get("reclaimPolicy", "Delete"), obj.get("volumeBindingMode", "Immediate")
    return [name, obj.get("provisioner", ""), policy, mode, expands, born(obj, now)]


def _binding_cells(obj: Object, now: instant.Instant) -> list[Any]:
    subjects = obj.get("subjects") or ()
    users = ", ".join(s["name"] for s in subjects if s.get("kind") == "User")
    groups = ", ".join(s["name"] for s in subjects if s.get("kind") == "Group")
    accounts = ", ".join(f"{s.get('namespace', '')}/{s['name']}" for s in subjects if s.get("kind") == "ServiceAccount")
    role = obj["roleRef"]
    return [name_of(obj), f"{role['kind']}/{role['name']}", born(obj, now), users, groups, accounts]


def _creation_cells(obj: Object, _: instant.Instant) -> list[Any]:
    return [name_of(obj), obj["metadata"].get("creationTimestamp", "")]


def _lease_cells(obj: Object, now: instant.Instant) -> list[Any]:
    return [name_of(obj), (obj.get("spec") or {}).get("holderIdentity", ""), born(obj, now)]


def _policy_cells(obj: Object, now: instant.Instant) -> list[Any]:
    return [name_of(obj), selector_text((obj.get("spec") or {}).get("podSelector")), born(obj, now)]


def _webhook_cells(obj: Object, now: instant.Instant) -> list[Any]:
    return [name_of(obj), len(obj.get("webhooks") or ()), born(obj, now)]


def _account_cells(obj: Object, now: instant.Instant) -> list[Any]:
    return [name_of(obj), born(obj, now)]


def _csi_node_cells(obj: Object, now: instant.Instant) -> list[Any]:
    return [name_of(obj), len((obj.get("spec") or {}).get("drivers") or ()), born(obj, now)]


def _slice_cells(obj: Object, now: instant.Instant) -> list[Any]:
    ports = ",".join(str(port.get("port", "")) for port in obj.get("ports") or ()) or "<unset>"
    found = [a for endpoint in obj.get("endpoints") or () for a in endpoint.get("addresses") or ()]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [name_of(obj), obj.get("addressType", ""), ports, shown or "<unset>", born(obj, now)]


_TEMPLATE = ("+Containers", "+Images", "+Selector")
_REPLICAS = Printer(("Name", "Desired", "Current", "Ready", "Age", *_TEMPLATE), _replica_cells)
_BINDING = Printer(("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts"), _binding_cells)
_CREATED = Printer(("Name", "Created At"), _creation_cells)
_WEBHOOKS = Printer(("Name", "Webhooks", "Age"), _webhook_cells)
_VOLUME = (
    "Capacity",
    "Access Modes",
    "Reclaim Policy",
    "Status",
    "Claim",
    "StorageClass",
    "VolumeAttributesClass",
    "Reason",
)
_CLAIM = ("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass")

PRINTERS: dict[str, Printer] = {
    "replicationcontrollers": _REPLICAS,
    "replicasets.apps": _REPLICAS,
    "deployments.apps": Printer(("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE), _deployment_cells),
    "statefulsets.apps": Printer(("Name", "Ready", "Age", "+Containers", "+Images"), _stateful_cells),
    "daemonsets.apps": Printer(
        ("Name", "Desired", "Current", "Ready", "Up-to-date", "Available", "Node Selector", "Age", *_TEMPLATE),
        _daemon_cells,
    ),
    "jobs.batch": Printer(("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE), _job_cells),
    "cronjobs.batch": Printer(
        ("Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule", "Age", *_TEMPLATE), _cron_cells
    ),
    "persistentvolumeclaims": Printer(("Name", *_CLAIM, "Age", "+VolumeMode"), _claim_cells),
    "persistentvolumes": Printer(("Name", *_VOLUME, "Age", "+VolumeMode"), _volume_cells),
    "resourcequotas": Printer(("Name", "Request", "Limit", "Age"), _quota_cells),
    "serviceaccounts": Printer(("Name", "Age"), _account_cells),
    "poddisruptionbudgets.policy": Printer(
        ("Name", "Min Available", "Max Unavailable", "Allowed Disruptions", "Age"), _budget_cells
    ),
    "priorityclasses.scheduling.k8s.io": Printer(
        ("Name", "Value", "Global-Default", "Age", "PreemptionPolicy"), _priority_cells
    ),
    "storageclasses.storage.k8s.io": Printer(
        ("Name", "Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion", "Age"),
        _storage_class_cells,
    ),
    "csinodes.storage.k8s.io": Printer(("Name", "Drivers", "Age"), _csi_node_cells),
    "leases.coordination.k8s.io": Printer(("Name", "Holder", "Age"), _lease_cells),
    "networkpolicies.networking.k8s.io": Printer(("Name", "Pod-Selector", "Age"), _policy_cells),
    "endpointslices.discovery.k8s.io": Printer(("Name", "AddressType", "Ports", "Endpoints", "Age"), _slice_cells),
    "roles.rbac.authorization.k8s.io": _CREATED,
    "clusterroles.rbac.authorization.k8s.io": _CREATED,
    "rolebindings.rbac.authorization.k8s.io": _BINDING,
    "clusterrolebindings.rbac.authorization.k8s.io": _BINDING,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "customresourcedefinitions.apiextensions.k8s.io": _CREATED,
}
