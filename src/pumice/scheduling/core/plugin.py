"""What a plugin is: what it declares, and the calls that a cycle makes."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from pumice.scheduling.core.arguments import Args
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from pumice.api.meta import Struct
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Slot
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.telemetry.catalogue import Metric


class Watch(Value):
    """A kind that a plugin reads, by `session.snapshot.objects(kind)`. Its informer and the right to list it follow from this.

    `concerns` is asked about news of such an object, as it was and as it is (None: not there): whether to plan again for it.
    """

    kind: type[Struct]
    concerns: Callable[[Any, Any], bool] = operator.ne


class Plugin:
    """Made anew for every cycle from its arguments; registers what it has to say in `open`. All else has a default.

    What a plugin depends on beside the snapshot it declares: nothing else can change its mind.
    """

    args_type: ClassVar[type[Args]] = Args
    watches: ClassVar[tuple[Watch, ...]] = ()
    memory: ClassVar[Slot[Any] | None] = None  # what it knows of earlier cycles: `session.memory.of(slot)`
    essential: ClassVar[bool] = False  # it protects something: where it fails as such, nothing is started or evicted
    metrics: ClassVar[tuple[Metric, ...]] = ()  # gauges; `session.publish` sets them
    # Whether it may be left out of a cycle that runs ahead while nobody waits: it learns nothing, names no next change, and has no say in
    # who is ready.
    only_for_waiting: ClassVar[bool] = False

    def __init__(self, args: Any, option: PluginOption) -> None:
        """Most plugins keep some of their arguments."""

    def open(self, session: Session) -> None:
        raise NotImplementedError

    def next_change(self, session: Session) -> Instant | None:
        """After the last action: when the clock alone may change what the plugin says; None where it cannot."""
        del session
        return None

    def learn(self, session: Session) -> msgspec.Struct | None:
        """After the last action: the next value of the plugin's memory; None leaves it as it is."""
        del session
        return None
