"""`pumice why-evicted`: who took the pods of a Job, for whom, by which rule, and what it cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from pumice import instant
from pumice.cli import completion, gang_names
from pumice.cli.cluster_command import ClusterAccess, asks
from pumice.cli.results import Report
from pumice.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.instant import Instant
    from pumice.readmodel import model


@click.command("why-evicted")
@asks()
@click.argument("job", shell_complete=completion.live("jobs"))
async def why_evicted(access: ClusterAccess, job: str) -> Report:
    """Say which pods of a Job, or of a PodGroup, were evicted, for whom and why.

    The leading scheduler tells its last evictions. Older ones, and those before it led, are counted in `pumice history`.
    """
    from pumice.cli import sources

    state, _ = await sources.States(access, "evictions").state()
    own = [each for each in state.evictions if _concerns(each, access.namespace, job)]
    if not own:
        await _demand_exists(access, job)
    return Report(text(own, access.clock.now(), job), {"evictions": msgspec.to_builtins(own)})


async def _demand_exists(access: ClusterAccess, name: str) -> None:
    """Nothing was evicted of what does not exist: a mistyped name must not read like good news."""
    from pumice.api.batch import Job
    from pumice.api.scheduling import PodGroup

    try:
        await access.client.get(Job, name, namespace=access.namespace)
    except NotFound as missing:
        try:
            await access.client.get(PodGroup, name, namespace=access.namespace)
        except NotFound:
            raise missing from None


def _concerns(eviction: model.Eviction, namespace: str, name: str) -> bool:
    place, _, gang = eviction.gang.partition("/")
    return place == namespace and name in {gang, eviction.victim.job}


def text(evictions: Sequence[model.Eviction], now: Instant, job: str) -> str:
    """One paragraph for the victims of one gang in one cycle, newest first."""
    if not evictions:
        return (
            f"{job}: the leading scheduler has evicted no pod of it that it remembers; see also `pumice history {job}`"
        )
    together: dict[tuple[int, str, str], list[model.Eviction]] = {}
    for each in evictions:
        together.setdefault((each.cycle, each.action, each.claimant), []).append(each)
    return gang_names.by_job("\n\n".join(_paragraph(those, now) for those in reversed(together.values())))


def _whys(those: Sequence[model.Eviction]) -> list[str]:
    """One sentence of each kind: that after which the fewest members are left."""
    worst: dict[tuple[str, str], model.Eviction] = {}
    for each in sorted(those, key=lambda each: -(each.facts.free or 0)):
        worst[each.gang, each.code] = each
    return [each.why for each in worst.values()]


def _paragraph(those: Sequence[model.Eviction], now: Instant) -> str:
    first, pods = those[0], ", ".join(each.pod.partition("/")[2] for each in those)
    ago = instant.human_duration(max(now - instant.parse_instant(first.at), 0))
    lines = [f"{ago} ago: {pods} by {first.action}", *(f"  {why}" for why in _whys(those))]
    gets = first.room_for
    if gets.gang or gets.queue:
        whom = f"gang {gets.gang}" if gets.gang else "a gang of others"
        lines.append(f"  for {whom}: {gets.owner}, priority {gets.priority} (its own: {first.victim.priority})")
    elif not first.claimant:
        lines.append("  for none")
    for each in (first.victim, gets):
        if each.queue and first.resource and first.victim.queue != gets.queue:
            due = f", deserves {each.deserved}" if each.deserved else ""
            lines.append(
                f"  queue {each.queue}: {first.resource} {each.held_before} before, {each.held_after} after{due}"
            )
    lost = sum(each.lost_seconds for each in those)
    lines.append(
        f"  lost: {instant.human_duration(lost * instant.SECOND)} of run time over all pods"
        if lost
        else "  lost: no run time"
    )
    return "\n".join(lines)
