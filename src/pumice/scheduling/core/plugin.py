"""What a plugin is: what it declares, and the calls that a cycle makes."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, ClassVar

from pumice.scheduling.core.arguments import Args
from pumice.values import Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import msgspec

    from pumice.api.meta import Struct
    from pumice.cluster.amounts import Amounts
    from pumice.cluster.gangs import GangSpec
    from pumice.cluster.tasks import Task
    from pumice.instant import Instant
    from pumice.scheduling.core.memory import Slot
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.telemetry.catalogue import Metric


class Watch(Value):
    """A kind that a plugin reads, by `session.snapshot.objects(kind)`. Its informer and the right to list it follow from this.

    `concerns` is asked about news of such an object, as it was and as it is (None: not there): whether to plan again for it.
    """

    kind: type[Struct]
    concerns: Callable[[Any, Any], bool] = operator.ne


class Holder(Value, eq=False):
    """A gang that starts whole, or ends: of its `spec`, its name and its size may be another gang's that is like it in all else."""

    queue: str
    spec: GangSpec
    task: Task  # as all of its pods are
    pods: int
    amounts: Amounts  # what all of them ask for

    @property
    def minimum(self) -> Amounts:
        """What its group names as such: that of the gang whose spec it is, for the pods that it has."""
        spec = self.spec
        return {name: value // spec.min_member * self.pods for name, value in (spec.minimum or {}).items()}


class Books:
    """What a plugin keeps up while it stays open, as its cycles at the same instants would. Here: nothing."""

    while_waiting = False  # whether they know all that their plugin has to say while gangs wait
    in_one_queue = False  # but only as long as no other queue has gangs

    def come(self, coming: Sequence[Holder], now: Instant) -> Sequence[Holder] | None:
        """Those that come at an instant, in the order of their turns if all find room, and nobody else waits; None where a cycle has to say."""
        del now
        return coming

    def waits(self, gang: Holder, sign: int) -> None:
        """One waits from now on (1), or has started (-1): told before the scores of an instant are asked for, and after its starts."""

    def ended(self, gang: Holder) -> None:
        """At the instant of the next `settle` or `learned`."""

    def settle(self, started: Sequence[Holder], now: Instant) -> None:
        """An instant is over, at which these have started."""

    def learned(self, now: Instant) -> msgspec.Struct | None:
        """The plugin's memory for a cycle at this instant; None where it is what it was."""
        del now
        return None


class SilentBooks(Books):
    """Those of a plugin that has nothing to say while gangs wait."""

    while_waiting = True


class AdmittingBooks(Books):
    """Those of a plugin that says by numbers who is admitted."""

    while_waiting = True

    def admits(self, each: Amounts, used: Amounts, promised: Amounts) -> int:
        """How many times as much as `each` a gang may name as its minimum, beside what is used and what admitted gangs that wait were promised."""
        raise NotImplementedError


class ShareBooks(AdmittingBooks):
    """Those of a plugin that says what queues may hold: one that alone has gangs may hold all there is."""

    in_one_queue = True


class RankingBooks(Books):
    """Those of a plugin that alone says whose turn is first, among gangs of one queue that pass one another.

    They stand in lines, the oldest first. The line that stands lowest has its turn, and the oldest of several that stand equally low.
    """

    standing: Scores  # by the numbers of lines

    def line_of(self, gang: Holder) -> int:
        """The number of the line in which the gang waits."""
        raise NotImplementedError

    def begin(self, now: Instant) -> None:
        """Where lines stand as an instant begins, after what has ended by then."""
        raise NotImplementedError

    def admitted(self, line: int, minimum: Amounts) -> None:
        """A gang of the line at this instant; what makes others come before it."""
        raise NotImplementedError

    def started(self, line: int, more: Amounts) -> None:
        """The same of one that has got its places."""
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
    # Whether it may stay open while gangs start and end without a cycle (`scheduling/time/direct_starts.py`): `moved` is not told then, and of all
    # that it registers only filters and scores of nodes are asked. It refuses nobody who comes while nobody waits; for what it says else, see `Books`.
    stays_open: ClassVar[bool] = False

    def __init__(self, args: Any, option: PluginOption) -> None:
        del option
        self.args = args

    def open(self, session: Session) -> None:
        raise NotImplementedError

    def open_books(self, session: Session) -> Books | None:
        """What it keeps up while it stays open; None where its arguments, or what the session knows, do not let it stay open."""
        del session
        return SilentBooks() if self.stays_open else None

    def next_change(self, session: Session) -> Instant | None:
        """After the last action: when the clock alone may change what the plugin says; None where it cannot."""
        del session
        return None

    def learn(self, session: Session) -> msgspec.Struct | None:
        """After the last action: the next value of the plugin's memory; None leaves it as it is."""
        del session
        return None
