"""Who wrote what: an API server's audit log, counted by process, verb and resource.

The budget of writes (docs/performance.md): two a pod, create and bind, and six a gang until it runs.
"""

from __future__ import annotations

import collections
import json
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = frozenset({"scheduler", "controllers"})
Writes: TypeAlias = "collections.Counter[tuple[str, str]]"

BUDGET_A_POD = {"create pods": 1, "create pods/binding": 1}
BUDGET_A_GANG = {
    "create podgroups": 1,
    "patch jobs/status": 2,
    "patch podgroups": 3,
}  # Pending, Running; Inqueue, Running, numbers
_WRITING = ("create", "update", "patch", "delete", "deletecollection")


class AuditLog:
    """What the API server writes down of the writes of one user in one namespace."""

    def __init__(self, folder: Path, *, user: str, namespace: str) -> None:
        self._log, self._policy = folder / "audit.log", folder / "audit-policy.json"
        rule = {"level": "Metadata", "users": [user], "namespaces": [namespace], "verbs": list(_WRITING)}
        policy = {"omitStages": ["RequestReceived"], "rules": [rule, {"level": "None"}]}
        self._policy.write_text(json.dumps({"apiVersion": "audit.k8s.io/v1", "kind": "Policy", **policy}))

    @property
    def arguments(self) -> list[str]:
        """Of the API server."""
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"]

    def count(self) -> Writes:
        """All writes of our processes so far, refused ones too."""
        with self._log.open() as lines:
            events = [json.loads(line) for line in lines if line.endswith("\n")]
        found = ((_process(event), _write(event)) for event in events)
        return collections.Counter(each for each in found if each[0] in PROCESSES)


def _process(event: dict[str, str]) -> str:
    return event["userAgent"].partition("/")[0].removeprefix("pumice-")


def _write(event: dict[str, dict[str, str]]) -> str:
    about = event["objectRef"]
    resource = "/".join(filter(None, [about["resource"], about.get("subresource")]))
    return f"{event['verb']} {resource}"


def by_process(writes: Writes) -> dict[str, dict[str, int]]:
    """As it is printed."""
    found: dict[str, dict[str, int]] = {}
    for (process, write), count in sorted(writes.items()):
        found.setdefault(process, {})[write] = count
    return found


def over_budget(writes: Writes, *, pods: int, gangs: int) -> dict[str, int]:
    """By how much the writes of all processes are above what so many gangs that run may cost."""
    budget = collections.Counter({write: pods * count for write, count in BUDGET_A_POD.items()})
    budget.update({write: gangs * count for write, count in BUDGET_A_GANG.items()})
    spent: collections.Counter[str] = collections.Counter()
    for (_, write), count in writes.items():
        spent[write] += count
    return dict(sorted((spent - budget).items()))
