"""deviceshare: several pods share a GPU, each with its part of the memory and of the cores.

Either in software slices (`volcano.sh/vgpu-number`, `-memory`, `-memory-percentage`, `-cores`), or as memory of one card
(`volcano.sh/gpu-memory`), or as whole cards by number (`volcano.sh/gpu-number`). Which cards a pod gets is decided here and leaves
with its bind as annotations, in which the node's device plugin reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import msgspec
import numpy as np

from pumice.scheduling.core import arguments
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing.constraints.card_book import CardBook
from pumice.scheduling.placing.constraints.gpu_sharing_modes import ByNumber, Slices, Where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.plugin import Books
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.placement import Pairs

NAME = "deviceshare"

Switch = Annotated[bool, msgspec.Meta(description="turns one way of sharing on; only one of the three can be")]
Unsupported = Annotated[bool, msgspec.Meta(description="not supported; must stay off")]


class Args(arguments.Args, frozen=True, kw_only=True):
    """At most one of GPUSharingEnable, GPUNumberEnable and VGPUEnable."""

    UNSUPPORTED: ClassVar[Mapping[str, str]] = {
        "ascend_mind_cluster": "deviceshare.AscendMindClusterVNPUEnable",
        "ascend_hami": "deviceshare.AscendHAMiVNPUEnable",
    }

    gpu_memory: Switch = msgspec.field(name="deviceshare.GPUSharingEnable", default=False)
    gpu_number: Switch = msgspec.field(name="deviceshare.GPUNumberEnable", default=False)
    vgpu: Switch = msgspec.field(name="deviceshare.VGPUEnable", default=False)
    node_lock: Annotated[
        bool, msgspec.Meta(description="hold a lock on the node while a pod that gets devices is bound to it")
    ] = msgspec.field(name="deviceshare.NodeLockEnable", default=False)
    ascend_mind_cluster: Unsupported = msgspec.field(name="deviceshare.AscendMindClusterVNPUEnable", default=False)
    ascend_hami: Unsupported = msgspec.field(name="deviceshare.AscendHAMiVNPUEnable", default=False)
    policy: Annotated[
        Literal["", "binpack", "spread"],
        msgspec.Meta(description="which cards come first: the fullest, or those with fewest users; empty: the last"),
    ] = msgspec.field(name="deviceshare.SchedulePolicy", default="")
    weight: Annotated[int, msgspec.Meta(description="weight of the policy among nodes; 0: cards only")] = msgspec.field(
        name="deviceshare.ScheduleWeight", default=0
    )
    geometries: Annotated[str, msgspec.Meta(description="of MIG cards, which are not supported: read by nobody")] = (
        msgspec.field(name="deviceshare.KnownGeometriesCMName", default="volcano-vgpu-device-config")
    )
    geometries_namespace: Annotated[str, msgspec.Meta(description="see KnownGeometriesCMName")] = msgspec.field(
        name="deviceshare.KnownGeometriesCMNamespace", default="kube-system"
    )
    exclusive: Annotated[
        list[dict[str, str]],
        msgspec.Meta(description="pods that carry all labels of one of these do not share a card with one another"),
    ] = msgspec.field(name="deviceshare.GPUExclusiveRules", default_factory=list)

    def __post_init__(self) -> None:
        on = [
            name
            for name, is_on in (
                ("deviceshare.GPUSharingEnable", self.gpu_memory),
                ("deviceshare.GPUNumberEnable", self.gpu_number),
                ("deviceshare.VGPUEnable", self.vgpu),
            )
            if is_on
        ]
        if len(on) > 1:
            raise ValueError(f"{' and '.join(on)} exclude each other; turn on one of them")
        for field, name in self.UNSUPPORTED.items():
            if getattr(self, field):
                raise ValueError(f"{name}: Ascend NPUs are not supported; remove it")


class DeviceShare(Plugin):
    """Limits each node to what its cards still hold, scores by their policy, and remembers who got which."""

    args_type = Args
    args: Args
    stays_open = True
    essential = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.args = args
        self.way = _way(args)

    def open(self, session: Session) -> None:
        if self.way is None:
            return
        self.session = session
        self.book = session.shared(CardBook)
        self.book.keep(self.way, self._rules)
        on = session.on
        exclusive = tuple(tuple(sorted(rule.items())) for rule in self.args.exclusive)
        on.declare(Reads.NOTHING, self.book.ask, lasts=(self.way, exclusive))
        on.filter(self.hopeless)
        on.limit(self.limit, code=self.way.too_full, cure=Cure.EVICTION)
        if self.args.weight and self.args.policy:
            on.load_score(self.score, looks_beyond=lambda: bool(self.book.boards))
        if self.book.boards:
            on.moved(self.moved)
            on.annotate(self.annotate)
            on.node_lock(self.lock)

    def open_books(self, session: Session) -> Books | None:
        """Where no node has cards that pods share."""
        return super().open_books(session) if self.way is None or not self.book.boards else None

    def _rules(self, task: Task) -> frozenset[str]:
        if not self.args.exclusive:
            return frozenset()
        labels = task.pod.metadata.labels
        return frozenset(
            f"rule {number}"
            for number, rule in enumerate(self.args.exclusive)
            if rule and all(labels.get(key) == value for key, value in rule.items())
        )

    # ------------------------------------------------------------------------------------------------- nodes

    def hopeless(self, shape: Shape) -> list[Denial]:
        """Nodes whose cards would not do even if no pod used them."""
        ask = self.book.ask(shape.example)
        if ask is None:
            return []
        assert self.way is not None
        return [Denial(self.way.never, NAME, ~self.book.suitable(ask))]

    def limit(self, shape: Shape) -> Column | None:
        ask = self.book.ask(shape.example)
        return None if ask is None else self.book.answers(ask).copies

    def score(self, shape: Shape, pairs: Pairs) -> Scores | None:
        ask = self.book.ask(shape.example)
        if ask is None:
            return None
        found = self.book.answers(ask).scores(pairs.nodes, pairs.copies)
        return np.asarray(np.round(found) * self.args.weight, dtype=np.float64)

    # ------------------------------------------------------------------------------------------------- bookkeeping

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del shape
        self.book.moved(gang, tasks, nodes, sign)

    def annotate(self, task: Task) -> Mapping[str, str]:
        book = self.book
        if task.uid not in book.given:
            return {}
        assert self.way is not None
        index = self.session.node_index(task)
        where = Where(self.session.room.table.names[index], book.boards[index].cards, self.session.now)
        return self.way.annotations(book.held[task.uid], where)

    def lock(self, task: Task) -> str:
        assert self.way is not None
        return self.way.lock if self.args.node_lock and task.uid in self.book.given else ""


def _way(args: Args) -> ByNumber | Slices | None:
    if args.vgpu:
        return Slices(args.policy)
    return ByNumber(args.gpu_number, args.policy) if args.gpu_number or args.gpu_memory else None
