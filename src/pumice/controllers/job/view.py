"""All that a plan for a Job is made from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pumice.controllers.job.dead_nodes import Nodes

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pumice.api.batch import Job
    from pumice.api.bus import Command
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue
    from pumice.instant import Instant


def _forgotten(name: str) -> Pod | None:
    del name
    return None


def _believed(name: str) -> bool:
    del name
    return True


EVERYTHING_IS_WELL = Nodes()


@dataclasses.dataclass(frozen=True, slots=True)
class JobView:
    """The world around one Job at one moment."""

    job: Job
    now: Instant
    group: PodGroup | None = None
    pods: tuple[Pod, ...] = ()  # that carry the Job's name, those of a former Job of that name too
    commands: tuple[Command, ...] = ()  # that name the Job
    queue: Queue | None = None
    queue_name: str = ""  # the Job's, or its namespace's; empty: the Job's
    claims: frozenset[str] = frozenset()  # names of the claims in the namespace, as far as the Job names them
    # Of a pod that is gone: how it was last seen, if anybody remembers; it explains, and tells a release from a loss.
    ghost: Callable[[str], Pod | None] = _forgotten
    # Whether the server itself has said that there is no pod of that name: a watch may merely be late.
    is_gone: Callable[[str], bool] = _believed
    priorities: Mapping[str, int] = dataclasses.field(default_factory=dict)  # value of each PriorityClass
    nodes: Nodes = EVERYTHING_IS_WELL
    restores: bool = False  # it is time to see whether what plugins made is still there
