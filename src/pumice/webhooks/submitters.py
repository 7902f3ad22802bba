"""Who submits what to which queue: pure questions about the request of one AdmissionReview.

The user who creates an object is its submitter, and admission writes that onto it. Our controllers create objects for others: they
alone may hand a record on, from the Job to its PodGroup and pods, from the CronJob and the JobFlow to their Jobs. An object
of a controller without a record has no known submitter and counts as its namespace's default service account, as which
every user who may create pods there can act anyway. So do pods of ReplicaSets and the like, whose maker is Kubernetes itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pumice.api import names
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pumice.api.meta import Json


RECORD: Final = (names.SUBMITTED_BY, names.SUBMITTER_GROUPS)
GROUPS_CHARS_MAX: Final = 64 * 1024  # all annotations of an object together may have 256 KiB
AUTHENTICATED: Final = "system:authenticated"

# The controllers of Kubernetes that make pods for workloads: never a submitter.
WORKLOAD_CONTROLLERS: Final = frozenset(
    {
        "system:kube-controller-manager",
        *(
            f"system:serviceaccount:kube-system:{name}"
            for name in (
                "cronjob-controller",
                "daemon-set-controller",
                "deployment-controller",
                "job-controller",
                "replicaset-controller",
                "replication-controller",
                "statefulset-controller",
            )
        ),
    }
)


class Subject(Value):
    """A user as an API server knows it."""

    user: str
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        parts = self.user.split(":")
        if self.user.startswith("system:serviceaccount:") and len(parts) == 4:
            return f'service account "{parts[2]}/{parts[3]}"'
        return f'user "{self.user}"'


def requester(request: Json) -> Subject:
    """Who sends the request."""
    user = request.get("userInfo") or {}
    return Subject(user.get("username", ""), tuple(user.get("groups") or ()))


def default_account(namespace: str) -> Subject:
    """All users who may create pods in a namespace."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return Subject(f"system:serviceaccount:{namespace}:default", groups)


def record_on(subject: Json | None) -> dict[str, str]:
    """The record on an object; empty where there is none."""
    annotations = ((subject or {}).get("metadata") or {}).get("annotations")
    if not isinstance(annotations, dict):
        return {}
    return {key: annotations[key] for key in RECORD if isinstance(annotations.get(key), str)}


def record_of(subject: Subject) -> dict[str, str]:
    """The annotations that name a submitter."""
    return {names.SUBMITTED_BY: subject.user, names.SUBMITTER_GROUPS: "\n".join(subject.groups)}


class Submitters:
    """Reads requests, knowing which users are our own controllers."""

    def __init__(self, controllers: Iterable[str]) -> None:
        self._controllers = frozenset(controllers)

    @staticmethod
    def sender(request: Json) -> Subject:
        return requester(request)

    def is_trusted(self, request: Json) -> bool:
        return requester(request).user in self._controllers

    def forgery(self, request: Json) -> str:
        """Why the record that the object carries may not stand there; empty where it may."""
        if self.is_trusted(request):
            return ""
        who, new = requester(request), record_on(request.get("object"))
        if request["operation"] == "UPDATE":
            if new == record_on(request.get("oldObject")):
                return ""
            return f"{names.SUBMITTED_BY} is written by admission and stays as it is: {who} may not change it"
        if new and (who.user in WORKLOAD_CONTROLLERS or any(record_of(who)[key] != new[key] for key in new)):
            return (
                f"{names.SUBMITTED_BY} is written by admission: {who} may not set it to {new.get(names.SUBMITTED_BY)!r}; "
                f"remove {' and '.join(new)}, also from templates"
            )
        if sum(map(len, who.groups)) > GROUPS_CHARS_MAX:
            return f"the groups of {who} have more than {GROUPS_CHARS_MAX} characters; submit with fewer groups"
        return ""

    def record_patch(self, request: Json) -> list[Json]:
        """What it takes for the object to say who submitted it: on creation, and where an update left it out."""
        new = request.get("object") or {}
        if request["operation"] == "UPDATE":
            wanted = record_on(request.get("oldObject"))
        elif self.is_trusted(request) or requester(request).user in WORKLOAD_CONTROLLERS:
            return []
        else:
            wanted = record_of(requester(request))
        missing = {key: value for key, value in wanted.items() if key not in record_on(new)}
        if not missing:
            return []
        metadata = new.get("metadata") or {}
        before = [] if metadata.get("annotations") else [_add("/metadata/annotations", {})]
        return before + [_add(f"/metadata/annotations/{key.replace('/', '~1')}", missing[key]) for key in missing]

    def submitter(self, request: Json) -> Subject:
        """The user for whose work the object takes room."""
        who = requester(request)
        if who.user in WORKLOAD_CONTROLLERS:
            return default_account(request.get("namespace", ""))
        if not self.is_trusted(request):
            return who
        record = record_on(request.get("object"))
        if names.SUBMITTED_BY not in record:
            return default_account(request.get("namespace", ""))
        groups = record.get(names.SUBMITTER_GROUPS, "")
        return Subject(record[names.SUBMITTED_BY], tuple(groups.split("\n")) if groups else ())


def _add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}
