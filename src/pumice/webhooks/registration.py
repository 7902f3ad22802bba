"""The webhook configurations, made here and nowhere else: `pumice webhooks manifests` prints them, and the chart is held to them.

They cannot take a cluster down. Only our own kinds fail closed. Pods are asked about only if our scheduler serves them, and
fail open: what a missed review would have filled in, the controllers fill in. Neither kube-system nor our own namespace is
ever asked about, so that what is needed to bring the webhooks back can always be created.
"""

from __future__ import annotations

import base64
import enum
import json
from typing import TYPE_CHECKING, Final

from pumice.api import names
from pumice.api.scheduling import SCHEDULER_NAMES
from pumice.values import Value
from pumice.webhooks.reviews import CLUSTER_WIDE, NATIVE_GROUP, PATHS, Path
from pumice.webhooks.submitters import RECORD
from pumice.webhooks.target_queues import LEADING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pumice.api.defaults import ResourceGroup
    from pumice.api.meta import Json


TIMEOUT_S: Final = 5
API_VERSION: Final = "admissionregistration.k8s.io/v1"
DOMAIN: Final = "pumice.dev"
CONFIGURATION: Final = "pumice-webhooks"  # the name of both configurations, unless told otherwise
_SYSTEM_NAMESPACE: Final = "kube-system"
_VERSIONS: Final = {
    "batch.volcano.sh": "v1alpha1",
    "bus.volcano.sh": "v1alpha1",
    "flow.volcano.sh": "v1alpha1",
    "scheduling.volcano.sh": "v1beta1",
    "topology.volcano.sh": "v1alpha1",
    NATIVE_GROUP: "*",
    "": "v1",
}


class AccessMode(enum.StrEnum):
    """What happens to submissions to queues that the submitter may not use."""

    OFF = "off"
    WARN = "warn"
    ENFORCE = "enforce"


class Registration(Value, kw_only=True):
    """Which service an API server asks, and about what."""

    namespace: str
    service: str = CONFIGURATION
    configuration: str = CONFIGURATION
    url: str = ""  # instead of a Service: https://host:port
    ca: bytes = b""
    scheduler_names: tuple[str, ...] = SCHEDULER_NAMES
    access: AccessMode = AccessMode.OFF
    controllers: tuple[str, ...] = ()  # user names of our controllers
    groups: tuple[ResourceGroup, ...] = ()

    def manifests(self) -> list[Json]:
        """Both configurations."""
        return [
            self._configuration("MutatingWebhookConfiguration", mutates=True),
            self._configuration("ValidatingWebhookConfiguration", mutates=False),
        ]

    def _configuration(self, kind: str, *, mutates: bool) -> Json:
        hooks = [hook for path in PATHS if path.mutates == mutates for hook in self._hooks(path)]
        metadata = {"name": self.configuration, "labels": {"app.kubernetes.io/part-of": "pumice"}}
        return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "webhooks": hooks}

    # ------------------------------------------------------------------------------------------------- one path each

    def _hooks(self, path: Path) -> list[Json]:
        if path.records and self.access == AccessMode.OFF and not path.operations:
            return []  # only there to record submitters
        match path.collection:
            case "pods":
                return self._pod_hooks(path)
            case "podgroups.scheduling.volcano.sh":
                return self._group_hooks(path)
            case "podgroups.scheduling.k8s.io":
                conditions = [{"name": "led-to-a-queue", "expression": LED_TO_A_QUEUE}]
                operations = self._operations(path)
                return [self._hook(path, operations, fails_closed=True, conditions=conditions, prefix="guard.")]
            case "commands.bus.volcano.sh":
                conditions = [{"name": "for-a-queue", "expression": FOR_A_QUEUE}]
                return [self._hook(path, self._operations(path), fails_closed=True, conditions=conditions)]
        return [self._hook(path, self._operations(path), fails_closed=True)]

    def _operations(self, path: Path) -> frozenset[str]:
        records = path.records and self.access != AccessMode.OFF
        return path.operations | {"CREATE", "UPDATE"} if records else path.operations

    def _group_hooks(self, path: Path) -> list[Json]:
        """Our controllers' groups wait for the webhooks only where users' rights to queues are enforced."""
        ours = f"request.userInfo.username in {texts(self.controllers)}"
        others = {"name": "not-by-our-controllers", "expression": f"!({ours})"}
        by_ours = {"name": "by-our-controllers", "expression": ours}
        operations = self._operations(path)
        conditions = [others, *_news(operations, _SPEC_CHANGED)]
        hooks = [self._hook(path, operations, fails_closed=True, conditions=conditions)]
        if self.controllers:
            closed = self.access == AccessMode.ENFORCE
            conditions = [by_ours, *_news(operations, _QUEUE_CHANGED)]
            hooks.append(
                self._hook(path, operations, fails_closed=closed, conditions=conditions, prefix="controllers.")
            )
        return hooks

    def _pod_hooks(self, path: Path) -> list[Json]:
        ours = f"has(object.spec.schedulerName) && object.spec.schedulerName in {texts(self.scheduler_names)}"
        wanted = [ours, *(_takes(group) for group in self.groups)] if path.mutates else [ours]
        conditions = [{"name": "our-scheduler", "expression": _any(*wanted)}]
        hooks = [self._hook(path, path.operations, fails_closed=False, conditions=conditions)]
        if path.mutates or self.access == AccessMode.OFF:
            return hooks
        # Pods that carry a record which is not their maker's, and pods of ours that a user moves to another queue: nothing needs
        # either to run anything, so that even without us there are none.
        guarded = {
            "name": "forged-or-moved",
            "expression": _any(forged_record_rule(self.controllers), _changes_queue(ours, self.controllers)),
        }
        operations = frozenset({"CREATE", "UPDATE"})
        return [*hooks, self._hook(path, operations, fails_closed=True, conditions=[guarded], prefix="guard.")]

    def _hook(
        self,
        path: Path,
        operations: frozenset[str],
        *,
        fails_closed: bool,
        conditions: Sequence[Json] = (),
        prefix: str = "",
    ) -> Json:
        plural = path.collection.partition(".")[0]
        hook: Json = {
            "name": f"{prefix}{path.path.rpartition('/')[2]}.{plural}.{DOMAIN}",
            "admissionReviewVersions": ["v1"],
            "clientConfig": self._client_config(path),
            "rules": [resource_rule(path.collection, operations)],
            "failurePolicy": "Fail" if fails_closed else "Ignore",
            "matchPolicy": "Equivalent",
            "sideEffects": "None",
            "timeoutSeconds": TIMEOUT_S,
        }
        if path.mutates:
            hook["reinvocationPolicy"] = "Never"
        if not path.is_cluster_wide:
            hook["namespaceSelector"] = excluded_namespaces(self.namespace)
        if conditions:
            hook["matchConditions"] = list(conditions)
        return hook

    def _client_config(self, path: Path) -> Json:
        if self.url:
            config: Json = {"url": f"{self.url}{path.path}"}
        else:
            config = {"service": {"name": self.service, "namespace": self.namespace, "path": path.path, "port": 443}}
        if self.ca:
            config["caBundle"] = base64.b64encode(self.ca).decode()
        return config


def resource_rule(collection: str, operations: Collection[str]) -> Json:
    """What an API server is to ask about."""
    plural, _, group = collection.partition(".")
    return {
        "apiGroups": [group],
        "apiVersions": [_VERSIONS[group]],
        "operations": sorted(operations),
        "resources": [plural],
        "scope": "Cluster" if plural in CLUSTER_WIDE else "Namespaced",
    }


def excluded_namespaces(own: str) -> Json:
    """All namespaces but those in which whatever brings us back must never wait for us."""
    values = [_SYSTEM_NAMESPACE, own]
    return {"matchExpressions": [{"key": names.NAMESPACE_NAME, "operator": "NotIn", "values": values}]}


# ------------------------------------------------------------------------------------------------------------ CEL


def texts(values: Sequence[str]) -> str:
    """A list of texts in CEL."""
    return json.dumps(list(values))


def _any(*expressions: str) -> str:
    return " || ".join(f"({each})" for each in expressions)


def annotation(variable: str, key: str) -> str:
    """The value of an annotation in CEL; an empty text where there is none."""
    where = f"{variable}.metadata.annotations"
    return f"(has({where}) && {json.dumps(key)} in {where} ? {where}[{json.dumps(key)}] : '')"


# Our controllers open and close queues for all users who may write Commands, in whichever namespace.
FOR_A_QUEUE: Final = "has(object.target) && has(object.target.kind) && object.target.kind == 'Queue'"

# Kubernetes' own PodGroups are none of ours, but for those that an annotation puts into a queue.
LED_TO_A_QUEUE: Final = (
    f"{annotation('object', names.QUEUE_NAME)} != '' && (request.operation == 'CREATE' || "
    f"{annotation('object', names.QUEUE_NAME)} != {annotation('oldObject', names.QUEUE_NAME)})"
)


def _queue(variable: str) -> str:
    return f"(has({variable}.spec) && has({variable}.spec.queue) ? {variable}.spec.queue : '')"


def _news(operations: Collection[str], changed: str) -> list[Json]:
    """PodGroups have no status subresource: most updates only write status, and need no review."""
    if "UPDATE" not in operations:
        return []
    return [{"name": "new-wish", "expression": _any("request.operation != 'UPDATE'", changed, _RECORD_CHANGED)}]


def change_of(field: str) -> str:
    """True where a field that may be absent is not what it was."""
    new, old = f"object.{field}", f"oldObject.{field}"
    return f"has({new}) != has({old}) || (has({new}) && {new} != {old})"


_SPEC_CHANGED: Final = change_of("spec")
_QUEUE_CHANGED: Final = f"{_queue('object')} != {_queue('oldObject')}"
_RECORD_CHANGED: Final = _any(*(f"{annotation('object', key)} != {annotation('oldObject', key)}" for key in RECORD))


def forged_record_rule(controllers: Sequence[str]) -> str:
    """True where a record was not written by admission for the sender of the request, nor by our controllers."""
    user, groups = (annotation("object", key) for key in RECORD)
    maker = "request.userInfo.username"
    line = "(has(request.userInfo.groups) ? request.userInfo.groups.join('\\n') : '')"
    created = f"({user} != '' && {user} != {maker}) || ({groups} != '' && {groups} != {line})"
    changed = f"request.operation == 'UPDATE' ? ({_RECORD_CHANGED}) : ({created})"
    return f"!({maker} in {texts(controllers)}) && ({changed})"


def _changes_queue(ours: str, controllers: Sequence[str]) -> str:
    """True where a user other than our controllers changes which queue a pod of ours goes to."""
    led = _any(*(f"{annotation('object', key)} != {annotation('oldObject', key)}" for key in LEADING))
    adopted = f"size({_controller('object')}) > 0 && {_controller('object')} != {_controller('oldObject')}"
    others = f"!(request.userInfo.username in {texts(controllers)})"
    return f"request.operation == 'UPDATE' && {ours} && {others} && ({_any(led, adopted)})"


def _controller(variable: str) -> str:
    """The uid of the owner whose pods share a group, as a list of at most one."""
    where = f"{variable}.metadata.ownerReferences"
    return f"(has({where}) ? {where}.filter(o, has(o.controller) && o.controller).map(o, o.uid) : [])"


def _takes(group: ResourceGroup) -> str:
    """The pods that a resource group takes."""
    match group.object.key:
        case "namespace":
            return f"request.namespace in {texts(group.object.value)}"
        case "annotation":
            pairs = (entry.partition(":") for entry in group.object.value)
            each = (f"{annotation('object', key.strip())} == {json.dumps(value.strip())}" for key, _, value in pairs)
            return _any(*each) if group.object.value else "false"
    return f"{annotation('object', names.RESOURCE_GROUP)} == {json.dumps(group.resource_group)}"
