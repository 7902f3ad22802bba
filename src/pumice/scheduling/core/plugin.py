"""What a plugin is: what it declares, and the calls that a cycle makes."""

from __future__ import annotations

import enum
import operator
from typing import TYPE_CHECKING, Any, ClassVar

from pumice.scheduling.core.arguments import Args
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import msgspec

    from pumice.api.meta import Struct
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.gangs import GangSpec
    from pumice.cluster.tasks import Task
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


class StaysOpen(enum.Enum):
    """Whether a plugin may stay open while gangs start and end without a cycle (`scheduling/time/direct_starts.py`): `moved` is not told then, and
    of all that it registers only filters and scores of nodes are asked.
    """

    NEVER = enum.auto()
    WHILE_NOBODY_WAITS = enum.auto()  # it refuses nobody who comes then, if all who come at an instant find room
    IN_LINE = enum.auto()  # nor does it have a say while gangs wait: in strict queues, or where another plugin says who passes or whose turn is first


class Holder(Value, eq=False):
    """A gang that starts whole, or ends: of its `spec`, its name and its size may be another gang's that is like it in all else."""

    queue: str
    spec: GangSpec
    task: Task  # as all of its pods are
    pods: int
    amounts: Amounts  # what all of them ask for


class Books:
    """What a plugin keeps up while it stays open, as its cycles at the same instants would. Here: nothing."""

    def come(self, coming: Sequence[Holder], now: Instant) -> Sequence[Holder] | None:
        """Those that come at an instant, in the order of their turns if all find room; None where a cycle has to say."""
        del now
        return coming

    def ended(self, gang: Holder) -> None:
        """At the instant of the next `settle` or `learned`."""

    def settle(self, started: Sequence[Holder], now: Instant) -> None:
        """An instant is over, at which these have started."""

    def learned(self, now: Instant) -> msgspec.Struct | None:
        """The plugin's memory for a cycle at this instant; None where it is what it was."""
        del now
        return None


class RankingBooks(Books):
    """Those of a plugin that alone says whose turn is first, also while gangs of one queue wait and pass one another."""

    knows_turns: bool  # whether its arguments let it say that

    def turns(
        self, waiting: Sequence[Holder], admitted: Sequence[Holder], now: Instant
    ) -> Generator[Holder, bool, None]:
        """One after the other of those that wait, oldest first, and may find room; it is sent whether that gang has started. Some, and others, are admitted at this instant."""
        raise NotImplementedError


class Plugin:
    """Made anew for every cycle from its arguments; registers what it has to say in `open`. All else has a default.

    What a plugin depends on beside the snapshot it declares: nothing else can change its mind.
    """

    args_type: ClassVar[type[Args]] = Args
    args: Any  # of that type; a subclass says of which
    watches: ClassVar[tuple[Watch, ...]] = ()
    memory: ClassVar[Slot[Any] | None] = None  # what it knows of earlier cycles: `session.memory.of(slot)`
    essential: ClassVar[bool] = False  # it protects something: where it fails as such, nothing is started or evicted
    metrics: ClassVar[tuple[Metric, ...]] = ()  # gauges; `session.publish` sets them
    stays_open: ClassVar[StaysOpen] = StaysOpen.NEVER

    def __init__(self, args: Any, option: PluginOption) -> None:
        del option
        self.args = args

    def open(self, session: Session) -> None:
        raise NotImplementedError

    def open_books(self, session: Session) -> Books | None:
        """What it keeps up while it stays open; None where its arguments, or what the session knows, do not let it stay open."""
        del session
        return None if self.stays_open is StaysOpen.NEVER else Books()

    def next_change(self, session: Session) -> Instant | None:
        """After the last action: when the clock alone may change what the plugin says; None where it cannot."""
        del session
        return None

    def learn(self, session: Session) -> msgspec.Struct | None:
        """After the last action: the next value of the plugin's memory; None leaves it as it is."""
        del session
        return None
