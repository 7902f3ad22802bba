"""How the processes are: cycles, writes, the record's lag, the policy in force and its last refusal; from their own metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.dashboard.answers import Metrics
from pumice.errors import PumiceError
from pumice.processes.access import PODGROUPS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.dashboard.pages.page import PageRequest

NOTHING = Metrics({}, {})


async def data(request: PageRequest) -> Mapping[str, Any]:
    await request.person.demand("list", PODGROUPS)
    scheduler, controllers = await _metrics(request), await _metrics(request, of_controllers=True)
    cycles, seconds = (scheduler.sums.get(f"pumice_cycle_seconds_{part}", 0.0) for part in ("count", "sum"))
    return {
        "policy": request.state.policy,
        "leader": request.state.leader,
        "cycle": request.state.cycle,
        "at": request.state.at,
        "mean_ms": seconds / cycles * 1000 if cycles else None,
        "scheduler": scheduler.sums,
        "scheduler_per_s": scheduler.per_s,
        "controllers": controllers.sums,
        "controllers_per_s": controllers.per_s,
        "has_record": bool(controllers.sums.get("pumice_record_rows_total")),
        "score": request.state.forecasts,
    }


async def _metrics(request: PageRequest, *, of_controllers: bool = False) -> Metrics:
    try:
        return await request.answers.metrics(of_controllers=of_controllers)
    except (PumiceError, ValueError):
        return NOTHING
