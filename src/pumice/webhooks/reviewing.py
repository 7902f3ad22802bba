"""One function for both ways: an AdmissionReview's request in, its response out; a webhook and the embedded server call the same."""

from __future__ import annotations

import base64
import dataclasses
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pumice.api import defaults, validation
from pumice.api.validation import Operation, Request, Settings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.api.validation import Lookup

Json: TypeAlias = dict[str, Any]

WARNING_CHARS_MAX = 256  # API servers cut what is longer
WARNINGS_MAX = 8
REFUSED = 403


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """One review: Volcano's URL path, the collection and operations that it is about, and whether it changes the object."""

    path: str
    collection: str
    operations: frozenset[str]
    mutates: bool


_CREATE = frozenset({"CREATE"})
_CREATE_UPDATE = frozenset({"CREATE", "UPDATE"})
_ALL = frozenset({"CREATE", "UPDATE", "DELETE"})

PATHS: tuple[Path, ...] = (
    Path("/jobs/mutate", "jobs.batch.volcano.sh", _CREATE, mutates=True),
    Path("/jobs/validate", "jobs.batch.volcano.sh", _CREATE_UPDATE, mutates=False),
    Path("/podgroups/mutate", "podgroups.scheduling.volcano.sh", _CREATE, mutates=True),
    Path("/podgroups/validate", "podgroups.scheduling.volcano.sh", _CREATE, mutates=False),
    Path("/queues/mutate", "queues.scheduling.volcano.sh", _CREATE, mutates=True),
    Path("/queues/validate", "queues.scheduling.volcano.sh", _ALL, mutates=False),
    Path("/jobflows/validate", "jobflows.flow.volcano.sh", _CREATE_UPDATE, mutates=False),
    Path("/cronjobs/validate", "cronjobs.batch.volcano.sh", _CREATE_UPDATE, mutates=False),
    Path("/hypernodes/validate", "hypernodes.topology.volcano.sh", _CREATE_UPDATE, mutates=False),
)


class Reviewer:
    """Answers reviews; what an object refers to is asked of the look-up."""

    def __init__(self, lookup: Lookup, settings: Settings | None = None) -> None:
        self._lookup = lookup
        self._settings = settings or Settings(scheduler_names=("volcano", "pumice"))

    def answer(self, path: Path) -> Callable[[Json], Json]:
        """The function behind one path."""
        return self.mutate if path.mutates else self.validate

    def mutate(self, request: Json) -> Json:
        new = request.get("object") or {}
        patch, warnings = self._patch(request, new)
        response = _response(request, warnings)
        if patch:
            response["patchType"] = "JSONPatch"
            response["patch"] = base64.b64encode(msgspec.json.encode(patch)).decode()
        return response

    def _patch(self, request: Json, new: Json) -> tuple[list[Json], list[str]]:
        kind = request["kind"]["kind"]
        if kind == "Job":
            warnings = [f"{path}: {text}" for path, text in defaults.job_warnings(new)]
            return defaults.job_patch(new, scheduler_name=self._settings.scheduler_names[0]), warnings
        if kind == "PodGroup":
            annotations = self._lookup.namespace_annotations(request.get("namespace", ""))
            return defaults.pod_group_patch(new, annotations), []
        return defaults.queue_patch(new) if kind == "Queue" else [], []

    def validate(self, request: Json) -> Json:
        question = Request(
            Operation(request["operation"]),
            new=request.get("object"),
            old=request.get("oldObject"),
            lookup=self._lookup,
            settings=self._settings,
        )
        findings = validation.review(request["kind"]["kind"], question)
        response = _response(request, findings.warnings)
        if findings.errors:
            response["allowed"] = False
            message = validation.message(findings.errors)
            response["status"] = {"code": REFUSED, "reason": "Forbidden", "message": message}
        return response


def _response(request: Json, warnings: Sequence[str]) -> Json:
    response: Json = {"uid": request.get("uid", ""), "allowed": True}
    if warnings:
        response["warnings"] = [text[:WARNING_CHARS_MAX] for text in warnings[:WARNINGS_MAX]]
    return response
