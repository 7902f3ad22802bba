"""What is wrong in a world because it lasts: a gang in part, what it no longer or does not yet say, pods that outlive a restart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.api import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pumice.api.scheduling import PodGroup
    from pumice.sim.worlds.witness import PodSeen, Witness

MEND_S = 6.0  # beyond twice the grace time, for the steps that giving up a gang takes
RESTART_S = 3.0  # after so long a Job that starts again has asked all of its former pods to go
TOLD_S = 4.0  # after so long a gang that has started says so
MUTE_S = 12.0  # so long a gang may wait without a word, once nothing keeps it from being told: its pods come within some seconds
MUTE_S_MAX = 40.0  # and where a leader may have been lost just before


def of_gangs(seen: Witness, now: float, calm_since: float) -> Iterator[str]:
    """Each is told once."""
    limit = now - 2 * seen.grace_s - MEND_S
    patience = MUTE_S if seen.is_quiet else MUTE_S_MAX
    for key, gang in seen.gangs.items():
        if gang.whole_since is not None and max(gang.whole_since, calm_since) < now - TOLD_S:
            gang.whole_since = None
            yield from _discontent(key, seen.groups.get(key))
        if gang.partial_since is not None and gang.partial_since < limit:
            yield f"gang {key} is bound in part since {gang.partial_since:.3f} s, longer than its grace time"
            gang.partial_since = None
        if gang.mute_since is not None and max(gang.mute_since, calm_since) < now - patience:
            yield f"gang {key} waits since {gang.mute_since:.3f} s, and does not say why"
            gang.mute_since = None


def of_restarts(seen: Witness, now: float, calm_since: float) -> Iterator[str]:
    """Jobs that have started again, and their former pods; while their controllers are without a leader, nobody asks these to go."""
    leader = seen.leaders.of(names.CONTROLLERS_LEASE)
    for uid, (version, restarted) in list(seen.restarts.items()):
        since = max(restarted, calm_since, leader.since)
        if since < now - RESTART_S and (seen.is_quiet or leader.renewed > since):
            del seen.restarts[uid]
            yield from _left_over(seen.pods.values(), uid, version)


def _discontent(gang: str, group: PodGroup | None) -> Iterator[str]:
    """A gang that has started no longer says that it waits."""
    if group is None or group.status.phase != "Running":
        return
    if any(each.type == "Unschedulable" and each.status == "True" for each in group.status.conditions):
        yield (f"gang {gang} runs, and still says that it cannot be scheduled")
    if names.VERDICT in group.metadata.annotations:
        yield (f"gang {gang} runs, and still says why it waits")


def _left_over(pods: Iterable[PodSeen], job: str, version: int) -> Iterator[str]:
    """Once a Job has started again, what ran before is on its way out."""
    for pod in pods:
        if pod.job == job and pod.version < version and not (pod.is_over or pod.is_leaving):
            yield f"pod {pod.key} is of version {pod.version} of its Job, which is at {version}, and stays"
