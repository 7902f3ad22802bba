"""What a scheduler tells its flight recorder. One that has none needs neither the format nor what encodes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pumice.values import Value

if TYPE_CHECKING:
    from pumice.api.changes import Change
    from pumice.cluster.intake import Intake
    from pumice.instant import Instant
    from pumice.scheduling.core.decisions import Decisions
    from pumice.scheduling.core.memory import Memory
    from pumice.scheduling.core.policy import Policy
    from pumice.scheduling.core.ports import Extender, Ports


class Planned(Value):
    """What a cycle is planned from, beside the state."""

    number: int
    now: Instant
    policy: Policy
    memory: Memory
    ports: Ports
    budget: int


class Unrecorded:
    """What the scheduler tells a recorder, told to nobody."""

    def of(self, scheduler_names: frozenset[str], default_queue: str, grace_s: int) -> None:
        """Whose flight it is; before the first cycle."""

    def saw(self, change: Change) -> None:
        """A Change that was applied."""

    def begins(self, intake: Intake, planned: Planned) -> None:
        """A cycle, planned from what the intake holds now."""

    def ends(self, decisions: Decisions, *, seconds: float) -> None:
        """What the cycle decided, and how long that took."""

    def listening(self, extender: Extender | None) -> Extender | None:
        """The extender, whose answers are inputs."""
        return extender

    def close(self) -> None:
        """Nothing more will be planned."""


NOBODY = Unrecorded()
