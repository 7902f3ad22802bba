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

from pumice.cluster.tasks import ON_A_NODE, Status
from pumice.scheduling.core import arguments
from pumice.scheduling.core.plugin import Plugin
from pumice.scheduling.core.shapes import Reads
from pumice.scheduling.core.verdict import Cure, Denial
from pumice.scheduling.placing.constraints import shared_gpus
from pumice.scheduling.placing.constraints.gpu_sharing_modes import ByNumber, Slices, Where
from pumice.scheduling.placing.constraints.shared_gpus import Board
from pumice.scheduling.placing.node_cache import NodeCache, NodeLog

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pumice.cluster.cards import Card, CardSet
    from pumice.cluster.columns import Column
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Scores
    from pumice.scheduling.core.policy import PluginOption
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.core.shapes import Shape
    from pumice.scheduling.placing.constraints.shared_gpus import Ask, Grant, Usage
    from pumice.scheduling.placing.placement import Pairs

NAME = "deviceshare"
COPIES_MAX = 256  # of one pod that are imagined on one node at a time; more are asked for again
_OURS = frozenset({Status.PENDING, Status.ALLOCATED, Status.PIPELINED})  # placed by this session, or just taken back

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
    essential = True

    def __init__(self, args: Args, option: PluginOption) -> None:
        del option
        self.args = args
        self.way = _way(args)

    def open(self, session: Session) -> None:
        if self.way is None:
            return
        self.session = session
        self.log = NodeLog()
        self.boards: dict[int, Board] = {}
        self.held: dict[str, Grant] = {}  # by pod: those that were there, and those placed now
        self.given: set[str] = set()
        self.asks: dict[str, Ask | None] = {}
        self.answers: dict[Ask, _Answers] = {}
        self.known: dict[tuple[CardSet, tuple[tuple[int, int, int, bool], ...], Ask], tuple[float, ...]] = {}
        for index, node in enumerate(session.room.table.objects):
            cards = self.way.cards_of(node, now=session.now)
            if cards is not None:
                self._take_stock(index, Board(cards))
        on = session.on
        on.declare(Reads.NOTHING, self.ask)
        on.filter(self.hopeless)
        on.limit(self.limit, code=self.way.too_full, cure=Cure.EVICTION)
        if self.args.weight and self.args.policy:
            on.load_score(self.score)
        on.moved(self.moved)
        on.annotate(self.annotate)
        on.node_lock(self.lock)

    def _take_stock(self, index: int, board: Board) -> None:
        """Charge the node's pods to the cards that their annotations name."""
        assert self.way is not None
        self.boards[index] = board
        for task in self.session.room.table.tasks[index]:
            grant = self.way.grant_of(task, board.set) if task.status in ON_A_NODE else None
            if grant is not None:
                self.held[task.uid] = grant
                board.add(grant, self._marks(task))

    def ask(self, task: Task) -> Ask | None:
        """What the pod wants of cards, looked at once; None for most pods."""
        if task.uid not in self.asks:
            assert self.way is not None
            self.asks[task.uid] = self.way.ask_of(task, self._rules(task))
        return self.asks[task.uid]

    def _rules(self, task: Task) -> frozenset[str]:
        labels = task.pod.metadata.labels
        return frozenset(
            f"rule {number}"
            for number, rule in enumerate(self.args.exclusive)
            if rule and all(labels.get(key) == value for key, value in rule.items())
        )

    def _marks(self, task: Task) -> frozenset[str]:
        return self._rules(task) | {f"gang {task.gang}"}

    # ------------------------------------------------------------------------------------------------- nodes

    def hopeless(self, shape: Shape) -> list[Denial]:
        """Nodes whose cards would not do even if no pod used them."""
        ask = self.ask(shape.example)
        if ask is None:
            return []
        assert self.way is not None
        refused = np.ones(len(self.session.room.table), dtype=bool)
        sets = dict.fromkeys(board.set for board in self.boards.values())
        will_do = {cards for cards in sets if self._copies(cards, Board(cards), ask)}
        for index, board in self.boards.items():
            refused[index] = board.set not in will_do
        return [Denial(self.way.never, NAME, refused)]

    def limit(self, shape: Shape) -> Column | None:
        ask = self.ask(shape.example)
        return None if ask is None else self._answers(ask).copies

    def score(self, shape: Shape, pairs: Pairs) -> Scores | None:
        ask = self.ask(shape.example)
        if ask is None:
            return None
        table = self._answers(ask).scores
        within = pairs.copies < table.shape[1]
        found = np.where(within, table[pairs.nodes, np.minimum(pairs.copies, table.shape[1] - 1)], 0.0)
        return np.asarray(np.round(found) * self.args.weight, dtype=np.float64)

    def _answers(self, ask: Ask) -> _Answers:
        answers = self.answers.get(ask)
        if answers is None:
            answers = self.answers[ask] = _Answers(self, ask)
        answers.standing.refresh()
        return answers

    def copies_on(self, index: int, ask: Ask) -> tuple[float, ...]:
        """The score of each further such pod on the node, as many as its cards hold."""
        board = self.boards[index]
        return self._copies(board.set, board, ask)

    def _copies(self, cards: CardSet, board: Board, ask: Ask) -> tuple[float, ...]:
        key = (cards, board.state(ask.avoid), ask)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = self._imagine(cards.cards, [each.copy() for each in board.usage], ask)
        return found

    def _imagine(self, cards: Sequence[Card], usage: Sequence[Usage], ask: Ask) -> tuple[float, ...]:
        assert self.way is not None
        scores: list[float] = []
        while len(scores) < COPIES_MAX:
            grant = self.way.choose(cards, usage, ask)
            if grant is None:
                break
            for container in grant:
                for part in container:
                    usage[part.card].add(part, ask.marks)
            scores.append(shared_gpus.score(cards, usage, grant, self.args.policy))
        return tuple(scores)

    # ------------------------------------------------------------------------------------------------- bookkeeping

    def moved(self, gang: GangState, shape: Shape, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
        del shape
        for task, index in zip(tasks, nodes, strict=True):
            board = self.boards.get(index)
            if board is None:
                continue
            if gang.status(task) in _OURS:
                self._place(task, board, sign)
            elif task.uid in self.held:  # evicted, or spared after all
                board.add(self.held[task.uid], self._marks(task), sign)
            self.log.note(index)

    def _place(self, task: Task, board: Board, sign: int) -> None:
        assert self.way is not None
        ask = self.ask(task)
        if ask is None:
            return
        if sign > 0:
            grant = self.way.choose(board.cards, board.usage, ask)
            if grant is not None:
                self.held[task.uid] = grant
                self.given.add(task.uid)
                board.add(grant, self._marks(task))
        elif task.uid in self.given:
            self.given.discard(task.uid)
            board.add(self.held.pop(task.uid), self._marks(task), -1)

    def annotate(self, task: Task) -> Mapping[str, str]:
        if task.uid not in self.given:
            return {}
        assert self.way is not None
        index = self.session.node_index(task)
        where = Where(self.session.room.table.names[index], self.boards[index].cards, self.session.now)
        return self.way.annotations(self.held[task.uid], where)

    def lock(self, task: Task) -> str:
        assert self.way is not None
        return self.way.lock if self.args.node_lock and task.uid in self.given else ""


class _Answers:
    """How many further pods of one kind each node takes, and the score of each, as columns."""

    def __init__(self, plugin: DeviceShare, ask: Ask) -> None:
        count = len(plugin.session.room.table)
        self.copies: Column = np.zeros(count, dtype=np.int64)
        self.scores: Scores = np.zeros((count, 1))

        def look(index: int) -> None:
            scores = plugin.copies_on(index, ask)
            self.copies[index] = len(scores)
            if len(scores) > self.scores.shape[1]:
                wider = np.zeros((count, len(scores)))
                wider[:, : self.scores.shape[1]] = self.scores
                self.scores = wider
            self.scores[index] = 0.0
            self.scores[index, : len(scores)] = scores

        self.standing = NodeCache(plugin.log, plugin.boards, look)


def _way(args: Args) -> ByNumber | Slices | None:
    if args.vgpu:
        return Slices(args.policy)
    return ByNumber(whole=args.gpu_number) if args.gpu_number or args.gpu_memory else None
