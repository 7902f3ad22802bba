"""A line in which those who belong together stand behind one another, and only the first of each group compete.

The groups of a gang are its holder's (a user); those of a queue are the queues above it. When a turn charges a holder or a queue,
everybody of the same group moves back at once: in a plain heap they would all be in the wrong place. Without groups a line is
exactly a Heap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from pumice.scheduling.placing.heap import Heap

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

T = TypeVar("T")


class Line(Generic[T]):
    """`groups` names the groups of an item, the widest first; `before(a, b)` says whether a comes strictly before b.

    What `before` says of two items of one group must not depend on what the group is charged with.
    """

    def __init__(
        self,
        before: Callable[[T, T], bool],
        groups: Callable[[T], Sequence[Hashable]],
        items: Iterable[T] = (),
    ) -> None:
        self._before = before
        self._groups = groups
        self._root: _Group[T] = _Group(before)
        for item in items:
            self.push(item)

    def __len__(self) -> int:
        return len(self._root)

    def push(self, item: T) -> None:
        self._root.push(item, self._groups(item))

    def clear(self) -> None:
        """Send everybody away."""
        self._root = _Group(self._before)

    def pop(self) -> T:
        return self._root.pop()


class _Group(Generic[T]):
    """Items of its own, and groups inside it, each of which takes part with its first item."""

    head: T  # the first item, when the group got its rank

    def __init__(self, before: Callable[[T, T], bool]) -> None:
        self._before = before
        self._size = 0
        self._inner: dict[Hashable, _Group[T]] = {}
        self._own: Heap[T] = Heap(before)
        # Made by the first pop, anew after a push into a group that has its rank.
        self._ranked: Heap[_Group[T]] | None = None
        # The one that was popped from last: its rank is found when it is next needed.
        self._served: _Group[T] | None = None

    def __len__(self) -> int:
        return self._size

    def push(self, item: T, groups: Sequence[Hashable]) -> None:
        self._size += 1
        if not groups:
            self._own.push(item)
            return
        inner = self._inner.get(groups[0])
        if inner is None:
            inner = self._inner[groups[0]] = _Group(self._before)
        inner.push(item, groups[1:])
        if inner is not self._served:
            self._ranked = None

    def pop(self) -> T:
        self._size -= 1
        if not self._inner:
            return self._own.pop()
        ranked = self._rank()
        if self._own and (not ranked or self._before(self._own.first, ranked.first.head)):
            return self._own.pop()
        self._served = ranked.pop()
        return self._served.pop()

    @property
    def first(self) -> T:
        """Whoever is next."""
        if not self._inner:
            return self._own.first
        ranked = self._rank()
        if self._own and (not ranked or self._before(self._own.first, ranked.first.head)):
            return self._own.first
        return ranked.first.head

    def _rank(self) -> Heap[_Group[T]]:
        if self._ranked is None:
            groups = [each for each in self._inner.values() if each]
            for each in groups:
                each.head = each.first
            before = self._before
            self._ranked = Heap(lambda left, right: before(left.head, right.head), groups)
        elif self._served:
            self._served.head = self._served.first
            self._ranked.push(self._served)
        self._served = None
        return self._ranked
