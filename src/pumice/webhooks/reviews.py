"""One function for both ways: an AdmissionReview's request in, its response out; a webhook and the embedded server call the same."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from pumice.api import defaults, validation
from pumice.api.validation import Operation, Request, Settings
from pumice.api.validation.limits import excess
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.api.defaults import ResourceGroup
    from pumice.api.meta import Json
    from pumice.api.validation import Lookup


WARNING_CHARS_MAX = 256  # API servers cut what is longer
WARNINGS_MAX = 8
REFUSED = 403
UNAVAILABLE = 503
NATIVE_GROUP = "scheduling.k8s.io"  # of Kubernetes' own PodGroups: we have no rules for them, but their queue is ours
CLUSTER_WIDE = frozenset({"queues", "hypernodes"})


class PodRules(Value):
    """What the operator lays down for pods."""

    groups: tuple[ResourceGroup, ...] = ()
    queue_gate: bool = False


class Path(Value):
    """One review: Volcano's URL path, the collection and operations that it is about, and whether it changes the object."""

    path: str
    collection: str
    operations: frozenset[str]
    mutates: bool
    records: bool = False  # the object says who submitted it, where queue access is checked

    @property
    def is_cluster_wide(self) -> bool:
        return self.collection.partition(".")[0] in CLUSTER_WIDE


_NONE: frozenset[str] = frozenset()
_CREATE = frozenset({"CREATE"})
_CREATE_UPDATE = frozenset({"CREATE", "UPDATE"})
_ALL = frozenset({"CREATE", "UPDATE", "DELETE"})

PATHS: tuple[Path, ...] = (
    Path("/jobs/mutate", "jobs.batch.volcano.sh", _CREATE_UPDATE, mutates=True, records=True),
    Path("/jobs/validate", "jobs.batch.volcano.sh", _CREATE_UPDATE, mutates=False, records=True),
    Path("/podgroups/mutate", "podgroups.scheduling.volcano.sh", _CREATE, mutates=True, records=True),
    Path("/podgroups/validate", "podgroups.scheduling.volcano.sh", _CREATE, mutates=False, records=True),
    Path("/native-podgroups/validate", "podgroups.scheduling.k8s.io", _NONE, mutates=False, records=True),
    Path("/pods/mutate", "pods", _CREATE, mutates=True, records=True),
    Path("/pods/validate", "pods", _CREATE, mutates=False, records=True),
    Path("/queues/mutate", "queues.scheduling.volcano.sh", _CREATE_UPDATE, mutates=True),
    Path("/queues/validate", "queues.scheduling.volcano.sh", _ALL, mutates=False),
    Path("/jobtemplates/validate", "jobtemplates.flow.volcano.sh", _NONE, mutates=False, records=True),
    Path("/jobflows/mutate", "jobflows.flow.volcano.sh", _NONE, mutates=True, records=True),
    Path("/jobflows/validate", "jobflows.flow.volcano.sh", _CREATE_UPDATE, mutates=False, records=True),
    Path("/cronjobs/mutate", "cronjobs.batch.volcano.sh", _NONE, mutates=True, records=True),
    Path("/cronjobs/validate", "cronjobs.batch.volcano.sh", _CREATE_UPDATE, mutates=False, records=True),
    Path("/commands/validate", "commands.bus.volcano.sh", _NONE, mutates=False, records=True),
    Path("/hypernodes/validate", "hypernodes.topology.volcano.sh", _CREATE_UPDATE, mutates=False),
)


class Reviewer:
    """Answers reviews; what an object refers to is asked of the look-up, what the operator lays down for pods of `pod_rules`."""

    def __init__(
        self, lookup: Lookup, settings: Settings | None = None, pod_rules: Callable[[], PodRules] = PodRules
    ) -> None:
        self._lookup = lookup
        self._settings = settings or Settings()
        self._pod_rules = pod_rules

    def answer(self, path: Path) -> Callable[[Json], Json]:
        """The function behind one path."""
        return self.mutate if path.mutates else self.validate

    def mutate(self, request: Json) -> Json:
        patch, warnings = self.patch(request)
        return allow_response(request, warnings, patch)

    def patch(self, request: Json) -> tuple[list[Json], list[str]]:
        """What an object lacks, and what to tell its sender."""
        new, namespace = request.get("object") or {}, request.get("namespace", "")
        if excess(new):
            return [], []  # it is refused afterwards
        if request["operation"] == Operation.UPDATE:
            return _update_patch(request["kind"]["kind"], new, request.get("oldObject") or {}), []
        if request["operation"] != Operation.CREATE:
            return [], []
        match request["kind"]["kind"]:
            case "Job":
                warnings = [f"{path}: {text}" for path, text in defaults.job_warnings(new)]
                return defaults.job_patch(new, scheduler_name=self._settings.scheduler_names[0]), warnings
            case "PodGroup":
                return defaults.pod_group_patch(new, self._lookup.namespace_annotations(namespace)), []
            case "Queue":
                return defaults.queue_patch(new), []
            case "Pod":
                rules = self._pod_rules()
                patch = defaults.pod_patch(new, namespace=namespace, groups=rules.groups, queue_gate=rules.queue_gate)
                return patch, []
        return [], []

    def validate(self, request: Json) -> Json:
        if request["operation"] not in _ALL:
            return refuse_response(request, f"{request['operation']}: expected one of {', '.join(sorted(_ALL))}")
        if problem := excess(request.get("object") or {}):
            is_old = _spec(request.get("object")) == _spec(request.get("oldObject"))
            # It may have been made before there was a limit.
            return allow_response(request) if is_old else refuse_response(request, problem)
        question = Request(
            Operation(request["operation"]),
            new=request.get("object"),
            old=request.get("oldObject"),
            lookup=self._lookup,
            settings=self._settings,
        )
        is_native = request["kind"].get("group") == NATIVE_GROUP
        findings = validation.Findings() if is_native else validation.review(request["kind"]["kind"], question)
        if findings.errors:
            return refuse_response(request, validation.message(findings.errors), findings.warnings)
        return allow_response(request, findings.warnings)


def _update_patch(kind: str, new: Json, old: Json) -> list[Json]:
    """A client that applies a manifest again does not write what admission had filled in."""
    match kind:
        case "Job":
            return defaults.job_update_patch(new, old)
        case "Queue":
            return defaults.queue_patch(new)
    return []


def _spec(subject: Json | None) -> Any:
    return (subject or {}).get("spec")


def allow_response(request: Json, warnings: Sequence[str] = (), patch: Sequence[Json] = ()) -> Json:
    """The answer that lets an object pass, changed by a patch or as it is."""
    response: Json = {"uid": request.get("uid", ""), "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
    if warnings:
        response["warnings"] = [text[:WARNING_CHARS_MAX] for text in warnings[:WARNINGS_MAX]]
    return response


def refuse_response(request: Json, message: str, warnings: Sequence[str] = (), *, code: int = REFUSED) -> Json:
    """The answer that says no, and why."""
    reason = "Forbidden" if code == REFUSED else "ServiceUnavailable"
    status = {"code": code, "reason": reason, "message": message}
    return allow_response(request, warnings) | {"allowed": False, "status": status}
