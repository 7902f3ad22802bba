"""All that a plan for a Job is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pumice.controllers.job.dead_nodes import Nodes
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pumice.api.batch import Job
    from pumice.api.bus import Command
    from pumice.api.pods import Pod
    from pumice.api.scheduling import PodGroup, Queue
    from pumice.instant import Instant


NO_NODES = Nodes()


class JobView(Value):
    """The world around one Job at one moment."""

    job: Job
    now: Instant
    group: PodGroup | None = None
    pods: tuple[Pod, ...] = ()  # that carry the Job's name, those of a former Job of that name too
    commands: tuple[Command, ...] = ()  # that name the Job
    queue: Queue | None = None
    queue_name: str = ""  # the Job's, or its namespace's; empty: the Job's
    claims: frozenset[str] = frozenset()  # names of the claims in the namespace, as far as the Job names them
    # How pods that are gone were last seen, by name; it explains, and tells a release from a loss.
    deleted_pods: Mapping[str, Pod] = msgspec.field(default_factory=dict)
    # Names of pods that were there and that no watch shows, though the server has not said that they are gone: it may merely be late.
    doubted: frozenset[str] = frozenset()
    priorities: Mapping[str, int] = msgspec.field(default_factory=dict)  # value of each PriorityClass
    nodes: Nodes = NO_NODES
    restores: bool = False  # it is time to see whether what plugins made is still there
