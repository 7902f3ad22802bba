"""What is special about a built-in kind: its defaults, its fresh status, its checks, whether it counts generations."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pumice import selectors
from pumice.local.apiserver import crds, disruption, pods, quantities
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.violations import Cause

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _nothing(_: Object) -> None:
    return None


def _no_checks(_: Object, __: Object | None) -> list[Cause]:
    return []


class Behaviour(Value):
    """The hooks of one kind. `status` gives the status of a new object; None leaves what the creator wrote."""

    default: Callable[[Object], None] = _nothing
    status: Callable[[Object], dict[str, Any] | None] | None = None
    check: Callable[[Object, Object | None], list[Cause]] = _no_checks
    counts_generations: bool = False
    keeps_given_status: bool = False
    created_by_update: bool = False


def _pod_checks(pod: Object, old: Object | None) -> list[Cause]:
    return pods.check_spec(pod["spec"]) if old is None else pods.check_update(pod, old)


def _default_namespace(namespace: Object) -> None:
    namespace.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
    labels = namespace["metadata"].setdefault("labels", {})
    if namespace["metadata"].get("name"):
        labels["kubernetes.io/metadata.name"] = namespace["metadata"]["name"]


def _default_service(service: Object) -> None:
    spec = service.setdefault("spec", {})
    spec.setdefault("sessionAffinity", "None")
    spec.setdefault("type", "ClusterIP")
    if spec["type"] != "ExternalName":
        spec.setdefault("internalTrafficPolicy", "Cluster")
        spec.setdefault("ipFamilies", ["IPv4"])
        spec.setdefault("ipFamilyPolicy", "SingleStack")
        if spec.get("clusterIP"):
            spec.setdefault("clusterIPs", [spec["clusterIP"]])
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def _check_service(service: Object, _: Object | None) -> list[Cause]:
    spec = service["spec"]
    headless = spec.get("clusterIP") == "None" or spec.get("type") == "ExternalName"
    if not spec.get("ports") and not headless:
        return [("spec.ports", "FieldValueRequired", "Required value")]
    return []


def _template_defaults(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    _default_nested(spec)


def _default_nested(spec: dict[str, Any]) -> None:
    template = spec.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        if isinstance(template.get("spec"), dict):
            pods.default_template(template["spec"])


def _default_deployment(obj: Object) -> None:
    _template_defaults(obj)
    spec = obj["spec"]
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _check_workload(obj: Object, _: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    causes = pods.check_spec(template.get("spec") or {}, "spec.template.spec")
    wanted = (spec.get("selector") or {}).get("matchLabels") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if wanted and any(labels.get(key) != value for key, value in wanted.items()):
        text = "Invalid value: `selector` does not match template `labels`"
        causes.append(("spec.template.metadata.labels", "FieldValueInvalid", text))
    return causes


def _default_job(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    for key, value in (("backoffLimit", 6), ("completionMode", "NonIndexed"), ("suspend", False)):
        spec.setdefault(key, value)
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed")
    spec.setdefault("manualSelector", False)
    _default_nested(spec)


def _check_job(obj: Object, _: Object | None) -> list[Cause]:
    spec = obj["spec"].get("template", {}).get("spec") or {}
    if spec.get("restartPolicy") not in {"Never", "OnFailure"}:
        given = spec.get("restartPolicy", "")
        text = (
            'Required value: valid values: "OnFailure", "Never"'
            if not given
            else (f'Unsupported value: "{given}": supported values: "OnFailure", "Never"')
        )
        reason = "FieldValueNotSupported" if given else "FieldValueRequired"
        return [("spec.template.spec.restartPolicy", reason, text)]
    return pods.check_spec(spec, "spec.template.spec")


def _check_template(obj: Object, _: Object | None) -> list[Cause]:
    return pods.check_spec((obj.get("template") or {}).get("spec") or {}, "template.spec")


def _default_quota(obj: Object) -> None:
    obj.setdefault("spec", {})


def _default_priority_class(obj: Object) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _check_priority_class(obj: Object, old: Object | None) -> list[Cause]:
    value = obj.get("value", 0)
    if old is not None and value != old.get("value", 0):
        return [("value", "FieldValueForbidden", "Forbidden: may not be changed in an update.")]
    if value > 1_000_000_000 and not obj["metadata"]["name"].startswith("system-"):
        text = "Forbidden: maximum allowed value of a user defined priority is 1000000000"
        return [("value", "FieldValueForbidden", text)]
    return []


def _default_node(node: Object) -> None:
    node.setdefault("spec", {})
    status = node.get("status")
    if status and status.get("capacity") and "allocatable" not in status:
        status["allocatable"] = dict(status["capacity"])
    elif status and "allocatable" in status:
        for name, amount in (status.get("capacity") or {}).items():
            status["allocatable"].setdefault(name, amount)


def _check_node(node: Object, _: Object | None) -> list[Cause]:
    status = node.get("status") or {}
    causes = [
        cause
        for part in ("capacity", "allocatable")
        for cause in quantities.causes_of(status.get(part) or {}, f"status.{part}")
    ]
    for index, taint in enumerate((node.get("spec") or {}).get("taints") or ()):
        key, effect = taint.get("key", ""), taint.get("effect", "")
        if problem := selectors.label_key_problem(key):
            causes.append((f"spec.taints[{index}].key", "FieldValueInvalid", f'Invalid value: "{key}": {problem}'))
        if effect not in _EFFECTS:
            supported = ", ".join(f'"{each}"' for each in _EFFECTS)
            text = f'Unsupported value: "{effect}": supported values: {supported}'
            causes.append((f"spec.taints[{index}].effect", "FieldValueNotSupported", text))
    return causes


def _default_secret(secret: Object) -> None:
    secret.setdefault("type", "Opaque")
    written = secret.pop("stringData", None)
    if written:
        data = secret.setdefault("data", {})
        for key, text in written.items():
            data[key] = base64.b64encode(text.encode()).decode()


def _check_frozen(obj: Object, old: Object | None) -> list[Cause]:
    """ConfigMaps and Secrets that were declared immutable stay as they are."""
    if old is None or not old.get("immutable"):
        return []
    if any(obj.get(key) != old.get(key) for key in ("data", "binaryData", "immutable")):
        return [("data", "FieldValueForbidden", "Forbidden: field is immutable when `immutable` is set")]
    return []


def _default_claim(claim: Object) -> None:
    claim.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")


def _default_volume(volume: Object) -> None:
    spec = volume.setdefault("spec", {})
    spec.setdefault("volumeMode", "Filesystem")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")


def _default_storage_class(obj: Object) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def _default_binding(obj: Object) -> None:
    obj["roleRef"].setdefault("apiGroup", "rbac.authorization.k8s.io")
    for subject in obj.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"}:
            subject.setdefault("apiGroup", "rbac.authorization.k8s.io")


def _check_binding(obj: Object, old: Object | None) -> list[Cause]:
    if old is not None and obj["roleRef"] != old["roleRef"]:
        return [("roleRef", "FieldValueInvalid", f"Invalid value: {obj['roleRef']}: cannot change roleRef")]
    return []


def _default_webhooks(obj: Object) -> None:
    for webhook in obj.get("webhooks") or ():
        webhook.setdefault("failurePolicy", "Fail")
        webhook.setdefault("matchPolicy", "Equivalent")
        webhook.setdefault("namespaceSelector", {})
        webhook.setdefault("objectSelector", {})
        webhook.setdefault("timeoutSeconds", 10)
        if obj["kind"].startswith("Mutating"):
            webhook.setdefault("reinvocationPolicy", "Never")
        for rule in webhook.get("rules") or ():
            rule.setdefault("scope", "*")
        if service := (webhook.get("clientConfig") or {}).get("service"):
            service.setdefault("port", 443)


def _check_definition(obj: Object, _: Object | None) -> list[Cause]:
    return crds.validate(obj)


def _definition_status(crd: Object) -> dict[str, Any]:
    """Established at once: no other server could take the names in between."""
    crd["metadata"].setdefault("finalizers", []).append(crds.CLEANUP)
    return crds.accepted_status(crd, crd["metadata"]["creationTimestamp"])


def _check_lease(obj: Object, _: Object | None) -> list[Cause]:
    seconds = (obj.get("spec") or {}).get("leaseDurationSeconds")
    if seconds is not None and seconds <= 0:
        return [("spec.leaseDurationSeconds", "FieldValueInvalid", f"Invalid value: {seconds}: must be greater than 0")]
    return []


def _check_quota(obj: Object, _: Object | None) -> list[Cause]:
    return quantities.causes_of((obj.get("spec") or {}).get("hard") or {}, "spec.hard")


def _check_budget(obj: Object, _: Object | None) -> list[Cause]:
    spec = obj.get("spec") or {}
    return [*disruption.number_causes(spec), *_selector_causes(spec.get("selector"), "spec.selector")]


def _check_webhooks(obj: Object, _: Object | None) -> list[Cause]:
    return [
        cause
        for index, webhook in enumerate(obj.get("webhooks") or ())
        for field in ("namespaceSelector", "objectSelector")
        for cause in _selector_causes(webhook.get(field), f"webhooks[{index}].{field}")
    ]


def _check_cluster_role(obj: Object, _: Object | None) -> list[Cause]:
    where = "aggregationRule.clusterRoleSelectors"
    chosen = (obj.get("aggregationRule") or {}).get("clusterRoleSelectors") or ()
    return [cause for index, each in enumerate(chosen) for cause in _selector_causes(each, f"{where}[{index}]")]


def _selector_causes(selector: Any, where: str) -> list[Cause]:
    """Refused when it is written: this server reads it later, where nobody could be told."""
    try:
        selectors.label_selector(selector)
    except selectors.SelectorError as error:
        return [(where, "FieldValueInvalid", f"Invalid value: {error}")]
    return []


def _empty(_: Object) -> dict[str, Any]:
    return {}


_NO_DISRUPTIONS = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}
_WORKLOAD = Behaviour(_template_defaults, _empty, _check_workload, counts_generations=True)
_WEBHOOKS = Behaviour(_default_webhooks, check=_check_webhooks, counts_generations=True)

_TABLE: dict[str, Behaviour] = {
    "pods": Behaviour(
        pods.default_pod, lambda pod: pods.initial_status(pod["spec"]), _pod_checks, counts_generations=True
    ),
    "namespaces": Behaviour(_default_namespace, lambda _: {"phase": "Active"}),
    "nodes": Behaviour(_default_node, check=_check_node, keeps_given_status=True),
    "services": Behaviour(_default_service, lambda _: {"loadBalancer": {}}, _check_service),
    "secrets": Behaviour(_default_secret, check=_check_frozen),
    "configmaps": Behaviour(check=_check_frozen),
    "resourcequotas": Behaviour(_default_quota, _empty, _check_quota),
    "persistentvolumeclaims": Behaviour(_default_claim, lambda _: {"phase": "Pending"}),
    "persistentvolumes": Behaviour(_default_volume, lambda _: {"phase": "Available"}),
    "podtemplates": Behaviour(_default_nested, check=_check_template, counts_generations=True),
    "replicationcontrollers": Behaviour(_template_defaults, lambda _: {"replicas": 0}, counts_generations=True),
    "events": Behaviour(created_by_update=True),
    "endpoints": Behaviour(created_by_update=True),
    "deployments.apps": Behaviour(_default_deployment, _empty, _check_workload, counts_generations=True),
    "replicasets.apps": Behaviour(
        _template_defaults, lambda _: {"replicas": 0}, _check_workload, counts_generations=True
    ),
    "statefulsets.apps": _WORKLOAD,
    "daemonsets.apps": Behaviour(
        lambda obj: _default_nested(obj.setdefault("spec", {})), _empty, _check_workload, counts_generations=True
    ),
    "jobs.batch": Behaviour(_default_job, _empty, _check_job, counts_generations=True),
    "cronjobs.batch": Behaviour(status=_empty, counts_generations=True),
    "poddisruptionbudgets.policy": Behaviour(
        status=lambda _: _NO_DISRUPTIONS.copy(), check=_check_budget, counts_generations=True
    ),
    "networkpolicies.networking.k8s.io": Behaviour(counts_generations=True),
    "ingresses.networking.k8s.io": Behaviour(status=lambda _: {"loadBalancer": {}}, counts_generations=True),
    "priorityclasses.scheduling.k8s.io": Behaviour(
        _default_priority_class, check=_check_priority_class, counts_generations=True
    ),
    "storageclasses.storage.k8s.io": Behaviour(_default_storage_class),
    "leases.coordination.k8s.io": Behaviour(check=_check_lease, created_by_update=True),
    "roles.rbac.authorization.k8s.io": Behaviour(created_by_update=True),
    "clusterroles.rbac.authorization.k8s.io": Behaviour(check=_check_cluster_role, created_by_update=True),
    "rolebindings.rbac.authorization.k8s.io": Behaviour(_default_binding, check=_check_binding, created_by_update=True),
    "clusterrolebindings.rbac.authorization.k8s.io": Behaviour(
        _default_binding, check=_check_binding, created_by_update=True
    ),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _WEBHOOKS,
    crds.COLLECTION: Behaviour(crds.default, _definition_status, _check_definition, counts_generations=True),
}
_PLAIN = Behaviour()


def behaviour_of(collection: str) -> Behaviour:
    return _TABLE.get(collection, _PLAIN)
