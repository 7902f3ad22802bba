"""Disruption budgets (policy/v1)."""

from collections.abc import Mapping

from pumice.api.meta import NO_METADATA, NOTHING, Condition, LabelSelector, ObjectMeta, Struct


class PodDisruptionBudgetSpec(Struct):
    min_available: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Struct):
    disruptions_allowed: int = 0
    disrupted_pods: Mapping[str, str] = NOTHING  # pod name -> when its eviction was granted
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Struct):
    metadata: ObjectMeta = NO_METADATA
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
