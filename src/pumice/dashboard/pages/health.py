"""How the processes are: cycles, writes, the record's lag, the policy in force and its last refusal; from their own metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.dashboard.answers import Metrics
from pumice.errors import PumiceError
from pumice.processes.access import PODGROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.dashboard.pages.looking import Looking

NOTHING = Metrics({}, {})


async def data(looking: Looking) -> Mapping[str, Any]:
    await looking.person.demand("list", PODGROUPS)
    scheduler, controllers = await _metrics(looking), await _metrics(looking, of_controllers=True)
    cycles, seconds = (scheduler.sums.get(f"pumice_cycle_seconds_{part}", 0.0) for part in ("count", "sum"))
    return {
        "policy": looking.state.policy,
        "leader": looking.state.leader,
        "cycle": looking.state.cycle,
        "at": looking.state.at,
        "mean_ms": seconds / cycles * 1000 if cycles else None,
        "scheduler": scheduler.sums,
        "scheduler_per_s": scheduler.per_s,
        "controllers": controllers.sums,
        "controllers_per_s": controllers.per_s,
        "has_record": bool(controllers.sums.get("pumice_record_rows_total")),
        "score": looking.state.forecasts,
    }


async def _metrics(looking: Looking, *, of_controllers: bool = False) -> Metrics:
    try:
        return await looking.answers.metrics(of_controllers=of_controllers)
    except (PumiceError, ValueError):
        return NOTHING
