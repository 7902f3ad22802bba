"""Requests of AdmissionReviews as literals."""

from typing import Any

from tests.cases import admission

Json = dict[str, Any]
NAMESPACE = admission.NAMESPACE
CONTROLLERS = "system:serviceaccount:pumice-system:pumice-controllers"


def request(
    subject: Json | None,
    *,
    user: str = "alice",
    groups: tuple[str, ...] = ("blue", "system:authenticated"),
    old: Json | None = None,
    operation: str = "",
) -> Json:
    whole = subject or old or {}
    group, _, version = whole["apiVersion"].rpartition("/")
    return {
        "uid": "1",
        "kind": {"group": group, "version": version, "kind": whole["kind"]},
        "operation": operation or ("CREATE" if old is None else "UPDATE" if subject is not None else "DELETE"),
        "namespace": NAMESPACE,
        "userInfo": {"username": user, "groups": list(groups)},
        "object": subject,
        "oldObject": old,
    }


def marked(subject: Json, **annotations: str) -> Json:
    metadata = subject["metadata"]
    return {**subject, "metadata": {**metadata, "annotations": {**metadata.get("annotations", {}), **annotations}}}


def pod(scheduler: str = "volcano", **annotations: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulerName": scheduler, "containers": [{"name": "main", "image": "x"}]},
    }


def command(kind: str = "Queue", name: str = "research") -> Json:
    version = "scheduling.volcano.sh/v1beta1" if kind == "Queue" else "batch.volcano.sh/v1alpha1"
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"name": "c", "namespace": NAMESPACE},
        "action": "CloseQueue",
        "target": {"apiVersion": version, "kind": kind, "name": name, "uid": "1"},
    }


def native_group(**annotations: str) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "n", "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
    }


def group(queue: str = "q", **annotations: str) -> Json:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": NAMESPACE, "annotations": annotations},
        "spec": {"queue": queue, "minMember": 1},
    }
