"""How the processes are: cycles, writes, the record's lag, the policy in force and its last refusal; from their own metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from pumice.errors import PumiceError
from pumice.processes.access import PODGROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.dashboard.pages.looking import Looking


async def data(looking: Looking) -> Mapping[str, Any]:
    await looking.person.demand("list", PODGROUPS)
    scheduler, controllers = await _metrics(looking), await _metrics(looking, of_record=True)
    if controllers.get("pumice_cycles_total"):
        controllers = {}  # one process is all of them, as in `pumice up`, and tells the scheduler's figures
    cycles, seconds = scheduler.get("pumice_cycle_seconds_count", 0.0), scheduler.get("pumice_cycle_seconds_sum", 0.0)
    return {
        "policy": looking.state.policy,
        "leader": looking.state.leader,
        "cycle": looking.state.cycle,
        "at": looking.state.at,
        "mean_ms": seconds / cycles * 1000 if cycles else None,
        "scheduler": scheduler,
        "controllers": controllers,
        "has_record": "pumice_record_lag_seconds" in controllers,
        "score": looking.state.forecasts,
    }


async def _metrics(looking: Looking, *, of_record: bool = False) -> Mapping[str, float]:
    try:
        return sums((await looking.answers.metrics(of_record=of_record)).decode())
    except (PumiceError, ValueError):
        return {}


def sums(text: str) -> dict[str, float]:
    """Each metric's samples together, whatever their labels."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found
