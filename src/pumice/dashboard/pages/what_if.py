"""What one cycle would do in a different cluster: forms over the scheduler's own answer. Nothing is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pumice.dashboard import figures
from pumice.errors import PumiceError
from pumice.processes.access import NODES, PODGROUPS
from pumice.processes.questions import PARAMETERS, POLICY_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.dashboard.pages.page import PageRequest

NAMES_OFFERED_MAX = 500  # in a list to choose from


async def data(request: PageRequest) -> Mapping[str, Any]:
    await request.person.demand("list", PODGROUPS)
    await request.person.demand("list", NODES)
    asked = {name: request.query.get(name, "").strip() for name in PARAMETERS}
    given = {name: value for name, value in asked.items() if value}
    outcome, cause = None, ""
    if set(given) - {"like"}:
        try:
            outcome = await request.answers.what_if(given)
        except PumiceError as error:
            cause = str(error)
    told = outcome.forecasts.values() if outcome is not None else ()
    whens = [when for each in told for when in (each.before, each.after) if when is not None]
    jobs = {each.key: each.job for each in request.state.gangs}
    return {
        "asked": asked,
        "outcome": outcome,
        "is_cut_short": any(when.p50 is None and not when.complete for when in whens),
        "is_guessed": any(when.without_estimate for when in whens),
        "policy_bytes": POLICY_BYTES_MAX,
        "cause": cause,
        "jobs": jobs,
        "nodes": sorted((each.name for each in request.state.nodes), key=figures.natural)[:NAMES_OFFERED_MAX],
        "queues": sorted(each.name for each in request.state.queues)[:NAMES_OFFERED_MAX],
        "gangs": sorted(jobs)[:NAMES_OFFERED_MAX],
    }
