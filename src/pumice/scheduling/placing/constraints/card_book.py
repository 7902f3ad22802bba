"""The shared GPUs of all nodes inside a session: who holds which cards, and what the next pods would get where.

Real clusters have thousands of boards that stand in a few states: the same kinds of cards with as much in use. What a pod would get
is found out once per state, and a node's answer is its state's.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from pumice.cluster.tasks import ON_A_NODE, Status
from pumice.scheduling.placing.constraints import shared_gpus
from pumice.scheduling.placing.constraints.shared_gpus import Board, Usage
from pumice.scheduling.placing.node_cache import NodeCache, NodeLog

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pumice.cluster.cards import Card
    from pumice.cluster.columns import Column, Mask, NodeTable
    from pumice.cluster.tasks import Task
    from pumice.scheduling.core.gangstate import GangState
    from pumice.scheduling.core.points import Indexes, Scores
    from pumice.scheduling.core.session import Session
    from pumice.scheduling.placing.constraints.gpu_sharing_modes import ByNumber, Slices
    from pumice.scheduling.placing.constraints.shared_gpus import Ask, Grant, State

COPIES_MAX = 256  # of one pod that are imagined on one node at a time; more are asked for again
STEPS_CACHED_MAX = 65_536  # some 500 bytes each
NO_CARDS = -1
_OURS = frozenset({Status.PENDING, Status.ALLOCATED, Status.PIPELINED})  # placed by this session, or just taken back

Marks = frozenset[str]


@lru_cache(maxsize=STEPS_CACHED_MAX)
def step(way: ByNumber | Slices, state: State, ask: Ask) -> tuple[float, State] | None:
    """One such pod on a board in that state: the score of its cards, and the state after it; None where it finds no cards."""
    cards = [standing[0] for standing in state]
    usage = [Usage(*standing[1:4]) for standing in state]
    for each, standing in zip(usage, state, strict=True):
        if standing[4]:
            each.marks = dict.fromkeys(ask.avoid, 1)
    grant = way.choose(cards, usage, ask)
    if grant is None:
        return None
    for container in grant:
        for part in container:
            usage[part.card].add(part, ask.marks)
    after = list(state)
    for number in {part.card for container in grant for part in container}:
        each = usage[number]
        after[number] = (cards[number], each.parts, each.memory, each.cores, each.has(ask.avoid))
    if way.in_order:
        after.sort(key=shared_gpus.fullest_first)
    return shared_gpus.score(cards, usage, grant, way.policy), tuple(after)


def _with_cards(way: ByNumber | Slices, table: NodeTable) -> list[int]:
    """Nodes that say something about cards, be it out of date."""
    return [index for index, node in enumerate(table.objects) if way.names_cards(node)]


class CardBook:
    """Made by the first that asks for it (`session.shared`), kept by the plugin that hands out cards; empty without one."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.way: ByNumber | Slices | None = None
        self.log = NodeLog()
        self.boards: dict[int, Board] = {}
        self.alike: dict[Sequence[Card], list[int]] = {}  # nodes by the kinds of their cards
        self.held: dict[str, Grant] = {}  # by pod: those that were there, and those placed now
        self.given: set[str] = set()
        self._rules: Callable[[Task], Marks] = lambda _: frozenset()
        self._asks: dict[str, Ask | None] = {}
        self._equal: dict[
            Ask | None, Ask | None
        ] = {}  # equal requests are one object: looking up what is known is quicker
        self._standings: dict[tuple[Marks, bool], Standings] = {}
        self._answers: dict[Ask, Answers] = {}

    def keep(self, way: ByNumber | Slices, rules: Callable[[Task], Marks]) -> None:
        """Take stock of all nodes; `rules` are marks that pods leave on their cards beside that of their gang."""
        self.way, self._rules = way, rules
        table = self.session.room.table
        for index in self.session.snapshot.kept((CardBook, type(way)), table.objects, lambda: _with_cards(way, table)):
            cards = way.cards_of(table.objects[index], now=self.session.now)
            if cards is not None:
                self.boards[index] = board = Board(cards)
                self.alike.setdefault(cards.kinds, []).append(index)
                for task in table.tasks[index]:
                    grant = way.grant_of(task, cards) if task.status in ON_A_NODE else None
                    if grant is not None:
                        self.held[task.uid] = grant
                        board.add(grant, self._marks(task))

    def _marks(self, task: Task) -> Marks:
        return self._rules(task) | {f"gang {task.gang}"}

    # ------------------------------------------------------------------------------------------------- questions

    def ask(self, task: Task) -> Ask | None:
        """What the pod wants of cards, looked at once; None for most pods."""
        if task.uid not in self._asks:
            ask = None if self.way is None else self.way.ask_of(task, self._rules(task))
            self._asks[task.uid] = self._equal.setdefault(ask, ask)
        return self._asks[task.uid]

    def answers(self, ask: Ask) -> Answers:
        """How many further such pods each node takes, brought up to date."""
        answers = self._answers.get(ask)
        if answers is None:
            assert self.way is not None
            answers = self._answers[ask] = Answers(self.way, ask, self.standings(ask))
        answers.refresh()
        return answers

    def standings(self, ask: Ask) -> Standings:
        """The nodes' states as far as they matter for such pods."""
        key = (ask.avoid, bool(ask.uuids or ask.not_uuids))
        found = self._standings.get(key)
        if found is None:
            found = self._standings[key] = Standings(self, *key)
        return found

    def suitable(self, ask: Ask) -> Mask:
        """Nodes on which such a pod would get what it wants if no other used their cards."""
        assert self.way is not None
        named = bool(ask.uuids or ask.not_uuids)
        suitable = np.zeros(len(self.session.room.table), dtype=bool)
        for alike in self.alike.values() if not named else [[index] for index in self.boards]:
            empty = Board(self.boards[alike[0]].set).state((), named=named, in_order=self.way.in_order)
            suitable[alike] = step(self.way, empty, ask) is not None
        return suitable

    # ------------------------------------------------------------------------------------------------- bookkeeping

    def moved(self, gang: GangState, tasks: Sequence[Task], nodes: Sequence[int], sign: int) -> None:
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


class Standings:
    """The state of every node's cards by number, equal states having equal numbers."""

    def __init__(self, book: CardBook, avoid: Marks, named: bool) -> None:  # noqa: FBT001  half of a key
        assert book.way is not None
        self.states: list[State] = []
        self.of_node: Indexes = np.full(len(book.session.room.table), NO_CARDS, dtype=np.intp)
        numbers: dict[State, int] = {}
        in_order = book.way.in_order

        def look(index: int) -> None:
            state = book.boards[index].state(avoid, named=named, in_order=in_order)
            number = numbers.get(state)
            if number is None:
                number = numbers[state] = len(self.states)
                self.states.append(state)
            self.of_node[index] = number

        self.cache = NodeCache(book.log, book.boards, look)


class Answers:
    """How many further pods of one kind each node takes, and the score of each."""

    def __init__(self, way: ByNumber | Slices, ask: Ask, standings: Standings) -> None:
        self.way = way
        self.ask = ask
        self.standings = standings
        self._known: dict[State, tuple[float, ...]] = {}
        self._counts: Column = np.zeros(1, dtype=np.int64)  # by state; the last one is that of nodes without cards
        self._scores: Scores = np.zeros((1, 1))
        self._looked: Column = np.ones(1, dtype=bool)

    @property
    def copies(self) -> Column:
        copies: Column = self._counts[self.standings.of_node]
        return copies

    def scores(self, nodes: Indexes, copies: Column) -> Scores:
        """The score of the pod that comes after so many copies; nothing where it finds no cards."""
        within = copies < self._scores.shape[1]
        table = self._scores[self.standings.of_node[nodes], np.minimum(copies, self._scores.shape[1] - 1)]
        return np.where(within, table, 0.0)

    def refresh(self) -> None:
        self.standings.cache.refresh()
        states = self.standings.states
        missing = len(states) + 1 - len(self._counts)
        if missing > 0:
            missing = max(missing, len(self._counts))  # grow by doubling
            at = len(self._counts) - 1  # before the last
            self._counts = np.insert(self._counts, at, np.zeros(missing, dtype=np.int64))
            self._scores = np.insert(self._scores, at, np.zeros((missing, 1)), axis=0)
            self._looked = np.insert(self._looked, at, np.zeros(missing, dtype=bool))
        of_node = self.standings.of_node
        for number in np.unique(of_node[~self._looked[of_node]]).tolist():
            self._look(number, self.trajectory(states[number]))

    def _look(self, number: int, scores: tuple[float, ...]) -> None:
        if len(scores) > self._scores.shape[1]:
            wider = len(scores) - self._scores.shape[1]
            self._scores = np.pad(self._scores, ((0, 0), (0, wider)))
        self._counts[number] = len(scores)
        self._scores[number, : len(scores)] = scores
        self._looked[number] = True

    def trajectory(self, state: State) -> tuple[float, ...]:
        """The score of each further such pod, as many as the cards hold."""
        path: list[tuple[State, float]] = []
        while (rest := self._known.get(state)) is None:
            found = step(self.way, state, self.ask) if len(path) < COPIES_MAX else None
            if found is None:
                rest = ()
                break
            path.append((state, found[0]))
            state = found[1]
        for before, score in reversed(path):
            rest = self._known[before] = (score, *rest[: COPIES_MAX - 1])
        return rest
