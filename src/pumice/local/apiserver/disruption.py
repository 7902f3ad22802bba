"""PodDisruptionBudgets: how many pods may go, kept in the budgets' status, and evictions that respect it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pumice import selectors
from pumice.api.pods import ENDED
from pumice.digits import whole_number
from pumice.local.apiserver import failures
from pumice.local.apiserver.store import decode
from pumice.local.apiserver.violations import value_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.local.apiserver.backend import Backend
    from pumice.local.apiserver.history import Change, Entry
    from pumice.local.apiserver.store import Object
    from pumice.local.apiserver.violations import Cause

COLLECTION = "poddisruptionbudgets.policy"
RETRY_AFTER_S = 10


def status_of(budget: Object, pods: list[Object], now: str) -> dict[str, Any]:
    """The budget's arithmetic over the pods that its selector matches."""
    spec = budget.get("spec") or {}
    expected = len(pods)
    healthy = sum(map(is_healthy, pods))
    if spec.get("maxUnavailable") is not None:
        desired = max(expected - _pod_count(spec["maxUnavailable"], expected), 0)
    else:
        desired = _pod_count(spec.get("minAvailable", 1), expected)
    allowed = max(healthy - desired, 0) if expected else 0
    status = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": budget["metadata"].get("generation", 1),
    }
    reason = "SufficientPods" if allowed else "InsufficientPods"
    kept = [c for c in (budget.get("status") or {}).get("conditions") or () if c["type"] == "DisruptionAllowed"]
    if kept and kept[0]["reason"] == reason:
        condition = kept[0] | {"observedGeneration": status["observedGeneration"]}
    else:
        condition = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": reason,
            "message": "",
            "lastTransitionTime": now,
            "observedGeneration": status["observedGeneration"],
        }
    return status | {"conditions": [condition]}


def _pod_count(value: int | str, total: int) -> int:
    """A number, or a percentage of all pods rounded up."""
    if isinstance(value, int):
        return value
    text = value.removesuffix("%")
    return math.ceil((whole_number(text) or 0) * total / 100)


def is_healthy(pod: Object) -> bool:
    if "deletionTimestamp" in pod["metadata"]:
        return False
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c.get("status") == "True" for c in conditions)


def counts(pod: Object) -> bool:
    """Finished pods are neither expected nor healthy."""
    return (pod.get("status") or {}).get("phase") not in ENDED


def number_causes(spec: Mapping[str, Any]) -> list[Cause]:
    """What is wrong with the numbers of a budget, in the words of a real server."""
    given = {name: spec[name] for name in ("minAvailable", "maxUnavailable") if spec.get(name) is not None}
    causes: list[Cause] = []
    if len(given) == 2:
        text = "minAvailable and maxUnavailable cannot be both set"
        causes.append(("spec", "FieldValueInvalid", f"Invalid value: {value_text(spec)}: {text}"))
    for name, value in given.items():
        problem = _problem_of(value)
        if problem:
            causes.append((f"spec.{name}", "FieldValueInvalid", f"Invalid value: {value_text(value)}: {problem}"))
    return causes


def _problem_of(value: int | str) -> str:
    if isinstance(value, int):
        return "must be greater than or equal to 0" if value < 0 else ""
    share = value.removesuffix("%")
    if share == value or not (share.isascii() and share.isdecimal()):
        return "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
    return "must not be greater than 100%" if whole_number(share.lstrip("0") or "0", most=100) is None else ""


class Budgets:
    """Follows pods in namespaces that have budgets. `refresh` is called by housekeeping and before every eviction."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.stale: set[str] = set()
        backend.store.listeners.append(self._follow)

    def _follow(self, change: Change) -> None:
        if change.collection not in {"pods", COLLECTION}:
            return
        entry = change.after or change.before
        assert entry is not None
        if self.backend.store.collection(COLLECTION).namespaces.get(entry.namespace):
            self.stale.add(entry.namespace)

    def refresh(self, namespace: str) -> None:
        self.stale.discard(namespace)
        for entry in list(self.backend.store.collection(COLLECTION).entries(namespace)):
            budget = decode(entry.body)
            status = status_of(budget, self._pods(budget), self.backend.timestamp())
            if budget.get("status") != status:
                budget["status"] = status
                self.backend.store.put(COLLECTION, budget, expected=entry)
        self.stale.discard(namespace)  # our own writes

    def _pods(self, budget: Object) -> list[Object]:
        selector = selectors.label_selector((budget.get("spec") or {}).get("selector"))
        entries = self.backend.store.collection("pods").entries(budget["metadata"]["namespace"])
        pods = [decode(entry.body) for entry in entries if selector.matches(entry.labels)]
        return [pod for pod in pods if counts(pod)]

    def guard(self, pod: Object, entry: Entry) -> None:
        """Refuses an eviction that a budget does not allow; allowed, the budget is charged when the pod goes."""
        namespace = entry.namespace
        if not counts(pod) or not (pod.get("spec") or {}).get("nodeName"):
            return
        self.refresh(namespace)
        matching = []
        for budget_entry in self.backend.store.collection(COLLECTION).entries(namespace):
            budget = decode(budget_entry.body)
            if selectors.label_selector((budget.get("spec") or {}).get("selector")).matches(entry.labels):
                matching.append(budget)
        if len(matching) > 1:
            text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
            raise failures.internal(text)
        for budget in matching:
            _refuse_if_spent(budget, pod)


def _refuse_if_spent(budget: Object, pod: Object) -> None:
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    policy = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy", "IfHealthyBudget")
    unready = not is_healthy(pod)
    if unready and (
        policy == "AlwaysAllow" or status.get("currentHealthy", 0) >= max(status.get("desiredHealthy", 0), 1)
    ):
        return
    if "deletionTimestamp" in pod["metadata"] or status.get("disruptionsAllowed", 0) > 0:
        return
    needs = f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods and has {status.get('currentHealthy', 0)} currently"
    text = "Cannot evict pod as it would violate the pod's disruption budget."
    causes = [{"reason": "DisruptionBudget", "message": needs}]
    raise failures.too_many_requests(text, retry_after_s=RETRY_AFTER_S, causes=causes)
